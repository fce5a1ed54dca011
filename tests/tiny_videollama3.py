"""Random VideoLLaMA3 checkpoints in both published layouts."""

import json
from pathlib import Path

import torch
from safetensors.numpy import load_file, save_file
from tiny import perturb
from transformers import VideoLlama3Config, VideoLlama3ForConditionalGeneration

PAD, YES, NO = 291, 7, 9
PATCH_DIM = 588  # 3 * 14 * 14


def config(*, vocab_size: int = 300, video_token_id: int = PAD, tie: bool = False):
    """Three layers in each tower, odd sizes."""
    return VideoLlama3Config(
        text_config=dict(
            model_type="qwen2",
            vocab_size=vocab_size,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1e6),
            tie_word_embeddings=tie,
        ),
        vision_config=dict(
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=3,
            num_attention_heads=3,
            patch_size=14,
        ),
        image_token_id=video_token_id - 1,
        video_token_id=video_token_id,
        tie_word_embeddings=tie,
    )


def create(folder: Path, *, seed: int = 0, **sizes):
    """Writes a folder of transformers' layout; returns the eager fp32 torch model written."""
    torch.manual_seed(seed)
    model = VideoLlama3ForConditionalGeneration(config(**sizes)).eval()
    perturb(model, seed=seed)
    model.save_pretrained(folder)
    return VideoLlama3ForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


# The original layout's name of each part.
RENAMED = {
    "model.vision_model.": "model.vision_encoder.",
    "model.projector.": "model.mm_projector.",
    "model.language_model.": "model.",
}


def as_original(source: Path, folder: Path) -> Path:
    """The same weights in the original layout, its config.json with the published fields."""
    tensors = {}
    for key, tensor in load_file(source / "model.safetensors").items():
        for theirs, name in RENAMED.items():
            key = key.replace(theirs, name)
        tensors[key] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    hf = json.loads((source / "config.json").read_text())
    text, vision = hf["text_config"], hf["vision_config"]
    same = ("attention_dropout", "hidden_act", "hidden_size", "initializer_range",
            "intermediate_size", "max_position_embeddings", "num_attention_heads",
            "num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "vocab_size")  # fmt: skip
    own = {
        "architectures": ["Videollama3Qwen2ForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_videollama3.Videollama3Qwen2Config"},
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "image_token_index": hf["video_token_id"],
        "max_window_layers": 21,
        "mm_projector_type": "mlp2x_gelu",
        "model_type": "videollama3_qwen2",
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": hf["tie_word_embeddings"],
        "torch_dtype": "bfloat16",
        "transformers_version": "4.46.3",
        "use_cache": False,
        "use_sliding_window": False,
        "use_token_compression": True,
        "vision_encoder": None,
        "vision_encoder_config": {
            "model_type": "videollama3_vision_encoder",
            **{name: vision[name] for name in ("hidden_size", "intermediate_size",
               "num_attention_heads", "num_hidden_layers", "patch_size")},
        },
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps({n: text[n] for n in same} | own))
    return folder
