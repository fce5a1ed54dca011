"""From a video file to what a vision tower reads: sample, resize, normalise, patchify.

Numpy and Pillow only, so that decoding workers need neither jax nor torch. What a family does its
own way is in its `VideoProcessor` (`qwen_video` and others); this is what all share. Time stamps
come from the times the file itself gives its frames.

Letters: F sampled frames, G = ceil(F/2) temporal groups, H/W pixels, h/w patches, P patch size.
"""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from PIL import Image

from cctv.data import schema, video
from cctv.data.errors import UserError

MAX_ASPECT_RATIO = 200  # the limit of Qwen's resize rule
MAX_RAW_BYTES = 2**28  # decoded frames of full size that `load_video` holds at a time


class Clip(NamedTuple):
    """One video, sampled and resized: small enough to travel between processes.

    frames: uint8[F, H, W, 3], H and W multiples of patch_size * merge_size.
    grid: (G, h, w) patches. times: float64[F] seconds, one a frame.
    indices: the F sampled frame numbers. digest: sha256 of the file, hexadecimal.
    """

    frames: np.ndarray
    grid: tuple[int, int, int]
    times: np.ndarray
    indices: tuple[int, ...]
    digest: str


class VideoProcessor(Protocol):
    """Which frames a family reads and how large it shows them: a frozen dataclass of settings.

    patch_size: pixels of a patch's side; temporal_patch_size: frames that make one temporal group;
    merge_size: patches of a visual token's side; mean, std: of the colours, from 0 to 1. Its fields
    are what config.video may set; wrong values raise UserError when it is made.
    """

    patch_size: int
    temporal_patch_size: int
    merge_size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def sample(self, total: int, fps: float) -> np.ndarray:
        """Frame numbers to read, int64[F], ascending, of a video of `total` frames."""

    def smart_resize(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """(H, W) to which so many frames of a size are resized; UserError where none is right."""


def prepare(frames: np.ndarray, processor: VideoProcessor) -> np.ndarray:
    """uint8[F, H', W', 3] frames resized for a processor, uint8[F, H, W, 3]."""
    check_frames(frames)
    return resize(frames, processor.smart_resize(*frames.shape[:3]))


def grid_of(frames: np.ndarray, processor: VideoProcessor) -> tuple[int, int, int]:
    """(G, h, w): how many patches resized frames uint8[F, H, W, 3] have."""
    count, height, width = frames.shape[:3]
    groups = -(-count // processor.temporal_patch_size)
    return groups, height // processor.patch_size, width // processor.patch_size


def tokens_per_group(grid: tuple[int, int, int], processor: VideoProcessor) -> int:
    """Visual tokens of one temporal group once the tower has merged its patches, at most."""
    return grid[1] * grid[2] // processor.merge_size**2


def show_kept(clip: Clip, kept: Sequence[int]) -> Clip:
    """The clip with slot j showing frame kept[j·n//F] at slot j's own time (TCD's "repeat")."""
    total, n = len(clip.frames), len(kept)
    return clip._replace(frames=clip.frames[[kept[j * n // total] for j in range(total)]])


def drop_others(clip: Clip, kept: Sequence[int], processor: VideoProcessor) -> Clip:
    """The clip of the kept frames alone, at their own times (TCD's "drop")."""
    kept = list(kept)
    frames = clip.frames[kept]
    indices = tuple(clip.indices[i] for i in kept)
    return clip._replace(
        frames=frames, grid=grid_of(frames, processor), times=clip.times[kept], indices=indices
    )


def group_digests(clip: Clip, size: int) -> list[bytes]:
    """A digest of the pixels of each group of `size` frames; equal ones look alike to the tower."""
    frames = _fill_last_group(clip.frames, size)
    return [
        hashlib.blake2b(frames[i : i + size].tobytes() + str(clip.grid[1:]).encode()).digest()
        for i in range(0, len(frames), size)
    ]


def resize(frames: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """uint8[F, H', W', 3] -> uint8[F, H, W, 3], size = (H, W); bicubic with antialiasing.

    Pillow's filter, columns before rows: in one call, newer Pillows choose the order, and values
    are rounded in between. torchvision's, which the references use, is within one uint8 step of it
    (two where a frame grows).
    """
    height, width = size
    if frames.shape[1:3] == (height, width):
        return frames
    out = []
    for frame in frames:
        image = Image.fromarray(frame)
        for shape in ((width, image.height), (width, height)):
            image = image.resize(shape, Image.Resampling.BICUBIC)
        out.append(np.asarray(image))
    return np.stack(out)


def fit(height: int, width: int, *, factor: int, least: int, most: float) -> tuple[int, int]:
    """(H, W) near the aspect ratio, multiples of `factor`, `least` to `most` pixels where possible.

    Qwen2-VL's rule for one frame, as transformers 5.24.0 has it. UserError for no pixels and for an
    aspect ratio over 200.
    """
    if min(height, width) < 1:
        raise UserError(f"a frame of {width}x{height} pixels cannot be resized")
    if max(height, width) / min(height, width) > MAX_ASPECT_RATIO:
        raise UserError(
            f"a frame of {width}x{height} pixels has an aspect ratio over {MAX_ASPECT_RATIO}"
        )
    sides = (height, width)
    new_height, new_width = (round(side / factor) * factor for side in sides)
    if new_height * new_width > most:
        shrink = math.sqrt(height * width / max(most, 1))
        return tuple(max(factor, math.floor(side / shrink / factor) * factor) for side in sides)
    if new_height * new_width < least:
        grow = math.sqrt(least / (height * width))
        return tuple(math.ceil(side * grow / factor) * factor for side in sides)
    return new_height, new_width


def measure(path: str | Path, processor: VideoProcessor) -> Clip:
    """What `load_video` would give, from the container alone: no pixels (frames is [F, H, W, 0]),
    no digest. Raises what it raises."""
    return _measured(path, video.probe(path), processor)


def _measured(path: str | Path, info: video.VideoInfo, processor: VideoProcessor) -> Clip:
    indices = processor.sample(info.num_frames, info.fps)
    try:
        height, width = processor.smart_resize(len(indices), info.height, info.width)
    except UserError as error:
        raise video.VideoDecodeError(path, str(error)) from None
    frames = np.empty((len(indices), height, width, 0), np.uint8)
    return Clip(
        frames=frames,
        grid=grid_of(frames, processor),
        times=info.times[indices],
        indices=tuple(indices.tolist()),
        digest="",
    )


def load_video(path: str | Path, processor: VideoProcessor, *, reader: str = "auto") -> Clip:
    """Reads, samples and resizes one video file, in this process; made for a pool of workers.

    `reader`: what decodes the frames, see `cctv.data.video.read_frames`.
    Raises VideoDecodeError (VideoMissingError where there is no file), its text naming the file.
    """
    info = video.probe(path)
    empty = _measured(path, info, processor)
    size = empty.frames.shape[1:3]
    # Frames of full size are held a few at a time.
    step = max(1, MAX_RAW_BYTES // (3 * info.height * info.width))
    chunks = [empty.indices[i : i + step] for i in range(0, len(empty.indices), step)]
    frames = np.concatenate(
        [resize(video.read_frames(path, c, reader=reader), size) for c in chunks]
    )
    return empty._replace(frames=frames, digest=schema.video_digest(path))


def normalise(frames: np.ndarray, mean: Sequence[float], std: Sequence[float]) -> np.ndarray:
    """uint8[..., 3] -> float32[..., 3], (x / 255 - mean) / std."""
    mean, std = (255 * np.asarray(v, np.float32) for v in (mean, std))
    return (frames.astype(np.float32) - mean) / std


def patchify(pixels: np.ndarray, *, patch: int, merge: int = 1, pair: int = 1) -> np.ndarray:
    """Patches float32[G, h*w, C*pair*patch*patch] of pixels float32[F, H, W, C].

    An odd last frame is repeated. Patches that the tower merges into one token (merge x merge)
    follow each other; a patch is flattened as (channel, time, row, column).
    """
    _, height, width, channels = pixels.shape
    if height % (patch * merge) or width % (patch * merge):
        raise ValueError(f"{width}x{height} frames are no multiple of {patch * merge} pixels")
    pixels = _fill_last_group(pixels, pair)
    groups, rows, columns = len(pixels) // pair, height // patch, width // patch
    out = pixels.reshape(
        groups, pair, rows // merge, merge, patch, columns // merge, merge, patch, channels
    )
    #          0  1  2   3  4  5   6  7  8
    # blocks:  G  t  h/m m  p  w/m m  p  c   ->   G, h/m, w/m, m, m, c, t, p, p
    out = out.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
    return out.reshape(groups, rows * columns, channels * pair * patch * patch)


def patch_coords(rows: int, columns: int, *, merge: int = 1) -> np.ndarray:
    """int32[h*w, 2]: row and column of each patch, in the order of `patchify`."""
    grid = np.stack(np.mgrid[:rows, :columns], axis=-1)  # [h, w, 2]
    blocks = grid.reshape(rows // merge, merge, columns // merge, merge, 2).swapaxes(1, 2)
    return blocks.reshape(-1, 2).astype(np.int32)


def patches_of(frames: np.ndarray, processor: VideoProcessor) -> np.ndarray:
    """Normalised patches float32[G, h*w, C*T*P*P] of resized frames uint8[F, H, W, 3]."""
    return patchify(
        normalise(frames, processor.mean, processor.std),
        patch=processor.patch_size,
        merge=processor.merge_size,
        pair=processor.temporal_patch_size,
    )


def group_times(times: np.ndarray, size: int) -> np.ndarray:
    """float[F] seconds of the sampled frames -> float64[G], the middle of each group of `size`.

    The middle is the mean of a group's first and last frame; an odd last frame is repeated.
    """
    groups = _fill_last_group(np.asarray(times, np.float64), size).reshape(-1, size)
    return (groups[:, 0] + groups[:, -1]) / 2


def check_whole(processor: VideoProcessor, name: str, *, none_is_fine: bool = False) -> None:
    """UserError unless a field is a whole number of at least 1."""
    value = getattr(processor, name)
    if value is None and none_is_fine:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"video.{name} must be a whole number of at least 1, got {value!r}")


def check_limits(processor: VideoProcessor, low: str, high: str) -> None:
    """UserError unless two fields are whole numbers in order."""
    for name in (low, high):
        check_whole(processor, name)
    least, most = getattr(processor, low), getattr(processor, high)
    if least > most:
        raise UserError(f"video.{low} {least} is over video.{high} {most}")


def check_positive(processor: VideoProcessor, name: str) -> None:
    """UserError unless a field is a positive finite number."""
    value = getattr(processor, name)
    if not (_is_number(value) and 0 < value < math.inf):
        raise UserError(f"video.{name} must be a positive number, got {value!r}")


def check_colours(processor: VideoProcessor) -> None:
    """UserError unless `mean` and `std` are three numbers each; makes them tuples of floats."""
    for name in ("mean", "std"):
        value = getattr(processor, name)
        sound = isinstance(value, Sequence) and len(value) == 3 and all(map(_is_number, value))
        if not sound or not all(map(math.isfinite, value)):
            raise UserError(f"video.{name} must be three numbers, got {value!r}")
        object.__setattr__(processor, name, tuple(map(float, value)))
    if min(processor.std) <= 0:
        raise UserError(f"video.std must be positive, got {processor.std!r}")


def check_frames(frames: np.ndarray) -> None:
    """ValueError unless frames are uint8[F, H, W, 3]."""
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not len(frames):
        raise ValueError(f"expected uint8[F, H, W, 3] frames, got {frames.dtype}{frames.shape}")


def _fill_last_group(array: np.ndarray, size: int) -> np.ndarray:
    """Repeats the last entry of axis 0 until its length is a multiple of `size`."""
    missing = -len(array) % size
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
