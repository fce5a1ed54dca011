"""The sentences that questions are made of: several phrasings of each template.

`{x}` is the one thing in which the two questions of a pair differ; templates without it exchange
`{a}` and `{b}`. `{crash}` is the collision as a clause, so that it is in the premise. Which of two
words or names is the true one must not be told by the words: see `questions`.
"""

from typing import NamedTuple


class Template(NamedTuple):
    """A category and its phrasings, which all say the same."""

    category: str
    phrases: tuple[str, ...]


TEMPLATES = {
    "event_name": Template("event", (
        "Did a {x} collision happen in the video?",
        "Is there a {x} collision in the video?",
        "Does the video show a {x} collision?",
    )),
    "event_story": Template("event", (
        "Does the video show that {x}?",
        "Did it happen in the video that {x}?",
        "Is it true of this video that {x}?",
    )),
    "involved": Template("key_entity", (
        "Was {x} involved in a collision?",
        "Did {x} take part in a collision?",
        "Is {x} part of a crash in the video?",
    )),
    "striker": Template("key_entity", (
        "Did the front of {a} hit {b}?",
        "Was {b} hit by the front of {a}?",
        "Is {a} the one that drove into {b}?",
    )),
    "hit_by": Template("key_entity", (
        "Was {b} hit by {x}?",
        "Did {x} run into {b}?",
    )),
    "obstacle": Template("key_entity", (
        "Did {a} crash into a {x} beside the road?",
        "Was it a {x} beside the road that {a} crashed into?",
    )),
    "picture_half": Template("spatial", (
        "Did a collision happen in the {x} half of the picture?",
        "When {crash}, was that in the {x} half of the picture?",
        "Was there a crash in the {x} half of the picture?",
    )),
    "side_hit": Template("spatial", (
        "Was {b} hit on its {x} side by {a}?",
        "When {a} drove into {b}, did it hit the {x} side of {b}?",
    )),
    "end": Template("spatial", (
        "When {a} and {b} collided, was it with the {x} end of {a}?",
        "Did the {x} end of {a} touch {b} in a collision?",
    )),
    "swiped": Template("spatial", (
        "Did {a} and {b} scrape together on the {x} side of {a}?",
        "When {a} and {b} scraped together, was it with the {x} side of {a}?",
    )),
    "own_side": Template("spatial", (
        "When {a} and {b} collided, was it on the side of the road where {x} belonged?",
        "Did {a} and {b} collide on the side of the road where {x} belonged?",
    )),
    "run_side": Template("spatial", (
        "Did {a} leave the road to its {x} and crash?",
        "Was there a crash after {a} ran off the road to its {x}?",
    )),
    "zebra": Template("spatial", (
        "Was {a} hit by {b} {x} a zebra crossing?",
        "When {b} hit {a}, was that {x} a zebra crossing?",
    )),
    "nearer": Template("spatial", (
        "{when} {crash}, was {a} nearer to the camera than {b}?",
        "{when} {crash}, was {a} closer to the camera than {b}?",
    )),
    "further": Template("spatial", (
        "{when} {crash}, was {a} further to the {side} in the picture than {b}?",
        "{when} {crash}, was {a} more to the {side} in the picture than {b}?",
    )),
    "entry": Template("spatial_temporal", (
        "Did {a} enter the junction {x} {b} and then collide with it?",
        "Did {a} drive into the junction {x} {b} did, and then the two collide?",
    )),
    "lane_order": Template("spatial_temporal", (
        "Was {a} driving {x} {b} in the same lane when the two collided?",
        "At the moment of their collision, was {a} {x} {b} in the lane?",
    )),
    "motion": Template("spatial_temporal", (
        "Just before {crash}, was {a} moving to the {x} of the picture?",
        "In the last second before {crash}, did {a} move towards the {x} of the picture?",
    )),
    "nearing": Template("spatial_temporal", (
        "Just before {crash}, was {a} {x} the camera?",
        "In the last second before {crash}, was {a} {x} the camera?",
    )),
    "faster": Template("spatial_temporal", (
        "{when} {crash}, was {a} moving faster than {b}?",
        "{when} {crash}, was {a} going at a higher speed than {b}?",
    )),
    "heading": Template("spatial_temporal", (
        "{when} {crash}, was {a} heading {x} {b}?",
        "{when} {crash}, was {a} facing {x} {b}?",
    )),
    "came_from": Template("spatial_temporal", (
        "Did {a} come from the {x} of {b} before the two collided?",
        "Before {a} and {b} collided, was {a} coming from the {x} of {b}?",
    )),
    "cause": Template("causal", (
        "Is it true that {crash} because {x}?",
        "Was it because {x} that {crash}?",
        "Does the video show that {crash} because {x}?",
    )),
    "stopping": Template("counterfactual", (
        "Did a collision happen that would have been avoided if {x} had stopped at once {n}"
        " earlier?",
        "Was there a crash that {x} would have prevented by stopping at once {n} earlier?",
    )),
    "keeping": Template("counterfactual", (
        "Did a collision happen that would have been avoided if {x} had kept to its lane?",
        "Was there a crash that {x} would have prevented by keeping to its lane?",
    )),
}  # fmt: skip

KIND_NAMES = {
    "t_bone": "T-bone",
    "rear_end": "rear-end",
    "head_on": "head-on",
    "sideswipe": "sideswipe",
    "pedestrian": "pedestrian",
    "run_off_road": "run-off-road",
}
KIND_STORIES = {
    "t_bone": "one vehicle drove into the side of another vehicle",
    "rear_end": "one vehicle drove into the back of another vehicle",
    "head_on": "two oncoming vehicles crashed front to front",
    "sideswipe": "two vehicles going the same way scraped along each other",
    "pedestrian": "a vehicle hit a person on foot",
    "run_off_road": "a vehicle left the road and crashed into something beside it",
}
CAUSES = {
    "red_light": "drove through a red light",
    "no_yield": "did not give way at the junction",
    "no_braking": "did not brake behind slower traffic in its lane",
    "wrong_lane": "drifted onto the wrong side of the road",
    "lane_change": "moved over into the next lane of its direction",
    "stepped_out": "stepped into the road away from a crossing",
    "ran_over": "did not stop at the crossing",
    "too_fast": "was too fast for the bend",
    "lost_control": "swerved on a straight road",
}
