"""Puts actors where they have to be at a given time, so that they touch then and not before."""

from dataclasses import dataclass, replace

import numpy as np

from cctv.world import geometry
from cctv.world.accident import Cast, Intervention, Rejected
from cctv.world.draw import Draw
from cctv.world.layout import Lane, Layout
from cctv.world.motion import TYPES, Action, Actor, Shift
from cctv.world.simulation import boxes_at

Array = np.ndarray

BRAKE = (6.5, 8.5)  # m/s^2 of one who brakes in time


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One draw of a collision: the place, who collides, why, and what could prevent it."""

    layout: Layout
    actors: tuple[Actor, ...]
    cause: dict
    remedies: tuple[Intervention, ...]  # tried in this order


def vehicle(
    cast: Cast,
    id_: int,
    lane: Lane,
    speed: float,
    actions: tuple[Action, ...] = (),
    shifts: tuple[Shift, ...] = (),
) -> Actor:
    """An actor of the cast in a lane, from its start on; `placed` puts it elsewhere."""
    type_, colour = cast.looks[id_]
    return Actor(
        id=id_,
        type=type_,
        colour=colour,
        path=lane.path,
        lane=lane.id,
        start=0.0,
        speed=speed,
        actions=tuple(sorted(actions, key=lambda a: a.time)),
        shifts=shifts,
    )


def cruising(draw: Draw, type_: str, most: float = 99.0) -> float:
    """A speed in m/s that fits a type, under a limit."""
    low, high = TYPES[type_].speeds
    high = min(high, most)
    return draw.uniform(min(low, 0.7 * high), high)


def placed(actor: Actor, time: float, s: float) -> Actor:
    """The actor started so that its centre is at s at that time."""
    gone = float(actor.along(np.array([time]))[0][0]) - actor.start
    return replace(actor, start=round(s - gone, 4))


def box(actor: Actor, time: float) -> Array:
    """float[4, 2]: its corners at a time."""
    return boxes_at(actor, np.array([time]))[0]


def touching(actor: Actor, other: Array, time: float) -> Actor:
    """The actor started so that it comes along its path and touches a box float[4, 2] at a time.

    Raises Rejected if its path does not lead to that box.
    """
    guess, _ = actor.path.project(*other.mean(0))
    actor = placed(actor, time, guess)
    s0 = float(actor.along(np.array([time]))[0][0])
    # The shifts move along with the start: the offset and slope at `time` stay what they are.
    offset, slope, _ = (float(v[0]) for v in actor.offset(np.array([s0])))
    low, high, steps = -22.0, 6.0, 141
    for _ in range(3):
        moves = np.linspace(low, high, steps)
        poses = actor.path.at(s0 + moves)
        yaw = poses[:, 2].copy()
        poses[:, 0] -= offset * np.sin(yaw)
        poses[:, 1] += offset * np.cos(yaw)
        poses[:, 2] += np.arctan2(slope, 1 - actor.path.curvature(s0 + moves) * offset)
        boxes = geometry.corners(poses, actor.size.length, actor.size.width)
        hits = geometry.overlap(boxes, other[None])
        k = int(np.argmax(hits))
        if not hits[k] or k == 0:
            raise Rejected("the ways don't meet")
        low, high, steps = moves[k - 1], moves[k], 101
    return replace(actor, start=round(actor.start + high + 5e-5, 4))


def first_true(test, low: float, high: float) -> float:
    """Where a test that is true at `high` and not at `low` becomes true, to 1e-5."""
    while abs(high - low) > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if test(middle) else (middle, high)
    return high


def lane_s(lane: Lane, point: tuple[float, float]) -> float:
    """s of the place on a lane that is nearest to a point."""
    return lane.path.project(*point)[0]
