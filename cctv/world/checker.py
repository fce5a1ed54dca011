"""Checks a scene against its event log alone: what happened, and the four truths of every pair.

Nothing here is shared with the drawing of accidents, the contact test or the question writer,
except that `avoidable` runs the world again. Distances come from points along the outlines.
"""

import math
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from cctv.world.eventlog import actors_from_log
from cctv.world.motion import Action
from cctv.world.reading import Claim, Unreadable, read
from cctv.world.scene import MIN_SAMPLES
from cctv.world.simulation import changed, simulate

Array = np.ndarray

TOUCH = 0.3  # metres: logged poses are up to 0.1 s after the contact, and the two part again
BOX = 7.0  # half size of the junction
LINE = 9.7  # the stop lines' distance from its middle
BRAKING = 8.0  # m/s^2 of a vehicle that "brakes hard"


class Facts:
    """What one video of a scene shows, from its logged paths."""

    def __init__(self, log: dict[str, Any], video: str):
        self.log, self.step = log, log["paths"]["step"]
        self.paths = {int(i): np.array(p) for i, p in log["paths"][video].items()}
        self.actors = {a["id"]: a for a in log["actors"]}

    @cached_property
    def gaps(self) -> dict[tuple[int, int], Array]:
        """Pairs of vehicles -> float[T] distances at the logged instants."""
        return {pair: self._distance(*pair) for pair in combinations(sorted(self.paths), 2)}

    @cached_property
    def touching(self) -> list[tuple[int, int]]:
        """The pairs that come into contact."""
        return [pair for pair, gap in self.gaps.items() if gap.min() <= TOUCH]

    @property
    def touch_time(self) -> float:
        """The first logged instant of the only contact."""
        return float(np.argmax(self.gaps[self.touching[0]] <= TOUCH)) * self.step

    def pose(self, id_: int, time: float) -> Array:
        """Pose at a time up to the contact, from the instants before it."""
        k = max(1, math.floor(time / self.step + 1e-9))
        before, at = self.paths[id_][k - 1], self.paths[id_][k]
        return at + (at - before) * (time / self.step - k)

    def in_frame_of(self, id_: int, point: Array, time: float) -> tuple[float, float]:
        """How far a point is beyond a vehicle's front (negative: behind it), and to its left."""
        x, y, yaw = self.pose(id_, time)
        dx, dy = point[0] - x, point[1] - y
        ahead = dx * math.cos(yaw) + dy * math.sin(yaw) - self.actors[id_]["length"] / 2
        return ahead, dy * math.cos(yaw) - dx * math.sin(yaw)

    def entry(self, id_: int, box: float = BOX) -> float:
        """The logged instant at which a vehicle's front is in the junction (or a box) first."""
        path, half = self.paths[id_], self.actors[id_]["length"] / 2
        x = path[:, 0] + half * np.cos(path[:, 2])
        y = path[:, 1] + half * np.sin(path[:, 2])
        inside = (np.abs(x) <= box) & (np.abs(y) <= box)
        return float(np.argmax(inside)) * self.step if inside.any() else math.inf

    def across(self, x: float, y: float) -> float:
        """Widths right of the middle of the picture at which a point 0.8 m up appears."""
        (cx, cy, cz), (ax, ay, az) = self.log["camera"]["position"], self.log["camera"]["aim"]
        yaw, reach = math.atan2(ay - cy, ax - cx), math.hypot(ax - cx, ay - cy)
        pitch = math.atan2(az - cz, reach)
        flat = (x - cx) * math.cos(yaw) + (y - cy) * math.sin(yaw)
        right = (x - cx) * math.sin(yaw) - (y - cy) * math.cos(yaw)
        return (
            self.log["camera"]["focal"]
            * right
            / (flat * math.cos(pitch) + (0.8 - cz) * math.sin(pitch))
        )

    def _distance(self, i: int, j: int) -> Array:
        return np.minimum(self._outline_to_box(i, j), self._outline_to_box(j, i))

    def _outline_to_box(self, i: int, j: int) -> Array:
        """float[T]: smallest distance of points on the outline of i to the rectangle j."""
        half = np.array(
            [[self.actors[k]["length"] / 2, self.actors[k]["width"] / 2] for k in (i, j)]
        )
        share = np.linspace(-1, 1, 41)
        edge = np.ones_like(share)
        outline = np.concatenate([np.c_[share, e] for e in (edge, -edge)]
                                 + [np.c_[e, share] for e in (edge, -edge)]) * half[0]  # fmt: skip
        (a, b) = self.paths[i], self.paths[j]
        cos, sin = np.cos(a[:, 2:]), np.sin(a[:, 2:])
        dx = a[:, :1] + cos * outline[:, 0] - sin * outline[:, 1] - b[:, :1]  # [T, P]
        dy = a[:, 1:2] + sin * outline[:, 0] + cos * outline[:, 1] - b[:, 1:2]
        cos, sin = np.cos(b[:, 2:]), np.sin(b[:, 2:])
        out_x = np.maximum(np.abs(cos * dx + sin * dy) - half[1, 0], 0)
        out_y = np.maximum(np.abs(cos * dy - sin * dx) - half[1, 1], 0)
        return np.hypot(out_x, out_y).min(1)


