"""How one actor moves: a plan along a path, and what a collision makes of it. Closed forms.

A pose at any time is an exact polynomial of the plan, so a frame needs no earlier frame.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cctv.world.layout import Path

Array = np.ndarray

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")
FALL = 0.5  # seconds that a person or a two-wheeler takes to fall


@dataclass(frozen=True, kw_only=True)
class ActorType:
    """Sizes in metres, mass in tonnes, cruising speeds in m/s; `lying`: length, width if it falls.

    A pedestrian's length is along the way it walks.
    """

    length: float
    width: float
    height: float
    mass: float
    speeds: tuple[float, float]
    lying: tuple[float, float] | None = None


TYPES = {
    "car": ActorType(length=4.5, width=1.85, height=1.5, mass=1.4, speeds=(7, 12)),
    "truck": ActorType(length=7.0, width=2.35, height=3.0, mass=4.0, speeds=(7, 11)),
    "bus": ActorType(length=9.0, width=2.45, height=2.9, mass=6.0, speeds=(7, 11)),
    "motorcycle": ActorType(
        length=2.2, width=0.8, height=1.6, mass=0.3, speeds=(7, 12), lying=(2.2, 1.2)
    ),
    "bicycle": ActorType(
        length=1.8, width=0.6, height=1.75, mass=0.09, speeds=(4.5, 7), lying=(1.8, 1.2)
    ),
    "pedestrian": ActorType(
        length=0.5, width=0.55, height=1.75, mass=0.08, speeds=(1.1, 2.0), lying=(1.7, 0.6)
    ),
}


@dataclass(frozen=True, kw_only=True)
class Action:
    """From `time` (s) on, change speed towards `speed` (m/s) at `rate` (m/s^2, positive)."""

    time: float
    speed: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Over the `length` metres of way after `time` (s), move to `offset` metres left of the path.

    It is tied to the way, not to time: one who brakes on it does not slide sideways.
    """

    time: float
    length: float
    offset: float


@dataclass(frozen=True, kw_only=True)
class Crash:
    """The slide after a contact: it starts at `time` in `pose` with this velocity (m/s).

    The speed falls by `friction` m/s^2, the turning rate (rad/s) linearly to 0 in `spin_time`.
    """

    time: float
    pose: tuple[float, float, float]
    velocity: tuple[float, float]
    friction: float
    spin: float
    spin_time: float


