"""Writes the question pairs of a scene from its event log.

Both questions of a pair are the same sentence with one thing exchanged, every sentence has the
collision in it, so that all of them are No on the video in which none happens, and the words alone
don't tell q+ from q-: two names change places, a coin says which of them is asked about, or the
wrong word is the right one of other scenes, each as often.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cctv.world import whatif
from cctv.world.draw import Draw
from cctv.world.eventlog import actors_from_log
from cctv.world.layout import FIRST_OBSTACLE
from cctv.world.motion import Actor
from cctv.world.phrases import CAUSES, KIND_NAMES, KIND_STORIES, TEMPLATES
from cctv.world.sight import MIN_SAMPLES
from cctv.world.simulation import simulate

# How many pairs of a category a scene has at most.
WANTED = {
    "event": 1,
    "key_entity": 2,
    "spatial": 2,
    "spatial_temporal": 1,
    "causal": 1,
    "counterfactual": 1,
}
OBSTACLES = ("tree", "pole", "building")
VEHICLE_KINDS = ("t_bone", "rear_end", "head_on", "sideswipe")  # two vehicles collide
# What is clear enough to be asked.
NEARER = (1.3, 3.0)  # so many times and so many metres nearer to the camera
FURTHER = 0.12  # widths of the picture to the side
MOVED, NEARED = 0.07, 2.0  # widths, metres in the last second
MOMENTS = ("One second before", "Two seconds before")
FASTER = (1.5, 2.0)  # so many times and so many m/s faster
ALIGNED = 0.85  # cosine of the angle between two ways
FASTER_EGO = 4.0  # m/s, when one of them is the camera car
APART = 0.3  # seconds between two entries into the junction
SPEED_TIME = 0.5  # seconds before the contact over which a speed is taken


class Unclear(Exception):
    """A scene about which not all can be asked; `reason` is counted."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Written(NamedTuple):
    """One question pair and the template it is from."""

    template: str
    category: str
    positive: str
    negative: str


class Option(NamedTuple):
    """A pair that could be written: what fills the template in the true and the false question."""

    template: str
    true: dict[str, str]
    false: dict[str, str]


def write_questions(log: dict[str, Any]) -> list[Written]:
    """At least one pair of every category, the same ones for the same log.

    Raises Unclear naming the category for which the scene has no clear question.
    """
    draw = Draw(np.random.SeedSequence([log["seed"], log["index"], 1]))
    view, out = _View(log, draw), []
    for category, most in WANTED.items():
        options: dict[str, dict[str, Option]] = {}
        for option in draw.shuffled(list(_OPTIONS[category](view))):
            options.setdefault(option.template, {}).setdefault(option.true.get("x", ""), option)
        if not options:
            raise Unclear(f"no clear {category} question")
        for template in draw.shuffled(sorted(options))[:most]:
            # First the word that is to be true, then about whom: so no word is the likelier one.
            option = options[template][draw.choice(sorted(options[template]))]
            phrase = draw.choice(TEMPLATES[template].phrases)
            texts = (phrase.format(**slots) for slots in (option.true, option.false))
            out.append(Written(template, category, *texts))
    return out


