"""The video processor of Qwen2.5-VL: frames at two a second, a budget of pixels a frame, patches.

The rules are those of the qwen-vl-utils package that the checkpoints' cards use (0.0.11,
`vision_process.fetch_video`); transformers' `Qwen2VLVideoProcessor` (5.24.0,
`cap_pixels_per_frame=True`) has the same sizes but floors its frame numbers and misses the last
frame. `tests/golden/qwen2_5_vl.*` holds the outputs of both.
"""

import math
from dataclasses import dataclass

import numpy as np

from cctv.data.preprocess import (
    check_colours,
    check_limits,
    check_positive,
    check_whole,
    fit,
)


@dataclass(frozen=True, kw_only=True)
class Qwen25VideoProcessor:
    """Frame sampling, resizing and patches of Qwen2.5-VL; the defaults are published ones.

    Rate, frame limits and pixel limits are qwen-vl-utils' constants, patches, mean and std those of
    the checkpoints' preprocessor_config.json, whose own pixel limits are for pictures. `min_pixels`
    and `max_pixels` bound one frame (128 and 768 tokens of 28x28 pixels). `total_pixels` bounds
    frames * height * width / 2 (nine tenths of 128,000 tokens) and so can lower `max_pixels`, to
    1.05 `min_pixels` at most. `num_frames`, if set, replaces `fps` and the frame limits by that
    many frames, an even number, never more than the video has. Wrong values raise UserError.
    """

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    fps: float = 2.0
    num_frames: int | None = None
    min_frames: int = 4
    max_frames: int = 768
    min_pixels: int = 100352  # 128 * 28 * 28
    max_pixels: int = 602112  # 768 * 28 * 28
    total_pixels: int = 90316800  # 0.9 * 128000 * 28 * 28
    mean: tuple[float, float, float] = (0.48145466, 0.4578275, 0.40821073)
    std: tuple[float, float, float] = (0.26862954, 0.26130258, 0.27577711)

    def __post_init__(self):
        for name in ("patch_size", "temporal_patch_size", "merge_size", "total_pixels"):
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

        total: frames in the video. fps: its frame rate (unused with `num_frames` or one frame). F
        is a multiple of `temporal_patch_size` unless the video is shorter than that, which the
        reference refuses.
        """
        if total < 1:
            raise ValueError(f"cannot sample from a video of {total} frames")
        pair = self.temporal_patch_size
        if self.num_frames is not None:
            wanted = round(self.num_frames / pair) * pair
        elif total < pair:
            wanted = total
        elif not 0 < fps < math.inf:
            raise ValueError(f"cannot sample from a video of {fps} frames a second")
        else:
            # Rates measured from time stamps are off by rounding, hence the 1e-6.
            wanted = max(total / fps * self.fps + 1e-6, math.ceil(self.min_frames / pair) * pair)
            wanted = min(wanted, self.max_frames)
        n = math.floor(min(wanted, total) / pair) * pair
        n = max(n, min(pair, total))
        return np.linspace(0, total - 1, n).round().astype(np.int64)

    def smart_resize(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """Height and width to resize to, see `preprocess.fit`; UserError where none is right."""
        share = self.total_pixels / num_frames * self.temporal_patch_size
        most = max(min(self.max_pixels, share), int(1.05 * self.min_pixels))
        most = min(most, self.max_pixels)
        return fit(height, width, factor=self.factor, least=self.min_pixels, most=most)
