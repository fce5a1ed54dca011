"""Cameras: on a pole beside the road, or riding in a car; where points come in the picture."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cctv.world.accident import Rejected
from cctv.world.draw import Draw
from cctv.world.layout import Layout
from cctv.world.simulation import World

Array = np.ndarray

CLEARANCE = 2.0  # metres between a pole camera and any obstacle
SIGHT = 2.0  # metres that are kept clear on either side of the line from it to the focus
CROWN = 1.5  # half width of a tree's crown
_TRIES = 40


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A camera without roll at `position`, looking at `aim` (x, y, z in metres).

    `focal` is in widths of a 16:9 picture; other shapes show at least what that one shows.
    """

    position: tuple[float, float, float]
    aim: tuple[float, float, float]
    focal: float

    def at(self, world: World, time: float) -> "Camera":
        """The camera at an instant: this one stands still."""
        return self

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


@dataclass(frozen=True, kw_only=True)
class Ride:
    """A camera at the windscreen of the car `actor`, `ahead` metres before its middle.

    `height` is that over the road (m), `drop` how much it looks down (metres a metre), `focal` as
    of `Camera`.
    """

    actor: int
    ahead: float
    height: float
    drop: float
    focal: float

    def at(self, world: World, time: float) -> Camera:
        """The camera where its car is at an instant."""
        car = world.actor(self.actor)
        x, y, yaw = (float(v) for v in car.poses(np.array([time]))[0])
        cos, sin = float(np.cos(yaw)), float(np.sin(yaw))
        eye = (x + self.ahead * cos, y + self.ahead * sin, self.height)
        aim = (eye[0] + cos, eye[1] + sin, self.height - self.drop)
        return Camera(position=eye, aim=aim, focal=self.focal)


def draw_pole(
    draw: Draw,
    layout: Layout,
    focus: tuple[float, float],
    distance: tuple[float, float],
    left: bool,
) -> Camera:
    """A camera on a pole, `distance` (m, along the ground) from `focus` and clear of obstacles.

    It looks beside the focus, so that this is left of the middle of the picture, or right of it.
    Raises `Rejected` where obstacles are everywhere.
    """
    for _ in range(_TRIES):
        # A direction by rejection from the square: no sine, the same on every machine.
        dx, dy = draw.uniform(-1, 1), draw.uniform(-1, 1)
        length = float(np.sqrt(dx * dx + dy * dy))
        if not 0.2 < length <= 1:
            continue
        away = draw.uniform(*distance)
        x, y = round(focus[0] + away * dx / length, 4), round(focus[1] + away * dy / length, 4)
        height = round(draw.uniform(0.36, 0.5) * away, 4)
        if not _blocked(layout, (x, y), height, focus):
            break
    else:
        raise Rejected("no place for a camera")
    side = draw.uniform(0.1, 0.28) * (away if left else -away)  # the aim is so far to the right
    ahead = draw.uniform(-0.12, 0.12) * away
    ux, uy = -dx / length, -dy / length
    aim = (focus[0] + side * uy + ahead * ux, focus[1] - side * ux + ahead * uy)
    focal = draw.uniform(0.95, 1.1)
    return Camera(
        position=(x, y, height), aim=(round(aim[0], 4), round(aim[1], 4), 0.5), focal=focal
    )


def draw_ride(draw: Draw, actor_id: int) -> Ride:
    """A dashboard camera in the car of an id."""
    return Ride(
        actor=actor_id,
        ahead=0.5,
        height=draw.uniform(1.35, 1.5),
        drop=draw.uniform(0.05, 0.09),
        focal=draw.uniform(0.68, 0.8),
    )


def _blocked(layout: Layout, eye: tuple[float, float], height: float, focus) -> bool:
    """Whether an obstacle stands at the camera, or in its line of sight to the focus."""
    to = np.subtract(focus, eye)
    way = float(np.sqrt((to * to).sum()))
    ux, uy = (to / way).tolist()
    for o in layout.obstacles:
        dx, dy = o.x - eye[0], o.y - eye[1]
        ahead, beside = dx * ux + dy * uy, abs(dy * ux - dx * uy)
        room = CROWN if o.kind == "tree" else float(np.sqrt(o.length**2 + o.width**2)) / 2
        if np.sqrt(dx * dx + dy * dy) < room + CLEARANCE:
            return True
        low = height * (1 - min(ahead + room, way) / way)  # of the line where it passes
        if 0 < ahead < way and beside < room + SIGHT and o.height > low and o.kind != "pole":
            return True
    return False
