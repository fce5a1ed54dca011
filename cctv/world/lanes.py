"""Collisions along a road: into the rear, head-on, and side by side."""

from dataclasses import replace

import numpy as np

from cctv.world import geometry
from cctv.world.accident import Cast, Intervention, Rejected
from cctv.world.draw import Draw
from cctv.world.layout import LANE_WIDTH, Lane, Layout
from cctv.world.motion import TYPES, Action, Actor, Shift
from cctv.world.placing import (
    BRAKE,
    Plan,
    box,
    cruising,
    first_true,
    lane_s,
    placed,
    touching,
    vehicle,
)
from cctv.world.simulation import Change, World, in_frame

CLOSING = 4.0  # m/s at which one drives into the rear of another, at least
AROUND = (-20.0, 10.0)  # where along a lane it happens, from the middle of the place


def rear_end(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """The follower does not brake behind one that waits, stops suddenly or goes slowly."""
    time, follower, lead = cast.contact_time, cast.striker, 1 - cast.striker
    lane = draw.choice([x for x in layout.lanes if x.turn == "straight"])
    fast = TYPES[cast.looks[follower][0]].speeds
    speed = draw.uniform(max(fast[0], CLOSING + 1), fast[1])
    where = lane_s(lane, layout.centre) + draw.uniform(*AROUND)
    if layout.has_to_stop(lane):
        b = _at_the_line(draw, cast, lead, lane, speed)
    elif speed > CLOSING + 2.5 and draw.coin(0.3):
        slow = draw.uniform(2.0, speed - CLOSING)
        b = placed(vehicle(cast, lead, lane, min(slow, 5.0)), time, where)
    else:
        before = cruising(draw, cast.looks[lead][0], speed)
        rate, end = draw.uniform(5, 7.5), draw.uniform(0, 0.25) * (speed - CLOSING)
        begin = time - (before - end) / rate - draw.uniform(-0.3, 0.5)
        stop = Action(time=round(max(begin, 0.1), 4), speed=0.0, rate=rate)
        b = placed(vehicle(cast, lead, lane, before, (stop,)), time, where)
    if speed - float(b.along(np.array([time]))[1][0]) < CLOSING - 0.5:
        raise Rejected("blow too soft")
    a = touching(vehicle(cast, follower, lane, speed), box(b, time), time)
    # When nothing has happened the one ahead often goes on, and the follower after it.
    now = float(b.along(np.array([time]))[1][0])
    leaves = round(time + draw.uniform(0.1, 0.9), 4)
    goes = draw.coin(0.7) and (now > 1.5 or not (layout.signals and layout.has_to_stop(lane)))
    if goes:
        end = draw.uniform(0.7, 1.0) * speed
        b = b.then(*b.actions, Action(time=leaves, speed=end, rate=draw.uniform(2.5, 3.5)))
    remedies = []
    for kind in draw.shuffled(("brake", "brake_briefly", "brake_briefly")):
        actions = (Action(time=cast.branch, speed=0.0, rate=draw.uniform(*BRAKE)),)
        if kind == "brake_briefly":
            if not goes:
                continue
            slow, again = draw.uniform(0.0, 0.5) * speed, draw.uniform(0.2, 0.8)
            actions = (
                replace(actions[0], speed=slow),
                Action(time=round(leaves + again, 4), speed=0.9 * end, rate=2.5),
            )
        change = Change(actor=follower, time=cast.branch, actions=actions)
        remedies.append(Intervention(kind="brake", change=change))
    return Plan(
        layout=layout,
        actors=(a, b),
        cause={"kind": cast.cause, "actor": follower, "other": lead},
        remedies=tuple(remedies),
    )


def _at_the_line(draw: Draw, cast: Cast, id_: int, lane: Lane, most: float) -> Actor:
    """One that waits, or comes up to its line and stops shortly before or after the contact."""
    s = lane.stop - TYPES[cast.looks[id_][0]].length / 2 - draw.uniform(0, 1.5)
    if draw.coin():
        return placed(vehicle(cast, id_, lane, 0.0), 0.0, s)
    stands = cast.contact_time + draw.uniform(-1.0, 0.3)
    rate, speed = draw.uniform(5, 7), cruising(draw, cast.looks[id_][0], most)
    stop = Action(time=round(stands - speed / rate, 4), speed=0.0, rate=rate)
    return placed(vehicle(cast, id_, lane, speed, (stop,)), stands, s)


def is_rear_end(world: World, cast: Cast) -> bool:
    """Whether the cast's striker drives its front into the rear of the other."""
    a, b = world.actor(cast.striker), world.actor(1 - cast.striker)
    return in_frame(a, world.contact)[0] > 0.9 and in_frame(b, world.contact)[0] < -0.9


def head_on(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """The guilty drifts into the oncoming lane and meets the other there."""
    time, guilty, other = cast.contact_time, cast.guilty, 1 - cast.guilty
    lane = draw.choice([x for x in layout.through if x.oncoming is not None])
    against = layout.lanes[lane.oncoming]
    # The two are in each other's view for a while only if they don't close too fast.
    most = 9.5 if cast.ego is None else 6.8
    b = vehicle(cast, other, against, cruising(draw, cast.looks[other][0], most))
    b = placed(b, time, lane_s(against, layout.centre) + draw.uniform(*AROUND))
    speed = cruising(draw, cast.looks[guilty][0], most)
    lasts, share = draw.uniform(1.6, 2.3), draw.uniform(0.75, 0.95)
    shift = Shift(
        time=round(max(time - lasts * share, 0.1), 4),
        length=round(lasts * speed, 4),
        offset=LANE_WIDTH + draw.uniform(-0.2, 0.2),
    )
    a = touching(vehicle(cast, guilty, lane, speed, (), (shift,)), box(b, time), time)
    return Plan(
        layout=layout,
        actors=(a, b),
        cause={"kind": cast.cause, "actor": guilty, "other": other},
        remedies=(keep_lane(draw, cast, a, shift),),
    )


def is_head_on(world: World, cast: Cast) -> bool:
    """Whether two fronts meet."""
    return all(in_frame(world.actor(i), world.contact)[0] > 0.85 for i in (0, 1))


def sideswipe(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """The guilty changes over into a lane in which the other is beside it."""
    time, guilty, other = cast.contact_time, cast.guilty, 1 - cast.guilty
    beside = "right" if cast.from_left else "left"
    lane = draw.choice([x for x in layout.through if getattr(x, beside) is not None])
    target = layout.lanes[getattr(lane, beside)]
    types = [cast.looks[i][0] for i in (guilty, other)]
    slow = draw.uniform(0.5, 0.8) * min(TYPES[t].speeds[1] for t in types)
    faster = draw.uniform(0.2, 2.0) * draw.choice((1, -1))
    place = draw.uniform(-0.6, 0.6)  # of the guilty one ahead of the other, of their half lengths
    if cast.ego in (guilty, other):  # it comes from behind, else it does not see the other
        ahead = 1 if cast.ego == other else -1
        # The rear of a long vehicle that changes lanes stays back: it is met farther forward.
        least = 0.2 if TYPES[types[0]].length > 6 else 0.45
        place, faster = (
            ahead * draw.uniform(least, least + 0.4),
            -ahead * draw.uniform(2.0, 3.5),
        )
    speed = slow + max(faster, 0.0)
    b = vehicle(cast, other, target, slow + max(-faster, 0.0))
    b = placed(b, time, lane_s(target, layout.centre) + draw.uniform(*AROUND))
    struck = box(b, time)
    reach = (TYPES[types[0]].length + TYPES[types[1]].length) / 2
    s = lane_s(lane, tuple(struck.mean(0))) + place * reach
    lasts = draw.uniform(1.8, 2.8)
    sign = -1 if cast.from_left else 1

    def mover(begin: float) -> Actor:
        shift = Shift(time=begin, length=round(lasts * speed, 4), offset=sign * LANE_WIDTH)
        return placed(vehicle(cast, guilty, lane, speed, (), (shift,)), time, s)

    def touches(begin: float) -> bool:
        return bool(geometry.overlap(box(mover(begin), time), struck))

    if not touches(time - lasts) or touches(time):
        raise Rejected("the ways don't meet")
    begin = round(first_true(touches, time, time - lasts) - 5e-5, 4)
    if begin < 0.1:
        raise Rejected("begins too early")
    a = mover(begin)
    keep = keep_lane(draw, cast, a, a.shifts[0])
    slow = Action(time=cast.branch, speed=b.speed * draw.uniform(0.2, 0.5), rate=6.5)
    again = Action(
        time=round(time + draw.uniform(0.3, 0.9), 4), speed=speed, rate=draw.uniform(2, 3)
    )
    lets = Intervention(
        kind="yield", change=Change(actor=other, time=cast.branch, actions=(slow, again))
    )
    return Plan(
        layout=layout,
        actors=(a, b),
        cause={"kind": cast.cause, "actor": guilty, "other": other},
        remedies=tuple(draw.shuffled((keep, lets))),
    )


def is_sideswipe(world: World, cast: Cast) -> bool:
    """Whether the two touch sides, going the same way."""
    contact = world.contact
    a, b = world.actor(cast.guilty), world.actor(1 - cast.guilty)
    (x, y, _), (bx, by, yaw) = (v.plan(np.array([contact.time]))[0] for v in (a, b))
    beside = abs((y - by) * np.cos(yaw) - (x - bx) * np.sin(yaw))
    across = abs(contact.normal[1] * np.cos(yaw) - contact.normal[0] * np.sin(yaw))
    left = in_frame(b, contact)[1]
    sides = across > 0.9 and beside > 0.8 * (a.size.width + b.size.width) / 2
    return bool(sides) and (left > 0.5) == cast.from_left


def keep_lane(draw: Draw, cast: Cast, actor: Actor, shift: Shift) -> Intervention:
    """The actor does not leave its lane, or goes back to its middle if it has begun to."""
    back: tuple[Shift, ...] = ()
    if shift.time < cast.branch:
        # The farther it is out, the longer it takes to come back without a jerk.
        way = actor.along(np.array([cast.branch]))[0]
        out = abs(float(actor.offset(way)[0][0]))
        length = round(actor.speed * (draw.uniform(1.4, 1.9) + 0.4 * out), 4)
        back = (Shift(time=cast.branch, length=length, offset=0.0),)
    change = Change(actor=actor.id, time=cast.branch, shifts=back)
    return Intervention(kind="keep_lane", change=change)
