"""How one vehicle moves: a plan along a lane, and what a collision makes of it. Closed forms.

A pose at any time is an exact polynomial of the plan, so a frame needs no earlier frame.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cctv.world.layout import Lane

Array = np.ndarray

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")


@dataclass(frozen=True, kw_only=True)
class VehicleType:
    """Sizes in metres, mass in tonnes."""

    length: float
    width: float
    height: float
    mass: float


TYPES = {
    "car": VehicleType(length=4.5, width=1.85, height=1.5, mass=1.4),
    "truck": VehicleType(length=7.0, width=2.35, height=3.0, mass=4.0),
    "bus": VehicleType(length=9.0, width=2.45, height=2.9, mass=6.0),
}


@dataclass(frozen=True, kw_only=True)
class Action:
    """From `time` (s) on, change speed towards `speed` (m/s) at `rate` (m/s^2, positive)."""

    time: float
    speed: float
    rate: float


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
    """One vehicle. `start` is s of its centre at time 0, `speed` its speed then (m/s)."""

    id: int
    type: str
    colour: str
    lane: Lane
    start: float
    speed: float
    actions: tuple[Action, ...] = ()
    crash: Crash | None = None

    @property
    def size(self) -> VehicleType:
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

    def along(self, times: Array) -> tuple[Array, Array, Array]:
        """s, speed and acceleration of the plan at times float[T], collisions left aside."""
        times = np.asarray(times, np.float64)
        knots = self.knots[np.searchsorted(self.knots[:, 0], times, side="right") - 1]  # [T, 4]
        dt = times - knots[..., 0]
        s = knots[..., 1] + dt * (knots[..., 2] + dt * knots[..., 3] / 2)
        return s, knots[..., 2] + dt * knots[..., 3], knots[..., 3]

    def poses(self, times: Array) -> Array:
        """float[T, 3]: x, y (m) and yaw (rad) at times float[T] (s)."""
        times = np.asarray(times, np.float64)
        s = self.along(times)[0]
        (dx, dy), (ox, oy) = self.lane.direction, self.lane.origin
        poses = np.stack([ox + dx * s, oy + dy * s, np.full_like(s, self.lane.yaw)], -1)
        if self.crash is not None:
            poses = np.where((times > self.crash.time)[..., None], self._slide(times), poses)
        return poses

    def velocity(self, time: float) -> Array:
        """float[2]: the velocity of the plan at a time, m/s."""
        return np.array(self.lane.direction) * float(self.along(np.array([time]))[1][0])

    def braking(self, time: float) -> bool:
        """Whether the brake lights are on."""
        if self.crash is not None and time > self.crash.time:
            return True
        _, speed, accel = self.along(np.array([time]))
        return bool(accel[0] < -0.5 or speed[0] < 0.05)

    def then(self, *actions: Action) -> "Actor":
        """The same vehicle, which from the first of these actions on does only these."""
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
