"""InternVL3.5 (OpenGVLab, 2025, arXiv 2508.18265), the dense sizes: `InternVL3_5-*B`.

InternViT-300M on one square tile a frame, pixel shuffle, a two-layer projector, and a Qwen3 decoder
with plain rotary positions. Checkpoints are published in two layouts, and both load: `internvl`
(the `-HF` folders, transformers' own) and `internvl_chat` (the original repository). The prompt is
that of the original chat code:

    <|im_start|>system
    SYSTEM PROMPT<|im_end|>
    <|im_start|>user
    Frame1: <img><IMG_CONTEXT>...</img>
    Frame2: <img><IMG_CONTEXT>...</img>
    QUESTION<|im_end|>
    <|im_start|>assistant

transformers' processor with the chat template of the `-HF` folders gives the same tokens: it joins
frames by a line break and its template adds the one after the last. Only the system prompt differs:
the original code always sends the one below, the template none unless it is asked to.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from cctv.data import preprocess
from cctv.data.errors import UserError
from cctv.data.internvl_video import InternVLVideoProcessor
from cctv.data.preprocess import Clip
from cctv.models import decoder_files, hf_config, processor_files, qwen_chat, tokenizers
from cctv.models.decoder import DecoderConfig
from cctv.models.encoder import Encoder, text_positions
from cctv.models.hf_config import INDEX, POSITIVE, SIZE
from cctv.models.layers import LayerNorm, Linear
from cctv.models.video_lm import VideoLM
from cctv.models.vit import Frames, ViT, ViTConfig, frames_of
from cctv.models.weights import Rule, fused_linear, linear, norm

START, CONTEXT, END = "<img>", "<IMG_CONTEXT>", "</img>"
MERGE = 2  # patches a side that pixel shuffle joins: the inverse of downsample_ratio


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The tower, and the decoder's width that its tokens are projected to."""

    vit: ViTConfig
    out_width: int


@dataclass(frozen=True, kw_only=True)
class Config:
    """Both towers. `layout` is the folder's model_type, which names its tensors; image_token_id is
    None where config.json does not say it (the tokenizer does)."""

    vision: VisionConfig
    text: DecoderConfig
    layout: str = "internvl"
    image_token_id: int | None = 151671


def _variant(**text) -> Config:
    vit = ViTConfig(
        width=1024, mlp_dim=4096, num_layers=24, num_heads=16, patch_size=14, class_token=True,
        positions=32**2 + 1, layer_scale=True,
    )  # fmt: skip
    decoder = DecoderConfig(
        vocab_size=151936, num_kv_heads=8, head_dim=128, rope_theta=1e6, qk_norm=True, **text
    )
    return Config(vision=VisionConfig(vit=vit, out_width=decoder.width), text=decoder)


# Sizes from the published config.json of each checkpoint.
VARIANTS = {
    "internvl3_5_2b": _variant(width=2048, mlp_dim=6144, num_layers=28, num_heads=16),
    "internvl3_5_8b": _variant(width=4096, mlp_dim=12288, num_layers=36, num_heads=32),
}


