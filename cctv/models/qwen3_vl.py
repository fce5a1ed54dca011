"""Qwen3-VL (Qwen team, 2025; Hugging Face `Qwen/Qwen3-VL-*-Instruct`).

A vision tower with DeepStack, a Qwen3 decoder with interleaved multi-axis rotary positions, one
time stamp and one vision block for each pair of frames.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data import preprocess
from cctv.data.errors import UserError
from cctv.data.preprocess import Clip, QwenVideoProcessor
from cctv.models import hf_config, processor_files, qwen_chat, tokenizers
from cctv.models.base import Prompt
from cctv.models.decoder import Cache, Decoder, DecoderConfig, Prefix
from cctv.models.hf_config import INDEX, INDICES, OBJECT, POSITIVE, SIZE, SWITCH
from cctv.models.qwen_vit import Groups, VisionConfig, VisionTower, groups
from cctv.models.weights import Rule, linear, norm

MODEL_TYPE = "qwen3_vl"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Both towers and the control tokens."""

    vision: VisionConfig
    text: DecoderConfig
    video_token_id: int = 151656


def _variant(text: dict, vision: dict) -> Config:
    text = dict(
        vocab_size=151936, num_kv_heads=8, head_dim=128, rope_theta=5e6, qk_norm=True,
        mrope_section=(24, 20, 20), mrope_interleaved=True, **text,
    )  # fmt: skip
    return Config(
        text=DecoderConfig(**text),
        vision=VisionConfig(num_heads=16, out_width=text["width"], **vision),
    )


# Sizes from the published config.json of each checkpoint.
VARIANTS = {
    "qwen3_vl_2b": _variant(
        dict(width=2048, mlp_dim=6144, num_layers=28, num_heads=16, tie_embeddings=True),
        dict(width=1024, mlp_dim=4096, num_layers=24, deepstack=(5, 11, 17)),
    ),
    "qwen3_vl_8b": _variant(
        dict(width=4096, mlp_dim=12288, num_layers=36, num_heads=32),
        dict(width=1152, mlp_dim=4304, num_layers=27, deepstack=(8, 16, 24)),
    ),
}


class Model(nnx.Module):
    """Weights of both towers."""

    def __init__(self, c: Config, *, rngs: nnx.Rngs):
        self.config = c
        self.vision = VisionTower(c.vision, rngs=rngs)
        self.decoder = Decoder(c.text, rngs=rngs)

    @property
    def decoder_config(self) -> DecoderConfig:
        return self.config.text

    def encode_video(self, inputs: Groups) -> jax.Array:
        """float[G, V, 1 + E, D], see `VisionTower`."""
        return self.vision(inputs)

    def __call__(
        self,
        tokens: jax.Array,
        *,
        positions: jax.Array,
        cache: Cache,
        start: jax.Array | int,
        first: jax.Array | None = None,
        prefix: Sequence[Prefix] = (),
        features: jax.Array | None = None,
        rows: jax.Array | None = None,
        cache_only: bool = False,
    ) -> tuple[jax.Array | None, Cache]:
        """See `cctv.models.base.Model`: visual tokens take their feature, text its embedding."""
        x, deepstack = self.decoder.embed(tokens), None  # [B, T, D]
        if rows is not None:
            is_visual = (rows >= 0)[..., None, None]
            taken = jnp.where(is_visual, features[rows], 0).astype(x.dtype)  # [B, T, 1 + E, D]
            x = jnp.where(is_visual[..., 0], taken[:, :, 0], x)
            deepstack = jnp.moveaxis(taken[:, :, 1:], 2, 0)  # [E, B, T, D]
        return self.decoder(
            x,
            positions=positions,
            cache=cache,
            start=start,
            first=first,
            prefix=prefix,
            deepstack=deepstack,
            cache_only=cache_only,
        )

    def logits(self, hidden: jax.Array) -> jax.Array:
        """float32[…, vocabulary]."""
        return self.decoder.logits(hidden)


