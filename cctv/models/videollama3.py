"""VideoLLaMA3 (Alibaba DAMO Academy, 2025; arXiv 2501.13106).

A SigLIP tower made free of its input's size (2-D rotary positions), 2x2 pooling, an MLP projector
and a Qwen2.5 decoder with plain rotary positions. Tokens of a frame that look as they did one frame
before are left out of the prompt (the paper's differential frame pruner).

Two layouts are read. "original" is that of `DAMO-NLP-SG/VideoLLaMA3-{2B,7B}`: the fields of
config.json were read in a public copy of the 2B's, the keys of the weights follow from the
attribute names of the published model code and were not compared with a published file.
"transformers" is what transformers 5.24.0 itself writes (model_type video_llama_3).
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data import preprocess
from cctv.data.errors import UserError
from cctv.data.preprocess import Clip
from cctv.data.videollama3_video import VideoLLaMA3VideoProcessor
from cctv.models import decoder_files, hf_config, processor_files, qwen_chat, tokenizers
from cctv.models.decoder import DecoderConfig
from cctv.models.encoder import Encoder, text_positions
from cctv.models.hf_config import INDEX, POSITIVE, SIZE, SWITCH
from cctv.models.layers import Linear
from cctv.models.video_lm import VideoLM
from cctv.models.vit import Frames, ViT, ViTConfig, frames_of
from cctv.models.weights import Rule, linear, norm

LAYOUTS = {"video_llama_3": "transformers", "videollama3_qwen2": "original"}  # by model_type
# The control token that stands for a visual token, and the prefixes of the weights' keys.
PAD = {"transformers": "<|video_pad|>", "original": "<image>"}
PREFIXES = {
    "transformers": ("model.vision_model", "model.projector", "model.language_model"),
    "original": ("model.vision_encoder", "model.mm_projector", "model"),
}


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The tower and its projector to `out_width`; merge_size² patches make one visual token."""

    vit: ViTConfig
    out_width: int
    merge_size: int = 2


@dataclass(frozen=True, kw_only=True)
class Config:
    """Both towers, the id of `PAD[layout]`, and whether tokens are left out (None: not said)."""

    vision: VisionConfig
    text: DecoderConfig
    visual_token_id: int
    layout: str = "original"
    token_compression: bool | None = None


def _vit(**sizes) -> ViTConfig:
    return ViTConfig(activation="gelu_tanh", rope_theta=10_000.0, final_norm=True, **sizes)


def _variant(**text) -> Config:
    """A size of the original layout; the tower is the same in all."""
    tower = _vit(width=1152, mlp_dim=4304, num_layers=27, num_heads=16, patch_size=14)
    return Config(
        text=DecoderConfig(num_layers=28, head_dim=128, rope_theta=1e6, qkv_bias=True, **text),
        vision=VisionConfig(vit=tower, out_width=text["width"]),
        visual_token_id=151665,
        token_compression=True,
    )


# Sizes from the published config.json of each checkpoint.
VARIANTS = {
    "videollama3_2b": _variant(
        vocab_size=151936, width=1536, mlp_dim=8960, num_heads=12, num_kv_heads=2,
        tie_embeddings=True,
    ),
    "videollama3_7b": _variant(
        vocab_size=152064, width=3584, mlp_dim=18944, num_heads=28, num_kv_heads=4,
    ),
}  # fmt: skip


