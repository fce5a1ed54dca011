"""Pictures: any instant at any size, equal up to the branch, the right vehicle in front."""

import hashlib

import numpy as np
import pytest

from cctv.data import video
from cctv.world.accident import MIN_GAP, OTHER_GAP
from cctv.world.camera import Camera
from cctv.world.generate import Arguments, write_video
from cctv.world.layout import LANES, Layout
from cctv.world.motion import Actor
from cctv.world.render import Shot, id_buffer, render
from cctv.world.scene import draw_scene
from cctv.world.simulation import simulate

SIZE = (160, 90)
CAMERA = Camera(position=(-20.0, -20.0, 11.0), aim=(0.0, 0.0, 0.5), focal=0.9)


def test_frames_are_equal_up_to_the_branch_and_differ_after(scenes):
    for scene in scenes[:8]:
        branch, size = scene.pair.cast.branch, (320, 180)
        for time in (0.0, branch / 2, branch):
            assert np.array_equal(
                *(render(s, time, size) for s in (scene.positive, scene.negative))
            )
        # The vehicle that brakes may be outside of the picture at first, at the contact it isn't.
        time = scene.pair.cast.contact_time + 0.5
        a, b = (render(s, time, size) for s in (scene.positive, scene.negative))
        assert (np.abs(a.astype(int) - b) > 40).any(-1).sum() > 150


def test_equal_frames_stay_equal_after_decoding(scenes, tmp_path):
    arguments = Arguments(scenes=1, seed=0, size=(320, 180), fps=10.0, duration=6.0)
    for k in (0, 1):
        scene, decoded = scenes[k], []
        for side, shot in (("pos", scene.positive), ("neg", scene.negative)):
            path = tmp_path / f"{k}{side}.mp4"
            write_video(path, shot, arguments)
            info = video.probe(path)
            assert (info.num_frames, info.width, info.height) == (60, 320, 180)
            assert info.times == pytest.approx(np.arange(60) / 10)
            decoded.append(video.read_frames(path, range(60)))
        last = int(scene.pair.cast.branch * 10 + 1e-9)
        same = (decoded[0] == decoded[1]).all((1, 2, 3))
        assert same[: last + 1].all()
        assert not same[int(scene.pair.cast.contact_time * 10) + 1 :].any()


def test_any_instant_renders_without_the_ones_before(scenes):
    forward = [render(scenes[0].positive, t, SIZE) for t in (1.0, 3.3, 5.0)]
    backward = [render(draw_scene(3, 0).positive, t, SIZE) for t in (5.0, 3.3, 1.0)]
    assert all(np.array_equal(a, b) for a, b in zip(forward, backward[::-1]))


@pytest.mark.parametrize("size", [(64, 36), (128, 80), (320, 180), (90, 160), (640, 360)])
def test_any_size_shows_the_same_world(scenes, size):
    shot = scenes[0].positive
    image = render(shot, 3.0, size)
    assert image.shape == (size[1], size[0], 3)
    assert image.dtype == np.uint8
    x, y = scenes[0].pair.positive.contact.point
    u, v = shot.camera.to_pixels(shot.camera.relative(np.array([x, y, 0.8])), size)
    assert 0 < u < size[0]
    assert 0 < v < size[1]
    if size[0] > size[1]:  # a tall picture shows more above and below
        share = [
            (id_buffer(shot, 3.0, s) > 0).sum() / min(s[0], s[1] * 16 / 9) ** 2
            for s in (size, (320, 180))
        ]
        assert share[0] == pytest.approx(share[1], rel=0.3)


def parked(id_, arm, s, type_="car", colour="red", rank=0):
    lane = next(x for x in LANES if (x.arm, x.rank) == (arm, rank))
    return Actor(id=id_, type=type_, colour=colour, lane=lane, start=s, speed=0.0)


def shot_of(*actors):
    world = simulate(Layout(green_road=0, buildings=()), actors, 6.0)
    assert world.contact is None
    return Shot(world=world, camera=CAMERA)


def test_the_nearer_vehicle_covers_the_farther_one():
    bus = parked(0, 0, -1.0, "bus", "blue", rank=1)  # between the camera and the car
    car = parked(1, 0, 1.0, "car", "yellow", rank=0)
    for actors in ((bus, car), (car, bus)):
        shot = shot_of(*actors)
        ids = id_buffer(shot, 0.0, (320, 180))
        alone = [(id_buffer(shot, 0.0, (320, 180), only=i) > 0) for i in (0, 1)]
        both = alone[0] & alone[1]
        assert both.sum() > 50
        assert (ids[both] == 1).all()
        assert 0 < (ids == 2).sum() < alone[1].sum()


def test_colours_are_what_their_names_say():
    expected = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "white": (1, 1, 1)}
    for colour, rgb in expected.items():
        shot = shot_of(parked(0, 0, 0.0, "bus", colour))
        inside = id_buffer(shot, 0.0, SIZE) == 1
        mean = render(shot, 0.0, SIZE)[inside].mean(0)
        high, low = (mean[[v == k for v in rgb]] for k in (1, 0))
        assert high.min() > 60
        assert not low.size or high.min() > low.max() + 20


def test_vehicles_behind_the_camera_are_not_drawn():
    shot = shot_of(parked(0, 0, -80.0), parked(1, 0, 0.0))
    assert set(np.unique(id_buffer(shot, 0.0, SIZE))) == {0, 2}


def test_golden_picture(scenes):
    """Rounded to 1/16 pixel before an integer rasteriser: the same bytes on every machine."""
    frames = [render(scenes[k].positive, 3.0, (320, 180)).tobytes() for k in (0, 1)]
    assert hashlib.sha256(b"".join(frames)).hexdigest() == GOLDEN_PICTURE


GOLDEN_PICTURE = "a4477b91c44f5bb8357841a966cd2dad14e5665d33eb04d05a7e9dafad771f1f"


def test_gaps_of_both_worlds(scenes):
    for scene in scenes:
        pair = scene.pair
        involved = pair.positive.contact.pair
        assert involved == (0, 1)
        assert abs(pair.positive.contact.time - pair.cast.contact_time) <= 1e-3
        assert pair.negative.contact is None
        assert pair.negative.min_gap(*involved) >= MIN_GAP
        for world in (pair.positive, pair.negative):
            assert all(g >= OTHER_GAP for p, g in world.gaps().items() if p != involved)
