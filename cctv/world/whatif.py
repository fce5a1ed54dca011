"""Running the world again with one thing changed: what would have avoided the collision."""

from typing import NamedTuple

from cctv.world.motion import Action, Shift
from cctv.world.simulation import Change, World, changed

BRAKING = 8.0  # m/s^2: a vehicle that "stops" in a what-if question
HALTING = 5.0  # and a pedestrian, who stands after a step
LEADS = (1.0, 1.5, 2.0, 2.5)  # seconds before the contact that such a question may name
CLEAR = 0.5  # metres: a nearer miss is not a clear answer


class Answers(NamedTuple):
    """Ids of actors whose change avoids every collision, and of those whose change has no effect.

    An actor whose change leads to another collision, or to a near miss, is in neither.
    """

    helps: tuple[int, ...]
    useless: tuple[int, ...]


def stopped(world: World, id_: int, lead: float) -> World:
    """The world in which an actor stops at once, `lead` seconds before the world's contact."""
    rate = HALTING if world.actor(id_).lane is None else BRAKING
    time = round(world.contact.time - lead, 4)
    return changed(
        world, Change(actor=id_, time=time, actions=(Action(time=time, speed=0.0, rate=rate),))
    )


def kept(world: World, id_: int) -> World:
    """The world in which an actor stays in its lane for the whole clip."""
    none: tuple[Shift, ...] = ()
    return changed(world, Change(actor=id_, time=0.0, shifts=none))


def stopping(world: World, lead: float, candidates: tuple[int, ...]) -> Answers:
    """What stopping each of the candidates would have done to the world's collision.

    Nobody is in either list where the clip begins later than that.
    """
    if lead > world.contact.time - 0.1:
        return Answers((), ())
    return _sorted(world, {id_: stopped(world, id_, lead) for id_ in candidates})


def keeping(world: World, candidates: tuple[int, ...]) -> Answers:
    """What keeping its lane would have done to the world's collision."""
    return _sorted(world, {id_: kept(world, id_) for id_ in candidates})


def _sorted(world: World, results: dict[int, World]) -> Answers:
    parties, helps, useless = world.contact.pair, [], []
    for id_, result in results.items():
        if result.contact is None and result.min_gap(*parties) >= CLEAR:
            helps.append(id_)
        elif result.contact is not None and result.contact.pair == parties:
            useless.append(id_)
    return Answers(tuple(helps), tuple(useless))
