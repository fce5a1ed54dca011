"""Plans in closed form against a plain integration, and what a collision does to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.world import geometry
from cctv.world.draw import Draw
from cctv.world.layout import LANES, Layout
from cctv.world.motion import Action, Actor
from cctv.world.simulation import FRICTION, changed, simulate
from cctv.world.whatif import braking_earlier

LAYOUT = Layout(green_road=0, buildings=())
EAST, NORTH = (next(x for x in LANES if (x.arm, x.rank) == (arm, 0)) for arm in (0, 1))


def car(id_, lane, start, speed, *actions, type_="car"):
    return Actor(
        id=id_, type=type_, colour="red", lane=lane, start=start, speed=speed, actions=actions
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 14), st.floats(0.5, 9)), min_size=0, max_size=3
    ),
    st.floats(0, 12),
)
def test_plans_equal_a_plain_integration(actions, speed):
    actions = sorted(actions)
    actor = car(0, EAST, -40.0, speed, *(Action(time=t, speed=v, rate=r) for t, v, r in actions))
    dt, s, v, now = 0.001, -40.0, speed, 0.0
    while now < 6:
        active = [a for a in actions if a[0] <= now]
        if active:
            _, target, rate = active[-1]
            change = max(-rate * dt, min(rate * dt, target - v))
        else:
            change = 0
        s, v, now = s + (v + change / 2) * dt, v + change, now + dt
    got_s, got_v, _ = actor.along(np.array([now]))
    assert got_s[0] == pytest.approx(s, abs=0.05)
    assert got_v[0] == pytest.approx(v, abs=0.05)


def test_a_new_action_replaces_what_came_after_it():
    actor = car(
        0, EAST, 0.0, 10.0, Action(time=1, speed=0, rate=5), Action(time=4, speed=9, rate=5)
    )
    stopped = actor.then(Action(time=2, speed=0.0, rate=5.0))
    assert [a.time for a in stopped.actions] == [1, 2]
    assert stopped.along(np.array([6.0]))[1][0] == 0
    assert np.array_equal(actor.poses(np.arange(20) / 10), stopped.poses(np.arange(20) / 10))


def test_drivers_keep_to_the_right():
    for lane in LANES:
        (dx, dy), (ox, oy) = lane.direction, lane.origin
        assert dx * ox + dy * oy == 0
        assert dx * oy - dy * ox < 0  # the lane is right of the middle line
        pose = car(0, lane, 3.0, 0.0).poses(np.array([0.0]))[0]
        assert np.cos(pose[2]) == pytest.approx(dx)
        assert np.sin(pose[2]) == pytest.approx(dy)


def crossing(off=0.0, speed=8.0, **types):
    """A northbound car meets an eastbound one in its lane: the front reaches the side at 3 s."""
    struck = car(1, EAST, 1.75 + off - 3 * speed, speed, type_=types.get("struck", "car"))
    front = -1.75 - struck.size.width / 2
    striker = car(0, NORTH, front - 4.5 / 2 - 3 * 9.0, 9.0)
    return simulate(LAYOUT, (striker, struck), 6.0)


def test_the_first_contact_is_exact():
    world = crossing()
    assert world.contact.pair == (0, 1)
    assert world.contact.time == pytest.approx(3.0, abs=2e-6)
    assert world.contact.point[1] == pytest.approx(-1.75 - 1.85 / 2, abs=0.01)
    early = [geometry.corners(a.poses(np.array([2.99]))[0], 4.5, 1.85) for a in world.actors]
    assert geometry.gap(*early) == pytest.approx(0.09, abs=1e-3)


@pytest.mark.parametrize("struck", ["car", "truck", "bus"])
@pytest.mark.parametrize("off", [-1.0, 0.0, 1.0])
def test_a_collision_keeps_momentum_and_comes_to_rest(struck, off):
    world = crossing(off, struck=struck)
    before = sum(a.size.mass * a.velocity(2.9) for a in world.actors)
    after = sum(a.size.mass * np.array(a.crash.velocity) for a in world.actors)
    assert after == pytest.approx(before)
    for actor in world.actors:
        at = actor.poses(np.array([world.contact.time, world.contact.time + 1e-4]))
        assert at[0] == pytest.approx(at[1], abs=2e-3)  # no jump
        speed = np.hypot(*actor.crash.velocity)
        way = np.hypot(*(actor.poses(np.array([30.0]))[0] - actor.crash.pose)[:2])
        assert way == pytest.approx(speed**2 / (2 * FRICTION))


def test_an_off_centre_blow_turns_the_struck_vehicle():
    turns = [crossing(off, speed=0.0).actors[1].crash.spin for off in (-1.0, 0.0, 1.0)]
    # Hit ahead of its centre (it is behind the crossing point) it turns left, and the reverse.
    assert turns[0] > 0.2
    assert turns[2] < -0.2
    assert abs(turns[1]) < 1e-6


def test_vehicles_apart_never_touch():
    world = simulate(LAYOUT, (car(0, EAST, -30.0, 8.0), car(1, NORTH, -60.0, 8.0)), 6.0)
    assert world.contact is None
    assert world.min_gap(0, 1) > 5
    assert all(a.crash is None for a in world.actors)


def test_what_if_answers_come_from_running_the_world_again():
    world = crossing()
    far = car(2, LANES[5], 30.0, 0.0)
    world = simulate(LAYOUT, (*world.actors, far), 6.0)
    answers = braking_earlier(world, 1.5, (0, 1, 2))
    assert answers.helps == (0, 1)
    assert answers.useless == (2,)
    assert braking_earlier(world, 0.05, (0, 1, 2)).helps == ()  # too late
    after = changed(world, 0, Action(time=1.5, speed=0.0, rate=8.0))
    assert after.contact is None


def test_draws_are_uniform_and_stated_exactly():
    draw = Draw(np.random.SeedSequence([1, 2]))
    values = [draw.uniform(2, 3) for _ in range(2000)]
    assert all(round(v, 4) == v and 2 <= v <= 3 for v in values)
    assert np.mean(values) == pytest.approx(2.5, abs=0.03)
    picks = [draw.choice("abcd") for _ in range(2000)]
    assert {picks.count(c) > 420 for c in "abcd"} == {True}
    assert sorted(draw.shuffled(range(9))) == list(range(9))
