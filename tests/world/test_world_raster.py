"""Faces in the picture: cut at the camera, in the right order, where a ray would meet them."""

import cv2
import numpy as np
import pytest
import raycast
from hypothesis import given, settings
from hypothesis import strategies as st
from places import at, busy, place

from cctv.world import models
from cctv.world.camera import Camera, Ride
from cctv.world.look import Look
from cctv.world.motion import TYPES
from cctv.world.order import far_to_near
from cctv.world.raster import NEAR, Brush
from cctv.world.render import Shot, id_buffer
from cctv.world.simulation import World

DAY = Look(kind="day", seed=0)
SIZE = (48, 28)


def filled(points, camera, size):
    """bool[H, W]: the pixels of a polygon float[4, 3] as the brush paints it."""
    image = np.zeros((size[1], size[0]), np.uint8)
    brush = Brush(image=image, camera=camera, size=size, look=DAY, flat=1)
    polygons, _, _ = brush.project(points[None])
    brush.fill(polygons, [])
    return image > 0


def met(points, camera, size, fine):
    """bool[fine H, fine W]: where rays meet a convex polygon on the ground, `fine` a pixel."""
    scale = camera.focal * min(size[0], size[1] * 16 / 9)
    right, down, forward = camera.axes
    u, v = ((np.arange(n * fine) + 0.5) / fine - 0.5 - n / 2 for n in size)
    ray = forward + (right * u[None, :, None] + down * v[:, None, None]) / scale
    depth = -camera.position[2] / ray[..., 2:]
    ground = (camera.position + ray * depth)[..., :2]
    flat = points[:, :2]
    cross = [
        (b[0] - a[0]) * (ground[..., 1] - a[1]) - (b[1] - a[1]) * (ground[..., 0] - a[0])
        for a, b in zip(flat, np.roll(flat, -1, axis=0))
    ]
    inside = np.all(np.array(cross) >= 0, axis=0)  # they are anticlockwise
    return inside & (depth[..., 0] > NEAR)


@settings(max_examples=25, deadline=None)
@given(
    x=st.floats(-30, 30),
    y=st.floats(-30, 30),
    long=st.floats(2, 150),
    wide=st.floats(2, 60),
    turn=st.floats(0, 3.1),
    drop=st.floats(0.02, 1.5),
)
def test_ground_near_and_under_the_camera_is_where_rays_meet_it(x, y, long, wide, turn, drop):
    camera = Camera(position=(0.0, 0.0, 1.4), aim=(1.0, 0.0, 1.4 - drop), focal=0.7)
    cos, sin = np.cos(turn), np.sin(turn)
    local = np.array([(-long, -wide), (long, -wide), (long, wide), (-long, wide)]) / 2
    u, v = x + local[:, 0] * cos - local[:, 1] * sin, y + local[:, 0] * sin + local[:, 1] * cos
    points = np.stack([u, v, np.zeros(4)], -1)
    got, fine = filled(points, camera, SIZE), met(points, camera, SIZE, 8)
    cells = fine.reshape(SIZE[1], 8, SIZE[0], 8)
    # The rasteriser also fills the pixels that an edge only touches.
    some, every = cells.any((1, 3)).astype(np.uint8), cells.all((1, 3))
    grown = cv2.dilate(some, np.ones((3, 3), np.uint8)) > 0
    assert not (every & ~got).any()
    # Slivers thinner than an eighth of a pixel, at the horizon, can be missed by the rays.
    assert (got & ~grown).sum() <= 4


def test_what_is_behind_the_camera_is_not_painted():
    camera = Camera(position=(0.0, 0.0, 1.4), aim=(1.0, 0.0, 1.3), focal=0.7)
    square = np.array([(-9.0, -2, 0), (-3, -2, 0), (-3, 2, 0), (-9, 2, 0)])
    assert not filled(square, camera, SIZE).any()
    assert filled(np.add(square, (12, 0, 0)), camera, SIZE).any()


