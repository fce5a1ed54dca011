"""The video processor of VideoLLaMA3: one frame a second, a pixel budget, tokens that changed.

Sampling and time stamps are those of the original code (github.com/DAMO-NLP-SG/VideoLLaMA3,
`mm_utils.load_video`: ffmpeg's fps filter, rounding down), sizes and the choice of tokens those of
transformers' `VideoLlama3VideoProcessor` 5.24.0, which agree with the original's.
`tests/golden/videollama3.*` holds its outputs.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cctv.data.errors import UserError
from cctv.data.preprocess import (
    check_colours,
    check_limits,
    check_positive,
    check_whole,
    fit,
)

CHANGED = 0.1  # a token that differs by more than this from the frame before is kept


@dataclass(frozen=True, kw_only=True)
class VideoLLaMA3VideoProcessor:
    """Frame sampling, resizing, patches and changed tokens; the defaults are published ones.

    `fps` and `max_frames` are those of the original's evaluation and card, pixels, mean and std of
    the checkpoints' processor files (`max_tokens` 16384 and `min_tokens` 16 of 28x28 pixels).
    `min_pixels` bounds a frame, `max_pixels` the whole volume, frames * height * width.

    Time is cut in slots of 1 / fps seconds, of which each shows its last frame and is named after
    its beginning: so the model was trained. With `slot_times` off, a frame has its own time.
    `num_frames`, if set, replaces `fps` and `max_frames` by that many frames spread evenly, never
    more than the video has, each with its own time. Wrong values raise UserError.
    """

    temporal_patch_size: ClassVar[int] = 1

    patch_size: int = 14
    merge_size: int = 2
    fps: float = 1.0
    slot_times: bool = True
    num_frames: int | None = None
    max_frames: int = 180
    min_pixels: int = 12544  # 16 * 28 * 28
    max_pixels: int = 12845056  # 16384 * 28 * 28
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def __post_init__(self):
        for name in ("patch_size", "merge_size", "max_frames"):
            check_whole(self, name)
        check_whole(self, "num_frames", none_is_fine=True)
        check_limits(self, "min_pixels", "max_pixels")
        check_positive(self, "fps")
        check_colours(self)
        if not isinstance(self.slot_times, bool):
            raise UserError(f"video.slot_times must be true or false, got {self.slot_times!r}")

    @property
    def factor(self) -> int:
        """Height and width of a resized frame are multiples of this many pixels."""
        return self.patch_size * self.merge_size

    def sample(self, total: int, fps: float) -> np.ndarray:
        """Frame numbers to read, int64[F], ascending.

        total: frames in the video. fps: its frame rate (unused with `num_frames` or one frame). A
        video of varying rate is sampled as if it had its mean rate throughout. The original finds
        no frame in a video that is shorter than a slot; here it has one.
        """
        if total < 1:
            raise ValueError(f"cannot sample from a video of {total} frames")
        if self.num_frames is not None:
            return _spread(total, self.num_frames)
        if total == 1:
            return np.zeros(1, np.int64)
        if not 0 < fps < math.inf:
            raise ValueError(f"cannot sample from a video of {fps} frames a second")
        # Rates measured from time stamps are off by rounding, hence the 1e-6.
        slots = max(1, math.floor(total / fps * self.fps + 1e-6))
        ends = np.arange(1, slots + 1) * (fps / self.fps)  # in frames; a slot ends before this
        last = np.ceil(ends - 1e-6).astype(np.int64) - 1
        return np.clip(last, 0, total - 1)[_spread(slots, self.max_frames)]

    def smart_resize(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """Height and width to resize to: near the aspect ratio, the pixels within the limits.

        UserError for an aspect ratio over 200. The original has no such limit, and looks at
        `min_pixels` again after shrinking, which matters to frames narrower than 1:90 only.
        """
        most = self.max_pixels // num_frames
        return fit(height, width, factor=self.factor, least=self.min_pixels, most=most)

    def changed(self, frames: np.ndarray) -> np.ndarray:
        """bool[F, V]: which tokens of resized frames uint8[F, H, W, 3] are worth a place.

        Those whose normalised pixels differ from the frame before by more than 0.1 / 255 in the
        mean; all of the first frame; the first token of a frame in which nothing changed. (Pixels
        differ by |x - y| / (255 std), so this is a mean of |x - y| / std over 0.1.)
        """
        count, height, width, channels = frames.shape
        rows, columns, side = height // self.factor, width // self.factor, self.factor
        out = np.ones((count, rows * columns), bool)
        for i in range(1, count):
            difference = np.abs(frames[i].astype(np.int16) - frames[i - 1])  # [H, W, C]
            blocks = difference.reshape(rows, side, columns, side, channels).sum(axis=(1, 3))
            mean = (blocks / np.asarray(self.std)).sum(axis=-1) / (side**2 * channels)
            out[i] = (mean > CHANGED).ravel()
            out[i, 0] |= not out[i].any()
        return out

    def time_stamps(self, times: np.ndarray) -> np.ndarray:
        """float[F] seconds of the sampled frames -> float64[F], what the prompt says of each."""
        times = np.asarray(times, np.float64)
        if self.num_frames is not None or not self.slot_times:
            return times
        return np.floor(times * self.fps + 1e-6) / self.fps


def _spread(total: int, most: int) -> np.ndarray:
    """int64[min(total, most)]: numbers below `total`, evenly spread from the first to the last."""
    return np.linspace(0, total - 1, min(total, most)).astype(np.int64)
