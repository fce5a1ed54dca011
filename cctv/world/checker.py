"""Checks a scene against its event log alone: what happened, and the four truths of every pair.

Nothing here is shared with the drawing of accidents, the contact test or the question writer,
except that what-if claims and the check of the plans run the world again.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cctv.world.eventlog import VERSION, actors_from_log, from_json
from cctv.world.facts import Facts
from cctv.world.motion import Action, Actor
from cctv.world.reading import Claim, Unreadable, read
from cctv.world.simulation import Change, World, simulate

MIN_SAMPLES = 4  # instants of either video at which an actor that is named must be visible
CONTACT_SHARE = 0.3  # of a party's pixels at the contact that must not be hidden
EARLIEST = 0.5  # seconds into the clip, of the time that a claim speaks of
AT_POINT = 0.25  # metres from the point of contact to either party
HARD = {"pedestrian": 5.0}  # m/s^2 of one who stops at once
HARD_VEHICLE = 8.0
# What is too close to be clear: a claim within these is false, and so is its opposite.
SIDE, DEPTH, APART, MOVED, FASTER = 0.08, 2.0, 0.15, 0.05, 1.5


def truth(claim: Claim, facts: Facts) -> bool:
    """Whether the claim holds in this video. Without a collision every claim's premise fails."""
    if len(facts.touching) != 1:
        return False
    parties = {i for i in facts.pair if i in facts.actors}
    if claim.crash and set(claim.crash) != parties:
        return False
    if facts.time - claim.before < EARLIEST:
        return False
    if claim.predicate not in _MEANING:
        raise ValueError(f"no meaning for {claim.predicate!r}")
    moment = (facts.time - claim.before,) if claim.predicate in _OF_A_MOMENT else ()
    return bool(_MEANING[claim.predicate](facts, claim.value, *moment, *claim.actors))


def _half(f: Facts, word: str) -> bool:
    across, _ = f.place(*f.log["contact"]["point"], f.time)
    return (across < 0) == (word == "left") and abs(across) > SIDE / 2


def _side(f: Facts, word: str, struck: int, striker: int) -> bool:
    _, left = f.in_frame_of(struck, f.log["contact"]["point"], f.time)
    return f.kind == "t_bone" and f.pair == (striker, struck) and (left > 0) == (word == "left")


def _flank(f: Facts, word: str, one: int, two: int) -> bool:
    _, left = f.in_frame_of(one, f.pose(two, f.time)[:2], f.time)
    return f.kind == "sideswipe" and (left > 0) == (word == "left")


def _left_road(f: Facts, word: str, who: int) -> bool:
    aside = f.aside(who, f.log["contact"]["point"])
    off = f.kind == "run_off_road" and f.off_road(f.log["contact"]["point"])
    return off and (aside > 0) == (word == "left")


def _nearer(f: Facts, word: str, time: float, a: int, b: int) -> bool:
    (_, one), (_, two) = (f.place(*f.pose(i, time)[:2], time) for i in (a, b))
    return one > 0 and one + DEPTH < two


def _further(f: Facts, word: str, time: float, a: int, b: int) -> bool:
    (one, near), (two, far) = (f.place(*f.pose(i, time)[:2], time) for i in (a, b))
    way = two - one if word == "left" else one - two
    return min(near, far) > 0 and way > SIDE


def _zebra(f: Facts, word: str, walker: int, vehicle: int) -> bool:
    way = f.to_crossing(f.log["contact"]["point"])
    on = way < 3.0 if word == "on" else way > 4.0
    return f.kind == "pedestrian" and f.pair == (vehicle, walker) and on


def _entry(f: Facts, word: str, a: int, b: int) -> bool:
    first, second = f.entry(a), f.entry(b)
    clear = max(first, second) < math.inf and abs(first - second) > APART
    return clear and (first < second) == (word == "before")


def _moving(f: Facts, word: str, who: int) -> bool:
    now, _ = f.place(*f.pose(who, f.time)[:2], f.time)
    past, _ = f.place(*f.pose(who, f.time - 1)[:2], f.time - 1)
    return abs(now - past) > MOVED and (now > past) == (word == "right")


def _heading(f: Facts, word: str, time: float, a: int, b: int) -> bool:
    turned = math.cos(f.pose(a, time)[2] - f.pose(b, time)[2])
    return abs(turned) > 0.8 and (turned > 0) == (word == "same")


def _nearing(f: Facts, word: str, who: int) -> bool:
    _, now = f.place(*f.pose(who, f.time)[:2], f.time)
    _, past = f.place(*f.pose(who, f.time - 1)[:2], f.time - 1)
    return abs(now - past) > 1.0 and (now < past) == (word == "coming closer to")


