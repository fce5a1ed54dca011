"""Qwen2.5-VL (Qwen team, 2025; arXiv 2502.13923; Hugging Face `Qwen/Qwen2.5-VL-*-Instruct`).

A vision tower with window attention, a Qwen2.5 decoder with chunked multi-axis rotary positions
whose time axis counts real time, and the whole video as one block of the prompt.

transformers reads two layouts of config.json: the published one has the decoder's fields at the top
level, version 5 writes them as `text_config`. The keys of the weights are the same in both.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cctv.data import preprocess
from cctv.data.errors import UserError
from cctv.data.preprocess import Clip
from cctv.data.qwen2_5_video import Qwen25VideoProcessor
from cctv.models import decoder_files, hf_config, processor_files, qwen_chat, tokenizers
from cctv.models.base import Prompt
from cctv.models.decoder import DecoderConfig
from cctv.models.encoder import Encoder
from cctv.models.hf_config import INDEX, INDICES, POSITIVE, SIZE, SWITCH
from cctv.models.qwen2_5_vit import VisionConfig, Windows, WindowTower, windows
from cctv.models.video_lm import VideoLM
from cctv.models.weights import Rule, linear, norm


@dataclass(frozen=True, kw_only=True)
class Config:
    """Both towers, the control token, and how far a second goes on the time axis of positions."""

    vision: VisionConfig
    text: DecoderConfig
    video_token_id: int = 151656
    tokens_per_second: float = 2


def _variant(**text) -> Config:
    vision = dict(width=1280, mlp_dim=3420, num_layers=32, num_heads=16)
    return Config(
        text=DecoderConfig(
            head_dim=128, rope_theta=1e6, qkv_bias=True, mrope_section=(16, 24, 24), **text
        ),
        vision=VisionConfig(out_width=text["width"], full_layers=(7, 15, 23, 31), **vision),
    )


# Sizes from the published config.json of each checkpoint.
VARIANTS = {
    "qwen2_5_vl_3b": _variant(
        vocab_size=151936, width=2048, mlp_dim=11008, num_layers=36, num_heads=16, num_kv_heads=2,
        tie_embeddings=True,
    ),
    "qwen2_5_vl_7b": _variant(
        vocab_size=152064, width=3584, mlp_dim=18944, num_layers=28, num_heads=28, num_kv_heads=4,
    ),
}  # fmt: skip

Model = functools.partial(VideoLM, WindowTower)

# What config.json has at the top level beside the decoder's fields.
TOP = (
    "video_token_id", "vision_config", "text_config", "tie_word_embeddings", "image_token_id",
    "vision_start_token_id", "vision_end_token_id", "vision_token_id",
)  # fmt: skip


def from_hf(folder: Path) -> Config:
    """The config of a checkpoint folder. UserError for a field the port does not follow."""
    hf, where = hf_config.read(folder, model_type="qwen2_5_vl"), str(folder / "config.json")
    nested = "text_config" in hf
    text = hf_config.section(hf, "text_config", where=where) if nested else hf
    top = hf if nested else {name: hf[name] for name in TOP if name in hf}
    text = text if nested else {name: hf[name] for name in hf if name not in TOP}
    ids = hf_config.take(top, {"video_token_id": INDEX}, where=where, known=TOP)
    ties = (hf_config.optional(c, "tie_word_embeddings", SWITCH, where=where) for c in (hf, text))
    vision = hf_config.section(hf, "vision_config", where=where)
    try:
        return Config(
            text=decoder_files.config(
                text, tie=any(ties), where=where, qkv_bias=True, mrope="chunked"
            ),
            **_vision(vision, where=f"{where}, vision_config"),
            **ids,
        )
    except UserError:
        raise
    except ValueError as error:  # sizes that don't fit each other
        raise UserError(f"{where}: {error}") from None


def _vision(hf: dict, *, where: str) -> dict:
    """`vision` and `tokens_per_second` of the config. Published files say in_chans for in_channels
    and repeat the patch size."""
    names = dict(
        width="hidden_size", mlp_dim="intermediate_size", num_layers="depth", num_heads="num_heads",
        out_width="out_hidden_size", patch_size="patch_size", channels="in_channels",
        temporal_patch_size="temporal_patch_size", merge_size="spatial_merge_size",
        window_size="window_size", full_layers="fullatt_block_indexes",
    )  # fmt: skip
    hf = {("in_channels" if name == "in_chans" else name): value for name, value in hf.items()}
    kinds = dict.fromkeys(names.values(), SIZE)
    kinds |= {"fullatt_block_indexes": INDICES, "tokens_per_second": POSITIVE}
    values = hf_config.take(
        hf,
        kinds,
        where=where,
        fixed={
            "hidden_act": ("silu",),
            "spatial_patch_size": (hf.get("patch_size"),),
            "rope_parameters": (None, {"rope_theta": 10000.0, "rope_type": "axial"}),
        },
    )
    sizes = {ours: values[theirs] for ours, theirs in names.items()}
    sizes["full_layers"] = tuple(sizes["full_layers"])
    return {"vision": VisionConfig(**sizes), "tokens_per_second": values["tokens_per_second"]}


def rules(c: Config) -> list[Rule]:
    """Where each tensor of the published layout goes."""
    v, block = c.vision, "visual.blocks.{}"
    kernel = (v.channels, v.temporal_patch_size, *[v.patch_size] * 2)
    patch = "visual.patch_embed.proj.weight"
    out = [
        Rule(key=patch, path="vision.patch.kernel", kind="conv", kernel=kernel),
        *norm("visual.merger.ln_q", "vision.merger.norm", bias=False),
        *linear("visual.merger.mlp.0", "vision.merger.fc1", bias=True),
        *linear("visual.merger.mlp.2", "vision.merger.fc2", bias=True),
    ]
    for name in ("norm1", "norm2"):
        out += norm(f"{block}.{name}", f"vision.layers.{name}", bias=False)
    for name in ("qkv", "proj"):
        out += linear(f"{block}.attn.{name}", f"vision.layers.{name}", bias=True)
    for name in ("gate", "up", "down"):
        out += linear(f"{block}.mlp.{name}_proj", f"vision.layers.{name}", bias=True)
    return out + decoder_files.rules(c.text, "model")


TIED = ("lm_head.weight", "model.embed_tokens.weight")


def positions(
    tokens: np.ndarray,
    visual: np.ndarray,
    *,
    times: np.ndarray,
    rows: int,
    columns: int,
) -> Prompt:
    """Rotary positions aligned to absolute time (arXiv 2502.13923, section 2.1.2).

    Text advances all three axes by one. A visual token is at (time, row, column) from where the
    text stopped; times: int[G], of each group of rows x columns tokens. Text goes on one after the
    largest position of the video on any axis.

    That is the rule the checkpoints came out with and that transformers 4.57.6 and vLLM follow;
    transformers 5 goes on at max(rows, columns), so that text overlaps the video in time.
    """
    grid = np.stack(np.mgrid[: len(times), :rows, :columns], axis=-1).reshape(-1, 3)
    grid[:, 0] = times[grid[:, 0]]
    out = np.empty((len(tokens), 3), np.int32)
    (seen,) = np.nonzero(visual >= 0)
    first, last = seen[0], seen[-1] + 1
    after = first + grid.max() + 1
    out[:first] = np.arange(first)[:, None]
    out[first:last] = first + grid[visual[first:last]]
    out[last:] = (after + np.arange(len(tokens) - last))[:, None]
    return Prompt(tokens, out, visual, int(after + len(tokens) - last))


def time_positions(times: np.ndarray, *, pair: int, tokens_per_second: float) -> np.ndarray:
    """int[G]: how far each group of `pair` frames lies from the first on the time axis.

    times: seconds of the frames, as the file has them. The reference steps evenly by
    tokens_per_second * pair / rate, with the mean rate of the sampled frames; this is the same for
    evenly spread frames up to the rounding of one position, and right where frames were left out or
    the rate varies. transformers 4.57.6 cuts the step of a group to whole seconds, which here
    is not done.
    """
    seconds = np.asarray(times, np.float64)[::pair]
    # Times are off by rounding, which must not cost a position: hence the 1e-6.
    return np.floor((seconds - seconds[0]) * tokens_per_second + 1e-6).astype(np.int64)


OPTIONS = ("system_prompt",)


def processor(config: Config, **video) -> Qwen25VideoProcessor:
    """The processor that fits a model; `video` sets its other fields."""
    v = config.vision
    return Qwen25VideoProcessor(
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
    system_prompt: str | None = None,
) -> Encoder:
    """The host side of a checkpoint folder. `video` overrides fields of the processor."""
    v, frames = config.vision, processor(config, **(video or {}))
    tokenizer = tokenizers.load(folder)
    control, size = {qwen_chat.VIDEO_PAD: config.video_token_id}, config.text.vocab_size
    tokenizers.check(tokenizer, folder, control=control, vocab_size=size)

    def inputs(clip: Clip) -> Windows:
        return windows(preprocess.patches_of(clip.frames, frames), *clip.grid[1:], v)

    def ids(text: str, clip: Clip, counts: Sequence[int]) -> list[int]:
        start, end = map(tokenizer.id, (qwen_chat.VISION_START, qwen_chat.VISION_END))
        return [
            *qwen_chat.system_ids(tokenizer, system_prompt),
            *(tokenizer.id(qwen_chat.START), *tokenizer.encode("user\n")),
            *(start, *[config.video_token_id] * sum(counts), end),
            *qwen_chat.question_ids(tokenizer, text),
        ]

    def place(tokens: np.ndarray, visual: np.ndarray, clip: Clip) -> Prompt:
        rows, columns = (n // v.merge_size for n in clip.grid[1:])
        times = time_positions(
            clip.times, pair=v.temporal_patch_size, tokens_per_second=config.tokens_per_second
        )
        return positions(tokens, visual, times=times, rows=rows, columns=columns)

    return Encoder(
        processor=frames,
        tokenizer=tokenizer,
        # End of turn, and what generation_config.json adds to it.
        stop_ids=tuple(sorted({tokenizer.id(qwen_chat.END), *hf_config.stop_ids(folder)})),
        visual_id=config.video_token_id,
        inputs=inputs,
        ids=ids,
        positions=place,
        options={"system_prompt": system_prompt},
        notes=processor_files.compare(folder, frames),
    )
