"""What never moves: roads and their lanes, signals, and what stands beside them.

Metres; x east, y north, yaw anticlockwise from east; traffic drives on the right. A point of a path
is given by s, the way along it from its start; offsets are to the left of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cctv.world import geometry

Array = np.ndarray

TYPES = ("straight", "signals", "junction", "tee", "curve")
LANE_WIDTH = 3.5
CROSSING_WIDTH = 2.4  # of a zebra crossing, along the road
FIRST_OBSTACLE = 100  # ids from here on are obstacles, smaller ones actors


@dataclass(frozen=True, kw_only=True)
class Path:
    """A line of straight pieces and arcs, without corners.

    `start` is x, y and yaw of s = 0; `pieces` are (length, turn): metres, and radians to the left.
    Straight on before the start and after the end.
    """

    start: tuple[float, float, float]
    pieces: tuple[tuple[float, float], ...]

    @property
    def length(self) -> float:
        """Metres from the start to the end."""
        return float(self._table[-1, 0])

    @cached_property
    def _table(self) -> Array:
        """float[K + 2, 5]: s, x, y, yaw, curvature where pieces begin; straight first and last."""
        x, y, yaw = self.start
        rows = [(0.0, x, y, yaw, 0.0)]
        s = 0.0
        for length, turn in self.pieces:
            rows.append((s, x, y, yaw, turn / length))
            chord = length * np.sinc(turn / 2 / np.pi)
            x, y = x + chord * np.cos(yaw + turn / 2), y + chord * np.sin(yaw + turn / 2)
            s, yaw = s + length, yaw + turn
        return np.array([*rows, (s, x, y, yaw, 0.0)], np.float64)

    def _rows(self, s: Array) -> Array:
        table = self._table
        # table[0] and table[1] begin at s = 0: before it the first one, after it the second.
        return table[np.searchsorted(table[1:, 0], s, side="right")]

    def at(self, s: Array) -> Array:
        """float[..., 3]: x, y and yaw at s, float[...]."""
        s = np.asarray(s, np.float64)
        if len(self.pieces) == 1 and self.pieces[0][1] == 0.0:
            _, x, y, yaw, _ = self._table[0]
            return np.stack([x + s * np.cos(yaw), y + s * np.sin(yaw), np.full_like(s, yaw)], -1)
        row = self._rows(s)
        ds = s - row[..., 0]
        half = ds * row[..., 4] / 2
        chord, way = ds * np.sinc(half / np.pi), row[..., 3] + half
        x, y = row[..., 1] + chord * np.cos(way), row[..., 2] + chord * np.sin(way)
        return np.stack([x, y, way + half], -1)

    def curvature(self, s: Array) -> Array:
        """float[...]: 1 / radius at s, positive where it turns left."""
        return self._rows(np.asarray(s, np.float64))[..., 4]

    def beside(self, offset: float) -> "Path":
        """The parallel path `offset` metres to the left (right if negative)."""
        x, y, yaw = self.start
        start = (x - offset * np.sin(yaw), y + offset * np.cos(yaw), yaw)
        return Path(start=rounded(start), pieces=tuple((a - offset * t, t) for a, t in self.pieces))

    def reversed(self) -> "Path":
        """The same line driven the other way."""
        x, y, yaw = self._table[-1, 1:4]
        return Path(
            start=rounded((x, y, yaw + np.pi)), pieces=tuple((a, -t) for a, t in self.pieces[::-1])
        )

    def project(self, x: float, y: float) -> tuple[float, float]:
        """s of the nearest point of the path (ends extended), and how far left of it (x, y) is."""
        best = None
        table = self._table
        ends = np.append(table[1:, 0], np.inf)
        for k, (s0, px, py, yaw, curve) in enumerate(table):
            low, high = (-np.inf, 0.0) if k == 0 else (s0, ends[k])
            ahead = (x - px) * np.cos(yaw) + (y - py) * np.sin(yaw)
            left = (y - py) * np.cos(yaw) - (x - px) * np.sin(yaw)
            if curve:
                # Around the centre, `1 / curve` to the left: the angle gone from the start.
                sign = np.sign(curve)
                ahead = np.arctan2(sign * ahead, sign * (1 / curve - left)) / curve
            s = float(np.clip(s0 + ahead, low, high))
            cx, cy, way = self.at(np.array(s))
            distance = (x - cx) ** 2 + (y - cy) ** 2
            if best is None or distance < best[0]:
                best = distance, s, (y - cy) * np.cos(way) - (x - cx) * np.sin(way)
        return best[1], float(best[2])


def rounded(start: tuple[float, float, float]) -> tuple[float, float, float]:
    """Place and yaw to 4 digits of a metre: cosines differ in the last bit between machines."""
    x, y, yaw = start
    return round(float(x), 4), round(float(y), 4), float(yaw)


@dataclass(frozen=True, kw_only=True)
class Road:
    """The asphalt around a centre line, and what is painted on it (s along the centre line).

    `span` is where the road is; `marked` where lane marks are (not inside a junction); `stops` are
    stop lines (s, direction of the traffic that stops there: 1 along the path, -1 against it);
    `crossings` are the middles of zebra crossings.
    """

    path: Path
    half_width: float
    lanes_each_way: int
    span: tuple[float, float]
    marked: tuple[tuple[float, float], ...]
    stops: tuple[tuple[float, int], ...] = ()
    crossings: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What vehicles follow. `road` and `direction` (1, -1) are those of the way in.

    `rank` counts lanes from the middle line, 0 first. `left`, `right` are the ids of the lanes
    beside it with the same direction, `oncoming` that of the nearest one against it; None where
    there is none. `stop` is s of its stop line, `junction` s where the lane enters and leaves it.
    """

    id: int
    path: Path
    road: int
    direction: int
    rank: int
    turn: str = "straight"  # "straight", "left", "right"
    left: int | None = None
    right: int | None = None
    oncoming: int | None = None
    stop: float | None = None
    junction: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A light on a pole beside a stop line, which shows `state` for the whole clip.

    `yaw` is the heading of the traffic that looks at it.
    """

    x: float
    y: float
    yaw: float
    state: str  # "red", "green"
    road: int


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A box beside the road: a building, the trunk of a tree (its crown is above), or a pole."""

    id: int
    kind: str  # "building", "tree", "pole"
    x: float
    y: float
    yaw: float
    length: float
    width: float
    height: float
    colour: tuple[int, int, int]

    @property
    def box(self) -> Array:
        """float[4, 2]: its corners."""
        return geometry.corners(np.array([self.x, self.y, self.yaw]), self.length, self.width)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A place. `priority` is the road that has green or, without lights, the right of way.

    `centre` is the middle of what happens: of the junction, or of the road's middle piece.
    """

    type: str
    roads: tuple[Road, ...]
    lanes: tuple[Lane, ...]
    signals: tuple[Signal, ...]
    obstacles: tuple[Obstacle, ...]
    priority: int = 0
    centre: tuple[float, float] = (0.0, 0.0)

    @property
    def buildings(self) -> tuple[Obstacle, ...]:
        """The obstacles that are buildings."""
        return tuple(o for o in self.obstacles if o.kind == "building")

    @cached_property
    def _by_id(self) -> dict[int, Obstacle]:
        return {o.id: o for o in self.obstacles}

    @property
    def through(self) -> tuple[Lane, ...]:
        """The lanes that go straight on and in which nobody has to stop."""
        lanes = self.lanes
        return tuple(x for x in lanes if x.turn == "straight" and not self.has_to_stop(x))

    def has_to_stop(self, lane: Lane) -> bool:
        """Whether one in this lane stops at its line: a red light, or the minor road."""
        return lane.stop is not None and not (self.signals and lane.road == self.priority)

    def obstacle(self, id_: int) -> Obstacle:
        """The obstacle of an id."""
        return self._by_id[id_]

    @cached_property
    def _extents(self) -> tuple[Array, Array]:
        """float[N, 2] middles and float[N, 1] half diagonals of the obstacles."""
        places = np.array([(o.x, o.y) for o in self.obstacles]).reshape(-1, 2)
        sizes = np.array([(o.length, o.width) for o in self.obstacles]).reshape(-1, 2)
        return places, np.sqrt((sizes * sizes).sum(-1, keepdims=True)) / 2

    def obstacles_within(self, low: Array, high: Array) -> list[Obstacle]:
        """Those that may reach into the rectangle from low to high, float[2] each."""
        places, reach = self._extents
        inside = ((places + reach >= low) & (places - reach <= high)).all(-1)
        return [self.obstacles[k] for k in np.flatnonzero(inside)]
