"""Reads a question of the built-in world back into a claim: the checker's own grammar.

It knows nothing of the question writer: only what the English sentences mean.
"""

import re
from typing import Any, NamedTuple


class Claim(NamedTuple):
    """What a question asserts.

    `actors` are ids in the roles that the predicate gives them, `value` is a word or number,
    `crash` the parties that the sentence says have collided (empty where it names none), `before`
    the seconds before that of which it speaks.
    """

    predicate: str
    actors: tuple[int, ...] = ()
    value: str = ""
    crash: tuple[int, ...] = ()
    before: int = 0


class Unreadable(ValueError):
    """A sentence outside of the grammar, or a reference that is not exactly one actor."""


_REFERENCE = (
    r"the camera car|the pedestrian in [a-z]+|the [a-z]+ (?:car|truck|bus|motorcycle|bicycle)"
)
_CRASH = "(?:<p> and <q> collided|<r> ran off the road and crashed)"
_EVENTS = {
    "T-bone": "t_bone",
    "rear-end": "rear_end",
    "head-on": "head_on",
    "sideswipe": "sideswipe",
    "pedestrian": "pedestrian",
    "run-off-road": "run_off_road",
    "one vehicle drove into the side of another vehicle": "t_bone",
    "one vehicle drove into the back of another vehicle": "rear_end",
    "two oncoming vehicles crashed front to front": "head_on",
    "two vehicles going the same way scraped along each other": "sideswipe",
    "a vehicle hit a person on foot": "pedestrian",
    "a vehicle left the road and crashed into something beside it": "run_off_road",
}
_REASONS = {
    "drove through a red light": "red_light",
    "did not give way at the junction": "no_yield",
    "did not brake behind slower traffic in its lane": "no_braking",
    "drifted onto the wrong side of the road": "wrong_lane",
    "moved over into the next lane of its direction": "lane_change",
    "stepped into the road away from a crossing": "stepped_out",
    "did not stop at the crossing": "ran_over",
    "was too fast for the bend": "too_fast",
    "swerved on a straight road": "lost_control",
}
_LR, _ZEBRA = "(?P<word>left|right)", "(?P<word>on|away from)"
_WAY = "in the (?P<word>same|opposite) direction (?:as|to)"
_TO_OR_FRO = "(?P<word>coming closer to|moving away from)"
_MOMENTS = {"When": 0, "Just before": 0, "One second before": 1, "Two seconds before": 2}
_WHEN = f"(?P<when>{'|'.join(_MOMENTS)})"
_EVENT = f"(?P<word>{'|'.join(_EVENTS)})"
_REASON = f"<a> (?P<word>{'|'.join(_REASONS)})"
_AHEAD, _ORDER = "(?P<word>ahead of|behind)", "(?P<word>before|after)"
_END, _THING = "(?P<word>front|rear)", "(?P<word>tree|pole|building)"
_NUMBER = r"(?P<word>1(?= second )|(?!1 )\d+(?:\.\d+)?(?= seconds )) seconds?"

