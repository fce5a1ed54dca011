"""Paths and plans in closed form against plain integration; what a collision does to bodies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.world import whatif
from cctv.world.draw import Draw
from cctv.world.geometry import corners, gap
from cctv.world.layout import Layout, Obstacle, Path
from cctv.world.motion import FALL, TYPES, Action, Actor, Shift
from cctv.world.simulation import (
    FRICTION,
    LYING,
    Change,
    boxes_at,
    changed,
    simulate,
)

EAST = Path(start=(-60.0, 0.0, 0.0), pieces=((120.0, 0.0),))
NORTH = Path(start=(0.0, -60.0, np.pi / 2), pieces=((120.0, 0.0),))
PLACE = Layout(type="straight", roads=(), lanes=(), signals=(), obstacles=())
PIECES = st.lists(
    st.tuples(st.floats(1, 30), st.sampled_from((0.0, 0.3, -0.7, 1.5, -1.5))),
    min_size=1,
    max_size=4,
)
PATHS = st.builds(
    lambda x, y, yaw, pieces: Path(start=(x, y, yaw), pieces=tuple(pieces)),
    st.floats(-20, 20),
    st.floats(-20, 20),
    st.floats(-3, 3),
    PIECES,
)


def actor(id_, path, s, speed, *actions, type_="car", shifts=()):
    """One that starts with its centre at s."""
    return Actor(
        id=id_, type=type_, colour="red", path=path, lane=0, start=s, speed=speed,
        actions=actions, shifts=shifts,
    )  # fmt: skip


# --- paths


@settings(max_examples=30, deadline=None)
@given(PATHS)
def test_a_path_is_its_headings_summed_up(path):
    x, y, yaw = path.start
    x, y = x - 5 * np.cos(yaw), y - 5 * np.sin(yaw)  # straight before the start
    walk, step = [], 0.01
    for length, turn in ((5.0, 0.0), *path.pieces, (5.0, 0.0)):
        for _ in range(n := round(length / step)):
            ds, dyaw = length / n, turn / n
            walk.append((x, y, yaw))
            x, y = x + ds * np.cos(yaw + dyaw / 2), y + ds * np.sin(yaw + dyaw / 2)
            yaw += dyaw
    lengths = [5.0, *(a for a, _ in path.pieces), 5.0]
    starts = np.cumsum([-5.0, *lengths[:-1]])
    parts = [np.arange(n := round(a / step)) * a / n for a in lengths]
    s = np.concatenate([start + part for start, part in zip(starts, parts)])
    assert np.abs(path.at(s) - walk).max() < 2e-3
    assert path.length == pytest.approx(sum(a for a, _ in path.pieces))


@settings(max_examples=30, deadline=None)
@given(PATHS, st.floats(-4, 60), st.floats(-0.6, 0.6))
def test_beside_reversed_and_projected(path, s, offset):
    x, y, yaw = path.at(np.array(s))
    point = x - offset * np.sin(yaw), y + offset * np.cos(yaw)
    beside = path.beside(offset)
    at, across = beside.project(*point)
    assert abs(across) < 1e-3  # starts are rounded to 0.0001 m
    assert np.hypot(*(beside.at(np.array(at))[:2] - point)) < 1e-3
    back = path.reversed().at(np.array(path.length - s))
    assert np.hypot(*(back[:2] - (x, y))) < 1e-3
    assert np.cos(back[2] - yaw) == pytest.approx(-1)
    at, across = path.project(*point)
    near = path.at(np.array(at))
    # No point of the path is nearer than the one that was found.
    ways = path.at(np.linspace(-10, 80, 2001))[:, :2]
    assert np.hypot(*(near[:2] - point)) < np.hypot(*(ways - point).T).min() + 1e-6
    assert abs(across) == pytest.approx(np.hypot(*(near[:2] - point)), abs=1e-9)


# --- plans

ACTIONS = st.lists(
    st.tuples(st.floats(0, 5), st.floats(0, 14), st.floats(0.5, 9)), min_size=0, max_size=3
).map(sorted)


@settings(max_examples=30, deadline=None)
@given(ACTIONS, st.floats(0, 12))
def test_plans_equal_a_plain_integration(actions, speed):
    plan = actor(0, EAST, 20.0, speed, *(Action(time=t, speed=v, rate=r) for t, v, r in actions))
    dt, s, v, now = 0.002, 20.0, speed, 0.0
    while now < 6:
        active = [a for a in actions if a[0] <= now]
        change = 0
        if active:
            _, target, rate = active[-1]
            change = max(-rate * dt, min(rate * dt, target - v))
        s, v, now = s + (v + change / 2) * dt, v + change, now + dt
    got_s, got_v, _ = plan.along(np.array([now]))
    assert got_s[0] == pytest.approx(s, abs=0.1)
    assert got_v[0] == pytest.approx(v, abs=0.05)


SHIFTS = st.lists(
    st.tuples(st.floats(0, 4), st.floats(8, 20), st.floats(-3.5, 3.5)), min_size=1, max_size=3
).map(sorted)


@settings(max_examples=30, deadline=None)
@given(PATHS, ACTIONS, SHIFTS)
def test_a_vehicle_heads_where_it_moves(path, actions, shifts):
    plan = actor(
        0, path, 0.0, 8.0,
        *(Action(time=t, speed=v, rate=r) for t, v, r in actions),
        shifts=tuple(Shift(time=t, length=n, offset=d / 3) for t, n, d in shifts),
    )  # fmt: skip
    times = np.arange(0.05, 6, 0.25)
    h = 1e-5
    before, after = plan.poses(times - h), plan.poses(times + h)
    moved = (after - before)[:, :2] / (2 * h)
    speed = np.hypot(*moved.T)
    # Not where a piece of the plan or of the path ends between the two.
    smooth = np.abs((after - before)[:, 2]) < 1e-3
    for k in np.flatnonzero(smooth & (speed > 0.5)):
        assert plan.velocity(times[k]) == pytest.approx(moved[k], abs=0.02)
        yaw = plan.poses(times[k : k + 1])[0, 2]
        heading = np.array([np.cos(yaw), np.sin(yaw)])
        assert moved[k] / speed[k] == pytest.approx(heading, abs=0.01)


def test_a_shift_that_is_interrupted_bends_smoothly():
    plan = actor(0, EAST, 0.0, 10.0, shifts=(
        Shift(time=1.0, length=20.0, offset=3.5), Shift(time=1.8, length=15.0, offset=0.0)
    ))  # fmt: skip
    s = np.linspace(0, 60, 60001)
    offset, slope, bend = plan.offset(s)
    assert np.abs(np.diff(offset)).max() < 1e-3
    assert np.abs(np.diff(slope)).max() < 2e-4
    assert np.abs(np.diff(bend)).max() < 1e-3
    assert np.abs(np.gradient(offset, s) - slope).max() < 1e-3
    assert 0.5 < offset.max() < 3.0
    assert offset[[0, -1]] == pytest.approx([0, 0], abs=1e-9)


def test_one_who_brakes_on_a_shift_does_not_slide_sideways():
    shift = Shift(time=1.0, length=20.0, offset=3.5)
    free = actor(0, EAST, 0.0, 10.0, shifts=(shift,))
    stopped = actor(0, EAST, 0.0, 10.0, Action(time=1.5, speed=0.0, rate=8.0), shifts=(shift,))
    way = stopped.along(np.array([6.0]))[0]
    standing = stopped.poses(np.array([3.5, 6.0]))
    assert standing[0] == pytest.approx(standing[1])
    assert free.offset(way)[0] == stopped.offset(way)[0]  # the same track, as far as it goes
    assert 0 < standing[1, 1] < 3.5


def test_a_change_replaces_what_comes_after_it():
    plan = actor(
        0, EAST, 0.0, 10.0, Action(time=1, speed=5, rate=5), Action(time=4, speed=9, rate=5),
        shifts=(Shift(time=0.5, length=10, offset=1), Shift(time=3, length=10, offset=0)),
    )  # fmt: skip
    stop = Action(time=2.0, speed=0.0, rate=5.0)
    both = Change(actor=0, time=2.0, actions=(stop,), shifts=()).of(plan)
    assert [a.time for a in both.actions] == [1, 2]
    assert [s.time for s in both.shifts] == [0.5]
    assert Change(actor=0, time=2.0).of(plan) == plan
    early = np.arange(21) / 10
    assert np.array_equal(plan.poses(early), both.poses(early))
    assert both.along(np.array([6.0]))[1][0] == 0


# --- collisions


def crossing(off=0.0, speed=8.0, striker="car", struck="car"):
    """A northbound vehicle's front reaches the side of an eastbound one at 3 s."""
    b = actor(1, EAST, 60 + off - 3 * speed, speed, type_=struck)
    front = 60 - TYPES[struck].width / 2 - TYPES[striker].length / 2
    return simulate(PLACE, (actor(0, NORTH, front - 3 * 9.0, 9.0, type_=striker), b), 6.0)


