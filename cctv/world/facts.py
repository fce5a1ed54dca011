"""What one video of a scene shows, from the logged paths, sizes and camera alone.

Nothing here is shared with the drawing of accidents, the contact test, the picture or the question
writer. Distances come from points along outlines.
"""

import math
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray

TOUCH = 0.3  # metres: logged poses are up to 0.1 s after the contact, and the two part again
NEAR = 4.0  # metres between the circles around two boxes from which distances are not taken
GRID, BEYOND = 0.25, 80.0  # metres between the points that stand for a line, and past its ends


class Facts:
    """One video ("positive" or "negative") of a scene's log."""

    def __init__(self, log: dict[str, Any], video: str):
        self.log, self.video, self.step = log, video, log["paths"]["step"]
        self.paths = {int(i): np.array(p) for i, p in log["paths"][video].items()}
        self.actors = {a["id"]: a for a in log["actors"]}
        self.obstacles = {o["id"]: o for o in log["layout"]["obstacles"]}

    # --- distances and contact

    @cached_property
    def gaps(self) -> dict[tuple[int, int], Array]:
        """Pairs that come near each other -> float[T] distances at the logged instants."""
        ids = sorted(self.paths)
        pairs = [*combinations(ids, 2), *((i, o) for i in ids for o in self.obstacles)]
        return {pair: self._distance(*pair) for pair in pairs if self._near(*pair)}

    @cached_property
    def touching(self) -> list[tuple[int, int]]:
        """The pairs that come into contact, at a logged instant or at the time of the contact."""
        logged = tuple(self.log["contact"]["pair"])
        at = (self.pose(i, self.time)[None] for i in logged)
        found = [logged] if self._distance(*logged, *at)[0] <= TOUCH else []
        return sorted({*found, *(pair for pair, gap in self.gaps.items() if gap.min() <= TOUCH)})

    @property
    def touch_times(self) -> list[float]:
        """The logged instants at which the two that touch may have come together.

        The first at which they are near and the first at which they are very near: one that comes
        in at a small angle is near for a while before. The last instant before the contact where
        they are never near at one.
        """
        gap = self.gaps[self.touching[0]]
        hits = [np.argmax(gap <= most) for most in (TOUCH, TOUCH / 3) if gap.min() <= most]
        return [float(k) * self.step for k in hits or [self.time // self.step]]

    def box(self, id_: int) -> tuple[float, float]:
        """Length and width."""
        of = self.actors.get(id_) or self.obstacles[id_]
        return of["length"], of["width"]

    def type(self, id_: int) -> str:
        """Type of an actor, or kind of an obstacle."""
        return self.actors[id_]["type"] if id_ in self.actors else self.obstacles[id_]["kind"]

    def track(self, id_: int) -> Array:
        """float[T, 3] logged poses; an obstacle's never change."""
        if id_ in self.paths:
            return self.paths[id_]
        o = self.obstacles[id_]
        return np.tile([o["x"], o["y"], o["yaw"]], (len(next(iter(self.paths.values()))), 1))

    def pose(self, id_: int, time: float) -> Array:
        """Pose at a time up to the contact, from the instants before it."""
        track, k = self.track(id_), max(1, math.floor(time / self.step + 1e-9))
        before, at = track[k - 1], track[k]
        return at + (at - before) * (time / self.step - k)

    def in_frame_of(self, id_: int, point, time: float) -> tuple[float, float]:
        """Metres that a point is before the middle of a party, and to its left."""
        x, y, yaw = self.pose(id_, time)
        dx, dy = point[0] - x, point[1] - y
        return (
            dx * math.cos(yaw) + dy * math.sin(yaw),
            dy * math.cos(yaw) - dx * math.sin(yaw),
        )

    def outside(self, id_: int, point) -> float:
        """Metres from the outline of a party to a point at the contact; 0 inside."""
        ahead, left = self.in_frame_of(id_, point, self.time)
        length, width = self.box(id_)
        return math.hypot(max(abs(ahead) - length / 2, 0), max(abs(left) - width / 2, 0))

    def _near(self, i: int, j: int) -> bool:
        a, b = self.track(i), self.track(j)
        reach = (math.hypot(*self.box(i)) + math.hypot(*self.box(j))) / 2
        return float(np.hypot(*(a - b)[:, :2].T).min()) <= reach + NEAR

    def _distance(self, i: int, j: int, a: Array | None = None, b: Array | None = None) -> Array:
        """float[T]: metres between two parties in poses float[T, 3], by default the logged ones."""
        a, b = self.track(i) if a is None else a, self.track(j) if b is None else b
        i, j = self.box(i), self.box(j)
        return np.minimum(_outline_to_box(a, i, b, j), _outline_to_box(b, j, a, i))

    # --- what kind of contact

    @cached_property
    def pair(self) -> tuple[int, int]:
        """The two that collide: the one whose front is nearest to the contact point first."""

        def behind_front(id_):
            ahead, _ = self.in_frame_of(id_, self.log["contact"]["point"], self.time)
            return self.box(id_)[0] / 2 - ahead

        first, second = self.touching[0]
        if first in self.actors and second in self.actors:
            if "pedestrian" in (self.type(first), self.type(second)):
                return (second, first) if self.type(first) == "pedestrian" else (first, second)
            return tuple(sorted((first, second), key=behind_front))
        return (first, second)

    @property
    def time(self) -> float:
        """The time of the contact."""
        return self.log["contact"]["time"]

    @cached_property
    def kind(self) -> str:
        """What kind of accident it is, from who touches whom in which direction."""
        one, two = self.pair
        if two in self.obstacles:
            return "run_off_road"
        if self.type(two) == "pedestrian":
            return "pedestrian"
        turned = math.cos(self.pose(one, self.time)[2] - self.pose(two, self.time)[2])
        if abs(turned) < 0.7:
            return "t_bone"
        if turned < 0:
            return "head_on"
        _, beside = self.in_frame_of(two, self.pose(one, self.time)[:2], self.time)
        side = (self.box(one)[1] + self.box(two)[1]) / 2
        return "sideswipe" if abs(beside) > 0.75 * side else "rear_end"

    # --- motion

    def speed(self, id_: int, time: float) -> float:
        """m/s over the last half second before a time, from the logged instants."""
        k, back = math.floor(time / self.step + 1e-9), round(0.5 / self.step)
        (ax, ay), (bx, by) = self.paths[id_][k - back, :2], self.paths[id_][k, :2]
        return math.hypot(bx - ax, by - ay) / (back * self.step)

    def braked(self, id_: int, time: float) -> bool:
        """Whether one lost more than 1 m/s within the second before a time."""
        k = math.floor(time / self.step + 1e-9)
        way = np.hypot(*np.diff(self.paths[id_][k - round(1 / self.step) : k + 1, :2], axis=0).T)
        return float(way[0] - way[-1]) / self.step > 1.0

    def front(self, id_: int) -> Array:
        """float[T, 2]: the middle of its front at the logged instants."""
        x, y, yaw = self.paths[id_].T
        half = self.box(id_)[0] / 2
        return np.stack([x + half * np.cos(yaw), y + half * np.sin(yaw)], -1)

    # --- the road

    def lane(self, id_: int) -> dict[str, Any] | None:
        """The lane that an actor started in."""
        wanted = self.actors[id_]["lane"]
        return next((v for v in self.log["layout"]["lanes"] if v["id"] == wanted), None)

    def aside(self, id_: int, point) -> float:
        """Metres that a point is left of the path that an actor would follow undisturbed."""
        line, _ = _line(self.actors[id_]["path"])
        return _left_of(line, point)

    def in_bend(self, id_: int) -> bool:
        """Whether the path that it should follow bends where it is a second before the contact."""
        line, _ = _line(self.actors[id_]["path"])
        x, y, _ = self.pose(id_, self.time - 1)
        k = int(((line[:, :2] - (x, y)) ** 2).sum(-1).argmin())
        reach = round(6.0 / GRID)
        return abs(float(line[min(k + reach, len(line) - 1), 2] - line[max(k - reach, 0), 2])) > 0.1

    def strays(self, id_: int) -> bool:
        """Whether one is, or heads, beside the path that it should follow at the contact."""
        x, y, yaw = self.pose(id_, self.time)
        line, _ = _line(self.actors[id_]["path"])
        way = line[int(((line[:, :2] - (x, y)) ** 2).sum(-1).argmin()), 2]
        return abs(_left_of(line, (x, y))) > 0.15 or abs(math.sin(yaw - way)) > 0.08

    def along_lane(self, id_: int, points: Array) -> Array:
        """float[T]: how far along its lane the points are, to GRID."""
        line, s = _line(self.lane(id_)["path"])
        way = ((points[:, None] - line[None, :, :2]) ** 2).sum(-1)
        return s[way.argmin(1)]

    def entry(self, id_: int) -> float:
        """The first logged instant at which its front is in the junction; infinite if none."""
        if (self.lane(id_) or {}).get("junction") is None:
            return math.inf
        inside = self.along_lane(id_, self.front(id_)) >= self.lane(id_)["junction"][0]
        return float(np.argmax(inside)) * self.step if inside.any() else math.inf

    def light(self, id_: int) -> str | None:
        """What the light of its road shows, if there is one."""
        road = self.lane(id_)["road"]
        return next((s["state"] for s in self.log["layout"]["signals"] if s["road"] == road), None)

    def had_to_yield(self, id_: int) -> bool:
        """Whether, of the two, this one has a stop line, or turns left across the other's way."""
        (other,) = (i for i in self.pair if i != id_)
        own, ahead = self.lane(id_), self.lane(other)
        crosses = own["turn"] == "left" and ahead["turn"] == "straight"
        return ahead["stop"] is None and (own["stop"] is not None or crosses)

    def passed_line(self, id_: int) -> bool:
        """Whether its front is over its stop line before the contact."""
        if self.lane(id_)["stop"] is None:
            return False
        k = math.floor(self.time / self.step + 1e-9)
        front = self.along_lane(id_, self.front(id_)[: k + 1])
        return bool(front.max() >= self.lane(id_)["stop"])

    def off_road(self, point) -> bool:
        """Whether a place is on no road's asphalt."""
        return all(
            abs(_left_of(_line(road["path"])[0], point)) > road["half_width"] - 0.3
            for road in self.log["layout"]["roads"]
        )

    def to_crossing(self, point) -> float:
        """Metres along the road from the nearest zebra crossing; infinite without one."""
        ways = [math.inf]
        for road in self.log["layout"]["roads"]:
            line, s = _line(road["path"])
            near = ((line[:, :2] - np.asarray(point)) ** 2).sum(-1)
            if near.min() < (road["half_width"] + 2.0) ** 2:
                ways += [abs(float(s[near.argmin()]) - c) for c in road["crossings"]]
        return min(ways)

    # --- the picture

    def place(self, x: float, y: float, time: float, level: float = 0.8) -> tuple[float, float]:
        """Widths right of the middle of the picture at which a point appears, and its depth."""
        eye, yaw, pitch = self._camera(time)
        flat = (x - eye[0]) * math.cos(yaw) + (y - eye[1]) * math.sin(yaw)
        right = (x - eye[0]) * math.sin(yaw) - (y - eye[1]) * math.cos(yaw)
        depth = flat * math.cos(pitch) + (level - eye[2]) * math.sin(pitch)
        return self.log["camera"]["focal"] * right / max(depth, 0.1), depth

    def _camera(self, time: float) -> tuple[Array, float, float]:
        """Eye point, heading and pitch (rad) at a time up to the contact."""
        camera = self.log["camera"]
        if camera["type"] == "ride":
            x, y, yaw = self.pose(camera["actor"], time)
            ahead = camera["ahead"]
            eye = (x + ahead * math.cos(yaw), y + ahead * math.sin(yaw), camera["height"])
            return np.array(eye), yaw, -math.atan(camera["drop"])
        eye = np.array(camera["position"])
        dx, dy, dz = np.array(camera["aim"]) - eye
        return eye, math.atan2(dy, dx), math.atan2(dz, math.hypot(dx, dy))

    def seen(self, id_: int) -> int:
        """At how many of the logged instants enough of an actor is to be seen."""
        visibility = self.log["visibility"]
        counts = visibility[self.video].get(str(id_), [])
        return sum(n >= visibility["enough"][str(id_)] for n in counts)


def _outline_to_box(
    a: Array, size: tuple[float, float], b: Array, other: tuple[float, float]
) -> Array:
    """float[T]: smallest distance of points on the outline of a box in poses a to a box in b."""
    half = np.array([size, other]) / 2
    share = np.linspace(-1, 1, 41)
    edge = np.ones_like(share)
    outline = np.concatenate([np.c_[share, e] for e in (edge, -edge)]
                             + [np.c_[e, share] for e in (edge, -edge)]) * half[0]  # fmt: skip
    cos, sin = np.cos(a[:, 2:]), np.sin(a[:, 2:])
    dx = a[:, :1] + cos * outline[:, 0] - sin * outline[:, 1] - b[:, :1]  # [T, P]
    dy = a[:, 1:2] + sin * outline[:, 0] + cos * outline[:, 1] - b[:, 1:2]
    cos, sin = np.cos(b[:, 2:]), np.sin(b[:, 2:])
    out_x = np.maximum(np.abs(cos * dx + sin * dy) - half[1, 0], 0)
    out_y = np.maximum(np.abs(cos * dy - sin * dx) - half[1, 1], 0)
    return np.hypot(out_x, out_y).min(1)


def _line(path: dict[str, Any]) -> tuple[Array, Array]:
    """float[N, 3] poses along a logged path and float[N] their s, straight on beyond both ends."""
    ways, turns = [], []
    for length, turn in ((BEYOND, 0.0), *path["pieces"], (BEYOND, 0.0)):
        n = math.ceil(length / GRID)
        ways += [length / n] * n
        turns += [turn / n] * n
    x, y, yaw = path["start"]
    s = np.cumsum([0.0, *ways])
    yaws = yaw + np.cumsum([0.0, *turns])
    middle = (yaws[1:] + yaws[:-1]) / 2
    xs = x - BEYOND * math.cos(yaw) + np.cumsum([0.0, *(np.array(ways) * np.cos(middle))])
    ys = y - BEYOND * math.sin(yaw) + np.cumsum([0.0, *(np.array(ways) * np.sin(middle))])
    return np.stack([xs, ys, yaws], -1), s - BEYOND


def _left_of(line: Array, point) -> float:
    k = int(((line[:, :2] - np.asarray(point)) ** 2).sum(-1).argmin())
    x, y, yaw = line[k]
    return float((point[1] - y) * math.cos(yaw) - (point[0] - x) * math.sin(yaw))
