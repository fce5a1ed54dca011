"""What a checkpoint folder says about its video processor, held against the one of a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cctv.data.errors import UserError
from cctv.data.preprocess import VideoProcessor
from cctv.models.hf_config import NUMBERS, POSITIVE, SIZE, optional, read_json

# The weights were trained with these: (theirs, ours, kind).
STRICT = (
    ("patch_size", "patch_size", SIZE),
    ("temporal_patch_size", "temporal_patch_size", SIZE),
    ("merge_size", "merge_size", SIZE),
    ("height", "image_size", SIZE),
    ("width", "image_size", SIZE),
    ("image_mean", "mean", NUMBERS),
    ("image_std", "std", NUMBERS),
)
# What one may choose otherwise. Older files have the pixel limits at the top level.
LIMITS = (
    ("shortest_edge", "min_pixels", SIZE),
    ("longest_edge", "max_pixels", SIZE),
    ("min_pixels", "min_pixels", SIZE),
    ("max_pixels", "max_pixels", SIZE),
)
SAMPLING = (
    ("fps", "fps", POSITIVE),
    ("min_frames", "min_frames", SIZE),
    ("max_frames", "max_frames", SIZE),
)


def compare(folder: Path, processor: VideoProcessor) -> tuple[str, ...]:
    """One line for each limit of a checkpoint's files that this run sets otherwise; the limits of
    an image processor are for pictures and not asked.

    Fields that the family's processor does not have are not asked. UserError for patch sizes, mean
    or std that differ: the weights fit no others.
    """
    found = read(folder)
    if found is None:
        return ()
    path, fields = found
    size = fields.get("size")
    values = {**fields, **(size if isinstance(size, dict) else {"height": size, "width": size})}
    for theirs, ours, kind in _of(processor, STRICT):
        value, own = optional(values, theirs, kind, where=str(path)), getattr(processor, ours)
        if value is not None and (tuple(value) if kind == NUMBERS else value) != own:
            raise UserError(f"{path}: {theirs} is {value}, but this run has {_plain(own)}")
    pictures = "image_processor_type" in fields and "video_processor_type" not in fields
    limits = () if pictures else LIMITS
    free = limits if processor.num_frames is not None else (*limits, *SAMPLING)
    notes = {}
    for theirs, ours, kind in _of(processor, free):
        value, own = optional(values, theirs, kind, where=str(path)), getattr(processor, ours)
        if value is not None and value != own:
            notes.setdefault(
                ours, f"{path}: {theirs} is {value}; this run uses config.video.{ours}={own}"
            )
    return tuple(notes.values())


def _of(processor: VideoProcessor, fields: Iterable[tuple]) -> list[tuple]:
    """The fields that a processor has."""
    return [field for field in fields if hasattr(processor, field[1])]


def read(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """(file, its fields), None without one. transformers looks in the same order: the video
    processor's own file, the joint one that its version 5 writes, the image processor's."""
    for name, part in (
        ("video_preprocessor_config.json", None),
        ("processor_config.json", "video_processor"),
        ("preprocessor_config.json", None),
    ):
        path = folder / name
        if path.is_file():
            fields = read_json(path)
            fields = fields if part is None else fields.get(part)
            if isinstance(fields, dict):
                return path, fields
    return None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