def test_the_first_contact_is_exact():
    world = crossing()
    assert world.contact.pair == (0, 1)
    assert world.contact.time == pytest.approx(3.0, abs=2e-6)
    assert world.contact.point == pytest.approx((0, -1.85 / 2), abs=0.01)
    assert world.contact.normal == pytest.approx((0, 1), abs=1e-9)
    early = [corners(a.poses(np.array([2.99]))[0], 4.5, 1.85) for a in world.actors]
    assert gap(*early) == pytest.approx(0.09, abs=1e-3)


@pytest.mark.parametrize("struck", ["car", "bus", "bicycle", "pedestrian"])
@pytest.mark.parametrize("off", [-0.2, 0.0, 0.2])
def test_a_collision_keeps_momentum_and_comes_to_rest(struck, off):
    world = crossing(off, striker="truck", struck=struck)
    a, b = world.actors
    before = sum(x.size.mass * x.velocity(2.9) for x in world.actors)
    after = sum(x.size.mass * np.array(x.crash.velocity) for x in world.actors)
    assert after == pytest.approx(before)
    energy = [sum(x.size.mass * (np.array(v) ** 2).sum() for x, v in zip((a, b), speeds))
              for speeds in ((a.velocity(2.9), b.velocity(2.9)),
                             (a.crash.velocity, b.crash.velocity))]  # fmt: skip
    assert energy[1] < energy[0]
    assert b.crash.velocity[1] > a.crash.velocity[1] > 0  # pushed away, not driven through
    for x in world.actors:
        at = x.poses(np.array([world.contact.time, world.contact.time + 1e-4]))
        assert at[0] == pytest.approx(at[1], abs=2e-3)  # no jump
        speed = np.hypot(*x.crash.velocity)
        way = np.hypot(*(x.poses(np.array([30.0]))[0] - x.crash.pose)[:2])
        assert way == pytest.approx(speed**2 / (2 * x.crash.friction))
        lies = x.size.lying is not None
        share = LYING if lies else 1.0
        assert share * FRICTION[0] <= x.crash.friction <= share * FRICTION[1]
        assert x.fallen(2.9) == x.fallen(3.0) == 0
        assert x.fallen(3.0 + FALL) == lies
        box = boxes_at(x, np.array([5.0]))[0]
        long = np.hypot(*(box[1] - box[2]))
        assert long == pytest.approx(x.size.lying[0] if lies else x.size.length)


