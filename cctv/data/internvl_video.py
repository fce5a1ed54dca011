"""The video processor of InternVL: a fixed number of frames, each one square tile.

Sampling is `load_video` of the InternVL3.5 model cards (huggingface.co/OpenGVLab/InternVL3_5-8B);
pixels follow transformers' `InternVLVideoProcessor` (5.24.0) with the checkpoints' values.
`tests/golden/` holds outputs of both.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cctv.data.errors import UserError
from cctv.data.preprocess import check_colours, check_whole


@dataclass(frozen=True, kw_only=True)
class InternVLVideoProcessor:
    """Frame sampling, resizing and patches of InternVL3.5; a temporal group is one frame.

    Sizes, mean and std are those of the checkpoints (ImageNet's colours), not those of
    transformers' class (384 pixels and CLIP's colours). Patches come in blocks of merge_size x
    merge_size, so that a block is what the tower's pixel shuffle joins. Wrong values raise
    UserError.
    """

    temporal_patch_size: ClassVar[int] = 1

    num_frames: int = 8
    image_size: int = 448
    patch_size: int = 14
    merge_size: int = 2
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def __post_init__(self):
        for name in ("num_frames", "image_size", "patch_size", "merge_size"):
            check_whole(self, name)
        if self.image_size % (self.patch_size * self.merge_size):
            raise UserError(
                f"video.image_size {self.image_size} is no multiple of patch_size times merge_size,"
                f" {self.patch_size * self.merge_size}"
            )
        check_colours(self)

    def sample(self, total: int, fps: float) -> np.ndarray:
        """Frame numbers to read, int64[num_frames], ascending: the middle of each segment.

        total: frames in the video. fps is not needed. A video of fewer frames than `num_frames`
        shows some twice, as the reference does.
        """
        if total < 1:
            raise ValueError(f"cannot sample from a video of {total} frames")
        segment = (total - 1) / self.num_frames
        starts = np.round(segment * np.arange(self.num_frames))
        return (segment / 2 + starts).astype(np.int64)

    def smart_resize(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """Every frame becomes one square tile, whatever its shape."""
        if min(height, width) < 1:
            raise UserError(f"a frame of {width}x{height} pixels cannot be resized")
        return self.image_size, self.image_size