class _View:
    """What the log says, as the options need it."""

    def __init__(self, log: dict[str, Any], draw: Draw):
        self.log, self.draw, self.kind, self.ego = log, draw, log["kind"], log["ego"]
        self.contact, self.cause = log["contact"], log["cause"]
        self.actors = {a["id"]: a for a in log["actors"]}
        self.involved = [i for i in self.contact["pair"] if i < FIRST_OBSTACLE]
        (self.bystander,) = (i for i in log["named"] if i not in self.involved)

    def name(self, id_: int) -> str:
        if id_ == self.ego:
            return "the camera car"
        colour, type_ = self.actors[id_]["colour"], self.actors[id_]["type"]
        return f"the pedestrian in {colour}" if type_ == "pedestrian" else f"the {colour} {type_}"

    def crash(self) -> str:
        """The collision as a clause; which party comes first is a coin toss."""
        if len(self.involved) == 1:
            return f"{self.name(self.involved[0])} ran off the road and crashed"
        first, second = self.draw.shuffled(self.involved)
        return f"{self.name(first)} and {self.name(second)} collided"

    def is_vehicle(self, id_: int) -> bool:
        return self.actors[id_]["type"] != "pedestrian"

    def other(self, id_: int) -> int:
        return next(i for i in self.involved if i != id_)

    def uninvolved(self, ego_share: float | None = None) -> int:
        """One not involved: with this probability the camera car, if that is not involved.

        It makes the camera car as often the wrong answer as it is the right one. By default as if
        any of those involved were the right answer.
        """
        share = 1 / len(self.involved) if ego_share is None else ego_share
        if self.ego is not None and self.ego not in self.involved and self.draw.coin(share):
            return self.ego
        return self.bystander

    def candidates(self, ego_share: float | None = None) -> tuple[int, ...]:
        """Those whom a what-if question may name, in an order of chance."""
        return tuple(self.draw.shuffled([*self.involved, self.uninvolved(ego_share)]))

    def place(self, id_: int, before: int = 0) -> list[float] | None:
        """(u, v, depth) of one in the picture so many seconds before the contact."""
        return self.log["picture"][before].get(str(id_))

    def in_sight(self, id_: int, before: int = 0) -> bool:
        """Whether one is well visible at the instants around that time."""
        place = self.place(id_, before)
        if place is None or not 0 < place[0] < 1:
            return False
        visibility = self.log["visibility"]
        k = int(np.searchsorted(visibility["times"], self.contact["time"] - before))
        pixels = visibility["positive"][str(id_)][max(k - 1, 0) : k + 1]
        return min(pixels) >= visibility["enough"][str(id_)]

    def around(self, before: int = 0) -> list[int]:
        """Everybody in sight so many seconds before the contact who may be named."""
        visibility = self.log["visibility"]

        def often(id_):
            counts = (visibility[video][str(id_)] for video in ("positive", "negative"))
            enough = visibility["enough"][str(id_)]
            return all(sum(n >= enough for n in c) >= MIN_SAMPLES for c in counts)

        ids = [i for i in self.actors if i != self.ego and self.in_sight(i, before)]
        return [i for i in ids if often(i)]

    def moments(self, last: str) -> Iterator[tuple[int, str]]:
        """Seconds before the contact, and how to say so; `last` for none. All are in the clip."""
        for before, when in enumerate((last, *MOMENTS)):
            if self.contact["time"] > before + SPEED_TIME:
                yield before, when

    def pairs(self, ids: list[int]) -> Iterator[tuple[int, int]]:
        """Every two of the ids, in an order of chance."""
        ids = self.draw.shuffled(ids)
        return ((a, b) for k, a in enumerate(ids) for b in ids[k + 1 :])

    def pose(self, id_: int, before: float = 0.0) -> np.ndarray:
        """float[3]: x, y, yaw so many seconds before the last logged instant of before contact."""
        path, step = self.log["paths"]["positive"][str(id_)], self.log["paths"]["step"]
        return np.array(path[int(self.contact["time"] / step) - round(before / step)])

    def speed(self, id_: int, before: float = 0.0) -> float:
        """m/s in the half second that ends so many seconds before the contact."""
        way = self.pose(id_, before) - self.pose(id_, before + SPEED_TIME)
        return float(np.hypot(way[0], way[1])) / SPEED_TIME

    def plan(self, id_: int) -> Actor:
        _, actors = actors_from_log(self.log)
        return next(a for a in actors if a.id == id_)


def _either(x: str, is_true: bool, y: str) -> tuple[dict[str, str], dict[str, str]]:
    """The word x and the other word as the true and the false filling."""
    return ({"x": x}, {"x": y}) if is_true else ({"x": y}, {"x": x})


def _with(template: str, sides: tuple[dict, dict], **rest: str) -> Option:
    return Option(template, {**sides[0], **rest}, {**sides[1], **rest})


def _swap(template: str, a: str, b: str, **rest: str) -> Option:
    return Option(template, {"a": a, "b": b, **rest}, {"a": b, "b": a, **rest})


def _event(v: _View) -> Iterator[Option]:
    """The kind, and another one: in 30 scenes in a row every kind is the wrong one five times."""
    kinds = list(KIND_NAMES)
    step = 1 + v.log["index"] // len(kinds) % (len(kinds) - 1)
    other = kinds[(kinds.index(v.kind) + step) % len(kinds)]
    yield Option("event_name", {"x": KIND_NAMES[v.kind]}, {"x": KIND_NAMES[other]})
    yield Option("event_story", {"x": KIND_STORIES[v.kind]}, {"x": KIND_STORIES[other]})


