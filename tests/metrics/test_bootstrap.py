"""The scene bootstrap against a plain loop and scipy, and its corner cases."""

import math
import random

import numpy as np
import plain_loop
import pytest
import scipy.stats

from cctv.metrics import bootstrap, quadruples

NAMES = np.array(["no", "yes", None], dtype=object)


def make(n_scenes=30, *, seed=0, p_yes=0.5, bad=0.05):
    """Pairs of each scene as lists of answers, with answers that agree inside a scene."""
    rng = np.random.default_rng(seed)
    scenes = []
    for _ in range(n_scenes):
        skill = rng.beta(2, 2)
        chance = np.where(rng.random((rng.integers(1, 9), 4)) < skill, [0.95, 0.1, 0.1, 0.1], p_yes)
        cells = (rng.random(chance.shape) < chance).astype(int)
        cells[rng.random(chance.shape) < bad] = quadruples.UNPARSED
        scenes.append([tuple(NAMES[row]) for row in cells])
    return scenes


def histograms(scenes):
    codes = {"no": 0, "yes": 1, None: 2}
    rows = [(s, [codes[a] for a in pair]) for s, pairs in enumerate(scenes) for pair in pairs]
    index = np.array([s for s, _ in rows], int)
    cells = np.array([c for _, c in rows], int).reshape(-1, 4)
    return quadruples.histograms(index, quadruples.pattern(cells), len(scenes))


def test_weights_are_draws_with_replacement_fixed_by_the_seed():
    weights = bootstrap.draw_weights(5, replicates=400, seed=3)
    assert weights.shape == (400, 5)
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights.sum(1), 5)
    np.testing.assert_array_equal(weights, bootstrap.draw_weights(5, replicates=400, seed=3))
    assert (weights != bootstrap.draw_weights(5, replicates=400, seed=4)).any()
    # Duplicates are kept: a scene's count is Binomial(5, 1/5), of variance 0.8.
    assert weights.var() == pytest.approx(0.8, abs=0.1)
    assert bootstrap.draw_weights(2, replicates=3, seed=0).tolist() == [[0, 2], [1, 1], [2, 0]]


def test_summary_equals_numpy_with_and_without_undefined_replicates():
    rng = np.random.default_rng(0)
    replicates = rng.normal(size=(3, 500))
    replicates[1, rng.random(500) < 0.3] = math.nan
    replicates[2] = math.nan
    found = bootstrap.summarise(np.zeros(3), replicates)
    np.testing.assert_array_equal(found.n_undefined, np.isnan(replicates).sum(1))
    for i in range(2):
        expected = np.nanpercentile(replicates[i], [2.5, 97.5])
        np.testing.assert_allclose([found.low[i], found.high[i]], expected, rtol=1e-12)
        assert found.mean[i] == pytest.approx(np.nanmean(replicates[i]))
        sides = [abs(found.mean[i] - found.low[i]), abs(found.high[i] - found.mean[i])]
        assert found.half_width[i] == max(sides)
    assert found.n_undefined[2] == 500
    assert np.isnan([found.mean[2], found.low[2], found.high[2], found.half_width[2]]).all()


def test_intervals_equal_a_plain_loop_over_the_same_draws():
    scenes = make(8, p_yes=0.3)
    weights = bootstrap.draw_weights(8, replicates=60, seed=1)
    found = bootstrap.intervals(histograms(scenes), weights)
    replicates = []
    for row in weights.astype(int):
        pairs = [pair for w, pairs in zip(row, scenes) for pair in pairs * w]
        replicates.append(plain_loop.metrics(pairs))
    for key, interval in found.items():
        column = [r[key] for r in replicates if r[key] is not None]
        assert interval.n_undefined == 60 - len(column)
        assert interval.mean == pytest.approx(np.mean(column), abs=1e-9)
        assert interval.low == pytest.approx(np.percentile(column, 2.5), abs=1e-9)
        assert interval.high == pytest.approx(np.percentile(column, 97.5), abs=1e-9)


def test_ratio_of_sums_micro_average_row_19():
    """A scene of nine right pairs and one of a single wrong pair: 90, not the mean of means 50."""
    scenes = [[("yes", "no", "no", "no")] * 9, [("no",) * 4]]
    found = bootstrap.intervals(histograms(scenes), np.ones((1, 2), np.float32))
    assert found["quad_acc"].value == found["quad_acc"].mean == 90