def from_hf(folder: Path) -> Config:
    """The config of a checkpoint folder. UserError for a field the port does not follow."""
    hf, where = hf_config.read(folder, model_type=MODEL_TYPE), str(folder / "config.json")
    top = hf_config.take(
        hf,
        {"video_token_id": INDEX},
        where=where,
        known=("text_config", "vision_config", "tie_word_embeddings", "image_token_id",
               "vision_start_token_id", "vision_end_token_id"),
    )  # fmt: skip
    t, v = (hf_config.section(hf, f"{s}_config", where=where) for s in ("text", "vision"))
    ties = (hf_config.optional(c, "tie_word_embeddings", SWITCH, where=where) for c in (hf, t))
    tie = next((value for value in ties if value is not None), False)
    try:
        return Config(
            text=_text_config(t, tie=tie, where=f"{where}, text_config"),
            vision=_vision_config(v, where=f"{where}, vision_config"),
            **top,
        )
    except UserError:
        raise
    except ValueError as error:  # sizes that don't fit each other
        raise UserError(f"{where}: {error}") from None


def _text_config(hf: dict, *, tie: bool, where: str) -> DecoderConfig:
    names = dict(
        vocab_size="vocab_size", width="hidden_size", mlp_dim="intermediate_size",
        num_layers="num_hidden_layers", num_heads="num_attention_heads",
        num_kv_heads="num_key_value_heads", head_dim="head_dim", norm_eps="rms_norm_eps",
    )  # fmt: skip
    values = hf_config.take(
        hf,
        {name: POSITIVE if name == "rms_norm_eps" else SIZE for name in names.values()},
        where=where,
        fixed={"hidden_act": ("silu",), "attention_bias": (False,)},
        known=("rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings"),
    )
    # transformers 5 writes rope_parameters; 4.57 wrote rope_scaling and rope_theta beside it.
    scaling, parameters = (
        hf_config.optional(hf, name, OBJECT, where=where) or {}
        for name in ("rope_scaling", "rope_parameters")
    )
    rope = {"rope_theta": hf.get("rope_theta")} | scaling | parameters
    rope = hf_config.take(
        rope,
        {"rope_theta": POSITIVE, "mrope_section": INDICES},
        where=f"{where}, rope",
        fixed={"rope_type": ("default",), "type": ("default",), "mrope_interleaved": (True,)},
    )
    if len(rope["mrope_section"]) != 3:
        raise UserError(f"{where}: mrope_section must have three entries (time, row, column)")
    return DecoderConfig(
        **{ours: values[theirs] for ours, theirs in names.items()},
        qk_norm=True,
        tie_embeddings=tie,
        rope_theta=float(rope["rope_theta"]),
        mrope_section=tuple(rope["mrope_section"]),
        mrope_interleaved=True,
    )


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
    block, layer = f"{v}.blocks.{{}}", f"{t}.layers.{{}}"
    merger, deep = f"{v}.merger", f"{v}.deepstack_merger_list.{{}}"
    kernel = (c.vision.channels, c.vision.temporal_patch_size, *[c.vision.patch_size] * 2)
    out = [
        Rule(key=f"{v}.patch_embed.proj.weight", path="vision.patch.kernel", kind="conv",
             kernel=kernel),
        Rule(key=f"{v}.patch_embed.proj.bias", path="vision.patch.bias"),
        Rule(key=f"{v}.pos_embed.weight", path="vision.table.table"),
        Rule(key=f"{t}.embed_tokens.weight", path="decoder.embed.table"),
        *norm(f"{t}.norm", "decoder.norm", bias=False),
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
    for theirs, ours in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "mlp_norm"),
                         ("self_attn.q_norm", "q_norm"),
                         ("self_attn.k_norm", "k_norm")):  # fmt: skip
        out += norm(f"{layer}.{theirs}", f"decoder.layers.{ours}", bias=False)
    for name in "qkvo":
        out += linear(f"{layer}.self_attn.{name}_proj", f"decoder.layers.{name}", bias=False)
    for name in ("gate", "up", "down"):
        out += linear(f"{layer}.mlp.{name}_proj", f"decoder.layers.{name}", bias=False)
    if not c.text.tie_embeddings:
        out.append(Rule(key="lm_head.weight", path="decoder.head.table"))
    return out


