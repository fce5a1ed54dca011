"""A vehicle runs into a pedestrian, or off the road into what stands there."""

from dataclasses import replace

import numpy as np

from cctv.world import geometry
from cctv.world.accident import Cast, Intervention, Rejected
from cctv.world.draw import Draw
from cctv.world.lanes import keep_lane
from cctv.world.layout import FIRST_OBSTACLE, LANE_WIDTH, Lane, Layout, Obstacle, Path, Road
from cctv.world.layouts import SIZES
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

KERB = 1.0  # metres from the edge of the road to a pedestrian who waits
HALT = 5.0  # m/s^2 of a pedestrian who stops
AWAY = 7.0  # metres from a zebra crossing at which "away from a crossing" begins


def pedestrian(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """One walks over a zebra crossing and the driver does not stop, or steps into the road."""
    time, driver, walker = cast.contact_time, cast.striker, 1 - cast.striker
    lane = draw.choice(layout.through)
    road = layout.roads[lane.road]
    at = _crossing_place(draw, cast, layout, lane, road)
    b = walking(draw, cast, walker, lane, road, at)
    speed = cruising(draw, cast.looks[driver][0])
    a = touching(vehicle(cast, driver, lane, speed), box(b, time), time)
    stop = Action(time=cast.branch, speed=0.0, rate=draw.uniform(*BRAKE))
    after = round(time + draw.uniform(0.3, 1.3), 4)
    slow = (
        replace(stop, speed=draw.uniform(0.5, 2.0)),
        Action(time=after, speed=speed, rate=2.5),
    )
    halt = Action(time=cast.branch, speed=0.0, rate=HALT)
    go_on = Action(time=after, speed=1.5, rate=HALT)
    choices = [
        ("brake", driver, (stop,)),
        ("yield", driver, slow),
        ("yield", driver, slow),
        ("wait", walker, (halt,)),
        ("wait", walker, (halt, go_on)),
    ]
    remedies = [
        Intervention(kind=kind, change=Change(actor=who, time=cast.branch, actions=actions))
        for kind, who, actions in draw.shuffled(choices)
    ]
    return Plan(
        layout=layout,
        actors=(a, b),
        cause={"kind": cast.cause, "actor": cast.guilty, "other": 1 - cast.guilty},
        remedies=tuple(remedies),
    )


def walking(draw: Draw, cast: Cast, id_: int, lane: Lane, road: Road, at: float) -> Actor:
    """A pedestrian who crosses the road and is in the middle of a lane at the contact time.

    It waits at the kerb first where there is time. `at`: s of the place along the road.
    """
    type_, colour = cast.looks[id_]
    x, y, yaw = (float(v) for v in road.path.at(np.array(at)))
    heading = yaw if lane.direction > 0 else yaw + np.pi
    side = 1 if cast.from_left else -1  # of the vehicle's way
    kerb = side * (road.half_width + KERB)
    path = Path(
        start=(
            round(x - kerb * float(np.sin(heading)), 4),
            round(y + kerb * float(np.cos(heading)), 4),
            heading - side * np.pi / 2,
        ),
        pieces=((2 * (road.half_width + KERB), 0.0),),
    )
    way = abs(kerb - -(lane.rank + 0.5) * LANE_WIDTH) + draw.uniform(-0.5, 0.5)
    speed = draw.uniform(1.6, 2.8) if cast.cause == "stepped_out" else draw.uniform(1.2, 2.2)
    rate = 3.0
    begin = cast.contact_time - way / speed - speed / (2 * rate)
    actor = Actor(id=id_, type=type_, colour=colour, path=path, lane=None, start=0.0, speed=speed)
    if begin > 0.1:
        go = Action(time=round(begin, 4), speed=speed, rate=rate)
        return replace(actor, speed=0.0, actions=(go,))
    return placed(actor, cast.contact_time, way)


def is_pedestrian(world: World, cast: Cast) -> bool:
    """Whether the vehicle's front hits the pedestrian."""
    return in_frame(world.actor(cast.striker), world.contact)[0] > 0.9


def _crossing_place(draw: Draw, cast: Cast, layout: Layout, lane: Lane, road: Road) -> float:
    """s along the road where the pedestrian crosses: on a zebra, or well away from any."""
    if cast.cause == "ran_over":
        return draw.choice(road.crossings)
    middle = road.path.project(*layout.centre)[0]
    for _ in range(20):
        at = middle + draw.uniform(-30, 30)
        if min(abs(at - z) for z in road.crossings) > AWAY and any(
            low < at < high for low, high in road.marked
        ):
            return at
    raise Rejected("no place away from a crossing")


def run_off_road(draw: Draw, cast: Cast, layout: Layout) -> Plan:
    """A vehicle is too fast for a bend, or swerves, and ends at a tree, a pole or a building."""
    time, sign, bend = cast.contact_time, 1 if cast.from_left else -1, cast.cause == "too_fast"
    lane = draw.choice([x for x in layout.through if _leaves(x, sign, bend)])
    # From the lane to the edge of the road on that side, then on.
    edge = layout.roads[lane.road].half_width + sign * (lane.rank + 0.5) * LANE_WIDTH
    beyond = draw.uniform(3.0, 5.0) if cast.obstacle == "building" else draw.uniform(1.8, 3.2)
    low, high = TYPES[cast.looks[0][0]].speeds
    if bend:  # on the outside of a bend the way is longer, and the vehicle faster, than on the lane
        length, turn = lane.path.pieces[1]
        high /= 1 + abs(turn) / length * (edge + beyond)
        low = 0.8 * high
    speed = draw.uniform(low, high)
    share, lasts = draw.uniform(0.6, 0.8), draw.uniform(1.9, 2.4) + 0.16 * (edge + beyond)
    begin = round(max(time - share * lasts, 0.1), 4)
    share = (time - begin) / lasts
    shift = Shift(
        time=begin,
        length=round(lasts * speed, 4),
        offset=round(sign * (edge + beyond) / (share**3 * (10 - 15 * share + 6 * share**2)), 4),
    )
    actor = vehicle(cast, 0, lane, speed, (), (shift,))
    actor = placed(
        actor, time, _where_it_leaves(draw, layout, lane, share * shift.length if bend else None)
    )
    target = _target(draw, cast, layout, actor)
    layout = replace(layout, obstacles=(*_others(layout, actor, target, time), target))
    keep = keep_lane(draw, cast, actor, shift)
    stop = Action(time=cast.branch, speed=0.0, rate=draw.uniform(*BRAKE))
    slow = replace(stop, speed=speed * draw.uniform(0.3, 0.6))
    again = Action(
        time=round(time + draw.uniform(0.0, 1.0), 4), speed=speed * draw.uniform(0.7, 1.0), rate=3.0
    )
    change = replace(keep.change, actions=draw.choice(((stop,), (slow,), (slow, again))))
    brake = Intervention(kind="brake", change=change)
    return Plan(
        layout=layout,
        actors=(actor,),
        cause={"kind": cast.cause, "actor": 0, "other": None},
        remedies=(brake,) if bend else tuple(draw.shuffled((keep, brake))),
    )


def is_run_off_road(world: World, cast: Cast) -> bool:
    """Whether the vehicle's front hits the obstacle."""
    kind = world.layout.obstacle(world.contact.pair[1]).kind
    return kind == cast.obstacle and in_frame(world.actor(0), world.contact)[0] > 0.8


def _leaves(lane: Lane, sign: int, bend: bool) -> bool:
    """Whether this side is the outer one of the lane's bend; on a straight road either will do."""
    return not bend or lane.path.pieces[1][1] * sign < 0


def _where_it_leaves(draw: Draw, layout: Layout, lane: Lane, way: float | None) -> float:
    """s of the vehicle at the contact: not at a junction; or in the bend, all the way it drifts."""
    if way is not None:
        straight, arc = (length for length, _ in lane.path.pieces[:2])
        return straight + draw.uniform(min(way, 0.9 * arc), arc)
    near, far = (18.0, 30.0) if lane.junction else (0.0, 22.0)
    return lane_s(lane, layout.centre) + draw.uniform(near, far) * draw.choice((1, -1))


def _target(draw: Draw, cast: Cast, layout: Layout, actor: Actor) -> Obstacle:
    """What stands in the way of an actor so that its front touches it at the contact time."""
    time, road = cast.contact_time, layout.roads[layout.lanes[actor.lane].road]
    x, y, yaw = (float(v) for v in actor.plan(np.array([time]))[0])
    front = (x + actor.size.length / 2 * np.cos(yaw), y + actor.size.length / 2 * np.sin(yaw))
    s, side = road.path.project(*front)
    along = round(float(road.path.at(np.array(s))[2]), 4)
    play = draw.uniform(-0.35, 0.35)
    if cast.obstacle == "building":
        length, width, height = draw.uniform(8, 11), draw.uniform(7, 9), draw.uniform(5, 9)
        base = draw.uniform(120, 190)
        colour = tuple(int(base + draw.uniform(-18, 18)) for _ in range(3))
        way, shift, across = along + np.sign(side) * np.pi / 2, play * length, along
    else:
        length, width, height, colour = SIZES[cast.obstacle](draw)
        way, shift, across = yaw, play * actor.size.width, yaw + np.pi / 2

    def at(distance: float) -> Obstacle:
        return Obstacle(
            id=FIRST_OBSTACLE + len(layout.obstacles),
            kind=cast.obstacle,
            x=round(float(front[0] + shift * np.cos(across) + distance * np.cos(way)), 4),
            y=round(float(front[1] + shift * np.sin(across) + distance * np.sin(way)), 4),
            yaw=along,
            length=length,
            width=width,
            height=height,
            colour=colour,
        )

    touched = box(actor, time)
    return at(first_true(lambda d: bool(geometry.overlap(at(d).box, touched)), 20.0, 0.0))


def _others(layout: Layout, actor: Actor, target: Obstacle, time: float) -> tuple[Obstacle, ...]:
    """The obstacles of a place except those in the way of an actor or too near the target."""
    way = actor.plan(np.arange(0, time, 0.1))[:, :2]
    reach = np.hypot(actor.size.length, actor.size.width) / 2 + 1.0
    kept = []
    for o in layout.obstacles:
        own = np.hypot(o.length, o.width) / 2
        near = np.hypot(way[:, 0] - o.x, way[:, 1] - o.y).min() < own + reach
        beside = np.hypot(target.length, target.width) / 2 + own + 1.5
        if not near and np.hypot(o.x - target.x, o.y - target.y) > beside:
            kept.append(o)
    return tuple(kept)
