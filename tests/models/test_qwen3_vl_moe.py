"""What Qwen3-VL-MoE has of its own: config fields, the layouts of experts. Parity with transformers
is in test_qwen3_vl.py and tests/runs/test_families.py."""

import copy
import importlib
import json

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from flax import nnx
from safetensors.numpy import save_file

from cctv.data.errors import UserError
from cctv.decoding import sharding
from cctv.models import qwen3_vl_moe, weights
from cctv.models.experts import Experts
from cctv.models.weights import ConversionError, Rule

REAL = qwen3_vl_moe.VARIANTS["qwen3_vl_moe_30b_a3b"]
# config.json of Qwen/Qwen3-VL-30B-A3B-Instruct.
PUBLISHED = {
    "architectures": ["Qwen3VLMoeForConditionalGeneration"],
    "image_token_id": 151655,
    "model_type": "qwen3_vl_moe",
    "text_config": {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "decoder_sparse_step": 1,
        "dtype": "bfloat16",
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "initializer_range": 0.02,
        "intermediate_size": 6144,
        "max_position_embeddings": 262144,
        "mlp_only_layers": [],
        "model_type": "qwen3_vl_moe_text",
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "mrope_interleaved": True,
            "mrope_section": [24, 20, 20],
            "rope_type": "default",
        },
        "rope_theta": 5000000,
        "use_cache": True,
        "vocab_size": 151936,
    },
    "tie_word_embeddings": False,
    "transformers_version": "4.57.0.dev0",
    "video_token_id": 151656,
    "vision_config": {
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "in_channels": 3,
        "initializer_range": 0.02,
        "intermediate_size": 4304,
        "model_type": "qwen3_vl_moe",
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 2048,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
    "vision_end_token_id": 151653,
    "vision_start_token_id": 151652,
}


def write(folder, **text):
    config = copy.deepcopy(PUBLISHED)
    config["text_config"] |= text
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_published_config(tmp_path):
    assert qwen3_vl_moe.from_hf(write(tmp_path)) == REAL


def test_the_config_that_transformers_writes(tmp_path):
    """Version 5 calls the experts local ones."""
    tiny.qwen3_vl_moe_config().save_pretrained(tmp_path)
    assert "num_local_experts" in json.loads((tmp_path / "config.json").read_text())["text_config"]
    text = qwen3_vl_moe.from_hf(tmp_path).text
    assert (text.num_experts, text.experts_per_token, text.mlp_dim) == (6, 2, 40)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("norm_topk_prob", False, "norm_topk_prob=False is not supported"),
        ("decoder_sparse_step", 2, "decoder_sparse_step=2 is not supported"),
        ("mlp_only_layers", [0], "does not know the field mlp_only_layers"),
        ("num_experts", None, r"lacks \['num_experts'\]"),
        ("num_experts", "128", "num_experts must be a positive whole number"),
        ("num_experts_per_tok", 0, "num_experts_per_tok must be a positive whole number"),
        ("num_experts_per_tok", 129, "129 experts per token must be 1 to 128"),
        ("moe_intermediate_size", 1024, "can't be told from transposed ones"),
        ("moe_intermediate_size", 2048, "can't be told from transposed ones"),
        ("shared_expert_intermediate_size", 768, "does not know the field shared_expert"),
        ("output_router_logits", True, "does not know the field output_router_logits"),
    ],
)
def test_a_config_that_the_port_does_not_follow(tmp_path, name, value, words):
    with pytest.raises(UserError, match=words) as error:
        qwen3_vl_moe.from_hf(write(tmp_path, **{name: value}))
    assert "\n" not in str(error.value)
    assert "config.json" in str(error.value)


def test_config_file():
    module = importlib.import_module("configs.qwen3_vl_moe")
    assert set(module.CHECKPOINTS) == set(qwen3_vl_moe.VARIANTS)
    assert module.get_config().model.path == "Qwen/Qwen3-VL-30B-A3B-Instruct"
    with pytest.raises(ValueError, match="not '235b'"):
        module.get_config("235b")


RULES = (
    Rule(key="gate.weight", path="router.kernel", kind="transpose"),
    Rule(key="gate_up", path="gate_up", kind="halves", either_order=True),
    Rule(key="down", path="down", either_order=True),
)


@pytest.mark.parametrize("turned", [False, True])
def test_experts_in_either_order(tmp_path, turned):
    rng = np.random.default_rng(0)
    gate, up = rng.standard_normal((2, 4, 8, 6)).astype(np.float32)  # [experts, in, out]
    down = rng.standard_normal((4, 6, 8)).astype(np.float32)
    tensors = {"gate_up": np.concatenate([gate, up], axis=2), "down": down}
    if turned:
        tensors = {k: np.ascontiguousarray(v.swapaxes(1, 2)) for k, v in tensors.items()}
    tensors["gate.weight"] = rng.standard_normal((4, 8)).astype(np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    abstract = nnx.eval_shape(lambda: Experts(8, 6, count=4, active=2, rngs=nnx.Rngs(0)))
    model = weights.load(tmp_path, abstract, RULES, dtype=jnp.float32)
    np.testing.assert_array_equal(model.gate_up[...], np.stack([gate, up], axis=2))
    np.testing.assert_array_equal(model.down[...], down)
    np.testing.assert_array_equal(model.router.kernel[...], tensors["gate.weight"].T)
    wider = nnx.eval_shape(lambda: Experts(8, 7, count=4, active=2, rngs=nnx.Rngs(0)))
    with pytest.raises(ConversionError, match=r"gate_up is .*, expected \(4, 8, 14\)"):
        weights.load(tmp_path, wider, RULES, dtype=jnp.float32)


@pytest.mark.parametrize("devices", [1, 4, 8])
def test_experts_are_split_over_a_mesh(devices):
    """The 30B: all but norms, router and most of the vision tower, by the width of each expert."""
    abstract = nnx.eval_shape(lambda: qwen3_vl_moe.Model(REAL, rngs=nnx.Rngs(0)))
    shapes = {path: leaf.shape for path, leaf in weights.leaves(abstract).items()}
    total = weights.parameter_count(abstract)
    held = sharding.scalars_per_device(shapes, config=REAL.text, model=devices)
    assert total / devices <= held <= total / devices + 0.03 * total
    for name, axis in (("gate_up", 4), ("down", 2)):
        path = f"decoder.layers.experts.{name}"
        spec = sharding.spec(path, shapes[path], config=REAL.text, model=devices)
        assert spec[axis] == "model"
        assert shapes[path][axis] == 768


def test_active_parameters():
    """About three billion of thirty-one work on a token."""
    abstract = nnx.eval_shape(lambda: qwen3_vl_moe.Model(REAL, rngs=nnx.Rngs(0)))
    total = weights.parameter_count(abstract)
    assert total == 31_070_754_032  # as transformers counts it on the meta device
    vision = weights.parameter_count(abstract.vision)
    tables = 2 * 151936 * 2048
    assert 2.5e9 < total - REAL.text.idle_parameters - vision - tables < 3.5e9