def _came_from(f: Facts, word: str, walker: int, vehicle: int) -> bool:
    x, y, yaw = f.pose(vehicle, f.time)
    px, py, _ = f.pose(walker, f.time - 1)
    left = (py - y) * math.cos(yaw) - (px - x) * math.sin(yaw)
    return f.kind == "pedestrian" and f.pair == (vehicle, walker) and (left > 0) == (word == "left")


def _cause(f: Facts, reason: str, who: int) -> bool:
    """Whether one of the parties did what the reason says, and the accident is of that sort."""
    if who not in f.pair:
        return False
    point = f.log["contact"]["point"]
    if reason == "red_light":
        return f.kind == "t_bone" and f.passed_line(who) and f.light(who) == "red"
    if reason == "no_yield":
        return f.kind == "t_bone" and not f.log["layout"]["signals"] and f.had_to_yield(who)
    if reason == "no_braking":
        return f.kind == "rear_end" and who == f.pair[0] and not f.braked(who, f.time)
    if reason in ("wrong_lane", "lane_change"):
        kind = "head_on" if reason == "wrong_lane" else "sideswipe"
        return f.kind == kind and f.strays(who)
    walking = f.type(who) == "pedestrian"
    if reason == "stepped_out":
        return f.kind == "pedestrian" and walking and f.to_crossing(point) > 4.0
    if reason == "ran_over":
        return f.kind == "pedestrian" and not walking and f.to_crossing(point) < 3.0
    return f.kind == "run_off_road" and f.in_bend(who) == (reason == "too_fast")


def _rerun(log: dict[str, Any], who: int, change: Callable[[Actor], Actor]) -> World:
    """The accident's world in which one actor's plan is another."""
    layout, actors = actors_from_log(log)
    actors = tuple(change(a) if a.id == who else a for a in actors)
    return simulate(layout, actors, log["duration"])


def _stopping(f: Facts, lead: str, who: int) -> bool:
    rate = HARD.get(f.type(who), HARD_VEHICLE)
    stop = Action(time=f.time - float(lead), speed=0.0, rate=rate)
    return _rerun(f.log, who, lambda a: a.then(stop)).contact is None


def _keeping(f: Facts, word: str, who: int) -> bool:
    return _rerun(f.log, who, lambda a: replace(a, shifts=())).contact is None


_OF_A_MOMENT = ("nearer", "further", "faster", "heading")
_MEANING = {
    "kind": lambda f, word: f.kind == word,
    "involved": lambda f, word, who: who in f.pair,
    "struck": lambda f, word, a, b: (
        f.kind in ("t_bone", "rear_end", "pedestrian") and f.pair == (a, b)
    ),
    "obstacle": lambda f, word, who: f.pair[0] == who and f.type(f.pair[1]) == word,
    "half": _half,
    "side": _side,
    "end": lambda f, word, a, b: f.kind == "rear_end" and (a == f.pair[0]) == (word == "front"),
    "flank": _flank,
    "own_side": lambda f, word, who: f.kind == "head_on" and not f.strays(who),
    "left_road": _left_road,
    "zebra": _zebra,
    "nearer": _nearer,
    "further": _further,
    "entry": _entry,
    "order": lambda f, word, a, b: (
        f.kind == "rear_end" and (a == f.pair[1]) == (word == "ahead of")
    ),
    "moving": _moving,
    "nearing": _nearing,
    "faster": lambda f, word, time, a, b: f.speed(a, time) > f.speed(b, time) + FASTER,
    "heading": _heading,
    "came_from": _came_from,
    "cause": _cause,
    "stopping": _stopping,
    "keeping": _keeping,
}


def check(record: dict[str, Any]) -> list[str]:
    """Every fault of a scene, a line of scenes.jsonl as a dict; none when all is right."""
    log = record["metadata"]
    if log["version"] != VERSION:
        return [f"a log of version {log['version']}, not {VERSION}"]
    positive, negative = Facts(log, "positive"), Facts(log, "negative")
    faults = _times(record) + _events(log, positive, negative) + _contact_in_sight(log)
    if len(positive.touching) != 1:
        return faults  # nothing can be asked about
    faults += _contact_facts(record, positive)
    for pair in record["questions"]:
        faults += [f"{pair['pair_id']}: {f}" for f in _pair(pair, log, positive, negative)]
    return faults


def _pair(pair: dict[str, str], log: dict, positive: Facts, negative: Facts) -> list[str]:
    try:
        claims = [read(pair[q], log) for q in ("positive", "negative")]
    except Unreadable as error:
        return [str(error)]
    faults = []
    cells = [truth(c, f) for f in (positive, negative) for c in claims]
    if cells != [True, False, False, False]:
        faults.append(f"truths {cells}")
    if claims[0].predicate != claims[1].predicate:
        faults.append("two different kinds of question")
    for id_ in sorted({i for c in claims for i in (*c.actors, *c.crash)} - {log["ego"]}):
        if any(f.seen(id_) < MIN_SAMPLES for f in (positive, negative)):
            faults.append(f"actor {id_} is hardly visible")
    return faults


