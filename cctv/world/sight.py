"""What a camera in a car can see, by plan view alone: a quick first test before any pixels."""

import numpy as np

from cctv.world.motion import TYPES, Actor
from cctv.world.simulation import boxes_at

Array = np.ndarray

SIZE = (320, 180)  # at which visibility is measured, whatever size is rendered
SAMPLE = 0.4  # seconds between the instants at which visibility is measured
MIN_SAMPLES = 4  # instants at which an actor that a question names must be visible
SLOPE = 0.66  # metres to the side at a metre ahead, at the border of a riding camera's picture
FOCAL = 210.0  # pixels of a riding camera, in a picture of 320x180
# The pixels that are enough to see something, as a share of those that a car needs.
SMALLER = {"motorcycle": 0.4, "bicycle": 0.3, "pedestrian": 0.25, "pole": 0.15, "tree": 0.3}


def sample_times(duration: float) -> Array:
    """float[T]: the instants at which visibility is measured."""
    return np.arange(int(duration / SAMPLE + 1e-9) + 1) * SAMPLE


def enough(kind: str, min_pixels: int) -> int:
    """The pixels at which an actor of a type, or an obstacle of a kind, is seen at an instant."""
    return round(min_pixels * SMALLER.get(kind, 1.0))


def reach(type_: str, min_pixels: int) -> float:
    """Metres at which an actor of a type still has about enough pixels."""
    size = TYPES[type_]
    return FOCAL * float(np.sqrt(0.6 * size.width * size.height / enough(type_, min_pixels)))


def sees(
    eye: Array, target: Actor, times: Array, far: float, blockers: tuple[Array, ...] = ()
) -> Array:
    """bool[T]: whether a camera in poses float[T, 3] has an actor in view, a part of it free.

    `far` is the distance (m) up to which it counts; `blockers` are float[T, 4, 2] boxes that hide.
    """
    spot = target.poses(times)[:, :2]
    dx, dy = spot[:, 0] - eye[:, 0], spot[:, 1] - eye[:, 1]
    cos, sin = np.cos(eye[:, 2]), np.sin(eye[:, 2])
    ahead, left = dx * cos + dy * sin - 0.5, dy * cos - dx * sin
    seen = (ahead > 2.5) & (np.abs(left) < SLOPE * ahead) & (ahead < far)
    if blockers and seen.any():
        corners = boxes_at(target, times)
        edges = (corners + np.roll(corners, 1, axis=1)) / 2
        points = np.concatenate([corners, edges], axis=1)
        points += 0.1 * (corners.mean(1, keepdims=True) - points)
        free = np.zeros(len(times), int)
        for k in range(8):
            hidden = [crosses(eye[:, :2], points[:, k], box) for box in blockers]
            free += ~np.any(hidden, axis=0)
        seen &= free >= 2
    return seen


def crosses(start: Array, end: Array, box: Array) -> Array:
    """bool[T]: whether the segments from start to end, float[T, 2], meet boxes float[T, 4, 2]."""
    middle = box.mean(1)
    low, high = np.zeros(len(start)), np.ones(len(start))
    for i in (0, 1):
        axis = box[:, i] - box[:, i + 1]
        size = np.sqrt((axis * axis).sum(-1))
        axis = axis / size[:, None]
        a = ((start - middle) * axis).sum(-1)
        way = ((end - start) * axis).sum(-1)
        way = np.where(np.abs(way) < 1e-9, 1e-9, way)
        first, last = (-size / 2 - a) / way, (size / 2 - a) / way
        low = np.maximum(low, np.minimum(first, last))
        high = np.minimum(high, np.maximum(first, last))
    return low < high
