"""The video processor of the Qwen-VL line: sample by rate, resize by a pixel budget, patchify.

The arithmetic follows transformers' `Qwen3VLVideoProcessor` (5.24.0, `cap_pixels_per_frame=False`;
4.57.6 agrees), and `tests/golden/` holds its outputs.
"""

import math
from dataclasses import dataclass

import numpy as np

from cctv.data.errors import UserError
from cctv.data.preprocess import (
    MAX_ASPECT_RATIO,
    check_colours,
    check_limits,
    check_positive,
    check_whole,
    group_times,
)


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
        for name in ("patch_size", "temporal_patch_size", "merge_size"):
            check_whole(self, name)
        check_whole(self, "num_frames", none_is_fine=True)
        for low, high in (("min_frames", "max_frames"), ("min_pixels", "max_pixels")):
            check_limits(self, low, high)
        check_positive(self, "fps")
        check_colours(self)

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

    def time_stamps(self, times: np.ndarray) -> np.ndarray:
        """float[F] seconds of the sampled frames -> float64[G], the middle of each group."""
        return group_times(times, self.temporal_patch_size)
