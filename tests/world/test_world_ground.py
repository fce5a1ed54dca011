"""The painted ground and the cameras over it, at every kind of place."""

from dataclasses import replace

import numpy as np
import pytest
from places import at, place

from cctv.world import ground
from cctv.world.camera import CLEARANCE, Camera, Ride, draw_pole, draw_ride
from cctv.world.draw import Draw
from cctv.world.layout import TYPES
from cctv.world.look import TRAITS
from cctv.world.render import Shot, id_buffer, render
from cctv.world.simulation import World

SIZE = (320, 180)


def world_of(layout, *actors):
    """A world in which nothing happens."""
    return World(layout=layout, actors=actors, duration=6.0, contact=None)


def nearest(layout, x, y):
    """The least distance to a middle line less the half width of its road (m)."""
    gaps = [np.inf]
    for road in layout.roads:
        s, beside = road.path.project(x, y)
        if road.span[0] - 0.5 <= s <= road.span[1] + 0.5:
            gaps.append(abs(beside) - road.half_width)
    return min(gaps)


@pytest.mark.parametrize("type_", TYPES)
def test_roads_are_painted_where_the_layout_has_them(type_):
    """From high above: asphalt or marks on the roads, pavement beside them, then grass."""
    layout = place(type_, 3)
    bare = world_of(replace(layout, obstacles=(), signals=()))
    camera = Camera(position=(0.0, -6.0, 70.0), aim=(0.0, 0.0, 0.0), focal=0.9)
    image = render(Shot(world=bare, camera=camera), 0.0, SIZE).astype(int)
    traits = TRAITS["day"]
    palette = {n: np.array(getattr(traits, n)) * traits.light * 0.94 for n in ground.SURFACES}
    rng, counts = np.random.default_rng(5), dict.fromkeys(("road", "pavement", "grass"), 0)
    plain = 0
    for _ in range(400):
        x, y = rng.uniform(-30, 30), rng.uniform(-16, 16)
        where = nearest(layout, x, y)
        if min(abs(where), abs(where - ground.PAVEMENT)) < 0.5:
            continue
        u, v = camera.to_pixels(camera.relative(np.array([x, y, 0.0])), SIZE)
        colour = image[round(float(v)), round(float(u))]
        name = "road" if where < 0 else "pavement" if where < ground.PAVEMENT else "grass"
        counts[name] += 1
        best = min(palette, key=lambda n: np.abs(palette[n] - colour).sum())
        if name == "road":  # half a mark and half asphalt may look like pavement
            assert np.abs(palette["grass"] - colour).sum() > 25
        else:
            assert best == name
        plain += name == "road" and best == "asphalt"
    assert min(counts.values()) > 20
    assert plain > 0.6 * counts["road"]


def test_marks_lie_on_their_roads():
    for type_ in TYPES:
        layout = place(type_, 1)
        points, names = ground.polygons(layout)
        marks = points[np.isin(names, [ground.SURFACES.index(n) for n in ("mark", "centre")])]
        assert len(marks) > 40
        assert max(nearest(layout, *p[:2]) for p in marks.reshape(-1, 3)[::7]) < 0.1
        assert (points[..., 2] == 0).all()


@pytest.mark.parametrize("type_", TYPES)
def test_pole_cameras_look_at_the_focus_from_a_clear_place(type_):
    layout = place(type_, 2)
    for seed in range(12):
        draw = Draw(np.random.SeedSequence([seed, 3]))
        there = draw.uniform(-6, 6)
        car = at(layout, 0, "car", "red", 0, there)
        focus = tuple(float(v) for v in car.poses(np.zeros(1))[0][:2])
        camera = draw_pole(draw, layout, focus, distance=(22, 32), left=bool(seed % 2))
        x, y, z = camera.position
        assert 22 <= np.hypot(x - focus[0], y - focus[1]) <= 32.001
        assert 7 < z < 17
        u, v = camera.to_pixels(camera.relative(np.array([*focus, 0.8])), SIZE) / SIZE
        assert (u < 0.45) if seed % 2 else (u > 0.55)
        assert 0.15 < u < 0.85
        assert 0.2 < v < 0.8
        for o in layout.obstacles:
            assert np.hypot(o.x - x, o.y - y) > CLEARANCE
        # A car at the focus is not behind a building or a tree.
        world = world_of(layout, car)
        both, alone = (
            (id_buffer(Shot(world=world, camera=camera), 0.0, SIZE, only=o) == 1).sum()
            for o in (None, 0)
        )
        assert both > 0.4 * alone > 50


def test_a_ride_goes_where_its_car_goes():
    layout = place("curve", 1)
    ego = at(layout, 4, "car", "blue", 0, -20.0, speed=8.0)
    world = world_of(layout, ego)
    ride = draw_ride(Draw(np.random.SeedSequence(1)), 4)
    assert isinstance(ride, Ride)
    for time in (0.0, 2.0, 5.0):
        x, y, yaw = ego.poses(np.array([time]))[0]
        camera = ride.at(world, time)
        ahead = np.subtract(camera.position[:2], (x, y))
        assert ahead == pytest.approx([0.5 * np.cos(yaw), 0.5 * np.sin(yaw)])
        assert camera.axes[2][:2] / np.hypot(*camera.axes[2][:2]) == pytest.approx(
            [np.cos(yaw), np.sin(yaw)]
        )
        assert camera.axes[1][2] < -0.9  # down is down
        frame = render(Shot(world=world, camera=ride), time, SIZE)
        assert (frame[-4:, 140:180, 2] > frame[-4:, 140:180, 0] + 40).all()  # its bonnet is blue
    assert not np.array_equal(render(Shot(world=world, camera=ride), 0.0, SIZE), frame)
