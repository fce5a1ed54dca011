"""What the tests that all families share need to know of each: `FAMILIES`.

A family's entry makes a tiny random checkpoint of it, and turns what our encoder gives (vision
inputs and tokens) into the arguments of the torch model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tiny as tiny_qwen
import tiny_internvl
import tiny_videollama3
import torch
from tokenizers import AddedToken

from cctv.data.preprocess import Clip
from cctv.models import qwen2_5_vit, tiny


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of `cctv.models.MODELS`.

    control: its tokens beside those of `cctv.models.tiny.CONTROL`. create: (folder, vocabulary
    size, token ids) -> the eager fp32 torch model that it wrote there. torch_inputs: (encoder,
    clip, vision inputs, tokens int64[1, S]) -> arguments of that model. shapes: (frames, height,
    width) of two counterparts as they come from a file, of different token counts where the
    family has such. video, options: settings of its encoder.
    """

    create: Callable[[Path, int, Mapping[str, int]], torch.nn.Module]
    torch_inputs: Callable[[Any, Clip, Any, torch.Tensor], dict[str, Any]]
    shapes: tuple[tuple[int, int, int], tuple[int, int, int]]
    control: tuple[str, ...] = ()
    video: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def write_tokenizer(folder: Path, family: Family, texts: list[str]) -> tuple[int, dict[str, int]]:
    """A tokenizer of some texts in `folder`: its size and the ids of its control tokens."""
    tokenizer = tiny.train_tokenizer(texts)
    added = [AddedToken(t, normalized=False, special=True) for t in family.control]
    tokenizer.add_special_tokens(added)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {t: tokenizer.token_to_id(t) for t in (*tiny.CONTROL, *family.control)}
    return tokenizer.get_vocab_size(), ids


def _internvl(folder: Path, size: int, ids: Mapping[str, int]):
    return tiny_internvl.create(folder, vocab_size=size, image_token_id=ids["<IMG_CONTEXT>"])


def _internvl_inputs(encoder, clip: Clip, inputs, tokens: torch.Tensor) -> dict[str, Any]:
    """Patches put back where they were in the frame."""
    size, side = encoder.processor.patch_size, encoder.processor.image_size
    pixels = np.empty((len(inputs.patches), 3, side, side), np.float32)
    for frame, patches, coords in zip(pixels, inputs.patches, inputs.coords):
        for patch, (row, column) in zip(patches, coords * size):
            frame[:, row : row + size, column : column + size] = patch.reshape(3, size, size)
    return {"input_ids": tokens, "pixel_values": torch.tensor(pixels)}


def _videollama3(folder: Path, size: int, ids: Mapping[str, int]):
    return tiny_videollama3.create(folder, vocab_size=size, video_token_id=ids["<|video_pad|>"])


def _videollama3_inputs(encoder, clip: Clip, inputs, tokens: torch.Tensor) -> dict[str, Any]:
    """The tokens that the prompt holds are those of the clip's own pixels, also under noise."""
    return {
        "input_ids": tokens,
        "pixel_values_videos": torch.tensor(inputs.patches.reshape(-1, inputs.patches.shape[-1])),
        "video_grid_thw": torch.tensor([clip.grid]),
        "video_merge_sizes": torch.tensor([encoder.processor.merge_size]),
        "video_compression_mask": torch.tensor(encoder.kept(clip).ravel()),
    }


def _qwen_sizes(size: int, ids: Mapping[str, int]) -> dict[str, Any]:
    """Two layers are enough here."""
    names = ("image_pad", "video_pad", "vision_start", "vision_end")
    theirs = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    tokens = {name: ids[f"<|{token}|>"] for name, token in zip(theirs, names)}
    return {"text": {"vocab_size": size, "num_hidden_layers": 2}, **tokens}


def _qwen2_5_vl(folder: Path, size: int, ids: Mapping[str, int]):
    vision = {"depth": 2, "fullatt_block_indexes": [1]}
    return tiny_qwen.qwen2_5_vl(folder, vision=vision, **_qwen_sizes(size, ids))


def _qwen3_vl_moe(folder: Path, size: int, ids: Mapping[str, int]):
    vision = {"depth": 2, "deepstack_visual_indexes": [0]}
    return tiny_qwen.qwen3_vl_moe(folder, vision=vision, **_qwen_sizes(size, ids))


def _qwen_inputs(encoder, clip: Clip, inputs, tokens: torch.Tensor) -> dict[str, Any]:
    return {
        "input_ids": tokens,
        "mm_token_type_ids": (2 * (tokens == encoder.visual_id)).int(),
        "pixel_values_videos": torch.tensor(inputs.patches.reshape(-1, inputs.patches.shape[-1])),
        "video_grid_thw": torch.tensor([clip.grid]),
    }


def _qwen2_5_vl_inputs(encoder, clip: Clip, inputs, tokens: torch.Tensor) -> dict[str, Any]:
    """Patches back in the order of the picture; our positions, as the reference's rule differs."""
    sizes = dict(width=4, mlp_dim=4, num_layers=1, num_heads=1, out_width=4, full_layers=())
    order, *_ = qwen2_5_vit.layout(*clip.grid[1:], qwen2_5_vit.VisionConfig(**sizes))
    patches = np.empty_like(inputs.patches)
    patches[:, order] = inputs.patches
    ids = tokens[0].numpy()
    visual = np.where(ids == encoder.visual_id, np.cumsum(ids == encoder.visual_id) - 1, -1)
    where = encoder.positions(ids, visual, clip).positions
    inputs = inputs._replace(patches=patches)
    position_ids = torch.tensor(where.T[:, None]).long()
    return _qwen_inputs(encoder, clip, inputs, tokens) | {"position_ids": position_ids}


FAMILIES = {
    "qwen2_5_vl": Family(
        create=_qwen2_5_vl,
        torch_inputs=_qwen2_5_vl_inputs,
        shapes=((8, 84, 140), (8, 140, 56)),  # windows cut on either side
        video={"min_pixels": 3136},
        options={"system_prompt": "You watch traffic."},
    ),
    "qwen3_vl_moe": Family(
        create=_qwen3_vl_moe,
        torch_inputs=_qwen_inputs,
        shapes=((8, 64, 96), (8, 96, 128)),
    ),
    "internvl3_5": Family(
        create=_internvl,
        torch_inputs=_internvl_inputs,
        shapes=((8, 30, 50), (8, 40, 20)),
        control=("<img>", "</img>", "<IMG_CONTEXT>"),
        options={"system_prompt": "You watch traffic."},
    ),
    "videollama3": Family(
        create=_videollama3,
        torch_inputs=_videollama3_inputs,
        shapes=((8, 56, 84), (8, 56, 60)),
        video={"min_pixels": 1568},
    ),
}
