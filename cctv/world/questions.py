"""Writes the question pairs of a scene from its event log.

Both questions of a pair are the same sentence with one thing exchanged, and which vehicle or side
is named first is a coin toss, so that the words alone don't tell q+ from q-. Every sentence has the
collision in it, so that all of them are No on the video in which none happens.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cctv.world.draw import Draw
from cctv.world.eventlog import actors_from_log
from cctv.world.simulation import simulate
from cctv.world.whatif import LEADS, braking_earlier

MOTION = (1.0, 0.07)  # over so many seconds before the contact, by this share of the picture

PHRASES = {
    "event": (
        "Did a {0} collision happen in the video?",
        "Is there a {0} collision between two vehicles?",
        "Do two vehicles crash in a {0} collision?",
    ),
    "event_part": (
        "Did the front of one vehicle crash into the {0} of another vehicle?",
        "Does a vehicle drive into the {0} of another one?",
    ),
    "key_entity": (
        "Was {0} involved in a collision?",
        "Did {0} crash with another vehicle?",
        "Is {0} one of the two vehicles that collided?",
    ),
    "spatial_picture": (
        "Did the collision happen in the {0} half of the picture?",
        "When the vehicles touched, was the point of contact in the {0} half of the picture?",
        "Was there a crash in the {0} half of the image?",
    ),
    "spatial_side": (
        "Was {1} hit on its {0} side by {2}?",
        "When {2} crashed into {1}, did it hit the {0} side of {1}?",
    ),
    "spatial_end": (
        "When {1} and {2} collided, was it with the {0} end of {1}?",
        "Did the {0} end of {1} touch {2} in a collision?",
    ),
    "order_entry": (
        "Did {1} enter the junction {0} {2} and then collide with it?",
        "Did {1} drive into the junction {0} {2} did, and then the two crash?",
    ),
    "order_lane": (
        "Was {1} driving {0} {2} in the same lane when the two collided?",
        "At the moment of their crash, was {1} {0} {2} in the lane?",
    ),
    "motion_picture": (
        "Was {1} moving to the {0} of the picture just before it collided with {2}?",
        "Just before its crash with {2}, did {1} move towards the {0} of the picture?",
    ),
    "causal_light": (
        "Did {1} and {2} collide because {0} drove into the junction on a red light?",
        "Was the crash of {1} and {2} caused by {0} running a red light?",
    ),
    "causal_brake": (
        "Did {1} and {2} collide because {0} did not brake in time?",
        "Was the crash of {1} and {2} caused by {0} failing to brake?",
    ),
    "what_if": (
        "Did a collision happen that would have been avoided if {0} had braked hard {1} seconds"
        " earlier?",
        "Was there a crash which {0} would have prevented by braking hard {1} seconds earlier?",
    ),
}
CATEGORY = {
    "event": "event",
    "event_part": "event",
    "key_entity": "key_entity",
    "spatial_picture": "spatial",
    "spatial_side": "spatial",
    "spatial_end": "spatial",
    "order_entry": "spatial_temporal",
    "order_lane": "spatial_temporal",
    "motion_picture": "spatial_temporal",
    "causal_light": "causal",
    "causal_brake": "causal",
    "what_if": "counterfactual",
}


class Written(NamedTuple):
    """One question pair and the template it is from."""

    template: str
    category: str
    positive: str
    negative: str


def write_questions(log: dict[str, Any]) -> list[Written]:
    """At least one pair of every category, the same ones for the same log."""
    draw = Draw(np.random.SeedSequence([log["seed"], log["index"], 1]))
    name = {a["id"]: f"the {a['colour']} {a['type']}" for a in log["actors"]}
    contact = log["contact"]
    striker, struck = contact["striker"], contact["struck"]
    first, second = draw.shuffled([striker, struck])
    t_bone = log["kind"] == "t_bone"
    out = []

    def add(template, true, false, *rest):
        sentence = draw.choice(PHRASES[template])
        texts = [sentence.format(x, *rest) for x in (true, false)]
        out.append(Written(template, CATEGORY[template], texts[0], texts[1]))

    if draw.coin():
        add("event", *(("T-bone", "rear-end") if t_bone else ("rear-end", "T-bone")))
    else:
        add("event_part", *(("side", "rear") if t_bone else ("rear", "side")))
    add("key_entity", name[draw.choice(contact["pair"])], name[2])
    add("spatial_picture", *_either("left", contact["image"][0] < 0.5, "right"))
    if t_bone:
        sides = _either("left", contact["side"] == "left", "right")
        add("spatial_side", *sides, name[struck], name[striker])
        entry = {a["id"]: a["planned_entry"] for a in log["actors"]}
        order = _either("before", entry[first] < entry[second], "after")
        add("order_entry", *order, name[first], name[second])
        runner, other = log["cause"]["actor"], log["cause"]["other"]
        add("causal_light", name[runner], name[other], name[first], name[second])
    else:
        ends = _either("front", first == striker, "rear")
        add("spatial_end", *ends, name[first], name[second])
        order = _either("ahead of", first == struck, "behind")
        add("order_lane", *order, name[first], name[second])
        add("causal_brake", name[striker], name[struck], name[first], name[second])
    shift = picture_shift(log, first)
    if abs(shift) >= MOTION[1]:
        add("motion_picture", *_either("right", shift > 0, "left"), name[first], name[second])
    out.append(_what_if(log, draw, name))
    return out


def _either(word: str, is_true: bool, other: str) -> tuple[str, str]:
    return (word, other) if is_true else (other, word)


def picture_shift(log: dict[str, Any], actor_id: int) -> float:
    """How far a vehicle moved to the right in the picture just before the contact, in widths."""
    path, step = log["paths"]["positive"][str(actor_id)], log["paths"]["step"]
    end = math.floor(log["contact"]["time"] / step + 1e-9)
    start = end - round(MOTION[0] / step)
    return _across(log["camera"], path[end]) - _across(log["camera"], path[start])


def _across(camera: dict[str, Any], pose: list[float]) -> float:
    """Where a point 0.8 m above a pose is in the picture, in widths right of its middle."""
    position, aim = np.array(camera["position"]), np.array(camera["aim"])
    forward = (aim - position) / np.sqrt(((aim - position) ** 2).sum())
    right = np.array([forward[1], -forward[0], 0.0]) / np.hypot(forward[0], forward[1])
    to = np.array([pose[0], pose[1], 0.8]) - position
    return float(camera["focal"] * (to * right).sum() / (to * forward).sum())


def _what_if(log: dict[str, Any], draw: Draw, name: dict[int, str]) -> Written:
    """Who could have avoided it by braking: both answers come from running the world again."""
    layout, actors = actors_from_log(log)
    world = simulate(layout, actors, log["duration"])
    for lead in draw.shuffled(LEADS):
        candidates = tuple(draw.shuffled([*world.contact.pair, 2]))
        answers = braking_earlier(world, lead, candidates)
        if all(answers):
            sentence = draw.choice(PHRASES["what_if"])
            texts = [sentence.format(name[ids[0]], f"{lead:g}") for ids in answers]
            return Written("what_if", CATEGORY["what_if"], *texts)
    raise ValueError(f"scene {log['index']} of seed {log['seed']}: no clear what-if question")