@pytest.mark.parametrize("type_", ["signals", "curve"])
def test_ids_are_what_rays_meet(type_):
    """Up to crowns of trees: they reach over the trunks whose places give the order."""
    for seed in range(2):
        world = busy(type_, seed)
        cameras = (
            Camera(position=(-19.0, -12.0, 9.0), aim=(0.0, 0.0, 0.5), focal=0.9),
            Ride(actor=0, ahead=0.5, height=1.4, drop=0.07, focal=0.66),
        )
        for camera in cameras:
            shot = Shot(world=world, camera=camera)
            got = id_buffer(shot, 0.0, (192, 108))
            expected = raycast.ids(world, shot.camera_at(0.0), (192, 108), 6, skip=shot.ego)
            # Only pixels around which there is one thing: no edge is near.
            around = np.ones((5, 5), np.uint8)
            inside = (cv2.dilate(got, around) == cv2.erode(got, around))[::6, ::6]
            inside[16:] &= shot.ego is None  # there is the bonnet
            assert len(np.unique(expected[inside])) > 3
            assert (got[::6, ::6][inside] == expected[inside]).mean() > 0.99


@pytest.mark.parametrize("type_", ["signals", "straight"])
def test_ids_asked_for_alone_are_those_of_the_whole(type_):
    world = busy(type_, 5)
    camera = Camera(position=(-19.0, -12.0, 9.0), aim=(0.0, 0.0, 0.5), focal=0.9)
    shot = Shot(world=world, camera=camera)
    whole, found = id_buffer(shot, 0.0, (320, 180)), 0
    for id_ in (*(a.id for a in world.actors), *(o.id for o in world.layout.obstacles)):
        part = id_buffer(shot, 0.0, (320, 180), among=(id_,))
        assert np.array_equal(part == 1 + id_, whole == 1 + id_)
        found += (part == 1 + id_).any()
    assert found > 10


@pytest.mark.parametrize("type_", TYPES)
def test_marks_do_not_change_the_outline(type_):
    camera = Camera(position=(-7.0, -5.0, 3.0), aim=(0.0, 0.0, 0.8), focal=0.9)
    solid, seen = models.actor(type_, "red"), []
    for shape in (solid, solid.plain):
        image = np.zeros((180, 320), np.uint8)
        brush = Brush(image=image, camera=camera, size=(320, 180), look=DAY, flat=1)
        brush.solids([shape], [np.zeros(3)])
        seen.append(image > 0)
    assert len(solid.plain.faces) < len(solid.faces)
    assert (seen[0] & ~seen[1]).mean() < 0.002  # they stand off their faces a little
    assert not (seen[1] & ~seen[0]).any()


def test_a_car_right_before_the_camera_fills_the_picture():
    layout = place("straight")
    for ahead, share in ((5.0, 0.2), (9.0, 0.04)):
        ego = at(layout, 0, "car", "red", 0, 0.0)
        world = World(
            layout=layout,
            actors=(ego, at(layout, 1, "car", "blue", 0, ahead)),
            duration=6.0,
            contact=None,
        )
        ride = Ride(actor=0, ahead=0.5, height=1.4, drop=0.07, focal=0.66)
        ids = id_buffer(Shot(world=world, camera=ride), 0.0, (320, 180))
        assert (ids == 2).mean() > share
        assert not (ids == 1).any()  # the camera's own car has no pixels


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_box_is_painted_before_one_that_it_covers(seed):
    """Boxes that are apart: of those that a ray from the eye meets, the first comes last."""
    rng = np.random.default_rng(seed)
    middles = np.array([(x, y) for x in range(3) for y in range(3)]) * 8.0 + rng.uniform(
        -1, 1, (9, 2)
    )
    yaw, half = rng.uniform(0, 3.2, 9), rng.uniform(0.5, 2.4, (9, 2))
    unit = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)])
    local = unit * half[:, None]  # [9, 4, 2]
    cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    feet = middles[:, None] + np.stack(
        [local[..., 0] * cos - local[..., 1] * sin, local[..., 0] * sin + local[..., 1] * cos], -1
    )
    eye = rng.uniform(-30, -8, 2)
    order = far_to_near(feet, eye, np.ones((9, 9), bool))
    rank = {k: i for i, k in enumerate(order)}
    assert sorted(order) == list(range(9))
    for angle in np.linspace(0, 1.6, 40):
        ray, met = np.array([np.cos(angle), np.sin(angle)]), []
        for k in range(9):
            for a, b in zip(feet[k], np.roll(feet[k], -1, axis=0)):
                m = np.array([ray, a - b]).T
                if abs(np.linalg.det(m)) > 1e-9:
                    t, s = np.linalg.solve(m, a - eye)
                    if t > 0 and 0 <= s <= 1:
                        met.append((t, k))
        seen = list(dict.fromkeys(k for _, k in sorted(met)))  # near to far
        assert [rank[k] for k in seen] == sorted((rank[k] for k in seen), reverse=True)
