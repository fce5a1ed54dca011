"""Qwen3-VL (Qwen team, 2025; Hugging Face `Qwen/Qwen3-VL-*-Instruct`).

A vision tower with DeepStack, a Qwen3 decoder with interleaved multi-axis rotary positions, one
time stamp and one vision block for each pair of frames.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cctv.data import preprocess
from cctv.data.errors import UserError
from cctv.data.preprocess import Clip
from cctv.data.qwen_video import QwenVideoProcessor
from cctv.models import decoder_files, hf_config, processor_files, qwen_chat, tokenizers
from cctv.models.base import Prompt
from cctv.models.decoder import DecoderConfig
from cctv.models.encoder import Encoder
from cctv.models.hf_config import INDEX, INDICES, SIZE
from cctv.models.qwen_vit import Groups, VisionConfig, VisionTower, groups
from cctv.models.video_lm import VideoLM
from cctv.models.weights import Rule, linear, norm

MODEL_TYPE = "qwen3_vl"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Both towers and the control tokens."""

    vision: VisionConfig
    text: DecoderConfig
    video_token_id: int = 151656


def variant(text: dict, vision: dict) -> Config:
    """A published size: what differs between them."""
    text = dict(
        vocab_size=151936, num_kv_heads=8, head_dim=128, rope_theta=5e6, qk_norm=True,
        mrope_section=(24, 20, 20), mrope_interleaved=True,
    ) | text  # fmt: skip
    return Config(
        text=DecoderConfig(**text),
        vision=VisionConfig(num_heads=16, out_width=text["width"], **vision),
    )


# Sizes from the published config.json of each checkpoint.
VARIANTS = {
    "qwen3_vl_2b": variant(
        dict(width=2048, mlp_dim=6144, num_layers=28, num_heads=16, tie_embeddings=True),
        dict(width=1024, mlp_dim=4096, num_layers=24, deepstack=(5, 11, 17)),
    ),
    "qwen3_vl_8b": variant(
        dict(width=4096, mlp_dim=12288, num_layers=36, num_heads=32),
        dict(width=1152, mlp_dim=4304, num_layers=27, deepstack=(8, 16, 24)),
    ),
}


Model = functools.partial(VideoLM, VisionTower)


def from_hf(folder: Path, *, model_type: str = MODEL_TYPE, sparse: bool = False) -> Config:
    """The config of a checkpoint folder. UserError for a field the port does not follow.

    sparse: the decoder is a mixture of experts.
    """
    hf, where = hf_config.read(folder, model_type=model_type), str(folder / "config.json")
    top = hf_config.take(
        hf,
        {"video_token_id": INDEX},
        where=where,
        known=("text_config", "vision_config", "tie_word_embeddings", "image_token_id",
               "vision_start_token_id", "vision_end_token_id"),
    )  # fmt: skip
    t, v = (hf_config.section(hf, f"{s}_config", where=where) for s in ("text", "vision"))
    tie = hf_config.tied(hf, t, where=where)
    try:
        return Config(
            text=decoder_files.config(
                t,
                tie=tie,
                where=f"{where}, text_config",
                qk_norm=True,
                mrope="interleaved",
                sparse=sparse,
            ),
            vision=_vision_config(v, where=f"{where}, vision_config"),
            **top,
        )
    except UserError:
        raise
    except ValueError as error:  # sizes that don't fit each other
        raise UserError(f"{where}: {error}") from None


def _vision_config(hf: dict, *, where: str) -> VisionConfig:
    names = dict(
        width="hidden_size", mlp_dim="intermediate_size", num_layers="depth", num_heads="num_heads",
        out_width="out_hidden_size", patch_size="patch_size", channels="in_channels",
        temporal_patch_size="temporal_patch_size", merge_size="spatial_merge_size",
    )  # fmt: skip
    values = hf_config.take(
        hf,
        {name: SIZE for name in (*names.values(), "num_position_embeddings")}
        | {"deepstack_visual_indexes": INDICES},
        where=where,
        fixed={
            "hidden_act": ("gelu_pytorch_tanh",),
            "rope_parameters": (None, {"rope_theta": 10000.0, "rope_type": "axial"}),
        },
    )
    side = int(values["num_position_embeddings"] ** 0.5)
    if side**2 != values["num_position_embeddings"]:
        raise UserError(f"{where}: num_position_embeddings must be a square")
    return VisionConfig(
        **{ours: values[theirs] for ours, theirs in names.items()},
        table_side=side,
        deepstack=tuple(values["deepstack_visual_indexes"]),
    )


