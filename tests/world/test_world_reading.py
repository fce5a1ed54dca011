"""Questions are read back: every phrasing means what its template means, nonsense is refused."""

import itertools
import re

import pytest

from cctv.data.schema import CATEGORIES
from cctv.world.accident import KINDS
from cctv.world.phrases import CAUSES, KIND_NAMES, KIND_STORIES, TEMPLATES
from cctv.world.reading import Claim, Unreadable, read

LOG = {
    "ego": 3,
    "actors": [
        {"id": 0, "colour": "red", "type": "car"},
        {"id": 1, "colour": "blue", "type": "pedestrian"},
        {"id": 2, "colour": "green", "type": "truck"},
        {"id": 3, "colour": "white", "type": "car"},
        {"id": 4, "colour": "black", "type": "bicycle"},
    ],
}
RED, WALKER, TRUCK = "the red car", "the pedestrian in blue", "the green truck"
EGO = "the camera car"
TWO, ONE = f"{TRUCK} and {RED} collided", f"{RED} ran off the road and crashed"

MOMENTS = {"When": 0, "Just before": 0, "One second before": 1, "Two seconds before": 2}

# Template -> (fillings of {x}, or None for an exchange of a and b; the claims that they mean).
# a is the red car (0), b the green truck (2) unless the sentence is about a pedestrian (1).
MEANS = {
    "event_name": (dict(KIND_NAMES.items()), lambda k: Claim("kind", (), k)),
    "event_story": (dict(KIND_STORIES.items()), lambda k: Claim("kind", (), k)),
    "involved": ({0: RED, 3: EGO, 1: WALKER}, lambda i: Claim("involved", (i,))),
    "striker": (None, lambda a, b: Claim("struck", (a, b), "", (0, 2))),
    "hit_by": ({0: RED, 3: EGO}, lambda i: Claim("struck", (i, 2), "", tuple(sorted((i, 2))))),
    "obstacle": (("tree", "pole", "building"), lambda x: Claim("obstacle", (0,), x, (0,))),
    "picture_half": (("left", "right"), lambda x: Claim("half", (), x)),
    "side_hit": (("left", "right"), lambda x: Claim("side", (2, 0), x, (0, 2))),
    "end": (("front", "rear"), lambda x: Claim("end", (0, 2), x, (0, 2))),
    "swiped": (("left", "right"), lambda x: Claim("flank", (0, 2), x, (0, 2))),
    "own_side": ({0: RED, 2: TRUCK}, lambda i: Claim("own_side", (i,), "", (0, 2))),
    "run_side": (("left", "right"), lambda x: Claim("left_road", (0,), x, (0,))),
    "zebra": (("on", "away from"), lambda x: Claim("zebra", (0, 2), x, (0, 2))),
    "nearer": (None, lambda a, b: Claim("nearer", (a, b))),
    "further": (None, lambda a, b: Claim("further", (a, b), "right")),
    "entry": (("before", "after"), lambda x: Claim("entry", (0, 2), x, (0, 2))),
    "lane_order": (("ahead of", "behind"), lambda x: Claim("order", (0, 2), x, (0, 2))),
    "motion": (("left", "right"), lambda x: Claim("moving", (0,), x)),
    "nearing": (("coming closer to", "moving away from"), lambda x: Claim("nearing", (0,), x)),
    "heading": (
        {"same": "in the same direction as", "opposite": "in the opposite direction to"},
        lambda k: Claim("heading", (0, 2), k),
    ),
    "faster": (None, lambda a, b: Claim("faster", (a, b))),
    "came_from": (("left", "right"), lambda x: Claim("came_from", (0, 2), x, (0, 2))),
    "cause": ({k: f"{RED} {v}" for k, v in CAUSES.items()}, lambda k: Claim("cause", (0,), k)),
    "stopping": ({2: TRUCK, 1: WALKER, 3: EGO}, lambda i: Claim("stopping", (i,), "1.5")),
    "keeping": ({2: TRUCK, 0: RED, 3: EGO}, lambda i: Claim("keeping", (i,))),
}


def fillings(template):
    """(slots, claim) of every way to fill a template of the table."""
    words, meaning = MEANS[template]
    if words is None:
        for (i, a), (j, b) in itertools.permutations(((0, RED), (2, TRUCK))):
            yield {"a": a, "b": b}, meaning(i, j)
        return
    for key, word in words.items() if isinstance(words, dict) else zip(words, words):
        yield {"x": word, "a": RED, "b": TRUCK}, meaning(key)


def test_the_table_is_complete():
    assert MEANS.keys() == TEMPLATES.keys()
    assert KIND_NAMES.keys() == KIND_STORIES.keys() == set(KINDS)
    assert {t.category for t in TEMPLATES.values()} == set(CATEGORIES)
    assert all(len(set(t.phrases)) >= 2 for t in TEMPLATES.values())


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(("clause", "crash"), [(TWO, (0, 2)), (ONE, (0,))], ids=("two", "one"))
@pytest.mark.parametrize(("when", "before"), MOMENTS.items())
def test_every_phrasing_means_the_same(template, clause, crash, when, before):
    for slots, claim in fillings(template):
        for phrase in TEMPLATES[template].phrases:
            text = phrase.format(**slots, crash=clause, side="right", n="1.5 seconds", when=when)
            wanted = claim._replace(before=before if "{when}" in phrase else 0)
            got = read(text, LOG)
            if "{crash}" in phrase:
                assert got == wanted._replace(crash=crash), text
            else:
                assert got._replace(crash=()) == wanted._replace(crash=()), text
                assert got.crash in ((), claim.crash), text


def test_phrases_exchange_one_thing():
    for template in TEMPLATES.values():
        for phrase in template.phrases:
            slots = re.findall(r"{(\w+)}", phrase)
            exchanged = slots.count("x") == 1 or {"a", "b"} <= set(slots)
            assert exchanged, phrase


@pytest.mark.parametrize(
    "question",
    [
        "Did the red car win?",
        "Was the red car involved in a collision",
        "Well, was the red car involved in a collision?",
        "Was the red car involved in a collision? Yes?",
        "Was the pink car involved in a collision?",
        "Was the red truck involved in a collision?",
        "Was the white car involved in a collision?",  # the camera car, which nobody sees
        f"Was there a crash that {RED} would have prevented by stopping at once 1 seconds earlier?",
        f"Was there a crash that {RED} would have prevented by stopping at once 2 second earlier?",
        "Was the pedestrian involved in a collision?",
        "Was the blue pedestrian involved in a collision?",
        "Was there a crash in the upper half of the picture?",
        "Did a frontal collision happen in the video?",
        "When the red car drove into the green truck, did it hit the left side of the red car?",
        "Did the red car and the green truck scrape together on the left side of the camera car?",
        "Is it true that the red car and the green truck collided because the red car was late?",
    ],
)
def test_what_has_no_meaning_is_not_read(question):
    with pytest.raises(Unreadable):
        read(question, LOG)


def test_a_reference_must_be_one_actor():
    twin = {"id": 9, "colour": "red", "type": "car"}
    with pytest.raises(Unreadable, match="is 2 actors"):
        read(f"Was {RED} involved in a collision?", {**LOG, "actors": [*LOG["actors"], twin]})
    with pytest.raises(Unreadable, match="no camera car"):
        read(f"Was {EGO} involved in a collision?", {**LOG, "ego": None})
