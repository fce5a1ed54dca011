"""Curves over α against brute force: a dense grid, every completion of unknown cells, loops."""

import itertools
import math

import numpy as np
import plain_loop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.metrics import alpha as alphas
from cctv.metrics import bootstrap, quadruples

GRID = np.linspace(0, 2, 2001)
NAMES = {0: "no", 1: "yes", 2: None}
# Slopes of ± powers of two: fused margins and α* are exact, so a tie is one however computed.
dyadic = st.integers(-8, 8).map(lambda i: i / 4)
slopes = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, -0.25, -0.5, -1.0, -2.0, -4.0])
for_ever = st.just(math.inf)
exact_to = st.sampled_from([math.inf, math.inf, 0.0, 0.5, 1.0, 1.25, 2.0, 3.0])


@st.composite
def margins(draw, ends=for_ever, decoded=False):
    n = draw(st.integers(1, 3))

    def array(element):
        return np.array(draw(st.lists(element, min_size=4 * n, max_size=4 * n))).reshape(n, 4)

    given_at = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), unique=True)) if decoded else []
    base = array(dyadic)
    return alphas.Margins(
        base=base,
        contrast=base - array(slopes),
        exact_to=array(ends),
        decoded={a: array(st.integers(0, 2)) for a in given_at},
    )


def make(n, *, seed=0, ends=None):
    """Float32 margins of n pairs whose contrast is like the base."""
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(n, 4)).astype(np.float32)
    c = (m / 2 + rng.normal(size=(n, 4))).astype(np.float32)
    ends = np.full((n, 4), math.inf) if ends is None else ends
    return alphas.Margins(base=m, contrast=c, exact_to=ends)


def fused_labels(found, alpha):
    """Straight from the definition."""
    return ((1 + alpha) * found.base - alpha * found.contrast > 0).astype(int)


def metrics_of(cells):
    """float64[K] of int[N, 4]."""
    plug_in = quadruples.plug_in(np.bincount(quadruples.pattern(cells), minlength=81))
    return np.array([plug_in[key] for key in quadruples.KEYS])


def places(curve, *more):
    """Every breakpoint and a point of every open segment."""
    inner = np.append(curve.alphas, curve.alpha_max)
    return np.unique(np.concatenate([inner, (inner[1:] + inner[:-1]) / 2, np.array(more)]))


def test_equals_a_dense_grid_at_its_points():
    found = make(150)
    curve = alphas.curve(found)
    low, high = alphas.values(curve, GRID)
    brute = np.stack([metrics_of(fused_labels(found, a)) for a in GRID], axis=1)
    np.testing.assert_array_equal(low, brute)
    np.testing.assert_array_equal(high, brute)
    assert curve.exact_until == math.inf
    assert curve.alphas[0] == 0
    assert (np.diff(curve.alphas) > 0).all()
    assert curve.alphas[-1] <= 2


@given(margins())
@settings(max_examples=150, deadline=None)
def test_ties_zeros_and_duplicates_equal_the_definition_everywhere(found):
    curve = alphas.curve(found, alpha_max=2.0)
    for a in places(curve):
        low, high = alphas.values(curve, [a])
        cells = fused_labels(found, a)
        np.testing.assert_array_equal(alphas.labels(found, a), cells)
        np.testing.assert_array_equal(low[:, 0], metrics_of(cells))
        np.testing.assert_array_equal(high, low)
        loop = plain_loop.metrics([tuple(NAMES[v] for v in pair) for pair in cells.tolist()])
        for key, value in zip(quadruples.KEYS, low[:, 0]):
            expected = math.nan if loop[key] is None else loop[key]
            assert value == pytest.approx(expected, nan_ok=True), key


@given(margins(ends=exact_to, decoded=True))
@settings(max_examples=60, deadline=None)
def test_band_is_the_range_over_everything_that_unknown_rows_may_say(found):
    curve = alphas.curve(found, alpha_max=2.0)
    assert curve.exact_until == found.exact_to.min()
    linear = [quadruples.KEYS.index(k) for k in (*alphas.SELECTABLE, "recall", "yes_rate", "vs")]
    for a in places(curve):
        if a in found.decoded:
            cells = found.decoded[a]
            unknown = np.zeros(cells.shape, bool)
        else:
            cells = fused_labels(found, a)
            unknown = (a > found.exact_to) | (found.exact_to == 0)
        if unknown.sum() > 4:
            continue
        truths = []
        for answers in itertools.product((0, 1, 2), repeat=int(unknown.sum())):
            possible = cells.copy()
            possible[unknown] = answers
            truths.append(metrics_of(possible))
        truths = np.array(truths)
        low, high = (bound[:, 0] for bound in alphas.values(curve, [a]))
        assert not (low[None] > truths + 1e-9).any()
        assert not (high[None] < truths - 1e-9).any()
        np.testing.assert_allclose(low[linear], truths.min(0)[linear], atol=1e-9)
        np.testing.assert_allclose(high[linear], truths.max(0)[linear], atol=1e-9)
        if not unknown.any():
            np.testing.assert_array_equal(low, truths[0])
            np.testing.assert_array_equal(high, truths[0])