def truth(claim: Claim, facts: Facts) -> bool:
    """Whether the claim holds in this video. Without a collision every claim's premise fails."""
    if len(facts.touching) != 1:
        return False
    (pair,) = facts.touching
    contact, actors, word = facts.log["contact"], claim.actors, claim.value
    time, point = contact["time"], np.array(contact["point"])
    if claim.predicate == "involved":
        return actors[0] in pair
    if claim.predicate == "avoidable":
        return _avoidable(facts.log, actors[0], float(word), pair)
    if claim.predicate == "picture_half":
        return (facts.across(*point) < 0) == (word == "left")
    if actors and set(actors) != set(pair):
        return False
    striker, struck = sorted(pair, key=lambda i: -facts.in_frame_of(i, point, time)[0])
    turned = facts.pose(striker, time)[2] - facts.pose(struck, time)[2]
    crossing = abs(math.cos(turned)) < 0.5
    if claim.predicate == "kind":
        return crossing == (word == "T-bone")
    if claim.predicate == "part_hit":
        return crossing == (word == "side")
    if claim.predicate == "side_hit":
        left = facts.in_frame_of(struck, point, time)[1] > 0
        return actors[0] == struck and crossing and left == (word == "left")
    if claim.predicate == "end":
        return not crossing and (actors[0] == striker) == (word == "front")
    if claim.predicate == "entry":
        first, second = (facts.entry(i) for i in actors)
        return abs(first - second) > 0.15 and (first < second) == (word == "before")
    if claim.predicate == "lane_order":
        return not crossing and (actors[0] == struck) == (word == "ahead of")
    if claim.predicate == "moving":
        shift = facts.across(*facts.pose(actors[0], time)[:2]) - facts.across(
            *facts.pose(actors[0], time - 1)[:2]
        )
        return abs(shift) > 0.05 and (shift > 0) == (word == "right")
    if claim.predicate == "red_light":
        red = facts.actors[actors[2]]["lane"]["arm"] % 2 != facts.log["layout"]["green_road"]
        return crossing and red and facts.entry(actors[2], LINE) <= time
    if claim.predicate == "no_braking":
        path = facts.paths[striker][: math.floor(time / facts.step) + 1, :2]
        speeds = np.hypot(*np.diff(path, axis=0).T) / facts.step
        return not crossing and actors[2] == striker and np.ptp(speeds) < 0.5
    raise ValueError(f"no meaning for {claim.predicate!r}")


def _avoidable(log: dict[str, Any], who: int, lead: float, pair: tuple[int, int]) -> bool:
    layout, actors = actors_from_log(log)
    world = simulate(layout, actors, log["duration"])
    stop = Action(time=log["contact"]["time"] - lead, speed=0.0, rate=BRAKING)
    result = changed(world, who, stop)
    return result.contact is None


def check(record: dict[str, Any]) -> list[str]:
    """Every fault of a scene, a line of scenes.jsonl as a dict; none when all is right."""
    log = record["metadata"]
    positive, negative = Facts(log, "positive"), Facts(log, "negative")
    faults = _events(log, positive, negative)
    for pair in record["questions"]:
        try:
            claims = [read(pair[q], log["actors"]) for q in ("positive", "negative")]
        except Unreadable as error:
            faults.append(f"{pair['pair_id']}: {error}")
            continue
        cells = [bool(truth(c, f)) for f in (positive, negative) for c in claims]
        if cells != [True, False, False, False]:
            faults.append(f"{pair['pair_id']}: truths {cells}")
        if claims[0].predicate != claims[1].predicate:
            faults.append(f"{pair['pair_id']}: two different kinds of question")
        for id_ in {i for c in claims for i in c.actors}:
            if any(log["seen"][v][str(id_)] < MIN_SAMPLES for v in ("positive", "negative")):
                faults.append(f"{pair['pair_id']}: vehicle {id_} is hardly visible")
    return faults


def _events(log: dict[str, Any], positive: Facts, negative: Facts) -> list[str]:
    """Faults of what happens: one contact on v+, a gap on v-, one past, motion as planned."""
    faults = []
    contact, branch = log["contact"], log["branch"]
    if positive.touching != [tuple(contact["pair"])]:
        faults.append(f"contacts of the accident: {positive.touching}, logged {contact['pair']}")
    elif abs(positive.touch_time - contact["time"]) > 1.5 * positive.step:
        faults.append(f"the contact is not at {contact['time']} s")
    if negative.touching:
        faults.append(f"contacts of the counterfactual: {negative.touching}")
    gap = negative.gaps[tuple(contact["pair"])].min()
    if gap < log["min_gap"]["stated"] - 0.01:
        faults.append(f"counterfactual gap {gap:.2f} m under {log['min_gap']['stated']}")
    if not 0 < branch < contact["time"] < log["duration"]:
        faults.append(f"branch {branch}, contact {contact['time']} out of order")
    shared = math.floor(branch / positive.step + 1e-9) + 1
    if any(not np.array_equal(positive.paths[i][:shared], negative.paths[i][:shared])
           for i in positive.paths):  # fmt: skip
        faults.append("the two videos differ before the branch")
    layout, actors = actors_from_log(log)
    world = simulate(layout, actors, log["duration"])
    change = log["intervention"]
    other = changed(world, change["actor"], *(Action(**a) for a in change["actions"]))
    for name, facts, again in (("positive", positive, world), ("negative", negative, other)):
        times = np.arange(len(next(iter(facts.paths.values())))) * facts.step
        for actor in again.actors:
            if np.abs(actor.poses(times) - facts.paths[actor.id]).max() > 2e-3:
                faults.append(f"{name}: vehicle {actor.id} does not follow its plan")
    return faults