class Tower(nnx.Module):
    """Frames to visual tokens of the decoder's width."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        joined = c.vit.width * MERGE**2
        self.vit = ViT(c.vit, rngs=rngs)
        self.norm = LayerNorm(joined, eps=1e-5)
        self.fc1 = Linear(joined, c.out_width, rngs=rngs)
        self.fc2 = Linear(c.out_width, c.out_width, rngs=rngs)

    def __call__(self, inputs: Frames) -> jax.Array:
        """float[G, V, 1, out_width] with V = P / MERGE²; patches come block by block."""
        x = self.vit(inputs.patches, inputs.mask, inputs.coords)  # [G, P, D]
        # Pixel shuffle joins the channels of a block, row by row: the order patches come in.
        x = x.reshape(len(x), x.shape[1] // MERGE**2, -1)  # [G, V, 4D]
        x = jax.nn.gelu(self.fc1(self.norm(x)), approximate=False)
        return self.fc2(x)[:, :, None]


Model = functools.partial(VideoLM, Tower)


def from_hf(folder: Path) -> Config:
    """The config of a checkpoint folder. UserError for a field the port does not follow."""
    hf, where = hf_config.read(folder, model_type=tuple(NAMES)), str(folder / "config.json")
    layout = hf["model_type"]
    name = "text_config" if layout == "internvl" else "llm_config"
    text, vision = (hf_config.section(hf, n, where=where) for n in (name, "vision_config"))
    top = hf_config.take(
        hf,
        {"image_token_id": INDEX} if layout == "internvl" else {},
        where=where,
        fixed={
            "downsample_ratio": (1 / MERGE,), "projector_hidden_act": ("gelu",),
            "vision_feature_layer": (-1,), "vision_feature_select_strategy": ("default",),
            "ps_version": ("v2",), "select_layer": (-1,), "template": ("internvl2_5",),
        },
        # Tiles of still images (a frame of a video is one), and sizes that are checked below.
        known=("vision_config", name, "tie_word_embeddings", "image_seq_length", "hidden_size",
               "force_image_size", "dynamic_image_size", "use_thumbnail", "min_dynamic_patch",
               "max_dynamic_patch"),
    )  # fmt: skip
    if layout == "internvl_chat" and hf.get("ps_version") is None:
        raise UserError(f"{where}: ps_version is absent, which means 'v1'; only 'v2' is supported")
    if text.get("model_type") != "qwen3":
        raise UserError(
            f"{where}, {name}: model_type is {text.get('model_type')!r:.80}; the port has "
            "InternVL3.5's dense decoders, which are 'qwen3'"
        )
    # Untied where neither says so, as all published sizes; transformers' class default is tied.
    tie = hf_config.tied(hf, text, where=where)
    try:
        decoder = decoder_files.config(text, tie=tie, where=f"{where}, {name}", qk_norm=True)
        vit = _vit_config(vision, where=f"{where}, vision_config")
    except UserError:
        raise
    except ValueError as error:  # sizes that don't fit each other
        raise UserError(f"{where}: {error}") from None
    side = vit.table_side
    for field, size in (
        ("image_seq_length", side**2 // MERGE**2), ("force_image_size", side * vit.patch_size)
    ):  # fmt: skip
        if hf.get(field) not in (None, size):
            raise UserError(f"{where}: {field} is {hf[field]!r:.80}, the vision tower has {size}")
    return Config(
        vision=VisionConfig(vit=vit, out_width=decoder.width),
        text=decoder,
        layout=layout,
        image_token_id=top.get("image_token_id"),
    )


def _vit_config(hf: dict[str, Any], *, where: str) -> ViTConfig:
    """InternViT in either layout's words."""
    names = dict(
        width="hidden_size", mlp_dim="intermediate_size", num_layers="num_hidden_layers",
        num_heads="num_attention_heads", channels="num_channels",
    )  # fmt: skip
    values = hf_config.take(
        hf,
        {name: SIZE for name in names.values()} | {"layer_norm_eps": POSITIVE},
        where=where,
        fixed={
            "hidden_act": ("gelu",), "norm_type": ("layer_norm",),
            "attention_bias": (True,), "qkv_bias": (True,),
            "use_absolute_position_embeddings": (True,), "use_mean_pooling": (True,),
        },
        known=("image_size", "patch_size", *_IDLE),
    )  # fmt: skip
    image, patch = (
        hf_config.square(hf, name, where=where) for name in ("image_size", "patch_size")
    )
    if image % (patch * MERGE):
        raise UserError(f"{where}: image_size {image} is no multiple of {MERGE} patches of {patch}")
    return ViTConfig(
        **{ours: values[theirs] for ours, theirs in names.items()},
        norm_eps=values["layer_norm_eps"],
        patch_size=patch,
        class_token=True,
        positions=(image // patch) ** 2 + 1,
        layer_scale=True,
    )


# Of training, of initial values, and of experts that are off (use_moe must be false).
_IDLE = (
    "dropout", "hidden_dropout_prob", "projection_dropout", "drop_path_rate", "initializer_factor",
    "layer_scale_init_value", "use_flash_attn", "capacity_factor", "eval_capacity_factor",
    "laux_allreduce", "moe_coeff_ratio", "moe_intermediate_size", "moe_output_scale",
    "noisy_gate_policy", "num_experts", "num_routed_experts", "num_shared_experts",
    "shared_expert_intermediate_size", "use_residual",
)  # fmt: skip


# What each layout calls a part.
NAMES = {
    "internvl": dict(
        tower="vision_tower", class_token="embeddings.cls_token",
        table="embeddings.position_embeddings", patch="embeddings.patch_embeddings.projection",
        layer="encoder.layer.{}", norm1="layernorm_before", norm2="layernorm_after",
        proj="attention.projection_layer", scale1="lambda_1", scale2="lambda_2",
        norm="multi_modal_projector.layer_norm", fc1="multi_modal_projector.linear_1",
        fc2="multi_modal_projector.linear_2",
    ),
    "internvl_chat": dict(
        tower="vision_model", class_token="embeddings.class_embedding",
        table="embeddings.position_embedding", patch="embeddings.patch_embedding",
        layer="encoder.layers.{}", norm1="norm1", norm2="norm2",
        proj="attn.proj", scale1="ls1", scale2="ls2",
        norm="mlp1.0", fc1="mlp1.1", fc2="mlp1.3",
    ),
}  # fmt: skip
TIED = ("language_model.lm_head.weight", "language_model.model.embed_tokens.weight")


def rules(c: Config) -> list[Rule]:
    """Where each tensor of the folder's layout goes."""
    n, vit = NAMES[c.layout], c.vision.vit
    tower, layer, ours = n["tower"], f"{n['tower']}.{n['layer']}", "vision.vit.layers"
    kernel = (vit.channels, vit.patch_size, vit.patch_size)
    patch = f"{tower}.{n['patch']}"
    out = [
        Rule(key=f"{tower}.{n['class_token']}", path="vision.vit.class_token", lead=2),
        Rule(key=f"{tower}.{n['table']}", path="vision.vit.table.table", lead=1),
        Rule(key=f"{patch}.weight", path="vision.vit.patch.kernel", kind="conv", kernel=kernel),
        Rule(key=f"{patch}.bias", path="vision.vit.patch.bias"),
        *(Rule(key=f"{layer}.{n[s]}", path=f"{ours}.{s}") for s in ("scale1", "scale2")),
    ]
    out += norm(n["norm"], "vision.norm", bias=True)
    for name in ("norm1", "norm2"):
        out += norm(f"{layer}.{n[name]}", f"{ours}.{name}", bias=True)
    if c.layout == "internvl":
        for name in "qkv":
            out += linear(f"{layer}.attention.{name}_proj", f"{ours}.{name}", bias=True)
    else:
        paths = [f"{ours}.{name}" for name in "qkv"]
        out += fused_linear(f"{layer}.attn.qkv", paths, [vit.width] * 3, bias=True)
    for theirs, name in ((n["proj"], "proj"), ("mlp.fc1", "fc1"), ("mlp.fc2", "fc2")):
        out += linear(f"{layer}.{theirs}", f"{ours}.{name}", bias=True)
    for name in ("fc1", "fc2"):
        out += linear(n[name], f"vision.{name}", bias=True)
    return out + decoder_files.rules(c.text, "language_model.model", head="language_model.lm_head")


OPTIONS = ("system_prompt",)


def processor(config: Config, **video) -> InternVLVideoProcessor:
    """The processor that fits a model; `video` sets its other fields."""
    side, patch = config.vision.vit.table_side, config.vision.vit.patch_size
    size = side * patch
    return InternVLVideoProcessor(image_size=size, patch_size=patch, merge_size=MERGE, **video)


def video_ids(
    tokenizer: tokenizers.Tokenizer, counts: Sequence[int], *, system: str | None
) -> list[int]:
    """The prompt up to the last frame, with so many visual tokens each; frames count from 1."""
    start, context, end = map(tokenizer.id, (START, CONTEXT, END))
    ids, text = [*qwen_chat.system_ids(tokenizer, system), tokenizer.id(qwen_chat.START)], "user"
    for i, count in enumerate(counts, 1):
        ids += [*tokenizer.encode(f"{text}\nFrame{i}: "), start, *[context] * count, end]
        text = ""
    return ids


def encoder(
    folder: Path, config: Config, *, video: dict | None = None, system_prompt: str | None = None
) -> Encoder:
    """The host side of a folder. `video` overrides fields of `InternVLVideoProcessor`; an empty
    system prompt is none."""
    frames, tokenizer = processor(config, **(video or {})), tokenizers.load(folder)
    control = {} if config.image_token_id is None else {CONTEXT: config.image_token_id}
    tokenizers.check(tokenizer, folder, control=control, vocab_size=config.text.vocab_size)

    def inputs(clip: Clip) -> Frames:
        patches = preprocess.patches_of(clip.frames, frames)
        return frames_of(patches, *clip.grid[1:], merge=MERGE)

    def ids(text: str, clip: Clip, counts: Sequence[int]) -> list[int]:
        head = video_ids(tokenizer, counts, system=system_prompt or None)
        return head + qwen_chat.question_ids(tokenizer, text, before="\n")

    return Encoder(
        processor=frames,
        tokenizer=tokenizer,
        # The original chat code stops at the template's separator.
        stop_ids=tuple(sorted({tokenizer.id(qwen_chat.END), *hf_config.stop_ids(folder)})),
        visual_id=tokenizer.id(CONTEXT),
        inputs=inputs,
        ids=ids,
        positions=text_positions,
        options={"system_prompt": system_prompt or None},
        notes=processor_files.compare(folder, frames),
    )
