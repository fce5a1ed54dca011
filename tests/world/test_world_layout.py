"""Places: lanes lie on their roads, on the right, and lead where they should."""

import numpy as np
import pytest

from cctv.world.draw import Draw
from cctv.world.layout import FIRST_OBSTACLE, LANE_WIDTH, TYPES
from cctv.world.layouts import draw_layout


@pytest.fixture(scope="module", params=[(t, s) for t in TYPES for s in range(3)], ids=str)
def layout(request):
    type_, seed = request.param
    return draw_layout(Draw(np.random.SeedSequence([seed, 3])), type_)


def place(layout, road, x, y):
    """s and left offset of a point in the frame of a road."""
    return layout.roads[road].path.project(float(x), float(y))


def test_lanes_come_in_on_the_right_of_their_road(layout):
    for k, lane in enumerate(layout.lanes):
        assert lane.id == k
        # A right turn begins a little before the junction.
        end = min(lane.path.pieces[0][0], 90 if lane.junction is None else lane.junction[0])
        for s in np.linspace(20, end, 9):
            x, y, yaw = lane.path.at(np.array(s))
            along, left = place(layout, lane.road, x, y)
            assert left * lane.direction == pytest.approx(-(lane.rank + 0.5) * LANE_WIDTH, abs=0.01)
            road_yaw = layout.roads[lane.road].path.at(np.array(along))[2]
            assert np.cos(yaw - road_yaw) == pytest.approx(lane.direction, abs=1e-3)


def test_lanes_leave_on_the_right_of_a_road(layout):
    for lane in layout.lanes:
        if lane.junction is None:
            continue
        turned = {"straight": 0, "left": np.pi / 2, "right": -np.pi / 2}[lane.turn]
        a, b = lane.path.at(np.array([0.0, lane.path.length]))
        assert b[2] - a[2] == pytest.approx(turned)
        x, y, yaw = lane.path.at(np.array(lane.path.length - 40))
        road = lane.road if lane.turn == "straight" else 1 - lane.road
        along, left = place(layout, road, x, y)
        way = np.cos(yaw - layout.roads[road].path.at(np.array(along))[2])
        assert abs(way) == pytest.approx(1)
        assert -left * way / LANE_WIDTH - 0.5 == pytest.approx(
            round(-left * way / LANE_WIDTH - 0.5)
        )
        assert 0 < -left * way < layout.roads[road].half_width
        if lane.turn == "right":  # its arc ends beyond the box
            continue
        inside = lane.path.at(np.linspace(lane.junction[0] + 0.1, lane.junction[1] - 0.1, 40))
        halves = [r.half_width for r in layout.roads]
        assert (np.abs(inside[:, 0]) <= halves[1] + 0.8).all()
        assert (np.abs(inside[:, 1]) <= halves[0] + 0.8).all()


def test_neighbours_know_each_other(layout):
    for lane in layout.lanes:
        if lane.right is not None:
            other = layout.lanes[lane.right]
            assert (other.left, other.rank) == (lane.id, lane.rank + 1)
            assert (other.road, other.direction) == (lane.road, lane.direction)
        if lane.oncoming is not None:
            other = layout.lanes[lane.oncoming]
            assert (other.oncoming, other.rank, lane.rank) == (lane.id, 0, 0)
            assert (other.road, other.direction) == (lane.road, -lane.direction)


def test_who_has_to_stop(layout):
    waits = [lane for lane in layout.lanes if layout.has_to_stop(lane)]
    if layout.type in ("straight", "curve"):
        assert not waits
    else:
        assert {lane.road for lane in waits} == {1 - layout.priority}
        assert {lane.road for lane in layout.through} == {layout.priority}
    for lane in waits:
        assert lane.stop < lane.junction[0]
        x, y, _ = lane.path.at(np.array(lane.stop))
        along, _ = place(layout, lane.road, x, y)
        stops = layout.roads[lane.road].stops
        assert min(abs(along - s) for s, d in stops if d == lane.direction) < 0.01
    lights = {(s.road, s.state) for s in layout.signals}
    assert lights == (
        {(layout.priority, "green"), (1 - layout.priority, "red")} if layout.signals else set()
    )


def test_nothing_stands_on_a_road(layout):
    ids = [o.id for o in layout.obstacles]
    assert ids == list(range(FIRST_OBSTACLE, FIRST_OBSTACLE + len(ids)))
    assert max(ids) < 255  # one byte each in an id buffer
    assert {o.kind for o in layout.obstacles} == {"building", "tree", "pole"}
    for o in layout.obstacles:
        for point in o.box:
            for k, road in enumerate(layout.roads):
                s, left = place(layout, k, *point)
                assert abs(left) > road.half_width + 0.5 or not road.span[0] <= s <= road.span[1]
    a = layout.obstacles[0].box
    found = layout.obstacles_within(a.min(0), a.max(0))
    assert layout.obstacles[0] in found
    assert len(found) < len(ids)