class Tower(nnx.Module):
    """Patches to visual tokens of the decoder's width."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.vit = ViT(c.vit, rngs=rngs)
        self.fc1 = Linear(c.vit.width, c.out_width, rngs=rngs)
        self.fc2 = Linear(c.out_width, c.out_width, rngs=rngs)

    def __call__(self, inputs: Frames) -> jax.Array:
        """float[G, V, 1, out_width] with V = P / merge_size²; patches come block by block."""
        x = self.vit(inputs.patches, inputs.mask, inputs.coords)  # [G, P, D]
        # The reference halves rows and columns bilinearly, which is the mean of 2x2 neighbours.
        x = x.reshape(len(x), -1, self.config.merge_size**2, x.shape[-1])
        x = jnp.mean(x, axis=2)  # [G, V, D]
        return self.fc2(jax.nn.gelu(self.fc1(x), approximate=False))[:, :, None]


Model = functools.partial(VideoLM, Tower)


def from_hf(folder: Path) -> Config:
    """The config of a checkpoint folder. UserError for a field the port does not follow."""
    hf, where = hf_config.read(folder, model_type=tuple(LAYOUTS)), str(folder / "config.json")
    layout = LAYOUTS[hf["model_type"]]
    read = _transformers if layout == "transformers" else _original
    try:
        return Config(layout=layout, **read(hf, where=where))
    except UserError:
        raise
    except ValueError as error:  # sizes that don't fit each other
        raise UserError(f"{where}: {error}") from None


def _transformers(hf: dict, *, where: str) -> dict[str, Any]:
    """transformers keeps the switch of the compression in the processor's file."""
    known = ("text_config", "vision_config", "tie_word_embeddings", "image_token_id")
    top = hf_config.take(hf, {"video_token_id": INDEX}, where=where, known=known)
    t, v = (hf_config.section(hf, f"{s}_config", where=where) for s in ("text", "vision"))
    # As transformers reads it: tied where either section says so.
    tie = any(hf_config.tied(section, where=where) for section in (hf, t))
    text = decoder_files.config(t, tie=tie, where=f"{where}, text_config", qkv_bias=True)
    return {
        "text": text,
        "vision": _vision(v, text, where=f"{where}, vision_config"),
        "visual_token_id": top["video_token_id"],
    }


def _original(hf: dict, *, where: str) -> dict[str, Any]:
    """The decoder's fields stand at the top level, beside these."""
    own = {"image_token_index": INDEX}
    other = ("mm_projector_type", "use_token_compression", "vision_encoder_config", "auto_map")
    top = hf_config.take(
        {name: hf.get(name) for name in (*own, *other)},
        own,
        where=where,
        fixed={"mm_projector_type": ("mlp2x_gelu",)},
        known=other,
    )
    compress = hf_config.optional(hf, "use_token_compression", SWITCH, where=where)
    tie = hf_config.tied(hf, where=where)
    rest = {name: value for name, value in hf.items() if name not in (*own, *other)}
    text = decoder_files.config(rest, tie=tie, where=where, qkv_bias=True)
    v = hf_config.section(hf, "vision_encoder_config", where=where)
    return {
        "text": text,
        "vision": _vision(v, text, where=f"{where}, vision_encoder_config"),
        "visual_token_id": top["image_token_index"],
        "token_compression": compress,
    }


def _vision(hf: dict, text: DecoderConfig, *, where: str) -> VisionConfig:
    """Published files leave out what the class of both layouts has as its default."""
    names = dict(
        width="hidden_size", mlp_dim="intermediate_size", num_layers="num_hidden_layers",
        num_heads="num_attention_heads", patch_size="patch_size", channels="num_channels",
        norm_eps="layer_norm_eps",
    )  # fmt: skip
    values = hf_config.take(
        {"num_channels": 3, "layer_norm_eps": 1e-6} | hf,
        {n: POSITIVE if n == "layer_norm_eps" else SIZE for n in names.values()},
        where=where,
        fixed={
            "hidden_act": ("gelu_pytorch_tanh",),
            "rope_parameters": (None, {"rope_theta": 10000.0, "rope_type": "axial"}),
        },
    )
    tower = _vit(**{ours: values[theirs] for ours, theirs in names.items()})
    return VisionConfig(vit=tower, out_width=text.width)


def rules(c: Config) -> list[Rule]:
    """Where each tensor of the config's layout goes."""
    vision, projector, text = PREFIXES[c.layout]
    patch, layer = f"{vision}.embeddings.patch_embedding", f"{vision}.encoder.layers.{{}}"
    vit = c.vision.vit
    kernel = (vit.channels, *[vit.patch_size] * 2)
    out = [
        Rule(key=f"{patch}.weight", path="vision.vit.patch.kernel", kind="conv", kernel=kernel),
        Rule(key=f"{patch}.bias", path="vision.vit.patch.bias"),
        *norm(f"{vision}.post_layernorm", "vision.vit.norm", bias=True),
    ]
    for i in (1, 2):
        out += norm(f"{layer}.layer_norm{i}", f"vision.vit.layers.norm{i}", bias=True)
        out += linear(f"{layer}.mlp.fc{i}", f"vision.vit.layers.fc{i}", bias=True)
        out += linear(f"{projector}.readout.{2 * i - 2}", f"vision.fc{i}", bias=True)
    for name, ours in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("out_proj", "proj")):
        out += linear(f"{layer}.self_attn.{name}", f"vision.vit.layers.{ours}", bias=True)
    return out + decoder_files.rules(c.text, text)


