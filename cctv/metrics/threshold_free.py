"""What margins say whatever the threshold: ranking, calibration, abstention, the best threshold.

A cell says Yes if its margin m = z_yes − z_no is above a threshold t; greedy decoding has t = 0. Is
a low QuadAcc blindness (no threshold helps) or only a biased threshold? Each scene has one positive
cell to three negatives a pair. A contrastive system's margins are its fused ones.

Everything is recomputed in each replicate of the scene bootstrap from how often a scene was drawn,
so that w copies of a cell count as w cells of equal margin, and ties are shared fairly. Axes: N
pairs with the four CELLS of `quadruples`, S scenes, R weightings, B bins, K folds.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cctv.metrics import bootstrap

BINS = 10  # of the reliability diagram, equally wide
FOLDS = 10  # or as many as there are scenes
COVERAGES = np.arange(5, 101, 5)  # percent, where the risk is reported
QUANTILES = np.arange(0, 101, 5)  # percent, of the quadruple margin
CHOSEN_BY = ("quad_acc", "ba_acc")  # what a threshold is chosen by, and reported in
_CHUNK = 2**17  # elements of a weightings x cells array at once: what a cache holds


class Risk(NamedTuple):
    """Percent wrong among the most confident, at COVERAGES, and its mean over all coverages."""

    curve: bootstrap.Interval  # [len(COVERAGES)]
    area: bootstrap.Interval


class Reliability(NamedTuple):
    """Cells by their probability of Yes, in BINS bins; percent, NaN in an empty bin."""

    cells: np.ndarray  # int[B]
    probability: np.ndarray  # float[B], mean of sigmoid(m)
    yes: bootstrap.Interval  # [B], share whose gold answer is Yes


class Threshold(NamedTuple):
    """A metric at t = 0 and at thresholds that were each chosen on the scenes of other folds.

    The intervals take the chosen thresholds as given.
    """

    thresholds: np.ndarray  # float[K], the one that each fold was answered with
    at_zero: bootstrap.Interval
    held_out: bootstrap.Interval
    difference: bootstrap.Interval  # held_out - at_zero, paired


class ThresholdFree(NamedTuple):
    """Percent, but for the quadruple margin, which is in logits."""

    auroc: bootstrap.Interval
    average_precision: bootstrap.Interval
    ece: bootstrap.Interval  # expected calibration error of sigmoid(m)
    reliability: Reliability
    answers: Risk  # of cells, confidence |m|
    quadruples: Risk  # of pairs, confidence the smallest |m| of the four
    ordered: bootstrap.Interval  # pairs that some threshold of their own gets right; by chance 25
    quadruple_margin: bootstrap.Interval  # mean
    margin_quantiles: np.ndarray  # float[len(QUANTILES)]
    thresholds: dict[str, Threshold | None]  # by CHOSEN_BY; None with one scene only


def analyse(
    margins: np.ndarray, scene: np.ndarray, weights: np.ndarray, *, seed: int = 0
) -> ThresholdFree:
    """All of it from finite margins float[N, 4], N >= 1, of the scenes int[N] in 0..S−1, each with
    a pair; weights float[R, S] from `bootstrap.draw_weights`; the seed deals scenes into folds.

    ValueError for margins that are NaN or infinite, other shapes, or no pair.
    """
    margins = np.asarray(margins, np.float64)
    if margins.shape != (len(scene), 4) or not len(scene):
        raise ValueError(f"margins must be [N, 4] with N >= 1, got {margins.shape}")
    if not np.isfinite(margins).all():
        raise ValueError("margins must be finite; leave out pairs that lack one")
    weights = np.concatenate([np.ones_like(weights[:1]), weights]).astype(np.float64)
    ranking = over_chunks(weights, 4 * len(scene), lambda w: ranked(margins, scene, w))
    reliable, ece = calibration(margins, scene, weights)
    quadruple = quadruple_margin(margins)
    cells = margins.ravel()
    right = (margins > 0) == _GOLD
    ordered = margins[:, 0] > margins[:, 1:].max(1)
    return ThresholdFree(
        auroc=_interval(ranking[0]),
        average_precision=_interval(ranking[1]),
        ece=_interval(ece),
        reliability=reliable,
        answers=_risk(np.abs(cells), ~right.ravel(), np.repeat(scene, 4), weights),
        quadruples=_risk(np.abs(margins).min(1), ~right.all(1), scene, weights),
        ordered=_interval(100 * mean(ordered, scene, weights)),
        quadruple_margin=_interval(mean(quadruple, scene, weights)),
        margin_quantiles=np.quantile(quadruple, QUANTILES / 100),
        thresholds={k: _cross_validated(margins, scene, weights, k, seed) for k in CHOSEN_BY},
    )


_GOLD = np.array([True, False, False, False])


def quadruple_margin(margins: np.ndarray) -> np.ndarray:
    """min(m++, −m+-, −m-+, −m--), float[..., 4] -> float[...]: above 0 the quadruple is right, and
    the smallest change of a logit that would flip it."""
    return np.minimum(margins[..., 0], -margins[..., 1:].max(-1))


def over_chunks(weights: np.ndarray, n: int, of: Callable) -> np.ndarray:
    """of(weights[r, S]) -> float[..., r], in parts of few enough rows that r * n stays small."""
    rows = max(1, _CHUNK // n)
    parts = [of(weights[i : i + rows]) for i in range(0, len(weights), rows)]
    return np.concatenate(parts, axis=-1)


def ranked(margins: np.ndarray, scene: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """AUROC and average precision of each weighting in percent, float[2, R].

    AUROC is the chance that a positive cell's margin is above a negative's, ties half. Average
    precision is the sum over distinct margins of the recall gained there times the precision.
    """
    positive, place = np.unique(margins[:, 0], return_inverse=True)  # [D]
    owner = np.repeat(scene, 3)
    negative = margins[:, 1:].ravel()
    order = np.argsort(negative)
    hits = _sums(weights[:, scene[np.argsort(place, kind="stable")]], np.bincount(place))  # [R, D]
    below = _from_zero(np.cumsum(weights[:, owner[order]], axis=1))  # [R, 3N + 1]
    under = below[:, np.searchsorted(negative[order], positive, side="left")]
    upto = below[:, np.searchsorted(negative[order], positive, side="right")]
    total, others = hits.sum(1), below[:, -1]
    auroc = (hits * (under + upto)).sum(1) / (2 * total * others)
    found = np.cumsum(hits[:, ::-1], axis=1)[:, ::-1]  # positives at least as high
    said = found + others[:, None] - under
    precision = np.divide(found, said, out=np.zeros_like(found), where=said > 0)
    return 100 * np.stack([auroc, (hits * precision).sum(1) / total])


def calibration(
    margins: np.ndarray, scene: np.ndarray, weights: np.ndarray
) -> tuple[Reliability, np.ndarray]:
    """The reliability diagram, and the expected calibration error of each weighting, float[R].

    The error is sum over bins of (cells in the bin / all) * |mean probability − share of Yes|.
    A plug-in ECE is never 0 by chance alone, and resampling adds to it: its bootstrap mean lies
    above its value.
    """
    probability = expit(margins)  # [N, 4]
    at = np.minimum((BINS * probability).astype(int), BINS - 1)
    place = np.repeat(scene, 4) * BINS + at.ravel()
    gold = np.broadcast_to(_GOLD, margins.shape)

    def sums(values):  # float[N, 4] -> [R, B]
        size = weights.shape[1] * BINS
        each = np.bincount(place, weights=values.ravel().astype(float), minlength=size)
        return weights @ each.reshape(-1, BINS)

    cells, expected, yes = (sums(v) for v in (np.ones_like(margins), probability, gold))
    error = 100 * np.abs(expected - yes).sum(1) / cells.sum(1)
    share = [np.divide(100 * a, cells, out=np.full_like(cells, np.nan), where=cells > 0)
             for a in (expected, yes)]  # fmt: skip
    found = Reliability(cells[0].astype(int), share[0][0], _interval(share[1].T))
    return found, error


def _risk(
    confidence: np.ndarray, wrong: np.ndarray, owner: np.ndarray, weights: np.ndarray
) -> Risk:
    found = over_chunks(weights, len(wrong), lambda w: risk(confidence, wrong, owner, w))
    return Risk(_interval(found[:-1]), _interval(found[-1]))


def risk(
    confidence: np.ndarray, wrong: np.ndarray, owner: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The risk–coverage curve of each weighting in percent, float[len(COVERAGES) + 1, R]; the last
    is its area.

    Of n items (confidence float[I], wrong bool[I], of the scenes int[I]) the k most confident are
    answered, those of equal confidence in random order; the risk is the expected share of wrong
    ones among them, and the area its mean over k = 1..n. COVERAGES between two k are interpolated
    in the number of wrong ones.
    """
    _, place = np.unique(-confidence, return_inverse=True)
    order, sizes = np.argsort(place, kind="stable"), np.bincount(place)
    drawn = weights[:, owner[order]]
    size, lost = _sums(drawn, sizes), _sums(drawn * wrong[order], sizes)  # [R, D], D confidences
    ends, errors = np.cumsum(size, axis=1), np.cumsum(lost, axis=1)
    n = ends[:, -1].astype(int)
    # A wrong item at place k costs 1/k + ... + 1/n of the area: with harmonic numbers H and their
    # sums G(k) = H(0) + ... + H(k - 1), all at places k0+1..k1 cost (k1 - k0) H(n) - G(k1) + G(k0).
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n.max() + 1))])
    sums = np.concatenate([[0.0], np.cumsum(harmonic)])
    span = np.diff(sums[ends.astype(int)], axis=1, prepend=0)
    share = np.divide(lost, size, out=np.zeros_like(lost), where=size > 0)
    area = (errors[:, -1] * harmonic[n] - (share * span).sum(1)) / n
    at = COVERAGES / 100 * n[:, None]
    curve = [np.interp(*line) for line in zip(at, _from_zero(ends), _from_zero(errors))]
    return 100 * np.concatenate([(np.array(curve) / at).T, area[None]])


