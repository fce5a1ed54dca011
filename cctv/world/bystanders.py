"""Those who are not involved: each drives or walks clear of everything in both worlds.

They cruise, brake hard, stop, start, swerve, change lanes and stop right behind each other, with
the accident and without it: so neither video has more of that than the other.
"""

from dataclasses import replace

import numpy as np

from cctv.world import geometry, sight
from cctv.world.accident import Cast, Rejected
from cctv.world.crossing import TURNING
from cctv.world.draw import Draw
from cctv.world.layout import Lane, Layout, Path
from cctv.world.motion import TYPES, Action, Actor, Shift
from cctv.world.placing import cruising, lane_s, placed, vehicle
from cctv.world.simulation import World, bounds, boxes_at, track

OTHER_GAP = 0.4  # metres between one who is not involved and anybody else, in both videos
TRIES = 40
VIEW = 0.42  # radians from straight ahead within which the camera's car has the contact
AHEAD = (9.0, 26.0)  # metres to it


def add_others(
    draw: Draw, cast: Cast, positive: World, negative: World, min_pixels: int
) -> tuple[Actor, ...]:
    """The actors of the cast that are not involved, with what they do. Raises Rejected."""
    ids = sorted(range(cast.involved, len(cast.looks)), key=lambda i: i != cast.ego)
    view = _View(cast, positive, negative, min_pixels)
    done: tuple[Actor, ...] = ()
    for id_ in ids:
        for _ in range(2 * TRIES if id_ in (cast.ego, cast.bystander) else TRIES):
            if id_ == cast.ego:
                new = _onlooker(draw, cast, id_, positive)
                if new is None or not view.shows_parties(new):
                    continue
            elif cast.looks[id_][0] == "pedestrian":
                new = _stroller(draw, cast, id_, positive)
            else:
                new = _driver(draw, cast, id_, positive, done)
            if id_ == cast.bystander and not view.shows(new, done):
                continue
            if _clear(new, positive, negative, done):
                break
        else:
            raise Rejected("no place for the camera's car" if id_ == cast.ego else "no room")
        done += (new,)
    return done


class _View:
    """What the camera's car sees in both worlds; without one, everything."""

    def __init__(self, cast: Cast, positive: World, negative: World, min_pixels: int):
        self.cast, self.worlds, self.min_pixels = cast, (positive, negative), min_pixels
        self.times = sight.sample_times(cast.duration)

    def shows_parties(self, ego: Actor) -> bool:
        """Whether it has the contact free before it, and the parties long enough."""
        eye, at = ego.poses(self.times), np.array([self.worlds[0].contact.time])
        boxes = [boxes_at(a, at) for a in self.worlds[0].actors]
        for k, actor in enumerate(self.worlds[0].actors):
            others = tuple(b for j, b in enumerate(boxes) if j != k)
            if not sight.sees(ego.poses(at), actor, at, self._far(actor), others)[0]:
                return False
        return all(
            sight.sees(eye, a, self.times, self._far(a)).sum() >= sight.MIN_SAMPLES
            for world in self.worlds
            for a in world.actors
        )

    def shows(self, new: Actor, done: tuple[Actor, ...]) -> bool:
        """Whether a new actor is in its view long enough, in both worlds."""
        if self.cast.ego is None:
            return True
        for world in self.worlds:
            actors = (*world.actors, *done)
            ego = next(a for a in actors if a.id == self.cast.ego)
            hide = tuple(boxes_at(a, self.times) for a in actors if a is not ego)
            seen = sight.sees(ego.poses(self.times), new, self.times, self._far(new), hide)
            if seen.sum() < sight.MIN_SAMPLES:
                return False
        return True

    def _far(self, actor: Actor) -> float:
        return sight.reach(actor.type, self.min_pixels)


def _clear(new: Actor, positive: World, negative: World, done: tuple[Actor, ...]) -> bool:
    """Whether it keeps OTHER_GAP to all, with the accident and without it, and hits nothing."""
    own = track(new, positive.duration)
    for world in (positive, negative):
        if any(_near(own, boxes) for boxes in world.boxes.values()):
            return False
    if any(_near(own, track(other, positive.duration)) for other in done):
        return False
    around = near_obstacles(positive.layout, new, positive.duration)
    return not around


