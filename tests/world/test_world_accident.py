"""Accidents and their counterfactuals over many casts of every kind and place."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from cctv.world import accident, geometry
from cctv.world.accident import (
    CONTACT_WINDOW,
    DIFFICULTIES,
    KINDS,
    MEDIUM,
    Rejected,
    draw_cast,
    part,
)
from cctv.world.bystanders import OTHER_GAP
from cctv.world.draw import Draw
from cctv.world.layout import FIRST_OBSTACLE, TYPES
from cctv.world.pair import draw_pair

DURATION = 6.0
EVEN = 2 * len(KINDS) * len(accident.OFF_ROAD)  # scenes after which kinds, views, places are even
ROUNDS = (0, 3, 4, 7, 8, 11, 12, 15)  # with all kinds in each: every place, half in either view


def draw_of(*seed):
    return Draw(np.random.SeedSequence(seed))


def drawn(seed, index, difficulty=MEDIUM):
    """A pair and how many attempts were rejected, by reason."""
    draw, rejected = draw_of(seed, index), Counter()
    cast = draw_cast(draw, index, DURATION, difficulty)
    while True:
        try:
            return draw_pair(draw, cast, difficulty), rejected
        except Rejected as error:
            rejected[error.reason] += 1
            assert rejected.total() < 150, (index, rejected)


@pytest.fixture(scope="module")
def drawings():
    """One of every kind in every place, and the rejections."""
    return [drawn(9, len(KINDS) * r + k) for r in ROUNDS for k in range(len(KINDS))]


@pytest.fixture(scope="module")
def pairs(drawings):
    return [pair for pair, _ in drawings]


def party(world, id_, time):
    """Pose, length and width of an actor or obstacle at a time."""
    if id_ >= FIRST_OBSTACLE:
        o = world.layout.obstacle(id_)
        return np.array([o.x, o.y, o.yaw]), o.length, o.width
    a = world.actor(id_)
    return a.poses(np.array([time]))[0], a.size.length, a.size.width


def outline(pose, length, width, n=25):
    """Points around a box, by the textbook formula."""
    x, y, yaw = pose
    u = np.linspace(-0.5, 0.5, n)
    e = np.full(n, 0.5)
    local = np.concatenate([np.c_[u, e], np.c_[u, -e], np.c_[e, u], np.c_[-e, u]])
    local = local * (length, width)
    return np.c_[
        x + local[:, 0] * np.cos(yaw) - local[:, 1] * np.sin(yaw),
        y + local[:, 0] * np.sin(yaw) + local[:, 1] * np.cos(yaw),
    ]


def apart(a, b):
    """Distance of two boxes by points of their outlines, to a few centimetres."""
    p, q = outline(*a), outline(*b)
    return np.sqrt(((p[:, None] - q[None]) ** 2).sum(-1)).min()


def test_the_contact_is_exact_and_the_first(pairs):
    for pair in pairs:
        world = pair.positive
        contact = world.contact
        assert contact.time == pytest.approx(pair.cast.contact_time, abs=1e-3)
        assert {i for i in contact.pair if i < FIRST_OBSTACLE} == set(range(pair.cast.involved))
        at = [party(world, i, contact.time) for i in contact.pair]
        assert apart(*at) < 0.25  # a mesh of points: their spacing is up to 9 m / 24
        for back in (0.05, 0.5):
            before = [party(world, i, contact.time - back) for i in contact.pair]
            boxes = [geometry.corners(pose, *size) for pose, *size in before]
            assert not geometry.overlap(*boxes)
        for i, j in combinations([a.id for a in world.actors], 2):
            if (i, j) != contact.pair:
                assert not geometry.overlap(world.boxes[i], world.boxes[j]).any()


def test_nothing_touches_in_the_counterfactual(pairs):
    for pair in pairs:
        world, parties = pair.negative, pair.positive.contact.pair
        assert world.contact is None
        assert world.min_gap(*parties) >= MEDIUM.min_gap
        for time in np.arange(0, DURATION, 0.5):
            assert apart(*(party(world, i, time) for i in parties)) > MEDIUM.min_gap - 1e-6


def test_bystanders_keep_clear_of_everything_in_both_worlds(pairs):
    for pair in pairs:
        for world in (pair.positive, pair.negative):
            for actor in world.actors[pair.cast.involved :]:
                way = actor.poses(np.arange(0, DURATION, 0.1))
                others = [a.id for a in world.actors if a.id != actor.id]
                others += [
                    o.id
                    for o in world.layout.obstacles
                    if np.hypot(way[:, 0] - o.x, way[:, 1] - o.y).min() < 8 + max(o.length, o.width)
                ]
                assert min(world.min_gap(actor.id, i) for i in others) >= OTHER_GAP
                assert actor.crash is None


def test_the_worlds_are_equal_up_to_the_branch_and_differ_after(pairs):
    for pair in pairs:
        branch = pair.cast.branch
        assert branch * accident.GRID == pytest.approx(round(branch * accident.GRID))
        shared = np.arange(round(branch * accident.GRID) + 1) / accident.GRID
        assert shared[-1] == branch
        after = np.array([branch + 0.8, DURATION])
        differ = []
        for a, b in zip(pair.positive.actors, pair.negative.actors):
            assert np.array_equal(a.poses(shared), b.poses(shared))
            if not np.allclose(a.poses(after), b.poses(after)):
                differ.append(a.id)
        assert pair.intervention.actor in differ
        assert set(differ) <= set(range(pair.cast.involved))


def test_motion_stays_within_limits(pairs):
    """Up to a collision: brakes, starts, and forces to the side that tyres can give."""
    sides = []
    for pair in pairs:
        for world in (pair.positive, pair.negative):
            for actor in world.actors:
                assert all(0 < a.rate <= 8.5 and 0 <= a.speed <= 12 for a in actor.actions)
                assert all(a.rate <= 3.0 or a.speed == 0 or a.speed <= 12 for a in actor.actions)
                if actor.lane is None:
                    continue
                dt = 0.02
                end = actor.crash.time if actor.crash else DURATION
                times = np.arange(0, end, dt)
                poses = actor.plan(times)
                speed = np.hypot(*np.diff(poses[:, :2], axis=0).T) / dt
                turning = np.diff(np.unwrap(poses[:, 2])) / dt
                sides.append((np.abs(turning) * speed).max())
                assert speed.max() < 14.5
    assert np.quantile(sides, 0.9) < 6
    assert max(sides) < 13, max(sides)  # one who swerves off the road


def kinds_of(pair):
    """What an observer of the accident would call it."""
    world, contact = pair.positive, pair.positive.contact
    one, two = (party(world, i, contact.time) for i in contact.pair)
    if contact.pair[1] >= FIRST_OBSTACLE:
        return "run_off_road"
    if world.actor(contact.pair[0]).type == "pedestrian" or world.actor(contact.pair[1]).type == (
        "pedestrian"
    ):
        return "pedestrian"
    turned = np.cos(one[0][2] - two[0][2])
    if abs(turned) < 0.7:
        return "t_bone"
    if turned < 0:
        return "head_on"
    x, y, yaw = two[0]
    beside = abs((one[0][1] - y) * np.cos(yaw) - (one[0][0] - x) * np.sin(yaw))
    return "sideswipe" if beside > 0.7 * (one[2] + two[2]) / 2 else "rear_end"


def test_what_happens_is_what_was_cast(pairs):
    for pair in pairs:
        assert kinds_of(pair) == pair.cast.kind
        assert pair.cause["kind"] == pair.cast.cause
        assert pair.cause["actor"] == pair.cast.guilty
        if pair.cast.kind == "run_off_road":
            layout, contact = pair.positive.layout, pair.positive.contact
            target = layout.obstacle(contact.pair[1])
            assert target.kind == pair.cast.obstacle
            for point in (*target.box, contact.point):
                for road in layout.roads:
                    s, left = road.path.project(*point)
                    assert abs(left) > road.half_width + 0.5 or not 0 < s < road.path.length
        assert pair.positive.layout.type == pair.cast.place


def test_only_the_guilty_breaks_a_rule(pairs):
    for pair in pairs:
        layout, cast = pair.positive.layout, pair.cast
        if cast.cause == "red_light":
            roads = [layout.lanes[pair.positive.actor(i).lane].road for i in (0, 1)]
            assert roads[cast.guilty] != layout.priority
            assert roads[1 - cast.guilty] == layout.priority
        for actor in pair.positive.actors:
            if (
                layout.signals
                and actor.lane is not None
                and (actor.id != cast.guilty or cast.cause != "red_light")
            ):
                lane = layout.lanes[actor.lane]
                if lane.road != layout.priority:  # waits at its red light, or is hit before it
                    end = actor.crash.time if actor.crash else DURATION
                    front = actor.along(np.array([end]))[0][0] + actor.size.length / 2
                    assert front <= lane.stop + 0.01


def test_remedies_of_every_sort(pairs):
    sorts = {k: {p.intervention.kind for p in pairs if p.cast.kind == k} for k in KINDS}
    assert sorts["t_bone"] == {"brake", "yield"}
    assert sorts["rear_end"] == {"brake"}
    assert sorts["head_on"] == {"keep_lane"}
    assert sorts["sideswipe"] == {"keep_lane", "yield"}
    assert {"brake", "wait"} <= sorts["pedestrian"] <= {"brake", "wait", "yield"}
    assert sorts["run_off_road"] == {"brake", "keep_lane"}


def test_rejections_are_few_and_have_a_reason(drawings):
    total = sum((r for _, r in drawings), Counter())
    assert total.total() < 4 * len(drawings)
    assert all(reason and isinstance(reason, str) for reason in total)


@pytest.mark.parametrize("name", ["easy", "hard"])
def test_difficulty_is_kept(name):
    difficulty = DIFFICULTIES[name]
    for index in range(len(KINDS)):
        pair, _ = drawn(4, index, difficulty)
        cast = pair.cast
        low, high = difficulty.branch_lead
        assert low - 0.02 <= cast.contact_time - cast.branch <= high + 0.02
        assert pair.negative.min_gap(*pair.positive.contact.pair) >= difficulty.min_gap
        low, high = difficulty.distractors
        ego = cast.ego is not None and cast.ego >= cast.involved
        assert low <= len(cast.looks) - cast.involved - ego <= high
    order = [DIFFICULTIES[n] for n in ("easy", "medium", "hard")]
    for attribute in ("branch_lead", "min_gap", "min_pixels"):
        values = [getattr(d, attribute) for d in order]
        assert values == sorted(values, reverse=True)


def test_parts_are_even():
    parts = [part(i) for i in range(5 * EVEN)]
    assert set(Counter(k for k, _, _ in parts).values()) == {len(parts) // len(KINDS)}
    assert set(Counter((k, v) for k, v, _ in parts).values()) == {len(parts) // len(KINDS) // 2}
    for kind in KINDS:
        count = Counter((v, p) for k, v, p in parts if k == kind)
        places = {p for _, p in count}
        assert places == set(accident.JUNCTIONS if kind == "t_bone" else TYPES)
        if kind != "run_off_road":
            assert max(count.values()) - min(count.values()) <= 1
        else:
            bends = sum(n for (_, p), n in count.items() if p == "curve")
            assert bends == count.total() // 2


@pytest.mark.parametrize("kind", KINDS)
def test_looks_are_drawn_alike_for_all_that_are_named(kind):
    """Looks are drawn before anything can be rejected, so by a plain draw of casts."""
    first = 2 * KINDS.index(kind) if KINDS.index(kind) else 0
    indices = [i for i in range(first, 18000) if part(i)[:2] == (kind, "roadside")]
    casts = [draw_cast(draw_of(5, i), i) for i in indices[:1400]]
    for k in (0, 1):
        involved = Counter(c.looks[i][k] for c in casts for i in range(c.involved))
        bystander = Counter(c.looks[c.bystander][k] for c in casts)
        assert involved.keys() == bystander.keys()
        for value in involved:
            a, b = involved[value] / involved.total(), bystander[value] / bystander.total()
            assert a == pytest.approx(b, abs=0.055), value
    assert all(len({colour for _, colour in c.looks}) == len(c.looks) for c in casts)
    coins = [lambda c: c.from_left, lambda c: c.image_left]
    if kind in ("t_bone", "head_on", "sideswipe"):
        coins.append(lambda c: c.guilty)
        guilty = Counter(c.looks[c.guilty][0] for c in casts)
        innocent = Counter(c.looks[1 - c.guilty][0] for c in casts)
        assert guilty["car"] == pytest.approx(innocent["car"], rel=0.12)
    if kind == "pedestrian":
        coins.append(lambda c: c.cause == "ran_over")
    for coin in coins:
        assert np.mean([coin(c) for c in casts]) == pytest.approx(0.5, abs=0.05)


def test_times_are_uniform_in_their_windows():
    casts = [draw_cast(draw_of(6, i), i) for i in range(3000)]
    share = np.sort([c.contact_time / c.duration for c in casts])
    low, high = CONTACT_WINDOW
    uniform = low + (high - low) * (np.arange(len(share)) + 0.5) / len(share)
    assert np.abs(share - uniform).max() < 0.01  # Kolmogorov-Smirnov: 0.03 of the window at 1 %
    ego = [c.ego is not None and c.ego < c.involved for c in casts if c.view == "driving"]
    assert np.mean(ego) == pytest.approx(0.5, abs=0.04)
    assert all(c.looks[c.ego][0] == "car" for c in casts if c.ego is not None)
    assert all(c.ego not in c.named and c.bystander in c.named for c in casts)
