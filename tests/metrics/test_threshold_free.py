"""Each estimator from margins against scikit-learn or a plain loop, properties, corner cases."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from cctv.metrics import bootstrap
from cctv.metrics import threshold_free as tf

GOLD = (1, 0, 0, 0)


def make(n_scenes=12, *, seed=0, ties=False):
    """Margins of 1 to 5 pairs a scene, alike inside a scene, and each pair's scene."""
    rng = np.random.default_rng(seed)
    scene = np.repeat(np.arange(n_scenes), rng.integers(1, 6, n_scenes))
    margins = rng.normal([1.0, 0.2, 0.3, -0.5], 1, (len(scene), 4))
    margins += rng.normal(0.4, 0.7, (n_scenes, 1))[scene]
    return (np.round(margins * 2) / 2 if ties else margins), scene


def drawn(scene, replicates=40, seed=0):
    return bootstrap.draw_weights(int(scene.max()) + 1, replicates=replicates, seed=seed)


def copies(scene, weights):
    """Indices of the pairs of one replicate, each as often as its scene was drawn."""
    return np.repeat(np.arange(len(scene)), weights.astype(int)[scene])


def loop_ece(margins, bins=10):
    total, sums = 0, [[0, 0.0, 0] for _ in range(bins)]
    for four in margins.tolist():
        for gold, m in zip(GOLD, four):
            p = 1 / (1 + math.exp(-m))
            cell = sums[min(int(p * bins), bins - 1)]
            cell[0] += 1
            cell[1] += p
            cell[2] += gold
            total += 1
    return 100 * sum(n / total * abs(p / n - y / n) for n, p, y in sums if n)


def loop_risk(confidence, wrong):
    """Risk after each k, ties in expected order; curve in percent at every k, and its mean."""
    left = sorted(zip(confidence, wrong), reverse=True)
    risks, done, errors = [], 0, 0.0
    for _, tied in itertools.groupby(left, key=lambda item: item[0]):
        tied = [w for _, w in tied]
        for j in range(1, len(tied) + 1):
            risks.append((errors + j * sum(tied) / len(tied)) / (done + j))
        done, errors = done + len(tied), errors + sum(tied)
    return [100 * r for r in risks], 100 * sum(risks) / len(risks)


def pairs_right(margins, threshold):
    return [tuple(int(m > threshold) for m in four) == GOLD for four in margins.tolist()]


def loop_score(margins, threshold, key):
    if key == "quad_acc":
        return 100 * sum(pairs_right(margins, threshold)) / len(margins)
    tp = sum(m[0] > threshold for m in margins.tolist())
    tn = sum(v <= threshold for m in margins.tolist() for v in m[1:])
    return 100 * (tp / len(margins) + tn / (3 * len(margins))) / 2


@pytest.mark.parametrize("ties", [False, True])
def test_values_and_replicates_equal_scikit_learn_and_plain_loops(ties):
    """A replicate is the pooled pairs of the drawn scenes, each copy for itself."""
    margins, scene = make(ties=ties)
    weights = np.concatenate([np.ones((1, 12)), drawn(scene)])
    ranking = tf.ranked(margins, scene, weights)
    _, ece = tf.calibration(margins, scene, weights)
    right = ((margins > 0) == np.array(GOLD)).astype(int)
    items = (
        (np.abs(margins).ravel(), 1 - right.ravel(), np.repeat(scene, 4)),
        (np.abs(margins).min(1), 1 - right.all(1), scene),
    )
    risks = [tf.risk(c, w.astype(bool), owner, weights) for c, w, owner in items]
    for r, row in enumerate(weights):
        chosen = margins[copies(scene, row)]
        gold = np.tile(GOLD, len(chosen))
        auroc = 100 * roc_auc_score(gold, chosen.ravel())
        precision = 100 * average_precision_score(gold, chosen.ravel())
        np.testing.assert_allclose(ranking[:, r], [auroc, precision], rtol=1e-12)
        assert ece[r] == pytest.approx(loop_ece(chosen), abs=1e-10)
        for found, (confidence, wrong, owner) in zip(risks, items):
            index = copies(owner, row)
            curve, area = loop_risk(confidence[index].tolist(), wrong[index].tolist())
            assert found[-1, r] == pytest.approx(area, abs=1e-9)
            assert found[-2, r] == pytest.approx(curve[-1], abs=1e-9)
            n = len(index)
            for c, value in zip(tf.COVERAGES, found[:, r]):
                if c * n % 100 == 0:  # a whole number of items is answered
                    assert value == pytest.approx(curve[c * n // 100 - 1], abs=1e-9)


def test_area_is_the_mean_over_all_orders_of_ties():
    confidence, wrong = np.array([2.0, 1, 1, 1, 0.5, 0.5]), np.array([0, 1, 0, 0, 1, 0], bool)
    areas = []
    for order in itertools.permutations(range(6)):
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order)):
            errors = np.cumsum(wrong[list(order)])
            areas.append(np.mean(errors / np.arange(1, 7)))
    found = tf.risk(confidence, wrong, np.zeros(6, int), np.ones((1, 1)))
    assert found[-1, 0] == pytest.approx(100 * np.mean(areas))


