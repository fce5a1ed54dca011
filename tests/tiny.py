"""Random checkpoints in the real Hugging Face layout, made by transformers itself."""

from pathlib import Path

import numpy as np
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

torch.set_num_threads(1)  # these models are tiny: threads would only wait for each other

VIDEO_PAD, VISION_START, VISION_END, YES, NO = 291, 292, 293, 7, 9
STOP = 999  # not a token, so that answers run to their full length


def qwen3_vl_config(*, kind=Qwen3VLConfig, text=None, vision=None, **top):
    """Five layers in each tower, odd sizes, DeepStack not at the first layers."""
    return kind(
        text_config=dict(
            vocab_size=300,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=5,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
            rope_parameters=dict(
                rope_type="default",
                rope_theta=5e6,
                mrope_section=[6, 3, 3],
                mrope_interleaved=True,
            ),
        )
        | (text or {}),
        vision_config=dict(
            depth=5,
            hidden_size=48,
            intermediate_size=80,
            num_heads=3,
            out_hidden_size=64,
            num_position_embeddings=49,
            deepstack_visual_indexes=[0, 2, 3],
        )
        | (vision or {}),
        **(
            dict(
                tie_word_embeddings=False,
                image_token_id=290,
                video_token_id=VIDEO_PAD,
                vision_start_token_id=VISION_START,
                vision_end_token_id=VISION_END,
            )
            | top
        ),
    )


def qwen3_vl_moe_config(*, text=None, **top) -> Qwen3VLMoeConfig:
    """As `qwen3_vl_config`, with two of six experts."""
    experts = dict(moe_intermediate_size=40, num_experts=6, num_experts_per_tok=2)
    return qwen3_vl_config(kind=Qwen3VLMoeConfig, text=experts | (text or {}), **top)


def perturb(model: torch.nn.Module, *, seed: int = 0) -> None:
    """Adds noise to every parameter: zeros and ones hide missing biases and scales."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.08 * torch.randn(parameter.shape, generator=generator)


def write(folder: Path, kind: type, config, *, seed: int = 0, shard: str = "5GB"):
    """Writes a checkpoint; returns the eager fp32 torch model that was written."""
    torch.manual_seed(seed)
    model = kind(config).eval()
    perturb(model, seed=seed)
    model.save_pretrained(folder, max_shard_size=shard)
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def qwen3_vl(folder: Path, *, seed: int = 0, shard: str = "5GB", **top):
    """A Qwen3-VL checkpoint, see `write`."""
    config = qwen3_vl_config(**top)
    return write(folder, Qwen3VLForConditionalGeneration, config, seed=seed, shard=shard)


def qwen3_vl_moe(folder: Path, *, seed: int = 0, **top):
    """A Qwen3-VL-MoE checkpoint, see `write`."""
    config = qwen3_vl_moe_config(**top)
    return write(folder, Qwen3VLMoeForConditionalGeneration, config, seed=seed)


def qwen2_5_vl_config(*, text=None, vision=None, **top) -> Qwen2_5_VLConfig:
    """Windows of 4 x 4 merged patches, full attention in two of the five layers of the tower."""
    ids = dict(image_token_id=290, video_token_id=VIDEO_PAD)
    ids |= dict(vision_start_token_id=VISION_START, vision_end_token_id=VISION_END)
    return Qwen2_5_VLConfig(
        text_config=dict(
            vocab_size=300,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-6,
            bos_token_id=1,
            eos_token_id=2,
            rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 2, 2]),
        )
        | (text or {}),
        vision_config=dict(
            depth=5,
            hidden_size=48,
            intermediate_size=80,
            num_heads=3,
            out_hidden_size=64,
            fullatt_block_indexes=[1, 4],
            tokens_per_second=2,
        )
        | (vision or {}),
        **(dict(tie_word_embeddings=False) | ids | top),
    )


def qwen2_5_vl(folder: Path, *, seed: int = 0, **top):
    """A Qwen2.5-VL checkpoint, see `write`."""
    config = qwen2_5_vl_config(**top)
    return write(folder, Qwen2_5_VLForConditionalGeneration, config, seed=seed)


def prompt_tokens(rng: np.random.Generator, *, groups: int, per_group: int, text: int):
    """int32[S]: per group three text tokens and a vision block, then `text` tokens."""
    ids = [1]
    for _ in range(groups):
        ids += [*rng.integers(10, 280, 3), VISION_START, *[VIDEO_PAD] * per_group, VISION_END]
    return np.array([*ids, *rng.integers(10, 280, text)], np.int32)
