"""Questions: true where they should be by a plain account, one thing exchanged, all templates."""

import json
import re
from collections import Counter

import numpy as np
import pytest

from cctv.data.schema import CATEGORIES
from cctv.world import whatif
from cctv.world.accident import KINDS
from cctv.world.crossing import entry_time
from cctv.world.eventlog import actors_from_log, event_log, from_json, to_json
from cctv.world.facts import Facts
from cctv.world.phrases import TEMPLATES
from cctv.world.questions import write_questions
from cctv.world.reading import read
from cctv.world.scene import draw_scene
from cctv.world.sight import sample_times
from cctv.world.simulation import Change, changed, simulate

CELLS = [("positive", "positive"), ("positive", "negative"), ("negative", "positive"),
         ("negative", "negative")]  # fmt: skip


def place(film, id_, time):
    """Where an actor is in a film: across and down in widths and heights, metres ahead."""
    x, y, _ = film.world.actor(id_).poses(np.array([time]))[0]
    camera = film.camera_at(time)
    point = camera.relative(np.array([x, y, 0.8]))
    u, v = camera.to_pixels(point, (1600, 900)) / (1600, 900)
    return u, v, point[2]


def speed(film, id_, time):
    a, b = film.world.actor(id_).plan(np.array([time - 0.5, time]))[:, :2]
    return np.hypot(*(b - a)) / 0.5


def left_or_right(is_left):
    return "left" if is_left else "right"


def plain(claim, scene, film):
    """Whether a claim is true of a film, by what the scene was drawn from."""
    world, cast, cause = film.world, scene.pair.cast, scene.pair.cause
    if world.contact is None:
        return False
    parties = sorted(i for i in world.contact.pair if i < len(cast.looks))
    if claim.crash and list(claim.crash) != parties:
        return False
    what, ids, word = claim.predicate, claim.actors, claim.value
    time = world.contact.time - claim.before
    a, b = (*ids, None, None)[:2]
    guilty = cause["actor"]
    if what in ("nearer", "further", "moving", "nearing"):
        (u, _, near), past = place(film, a, time), place(film, a, time - 1)
        if what == "moving":
            return word == left_or_right(u < past[0])
        if what == "nearing":
            return (word == "coming closer to") == (near < past[2])
        other = place(film, b, time)
        return near < other[2] if what == "nearer" else word == left_or_right(u < other[0])
    if what == "heading":
        yaws = [world.actor(i).plan(np.array([time]))[0][2] for i in (a, b)]
        return (word == "same") == (np.cos(yaws[0] - yaws[1]) > 0)
    if what == "entry":
        entries = [entry_time(world.actor(i), world.layout) for i in (a, b)]
        return (word == "before") == (entries[0] < entries[1])
    return {
        "kind": lambda: word == cast.kind,
        "involved": lambda: a in world.contact.pair,
        "struck": lambda: a == cast.striker and b == 1 - a,
        "obstacle": lambda: world.layout.obstacle(world.contact.pair[1]).kind == word,
        "half": lambda: word == left_or_right(scene.contact_image[0] < 0.5),
        "side": lambda: a != cast.striker and word == left_or_right(cast.from_left),
        "end": lambda: (word == "front") == (a == cast.striker),
        "flank": lambda: word == left_or_right(cast.from_left == (a != guilty)),
        "own_side": lambda: a != guilty,
        "left_road": lambda: word == left_or_right(cast.from_left),
        "zebra": lambda: (word == "on") == (cast.cause == "ran_over"),
        "order": lambda: (word == "ahead of") == (a != cast.striker),
        "faster": lambda: speed(film, a, time) > speed(film, b, time),
        "came_from": lambda: word == left_or_right(cast.from_left),
        "cause": lambda: word == cause["kind"] and a == guilty,
        "stopping": lambda: whatif.stopped(world, a, float(word)).contact is None,
        "keeping": lambda: whatif.kept(world, a).contact is None,
    }[what]()


def test_truths_by_a_plain_account(scenes, records):
    for scene, record in zip(scenes, records):
        films = {"positive": scene.positive, "negative": scene.negative}
        for q in record["questions"]:
            claims = {key: read(q[key], record["metadata"]) for key in films}
            cells = [bool(plain(claims[k], scene, films[v])) for v, k in CELLS]
            assert cells == [True, False, False, False], (record["scene_id"], q, cells)