def test_weightings_in_parts_are_those_at_once(monkeypatch):
    margins, scene = make()
    weights = drawn(scene)
    once = tf.analyse(margins, scene, weights)
    monkeypatch.setattr(tf, "_CHUNK", 1)
    parts = tf.analyse(margins, scene, weights)
    for name in ("auroc", "average_precision"):
        np.testing.assert_allclose(getattr(once, name), getattr(parts, name), rtol=1e-12)
    np.testing.assert_allclose(once.answers.area, parts.answers.area, rtol=1e-12)


def test_reliability_diagram_counts_every_answer_once():
    margins, scene = make()
    found = tf.analyse(margins, scene, drawn(scene)).reliability
    p = 1 / (1 + np.exp(-margins.ravel()))
    gold = np.tile(GOLD, len(margins))
    for b in range(tf.BINS):
        inside = (p >= b / 10) & (p < (b + 1) / 10)
        assert found.cells[b] == inside.sum()
        if inside.any():
            assert found.probability[b] == pytest.approx(100 * p[inside].mean())
            assert found.yes.value[b] == pytest.approx(100 * gold[inside].mean())
            assert found.yes.low[b] <= found.yes.value[b] <= found.yes.high[b]
    wild = tf.analyse(np.array([[800.0, -800, -800, -800]]), np.zeros(1, int), np.ones((1, 1)))
    assert wild.reliability.cells.tolist() == [3] + [0] * 8 + [1]  # σ is exactly 0 and 1
    assert np.isnan(wild.reliability.yes.value[1:9]).all()
    assert wild.ece.value == 0


def loop_threshold(margins, key):
    """Score between all neighbours, equal neighbours joined, the rule applied to each stretch."""
    places = sorted(set(margins.ravel().tolist()))
    edges = [-math.inf, *places, math.inf]
    stretches = []
    for start, end in itertools.pairwise(edges):
        score = loop_score(margins, start, key)
        if stretches and stretches[-1][2] == score:
            stretches[-1][1] = end
        else:
            stretches.append([start, end, score])
    top = max(score for _, _, score in stretches)
    chosen = []
    for start, end, score in stretches:
        if score < top:
            continue
        if start <= 0 < end:
            return 0.0, top
        if math.isinf(start):
            chosen.append(end - 1)
        else:
            chosen.append(start + 1 if math.isinf(end) else (start + end) / 2)
    return min(chosen, key=abs), top


@pytest.mark.parametrize("key", tf.CHOSEN_BY)
@pytest.mark.parametrize("ties", [False, True])
def test_best_threshold_is_the_best_of_all(key, ties):
    for seed in range(20):
        margins, _ = make(1 + seed % 5, seed=seed, ties=ties)
        expected, top = loop_threshold(margins, key)
        found = tf.best_threshold(margins, key)
        assert abs(found) == pytest.approx(abs(expected))
        assert loop_score(margins, found, key) == top


@pytest.mark.parametrize("key", tf.CHOSEN_BY)
def test_thresholds_are_chosen_on_other_scenes_only(key):
    """Fold by fold in a plain loop; paired intervals of what the held-out pairs got."""
    margins, scene = make(23, seed=3)
    weights = drawn(scene)
    found = tf.analyse(margins, scene, weights, seed=5).thresholds[key]
    parts = list(tf.folds(23, seed=5))
    assert sorted(np.concatenate(parts).tolist()) == list(range(23))
    assert sorted(map(len, parts)) == [2] * 7 + [3] * 3
    used = np.empty(len(scene))
    for fold, threshold in zip(parts, found.thresholds):
        others = margins[[s not in fold for s in scene]]
        assert threshold == tf.best_threshold(others, key)
        used[np.isin(scene, fold)] = threshold
    shifted = margins - used[:, None]
    differences = []
    for row in weights:
        index = copies(scene, row)
        differences.append(loop_score(shifted[index], 0, key) - loop_score(margins[index], 0, key))
    assert found.held_out.value == pytest.approx(loop_score(shifted, 0, key))
    assert found.at_zero.value == pytest.approx(loop_score(margins, 0, key))
    ends = np.percentile(differences, [2.5, 97.5])
    np.testing.assert_allclose([found.difference.low, found.difference.high], ends, atol=1e-9)


def test_a_biased_threshold_is_told_from_blindness():
    rng = np.random.default_rng(1)
    scene = np.repeat(np.arange(60), 4)
    sharp = rng.normal([3, -3, -3, -3], 1, (240, 4)) + 6
    blind = rng.normal(0, 1, (240, 4))
    weights = drawn(scene, 200)
    shifted, noise = (tf.analyse(m, scene, weights) for m in (sharp, blind))
    gain = shifted.thresholds["quad_acc"].difference
    assert shifted.thresholds["quad_acc"].at_zero.value < 10
    assert gain.low > 80
    assert shifted.auroc.value > 99
    assert noise.ordered.low < 25 < noise.ordered.high
    assert noise.auroc.low < 50 < noise.auroc.high
    assert noise.thresholds["quad_acc"].held_out.value < 20


