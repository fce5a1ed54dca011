"""Running the world again with one vehicle braking: what would have avoided the collision."""

from typing import NamedTuple

from cctv.world.motion import Action
from cctv.world.simulation import World, changed

BRAKING = 8.0  # m/s^2: "brakes hard" in a what-if question
LEADS = (1.5, 2.0)  # seconds before the contact that such a question may name
CLEAR = 0.5  # metres: a nearer miss is not a clear answer


class Answers(NamedTuple):
    """Vehicle ids whose braking avoids every collision, and those whose braking changes nothing."""

    helps: tuple[int, ...]
    useless: tuple[int, ...]


def braking_earlier(world: World, lead: float, candidates: tuple[int, ...]) -> Answers:
    """Each candidate in turn brakes hard `lead` seconds before the world's contact."""
    involved = world.contact.pair
    stop = Action(time=world.contact.time - lead, speed=0.0, rate=BRAKING)
    helps, useless = [], []
    for id_ in candidates:
        result = changed(world, id_, stop)
        if result.contact is None and result.min_gap(*involved) >= CLEAR:
            helps.append(id_)
        elif result.contact is not None and result.contact.pair == involved:
            useless.append(id_)
    return Answers(tuple(helps), tuple(useless))
