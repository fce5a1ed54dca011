"""From plans to what happens: the first contact, the slide after it, every gap in between."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from cctv.world import geometry
from cctv.world.layout import Layout
from cctv.world.motion import Action, Actor, Crash

Array = np.ndarray

STEP = 0.02  # seconds between the instants that are searched for contact
FRICTION = 5.5  # m/s^2 of a sliding vehicle
RESTITUTION = 0.15
SPIN_TIME, SPIN_LIMIT = 0.9, 1.1  # s, rad/s


@dataclass(frozen=True, kw_only=True)
class Contact:
    """The first touch: vehicle ids in order, the time (s), the place (m)."""

    pair: tuple[int, int]
    time: float
    point: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class World:
    """A clip's worth of a world: every vehicle with its motion, and the first contact if any."""

    layout: Layout
    actors: tuple[Actor, ...]
    duration: float
    contact: Contact | None

    @cached_property
    def times(self) -> Array:
        """float[T]: the instants searched, 0 to the duration."""
        return np.arange(round(self.duration / STEP) + 1) * STEP

    @cached_property
    def boxes(self) -> dict[int, Array]:
        """Vehicle id -> float[T, 4, 2] corners at `times`."""
        return {a.id: _boxes(a, self.times) for a in self.actors}

    def min_gap(self, i: int, j: int) -> float:
        """The smallest distance in metres of two vehicles over the clip."""
        return float(geometry.gap(self.boxes[i], self.boxes[j]).min())

    def gaps(self) -> dict[tuple[int, int], float]:
        """`min_gap` of every pair except the two that collide."""
        pairs = combinations([a.id for a in self.actors], 2)
        skip = self.contact.pair if self.contact else None
        return {pair: self.min_gap(*pair) for pair in pairs if pair != skip}


def simulate(layout: Layout, actors: tuple[Actor, ...], duration: float) -> World:
    """Runs the plans to the first contact of any two vehicles and lets those two slide after it."""
    actors = tuple(replace(a, crash=None) for a in sorted(actors, key=lambda a: a.id))
    world = World(layout=layout, actors=actors, duration=duration, contact=None)
    contact = _first_contact(world)
    if contact is None:
        return world
    i, j = (next(a for a in actors if a.id == id_) for id_ in contact.pair)
    crashed = {i.id: i, j.id: j}
    for a, crash in zip((i, j), _crashes(i, j, contact)):
        crashed[a.id] = replace(a, crash=crash)
    return replace(world, actors=tuple(crashed.get(a.id, a) for a in actors), contact=contact)


def changed(world: World, actor_id: int, *actions: Action) -> World:
    """The same world in which one vehicle does something else (collisions run anew)."""
    actors = tuple(a.then(*actions) if a.id == actor_id else a for a in world.actors)
    return simulate(world.layout, actors, world.duration)


def _boxes(actor: Actor, times: Array) -> Array:
    return geometry.corners(actor.poses(times), actor.size.length, actor.size.width)


def _first_contact(world: World) -> Contact | None:
    first = None
    for i, j in combinations(world.actors, 2):
        a, b = world.boxes[i.id], world.boxes[j.id]
        # Only instants at which the circles around the two boxes meet: most pairs never do.
        apart = a[:, 0] + a[:, 2] - b[:, 0] - b[:, 2]  # [T, 2] twice the way between the centres
        reach = i.size.length + i.size.width + j.size.length + j.size.width
        near = np.flatnonzero((apart * apart).sum(-1) <= reach * reach)
        hits = near[geometry.overlap(a[near], b[near])]
        if hits.size and (first is None or hits[0] < first[0]):
            first = (hits[0], i, j)
    if first is None:
        return None
    k, i, j = first
    low, high = float(world.times[max(k - 1, 0)]), float(world.times[k])
    for _ in range(24):  # to well under a microsecond
        middle = (low + high) / 2
        at = np.array([middle])
        hit = bool(geometry.overlap(_boxes(i, at), _boxes(j, at))[0])
        low, high = (low, middle) if hit else (middle, high)
    time = round(high, 6)
    at = np.array([time])
    point = geometry.contact_point(_boxes(i, at)[0], _boxes(j, at)[0])
    return Contact(pair=(i.id, j.id), time=time, point=(float(point[0]), float(point[1])))


def _crashes(i: Actor, j: Actor, contact: Contact) -> tuple[Crash, Crash]:
    """Momentum is kept; the two part slowly along the line of the blow; off-centre blows turn."""
    ui, uj = i.velocity(contact.time), j.velocity(contact.time)
    mi, mj = i.size.mass, j.size.mass
    common = (mi * ui + mj * uj) / (mi + mj)
    blow = _blow(i, j, contact)
    part = RESTITUTION * ((uj - ui) * blow).sum() * blow
    out = []
    for a, u, w in (
        (i, ui, common + part * mj / (mi + mj)),
        (j, uj, common - part * mi / (mi + mj)),
    ):
        pose = a.poses(np.array([contact.time]))[0]
        arm = np.array(contact.point) - pose[:2]
        inertia = (a.size.length**2 + a.size.width**2) / 12
        spin = (arm[0] * (w - u)[1] - arm[1] * (w - u)[0]) / inertia
        out.append(
            Crash(
                time=contact.time,
                pose=tuple(float(v) for v in pose),
                velocity=(float(w[0]), float(w[1])),
                friction=FRICTION,
                spin=float(np.clip(spin, -SPIN_LIMIT, SPIN_LIMIT)),
                spin_time=SPIN_TIME,
            )
        )
    return out[0], out[1]


def _blow(i: Actor, j: Actor, contact: Contact) -> Array:
    """float[2]: unit direction of the blow, the heading of the vehicle whose front touches."""
    striker = i if front_reach(i, contact) > front_reach(j, contact) else j
    return np.array(striker.lane.direction, np.float64)


def front_reach(actor: Actor, contact: Contact) -> float:
    """Where the contact is along a vehicle: +1 at its front end, -1 at its rear end."""
    x, y, _ = actor.poses(np.array([contact.time]))[0]
    dx, dy = actor.lane.direction
    ahead = (contact.point[0] - x) * dx + (contact.point[1] - y) * dy
    return float(ahead / (actor.size.length / 2))
