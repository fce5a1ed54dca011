"""T-bone collisions: one vehicle's front drives into the side of one that crosses its way."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cctv.world.accident import Cast, Intervention, Rejected
from cctv.world.draw import Draw
from cctv.world.layout import Lane, Layout
from cctv.world.motion import TYPES, Action, Actor
from cctv.world.placing import BRAKE, Plan, box, cruising, placed, touching, vehicle
from cctv.world.simulation import Change, World, in_frame

TURNING = (3.8, 4.8)  # m/s on the arcs of a junction
REACH = 3.5  # metres from a striker's middle to the middle of what it hits
END = 0.35  # metres at either end of the struck vehicle that are not its side
ENTRY_APART = 0.3  # seconds between the two vehicles' entries into the junction


class Crossing(NamedTuple):
    """Where the way of a striker crosses that of the one it hits: lane ids, s on the latter."""

    striker: int
    struck: int
    s: float
    from_left: bool


def t_bone(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """One of the two ran a red light, or did not yield on the minor road or on turning left."""
    time, striker, struck = cast.contact_time, cast.striker, 1 - cast.striker
    fits = [
        c
        for c in crossings(layout.lanes)
        if c.from_left == cast.from_left and _is_guilty(layout, c, cast.guilty == striker)
    ]
    turns = [c for c in fits if {layout.lanes[c[k]].turn for k in (0, 1)} != {"straight"}]
    straight = [c for c in fits if c not in turns]
    chosen = draw.choice(turns if turns and (not straight or draw.coin(0.4)) else straight)
    a_lane, b_lane = layout.lanes[chosen.striker], layout.lanes[chosen.struck]
    length = TYPES[cast.looks[struck][0]].length
    # Where the camera rides in the striker, the other has to be slow: only then is it in view.
    most = draw.uniform(3.5, 5.0) if cast.ego == striker else 99.0
    b = _driver(draw, cast, struck, b_lane, chosen.s, most)
    b = placed(b, time, chosen.s + draw.uniform(-0.36, 0.36) * length)
    a = touching(_driver(draw, cast, striker, a_lane, None, 99.0), box(b, time), time)
    guilty, other = (a, b) if cast.guilty == striker else (b, a)
    entries = [entry_time(x, layout) for x in (a, b)]
    if abs(entries[0] - entries[1]) < ENTRY_APART:
        raise Rejected("entry order unclear")
    stop = Action(time=cast.branch, speed=0.0, rate=draw.uniform(*BRAKE))
    remedies = []
    for kind, who in draw.shuffled(
        [("brake", guilty), ("yield", guilty), ("brake", other), ("yield", other)]
    ):
        actions = (stop,)
        if kind == "yield":
            slow = Action(time=cast.branch, speed=draw.uniform(0.5, 2.5), rate=stop.rate)
            speed = float(who.along(np.array([time]))[1][0])
            again = time + draw.uniform(0.3, 1.3)
            actions = (slow, Action(time=round(again, 4), speed=max(speed, 4.0), rate=2.5))
        change = Change(actor=who.id, time=cast.branch, actions=actions)
        remedies.append(Intervention(kind=kind, change=change))
    return Plan(
        layout=layout,
        actors=(a, b),
        cause={"kind": cast.cause, "actor": guilty.id, "other": other.id},
        remedies=tuple(remedies),
    )


def is_t_bone(world: World, cast: Cast) -> bool:
    """Whether the contact is that of the cast: a front, square into the side that was drawn."""
    contact = world.contact
    a, b = world.actor(cast.striker), world.actor(1 - cast.striker)
    ahead, left = in_frame(b, contact)
    turned = a.plan(np.array([contact.time]))[0][2] - b.plan(np.array([contact.time]))[0][2]
    return (
        in_frame(a, contact)[0] > 0.85
        and (1 - abs(ahead)) * b.size.length / 2 > END
        and abs(np.cos(turned)) < 0.66
        and (left > 0) == cast.from_left
    )


def entry_time(actor: Actor, layout: Layout) -> float:
    """When the front enters the junction (s, to 0.01); infinite if it never does."""
    lane = None if actor.lane is None else layout.lanes[actor.lane]
    if lane is None or lane.junction is None:
        return float("inf")
    times = np.arange(0, 2001) / 100
    inside = actor.along(times)[0] + actor.size.length / 2 >= lane.junction[0]
    return float(times[np.argmax(inside)]) if inside.any() else float("inf")


def _driver(draw: Draw, cast: Cast, id_: int, lane: Lane, s: float | None, most: float) -> Actor:
    """One that drives through, or slows down before it turns; `s`: where it is at the contact."""
    speed = cruising(draw, cast.looks[id_][0], most)
    if lane.turn == "straight":
        return vehicle(cast, id_, lane, speed)
    slow = min(speed, draw.uniform(*TURNING))
    arc = lane.path.pieces[0][0]
    way = max(0.0, (s if s is not None else arc + 4.0) - arc)
    rate = 2.5
    when = cast.contact_time - way / slow - (speed - slow) / rate - draw.uniform(0.1, 0.5)
    if when <= 0.05:
        return vehicle(cast, id_, lane, slow)
    action = Action(time=round(when, 4), speed=slow, rate=rate)
    return vehicle(cast, id_, lane, speed, (action,))


def _is_guilty(layout: Layout, crossing: Crossing, striker: bool) -> bool:
    """Whether the striker (or else the struck one) has to let the other pass, by the rules."""
    a, b = layout.lanes[crossing.striker], layout.lanes[crossing.struck]
    guilty, other = (a, b) if striker else (b, a)
    if layout.signals:
        return guilty.road != layout.priority and other.road == layout.priority
    if other.stop is not None:
        return False
    return guilty.stop is not None or (guilty.turn == "left" and other.turn == "straight")


@lru_cache(maxsize=64)
def crossings(lanes: tuple[Lane, ...]) -> tuple[Crossing, ...]:
    """Every ordered pair of lanes from different sides that cross at a good angle."""
    out, ways = [], {}
    for lane in lanes:
        if lane.junction is not None:
            s = np.arange(lane.junction[0] - 2, lane.junction[1] + 2, 0.5)
            ways[lane.id] = s, lane.path.at(s)
    for i, (_, a) in ways.items():
        for j, (s, b) in ways.items():
            same = (lanes[i].road, lanes[i].direction) == (lanes[j].road, lanes[j].direction)
            if (
                same
                or "right" in (lanes[i].turn, lanes[j].turn)
                or lanes[i].turn == lanes[j].turn == "left"
            ):
                continue
            apart = ((a[:, None, :2] - b[None, :, :2]) ** 2).sum(-1)
            # The striker's middle is some metres back when its front meets the other's side.
            back = lanes[i].path.at(ways[i][0] - REACH)[:, 2]
            turn = np.sin(b[None, :, 2] - back[:, None])
            apart = np.where(np.abs(turn) > 0.7, apart, np.inf)
            k, m = np.unravel_index(np.argmin(apart), apart.shape)
            if apart[k, m] < 0.5:
                # A striker that turns right to go the way of the other comes from its left.
                out.append(Crossing(i, j, float(s[m]), bool(turn[k, m] > 0)))
    return tuple(out)
