"""The box test against brute force: a dense sampling of one box, tested point by point."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.world import geometry

COORDINATE = st.floats(-6, 6)
BOX = st.tuples(
    COORDINATE, COORDINATE, st.floats(-math.pi, math.pi), st.floats(0.5, 9), st.floats(0.5, 3)
)


def corners(box):
    x, y, yaw, length, width = box
    return geometry.corners(np.array([x, y, yaw]), length, width)


def local(box, x, y):
    """Coordinates in the frame of a box, by the textbook formula."""
    bx, by, yaw, _, _ = box
    dx, dy = x - bx, y - by
    return dx * math.cos(yaw) + dy * math.sin(yaw), dy * math.cos(yaw) - dx * math.sin(yaw)


def distance_by_sampling(a, b, steps=60):
    """The smallest distance of a grid of points over box a to box b (0 inside), by plain loops."""
    x, y, yaw, length, width = a
    best = math.inf
    for i in range(steps + 1):
        for j in range(steps + 1):
            u, v = (i / steps - 0.5) * length, (j / steps - 0.5) * width
            px = x + u * math.cos(yaw) - v * math.sin(yaw)
            py = y + u * math.sin(yaw) + v * math.cos(yaw)
            lx, ly = local(b, px, py)
            out = math.hypot(max(abs(lx) - b[3] / 2, 0), max(abs(ly) - b[4] / 2, 0))
            best = min(best, out)
    return best


@settings(max_examples=60, deadline=None)
@given(BOX, BOX)
def test_overlap_and_gap_agree_with_dense_sampling(a, b):
    sampled = distance_by_sampling(a, b)
    mesh = math.hypot(a[3], a[4]) / 60  # no point of a is farther from the grid
    gap = float(geometry.gap(corners(a), corners(b)))
    assert gap <= sampled + 1e-9
    assert sampled <= gap + mesh
    overlap = bool(geometry.overlap(corners(a), corners(b)))
    assert overlap == (gap == 0)
    if sampled == 0:
        assert overlap
    if sampled > mesh:
        assert not overlap


@settings(max_examples=60, deadline=None)
@given(BOX, BOX, st.floats(-math.pi, math.pi), COORDINATE, COORDINATE)
def test_symmetric_and_independent_of_the_frame(a, b, turn, dx, dy):
    def moved(box):
        x, y, yaw, *size = box
        c, s = math.cos(turn), math.sin(turn)
        return (x * c - y * s + dx, x * s + y * c + dy, yaw + turn, *size)

    gap = float(geometry.gap(corners(a), corners(b)))
    assert float(geometry.gap(corners(b), corners(a))) == pytest.approx(gap, abs=1e-9)
    again = float(geometry.gap(corners(moved(a)), corners(moved(b))))
    assert again == pytest.approx(gap, abs=1e-6)


def test_touching_is_contact_and_a_hair_more_is_not():
    a = corners((0, 0, 0, 4, 2))
    assert geometry.overlap(a, corners((4, 0, 0, 4, 2)))
    assert not geometry.overlap(a, corners((4.000001, 0, 0, 4, 2)))
    # Bounding boxes that overlap are not enough: a turned box passes the corner.
    assert not geometry.overlap(a, corners((2.8, 1.8, -math.pi / 4, 4, 1)))


def test_many_instants_at_once_equal_one_at_a_time():
    poses = np.random.default_rng(0).uniform(-4, 4, (50, 3))
    a, b = geometry.corners(poses, 4, 2), corners((0, 0, 0.3, 5, 2))
    assert 5 < geometry.overlap(a, b).sum() < 45
    for k, pose in enumerate(poses):
        one = geometry.corners(pose, 4, 2)
        assert geometry.overlap(a, b)[k] == geometry.overlap(one, b)
        assert geometry.gap(a, b)[k] == geometry.gap(one, b)


def test_contact_point_is_the_middle_of_what_touches():
    side = corners((0, 0, 0, 6, 2))
    nose = corners((1, -3, math.pi / 2, 4, 1.5))  # its front edge lies on the side y = -1
    assert geometry.contact_point(nose, side) == pytest.approx([1, -1])
    behind = corners((-5, 0, 0, 4, 2))
    assert geometry.contact_point(behind, side) == pytest.approx([-3, 0])


def test_the_smallest_gap_over_many_instants_is_found_from_few():
    poses = np.random.default_rng(1).uniform(-9, 9, (60, 2, 3))
    for first, second in poses.reshape(6, 10, 2, 3).transpose(0, 2, 1, 3):
        a, b = geometry.corners(first, 4, 2), geometry.corners(second, 5, 1)
        assert geometry.smallest_gap(a, b) == geometry.gap(a, b).min()
        assert geometry.smallest_gap(a, b[:1]) == geometry.gap(a, b[:1]).min()
        # Whatever is within a distance is among those that may be.
        close = np.flatnonzero(geometry.gap(a, b) <= 1.5)
        assert set(close) <= set(geometry.near(a, b, 1.5))
    assert len(geometry.near(a, a + 50, 1.5)) == 0


@settings(max_examples=60, deadline=None)
@given(BOX, st.floats(-math.pi, math.pi), st.floats(0.3, 6), st.floats(0.3, 3))
def test_the_normal_parts_two_touching_boxes(a, bearing, length, width):
    """Box b is pushed towards a until they touch: along the normal they come apart at once."""
    far = 20.0
    for _ in range(40):
        x, y = a[0] + far * math.cos(bearing), a[1] + far * math.sin(bearing)
        b = (x, y, bearing / 3, length, width)
        gap = float(geometry.gap(corners(a), corners(b)))
        if gap < 1e-9:
            break
        far -= gap
    assert gap < 1e-4
    normal = geometry.contact_normal(corners(a), corners(b))
    assert np.hypot(*normal) == pytest.approx(1)
    moved = (b[0] + 0.01 * normal[0], b[1] + 0.01 * normal[1], *b[2:])
    assert float(geometry.gap(corners(a), corners(moved))) >= 0.0099