@dataclass(frozen=True, kw_only=True)
class Actor:
    """A vehicle or a pedestrian. `start` is s of its centre at time 0, `speed` its speed then.

    `lane` is the id of the lane that `path` belongs to, None for a pedestrian.
    """

    id: int
    type: str
    colour: str
    path: Path
    lane: int | None
    start: float
    speed: float
    actions: tuple[Action, ...] = ()
    shifts: tuple[Shift, ...] = ()
    crash: Crash | None = None

    @property
    def size(self) -> ActorType:
        """The sizes of its type."""
        return TYPES[self.type]

    @cached_property
    def knots(self) -> Array:
        """float[K, 4]: time, s, speed and acceleration at the start of each piece of the plan."""
        pieces = [(0.0, self.start, self.speed, 0.0)]
        for action in self.actions:
            pieces = [p for p in pieces if p[0] < action.time] or pieces[:1]
            s, v = _advance(pieces[-1], action.time)
            accel = action.rate if action.speed > v else -action.rate
            pieces.append((action.time, s, v, accel if action.speed != v else 0.0))
            if action.speed != v:
                end = action.time + (action.speed - v) / accel
                s, _ = _advance(pieces[-1], end)
                pieces.append((end, s, action.speed, 0.0))
        return np.array(pieces)

    @cached_property
    def bends(self) -> Array:
        """float[K, 8]: s where each piece of the offset starts, its length, 6 coefficients.

        The offset is their polynomial of u = (s - start) / length, at most 1.
        """
        rows = [(-np.inf, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
        for shift in self.shifts:
            s = float(self.along(np.array([shift.time]))[0][0])
            offset, slope, bend = (float(v) for v in _offset(rows[-1], s))
            rows.append((s, shift.length, *_quintic(offset, slope, bend, shift)))
        return np.array(rows)

    def along(self, times: Array) -> tuple[Array, Array, Array]:
        """s, speed and acceleration of the plan at times float[T], collisions left aside."""
        times = np.asarray(times, np.float64)
        knots = self.knots[np.searchsorted(self.knots[:, 0], times, side="right") - 1]  # [T, 4]
        dt = times - knots[..., 0]
        s = knots[..., 1] + dt * (knots[..., 2] + dt * knots[..., 3] / 2)
        return s, knots[..., 2] + dt * knots[..., 3], knots[..., 3]

    def offset(self, s: Array) -> tuple[Array, Array, Array]:
        """The offset to the left of the path in metres at s, and its two derivatives by s."""
        if not self.shifts:
            return np.zeros_like(s), np.zeros_like(s), np.zeros_like(s)
        # "left": where a new piece begins, the one before it still holds, to the last bit.
        rows = self.bends[np.searchsorted(self.bends[:, 0], s, side="left") - 1]
        return _offset(rows, s)

    def poses(self, times: Array) -> Array:
        """float[T, 3]: x, y (m) and yaw (rad) at times float[T] (s)."""
        times = np.asarray(times, np.float64)
        poses = self.plan(times)
        if self.crash is not None:
            poses = np.where((times > self.crash.time)[..., None], self._slide(times), poses)
        return poses

    def plan(self, times: Array) -> Array:
        """float[T, 3]: the poses if no collision stops the plan."""
        s = self.along(times)[0]
        poses = self.path.at(s)
        if self.shifts:
            offset, slope, _ = self.offset(s)
            yaw = poses[..., 2]
            poses[..., 0] -= offset * np.sin(yaw)
            poses[..., 1] += offset * np.cos(yaw)
            poses[..., 2] += np.arctan2(slope, 1 - self.path.curvature(s) * offset)
        return poses

    def velocity(self, time: float) -> Array:
        """float[2]: the velocity of the plan at a time, m/s."""
        at = np.array([time])
        s, speed, _ = (float(v[0]) for v in self.along(at))
        offset, slope, _ = (float(v[0]) for v in self.offset(np.array([s])))
        ahead = 1 - float(self.path.curvature(s)) * offset
        yaw = float(self.path.at(s)[2])
        cos, sin = np.cos(yaw), np.sin(yaw)
        return speed * np.array([ahead * cos - slope * sin, ahead * sin + slope * cos])

    def braking(self, time: float) -> bool:
        """Whether the brake lights are on: just before `time`, so not yet when braking begins."""
        if self.crash is not None and time > self.crash.time:
            return True
        _, speed, accel = self.along(np.array([max(time - 1e-6, 0.0)]))
        return bool(accel[0] < -0.5 or speed[0] < 0.05)

    def fallen(self, time: float) -> float:
        """How far it has fallen after a collision: 0 upright, 1 lying. Vehicles on 4 wheels: 0."""
        if self.crash is None or self.size.lying is None:
            return 0.0
        return float(np.clip((time - self.crash.time) / FALL, 0.0, 1.0))

    def then(self, *actions: Action) -> "Actor":
        """The same actor, which from the first of these actions on changes speed only so."""
        kept = tuple(a for a in self.actions if a.time < actions[0].time)
        return replace(self, actions=kept + actions)

    def _slide(self, times: Array) -> Array:
        crash = self.crash
        dt = np.maximum(times - crash.time, 0.0)
        speed = float(np.sqrt(crash.velocity[0] ** 2 + crash.velocity[1] ** 2))
        t = np.minimum(dt, speed / crash.friction)
        share = t * (1.0 - crash.friction * t / (2 * speed)) if speed > 0 else 0.0 * t
        r = np.minimum(dt, crash.spin_time)
        turn = crash.spin * r * (1.0 - r / (2 * crash.spin_time))
        x, y, yaw = crash.pose
        vx, vy = crash.velocity
        return np.stack([x + vx * share, y + vy * share, yaw + turn], -1)


def _advance(piece: tuple[float, float, float, float], time: float) -> tuple[float, float]:
    start, s, v, a = piece
    dt = time - start
    return s + dt * (v + dt * a / 2), v + dt * a


def _offset(rows: Array, s: Array) -> tuple[Array, Array, Array]:
    """Value and two derivatives by s of the polynomials in rows [..., 8] of `bends`."""
    start, length, *c = np.moveaxis(np.asarray(rows, np.float64), -1, 0)
    u = np.clip((s - start) / length, 0.0, 1.0)
    value = c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * (c[4] + u * c[5]))))
    slope = c[1] + u * (2 * c[2] + u * (3 * c[3] + u * (4 * c[4] + u * 5 * c[5])))
    bend = 2 * c[2] + u * (6 * c[3] + u * (12 * c[4] + u * 20 * c[5]))
    return value, slope / length, bend / (length * length)


def _quintic(offset: float, slope: float, bend: float, shift: Shift) -> tuple[float, ...]:
    """Coefficients from this offset, slope and bend to (shift.offset, 0, 0) over its length."""
    v, a = slope * shift.length, bend * shift.length**2
    d = shift.offset - offset
    return (
        offset,
        v,
        a / 2,
        10 * d - 6 * v - 1.5 * a,
        -15 * d + 8 * v + 1.5 * a,
        6 * d - 3 * v - 0.5 * a,
    )