def near_obstacles(layout: Layout, actor: Actor, duration: float) -> list[int]:
    """Ids of the obstacles to which an actor does not keep OTHER_GAP."""
    low, high = bounds(actor, duration)
    around = layout.obstacles_within(low - OTHER_GAP, high + OTHER_GAP)
    return [o.id for o in around if _near(track(actor, duration), o.box[None])]


def _near(a, b) -> bool:
    a, b = np.broadcast_arrays(a, b)
    close = geometry.near(a, b, OTHER_GAP)
    return bool(close.size) and geometry.smallest_gap(a[close], b[close]) < OTHER_GAP


def _driver(
    draw: Draw, cast: Cast, id_: int, world: World, done: tuple[Actor, ...]
) -> Actor | None:
    """A vehicle in any lane that does something on its way past the middle of things."""
    layout, duration = world.layout, cast.duration
    type_ = cast.looks[id_][0]
    standing = [a for a in done if a.lane is not None and a.along(np.array([duration]))[1][0] == 0]
    if standing and draw.coin(0.3):
        return _tailgater(draw, cast, id_, layout, draw.choice(standing))
    lane = draw.choice(layout.lanes)
    speed = cruising(draw, type_)
    if layout.has_to_stop(lane):
        return _at_the_line(draw, cast, id_, lane, speed, bool(layout.signals))
    if lane.turn != "straight":
        speed = min(speed, draw.uniform(*TURNING))
    begin = round(draw.uniform(0.15, 0.75) * duration, 4)
    actions, shifts = _behaviour(draw, lane, speed, begin)
    new = vehicle(cast, id_, lane, speed, actions, shifts)
    if actions and actions[0].time == 0.0:
        new = replace(new, speed=0.0)
    near = lane_s(lane, world.contact.point) + draw.uniform(-22, 22)
    return placed(new, draw.uniform(0.2, 0.8) * duration, near)


def _behaviour(
    draw: Draw, lane: Lane, speed: float, begin: float
) -> tuple[tuple[Action, ...], tuple[Shift, ...]]:
    """Speed changes and shifts of a vehicle that has its way free."""
    stop = Action(time=begin, speed=draw.choice((0.0, 0.0, 2.0)), rate=draw.uniform(4.5, 7.5))
    again = Action(time=round(begin + draw.uniform(1.5, 2.8), 4), speed=speed, rate=2.5)
    what = draw.choice(("cruise", "stop", "stop", "pause", "pause", "start", "swerve", "change"))
    if what == "stop":
        return (stop,), ()
    if what == "pause":
        return (stop, again), ()
    if what == "start":  # it stands, then goes
        return (Action(time=0.0, speed=0.0, rate=5.0), replace(again, time=begin)), ()
    if what == "swerve" and lane.turn == "straight":
        length = round(speed * draw.uniform(1.1, 1.5), 4)
        out = Shift(time=begin, length=length, offset=draw.uniform(0.5, 0.9) * draw.choice((1, -1)))
        back = Shift(time=round(begin + length / speed, 4), length=length, offset=0.0)
        return (), (out, back)
    sides = [3.5] * (lane.left is not None) + [-3.5] * (lane.right is not None)
    if what == "change" and sides:
        length = round(speed * draw.uniform(1.8, 2.6), 4)
        return (), (Shift(time=begin, length=length, offset=draw.choice(sides)),)
    return (), ()


def _at_the_line(draw: Draw, cast: Cast, id_: int, lane: Lane, speed: float, light: bool) -> Actor:
    """One that waits at its stop line, comes up to it, or (without a light) goes on after that."""
    line = lane.stop - TYPES[cast.looks[id_][0]].length / 2 - draw.uniform(0, 1.2)
    if draw.coin(0.25):
        return placed(vehicle(cast, id_, lane, 0.0), 0.0, round(line, 4))
    begin = round(draw.uniform(0.1, 0.6) * cast.duration, 4)
    stop = Action(time=begin, speed=0.0, rate=draw.uniform(3, 7))
    stands = begin + speed / stop.rate
    new = placed(vehicle(cast, id_, lane, speed, (stop,)), stands, line)
    if light or draw.coin():
        return new
    go = Action(time=round(stands + draw.uniform(0.3, 1.5), 4), speed=5.0, rate=2.5)
    return new.then(stop, go)


