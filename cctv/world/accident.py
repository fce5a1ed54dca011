"""Draws one accident and its counterfactual: the plans of all vehicles, the branch, one change.

What a vehicle looks like, which part it plays, from which side the blow comes and when are drawn
once a scene and kept while everything else is drawn again: so rejection can't make the involved
vehicles look different from the others, one side more frequent, or the contact times uneven.
"""

from dataclasses import dataclass, replace

import numpy as np

from cctv.world.draw import Draw
from cctv.world.layout import LANE_OFFSETS, LANES, ROAD_HALF, STOP_LINE, Lane, Layout, draw_layout
from cctv.world.motion import COLOURS, TYPES, Action, Actor
from cctv.world.simulation import World, changed, simulate
from cctv.world.whatif import LEADS, braking_earlier

KINDS = ("t_bone", "rear_end")
CONTACT_WINDOW = (0.42, 0.66)  # of the duration
BRANCH_LEAD = (1.2, 2.0)  # seconds from the branch to the contact
MIN_GAP = 1.0  # metres between the two involved vehicles in the counterfactual
OTHER_GAP = 0.4  # metres between any other two vehicles, in both videos
ENTRY_APART = 0.3  # seconds between the two vehicles' entries into the junction
BRAKE = (6.5, 8.5)  # m/s^2


