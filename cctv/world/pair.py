"""One attempt at both worlds of a cast: the collision, its remedy, those who are not involved."""

from dataclasses import replace

import numpy as np

from cctv.world import crossing, lanes, roadside, sight, whatif
from cctv.world.accident import MEDIUM, Cast, Difficulty, Intervention, Pair, Rejected
from cctv.world.bystanders import add_others, near_obstacles
from cctv.world.draw import Draw
from cctv.world.layouts import draw_layout
from cctv.world.motion import Action, Actor
from cctv.world.placing import Plan
from cctv.world.simulation import World, changed, simulate

# How often a party of the accident brakes after its time where there is none.
STARTLED = {
    "t_bone": 0.45,
    "rear_end": 0.0,
    "head_on": 1.0,
    "sideswipe": 0.5,
    "pedestrian": 0.35,
    "run_off_road": 0.15,
}
# How each kind is drawn, and whether what the simulation shows is of that kind.
BUILD = {
    "t_bone": (crossing.t_bone, crossing.is_t_bone),
    "rear_end": (lanes.rear_end, lanes.is_rear_end),
    "head_on": (lanes.head_on, lanes.is_head_on),
    "sideswipe": (lanes.sideswipe, lanes.is_sideswipe),
    "pedestrian": (roadside.pedestrian, roadside.is_pedestrian),
    "run_off_road": (roadside.run_off_road, roadside.is_run_off_road),
}


def draw_pair(draw: Draw, cast: Cast, difficulty: Difficulty = MEDIUM) -> Pair:
    """One attempt at both worlds. Raises `Rejected`."""
    build, is_right = BUILD[cast.kind]
    plan = build(draw, cast, draw_layout(draw, cast.place))
    plan = replace(plan, actors=tuple(_startled(draw, cast, a) for a in plan.actors))
    alone = simulate(plan.layout, plan.actors, cast.duration)
    if alone.contact is None or abs(alone.contact.time - cast.contact_time) > 1e-3:
        raise Rejected("another contact than planned")
    if not is_right(alone, cast):
        raise Rejected(f"not quite {cast.kind}")
    intervention, without = _remedy(plan, alone, difficulty.min_gap)
    for world in (alone, without):
        for actor in world.actors:
            if not set(near_obstacles(world.layout, actor, cast.duration)) <= set(
                alone.contact.pair
            ):
                raise Rejected("too near a thing beside the road")
    named = tuple(range(cast.involved))
    leads = (x for x in draw.shuffled(whatif.LEADS) if whatif.stopping(alone, x, named).helps)
    lead = next(leads, None)
    if lead is None:
        raise Rejected("no clear what-if")
    _check_view(cast, alone, without, difficulty)
    others = add_others(draw, cast, alone, without, difficulty.min_pixels)
    positive = simulate(plan.layout, (*plan.actors, *others), cast.duration)
    negative = changed(positive, intervention.change)
    if positive.contact != alone.contact or negative.contact is not None:
        raise Rejected("somebody else is in the way")
    candidates = (*named, cast.bystander)
    if not any(all(whatif.stopping(positive, x, candidates)) for x in (lead, *leads)):
        raise Rejected("no clear what-if")
    return Pair(
        cast=cast,
        cause=plan.cause,
        intervention=intervention,
        positive=positive,
        negative=negative,
    )


def _check_view(cast: Cast, positive: World, negative: World, difficulty: Difficulty) -> None:
    """Where the camera rides in one of the two: the other has to be in its view, in both videos."""
    if cast.ego is None or cast.ego >= cast.involved:
        return
    times = sight.sample_times(cast.duration)
    for world in (positive, negative):
        eye = world.actor(cast.ego).poses(times)
        for id_ in range(cast.involved):
            if id_ != cast.ego:
                far = sight.reach(cast.looks[id_][0], difficulty.min_pixels)
                seen = sight.sees(eye, world.actor(id_), times, far)
                if seen.sum() < sight.MIN_SAMPLES:
                    raise Rejected("the other is hardly in view")


def _startled(draw: Draw, cast: Cast, actor: Actor) -> Actor:
    """The vehicle as it goes on if nothing happens: often it brakes a moment after the contact.

    A collision takes over before that. Without one the video does not end with more motion.
    """
    speed = float(actor.along(np.array([cast.contact_time]))[1][0])
    if actor.lane is None or speed < 2.0 or not draw.coin(STARTLED[cast.kind]):
        return actor
    time = round(cast.contact_time + draw.uniform(0.0, 0.5), 4)
    slow = draw.choice((0.0, 0.0, 0.3)) * speed
    return actor.then(*actor.actions, Action(time=time, speed=slow, rate=draw.uniform(4, 7)))


def _remedy(plan: Plan, world: World, min_gap: float) -> tuple[Intervention, World]:
    """The first of the plan's remedies that keeps the parties this far apart, and its world."""
    for remedy in plan.remedies:
        without = changed(world, remedy.change)
        if without.contact is None and without.min_gap(*world.contact.pair) >= min_gap:
            return remedy, without
    raise Rejected("no remedy keeps the gap")