def _sums(drawn: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Sums over consecutive parts of the last axis, float[R, I] -> float[R, parts]."""
    if len(sizes) == drawn.shape[1]:  # no ties
        return drawn
    return np.add.reduceat(drawn, np.cumsum(sizes) - sizes, axis=1)


def _from_zero(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((len(values), 1)), values], axis=1)


def best_threshold(margins: np.ndarray, key: str) -> float:
    """The threshold with the highest quad_acc or ba_acc over the pairs float[N, 4].

    Of each stretch of equally good thresholds 0 is taken where it lies inside, else the middle (1
    beyond the last margin where it has no end); of those the one nearest to 0, below 0 first. 0
    where no threshold gets any quadruple right.
    """
    if key == "quad_acc":  # right for t in [the highest other, m++)
        low, high = margins[:, 1:].max(1), margins[:, 0]
        can = low < high
        places = np.concatenate([low[can], high[can]])
        change = np.repeat([1, -1], can.sum())
    else:  # a positive cell is right for t < m, a negative for t >= m; 3 negatives weigh as 1
        places = margins.ravel()
        change = np.tile([-3, 1, 1, 1], len(margins))
    if not len(places):
        return 0.0
    places, index = np.unique(places, return_inverse=True)
    change = np.bincount(index, weights=change)
    places, change = places[change != 0], change[change != 0]
    score = np.concatenate([[0], np.cumsum(change)])
    starts, ends = np.concatenate([[-np.inf], places]), np.concatenate([places, [np.inf]])
    best = score == score.max()
    starts, ends = starts[best], ends[best]
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(starts), ends - 1, np.where(np.isinf(ends), starts + 1,
                          starts + (ends - starts) / 2))  # fmt: skip
    chosen = np.where((starts <= 0) & (ends > 0), 0.0, middle)
    return float(chosen[np.argmin(np.abs(chosen))])


def folds(n_scenes: int, *, seed: int) -> Iterator[np.ndarray]:
    """The scenes of each of min(FOLDS, S) folds, int[...]: equally many to one, at random."""
    order = np.random.Generator(np.random.PCG64([seed, 3])).permutation(n_scenes)
    for k in range(min(FOLDS, n_scenes)):
        yield order[k::FOLDS]


def _cross_validated(
    margins: np.ndarray, scene: np.ndarray, weights: np.ndarray, key: str, seed: int
) -> Threshold | None:
    n_scenes = weights.shape[1]
    if n_scenes < 2:
        return None
    used, chosen = np.zeros(len(scene)), []
    for held_out in folds(n_scenes, seed=seed):
        inside = np.isin(scene, held_out)
        chosen.append(best_threshold(margins[~inside], key))
        used[inside] = chosen[-1]
    at_zero, there = (_score(margins, t, key) for t in (np.zeros(len(scene)), used))
    zero, held = (100 * mean(values, scene, weights) for values in (at_zero, there))
    return Threshold(np.array(chosen), _interval(zero), _interval(held), _interval(held - zero))


def _score(margins: np.ndarray, thresholds: np.ndarray, key: str) -> np.ndarray:
    """What each pair adds to the metric, float[N], at a threshold for each, float[N]."""
    right = (margins > thresholds[:, None]) == _GOLD
    return right.all(1).astype(float) if key == "quad_acc" else right @ np.array([3, 1, 1, 1]) / 6


def mean(values: np.ndarray, scene: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean over the pairs of each weighting, float[R], from float[N]."""
    n_scenes = weights.shape[1]
    total = np.bincount(scene, weights=values, minlength=n_scenes)
    return (weights @ total) / (weights @ np.bincount(scene, minlength=n_scenes))


def _interval(found: np.ndarray) -> bootstrap.Interval:
    """From float[..., 1 + R], of which the first is the plug-in value."""
    return bootstrap.summarise(found[..., 0], found[..., 1:])
