"""The checker passes every scene, and finds each fault that is planted."""

import copy

import pytest

from cctv.world.checker import check
from cctv.world.dataset import record_of
from cctv.world.reading import Unreadable, read
from cctv.world.scene import draw_scene


@pytest.mark.slow
def test_no_faults(records):
    assert [check(r) for r in records] == [[]] * len(records)


@pytest.mark.slow
def test_no_faults_of_another_seed_and_length():
    for seed, index, duration in ((11, 0, 5.0), (11, 1, 5.0), (11, 2, 9.0), (11, 3, 9.0)):
        assert check(record_of(draw_scene(seed, index, duration))) == []


@pytest.mark.nightly
def test_no_faults_in_a_thousand():
    for index in range(1000):
        assert check(record_of(draw_scene(17, index))) == []


def swap_questions(record, k):
    q = record["questions"][k]
    q["positive"], q["negative"] = q["negative"], q["positive"]


@pytest.mark.parametrize("index", [0, 1])
def test_every_swapped_pair_is_found(records, index):
    for k in range(len(records[index]["questions"])):
        record = copy.deepcopy(records[index])
        swap_questions(record, k)
        faults = check(record)
        assert len(faults) == 1
        assert faults[0].startswith(record["questions"][k]["pair_id"])


@pytest.mark.parametrize("index", [0, 1])
def test_two_true_questions_are_found(records, index):
    for k in range(len(records[index]["questions"])):
        record = copy.deepcopy(records[index])
        record["questions"][k]["negative"] = record["questions"][k]["positive"]
        assert any("truths [True, True, False, False]" in f for f in check(record))


def move_actor(log):
    log["paths"]["negative"]["0"] = [
        [x + 1.5, y, yaw] for x, y, yaw in log["paths"]["negative"]["0"]
    ]


def second_of_a_kind(log):
    for a in log["actors"]:
        a["colour"], a["type"] = log["actors"][0]["colour"], log["actors"][0]["type"]


def no_counterfactual(log):
    log["paths"]["negative"] = log["paths"]["positive"]


def no_accident(log):
    log["paths"]["positive"] = log["paths"]["negative"]


def other_light(log):
    log["layout"]["green_road"] = 1 - log["layout"]["green_road"]


def hidden(log):
    log["seen"]["negative"]["0"] = 0


def late_contact(log):
    log["contact"]["time"] += 0.5


def late_branch(log):
    log["branch"] = log["contact"]["time"] - 0.1


def small_gap(log):
    log["min_gap"]["stated"] = 100.0


def mirrored(log):
    position = log["camera"]["position"]
    log["camera"]["position"] = [-position[0], -position[1], position[2]]


def another_change(log):
    log["intervention"]["actor"] = 2


PLANTED = {
    move_actor: "does not follow its plan",
    second_of_a_kind: "vehicles of the scene",
    no_counterfactual: "contacts of the counterfactual",
    no_accident: "contacts of the accident",
    other_light: "truths",
    hidden: "hardly visible",
    late_contact: "the contact is not at",
    late_branch: "differ before the branch",
    small_gap: "counterfactual gap",
    mirrored: "truths",
    another_change: "does not follow its plan",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda f: f.__name__)
def test_planted_faults_are_found(records, plant):
    record = copy.deepcopy(next(r for r in records if r["anomaly_type"] == "t_bone"))
    plant(record["metadata"])
    assert any(PLANTED[plant] in fault for fault in check(record))


@pytest.mark.parametrize(
    "question",
    [
        "Did the red car win?",
        "Was the red car involved in a collision",
        "Was the pink car involved in a collision?",
        "Was the red truck involved in a collision?",
        "Was there a crash in the upper half of the image?",
    ],
)
def test_what_has_no_meaning_is_not_read(question):
    with pytest.raises(Unreadable):
        read(question, [{"id": 0, "colour": "red", "type": "car"}])


def test_sentences_of_one_meaning_are_one_claim():
    actors = [{"id": i, "colour": c, "type": "bus"} for i, c in enumerate(("red", "blue"))]
    for a, b in (
        (
            "Was the red bus hit on its left side by the blue bus?",
            "When the blue bus crashed into the red bus, did it hit the left side of the red bus?",
        ),
        (
            "When the blue bus and the red bus collided, was it with the rear end of the red bus?",
            "Did the rear end of the red bus touch the blue bus in a collision?",
        ),
    ):
        assert read(a, actors) == read(b, actors)
        assert read(a, actors).actors == (0, 1)