def _key_entity(v: _View) -> Iterator[Option]:
    vehicles = [i for i in v.involved if v.is_vehicle(i)]
    # Where only one of the two can be the camera car, it is asked about whenever it is there.
    share = 0.5 if len(vehicles) == 2 else 1.0
    asked = v.draw.choice(v.involved)
    if v.ego in v.involved and share == 1.0:
        asked = v.ego
    yield Option("involved", {"x": v.name(asked)}, {"x": v.name(v.uninvolved(share))})
    # A camera car that is involved is always the striker of these: it sees nothing behind it.
    if v.kind in ("t_bone", "rear_end") and v.ego not in v.involved:
        yield _swap("striker", v.name(v.contact["striker"]), v.name(v.contact["struck"]))
    if v.kind == "pedestrian" and v.is_vehicle(v.bystander):
        (vehicle,) = vehicles
        sides = ({"x": v.name(vehicle)}, {"x": v.name(v.uninvolved(1.0))})
        yield _with("hit_by", sides, b=v.name(v.other(vehicle)))
    if v.kind == "run_off_road":
        hit = v.contact["parties"][1]["kind"]
        other = v.draw.choice([kind for kind in OBSTACLES if kind != hit])
        yield _with("obstacle", ({"x": hit}, {"x": other}), a=v.name(v.involved[0]))


def _spatial(v: _View) -> Iterator[Option]:
    if v.log["view"] == "roadside":
        left = v.contact["image"][0] < 0.5
        yield _with("picture_half", _either("left", left, "right"), crash=v.crash())
    if v.kind == "t_bone":
        sides = _either("left", v.contact["side"] == "left", "right")
        names = {"a": v.name(v.contact["striker"]), "b": v.name(v.contact["struck"])}
        yield _with("side_hit", sides, **names)
    if v.kind == "run_off_road":
        yield _with("run_side", _either("left", _run_side(v) > 0, "right"), a=v.name(v.involved[0]))
    if v.kind in VEHICLE_KINDS:
        a, b = v.draw.shuffled(v.involved)
        names = {"a": v.name(a), "b": v.name(b)}
        if v.kind == "rear_end" and v.ego not in v.involved:
            yield _with("end", _either("front", a == v.contact["striker"], "rear"), **names)
        if v.kind == "sideswipe":
            (party,) = (p for p in v.contact["parties"] if p["id"] == a)
            yield _with("swiped", _either("left", party["side"] == "left", "right"), **names)
        if v.kind == "head_on":
            wrong = v.cause["actor"]
            sides = ({"x": v.name(v.other(wrong))}, {"x": v.name(wrong)})
            yield _with("own_side", sides, **names)
    if v.kind == "pedestrian":
        (walker,) = (i for i in v.involved if not v.is_vehicle(i))
        names = {"a": v.name(walker), "b": v.name(v.other(walker))}
        yield _with("zebra", _either("on", v.cause["kind"] == "ran_over", "away from"), **names)
    for before, when in v.moments("When"):
        for a, b in v.pairs(v.around(before)):
            near, far = sorted((a, b), key=lambda i: v.place(i, before)[2])
            depth = v.place(near, before)[2]
            rest = {"crash": v.crash(), "when": when}
            if v.place(far, before)[2] - depth >= max(NEARER[1], (NEARER[0] - 1) * depth):
                yield _swap("nearer", v.name(near), v.name(far), **rest)
            left, right = sorted((a, b), key=lambda i: v.place(i, before)[0])
            if v.place(right, before)[0] - v.place(left, before)[0] >= FURTHER:
                side = v.draw.choice(("left", "right"))
                names = (left, right) if side == "left" else (right, left)
                yield _swap("further", *(v.name(i) for i in names), side=side, **rest)


def _spatial_temporal(v: _View) -> Iterator[Option]:
    a, b = (v.draw.shuffled(v.involved) * 2)[:2]
    names = {"a": v.name(a), "b": v.name(b)}
    if v.kind == "t_bone":
        first, second = _entry(v, a), _entry(v, b)
        if abs(first - second) >= APART:
            yield _with("entry", _either("before", first < second, "after"), **names)
    if v.kind == "rear_end" and v.ego not in v.involved:
        ahead = a == v.contact["struck"]
        yield _with("lane_order", _either("ahead of", ahead, "behind"), **names)
    if v.kind == "pedestrian":
        (walker,) = (i for i in v.involved if not v.is_vehicle(i))
        side = _comes_from(v, walker)
        names = {"a": v.name(walker), "b": v.name(v.other(walker))}
        yield _with("came_from", _either("left", side > 0, "right"), **names)
    seen = [i for i in v.around() if v.place(i, 1) and v.log["view"] == "roadside"]
    for one in seen:
        (u, _, depth), (past_u, _, past_depth) = v.place(one), v.place(one, 1)
        rest = {"crash": v.crash(), "a": v.name(one)}
        if abs(u - past_u) >= MOVED:
            yield _with("motion", _either("right", u > past_u, "left"), **rest)
        if abs(depth - past_depth) >= NEARED:
            words = _either("coming closer to", depth < past_depth, "moving away from")
            yield _with("nearing", words, **rest)
    yield from _faster_or_heading(v)


