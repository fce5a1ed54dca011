"""A pole camera: where it stands, and where points of the world come in the picture."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cctv.world.draw import Draw

Array = np.ndarray

NEAR = 0.5  # metres in front of the camera from which things are drawn


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A camera without roll at `position`, looking at `aim` (x, y, z in metres).

    `focal` is in widths of a 16:9 picture; other shapes show at least what that one shows.
    """

    position: tuple[float, float, float]
    aim: tuple[float, float, float]
    focal: float

    @cached_property
    def axes(self) -> Array:
        """float[3, 3]: rows right, down, forward."""
        forward = np.subtract(self.aim, self.position)
        forward = forward / np.sqrt((forward * forward).sum())
        right = np.array([forward[1], -forward[0], 0.0])
        right = right / np.sqrt((right * right).sum())
        return np.stack([right, np.cross(forward, right), forward])

    def relative(self, points: Array) -> Array:
        """float[..., 3] world -> float[..., 3] (right, down, forward) of the camera."""
        d = np.asarray(points, np.float64) - self.position
        # Not a matmul: the order of a BLAS sum differs between machines.
        return np.stack([(d * axis).sum(-1) for axis in self.axes], -1)

    def to_pixels(self, relative: Array, size: tuple[int, int]) -> Array:
        """float[..., 2] pixel coordinates of points in front of the camera, size (W, H)."""
        width, height = size
        scale = self.focal * min(width, height * 16 / 9)
        middle = (width / 2, height / 2)
        return middle + scale * relative[..., :2] / relative[..., 2:]


def draw_camera(draw: Draw, focus: tuple[float, float]) -> Camera:
    """A camera over one of the four corners, aimed between the junction and `focus`, with play."""
    sx, sy = draw.choice(((1, 1), (1, -1), (-1, 1), (-1, -1)))
    x, y = sx * draw.uniform(16, 24), sy * draw.uniform(16, 24)
    share = draw.uniform(0.2, 0.8)
    aim = tuple(round(share * v + draw.uniform(-4, 4), 4) for v in focus)
    focal = draw.uniform(0.85, 1.0)
    return Camera(position=(x, y, draw.uniform(9, 13)), aim=(*aim, 0.5), focal=focal)