def _times(record: dict[str, Any]) -> list[str]:
    """Faults of the annotation's times, which repeat those of the log."""
    log, segments = record["metadata"], record["segments"]
    branch, contact, end = log["branch"], log["contact"]["time"], log["duration"]
    faults = []
    if not 0 < branch < contact < end:
        faults.append(f"branch {branch}, contact {contact} out of order")
    if not record["split_time"] == segments["base"][1] == segments["contrastive"][0] == branch:
        faults.append("the split is not at the branch")
    if segments["base"][0] != 0 or segments["contrastive"][1] != end:
        faults.append("the segments are not the whole clip")
    if not segments["key_frames"][0] < contact < segments["key_frames"][1]:
        faults.append("the contact is not in the key frames")
    return faults


def _contact_facts(record: dict[str, Any], facts: Facts) -> list[str]:
    """Faults of what the log and the annotation say about the contact."""
    contact, (striker, struck), kind = record["metadata"]["contact"], facts.pair, facts.kind
    faults = []
    if kind != record["anomaly_type"]:
        faults.append(f"a {kind}, not a {record['anomaly_type']}")
    for party in contact["parties"]:
        if party["kind"] != facts.type(party["id"]):
            faults.append(f"party {party['id']} is a {facts.type(party['id'])}")
    off = max(facts.outside(i, contact["point"]) for i in facts.pair)
    if off > AT_POINT:
        faults.append(f"the point of contact is {off:.2f} m beside a party")
    if kind in ("t_bone", "rear_end", "pedestrian", "run_off_road") and (striker, struck) != (
        contact["striker"],
        contact["struck"],
    ):
        faults.append(f"the striker is not {contact['striker']}")
    elif kind == "t_bone":
        _, left = facts.in_frame_of(struck, contact["point"], facts.time)
        if contact["side"] != ("left" if left > 0 else "right"):
            faults.append(f"the side that is hit is not {contact['side']}")
    return faults


def _contact_in_sight(log: dict[str, Any]) -> list[str]:
    """Faults of how the contact can be seen. Only actors' pixels count; the ego has none."""
    faults = []
    for party in log["contact"]["parties"]:
        if party["id"] == log["ego"]:
            continue
        visible, alone = party["pixels"]
        if visible < max(1, CONTACT_SHARE * alone):
            faults.append(f"party {party['id']} is hidden at the contact")
    return faults


def _events(log: dict[str, Any], positive: Facts, negative: Facts) -> list[str]:
    """Faults of what happens: one contact on v+, a gap on v-, one past, motion as planned."""
    faults = []
    contact = log["contact"]
    if positive.touching != [tuple(contact["pair"])]:
        faults.append(f"contacts of the accident: {positive.touching}, logged {contact['pair']}")
    elif min(abs(t - contact["time"]) for t in positive.touch_times) > 1.5 * positive.step:
        faults.append(f"the contact is not at {contact['time']} s")
    if negative.touching:
        faults.append(f"contacts of the counterfactual: {negative.touching}")
    gaps = negative.gaps.get(tuple(contact["pair"]))
    if gaps is not None and gaps.min() < log["min_gap"]["stated"] - 0.01:
        faults.append(f"counterfactual gap {gaps.min():.2f} m under {log['min_gap']['stated']}")
    shared = math.floor(log["branch"] / positive.step + 1e-9) + 1
    # Logged to 0.001, and at the branch itself a last bit may round to the other side.
    slack = np.where(np.arange(shared) < shared - 1, 0.0, 1.5e-3)[:, None]
    if any((np.abs(positive.paths[i][:shared] - negative.paths[i][:shared]) > slack).any()
           for i in positive.paths):  # fmt: skip
        faults.append("the two videos differ before the branch")
    return faults + _plans(log, positive, negative)


def _plans(log: dict[str, Any], positive: Facts, negative: Facts) -> list[str]:
    """Faults of the paths against the plans and the one change."""
    change = from_json(Change, log["intervention"]["change"])
    worlds = (
        (positive, simulate(*actors_from_log(log), log["duration"])),
        (negative, _rerun(log, change.actor, change.of)),
    )
    faults = []
    if change.time < log["branch"]:
        faults.append(f"the change is at {change.time} s, before the branch")
    for facts, again in worlds:
        pair = None if again.contact is None else again.contact.pair
        if [pair] != (facts.touching or [None]):
            faults.append(f"{facts.video}: run again, the contact is of {pair}")
        times = np.arange(len(next(iter(facts.paths.values())))) * facts.step
        for actor in again.actors:
            if np.abs(actor.poses(times) - facts.paths[actor.id]).max() > 2e-3:
                faults.append(f"{facts.video}: actor {actor.id} does not follow its plan")
    return faults
