"""Scenes: golden, a function of seed and index, seen as they say, redrawn for good reasons."""

import hashlib
from collections import Counter

import numpy as np
import pytest

from cctv.data.errors import UserError
from cctv.world import scene as scene_module
from cctv.world import sight
from cctv.world.accident import KINDS, MEDIUM, draw_cast, part
from cctv.world.dataset import digest, record_of
from cctv.world.draw import Draw
from cctv.world.layout import FIRST_OBSTACLE, Path
from cctv.world.look import LOOKS
from cctv.world.motion import Actor
from cctv.world.render import id_buffer
from cctv.world.scene import MIN_CONTACT_SHARE, draw_scene, enough, look_of, pixels
from cctv.world.sight import MIN_SAMPLES, SIZE, sample_times

GOLDEN = "5f046a441f2c355af6a8b6a3bbf028771b983f81902361f758077eae6764401f"


def test_golden_logs_and_questions(records):
    """A change here means that a seed gives another world: raise eventlog.GENERATOR."""
    total = hashlib.sha256("".join(digest(r) for r in records[:12]).encode()).hexdigest()
    assert total == GOLDEN


def test_a_scene_depends_on_its_seed_and_index_only(records):
    assert digest(record_of(draw_scene(3, 5))) == digest(records[5])
    others = {digest(record_of(draw_scene(*x))) for x in ((4, 5), (3, 11))}
    assert digest(records[5]) not in others


def test_kinds_views_and_looks_are_even(scenes):
    for i, scene in enumerate(scenes):
        cast = scene.pair.cast
        assert (cast.kind, cast.view, cast.place) == part(i)
        assert scene.look.kind == look_of(i)
        assert type(scene.camera).__name__ == {"roadside": "Camera", "driving": "Ride"}[scene.view]
    many = range(2 * 5 * 5 * 5 * len(KINDS))
    looks = Counter((part(i)[0], part(i)[1], look_of(i)) for i in many)
    assert len(looks) == 2 * len(KINDS) * len(LOOKS)
    assert max(looks.values()) - min(looks.values()) <= 2
    places = Counter((part(i)[2], look_of(i)) for i in many if part(i)[0] == "head_on")
    assert len(places) == 25
    assert max(places.values()) <= 1.5 * min(places.values())


def test_seen_is_what_the_id_buffer_shows(scenes):
    for scene in scenes[1:3]:  # one of either view
        for shot, seen in zip((scene.positive, scene.negative), scene.seen):
            for k, time in enumerate(sample_times(6.0)):
                picture = id_buffer(shot, float(time), SIZE)
                for id_, counts in seen.items():
                    assert counts[k] == (picture == 1 + id_).sum()
        assert scene.pair.cast.ego not in scene.seen[0]


def test_whoever_is_named_is_seen(scenes):
    for scene in scenes:
        cast, contact = scene.pair.cast, scene.pair.positive.contact
        assert len(cast.named) == cast.involved + 1 - (cast.ego in range(cast.involved))
        for seen in scene.seen:
            for id_ in cast.named:
                least = enough(cast.looks[id_][0], MEDIUM)
                assert sum(n >= least for n in seen[id_]) >= MIN_SAMPLES
        assert set(scene.contact_pixels) == set(contact.pair) - {cast.ego}
        now = dict(zip(contact.pair, pixels(scene.positive, contact.time, contact.pair)))
        for id_, (visible, alone) in scene.contact_pixels.items():
            assert now[id_] == visible <= alone * 1.02 + 2
            assert visible >= MIN_CONTACT_SHARE * alone
        u, v = scene.contact_image
        assert 0 < u < 1
        assert 0 < v <= 1
        if scene.view == "roadside":
            assert (u < 0.5) == cast.image_left
            assert abs(u - 0.5) >= scene_module.OFF_CENTRE


def test_the_contact_is_where_the_picture_says(scenes):
    """The parties' pixels at the contact lie around that point."""
    for scene in scenes[:6]:
        if scene.view == "driving" and scene.pair.cast.ego in scene.pair.positive.contact.pair:
            continue
        contact = scene.pair.positive.contact
        picture = id_buffer(scene.positive, contact.time, SIZE)
        ys, xs = np.nonzero(np.isin(picture, [1 + i for i in contact.pair]))
        u, v = np.array(scene.contact_image) * SIZE
        actor = contact.pair[1] < FIRST_OBSTACLE
        assert np.hypot(xs - u, ys - v).min() < (6 if actor else 12)


def test_looks_and_times_survive_rejection(scenes):
    kept = [s for s in scenes if s.rejected]
    assert len(kept) > 5
    for scene in kept:
        draw = Draw(np.random.SeedSequence([scene.seed, scene.index]))
        assert draw_cast(draw, scene.index) == scene.pair.cast


def test_no_valid_draw_is_one_line(monkeypatch):
    monkeypatch.setattr(scene_module, "MIN_CONTACT_SHARE", 2.0)
    monkeypatch.setattr(scene_module, "ATTEMPTS", 2)
    with pytest.raises(
        UserError, match=r"scene 0 of seed 3: no valid draw in 2: .*\(\d+\)"
    ) as error:
        draw_scene(3, 0)
    assert "\n" not in str(error.value)


# --- the quick test in plan view


def standing(x, y, type_="car"):
    path = Path(start=(x, y, 0.0), pieces=((10.0, 0.0),))
    return Actor(id=0, type=type_, colour="red", path=path, lane=0, start=0.0, speed=0.0)


def test_a_riding_camera_sees_what_is_ahead_and_free():
    eye, at = np.zeros((1, 3)), np.zeros(1)

    def sees(x, y, *hidden):
        boxes = tuple(sight.boxes_at(standing(*h), at) for h in hidden)
        return bool(sight.sees(eye, standing(x, y), at, 30.0, boxes)[0])

    assert sees(20, 0)
    assert sees(20, 10)
    assert not sees(20, 15)
    assert not sees(35, 0)
    assert not sees(-10, 0)
    assert not sees(20, 0, (10, 0))
    assert sees(20, 0, (10, 4))
    assert sees(20, 3.5, (14, 0))


def test_segments_meet_boxes_as_their_points_do():
    rng = np.random.default_rng(0)
    start, end = rng.uniform(-6, 6, (2, 400, 2))
    box = sight.boxes_at(standing(0.5, -0.5), np.zeros(1))
    found = sight.crosses(start, end, np.broadcast_to(box, (400, 4, 2)))
    share = np.linspace(0, 1, 401)[:, None, None]
    points = start + share * (end - start) - (0.5, -0.5)
    inside = (np.abs(points) <= (4.5 / 2, 1.85 / 2)).all(-1).any(0)
    assert (found != inside).sum() <= 3  # a corner that is cut by less than the points' distance
    assert 50 < found.sum() < 350
