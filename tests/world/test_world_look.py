"""Light and weather: the same everywhere and every time, and colours that can be told apart."""

import numpy as np
import pytest
from places import at, busy, place

from cctv.world.camera import Camera, Ride
from cctv.world.look import LOOKS, TRAITS, Look
from cctv.world.models import RGB
from cctv.world.render import Shot, id_buffer, render
from cctv.world.simulation import World

CAMERA = Camera(position=(-14.0, -13.0, 9.0), aim=(0.0, 0.0, 0.5), focal=0.9)
SIZE = (160, 90)


@pytest.mark.parametrize("kind", LOOKS)
def test_a_look_is_a_function_of_seed_and_time(kind):
    world = busy("signals", 1, speed=3.0)
    for camera in (CAMERA, Ride(actor=0, ahead=0.5, height=1.4, drop=0.07, focal=0.66)):
        frames = [
            [render(Shot(world=world, camera=camera, look=look), t, SIZE) for t in (1.2, 3.1)]
            for look in (Look(kind=kind, seed=seed) for seed in (4, 4, 5))
        ]
        assert np.array_equal(frames[0], frames[1])
        for k in (0, 1):
            assert not np.array_equal(frames[0][k], frames[2][k])
    # Where nothing moves, weather and noise do.
    still = Shot(world=busy("curve", 2), camera=CAMERA, look=Look(kind=kind, seed=4))
    assert not np.array_equal(render(still, 1.2, SIZE), render(still, 1.3, SIZE))


@pytest.mark.parametrize("kind", LOOKS)
def test_noise_leans_to_neither_side(kind):
    look = Look(kind=kind, seed=9)
    grey = np.full((180, 320, 3), 128, np.uint8)
    total = np.zeros(grey.shape[:2])
    for k in range(20):
        image = grey.copy()
        look._noise(image, k / 10)
        assert (image == image[..., :1]).all()  # brightness only
        total += image[..., 0].astype(int) - 128
    assert abs(total.mean() / 20) < 0.02
    assert 0.5 < image[..., 0].std() < 5


@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.parametrize("type_", ["car", "pedestrian", "bicycle"])
def test_named_colours_can_be_told_apart(kind, type_):
    """The colour that most of an actor's bright or hued pixels are nearest to is its own."""
    light = np.array(TRAITS[kind].light)
    layout, right = place("straight"), 0
    names = list(RGB)
    known = np.array([RGB[n] for n in names]) * light * 0.88
    for name in names:
        actor = at(layout, 0, type_, name, 0, 0.0)
        x, y, _ = actor.poses(np.zeros(1))[0]
        away = 0.4 if type_ != "car" else 1.0
        camera = Camera(
            position=(x - 12 * away, y - 10 * away, 9 * away), aim=(x, y, 0.8), focal=0.9
        )
        world = World(layout=layout, actors=(actor,), duration=6.0, contact=None)
        shot = Shot(world=world, camera=camera, look=Look(kind=kind, seed=3))
        pixels = render(shot, 1.0, SIZE)[id_buffer(shot, 1.0, SIZE) == 1].astype(float)
        if name not in ("white", "black"):  # tyres, glass and trousers are grey
            pixels = pixels[pixels.max(-1) - pixels.min(-1) > 50 * light.min()]
            shown = [k for k, n in enumerate(names) if n not in ("white", "black")]
        else:
            shown = [names.index("white"), names.index("black")]
        # By the direction of the colour for hues, by brightness for white and black.
        unit = pixels / np.maximum(np.linalg.norm(pixels, axis=-1, keepdims=True), 1)
        ways = known[shown] / np.linalg.norm(known[shown], axis=-1, keepdims=True)
        if name in ("white", "black"):
            share = (pixels.min(-1) > 130).mean()
            right += (share > 0.2) == (name == "white")
        else:
            nearest = np.bincount((unit @ ways.T).argmax(-1), minlength=len(shown))
            right += names[shown[int(nearest.argmax())]] == name
    assert right == len(names)


def test_fog_hides_what_is_far_and_not_what_is_near():
    layout = place("straight")
    contrast = {}
    for ahead in (15.0, 90.0):
        actor = at(layout, 0, "bus", "red", 0, ahead - 20)
        ego = at(layout, 1, "car", "blue", 0, -20.0)
        world = World(layout=layout, actors=(actor, ego), duration=6.0, contact=None)
        ride = Ride(actor=1, ahead=0.5, height=1.4, drop=0.07, focal=0.66)
        for kind in ("day", "fog"):
            shot = Shot(world=world, camera=ride, look=Look(kind=kind, seed=3))
            seen = render(shot, 1.0, (320, 180))[id_buffer(shot, 1.0, (320, 180)) == 1]
            contrast[kind, ahead] = float(np.ptp(seen.mean(0)))
    assert contrast["fog", 15.0] > 0.8 * contrast["day", 15.0]
    assert contrast["fog", 90.0] < 0.7 * contrast["day", 90.0]


def test_brake_lights_are_seen_at_every_look():
    layout = place("straight")
    for kind in LOOKS:
        reds = []
        for speed in (0.0, 5.0):  # who stands has its foot on the brake
            actor = at(layout, 0, "car", "white", 0, 0.0 - speed, speed)
            x, y, _ = actor.poses(np.ones(1))[0]
            camera = Camera(position=(x - 12, y - 1, 4.0), aim=(x, y, 0.8), focal=0.9)
            world = World(layout=layout, actors=(actor,), duration=6.0, contact=None)
            image = render(
                Shot(world=world, camera=camera, look=Look(kind=kind, seed=3)), 1.0, (320, 180)
            ).astype(int)
            reds.append(int(((image[..., 0] > 190) & (image[..., 1] < 120)).sum()))
        assert reds[0] > reds[1] + 8, kind