def test_every_category_is_in_every_scene(records):
    for record in records:
        got = Counter(q["category"] for q in record["questions"])
        assert set(got) == set(CATEGORIES)
        texts = [q[k] for q in record["questions"] for k in ("positive", "negative")]
        assert len(set(texts)) == len(texts)
    kinds = Counter(r["anomaly_type"] for r in records)
    assert len(set(kinds.values())) == 1
    assert set(kinds) == set(KINDS)


def test_most_predicates_are_asked(records):
    asked = Counter()
    for record in records:
        for q in record["questions"]:
            asked[read(q["positive"], record["metadata"]).predicate] += 1
    assert len(asked) > 15
    assert max(asked.values()) <= 2 * len(records)


@pytest.mark.nightly
def test_every_template_is_written():
    scenes = (draw_scene(19, i) for i in range(300))
    written = {w.template: w.category for s in scenes for w in write_questions(event_log(s))}
    assert written == {name: t.category for name, t in TEMPLATES.items()}


def test_one_thing_is_exchanged(records):
    """The two questions have a common beginning and end; in between, one thing or two swapped."""
    for record in records:
        for q in record["questions"]:
            a, b = (q[k].split() for k in ("positive", "negative"))
            if Counter(a) == Counter(b):
                continue  # two names have changed places
            head = next(k for k, (x, y) in enumerate(zip(a, b)) if x != y)
            tail = next(k for k, (x, y) in enumerate(zip(a[::-1], b[::-1])) if x != y)
            assert head + tail > 0
            middle = max(len(a), len(b)) - head - tail
            assert middle <= 14, (q, middle)


def test_every_kind_is_as_often_the_wrong_one(records):
    """In 30 scenes in a row each kind is named five times in q+ and five times in q-."""
    counts = {"positive": Counter(), "negative": Counter()}
    for record in records[:30]:
        (q,) = (q for q in record["questions"] if q["category"] == "event")
        for key, count in counts.items():
            count[read(q[key], record["metadata"]).value] += 1
    assert counts["positive"] == counts["negative"] == dict.fromkeys(KINDS, 5)


def test_the_log_runs_both_worlds_again(scenes, records):
    for scene, record in zip(scenes[:12], records):
        log = json.loads(json.dumps(record["metadata"], allow_nan=False))
        assert log == record["metadata"]
        layout, actors = actors_from_log(log)
        assert layout == scene.pair.positive.layout
        world = simulate(layout, actors, log["duration"])
        assert world == scene.pair.positive
        change = from_json(Change, log["intervention"]["change"])
        assert changed(world, change) == scene.pair.negative


def test_to_json_and_back(scenes):
    for value in (scenes[0].pair.positive.layout, scenes[1].difficulty, scenes[2].look):
        assert from_json(type(value), json.loads(json.dumps(to_json(value)))) == value


def test_the_log_says_what_is_seen(scenes, records):
    for scene, record in zip(scenes[:6], records):
        visibility = record["metadata"]["visibility"]
        assert visibility["times"] == pytest.approx(sample_times(6.0))
        for video, seen in zip(("positive", "negative"), scene.seen):
            assert {int(i): tuple(n) for i, n in visibility[video].items()} == seen
        before = [t <= record["split_time"] for t in visibility["times"]].count(True)
        for id_, counts in visibility["positive"].items():
            assert counts[:before] == visibility["negative"][id_][:before]


def test_the_logged_places_are_those_of_the_checker(scenes, records):
    """Projection by the camera's axes and by its angles are the same."""
    for record in records[:12]:
        log = record["metadata"]
        facts = Facts(log, "positive")
        for before, places in enumerate(log["picture"]):
            time = facts.time - before
            for id_, (u, _, depth) in places.items():
                across, far = facts.place(*facts.pose(int(id_), time)[:2], time)
                assert far == pytest.approx(depth, abs=0.2)
                assert across == pytest.approx(u - 0.5, abs=0.02)


def test_the_same_log_has_the_same_questions(scenes):
    log = event_log(scenes[0])
    assert write_questions(log) == write_questions(json.loads(json.dumps(log)))


def test_times_and_segments(records):
    for record in records:
        log, segments = record["metadata"], record["segments"]
        contact = log["contact"]["time"]
        assert record["split_time"] == log["branch"] < contact
        assert segments["base"] == [0.0, log["branch"]]
        assert segments["contrastive"] == [log["branch"], log["duration"]]
        assert segments["key_frames"][0] < contact < segments["key_frames"][1]
        assert record["view"] in ("roadside", "driving")
        assert re.fullmatch(r"world-3-\d{5}", record["scene_id"])