def _tailgater(draw: Draw, cast: Cast, id_: int, layout: Layout, ahead: Actor) -> Actor:
    """One that brakes late and stops right behind another: a near miss."""
    speed = cruising(draw, cast.looks[id_][0])
    stop = Action(
        time=round(draw.uniform(0.3, 0.7) * cast.duration, 4),
        speed=0.0,
        rate=draw.uniform(5.5, 8.0),
    )
    new = vehicle(cast, id_, layout.lanes[ahead.lane], speed, (stop,))
    end = float(ahead.along(np.array([cast.duration]))[0][0])
    gap = OTHER_GAP + draw.uniform(0.05, 0.7)
    return placed(new, cast.duration, end - (new.size.length + ahead.size.length) / 2 - gap)


def _stroller(draw: Draw, cast: Cast, id_: int, world: World) -> Actor:
    """A pedestrian on the pavement, or on a zebra crossing."""
    type_, colour = cast.looks[id_]
    road = draw.choice(world.layout.roads)
    speed, side = cruising(draw, type_), draw.choice((1, -1))
    if draw.coin(0.5):
        path = road.path.beside(side * (road.half_width + draw.uniform(0.6, 2.0)))
        path = path if draw.coin() else path.reversed()
        middle = path.project(*world.contact.point)[0] + draw.uniform(-16, 16)
    else:
        x, y, yaw = (float(v) for v in road.path.at(np.array(draw.choice(road.crossings))))
        out = road.half_width + 1.0
        start = (x - side * out * np.sin(yaw), y + side * out * np.cos(yaw))
        path = Path(
            start=(round(float(start[0]), 4), round(float(start[1]), 4), yaw - side * np.pi / 2),
            pieces=((2 * out, 0.0),),
        )
        middle = draw.uniform(0, 2 * out)
    actor = Actor(id=id_, type=type_, colour=colour, path=path, lane=None, start=0.0, speed=speed)
    if draw.coin():  # stands still for a while
        begin = round(draw.uniform(0.1, 0.7) * cast.duration, 4)
        halt = Action(time=begin, speed=0.0, rate=5.0)
        go_on = Action(time=round(begin + draw.uniform(1.0, 2.0), 4), speed=speed, rate=3.0)
        actor = replace(actor, actions=(halt, go_on) if draw.coin() else (halt,))
    return placed(actor, draw.uniform(0.3, 0.7) * cast.duration, middle)


def _onlooker(draw: Draw, cast: Cast, id_: int, world: World) -> Actor | None:
    """The camera's car, where it is not involved: the contact is well ahead of it when it happens.

    It brakes for what it sees, in both videos.
    """
    lane, contact = draw.choice(world.layout.lanes), world.contact
    speed = draw.uniform(5, 11)
    if world.layout.has_to_stop(lane):
        new = _at_the_line(draw, cast, id_, lane, speed, bool(world.layout.signals))
    else:
        if lane.turn != "straight":
            speed = min(speed, draw.uniform(*TURNING))
        stop = Action(
            time=round(contact.time + draw.uniform(-0.6, 0.8), 4),
            speed=draw.choice((0.0, 0.0, 3.0)),
            rate=draw.uniform(4, 7.5),
        )
        new = vehicle(cast, id_, lane, speed, (stop,) if draw.coin(0.85) else ())
        new = placed(new, contact.time, lane_s(lane, contact.point) - draw.uniform(*AHEAD))
    x, y, yaw = new.plan(np.array([contact.time]))[0]
    dx, dy = contact.point[0] - x, contact.point[1] - y
    ahead = dx * np.cos(yaw) + dy * np.sin(yaw)
    left = dy * np.cos(yaw) - dx * np.sin(yaw)
    seen = AHEAD[0] - 2 < ahead < AHEAD[1] + 6 and abs(left) < np.tan(VIEW) * ahead
    return new if seen else None