# Whole sentences and what they claim. <a>, <b>, <c> are actors; those that the sentence says have
# collided without a clause of its own follow after a slash.
_GRAMMAR = (
    (f"Did a {_EVENT} collision happen in the video", "kind", ""),
    (f"Is there a {_EVENT} collision in the video", "kind", ""),
    (f"Does the video show a {_EVENT} collision", "kind", ""),
    (f"Does the video show that {_EVENT}", "kind", ""),
    (f"Did it happen in the video that {_EVENT}", "kind", ""),
    (f"Is it true of this video that {_EVENT}", "kind", ""),
    ("Was <a> involved in a collision", "involved", "a"),
    ("Did <a> take part in a collision", "involved", "a"),
    ("Is <a> part of a crash in the video", "involved", "a"),
    ("Did the front of <a> hit <b>", "struck", "ab/ab"),
    ("Was <b> hit by the front of <a>", "struck", "ab/ab"),
    ("Is <a> the one that drove into <b>", "struck", "ab/ab"),
    ("Was <b> hit by <a>", "struck", "ab/ab"),
    ("Did <a> run into <b>", "struck", "ab/ab"),
    (f"Did <a> crash into a {_THING} beside the road", "obstacle", "a/a"),
    (f"Was it a {_THING} beside the road that <a> crashed into", "obstacle", "a/a"),
    (f"Did a collision happen in the {_LR} half of the picture", "half", ""),
    (f"When {_CRASH}, was that in the {_LR} half of the picture", "half", ""),
    (f"Was there a crash in the {_LR} half of the picture", "half", ""),
    (f"Was <a> hit on its {_LR} side by <b>", "side", "ab/ab"),
    (f"When <b> drove into <a>, did it hit the {_LR} side of <c>", "side", "abc/ab"),
    (f"When <a> and <b> collided, was it with the {_END} end of <c>", "end", "cab/ab"),
    (f"Did the {_END} end of <a> touch <b> in a collision", "end", "aab/ab"),
    (f"Did <a> and <b> scrape together on the {_LR} side of <c>", "flank", "cab/ab"),
    (f"When <a> and <b> scraped together, was it with the {_LR} side of <c>", "flank", "cab/ab"),
    ("When <a> and <b> collided, was it on the side of the road where <c> belonged",
     "own_side", "c/ab"),
    ("Did <a> and <b> collide on the side of the road where <c> belonged", "own_side", "c/ab"),
    (f"Did <a> leave the road to its {_LR} and crash", "left_road", "a/a"),
    (f"Was there a crash after <a> ran off the road to its {_LR}", "left_road", "a/a"),
    (f"Was <a> hit by <b> {_ZEBRA} a zebra crossing", "zebra", "ab/ab"),
    (f"When <b> hit <a>, was that {_ZEBRA} a zebra crossing", "zebra", "ab/ab"),
    (f"{_WHEN} {_CRASH}, was <a> nearer to the camera than <b>", "nearer", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> closer to the camera than <b>", "nearer", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> further to the {_LR} in the picture than <b>", "further", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> more to the {_LR} in the picture than <b>", "further", "ab"),
    (f"Did <a> enter the junction {_ORDER} <b> and then collide with it", "entry", "ab/ab"),
    (f"Did <a> drive into the junction {_ORDER} <b> did, and then the two collide",
     "entry", "ab/ab"),
    (f"Was <a> driving {_AHEAD} <b> in the same lane when the two collided", "order", "ab/ab"),
    (f"At the moment of their collision, was <a> {_AHEAD} <b> in the lane", "order", "ab/ab"),
    (f"Just before {_CRASH}, was <a> moving to the {_LR} of the picture", "moving", "a"),
    (f"In the last second before {_CRASH}, did <a> move towards the {_LR} of the picture",
     "moving", "a"),
    (f"Just before {_CRASH}, was <a> {_TO_OR_FRO} the camera", "nearing", "a"),
    (f"In the last second before {_CRASH}, was <a> {_TO_OR_FRO} the camera", "nearing", "a"),
    (f"{_WHEN} {_CRASH}, was <a> moving faster than <b>", "faster", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> going at a higher speed than <b>", "faster", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> heading {_WAY} <b>", "heading", "ab"),
    (f"{_WHEN} {_CRASH}, was <a> facing {_WAY} <b>", "heading", "ab"),
    (f"Did <a> come from the {_LR} of <b> before the two collided", "came_from", "ab/ab"),
    (f"Before <a> and <b> collided, was <c> coming from the {_LR} of <d>",
     "came_from", "cd/ab"),
    (f"Is it true that {_CRASH} because {_REASON}", "cause", "a"),
    (f"Was it because {_REASON} that {_CRASH}", "cause", "a"),
    (f"Does the video show that {_CRASH} because {_REASON}", "cause", "a"),
    (f"Did a collision happen that would have been avoided if <a> had stopped at once {_NUMBER}"
     " earlier", "stopping", "a"),
    (f"Was there a crash that <a> would have prevented by stopping at once {_NUMBER}"
     " earlier", "stopping", "a"),
    ("Did a collision happen that would have been avoided if <a> had kept to its lane",
     "keeping", "a"),
    ("Was there a crash that <a> would have prevented by keeping to its lane", "keeping", "a"),
)  # fmt: skip
_RULES = tuple(
    (re.compile(re.sub(r"<([a-dpqr])>", rf"(?P<\1>{_REFERENCE})", text) + r"\?"), predicate, roles)
    for text, predicate, roles in _GRAMMAR
)


def read(question: str, log: dict[str, Any]) -> Claim:
    """The claim of a question about the scene of an event log. Raises Unreadable."""
    claims = set()
    for rule, predicate, roles in _RULES:
        if match := rule.fullmatch(question):
            claims.add(_claim(match.groupdict(), predicate, roles, log))
    if len(claims) != 1:
        raise Unreadable(f"{len(claims)} readings of {question!r}")
    return claims.pop()


def _claim(parts: dict[str, str | None], predicate: str, roles: str, log: dict) -> Claim:
    ids = {k: _resolve(parts[k], log) for k in "abcdpqr" if parts.get(k)}
    named, _, collided = roles.partition("/")
    crash = collided or "".join(k for k in "pqr" if k in ids)
    word = parts.get("word") or ""
    word = _EVENTS[word] if predicate == "kind" else word
    word = _REASONS[word] if predicate == "cause" else word
    actors = tuple(ids[k] for k in named)
    if predicate == "side" and len(actors) == 3:
        if actors[0] != actors[2]:
            raise Unreadable("the side named is of another vehicle than the one hit")
        actors = actors[:2]
    if predicate in ("end", "flank"):  # of the first one, against the other of the two
        first, *two = actors
        if first not in two or two[0] == two[1]:
            raise Unreadable("the part named is of none of the two that collided")
        actors = (first, two[1] if two[0] == first else two[0])
    before = _MOMENTS[parts["when"]] if parts.get("when") else 0
    return Claim(predicate, actors, word, tuple(sorted(ids[k] for k in crash)), before)


def _resolve(reference: str, log: dict[str, Any]) -> int:
    """The id of the only actor that a reference fits; the camera car has no other name."""
    if reference == "the camera car":
        if log["ego"] is None:
            raise Unreadable("no camera car in this scene")
        return log["ego"]
    words = reference.split()
    if words[1] == "pedestrian":
        colour, type_ = words[3], "pedestrian"
    else:
        colour, type_ = words[1:]
    fits = [a["id"] for a in log["actors"] if (a["colour"], a["type"]) == (colour, type_)]
    if len(fits) != 1:
        raise Unreadable(f"{reference!r} is {len(fits)} actors of the scene")
    if fits[0] == log["ego"]:
        raise Unreadable(f"{reference!r} is the camera car, which is not in the picture")
    return fits[0]