def rules(c: Config) -> list[Rule]:
    """Where each tensor of the published layout goes."""
    v, t = "model.visual", "model.language_model"
    block = f"{v}.blocks.{{}}"
    merger, deep = f"{v}.merger", f"{v}.deepstack_merger_list.{{}}"
    kernel = (c.vision.channels, c.vision.temporal_patch_size, *[c.vision.patch_size] * 2)
    out = [
        Rule(key=f"{v}.patch_embed.proj.weight", path="vision.patch.kernel", kind="conv",
             kernel=kernel),
        Rule(key=f"{v}.patch_embed.proj.bias", path="vision.patch.bias"),
        Rule(key=f"{v}.pos_embed.weight", path="vision.table.table"),
    ]  # fmt: skip
    for theirs, ours in (("norm1", "norm1"), ("norm2", "norm2")):
        out += norm(f"{block}.{theirs}", f"vision.layers.{ours}", bias=True)
    for theirs, ours in (("attn.qkv", "qkv"), ("attn.proj", "proj"), ("mlp.linear_fc1", "fc1"),
                         ("mlp.linear_fc2", "fc2")):  # fmt: skip
        out += linear(f"{block}.{theirs}", f"vision.layers.{ours}", bias=True)
    for theirs, ours in ((merger, "merger"), (deep, "deepstack_mergers")):
        if ours == "merger" or c.vision.deepstack:
            out += norm(f"{theirs}.norm", f"vision.{ours}.norm", bias=True)
            out += linear(f"{theirs}.linear_fc1", f"vision.{ours}.fc1", bias=True)
            out += linear(f"{theirs}.linear_fc2", f"vision.{ours}.fc2", bias=True)
    return out + decoder_files.rules(c.text, t)


TIED = ("lm_head.weight", "model.language_model.embed_tokens.weight")


def positions(tokens: np.ndarray, visual: np.ndarray, rows: int, columns: int) -> Prompt:
    """Interleaved-MRoPE positions (Qwen3-VL technical report, arXiv 2511.21631, section 2.1).

    Text advances all three axes by one. A group of rows x columns visual tokens keeps the time
    axis where the text stopped and spreads over the other two; text goes on max(rows, columns)
    further. Groups are separated by their time stamps, so each is a grid of its own.
    """
    out = np.empty((len(tokens), 3), np.int32)
    grid = np.stack(np.mgrid[:1, :rows, :columns], axis=-1).reshape(-1, 3)
    at, i = 0, 0
    while i < len(tokens):
        if visual[i] < 0:
            out[i] = at
            at, i = at + 1, i + 1
        else:
            out[i : i + len(grid)] = at + grid
            at, i = at + max(rows, columns), i + len(grid)
    return Prompt(tokens, out, visual, at)


OPTIONS = ("system_prompt", "outer_vision_markers")


def processor(config: Config, **video) -> QwenVideoProcessor:
    """The processor that fits a model; `video` sets its other fields."""
    v = config.vision
    return QwenVideoProcessor(
        patch_size=v.patch_size,
        temporal_patch_size=v.temporal_patch_size,
        merge_size=v.merge_size,
        **video,
    )


def encoder(
    folder: Path,
    config: Config,
    *,
    video: dict | None = None,
    outer_vision_markers: bool = False,
    system_prompt: str | None = None,
) -> Encoder:
    """The host side of a checkpoint folder. `video` overrides fields of `QwenVideoProcessor`."""
    v, frames = config.vision, processor(config, **(video or {}))
    tokenizer = tokenizers.load(folder)
    tokenizers.check(
        tokenizer,
        folder,
        control={qwen_chat.VIDEO_PAD: config.video_token_id},
        vocab_size=config.text.vocab_size,
    )

    def inputs(clip: Clip) -> Groups:
        return groups(preprocess.patches_of(clip.frames, frames), *clip.grid[1:], v)

    def ids(text: str, clip: Clip, counts: Sequence[int]) -> list[int]:
        return qwen_chat.prompt_ids(
            tokenizer,
            text,
            time_stamps=frames.time_stamps(clip.times),
            tokens_per_group=counts[0],
            outer_vision_markers=outer_vision_markers,
            system=system_prompt,
        )

    def place(tokens: np.ndarray, visual: np.ndarray, clip: Clip) -> Prompt:
        return positions(tokens, visual, *(n // v.merge_size for n in clip.grid[1:]))

    return Encoder(
        processor=frames,
        tokenizer=tokenizer,
        # End of turn, and what generation_config.json adds to it.
        stop_ids=tuple(sorted({tokenizer.id(qwen_chat.END), *hf_config.stop_ids(folder)})),
        visual_id=config.video_token_id,
        inputs=inputs,
        ids=ids,
        positions=place,
        options={"outer_vision_markers": outer_vision_markers, "system_prompt": system_prompt},
        notes=processor_files.compare(folder, frames),
    )
