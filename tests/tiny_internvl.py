"""Random InternVL3.5 checkpoints in both published layouts."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from tiny import perturb
from transformers import InternVLConfig, InternVLForConditionalGeneration

IMG, IMG_END, CONTEXT = 291, 292, 293
SIDE, PATCH = 4, 6  # patches a side of a frame, pixels a side of a patch
TOKENS = SIDE**2 // 4  # visual tokens of a frame


def config(*, vocab_size: int = 300, **top) -> InternVLConfig:
    """Odd sizes; the decoder has Qwen3's norms of q and k."""
    return InternVLConfig(
        text_config=dict(
            model_type="qwen3",
            vocab_size=vocab_size,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
            rope_parameters=dict(rope_type="default", rope_theta=1e6),
            tie_word_embeddings=False,
        ),
        vision_config=dict(
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=3,
            num_attention_heads=3,
            attention_bias=True,
            image_size=[SIDE * PATCH] * 2,
            patch_size=[PATCH] * 2,
        ),
        image_seq_length=TOKENS,
        **(dict(image_token_id=CONTEXT, tie_word_embeddings=False) | top),
    )


def create(folder: Path, *, seed: int = 0, **top):
    """Writes a folder of the `internvl` layout; returns the eager fp32 torch model written."""
    torch.manual_seed(seed)
    model = InternVLForConditionalGeneration(config(**top)).eval()
    perturb(model, seed=seed)
    model.save_pretrained(folder)
    return InternVLForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


# The other layout's name of each part, longest first where one begins another.
RENAMED = {
    "vision_tower.embeddings.cls_token": "vision_model.embeddings.class_embedding",
    "vision_tower.embeddings.position_embeddings": "vision_model.embeddings.position_embedding",
    "vision_tower.embeddings.patch_embeddings.projection.": (
        "vision_model.embeddings.patch_embedding."
    ),
    "vision_tower.encoder.layer.": "vision_model.encoder.layers.",
    "multi_modal_projector.layer_norm.": "mlp1.0.",
    "multi_modal_projector.linear_1.": "mlp1.1.",
    "multi_modal_projector.linear_2.": "mlp1.3.",
}
IN_LAYERS = {
    "attention.projection_layer": "attn.proj",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "lambda_1": "ls1",
    "lambda_2": "ls2",
}


def as_chat(folder: Path, out: Path) -> Path:
    """Writes the same checkpoint in the `internvl_chat` layout: other names, q, k and v fused."""
    theirs, tensors = load_file(folder / "model.safetensors"), {}
    for key in sorted(theirs):
        name = key
        for old, new in RENAMED.items():
            name = name.replace(old, new) if key.startswith(old) else name
        for old, new in IN_LAYERS.items():
            name = name.replace(f".{old}", f".{new}")
        if ".attention.q_proj." in name:
            parts = [theirs[key.replace("q_proj", f"{p}_proj")] for p in "qkv"]
            tensors[name.replace("attention.q_proj", "attn.qkv")] = np.concatenate(parts)
        elif ".attention." not in name:
            tensors[name] = theirs[key]
    out.mkdir(exist_ok=True)
    save_file(tensors, out / "model.safetensors")
    hf = json.loads((folder / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(chat_config(hf["text_config"])))
    return out


def chat_config(text: dict) -> dict:
    """config.json of the `internvl_chat` layout, with the fields of OpenGVLab/InternVL3_5-8B."""
    text = {k: v for k, v in text.items() if k not in ("rope_parameters", "layer_types")}
    return {
        "architectures": ["InternVLChatModel"],
        "auto_map": {"AutoModel": "modeling_internvl_chat.InternVLChatModel"},
        "downsample_ratio": 0.5,
        "dynamic_image_size": True,
        "eos_token_id": 151645,
        "force_image_size": SIDE * PATCH,
        "llm_config": {
            **text,
            "_name_or_path": "Qwen3-8B",
            "architectures": ["Qwen3ForCausalLM"],
            "debug": False,
            "ep_size": 1,
            "max_window_layers": 36,
            "micro_forward": False,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "skip_checkpoint": False,
            "use_deepep": False,
        },
        "max_dynamic_patch": 12,
        "min_dynamic_patch": 1,
        "model_type": "internvl_chat",
        "pad2square": False,
        "pad_token_id": 151643,
        "ps_version": "v2",
        "select_layer": -1,
        "template": "internvl2_5",
        "torch_dtype": "bfloat16",
        "use_backbone_lora": 0,
        "use_llm_lora": 0,
        "use_thumbnail": True,
        "vision_config": {
            "architectures": ["InternVisionModel"],
            "attention_dropout": 0.0,
            "drop_path_rate": 0.1,
            "dropout": 0.0,
            "hidden_act": "gelu",
            "hidden_size": 48,
            "image_size": SIDE * PATCH,
            "initializer_factor": 0.1,
            "initializer_range": 1e-10,
            "intermediate_size": 80,
            "layer_norm_eps": 1e-06,
            "model_type": "intern_vit_6b",
            "norm_type": "layer_norm",
            "num_attention_heads": 3,
            "num_channels": 3,
            "num_hidden_layers": 3,
            "patch_size": PATCH,
            "qk_normalization": False,
            "qkv_bias": True,
            "torch_dtype": "bfloat16",
            "use_bfloat16": True,
            "use_flash_attn": True,
            "use_moe": False,
        },
    }
