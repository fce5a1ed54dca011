"""Scenes, logs and questions: golden, complete, without gross hints in words or looks."""

import hashlib
import json
import re
from collections import Counter

import numpy as np
import pytest

from cctv.data.errors import UserError
from cctv.data.schema import CATEGORIES
from cctv.world import scene as scene_module
from cctv.world.accident import CONTACT_WINDOW, draw_cast
from cctv.world.dataset import digest, record_of
from cctv.world.draw import Draw
from cctv.world.eventlog import actors_from_log
from cctv.world.motion import Action
from cctv.world.questions import CATEGORY, PHRASES
from cctv.world.reading import read
from cctv.world.scene import MIN_PIXELS, MIN_SAMPLES, draw_scene, pixels, sample_times
from cctv.world.simulation import changed, simulate
from cctv.world.whatif import BRAKING

GOLDEN = "789044948a52dee24fae8f408d3c1760b51acb8454214d1a0b7bd3b04e9d2167"


def test_golden_logs_and_questions(records):
    """A change here means that a seed gives another world: raise eventlog.GENERATOR."""
    total = hashlib.sha256("".join(digest(r) for r in records[:6]).encode()).hexdigest()
    assert total == GOLDEN


def test_a_scene_depends_on_its_seed_and_index_only(records):
    assert digest(record_of(draw_scene(3, 5))) == digest(records[5])
    others = {digest(record_of(draw_scene(*x))) for x in ((4, 5), (3, 6))}
    assert digest(records[5]) not in others


