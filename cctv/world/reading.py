"""Reads a question of the built-in world back into a claim: the checker's own grammar.

It knows nothing of the question writer: only what the English sentences mean.
"""

import re
from typing import Any, NamedTuple

VEHICLE = r"the (\w+) (car|truck|bus)"


class Claim(NamedTuple):
    """What a question asserts: a predicate, vehicle ids in their roles, and a word or number."""

    predicate: str
    actors: tuple[int, ...]
    value: str = ""


class Unreadable(ValueError):
    """A sentence outside of the grammar, or one whose vehicle is not exactly one of the scene."""


# (pattern, predicate, which of the pattern's parts is the value). V is a vehicle; parts are
# numbered as they come in the sentence, and the vehicles keep that order in the claim.
_GRAMMAR = (
    (r"(T-bone|rear-end) collision", "kind", "word"),
    (r"(?:crash|drive) into the (side|rear) of another", "part_hit", "word"),
    (r"^Was V involved in a collision", "involved", None),
    (r"^Did V crash with another", "involved", None),
    (r"^Is V one of the two", "involved", None),
    (r"the (left|right) half of the (?:picture|image)", "picture_half", "word"),
    (r"^Was V hit on its (left|right) side by V", "side_hit", "word"),
    (r"^When V crashed into V, did it hit the (left|right) side of V", "side_hit_by", "word"),
    (r"^When V and V collided, was it with the (front|rear) end of V", "end_of_last", "word"),
    (r"^Did the (front|rear) end of V touch V in a collision", "end_of_first", "word"),
    (r"^Did V enter the junction (before|after) V and then collide", "entry", "word"),
    (r"^Did V drive into the junction (before|after) V did, and then", "entry", "word"),
    (r"^Was V driving (ahead of|behind) V in the same lane", "lane_order", "word"),
    (r"crash, was V (ahead of|behind) V in the lane", "lane_order", "word"),
    (r"^Was V moving to the (left|right) of the picture just before it collided with V",
     "moving", "word"),
    (r"^Just before its crash with V, did V move towards the (left|right) of the picture",
     "moving_last", "word"),
    (r"^Did V and V collide because V drove into the junction on a red", "red_light", None),
    (r"^Was the crash of V and V caused by V running a red", "red_light", None),
    (r"^Did V and V collide because V did not brake", "no_braking", None),
    (r"^Was the crash of V and V caused by V failing to brake", "no_braking", None),
    (r"avoided if V had braked hard ([\d.]+) seconds earlier", "avoidable", "word"),
    (r"crash which V would have prevented by braking hard ([\d.]+) seconds earlier",
     "avoidable", "word"),
)  # fmt: skip


def read(question: str, actors: list[dict[str, Any]]) -> Claim:
    """The claim of a question; `actors` are those of the event log. Raises Unreadable."""
    if not question.endswith("?"):
        raise Unreadable(f"not a question: {question!r}")
    ids = [_resolve(m, actors) for m in re.finditer(VEHICLE, question)]
    plain = re.sub(VEHICLE, "V", question)
    found = [(rule, m) for rule in _GRAMMAR if (m := re.search(rule[0], plain))]
    if len(found) != 1:
        raise Unreadable(f"{len(found)} readings of {question!r}")
    (_, predicate, value), match = found[0]
    return _normal(Claim(predicate, tuple(ids), match.group(1) if value else ""))


def _resolve(match: re.Match, actors: list[dict[str, Any]]) -> int:
    colour, type_ = match.groups()
    fits = [a["id"] for a in actors if (a["colour"], a["type"]) == (colour, type_)]
    if len(fits) != 1:
        raise Unreadable(f"{match.group()!r} is {len(fits)} vehicles of the scene")
    return fits[0]


def _normal(claim: Claim) -> Claim:
    """Sentences that say the same in another order become the same claim: subject first."""
    predicate, actors, value = claim
    if predicate == "side_hit_by":  # V1 crashed into V2 and hit the side of V2
        if actors[1] != actors[2]:
            raise Unreadable("the side named is of another vehicle than the one hit")
        return Claim("side_hit", (actors[1], actors[0]), value)
    if predicate == "end_of_last":  # V1 and V2 collided with the end of one of them
        return Claim("end", (actors[2], *(a for a in actors[:2] if a != actors[2])), value)
    if predicate == "end_of_first":
        return Claim("end", actors, value)
    if predicate == "moving_last":
        return Claim("moving", (actors[1], actors[0]), value)
    return claim
