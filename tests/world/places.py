"""Places with actors that stand where a test wants them; no accident, no search."""

import numpy as np

from cctv.world.draw import Draw
from cctv.world.layouts import draw_layout
from cctv.world.motion import COLOURS, TYPES, Actor
from cctv.world.simulation import World


def place(type_, seed=0):
    """A layout of a type."""
    return draw_layout(Draw(np.random.SeedSequence([seed, 17])), type_)


def at(layout, id_, type_, colour, lane, ahead, speed=0.0):
    """An actor on a lane, `ahead` metres past the middle of the layout at time 0."""
    path = layout.lanes[lane].path
    start = path.project(*layout.centre)[0] + ahead
    return Actor(id=id_, type=type_, colour=colour, path=path, lane=lane, start=start, speed=speed)


def busy(type_, seed=0, speed=0.0):
    """A world with an actor of each type, apart from each other."""
    layout = place(type_, seed)
    rng = np.random.default_rng(seed)
    actors, taken = [], []
    while len(actors) < len(TYPES):
        lane = int(rng.integers(len(layout.lanes)))
        actor = at(
            layout, len(actors), list(TYPES)[len(actors)], COLOURS[len(actors)], lane,
            float(rng.uniform(-22, 22)), speed,
        )  # fmt: skip
        x, y, _ = actor.poses(np.zeros(1))[0]
        if all(np.hypot(x - u, y - v) > 9 for u, v in taken):
            actors.append(actor)
            taken.append((x, y))
    return World(layout=layout, actors=tuple(actors), duration=6.0, contact=None)
