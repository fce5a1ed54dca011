"""Paired tests, ranks and design effects against plain loops and simulated data of known truth."""

import math
import random

import numpy as np
import plain_loop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.metrics import bootstrap, compare, quadruples

NAMES = ["no", "yes", None]
FEW = ("quad_acc", "mcc_score", "gvrs", "pos_omiss", "precision")


def system(n_scenes, *, skill, seed, sizes=None):
    """Cells [pairs, 4] and scene of each pair, of a system whose answers agree inside a scene."""
    rng = np.random.default_rng(seed)
    sizes = np.random.default_rng(7).integers(1, 6, n_scenes) if sizes is None else sizes
    scene = np.repeat(np.arange(n_scenes), sizes)
    good = (rng.random(n_scenes) < skill)[scene]
    chance = np.where(good[:, None], [0.95, 0.1, 0.1, 0.1], [0.6, 0.5, 0.5, 0.5])
    cells = (rng.random(chance.shape) < chance).astype(int)
    cells[rng.random(cells.shape) < 0.03] = quadruples.UNPARSED
    return cells, scene


def histogram(cells, scene):
    return quadruples.histograms(scene, quadruples.pattern(cells), scene.max() + 1)


def plain(cells):
    return plain_loop.metrics([tuple(NAMES[v] for v in four) for four in cells.tolist()])


def test_permutation_test_is_a_plain_loop_over_exchanged_scenes():
    (a, scene), (b, _) = system(7, skill=0.8, seed=1), system(7, skill=0.4, seed=2)
    both = np.stack([histogram(a, scene), histogram(b, scene)])
    options = {"permutations": 60, "seed": 5}
    found = compare.permutation_test(both, [(0, 1)], quadruples.KEYS, **options)[:, 0]
    draws = np.random.Generator(np.random.PCG64([5, 1])).integers(0, 2, size=(60, 7))
    at_least = dict.fromkeys(quadruples.KEYS, 0)
    one, two = plain(a), plain(b)
    for draw in draws:
        exchange = (draw[scene] == 1)[:, None]
        x, y = plain(np.where(exchange, b, a)), plain(np.where(exchange, a, b))
        for key in quadruples.KEYS:
            undefined = None in (x[key], y[key], one[key], two[key])
            if undefined or abs(x[key] - y[key]) >= abs(one[key] - two[key]) - 1e-9:
                at_least[key] += 1
    expected = [(1 + at_least[key]) / 61 for key in quadruples.KEYS]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(set(expected)) > 5


def test_differences_are_the_paired_bootstrap_and_name_their_sides():
    systems = [system(12, skill=s, seed=i) for i, s in enumerate((0.2, 0.5, 0.9))]
    both = np.stack([histogram(*s) for s in systems])
    found = compare.compare(both, replicates=200, permutations=50, seed=3)
    weights = bootstrap.draw_weights(12, replicates=200, seed=3)
    assert len(found.differences) == 3 * len(quadruples.KEYS)
    for d in found.differences:
        expected = bootstrap.differences(both[d.a], both[d.b], weights)[d.metric]
        np.testing.assert_allclose(d.interval, expected, rtol=1e-9, atol=1e-9)
        one, two = plain(systems[d.a][0])[d.metric], plain(systems[d.b][0])[d.metric]
        assert d.interval.value == pytest.approx(one - two)


def test_detectable_difference_is_2_8_standard_deviations():
    both = np.stack([histogram(*system(40, skill=s, seed=i)) for i, s in enumerate((0.3, 0.6))])
    (d,) = compare.compare(both, metrics=["quad_acc"], permutations=1).differences
    weights = bootstrap.draw_weights(40, replicates=2000, seed=0)
    a, b = quadruples.replicate_metrics(weights, both)[0]
    assert d.detectable == pytest.approx((1.959964 + 0.841621) * np.std(a - b, ddof=1), rel=1e-6)