def test_exact_up_to_the_smallest_end_and_a_band_beyond():
    ends = np.full((40, 4), math.inf)
    ends[3, 1], ends[7, 0] = 0.75, 1.5
    found = make(40, ends=ends)
    curve = alphas.curve(found)
    low, high = alphas.values(curve, [0.75, 0.7500001, 1.5, 2.0])
    assert curve.exact_until == 0.75
    np.testing.assert_array_equal(low[:, 0], high[:, 0])
    yes = quadruples.KEYS.index("yes_rate")
    np.testing.assert_allclose((high - low)[yes], [0, 100 / 160, 100 / 160, 200 / 160])


def test_unparsed_rows_are_never_exact_but_decoded_answers_stand():
    found = make(5)
    ends = found.exact_to.copy()
    ends[2, 2] = 0
    cells = fused_labels(found, 0.0)
    cells[2, 2] = quadruples.UNPARSED
    found = alphas.Margins(
        base=found.base, contrast=found.contrast, exact_to=ends, decoded={0.0: cells}
    )
    curve = alphas.curve(found)
    yes = quadruples.KEYS.index("yes_rate")
    low, high = alphas.values(curve, [0.0, 1e-9])
    assert curve.exact_until == 0
    np.testing.assert_array_equal(low[:, 0], metrics_of(cells))
    np.testing.assert_allclose((high - low)[yes], [0, 5])


def test_identical_videos_do_not_depend_on_alpha():
    m = np.random.default_rng(2).normal(size=(30, 4))
    m[:, 2:] = m[:, :2]
    m[0] = 0
    found = alphas.Margins(base=m, contrast=m[:, [2, 3, 0, 1]], exact_to=np.full((30, 4), np.inf))
    curve = alphas.curve(found)
    assert curve.alphas.tolist() == [0]
    np.testing.assert_array_equal(curve.low[0, :, 0], metrics_of(fused_labels(found, 0)))


def test_c_tcd_answers_no_quadruple_at_a_large_alpha():
    m = np.random.default_rng(3).normal(size=(60, 4)).astype(np.float32)
    m[0] = [3, -1, -1, -1]  # equal for q-: stays right for ever
    found = alphas.Margins(base=m, contrast=m[:, [2, 3, 0, 1]], exact_to=np.full((60, 4), np.inf))
    cells = alphas.labels(found, 1e12)
    assert (cells[1:, 1] + cells[1:, 3] == 1).all()
    assert metrics_of(cells[1:])[0] == 0
    ranges = alphas.right_ranges(found)
    assert (ranges.low[0], ranges.high[0]) == (0, math.inf)
    assert not (ranges.high[1:] == math.inf).any()
    curve = alphas.curve(found.take(np.arange(1, 60)), alpha_max=1e9)
    assert curve.low[1, 0, -1] == 0


def test_swapping_the_videos_swaps_the_answers():
    m = np.random.default_rng(4).normal(size=(20, 4))
    swap, ends = [2, 3, 0, 1], np.full((20, 4), math.inf)
    one = alphas.Margins(base=m, contrast=m[:, swap], exact_to=ends)
    two = alphas.Margins(base=m[:, swap], contrast=m, exact_to=ends)
    for a in (0.0, 0.3, 1.7):
        np.testing.assert_array_equal(alphas.labels(one, a)[:, swap], alphas.labels(two, a))


@given(margins(ends=exact_to))
@settings(max_examples=150, deadline=None)
def test_each_quadruple_is_right_on_its_range_and_nowhere_else(found):
    ranges = alphas.right_ranges(found)
    np.testing.assert_array_equal(ranges.exact_to, found.exact_to.min(1))
    ends = np.concatenate([ranges.low, ranges.high])
    ends = np.unique(ends[np.isfinite(ends)])
    step = 1e-6
    for a in np.unique(np.concatenate([ends, ends + step, np.maximum(ends - step, 0), GRID[::50]])):
        right = (fused_labels(found, a) == [1, 0, 0, 0]).all(1)
        after = (a > ranges.low) | ((a == ranges.low) & ~ranges.low_open)
        before = (a < ranges.high) | ((a == ranges.high) & ~ranges.high_open)
        np.testing.assert_array_equal(after & before, right)