def test_every_category_is_in_every_scene(records):
    for record in records:
        got = Counter(q["category"] for q in record["questions"])
        assert set(got) == set(CATEGORIES)
        texts = [q[k] for q in record["questions"] for k in ("positive", "negative")]
        assert len(set(texts)) == len(texts)
    kinds = Counter(r["anomaly_type"] for r in records)
    assert kinds == {"t_bone": len(records) // 2, "rear_end": len(records) // 2}


def test_every_phrasing_is_used_and_can_be_read_back():
    actors = [{"id": i, "colour": c, "type": "car"} for i, c in enumerate(("red", "blue", "green"))]
    words = {
        "event": "T-bone", "event_part": "side", "spatial_picture": "left", "spatial_side": "left",
        "spatial_end": "rear", "order_entry": "before", "order_lane": "behind",
        "motion_picture": "right",
    }  # fmt: skip
    assert PHRASES.keys() == CATEGORY.keys()
    for template, phrases in PHRASES.items():
        assert len(phrases) >= 2
        first = words.get(template, "the red car")
        second = "1.5" if template == "what_if" else "the blue car"
        claims = {
            read(p.format(first, second, "the red car"), actors)._replace(predicate="")
            for p in phrases
        }
        assert len(claims) == 1, f"{template}: {claims}"  # all phrasings say the same


def test_times_and_segments(records):
    for record in records:
        log, segments = record["metadata"], record["segments"]
        contact = log["contact"]["time"]
        low, high = (share * log["duration"] for share in CONTACT_WINDOW)
        assert low <= contact <= high + 0.001
        assert record["split_time"] == log["branch"]
        assert 1.15 < contact - log["branch"] < 2.05
        assert segments["base"] == [0.0, log["branch"]]
        assert segments["contrastive"] == [log["branch"], log["duration"]]
        assert segments["key_frames"][0] < contact < segments["key_frames"][1]


def test_the_side_that_is_hit(records, scenes):
    for record, scene in zip(records, scenes):
        log, cast = record["metadata"], scene.pair.cast
        assert log["contact"]["striker"] == cast.striker
        assert log["cause"]["actor"] == cast.guilty
        actors = {a["id"]: a for a in log["actors"]}
        striker, struck = (actors[log["contact"][k]] for k in ("striker", "struck"))
        arms = (struck["lane"]["arm"] - striker["lane"]["arm"]) % 4
        if log["kind"] == "rear_end":
            assert arms == 0
            assert log["contact"]["side"] == log["contact"]["zone"] == "rear"
            assert log["cause"]["actor"] == striker["id"]
        else:
            # Arms turn left by 90 degrees: an eastbound car hits the left of a northbound one.
            assert log["contact"]["side"] == {3: "right", 1: "left"}[arms]
            assert cast.from_left == (log["contact"]["side"] == "left")
            runner = actors[log["cause"]["actor"]]
            assert runner["lane"]["arm"] % 2 != log["layout"]["green_road"]


def test_what_if_pairs_by_running_the_log_again(records):
    for record in records:
        log = record["metadata"]
        world = simulate(*actors_from_log(log), log["duration"])
        assert world.contact.time == log["contact"]["time"]
        (pair,) = [q for q in record["questions"] if q["category"] == "counterfactual"]
        for key, avoided in (("positive", True), ("negative", False)):
            claim = read(pair[key], log["actors"])
            stop = Action(time=world.contact.time - float(claim.value), speed=0, rate=BRAKING)
            assert (changed(world, claim.actors[0], stop).contact is None) == avoided


def test_logged_visibility_is_what_the_id_buffer_shows(scenes):
    scene = scenes[2]
    for shot, seen in zip((scene.positive, scene.negative), scene.seen):
        counts = np.array([pixels(shot, t) for t in sample_times(6.0)]) >= MIN_PIXELS
        assert counts.sum(0).tolist() == [seen[i] for i in range(len(seen))]
        assert (counts[:, :3].sum(0) >= MIN_SAMPLES).all()


def test_words_do_not_tell_the_true_question(records):
    """Both questions of a pair use the same words up to one exchange, and no word leans far."""
    positive, negative = Counter(), Counter()
    for record in records:
        for q in record["questions"]:
            a, b = (re.findall(r"[\w-]+", q[k].lower()) for k in ("positive", "negative"))
            if q["category"] != "spatial_temporal":  # "ahead of" and "behind" differ in length
                assert len(a) == len(b)
            positive.update(set(a))
            negative.update(set(b))
    for word in positive | negative:
        n = positive[word] + negative[word]
        assert abs(positive[word] - negative[word]) < 3.5 * np.sqrt(n) + 3, word


def test_looks_are_drawn_alike_for_all_vehicles():
    """Looks are drawn before anything can be rejected, so by a plain draw of casts."""
    casts = [draw_cast(Draw(np.random.SeedSequence([5, i])), "t_bone", 6.0) for i in range(3000)]
    for k in (0, 1):
        involved = Counter(c.looks[i][k] for c in casts for i in (0, 1))
        others = Counter(look[k] for c in casts for look in c.looks[2:])
        for value in involved:
            a, b = involved[value] / involved.total(), others[value] / others.total()
            assert a == pytest.approx(b, abs=0.025)
    assert all(len({colour for _, colour in c.looks}) == len(c.looks) for c in casts)
    for part in (lambda c: c.striker, lambda c: c.guilty, lambda c: c.from_left):
        assert np.mean([part(c) for c in casts]) == pytest.approx(0.5, abs=0.04)
    guilty = Counter(c.looks[c.guilty][0] for c in casts)
    innocent = Counter(c.looks[1 - c.guilty][0] for c in casts)
    assert guilty["car"] == pytest.approx(innocent["car"], rel=0.08)


def test_looks_and_times_survive_rejection(scenes):
    kept = [s for s in scenes if s.rejected]
    assert len(kept) > 5
    for scene in kept:
        draw = Draw(np.random.SeedSequence([scene.seed, scene.index]))
        assert draw_cast(draw, scene.pair.cast.kind, 6.0) == scene.pair.cast


def test_no_valid_draw_is_one_line(monkeypatch):
    monkeypatch.setattr(scene_module, "MIN_SAMPLES", 1000)
    monkeypatch.setattr(scene_module, "ATTEMPTS", 3)
    with pytest.raises(
        UserError, match=r"scene 0 of seed 3: no valid draw in 3: .*\(\d\)"
    ) as error:
        draw_scene(3, 0)
    assert "\n" not in str(error.value)


def test_the_log_is_json(records):
    for record in records[:5]:
        assert json.loads(json.dumps(record, allow_nan=False)) == record