class Rejected(Exception):
    """A draw that is not a valid scene; `reason` is counted."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What a scene is drawn around: its kind, its vehicles' looks and parts, its times."""

    kind: str
    looks: tuple[tuple[str, str], ...]  # (type, colour) by id; 0 and 1 collide, 2 must be visible
    striker: int  # the one whose front hits the other
    guilty: int  # the one that caused it; the striker of a rear-end collision
    from_left: bool  # the side of the struck vehicle that a T-bone collision hits
    contact_time: float
    branch: float
    duration: float


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """The one change: `kind` is brake (stop for good) or yield (let pass, then go on)."""

    kind: str
    actor: int
    actions: tuple[Action, ...]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both worlds of a scene."""

    cast: Cast
    cause: dict  # {"kind": "red_light" | "no_braking", "actor": id, "other": id}
    intervention: Intervention
    positive: World
    negative: World


def draw_cast(draw: Draw, kind: str, duration: float) -> Cast:
    """Types and colours (all different), parts, contact and branch times."""
    count = 3 + (draw.uniform(0, 1) < 0.7) + (draw.uniform(0, 1) < 0.4)
    colours = draw.shuffled(COLOURS)[:count]
    types = [draw.choice(("car", "car", "car", "truck", "bus")) for _ in range(count)]
    contact = round(draw.uniform(*CONTACT_WINDOW) * duration, 4)
    # On the time grid of the simulation: an instant that every frame rate may have.
    branch = round((contact - draw.uniform(*BRANCH_LEAD)) * 50) / 50
    striker, other = draw.shuffled([0, 1])
    return Cast(
        kind=kind,
        looks=tuple(zip(types, colours)),
        striker=striker,
        guilty=draw.choice((striker, other)) if kind == "t_bone" else striker,
        from_left=draw.coin(),
        contact_time=contact,
        branch=branch,
        duration=duration,
    )


def draw_pair(draw: Draw, cast: Cast) -> Pair:
    """One attempt at both worlds. Raises `Rejected`."""
    involved, cause, green_road = (_t_bone if cast.kind == "t_bone" else _rear_end)(draw, cast)
    layout = draw_layout(draw, green_road)
    alone = simulate(layout, involved, cast.duration)
    if alone.contact is None or abs(alone.contact.time - cast.contact_time) > 1e-3:
        raise Rejected("another contact than planned")
    if cast.kind == "t_bone" and abs(np.subtract(*[entry_time(a) for a in involved])) < ENTRY_APART:
        raise Rejected("entry order unclear")
    intervention = _intervene(draw, cast, alone, cause)
    actors = involved + _others(draw, cast, alone, intervention)
    positive = simulate(layout, actors, cast.duration)
    negative = changed(positive, intervention.actor, *intervention.actions)
    named = (*positive.contact.pair, 2)
    if not any(all(braking_earlier(positive, lead, named)) for lead in LEADS):
        raise Rejected("no clear what-if")
    return Pair(
        cast=cast, cause=cause, intervention=intervention, positive=positive, negative=negative
    )


def entry_time(actor: Actor) -> float:
    """When the front bumper reaches the junction (s, to 0.01); infinite if it never does."""
    times = np.arange(0, 2001) / 100
    inside = actor.along(times)[0] + actor.size.length / 2 >= -ROAD_HALF
    return float(times[np.argmax(inside)]) if inside.any() else float("inf")


def _actor(cast: Cast, id_: int, lane: Lane, start: float, speed: float, *actions: Action) -> Actor:
    type_, colour = cast.looks[id_]
    return Actor(
        id=id_, type=type_, colour=colour, lane=lane, start=start, speed=speed, actions=actions
    )


def _placed(actor: Actor, time: float, s: float) -> Actor:
    """The vehicle started so that its centre is at s at that time."""
    gone = float(actor.along(np.array([time]))[0][0]) - actor.start
    return replace(actor, start=round(s - gone, 4))


def _t_bone(draw: Draw, cast: Cast) -> tuple[tuple[Actor, ...], dict, int]:
    """The striker drives its front into the side of the other; one of them ran the light."""
    time = cast.contact_time
    lane = draw.choice(LANES)
    # Arms turn left by quarters: the struck vehicle's left side looks to where the striker is.
    arm = (lane.arm + (1 if cast.from_left else 3)) % 4
    cross = draw.choice([other for other in LANES if other.arm == arm])
    striker, struck = cast.striker, 1 - cast.striker
    # s of the point where the lanes cross, on either lane.
    at_cross = lane.origin[0] * cross.direction[0] + lane.origin[1] * cross.direction[1]
    at_lane = cross.origin[0] * lane.direction[0] + cross.origin[1] * lane.direction[1]
    a = _actor(cast, striker, lane, 0.0, draw.uniform(7, 12))
    b = _actor(cast, struck, cross, 0.0, draw.uniform(6, 11))
    off = draw.uniform(-0.36, 0.36) * b.size.length
    b = _placed(b, time, at_cross + off)
    a = _placed(a, time, at_lane - b.size.width / 2 - a.size.length / 2)
    runner, other = (a, b) if cast.guilty == a.id else (b, a)
    cause = {"kind": "red_light", "actor": runner.id, "other": other.id}
    return (a, b), cause, other.lane.road


def _rear_end(draw: Draw, cast: Cast) -> tuple[tuple[Actor, ...], dict, int]:
    """The follower does not brake behind a vehicle that waits at the light or stops suddenly."""
    time = cast.contact_time
    lane = draw.choice(LANES)
    follower, lead = cast.striker, 1 - cast.striker
    waiting = draw.coin(0.4)
    length = TYPES[cast.looks[lead][0]].length
    if waiting:
        b = _actor(cast, lead, lane, STOP_LINE - length / 2 - draw.uniform(0, 1.5), 0.0)
        green_road = 1 - lane.road
    else:
        speed = draw.uniform(6, 10)
        stop = Action(time=time - draw.uniform(0.7, 1.5), speed=0.0, rate=draw.uniform(5, 7.5))
        b = _placed(_actor(cast, lead, lane, 0.0, speed, stop), time, draw.uniform(-16, 10))
        green_road = lane.road
    a = _actor(cast, follower, lane, 0.0, draw.uniform(7, 12))
    s, v, _ = b.along(np.array([time]))
    if a.speed - v[0] < 4.5 or a.speed < b.speed:
        raise Rejected("blow too soft")
    a = _placed(a, time, float(s[0]) - (a.size.length + length) / 2)
    return (a, b), {"kind": "no_braking", "actor": follower, "other": lead}, green_road


def _intervene(draw: Draw, cast: Cast, world: World, cause: dict) -> Intervention:
    """One change at the branch that keeps the two apart by MIN_GAP, looked for in random order."""
    guilty, other = cause["actor"], cause["other"]
    tries = [("brake", guilty)]
    if cast.kind == "t_bone":
        tries = draw.shuffled([("brake", guilty), ("brake", other), ("yield", other)])
    stop = Action(time=cast.branch, speed=0.0, rate=draw.uniform(*BRAKE))
    for kind, who in tries:
        actions = (stop,)
        if kind == "yield":
            actor = next(a for a in world.actors if a.id == who)
            rest = Action(
                time=cast.contact_time + draw.uniform(0.6, 1.2), speed=actor.speed, rate=2.5
            )
            actions = (replace(stop, speed=draw.uniform(0.5, 3)), rest)
        result = changed(world, who, *actions)
        if result.contact is None and result.min_gap(guilty, other) >= MIN_GAP:
            return Intervention(kind=kind, actor=who, actions=actions)
    raise Rejected("no intervention keeps the gap")


def _others(draw: Draw, cast: Cast, world: World, intervention: Intervention) -> tuple[Actor, ...]:
    """The vehicles not involved, each in a lane of its own, clear of everything in both worlds."""
    lanes = [lane for lane in LANES if lane not in {a.lane for a in world.actors}]
    done: tuple[Actor, ...] = ()
    for id_ in range(2, len(cast.looks)):
        for _ in range(30):
            lane = draw.choice(lanes)
            new = _bystander(draw, cast, id_, lane, world.layout)
            if _clear(world, intervention, (*done, new)):
                break
        else:
            raise Rejected("no room for a bystander")
        done += (new,)
        lanes = [other for other in lanes if other != lane]
    return done


def _bystander(draw: Draw, cast: Cast, id_: int, lane: Lane, layout: Layout) -> Actor:
    length = TYPES[cast.looks[id_][0]].length
    line = STOP_LINE - length / 2 - draw.uniform(0, 1.2)
    speed = draw.uniform(6, 12)
    if lane.road != layout.green_road:
        if draw.coin(0.3):
            return _actor(cast, id_, lane, line, 0.0)
        rate = draw.uniform(3, 6)  # comes up to the red light and stops at the line
        start = round(draw.uniform(0.2, 0.7) * cast.duration, 4)
        way = speed * speed / (2 * rate)
        stop = Action(time=start, speed=0.0, rate=rate)
        return _actor(cast, id_, lane, round(line - way - speed * start, 4), speed, stop)
    when = draw.uniform(0.15, 0.85) * cast.duration  # passes the middle of the junction then
    actor = _actor(cast, id_, lane, 0.0, speed)
    if draw.coin(0.6):  # brakes on the way, for good or for a while
        start = round(draw.uniform(0.2, 0.7) * cast.duration, 4)
        slow = Action(time=start, speed=draw.choice((0.0, 2.0)), rate=draw.uniform(4, 7.5))
        again = Action(time=start + draw.uniform(1.5, 2.5), speed=speed, rate=2.5)
        actor = actor.then(slow, again) if draw.coin() else actor.then(slow)
    return _placed(actor, when, draw.uniform(-LANE_OFFSETS[1], LANE_OFFSETS[1]))


def _clear(world: World, intervention: Intervention, others: tuple[Actor, ...]) -> bool:
    """Whether the added vehicles keep OTHER_GAP to all, with the accident and without it."""
    full = simulate(world.layout, (*world.actors, *others), world.duration)
    if full.contact != world.contact:
        return False
    without = changed(full, intervention.actor, *intervention.actions)
    last = others[-1].id
    return without.contact is None and all(
        gap >= OTHER_GAP for w in (full, without) for pair, gap in w.gaps().items() if last in pair
    )
