"""From a video file to what a Qwen3-VL vision tower reads: sample, resize, normalise, patchify.

Numpy and Pillow only, so that decoding workers need neither jax nor torch. The arithmetic follows
transformers' `Qwen3VLVideoProcessor` (5.24.0, `cap_pixels_per_frame=False`; 4.57.6 agrees), and
`tests/golden/` holds its outputs. Time stamps come from the times the file itself gives its frames.

Letters: F sampled frames, G = ceil(F/2) temporal groups, H/W pixels, h/w patches, P patch size.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from cctv.data import schema, video
from cctv.data.errors import UserError

MAX_ASPECT_RATIO = 200  # the limit of Qwen's own resize rule
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


@dataclass(frozen=True, kw_only=True)
class QwenVideoProcessor:
    """Frame sampling, resizing and patches of Qwen3-VL; the defaults are those of its checkpoints.

    Patches, pixels, mean and std are from the checkpoints' video_preprocessor_config.json (read in
    Qwen3-VL-8B-Instruct's), whose pixel limits are not those of transformers' class (131072 and
    786432); frame rate and frame limits, which that file leaves out, are the class's. `min_pixels`
    and `max_pixels` bound the whole volume, frames * height * width. `num_frames`, if set, replaces
    `fps` and the frame limits by that many frames spread evenly, never more than the video has.
    Wrong values raise UserError.
    """

    patch_size: int = 16
    temporal_patch_size: int = 2
    merge_size: int = 2
    fps: float = 2.0
    num_frames: int | None = None
    min_frames: int = 4
    max_frames: int = 768
    min_pixels: int = 4096
    max_pixels: int = 25165824  # 24576 * 32 * 32: about 12 thousand visual tokens
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def __post_init__(self):
        for name in ("patch_size", "temporal_patch_size", "merge_size", "num_frames"):
            self._check_whole(name, none_is_fine=name == "num_frames")
        for low, high in (("min_frames", "max_frames"), ("min_pixels", "max_pixels")):
            self._check_whole(low)
            self._check_whole(high)
            if getattr(self, low) > getattr(self, high):
                raise UserError(
                    f"video.{low} {getattr(self, low)} is over video.{high} {getattr(self, high)}"
                )
        if not (_is_number(self.fps) and 0 < self.fps < math.inf):
            raise UserError(f"video.fps must be a positive number, got {self.fps!r}")
        for name in ("mean", "std"):
            value = getattr(self, name)
            sound = isinstance(value, Sequence) and len(value) == 3 and all(map(_is_number, value))
            if not sound or not all(map(math.isfinite, value)):
                raise UserError(f"video.{name} must be three numbers, got {value!r}")
            object.__setattr__(self, name, tuple(map(float, value)))
        if min(self.std) <= 0:
            raise UserError(f"video.std must be positive, got {self.std!r}")

    def _check_whole(self, name: str, *, none_is_fine: bool = False) -> None:
        value = getattr(self, name)
        if value is None and none_is_fine:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"video.{name} must be a whole number of at least 1, got {value!r}")

    @property
    def factor(self) -> int:
        """Height and width of a resized frame are multiples of this many pixels."""
        return self.patch_size * self.merge_size

    def sample(self, total: int, fps: float) -> np.ndarray:
        """Frame numbers to read, int64[F], ascending, the first and last frame included if F > 1.

        total: frames in the video. fps: its frame rate (unused with `num_frames` or one frame).
        """
        if total < 1:
            raise ValueError(f"cannot sample from a video of {total} frames")
        if self.num_frames is not None:
            n = min(self.num_frames, total)
        elif total == 1:
            n = 1
        elif not 0 < fps < math.inf:
            raise ValueError(f"cannot sample from a video of {fps} frames a second")
        else:
            # The reference truncates total / fps * 2. A rate measured from time stamps is off by
            # rounding (29.999999999999996), which must not cost a frame: hence the 1e-6.
            wanted = int(total / fps * self.fps + 1e-6)
            n = min(max(wanted, self.min_frames), self.max_frames, total)
        return np.linspace(0, total - 1, n).round().astype(np.int64)

    def smart_resize(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """Height and width to resize to: near the aspect ratio, the volume within the limits.

        Raises UserError for an aspect ratio over 200. Two oddities of the reference are kept
        because the checkpoints were trained with them: an odd frame count is rounded half to even
        before the limits are compared, and the scale is computed from the unrounded count. The
        reference refuses a single frame; here it counts as the pair it becomes in `patchify`.
        """
        factor, pair = self.factor, self.temporal_patch_size
        num_frames = max(num_frames, pair)
        if min(height, width) < 1:
            raise UserError(f"a frame of {width}x{height} pixels cannot be resized")
        if max(height, width) / min(height, width) > MAX_ASPECT_RATIO:
            raise UserError(
                f"a frame of {width}x{height} pixels has an aspect ratio over {MAX_ASPECT_RATIO}"
            )
        if min(height, width) < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        new_height, new_width = (round(side / factor) * factor for side in (height, width))
        volume = round(num_frames / pair) * pair * new_height * new_width
        if volume > self.max_pixels:
            shrink = math.sqrt(num_frames * height * width / self.max_pixels)
            new_height, new_width = (
                max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width)
            )
        elif volume < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (num_frames * height * width))
            new_height, new_width = (
                math.ceil(side * grow / factor) * factor for side in (height, width)
            )
        return new_height, new_width

    def prepare(self, frames: np.ndarray) -> np.ndarray:
        """uint8[F, H', W', 3] frames resized for this processor, uint8[F, H, W, 3]."""
        _check_frames(frames)
        return resize(frames, self.smart_resize(*frames.shape[:3]))

    def grid(self, frames: np.ndarray) -> tuple[int, int, int]:
        """(G, h, w): how many patches resized frames have in time, height and width."""
        num_frames, height, width = frames.shape[:3]
        groups = -(-num_frames // self.temporal_patch_size)
        return groups, height // self.patch_size, width // self.patch_size

    def tokens_per_group(self, grid: tuple[int, int, int]) -> int:
        """Visual tokens of one temporal group once the tower has merged its patches."""
        return grid[1] * grid[2] // self.merge_size**2

    def normalise(self, frames: np.ndarray) -> np.ndarray:
        """uint8[..., 3] -> float32[..., 3], (x / 255 - mean) / std."""
        mean, std = (255 * np.asarray(v, np.float32) for v in (self.mean, self.std))
        return (frames.astype(np.float32) - mean) / std

    def patchify(self, frames: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int]]:
        """Normalised patches of resized frames, float32[G, h*w, C*T*P*P], and their grid.

        frames: uint8[F, H, W, 3] of `prepare`. An odd last frame is repeated. Patches that the
        tower merges into one token (merge_size x merge_size) follow each other; a patch is
        flattened as (channel, time, row, column).
        """
        _, height, width, channels = frames.shape
        if height % self.factor or width % self.factor:
            raise ValueError(f"{width}x{height} frames are no multiple of {self.factor} pixels")
        groups, rows, columns = grid = self.grid(frames)
        t, m, p = self.temporal_patch_size, self.merge_size, self.patch_size
        patches = _fill_last_group(self.normalise(frames), t)
        patches = patches.reshape(groups, t, rows // m, m, p, columns // m, m, p, channels)
        #          0  1  2   3  4  5   6  7  8
        # blocks:  G  t  h/m m  p  w/m m  p  c   ->   G, h/m, w/m, m, m, c, t, p, p
        patches = patches.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
        return patches.reshape(groups, rows * columns, channels * t * p * p), grid

    def time_stamps(self, times: np.ndarray) -> np.ndarray:
        """float[F] seconds of the sampled frames -> float64[G], the middle of each group.

        The middle is the mean of a group's first and last frame; an odd last frame is repeated.
        """
        groups = _fill_last_group(np.asarray(times, np.float64), self.temporal_patch_size)
        groups = groups.reshape(-1, self.temporal_patch_size)
        return (groups[:, 0] + groups[:, -1]) / 2


def show_kept(clip: Clip, kept: Sequence[int]) -> Clip:
    """The clip with slot j showing frame kept[j·n//F] at slot j's own time (TCD's "repeat")."""
    total, n = len(clip.frames), len(kept)
    return clip._replace(frames=clip.frames[[kept[j * n // total] for j in range(total)]])


def drop_others(clip: Clip, kept: Sequence[int], processor: QwenVideoProcessor) -> Clip:
    """The clip of the kept frames alone, at their own times (TCD's "drop")."""
    kept = list(kept)
    frames = clip.frames[kept]
    indices = tuple(clip.indices[i] for i in kept)
    return clip._replace(
        frames=frames, grid=processor.grid(frames), times=clip.times[kept], indices=indices
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

    Pillow's filter; torchvision's, which the reference uses, is within one uint8 step of it.
    """
    height, width = size
    if frames.shape[1:3] == (height, width):
        return frames
    images = (Image.fromarray(frame) for frame in frames)
    return np.stack(
        [np.asarray(i.resize((width, height), Image.Resampling.BICUBIC)) for i in images]
    )


def measure(path: str | Path, processor: QwenVideoProcessor) -> Clip:
    """What `load_video` would give, from the container alone: no pixels (frames is [F, H, W, 0]),
    no digest. Raises what it raises."""
    return _measured(path, video.probe(path), processor)


def _measured(path: str | Path, info: video.VideoInfo, processor: QwenVideoProcessor) -> Clip:
    indices = processor.sample(info.num_frames, info.fps)
    try:
        height, width = processor.smart_resize(len(indices), info.height, info.width)
    except UserError as error:
        raise video.VideoDecodeError(path, str(error)) from None
    frames = np.empty((len(indices), height, width, 0), np.uint8)
    return Clip(
        frames=frames,
        grid=processor.grid(frames),
        times=info.times[indices],
        indices=tuple(indices.tolist()),
        digest="",
    )


def load_video(path: str | Path, processor: QwenVideoProcessor, *, reader: str = "auto") -> Clip:
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


def _fill_last_group(array: np.ndarray, size: int) -> np.ndarray:
    """Repeats the last entry of axis 0 until its length is a multiple of `size`."""
    missing = -len(array) % size
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _check_frames(frames: np.ndarray) -> None:
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not len(frames):
        raise ValueError(f"expected uint8[F, H, W, 3] frames, got {frames.dtype}{frames.shape}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
