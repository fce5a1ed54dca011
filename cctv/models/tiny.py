"""A small checkpoint of the Qwen3-VL architecture that the project makes itself.

Random weights, so it sees nothing: it is there so that every part runs without a download. Its
output rows of Yes and No are raised, so that it answers in words. The folder has the published
layout: config.json, tokenizer.json, model.safetensors.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import jax
import jax.numpy as jnp
import tokenizers
from flax import nnx
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from cctv.models import qwen3_vl, weights
from cctv.models.video_lm import VideoLM

VERSION = 1  # to be raised with every change of what `create` writes
CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
WIDTH = 96
# Random weights as they start a training mix all tokens evenly: every question would get the same
# answer. Larger kernels and sharper attention make the answer depend on the input.
KERNELS, SHARPNESS = 6, 3
WRITERS = (
    "decoder.layers.o.kernel", "decoder.layers.down.kernel", "vision.merger.fc2.kernel",
    "vision.deepstack_mergers.fc2.kernel",
)  # fmt: skip


def create(folder: Path, *, texts: Iterable[str], seed: int = 0) -> None:
    """Writes the checkpoint into `folder`, which must exist. `texts` train its tokenizer."""
    tokenizer = train_tokenizer(texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in CONTROL}
    _write(folder / "tokenizer_config.json", _tokenizer_config())
    _write(folder / "config.json", _hf_config(tokenizer.get_vocab_size(), ids))
    _write(folder / "generation_config.json", {"eos_token_id": [ids["<|im_end|>"]]})
    config = qwen3_vl.from_hf(folder)
    model = qwen3_vl.Model(config, rngs=nnx.Rngs(seed))
    answers = [tokenizer.token_to_id(word) for word in ("Yes", "No")]
    weights.save(folder, raise_answers(model, answers), qwen3_vl.rules(config))


def train_tokenizer(texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Byte-level BPE with Qwen's control tokens, and Yes and No as single tokens."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The two answers often enough to become tokens whatever the texts are.
    tokenizer.train_from_iterator([*texts, *["Yes", "No"] * 10_000], trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in CONTROL])
    return tokenizer


def raise_answers(model: VideoLM, answers: list[int]) -> VideoLM:
    """Makes Yes and No the two likeliest tokens, and which of them wins a matter of the input.

    The first coordinate of the residual stream is a constant: every token and visual feature begins
    with it and no layer writes to it. The two output rows read it, all others its negative; beside
    it the two are opposite.
    """
    first = jnp.zeros(WIDTH).at[0].set(1.0)
    apart = 0.1 * jax.random.normal(jax.random.key(1), (WIDTH,)).at[0].set(0)

    def change(path, leaf):
        name = weights.path_name(path)
        if name == "decoder.head.table":
            rows = jnp.stack([first + apart, first - apart])
            return leaf.at[:].set(-first).at[jnp.array(answers)].set(rows)
        if name in ("decoder.embed.table", "vision.merger.fc2.bias"):
            return leaf.at[..., 0].set(4.0)
        if name.endswith(("q_norm.scale", "k_norm.scale")):
            return SHARPNESS * leaf
        if name in WRITERS:
            leaf = leaf.at[..., 0].set(0)
        return KERNELS * leaf if name.endswith("kernel") else leaf

    return jax.tree_util.tree_map_with_path(change, model)


def _write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def _tokenizer_config() -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }


def _hf_config(vocab_size: int, ids: dict[str, int]) -> dict:
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "tie_word_embeddings": False,
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "text_config": {
            "model_type": "qwen3_vl_text",
            "vocab_size": vocab_size,
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
        "vision_config": {
            "model_type": "qwen3_vl_vision",
            "depth": 3,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "in_channels": 3,
            "out_hidden_size": WIDTH,
            "patch_size": 16,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0, 1],
            "hidden_act": "gelu_pytorch_tanh",
        },
    }