def brute_best(found, key, alpha_max):
    """Best value over every place, and the first α that has it."""
    curve = alphas.curve(found, alpha_max=alpha_max)
    where = places(curve)
    low, _ = alphas.values(curve, where)
    line = low[quadruples.KEYS.index(key)]
    return line.max(), where[np.argmax(line >= line.max() - 1e-9)]


@given(margins(ends=exact_to, decoded=True), st.sampled_from(alphas.SELECTABLE))
@settings(max_examples=150, deadline=None)
def test_best_alpha_has_the_best_value_and_the_lowest_stretch(found, key):
    scene = np.arange(len(found.base))
    best = alphas.best(found, scene, key, alpha_max=2.0, weights=np.ones((2, len(scene))))
    top, first = brute_best(found, key, 2.0)
    assert best.value == pytest.approx(top)
    assert best.low <= first <= best.high or best.low == pytest.approx(first)
    if best.alpha != 0:
        assert best.alpha == (best.low + best.high) / 2
    np.testing.assert_array_equal(best.replicates, best.alpha)
    reached = metrics_of(alphas.labels(found, best.alpha))[quadruples.KEYS.index(key)]
    assert reached == pytest.approx(top)


def test_best_alpha_of_a_resampling_is_that_of_its_pooled_pairs():
    found = make(60, seed=5)
    scene = np.sort(np.random.default_rng(5).integers(0, 12, 60))
    weights = bootstrap.draw_weights(12, replicates=25, seed=1)
    best = alphas.best(found, scene, "ba_acc", alpha_max=2.0, weights=weights)
    for row, alpha in zip(weights.astype(int), best.replicates):
        drawn = np.repeat(np.arange(60), row[scene])
        pooled = found.take(drawn)
        one = alphas.best(
            pooled, np.zeros(len(drawn), int), "ba_acc", alpha_max=2.0, weights=weights[:0, :1]
        )
        assert one.alpha == alpha
        assert one.replicates.shape == (0,)
    assert len(np.unique(best.replicates)) > 3


def test_no_contrast_is_chosen_where_it_brings_nothing():
    m = np.array([[1.0, -1, -1, -1]])
    found = alphas.Margins(base=m, contrast=m, exact_to=np.full((1, 4), np.inf))
    best = alphas.best(found, np.array([0]), "quad_acc", alpha_max=2.0, weights=np.ones((1, 1)))
    assert best[:4] == (0, 0, 2, 100)


def test_disagreements_count_known_rows_only():
    found = make(10)
    cells = fused_labels(found, 1.0)
    wrong = cells.copy()
    wrong[0] = 1 - wrong[0]
    ends = found.exact_to.copy()
    ends[0, :3] = 0.5
    for answers, count in ((cells, 0), (wrong, 1)):
        given_ = alphas.Margins(
            base=found.base, contrast=found.contrast, exact_to=ends, decoded={1.0: answers}
        )
        assert alphas.disagreements(given_) == count


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"base": np.zeros((2, 3))}, "base must have the shape"),
        ({"contrast": np.zeros((1, 4))}, "contrast must have the shape"),
        ({"base": np.full((2, 4), np.nan)}, "finite"),
        ({"exact_to": np.full((2, 4), -1.0)}, "exact_to"),
        ({"exact_to": np.full((2, 4), np.nan)}, "exact_to"),
        ({"decoded": {1.0: np.zeros((1, 4), int)}}, "decoded"),
        ({"decoded": {1.0: np.full((2, 4), 3)}}, "decoded"),
        ({"decoded": {-1.0: np.zeros((2, 4), int)}}, "decoded"),
    ],
)
def test_wrong_margins(change, words):
    good = {k: np.zeros((2, 4)) for k in ("base", "contrast", "exact_to")}
    with pytest.raises(ValueError, match=words):
        alphas.Margins(**good | change)


def test_wrong_questions():
    found, none = make(3), make(0)
    with pytest.raises(ValueError, match="no pair"):
        alphas.curve(none)
    with pytest.raises(ValueError, match="alpha_max"):
        alphas.curve(found, alpha_max=math.inf)
    with pytest.raises(ValueError, match="between 0 and"):
        alphas.values(alphas.curve(found), [2.1])
    with pytest.raises(ValueError, match="'mcc' must be one of quad_acc"):
        alphas.best(found, np.arange(3), "mcc", alpha_max=2.0, weights=np.ones((1, 3)))