TIED = ("lm_head.weight", *(f"{text}.embed_tokens.weight" for *_, text in PREFIXES.values()))
OPTIONS = ("system_prompt", "newline_after_video", "use_token_compression")


def processor(config: Config, **video) -> VideoLLaMA3VideoProcessor:
    """The processor that fits a model; `video` sets its other fields."""
    v = config.vision
    sizes = dict(patch_size=v.vit.patch_size, merge_size=v.merge_size)
    return VideoLLaMA3VideoProcessor(**sizes, **video)


def encoder(
    folder: Path,
    config: Config,
    *,
    video: dict | None = None,
    system_prompt: str | None = None,
    newline_after_video: bool = True,
    use_token_compression: bool | None = None,
) -> Encoder:
    """The host side of a checkpoint folder. `video` overrides fields of the processor.

    newline_after_video: the chat template of the original ends the video with a line break, and so
    does that of transformers' checkpoints after an image (its form for a video was not confirmed);
    transformers' processor alone adds none. Pads differ between the layouts, all else is the same.
    use_token_compression: None is as the checkpoint says, on where it says nothing.
    """
    frames = processor(config, **(video or {}))
    tokenizer, pad = tokenizers.load(folder), PAD[config.layout]
    control, size = {pad: config.visual_token_id}, config.text.vocab_size
    tokenizers.check(tokenizer, folder, control=control, vocab_size=size)
    compress = _compression(folder, config, use_token_compression)

    def inputs(clip: Clip) -> Frames:
        patches = preprocess.patches_of(clip.frames, frames)
        return frames_of(patches, *clip.grid[1:], merge=frames.merge_size)

    def ids(text: str, clip: Clip, counts: Sequence[int]) -> list[int]:
        out = [*qwen_chat.system_ids(tokenizer, system_prompt), tokenizer.id(qwen_chat.START)]
        before = "user\n"
        for seconds, count in zip(frames.time_stamps(clip.times), counts, strict=True):
            out += tokenizer.encode(f"{before}Time {seconds:.1f}s:")
            out += [config.visual_token_id] * count
            before = ","
        end = "\n" if newline_after_video else ""
        return out + qwen_chat.question_ids(tokenizer, text, before=end)

    def kept(clip: Clip) -> np.ndarray | None:
        """bool[G, V], by the clip's own frames. So VCD's branches hold the same tokens, those of
        the video without noise, while TCD's differ in length: a frame shown again is one token.
        A measured clip has no pixels: all tokens, an upper bound."""
        return frames.changed(clip.frames) if compress and clip.frames.shape[-1] else None

    return Encoder(
        processor=frames,
        tokenizer=tokenizer,
        # End of turn, and what generation_config.json adds to it.
        stop_ids=tuple(sorted({tokenizer.id(qwen_chat.END), *hf_config.stop_ids(folder)})),
        visual_id=config.visual_token_id,
        inputs=inputs,
        ids=ids,
        positions=text_positions,
        kept=kept,
        options={
            "system_prompt": system_prompt,
            "newline_after_video": newline_after_video,
            "use_token_compression": compress,
        },
        notes=processor_files.compare(folder, frames),
    )


def _compression(folder: Path, config: Config, wanted: bool | None) -> bool:
    """What is wanted, else what config.json or the processor's file says, else True: the default
    of transformers' processor."""
    path, fields = processor_files.read(folder) or (folder, {})
    said = hf_config.optional(fields, "use_token_compression", SWITCH, where=str(path))
    for value in (wanted, config.token_compression, said):
        if value is not None:
            return value
    return True
