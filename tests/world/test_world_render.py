"""Pictures: any instant at any size, equal up to the branch, ids that are those of the picture."""

import hashlib

import cv2
import numpy as np
import pytest
from places import busy

from cctv.data import video
from cctv.world.camera import Camera, Ride
from cctv.world.generate import Arguments, write_video
from cctv.world.look import LOOKS
from cctv.world.render import Shot, id_buffer, render
from cctv.world.scene import draw_scene
from cctv.world.simulation import World

SIZE = (160, 90)


@pytest.fixture(scope="module")
def of_each(scenes):
    """(view, look) -> the first of the scenes with both."""
    found = {}
    for scene in scenes:
        found.setdefault((scene.view, scene.look.kind), scene)
    return found


def test_frames_are_equal_up_to_the_branch_and_differ_after(of_each):
    assert set(of_each) == {(v, k) for v in ("roadside", "driving") for k in LOOKS}
    for scene in of_each.values():
        branch = scene.pair.cast.branch
        for time in (0.0, branch / 2, branch):
            assert np.array_equal(
                *(render(s, time, SIZE) for s in (scene.positive, scene.negative))
            )
        time = scene.pair.cast.contact_time + 0.5
        a, b = (render(s, time, SIZE).astype(int) for s in (scene.positive, scene.negative))
        assert (np.abs(a - b) > 40).any(-1).sum() > 15


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("view", ["roadside", "driving"])
def test_equal_frames_stay_equal_after_decoding(of_each, tmp_path, view, look):
    scene, decoded, fps = of_each[view, look], [], 4.0
    arguments = Arguments(scenes=1, seed=0, size=SIZE, fps=fps, duration=6.0, difficulty="medium")
    for side, shot in (("pos", scene.positive), ("neg", scene.negative)):
        path = tmp_path / f"{side}.mp4"
        write_video(path, shot, arguments)
        info = video.probe(path)
        assert (info.num_frames, info.width, info.height) == (24, *SIZE)
        assert info.times == pytest.approx(np.arange(24) / fps)
        decoded.append(video.read_frames(path, range(24)))
    same = (decoded[0] == decoded[1]).all((1, 2, 3))
    assert same[: int(scene.pair.cast.branch * fps + 1e-9) + 1].all()
    assert not same[int(scene.pair.cast.contact_time * fps) + 1 :].any()


def test_any_instant_renders_without_the_ones_before(scenes):
    times, scene = (1.0, 3.3, 5.0), scenes[1]
    forward = [render(scene.positive, t, SIZE) for t in times]
    again = draw_scene(scene.seed, scene.index).positive
    backward = [render(again, t, SIZE) for t in times[::-1]]
    assert all(np.array_equal(a, b) for a, b in zip(forward, backward[::-1]))


@pytest.mark.parametrize("size", [(64, 36), (128, 80), (320, 180), (90, 160), (640, 360)])
def test_any_size_shows_the_same_world(scenes, size):
    for scene in scenes[:2]:
        shot, time = scene.positive, scene.pair.cast.contact_time
        image = render(shot, time, size)
        assert image.shape == (size[1], size[0], 3)
        assert image.dtype == np.uint8
        if size[0] > size[1]:  # a tall picture shows more above and below
            involved = [1 + i for i in shot.world.contact.pair]
            area = [
                np.isin(id_buffer(shot, time, s), involved).sum() / min(s[0], s[1] * 16 / 9) ** 2
                for s in (size, (320, 180))
            ]
            assert area[0] == pytest.approx(area[1], rel=0.5)  # small ones fill whole pixels


@pytest.mark.parametrize("riding", [False, True])
def test_ids_are_where_the_picture_changes(riding):
    """Without an actor the picture is another one where its ids were, and only there.

    Except for its shadow, which is darker than what it falls on.
    """
    world = busy("signals", 3)
    camera = Camera(position=(-17.0, -14.0, 10.0), aim=(0.0, 0.0, 0.5), focal=0.9)
    if riding:
        camera = Ride(actor=5, ahead=0.5, height=2.4, drop=0.2, focal=0.6)
    shot, size, seen = Shot(world=world, camera=camera), (320, 180), 0
    whole, ids = render(shot, 0.0, size).astype(int), id_buffer(shot, 0.0, size)
    for actor in world.actors:
        if actor.id == shot.ego:
            continue
        rest = tuple(a for a in world.actors if a.id != actor.id)
        fewer = World(layout=world.layout, actors=rest, duration=6.0, contact=None)
        without = render(Shot(world=fewer, camera=camera), 0.0, size).astype(int)
        mask = (ids == 1 + actor.id).astype(np.uint8)
        inner = cv2.erode(mask, np.ones((3, 3), np.uint8)) > 0
        outer = cv2.dilate(mask, np.ones((3, 3), np.uint8)) > 0
        change = np.abs(whole - without).max(-1) > 6
        assert change[inner].mean() > 0.8 if inner.any() else True
        assert (whole[change & ~outer].sum(-1) < without[change & ~outer].sum(-1)).all()
        seen += inner.any()
    assert seen >= 3


def test_golden_pictures(of_each):
    """Rounded to 1/16 pixel before an integer rasteriser: the same bytes on every machine."""
    frames = [
        render(of_each[key].positive, of_each[key].pair.cast.contact_time + 0.2, (320, 180))
        for key in sorted(of_each)
    ]
    total = hashlib.sha256(b"".join(f.tobytes() for f in frames)).hexdigest()
    assert total == GOLDEN_PICTURES


GOLDEN_PICTURES = "1576bf38a54ee7736da55bc0da30c96112e50f5ce5d82e6a7b738ff00b5e4b22"