def test_holm_by_its_definition():
    p = np.array([0.01, 0.04, math.nan, 0.03, 0.005, 0.9])
    # sorted .005 .01 .03 .04 .9 times 5 4 3 2 1 = .025 .04 .09 .08 .9, never falling
    expected = [0.04, 0.09, math.nan, 0.09, 0.025, 0.9]
    np.testing.assert_allclose(compare.holm(p), expected)
    np.testing.assert_array_equal(compare.holm(np.array([0.7, 0.6])), [1, 1])
    assert np.isnan(compare.holm(np.array([math.nan]))).all()
    assert compare.holm(np.array([])).shape == (0,)


def test_holm_families_are_metrics_of_a_pair_and_pairs_of_a_metric():
    both = np.stack([histogram(*system(10, skill=s, seed=i)) for i, s in enumerate((0.1, 0.5, 1))])
    found = compare.compare(both, metrics=FEW, replicates=5, permutations=200).differences
    for field, family in (("p_holm_metrics", lambda d: (d.a, d.b)),
                          ("p_holm_systems", lambda d: d.metric)):  # fmt: skip
        for name in {family(d) for d in found}:
            members = [d for d in found if family(d) == name]
            assert len(members) in (3, 5)
            expected = compare.holm(np.array([d.p for d in members]))
            np.testing.assert_array_equal([getattr(d, field) for d in members], expected)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 1000))
def test_ranks_are_a_plain_loop_with_shared_ties(n_systems, n, seed):
    rng = random.Random(seed)
    values = [
        [rng.choice([0.0, 1.0, 2.0, 3.0, math.nan][: 4 + (s == 0)]) for _ in range(n)]
        for s in range(n_systems)
    ]
    shares = np.zeros((n_systems, n_systems))
    used = 0
    for column in zip(*values):
        if any(map(math.isnan, column)):
            continue
        used += 1
        for s, own in enumerate(column):
            first = sum(v > own for v in column)
            ties = sum(v == own for v in column)
            for place in range(first, first + ties):
                shares[s, place] += 1 / ties
    found = compare.rank(np.array(values))
    assert found.n_undefined == n - used
    if used:
        np.testing.assert_allclose(found.shares, shares / used, atol=1e-12)
        np.testing.assert_allclose(found.shares.sum(0), 1)
        np.testing.assert_allclose(found.shares.sum(1), 1)
    else:
        assert np.isnan(found.shares).all()


