"""From plans to what happens: the first contact, the slide after it, every gap in between."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from cctv.world import geometry
from cctv.world.layout import FIRST_OBSTACLE, Layout
from cctv.world.motion import FALL, Action, Actor, Crash, Shift

Array = np.ndarray

STEP = 0.02  # seconds between the instants that are searched for contact
# m/s^2 by which vehicles slow down after a glancing blow and after a hard one, and the m/s at which
# the parties close in on each other in a hard one.
FRICTION, HARD = (3.0, 7.0), 8.0
LYING = 0.88  # of that, for a body that slides over the road: it stays ahead of what hit it
RESTITUTION = 0.15
GRIP = 0.5  # of two bodies that slide along each other: tangential over normal impulse, at most
SPIN_TIME, SPIN_LIMIT = 0.9, 0.8  # s, rad/s


@dataclass(frozen=True, kw_only=True)
class Contact:
    """The first touch: two ids in order (the second may be an obstacle's), time (s), place (m).

    `normal` is the unit vector of the face that is touched, from the first of the pair outward.
    """

    pair: tuple[int, int]
    time: float
    point: tuple[float, float]
    normal: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Change:
    """From `time` on, an actor does only these actions and shifts; None: as it had planned."""

    actor: int
    time: float
    actions: tuple[Action, ...] | None = None
    shifts: tuple[Shift, ...] | None = None

    def of(self, actor: Actor) -> Actor:
        """The actor so changed, without a collision."""
        if self.actions is not None:
            kept = tuple(a for a in actor.actions if a.time < self.time)
            actor = replace(actor, actions=kept + self.actions)
        if self.shifts is not None:
            kept = tuple(s for s in actor.shifts if s.time < self.time)
            actor = replace(actor, shifts=kept + self.shifts)
        return actor


@dataclass(frozen=True, kw_only=True)
class World:
    """A clip's worth of a world: every actor with its motion, and the first contact if any."""

    layout: Layout
    actors: tuple[Actor, ...]
    duration: float
    contact: Contact | None
    plans: tuple[Actor, ...] = field(default=(), compare=False, repr=False)  # without collisions

    @cached_property
    def times(self) -> Array:
        """float[T]: the instants searched, 0 to the duration."""
        return instants(self.duration)

    @cached_property
    def boxes(self) -> dict[int, Array]:
        """Actor id -> float[T, 4, 2] corners at `times`."""
        return {a.id: track(a, self.duration) for a in self.actors}

    def actor(self, id_: int) -> Actor:
        """The actor of an id."""
        return next(a for a in self.actors if a.id == id_)

    def box(self, id_: int) -> Array:
        """float[T or 1, 4, 2]: the corners of an actor at `times`, or of an obstacle."""
        if id_ >= FIRST_OBSTACLE:
            return self.layout.obstacle(id_).box[None]
        return self.boxes[id_]

    def min_gap(self, i: int, j: int) -> float:
        """The smallest distance in metres of two actors, or one and an obstacle, over the clip."""
        return geometry.smallest_gap(self.box(i), self.box(j))

    def gaps(self) -> dict[tuple[int, int], float]:
        """`min_gap` of every pair of actors except the two that collide."""
        pairs = combinations([a.id for a in self.actors], 2)
        skip = self.contact.pair if self.contact else None
        return {pair: self.min_gap(*pair) for pair in pairs if pair != skip}


def instants(duration: float) -> Array:
    """float[T]: the instants that are searched for contact."""
    return np.arange(round(duration / STEP) + 1) * STEP


def track(actor: Actor, duration: float) -> Array:
    """float[T, 4, 2]: the corners of an actor at `instants`, computed once an actor."""
    cache = actor.__dict__.setdefault("_tracks", {})
    if duration not in cache:
        cache[duration] = boxes_at(actor, instants(duration))
    return cache[duration]


def bounds(actor: Actor, duration: float) -> tuple[Array, Array]:
    """Smallest and largest x, y float[2] of an actor's corners over the clip."""
    cache = actor.__dict__.setdefault("_bounds", {})
    if duration not in cache:
        boxes = track(actor, duration)
        cache[duration] = boxes.min((0, 1)), boxes.max((0, 1))
    return cache[duration]


def boxes_at(actor: Actor, times: Array) -> Array:
    """float[T, 4, 2]: the corners of an actor at times; what has fallen is as long as it lies."""
    poses, size = actor.poses(times), actor.size
    boxes = geometry.corners(poses, size.length, size.width)
    if actor.crash is not None and size.lying is not None:
        lying = np.asarray(times)[..., None, None] > actor.crash.time + FALL
        boxes = np.where(lying, geometry.corners(poses, *size.lying), boxes)
    return boxes


def simulate(layout: Layout, actors: tuple[Actor, ...], duration: float) -> World:
    """Runs the plans to the first contact of actors or of one and an obstacle, and the slide."""
    actors = tuple(
        replace(a, crash=None) if a.crash else a for a in sorted(actors, key=lambda a: a.id)
    )
    world = World(layout=layout, actors=actors, duration=duration, contact=None, plans=actors)
    contact = _first_contact(world)
    if contact is None:
        return world
    crashed = _crashes(world, contact)
    return replace(
        world,
        actors=tuple(replace(a, crash=crashed[a.id]) if a.id in crashed else a for a in actors),
        contact=contact,
    )


def changed(world: World, change: Change) -> World:
    """The same world in which one actor does something else (collisions run anew)."""
    actors = tuple(change.of(a) if a.id == change.actor else a for a in world.plans)
    return simulate(world.layout, actors, world.duration)


def _first_contact(world: World) -> Contact | None:
    first = None
    for i, j in _candidates(world):
        a, b = world.box(i), world.box(j)
        a, b = np.broadcast_arrays(a, b)
        near = geometry.near(a, b, 0.0)
        hits = near[geometry.overlap(a[near], b[near])]
        if hits.size and (first is None or hits[0] < first[0]):
            first = (hits[0], i, j)
    if first is None:
        return None
    k, i, j = first

    def boxes(times):
        return [
            np.broadcast_to(world.layout.obstacle(x).box, (len(times), 4, 2))
            if x >= FIRST_OBSTACLE
            else boxes_at(world.actor(x), times)
            for x in (i, j)
        ]

    low, high = float(world.times[max(k - 1, 0)]), float(world.times[k])
    for _ in range(3):  # to well under a microsecond
        times = np.linspace(low, high, 65)
        # The last one is known to touch.
        k = int(np.argmax(np.append(geometry.overlap(*boxes(times[:-1])), True)))
        low, high = float(times[max(k - 1, 0)]), float(times[k])
    time = round(high, 6)
    a, b = (x[0] for x in boxes(np.array([time])))
    point, normal = geometry.contact_point(a, b), geometry.contact_normal(a, b)
    return Contact(
        pair=(i, j),
        time=time,
        point=(float(point[0]), float(point[1])),
        normal=(float(normal[0]), float(normal[1])),
    )


def _candidates(world: World) -> list[tuple[int, int]]:
    """Pairs of ids whose ways come near each other at all."""
    spans = {a.id: bounds(a, world.duration) for a in world.actors}
    pairs = [
        (i, j)
        for i, j in combinations(spans, 2)
        if (spans[i][0] <= spans[j][1]).all() and (spans[j][0] <= spans[i][1]).all()
    ]
    for id_, span in spans.items():
        pairs += [(id_, o.id) for o in world.layout.obstacles_within(*span)]
    return pairs


def _crashes(world: World, contact: Contact) -> dict[int, Crash]:
    """Momentum is kept: a blow along the normal, some drag along the face, and a turn.

    An obstacle does not move. Off-centre blows turn a vehicle.
    """
    bodies = [world.actor(i) for i in contact.pair if i < FIRST_OBSTACLE]
    speeds = [a.velocity(contact.time) for a in bodies]
    lightness = [1 / a.size.mass for a in bodies]
    normal, point = np.array(contact.normal), np.array(contact.point)
    relative = speeds[0] - (speeds[1] if len(bodies) == 2 else 0.0)
    closing = float((relative * normal).sum())
    blow = max(closing, 0.0) * (1 + RESTITUTION) / sum(lightness)
    along = relative - closing * normal
    sliding = float(np.sqrt((along * along).sum()))
    drag = min(GRIP * blow, sliding / sum(lightness)) if sliding > 1e-9 else 0.0
    impulse = -blow * normal - (drag / sliding * along if drag else 0.0)
    soft, hard = FRICTION
    friction = soft + (hard - soft) * min(max(closing, 0.0) / HARD, 1.0)
    out = {}
    for a, u, light, sign in zip(bodies, speeds, lightness, (1, -1)):
        change = sign * light * impulse
        pose = a.poses(np.array([contact.time]))[0]
        arm = point - pose[:2]
        inertia = (a.size.length**2 + a.size.width**2) / 12
        spin = (arm[0] * change[1] - arm[1] * change[0]) / inertia
        velocity = u + change
        out[a.id] = Crash(
            time=contact.time,
            pose=tuple(float(v) for v in pose),
            velocity=(float(velocity[0]), float(velocity[1])),
            friction=friction if a.size.lying is None else LYING * friction,
            spin=float(np.clip(spin, -SPIN_LIMIT, SPIN_LIMIT)),
            spin_time=SPIN_TIME,
        )
    return out


def in_frame(actor: Actor, contact: Contact) -> tuple[float, float]:
    """Where the contact is on an actor: ahead (+1 front end, -1 rear end) and left (+1, -1)."""
    x, y, yaw = actor.plan(np.array([contact.time]))[0]
    cos, sin = np.cos(yaw), np.sin(yaw)
    dx, dy = contact.point[0] - x, contact.point[1] - y
    ahead, left = dx * cos + dy * sin, dy * cos - dx * sin
    return float(ahead / (actor.size.length / 2)), float(left / (actor.size.width / 2))