def test_one_undefined_replicate_is_left_out_and_counted_row_19():
    """vri is 0/0 where only the scene of constant answers was drawn; quad_acc is 0 there."""
    scenes = [[("yes", "no", "no", "no")], [("no",) * 4]]
    weights = np.array([[2, 0], [1, 1], [0, 2]], np.float32)
    found = bootstrap.intervals(histograms(scenes), weights)
    assert found["vri"].n_undefined == 1
    assert found["vri"].mean == found["vri"].low == found["vri"].high == 50
    assert found["vri"].half_width == 0
    assert found["quad_acc"].n_undefined == 0
    assert found["quad_acc"].mean == 50
    assert found["pos_omiss"].n_undefined == 1  # nothing failed where only the first was drawn
    assert found["gvrs"].n_undefined == 0


@pytest.mark.parametrize("key", ["quad_acc", "mcc", "ba_acc", "gvrs", "precision"])
def test_intervals_are_close_to_scipy(key):
    scenes = make(40, seed=5)
    counts = histograms(scenes)

    def statistic(drawn, axis):
        pooled = counts[drawn].sum(-2)
        return quadruples.plug_in(pooled)[key]

    theirs = scipy.stats.bootstrap(
        (np.arange(40),),
        statistic,
        n_resamples=4000,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    weights = bootstrap.draw_weights(40, replicates=4000, seed=0)
    ours = bootstrap.intervals(counts, weights)[key]
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert abs(ours.low - theirs.confidence_interval.low) < 0.08 * width
    assert abs(ours.high - theirs.confidence_interval.high) < 0.08 * width


def test_categories_share_the_resampled_scenes():
    """Groups at once equal each group alone under the same weights; an absent one is undefined."""
    groups = np.stack([histograms(make(12, seed=s)) for s in (0, 1)] + [np.zeros((12, 81), int)])
    weights = bootstrap.draw_weights(12, replicates=100, seed=0)
    together = bootstrap.intervals(groups, weights)
    for g in range(2):
        alone = bootstrap.intervals(groups[g], weights)
        for key, interval in alone.items():
            np.testing.assert_allclose([f[g] for f in together[key]], interval, rtol=1e-12)
    assert (together["quad_acc"].n_undefined == [0, 0, 100]).all()
    assert np.isnan(together["quad_acc"].mean[2])


def test_paired_differences_resample_the_same_scenes_row_18():
    """Equal systems differ by exactly 0; a paired interval is what a paired loop gives."""
    scenes = make(10, seed=2)
    better = [[("yes", "no", "no", "no"), *pairs[1:]] for pairs in scenes]
    a, b = histograms(better), histograms(scenes)
    weights = bootstrap.draw_weights(10, replicates=80, seed=0)
    for interval in bootstrap.differences(b, b, weights).values():
        assert interval.value == interval.low == interval.high == 0
    found = bootstrap.differences(a, b, weights)
    for key in ("quad_acc", "gvrs", "mcc_score"):  # composite metrics are recomputed
        column = []
        for row in weights.astype(int):
            one, two = (
                plain_loop.metrics([p for w, pairs in zip(row, s) for p in pairs * w])[key]
                for s in (better, scenes)
            )
            column.append(one - two)
        low, high = np.percentile(column, [2.5, 97.5])
        assert (found[key].low, found[key].high) == pytest.approx((low, high), abs=1e-9)
    alone = bootstrap.intervals(b, weights)["quad_acc"]
    assert found["quad_acc"].low >= 0
    assert found["quad_acc"].high - found["quad_acc"].low < alone.high - alone.low


def test_groups_in_parts_are_those_at_once(monkeypatch):
    groups = np.stack([histograms(make(6, seed=s)) for s in range(6)]).reshape(2, 3, 6, 81)
    weights = bootstrap.draw_weights(6, replicates=20, seed=0)
    once = bootstrap.intervals(groups, weights)
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 90)
    for key, interval in bootstrap.intervals(groups, weights).items():
        assert interval.value.shape == (2, 3)
        np.testing.assert_allclose(interval, once[key], rtol=1e-12)


@pytest.mark.parametrize("n_scenes", [0, 1])
def test_no_scene_and_one_scene(n_scenes):
    scenes = [[("yes", "no", "no", "no"), ("yes", "yes", "no", "no")]][:n_scenes]
    weights = bootstrap.draw_weights(n_scenes, replicates=50, seed=0)
    found = bootstrap.intervals(histograms(scenes), weights)["quad_acc"]
    if n_scenes:
        assert found.value == found.low == found.high == found.mean == 50
        assert found.half_width == found.n_undefined == 0
    else:
        assert np.isnan(found.value)
        assert found.n_undefined == 50


def test_order_of_pairs_inside_a_scene_does_not_matter():
    scenes = make(5, seed=7)
    mixed = [random.Random(0).sample(pairs, len(pairs)) for pairs in scenes]
    np.testing.assert_array_equal(histograms(scenes), histograms(mixed))