def _faster_or_heading(v: _View) -> Iterator[Option]:
    ego = [v.ego] if v.ego is not None else []
    for before, when in v.moments("Just before"):
        for one, two in v.pairs([*(i for i in v.around(before) if v.is_vehicle(i)), *ego]):
            rest = {"crash": v.crash(), "when": when}
            slow, fast = sorted((one, two), key=lambda i: v.speed(i, before))
            low, high = v.speed(slow, before), v.speed(fast, before)
            least = FASTER_EGO if v.ego in (one, two) else FASTER[1]
            # A camera car that is involved is mostly the faster party: words would tell.
            telling = v.ego in (one, two) and v.ego in v.involved
            if not telling and high >= max(low + least, FASTER[0] * low):
                yield _swap("faster", v.name(fast), v.name(slow), **rest)
            turned = np.cos(v.pose(one, before)[2] - v.pose(two, before)[2])
            if abs(turned) >= ALIGNED and {one, two} != set(v.involved):
                words = ("in the same direction as", "in the opposite direction to")
                sides = _either(words[0], turned > 0, words[1])
                yield _with("heading", sides, a=v.name(one), b=v.name(two), **rest)


def _causal(v: _View) -> Iterator[Option]:
    """The right reason against the other party's, or against another reason of the same one."""
    kind, actor = v.cause["kind"], v.cause["actor"]
    true = f"{v.name(actor)} {CAUSES[kind]}"
    if v.kind in VEHICLE_KINDS:
        step = 1 + v.log["index"] // 6 % (len(VEHICLE_KINDS) - 1)
        other = VEHICLE_KINDS[(VEHICLE_KINDS.index(v.kind) + step) % len(VEHICLE_KINDS)]
        reason = {
            "t_bone": v.draw.choice(("red_light", "no_yield", "no_yield")),  # as often as true
            "rear_end": "no_braking",
            "head_on": "wrong_lane",
            "sideswipe": "lane_change",
        }[other]
        false = f"{v.name(actor)} {CAUSES[reason]}"
        if v.ego not in v.involved and v.draw.coin():
            false = f"{v.name(v.other(actor))} {CAUSES[kind]}"
    elif v.kind == "pedestrian":
        reason = "ran_over" if kind == "stepped_out" else "stepped_out"
        false = f"{v.name(v.other(actor))} {CAUSES[reason]}"
    else:
        reason = "lost_control" if kind == "too_fast" else "too_fast"
        false = f"{v.name(actor)} {CAUSES[reason]}"
    yield _with("cause", ({"x": true}, {"x": false}), crash=v.crash())


def _counterfactual(v: _View) -> Iterator[Option]:
    """Both answers come from running the world again with that change."""
    world = simulate(*actors_from_log(v.log), v.log["duration"])
    if v.actors[v.cause["actor"]]["shifts"] and v.draw.coin():
        answers = whatif.keeping(world, v.candidates())
        if all(answers):
            helps, useless = (v.name(ids[0]) for ids in answers)
            yield _with("keeping", ({"x": helps}, {"x": useless}))
            return
    for lead in v.draw.shuffled(whatif.LEADS):
        # A camera car that is involved is the striker, who can nearly always stop in time.
        answers = whatif.stopping(world, lead, v.candidates(1.0))
        if all(answers):
            helps, useless = (v.name(ids[0]) for ids in answers)
            yield _with(
                "stopping",
                ({"x": helps}, {"x": useless}),
                n=f"{lead:g} second{'' if lead == 1 else 's'}",
            )
            return


_OPTIONS = {
    "event": _event,
    "key_entity": _key_entity,
    "spatial": _spatial,
    "spatial_temporal": _spatial_temporal,
    "causal": _causal,
    "counterfactual": _counterfactual,
}


def _run_side(v: _View) -> float:
    """How far left of its lane's path a vehicle that leaves the road ends."""
    return v.plan(v.involved[0]).path.project(*v.contact["point"])[1]


def _entry(v: _View, id_: int) -> float:
    """When the front of a vehicle reaches the junction (s, to 0.01); infinite if it never does."""
    actor = v.plan(id_)
    lane = next(lane for lane in v.log["layout"]["lanes"] if lane["id"] == actor.lane)
    if lane["junction"] is None:
        return float("inf")
    times = np.arange(0, round(v.log["duration"] * 100) + 1) / 100
    inside = actor.along(times)[0] + actor.size.length / 2 >= lane["junction"][0]
    return float(times[np.argmax(inside)]) if inside.any() else float("inf")


def _comes_from(v: _View, walker: int) -> float:
    """How far left of the line of the vehicle's way the pedestrian was a second before."""
    x, y, yaw = v.pose(v.other(walker))
    px, py, _ = v.pose(walker, 1.0)
    return float((py - y) * np.cos(yaw) - (px - x) * np.sin(yaw))