def test_failure_shares_are_ranked_lowest_first():
    good, bad = np.zeros((2, 3, 81), int)
    good[:, [0, 3 * 9]] = [1, 3]  # all No: PosOmiss 100 %
    bad[:, quadruples.pattern(np.array([1, 1, 0, 0]))] = 4  # PosOmiss 0 %
    found = compare.compare(
        np.stack([good, bad]), metrics=["quad_acc", "pos_omiss"], replicates=9, permutations=9
    )
    np.testing.assert_array_equal(found.rankings["quad_acc"].shares, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(found.rankings["pos_omiss"].shares, [[0, 1], [1, 0]])


def test_independent_pairs_of_a_proportion_are_binomial_and_of_the_rest_a_bootstrap():
    cells, _ = system(400, skill=0.5, seed=3)
    pooled = np.bincount(quadruples.pattern(cells), minlength=81)
    n = pooled.sum()
    value, variance = compare.iid_variance(pooled)
    drawn = quadruples.plug_in(np.random.default_rng(0).multinomial(n, pooled / n, size=20_000))
    for k, key in enumerate(quadruples.KEYS):
        assert value[k] == pytest.approx(plain(cells)[key])
        assert variance[k] == pytest.approx(drawn[key].var(), rel=0.06), key
    for key in ("quad_acc", "vs", "contr_q_pos", "recall"):
        p = value[quadruples.KEYS.index(key)] / 100
        expected = 1e4 * p * (1 - p) / n
        assert variance[quadruples.KEYS.index(key)] == pytest.approx(expected, rel=1e-9)


def test_design_effect_is_the_size_of_scenes_whose_pairs_are_all_alike():
    cells, scene = system(300, skill=0.5, seed=4, sizes=1)
    one = histogram(cells, scene)
    (alone, _) = compare.compare(np.stack([one, one]), metrics=FEW, permutations=1).spreads
    (six, _) = compare.compare(np.stack([6 * one, 6 * one]), metrics=FEW, permutations=1).spreads
    for key in FEW:
        assert alone[key].design_effect == pytest.approx(1, abs=0.15)
        assert six[key].design_effect == pytest.approx(6 * alone[key].design_effect)
        # The scenes are as many as before, and what they tell too; only pairs look like more.
        np.testing.assert_allclose(six[key].scene[:5], alone[key].scene[:5])
        shrunk = six[key].iid[1] - six[key].iid[0]
        assert shrunk * math.sqrt(6) == pytest.approx(alone[key].iid[1] - alone[key].iid[0])
        assert six[key].pair.half_width < 0.6 * six[key].scene.half_width


def test_alike_systems_are_rarely_told_apart_though_pairs_cluster_row_18():
    """Pairs of a scene are copies: an unpaired z-test over pairs rejects far more than 5 %."""
    rejected = by_z = 0
    for seed in range(200):
        a, b = (6 * histogram(*system(30, skill=0.5, seed=2 * seed + i, sizes=1)) for i in range(2))
        options = {"permutations": 99, "seed": seed}
        test = compare.permutation_test(np.stack([a, b]), [(0, 1)], ["quad_acc"], **options)
        rejected += test[0, 0] <= 0.05
        p = [h.sum(0)[quadruples.GOLD_PATTERN] / h.sum() for h in (a, b)]
        spread = math.sqrt(sum(v * (1 - v) / a.sum() for v in p))
        by_z += abs(p[0] - p[1]) > 1.96 * spread
    assert rejected <= 20  # 10 expected; 20 is passed once in 1,000
    assert by_z > 60


def test_equal_constant_and_single_scene_systems_have_defined_results():
    cells, scene = system(6, skill=0.5, seed=0)
    one = histogram(cells, scene)
    found = compare.compare(np.stack([one, one]), replicates=20, permutations=20)
    for d in found.differences:
        assert d.p == 1 or np.isnan(d.p)
        assert d.interval.value == 0 or np.isnan(d.interval.value)
    perfect, always_no = np.zeros((2, 1, 81), int)
    perfect[:, quadruples.GOLD_PATTERN] = 3
    always_no[:, 0] = 3
    found = compare.compare(np.stack([perfect, always_no]), replicates=20, permutations=20)
    by_key = {d.metric: d for d in found.differences}
    assert by_key["quad_acc"].interval.value == 100
    assert by_key["quad_acc"].p == 1  # one scene says nothing
    assert np.isnan(by_key["pos_omiss"].p)
    assert found.rankings["pos_omiss"].n_undefined == 20
    assert np.isnan(found.spreads[0]["quad_acc"].design_effect)


@pytest.mark.parametrize(
    ("shape", "metrics", "words"),
    [
        ((1, 3, 81), ["quad_acc"], "two systems"),
        ((2, 0, 81), ["quad_acc"], "two systems"),
        ((2, 3, 81), ["quadacc"], "unknown metric 'quadacc'"),
    ],
)
def test_wrong_input(shape, metrics, words):
    with pytest.raises(ValueError, match=words):
        compare.compare(np.ones(shape, int), metrics=metrics)


def test_systems_with_other_pairs_are_refused():
    both = np.ones((2, 3, 81), int)
    both[1, 1, 0] = 2
    with pytest.raises(ValueError, match="same pairs"):
        compare.compare(both)
    with pytest.raises(ValueError, match="some in each scene"):
        compare.compare(both * np.array([1, 0, 1])[:, None])