TIED = ("lm_head.weight", "model.language_model.embed_tokens.weight")


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Frames and a question to the model's input. Made by `encoder`."""

    config: Config
    processor: QwenVideoProcessor
    tokenizer: tokenizers.Tokenizer
    stop_ids: tuple[int, ...]
    outer_vision_markers: bool
    system_prompt: str | None
    notes: tuple[str, ...] = ()

    @property
    def answer_ids(self) -> tuple[int, int]:
        """(yes, no)."""
        return self.tokenizer.answer_ids()

    @property
    def load_clip(self):
        """A picklable function of a path that gives a `Clip`, for worker processes."""
        return functools.partial(preprocess.load_video, processor=self.processor)

    @property
    def measure(self):
        """As `load_clip`, but the `Clip` has no pixels: enough for `prompt`, and quickly made."""
        return functools.partial(preprocess.measure, processor=self.processor)

    def settings(self) -> dict:
        """All that decides the model's input beside the video and the question."""
        return {
            "processor": dataclasses.asdict(self.processor),
            "outer_vision_markers": self.outer_vision_markers,
            "system_prompt": self.system_prompt,
            "stop_ids": list(self.stop_ids),
            "tokens_of_example": self._example(),
        }

    def _example(self) -> str:
        """sha256 of the ids of a fixed prompt: another tokenizer or template gives another."""
        ids = qwen_chat.prompt_ids(
            self.tokenizer,
            "Did the red car's driver brake at 3.5 s? Answer Yes or No.",
            time_stamps=(0.2, 11.7),
            tokens_per_group=2,
            outer_vision_markers=self.outer_vision_markers,
            system=self.system_prompt,
        )
        return hashlib.sha256(np.asarray(ids, np.int64).tobytes()).hexdigest()

    def vision_inputs(self, clip: Clip) -> Groups:
        """Patches and their layout, one entry a temporal group."""
        patches, (_, height, width) = self.processor.patchify(clip.frames)
        return groups(patches, height, width, self.config.vision)

    def group_digests(self, clip: Clip) -> list[bytes]:
        """One a temporal group; equal digests mean equal vision inputs."""
        return preprocess.group_digests(clip, self.processor.temporal_patch_size)

    def keep_frames(self, clip: Clip, kept: Sequence[int], *, mode: str) -> Clip:
        """The clip that TCD contrasts with, see `cctv.decoding.contrast.TCD`."""
        if mode == "repeat":
            return preprocess.show_kept(clip, kept)
        return preprocess.drop_others(clip, kept, self.processor)

    def prompt(self, text: str, clip: Clip) -> Prompt:
        """The chat prompt of one video and one text, and the positions of its tokens."""
        per_group = self.processor.tokens_per_group(clip.grid)
        ids = qwen_chat.prompt_ids(
            self.tokenizer,
            text,
            time_stamps=self.processor.time_stamps(clip.times),
            tokens_per_group=per_group,
            outer_vision_markers=self.outer_vision_markers,
            system=self.system_prompt,
        )
        tokens = np.asarray(ids, np.int32)
        is_visual = tokens == self.config.video_token_id
        visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
        m = self.processor.merge_size
        return positions(tokens, visual, clip.grid[1] // m, clip.grid[2] // m)

    def decode(self, ids) -> str:
        """The answer text of generated ids."""
        return self.tokenizer.decode(ids)


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


def encoder(
    folder: Path,
    config: Config,
    *,
    video: dict | None = None,
    outer_vision_markers: bool = False,
    system_prompt: str | None = None,
) -> Encoder:
    """The host side of a checkpoint folder. `video` overrides fields of `QwenVideoProcessor`."""
    v = config.vision
    processor = QwenVideoProcessor(
        patch_size=v.patch_size,
        temporal_patch_size=v.temporal_patch_size,
        merge_size=v.merge_size,
        **(video or {}),
    )
    tokenizer = tokenizers.load(folder)
    pad = tokenizer.id(qwen_chat.VIDEO_PAD)
    if pad != config.video_token_id:
        raise UserError(
            f"{folder}: <|video_pad|> is token {pad} but config.json says {config.video_token_id}"
        )
    if len(tokenizer) > config.text.vocab_size:
        raise UserError(
            f"{folder}: {len(tokenizer)} tokens, but the model knows {config.text.vocab_size}"
        )
    return Encoder(
        config=config,
        processor=processor,
        tokenizer=tokenizer,
        # End of turn, and what generation_config.json adds to it.
        stop_ids=tuple(sorted({tokenizer.id(qwen_chat.END), *hf_config.stop_ids(folder)})),
        outer_vision_markers=outer_vision_markers,
        system_prompt=system_prompt,
        notes=processor_files.compare(folder, processor),
    )