def test_an_off_centre_blow_turns_the_struck_vehicle():
    turns = [crossing(off, speed=0.0).actors[1].crash.spin for off in (-1.0, 0.0, 1.0)]
    # Hit ahead of its centre (it is behind the crossing point) it turns left, and the reverse.
    assert turns[0] > 0.2
    assert turns[2] < -0.2
    assert abs(turns[1]) < 1e-6


def test_an_obstacle_stops_a_vehicle_and_does_not_move():
    tree = Obstacle(
        id=100, kind="tree", x=0.0, y=0.3, yaw=0.0, length=0.5, width=0.5, height=6.0,
        colour=(90, 70, 50),
    )  # fmt: skip
    layout = Layout(type="straight", roads=(), lanes=(), signals=(), obstacles=(tree,))
    world = simulate(layout, (actor(0, EAST, 60 - 2.5 - 2 * 10.0, 10.0),), 6.0)
    assert world.contact.pair == (0, 100)
    assert world.contact.time == pytest.approx(2.0, abs=2e-6)
    assert world.actors[0].crash.velocity[0] == pytest.approx(-1.5)  # it bounces a little
    assert world.min_gap(0, 100) == 0
    passing = simulate(layout, (actor(0, EAST.beside(2.0), 30.0, 10.0),), 6.0)
    assert passing.contact is None
    assert passing.min_gap(0, 100) == pytest.approx(2.0 - 0.925 - 0.55)


def test_vehicles_apart_never_touch():
    world = simulate(PLACE, (actor(0, EAST, 30.0, 8.0), actor(1, NORTH, 0.0, 8.0)), 6.0)
    assert world.contact is None
    times = np.arange(0, 6.001, 0.02)
    boxes = [corners(a.poses(times), 4.5, 1.85) for a in world.actors]
    assert world.min_gap(0, 1) == gap(*boxes).min() > 5
    assert all(a.crash is None for a in world.actors)


def test_what_if_answers_come_from_running_the_world_again():
    away = Path(start=(0.0, 30.0, 0.0), pieces=((100.0, 0.0),))
    world = simulate(PLACE, (*crossing().actors, actor(2, away, 0.0, 6.0)), 6.0)
    answers = whatif.stopping(world, 1.5, (0, 1, 2))
    assert answers.helps == (0, 1)
    assert answers.useless == (2,)
    assert whatif.stopping(world, 0.05, (0, 1, 2)).helps == ()  # too late
    late = whatif.stopped(world, 0, 0.05)
    assert late.contact.pair == (0, 1)
    again = changed(world, Change(actor=0, time=0.0))
    assert again.contact == world.contact
    assert [a.crash for a in again.actors] == [a.crash for a in world.actors]


def test_had_it_kept_its_lane():
    shift = Shift(time=1.0, length=20.0, offset=3.5)
    mover = actor(0, EAST, 20.0, 10.0, shifts=(shift,))
    beside = actor(1, EAST.beside(3.5), 21.0, 10.0)
    world = simulate(PLACE, (mover, beside), 6.0)
    assert world.contact.pair == (0, 1)
    assert whatif.keeping(world, (0, 1)) == ((0,), (1,))


def test_draws_are_uniform_and_stated_exactly():
    draw = Draw(np.random.SeedSequence([1, 2]))
    values = [draw.uniform(2, 3) for _ in range(2000)]
    assert all(round(v, 4) == v and 2 <= v <= 3 for v in values)
    assert np.mean(values) == pytest.approx(2.5, abs=0.03)
    picks = [draw.choice("abcd") for _ in range(2000)]
    assert {picks.count(c) > 420 for c in "abcd"} == {True}
    assert sorted(draw.shuffled(range(9))) == list(range(9))
