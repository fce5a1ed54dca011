"""The checker passes every scene, and finds each fault that is planted."""

import copy

import pytest

from cctv.world.accident import KINDS
from cctv.world.checker import check
from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene


def test_no_faults(records):
    assert [check(r) for r in records] == [[]] * len(records)


@pytest.mark.slow
def test_no_faults_of_another_seed_and_length():
    for seed, index, duration in ((11, 0, 5.0), (11, 3, 9.0)):
        assert check(record_of(draw_scene(seed, index, duration))) == []


@pytest.mark.nightly
def test_no_faults_in_a_thousand():
    for index in range(1000):
        assert check(record_of(draw_scene(17, index))) == []


def of_kind(records, kind, view=None, cause=None):
    """A copy of the first record of a kind (of a view, of a cause) that can be tampered with."""
    for record in records:
        log = record["metadata"]
        seen, why = view in (None, log["view"]), cause in (None, log["cause"]["kind"])
        if log["kind"] == kind and seen and why:
            return copy.deepcopy(record)
    raise LookupError(f"no {kind} {view or ''} {cause or ''}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_swapped_pair_is_found(records, kind):
    for k in range(len(of_kind(records, kind)["questions"])):
        record = of_kind(records, kind)
        q = record["questions"][k]
        q["positive"], q["negative"] = q["negative"], q["positive"]
        assert check(record) == [f"{q['pair_id']}: truths [False, True, False, False]"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_true_questions_are_found(records, kind):
    for k in range(len(of_kind(records, kind)["questions"])):
        record = of_kind(records, kind)
        q = record["questions"][k]
        q["negative"] = q["positive"]
        assert check(record) == [f"{q['pair_id']}: truths [True, True, False, False]"]


def set_question(record, text):
    record["questions"][0]["positive"] = text


def name(log, id_):
    a = next(a for a in log["actors"] if a["id"] == id_)
    if a["type"] == "pedestrian":
        return f"the pedestrian in {a['colour']}"
    return f"the {a['colour']} {a['type']}"


def drop_from_sight(record, video, pixels):
    for id_ in record["metadata"]["named"]:
        counts = record["metadata"]["visibility"][video]
        counts[str(id_)] = [pixels] * len(counts[str(id_)])


def lose_party(record):
    """One of the two is not touched: the whole accident's path is that of the other video."""
    paths = record["metadata"]["paths"]
    paths["positive"] = paths["negative"]


def keep_accident(record):
    paths = record["metadata"]["paths"]
    paths["negative"] = paths["positive"]


def shift_path(record):
    paths = record["metadata"]["paths"]["negative"]
    (key, *_) = paths
    paths[key] = [[x + 0.05, y, yaw] for x, y, yaw in paths[key]]


def part_early(record):
    """An actor's past differs between the two videos."""
    paths = record["metadata"]["paths"]["negative"]
    (key, *_) = paths
    paths[key][0] = [v + 1e-3 for v in paths[key][0]]


def twins(record):
    """All actors look alike."""
    for a in record["metadata"]["actors"]:
        a["colour"], a["type"] = "red", "car"


def mirror_camera(record):
    """The pole stands on the other side of what it looks at."""
    camera = record["metadata"]["camera"]
    (x, y, z), (ax, ay, _) = camera["position"], camera["aim"]
    camera["position"] = [2 * ax - x, 2 * ay - y, z]


def swap_signals(record):
    for signal in record["metadata"]["layout"]["signals"]:
        signal["state"] = "red" if signal["state"] == "green" else "green"


def drop_crossings(record):
    for road in record["metadata"]["layout"]["roads"]:
        road["crossings"] = []


def other_obstacle(record):
    log = record["metadata"]
    hit = next(o for o in log["layout"]["obstacles"] if o["id"] == log["contact"]["pair"][1])
    hit["kind"] = {"tree": "pole", "pole": "building", "building": "tree"}[hit["kind"]]


def move_obstacle(record):
    log = record["metadata"]
    hit = next(o for o in log["layout"]["obstacles"] if o["id"] == log["contact"]["pair"][1])
    hit["x"], hit["y"] = hit["x"] + 30.0, hit["y"] + 30.0


def drop_stops(record):
    for lane in record["metadata"]["layout"]["lanes"]:
        lane["stop"], lane["turn"] = None, "straight"


def move_point(record):
    record["metadata"]["contact"]["point"][0] += 4.0


def swap_roles(record):
    contact = record["metadata"]["contact"]
    contact["striker"], contact["struck"] = contact["struck"], contact["striker"]


def other_side(record):
    contact = record["metadata"]["contact"]
    contact["side"] = "left" if contact["side"] == "right" else "right"


def hide_contact(record):
    party = next(p for p in record["metadata"]["contact"]["parties"] if "pixels" in p)
    party["pixels"] = [party["pixels"][1] // 10, party["pixels"][1]]


def name_the_ego(record):
    log = record["metadata"]
    set_question(record, f"Was {name(log, log['ego'])} involved in a collision?")


def ask_about_another_pair(record):
    """The premise says that the bystander collided."""
    log = record["metadata"]
    a, b = log["contact"]["pair"][0], log["named"][-1]
    set_question(
        record,
        f"Is it true that {name(log, a)} and {name(log, b)} collided because {name(log, a)} drove"
        " through a red light?",
    )


def another_change(record):
    record["metadata"]["intervention"]["change"]["actor"] = record["metadata"]["named"][-1]


def early_change(record):
    record["metadata"]["branch"] = record["split_time"] = record["metadata"]["branch"] + 0.5
    for part, k in (("base", 1), ("contrastive", 0)):
        record["segments"][part][k] = record["split_time"]


def set_log(**values):
    return lambda record: record["metadata"].update(values)


def set_record(**values):
    return lambda record: record.update(values)


def add_to(key, inner, amount):
    def tamper(record):
        record["metadata"][key][inner] += amount

    return tamper


ROADSIDE, DRIVING = {"view": "roadside"}, {"view": "driving"}
# What is done to a record of which kind, and what the checker says of it.
TAMPERED = {
    "path": ("rear_end", {}, shift_path, "does not follow its plan"),
    "past": ("sideswipe", {}, part_early, "differ before the branch"),
    "no counterfactual": ("head_on", {}, keep_accident, "contacts of the counterfactual"),
    "no accident": ("pedestrian", {}, lose_party, "contacts of the accident: []"),
    "no accident of one": ("run_off_road", {}, lose_party, "contacts of the accident: []"),
    "obstacle elsewhere": ("run_off_road", {}, move_obstacle, "contacts of the accident: []"),
    "other obstacle": ("run_off_road", {}, other_obstacle, "party"),
    "point": ("t_bone", {}, move_point, "the point of contact is"),
    "struck": ("rear_end", {}, swap_roles, "the striker is not"),
    "side": ("t_bone", {}, other_side, "the side that is hit is"),
    "twins": ("t_bone", ROADSIDE, twins, "actors of the scene"),
    "lights": ("t_bone", {"cause": "red_light"}, swap_signals, "truths [False"),
    "stop lines": ("t_bone", {"cause": "no_yield"}, drop_stops, "truths [False"),
    "crossings": ("pedestrian", {"cause": "ran_over"}, drop_crossings, "truths [False"),
    "camera": ("t_bone", ROADSIDE, mirror_camera, "truths ["),
    "hidden in v+": ("head_on", {}, lambda r: drop_from_sight(r, "positive", 0), "hardly visible"),
    "small in v-": ("rear_end", {}, lambda r: drop_from_sight(r, "negative", 9), "hardly visible"),
    "hidden contact": ("sideswipe", {}, hide_contact, "hidden at the contact"),
    "late contact": ("t_bone", {}, add_to("contact", "time", 0.5), "the contact is not at"),
    "small gap": ("head_on", {}, add_to("min_gap", "stated", 100.0), "counterfactual gap"),
    "late branch": ("t_bone", {}, early_change, "before the branch"),
    "another change": ("rear_end", {}, another_change, "does not follow its plan"),
    "split": ("t_bone", {}, set_record(split_time=0.5), "the split is not at the branch"),
    "kind": ("t_bone", {}, set_record(anomaly_type="rear_end"), "a t_bone, not a rear_end"),
    "version": ("t_bone", {}, set_log(version=1), "a log of version 1, not 2"),
    "order": ("t_bone", {}, set_log(branch=5.9), "out of order"),
    "ego by its looks": ("t_bone", DRIVING, name_the_ego, "is the camera car"),
    "another pair": ("t_bone", ROADSIDE, ask_about_another_pair, "truths [False"),
    "nonsense": ("t_bone", {}, lambda r: set_question(r, "Why?"), "0 readings"),
    "another predicate": (
        "t_bone",
        {},
        lambda r: set_question(r, "Did a collision happen in the left half of the picture?"),
        "two different kinds of question",
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_tampering_is_found(records, case):
    kind, wanted, tamper, fault = TAMPERED[case]
    record = of_kind(records, kind, **wanted)
    tamper(record)
    assert any(fault in found for found in check(record)), check(record)