def test_quadruple_margin_is_what_can_be_lost():
    margins, scene = make()
    each = [min(m[0], -m[1], -m[2], -m[3]) for m in margins.tolist()]
    np.testing.assert_array_equal(tf.quadruple_margin(margins), each)
    assert [m > 0 for m in each] == pairs_right(margins, 0)
    found = tf.analyse(margins, scene, drawn(scene))
    assert found.quadruple_margin.value == pytest.approx(np.mean(each))
    np.testing.assert_allclose(found.margin_quantiles, np.percentile(each, tf.QUANTILES))
    ordered = [m[0] > max(m[1:]) for m in margins.tolist()]
    assert found.ordered.value == pytest.approx(100 * np.mean(ordered))
    assert found.answers.curve.value[-1] == pytest.approx(
        100 - 100 * np.mean((margins > 0) == np.array(GOLD))
    )
    assert found.quadruples.curve.value[-1] == pytest.approx(
        100 - loop_score(margins, 0, "quad_acc")
    )


margin_lists = st.lists(
    st.lists(st.integers(-4, 4).map(float), min_size=4, max_size=4), min_size=1, max_size=8
)


@settings(max_examples=40, deadline=None)
@given(margin_lists, st.randoms(use_true_random=False))
def test_order_of_pairs_and_monotone_transforms(rows, random):
    margins = np.array(rows)
    scene = np.array([random.randrange(3) for _ in rows])
    scene = np.unique(scene, return_inverse=True)[1]
    weights = drawn(scene, 5)
    found = tf.analyse(margins, scene, weights)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    again = tf.analyse(margins[order], scene[order], weights)
    for one, two in zip(_numbers(found), _numbers(again)):
        np.testing.assert_allclose(one, two, atol=1e-9)
    # Ranks decide AUROC, average precision and order: any growing function leaves them.
    grown = tf.analyse(np.sinh(margins) + 7, scene, weights)
    for name in ("auroc", "average_precision", "ordered"):
        np.testing.assert_allclose(getattr(grown, name), getattr(found, name), atol=1e-9)
    # Scaling leaves what is right and how sure it is in comparison.
    scaled = tf.analyse(3 * margins, scene, weights)
    np.testing.assert_allclose(scaled.quadruples.area, found.quadruples.area, atol=1e-9)
    assert 0 <= found.ece.value <= 100
    assert found.quadruples.area.value <= 100
    if found.thresholds["quad_acc"]:
        for key in tf.CHOSEN_BY:
            assert found.thresholds[key].at_zero.value == pytest.approx(loop_score(margins, 0, key))


def _numbers(found):
    for field in found:
        if isinstance(field, dict):
            for threshold in field.values():
                yield from threshold or ()
        elif isinstance(field, np.ndarray):
            yield field
        else:
            yield from field


@pytest.mark.parametrize("value", [0.0, 2.5, -2.5])
def test_constant_margins(value):
    scene = np.repeat(np.arange(4), 2)
    found = tf.analyse(np.full((8, 4), value), scene, drawn(scene))
    assert found.auroc.value == found.auroc.low == found.auroc.high == 50
    assert found.average_precision.value == 25
    p = 100 / (1 + math.exp(-value))
    assert found.ece.value == pytest.approx(abs(p - 25))
    wrong = 75 if value > 0 else 25  # always Yes or always No
    np.testing.assert_allclose(found.answers.curve.value, wrong)
    assert found.answers.area.value == pytest.approx(wrong)
    assert found.quadruples.area.value == 100
    assert found.ordered.value == 0
    chosen = found.thresholds["quad_acc"]
    assert chosen.thresholds.tolist() == [0] * 4
    assert chosen.difference.value == 0


def test_a_perfect_system():
    scene = np.repeat(np.arange(4), 2)
    found = tf.analyse(np.tile([9.0, -9, -9, -9], (8, 1)), scene, drawn(scene))
    for name in ("auroc", "average_precision", "ordered"):
        assert getattr(found, name)[:4] == (100, 100, 100, 100)
    assert found.answers.area.value == found.quadruples.area.value == 0
    assert found.quadruple_margin.value == 9
    assert found.thresholds["ba_acc"].held_out.value == 100
    assert found.ece.value < 0.02


def test_one_scene_has_no_others_to_choose_on():
    found = tf.analyse(np.array([[1.0, 2, -1, 0]]), np.zeros(1, int), np.ones((5, 1)))
    assert found.thresholds == {"quad_acc": None, "ba_acc": None}
    assert found.auroc.value == found.auroc.low == pytest.approx(200 / 3)
    assert found.quadruple_margin.value == -2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_margins_that_are_no_numbers_are_refused(bad):
    margins, scene = make()
    margins[3, 2] = bad
    with pytest.raises(ValueError, match="margins must be finite"):
        tf.analyse(margins, scene, drawn(scene))


def test_no_pair_and_other_shapes_are_refused():
    for margins, scene in ((np.zeros((0, 4)), []), (np.zeros((2, 3)), [0, 0])):
        with pytest.raises(ValueError, match=r"margins must be \[N, 4\] with N >= 1"):
            tf.analyse(margins, np.array(scene, int), np.ones((1, 1)))
