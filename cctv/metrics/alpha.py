"""Metrics as functions of the contrast strength α, from margins alone and without a grid.

With base margin m and contrast margin c the fused margin is (1+α)m − αc (paper, equation 16), a
line in α. So each cell changes its label at most once, at α* = m/(c − m), and sorting those places
gives the curve of every metric. That holds while Yes or No stays on top, up to a row's `exact_to`;
beyond, the row may say Yes, No or neither, and metrics have a lower and an upper bound.

Axes: N question pairs with the four CELLS of `quadruples`, K metrics (KEYS), B breakpoints, E
events (a cell that changes), S scenes, R replicates. A *place* is a breakpoint or the open segment
after it; places are numbered 0, 1, 2, 3, … along α.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cctv.metrics import quadruples

UNKNOWN = quadruples.UNPARSED  # beyond `exact_to`; counted as unparsed it gives the lower bound
# What a best α may be chosen by: means over pairs of which more is better.
SELECTABLE = (
    "quad_acc",
    "contr_q_pos",
    "reject_q_neg",
    "video_consistency",
    "contr_v_pos",
    "reject_v_neg",
    "question_consistency",
    "ba_acc",
    "accuracy",
)
_GOLD = quadruples.PATTERNS[quadruples.GOLD_PATTERN]
_DIGITS = np.array([27, 9, 3, 1])  # of a cell in its pattern
_FAILURES = ("pos_omiss", "pos_swap", "neg_hall", "me_viol", "unparsed_failed")
_CHUNK = 2**22  # elements of a replicates x events array held at once


@dataclass(frozen=True, kw_only=True)
class Margins:
    """What one contrastive method said about N complete pairs.

    base, contrast: float[N, 4] z_yes − z_no of each branch, finite. exact_to: float[N, 4] ≥ 0, the
    largest α up to which Yes or No wins; inf = for ever, 0 = never, not even at α = 0. decoded: the
    answers at the α where the model was run, int[N, 4] values of `quadruples`; they stand there
    instead of the algebra's. ValueError for other shapes or values.
    """

    base: np.ndarray
    contrast: np.ndarray
    exact_to: np.ndarray
    decoded: Mapping[float, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        shape = (len(self.base), 4)
        for name in ("base", "contrast", "exact_to"):
            values = np.asarray(getattr(self, name), np.float64)
            if values.shape != shape:
                raise ValueError(f"{name} must have the shape {shape}, got {values.shape}")
            object.__setattr__(self, name, values)
        if not (np.isfinite(self.base).all() and np.isfinite(self.contrast).all()):
            raise ValueError("margins must be finite")
        if not (self.exact_to >= 0).all():
            raise ValueError("exact_to must be at least 0, inf where it is for ever")
        for alpha, cells in self.decoded.items():
            if not alpha >= 0 or np.shape(cells) != shape or not np.isin(cells, (0, 1, 2)).all():
                raise ValueError(f"decoded[{alpha}] must be answers of the shape {shape}")

    def take(self, pairs: np.ndarray) -> "Margins":
        """Those of some pairs: bool[N] or int[n]."""
        return Margins(
            base=self.base[pairs],
            contrast=self.contrast[pairs],
            exact_to=self.exact_to[pairs],
            decoded={alpha: cells[pairs] for alpha, cells in self.decoded.items()},
        )

    @property
    def exact_until(self) -> float:
        """The largest α up to which every label is known; inf = for ever."""
        return float(self.exact_to.min(initial=np.inf))


class Curve(NamedTuple):
    """Bounds of every metric over [0, alpha_max] as step functions; equal where it is exact.

    low[0], high[0] hold at the breakpoints, low[1], high[1] on the open segment after each, the
    last of which ends with alpha_max included. NaN where undefined. The bounds can't be narrower
    for sums over pairs; for ratios (failure rates, vri, gvrs) they may be wider than need be.
    """

    alphas: np.ndarray  # float64[B], ascending from 0
    low: np.ndarray  # float64[2, K, B]
    high: np.ndarray
    exact_until: float
    alpha_max: float


class Ranges(NamedTuple):
    """The α at which each quadruple is right, one interval; NaN ends where it never is.

    Fields [N]: low and high float64 (inf = for ever), low_open and high_open bool, exact_to
    float64: the interval says nothing beyond.
    """

    low: np.ndarray
    high: np.ndarray
    low_open: np.ndarray
    high_open: np.ndarray
    exact_to: np.ndarray


class Best(NamedTuple):
    """A chosen α, the stretch [low, high] on which the metric is as good, and its value there."""

    alpha: float
    low: float
    high: float
    value: float  # percent; the lower bound where it is not exact
    replicates: np.ndarray  # float64[R], the α that each resampling of the scenes would choose


class _Flips(NamedTuple):
    """[N, 4] each: the label at α = 0, where it changes (inf = nowhere), and whether it still has
    its first label there: a margin of 0 is No, so No → Yes changes after α*, Yes → No at α*."""

    first: np.ndarray
    alpha: np.ndarray
    after: np.ndarray


class _Events(NamedTuple):
    """Changes of the pairs' states, by place. A state is a pattern with 2 = unknown, or 81 + a
    decoded pattern, whose 2 is unparsed."""

    alphas: np.ndarray  # float64[B]
    start: np.ndarray  # int[N], states before any event
    place: np.ndarray  # int[E], ascending
    pair: np.ndarray  # int[E]
    old: np.ndarray  # int[E]
    new: np.ndarray  # int[E]


def _bounds() -> tuple[np.ndarray, np.ndarray]:
    """Least and most of each count over the answers that a state leaves open, int64[162, C + 5].

    The columns are CONDITIONS, then the failed pairs without each of _FAILURES."""
    names = list(quadruples.CONDITIONS)
    matrix = quadruples.CONDITION_MATRIX
    failed = matrix[:, [names.index("failed")]]
    matrix = np.hstack([matrix, failed - matrix[:, [names.index(key) for key in _FAILURES]]])
    asked, given = quadruples.PATTERNS[:, None], quadruples.PATTERNS[None]
    possible = ((asked == UNKNOWN) | (asked == given)).all(-1)[..., None]  # [81, 81, 1]
    least = np.where(possible, matrix, matrix.max()).min(1)
    most = np.where(possible, matrix, 0).max(1)
    return np.vstack([least, matrix]), np.vstack([most, matrix])


_LEAST, _MOST = _bounds()
_WORSE = np.isin(list(quadruples.CONDITIONS), ("fp", "failed"))  # counts that lower a metric


def _flips(margins: Margins) -> _Flips:
    m, slope = margins.base, margins.base - margins.contrast
    first = m > 0
    turns = np.where(first, slope < 0, slope > 0)
    with np.errstate(over="ignore"):  # α* beyond any float is nowhere
        alpha = np.where(turns, -m / np.where(turns, slope, 1), np.inf)
    return _Flips(first.astype(np.int64), alpha + 0.0, ~first)


def labels(margins: Margins, alpha: float) -> np.ndarray:
    """The answers at one α, int[N, 4] values of `quadruples`: decoded ones where the model was run
    there, else from the margins, with UNKNOWN beyond the exact range."""
    if alpha in margins.decoded:
        return np.asarray(margins.decoded[alpha], np.int64)
    return _algebraic(margins, alpha)


def _algebraic(margins: Margins, alpha: float) -> np.ndarray:
    flips = _flips(margins)
    changed = (alpha > flips.alpha) | ((alpha == flips.alpha) & ~flips.after)
    return np.where(is_unknown(margins, alpha), UNKNOWN, flips.first ^ changed)


def is_unknown(margins: Margins, alpha: float) -> np.ndarray:
    """Whether α lies beyond what the margins can say, bool[N, 4]."""
    return (alpha > margins.exact_to) | (margins.exact_to == 0)


def disagreements(margins: Margins) -> int:
    """Decoded answers inside the exact range that the algebra gives otherwise: near-ties, which
    rounding decides. More than a few mean that margins and answers don't belong together."""
    total = 0
    for alpha, cells in margins.decoded.items():
        known = ~is_unknown(margins, alpha)
        total += int((known & (_algebraic(margins, alpha) != cells)).sum())
    return total


def right_ranges(margins: Margins) -> Ranges:
    """Where each quadruple is right (Yes, No, No, No), from the margins alone."""
    flips = _flips(margins)
    begins_right = flips.first == _GOLD
    low = np.where(begins_right, 0.0, flips.alpha)  # [N, 4]
    low_open = ~begins_right & flips.after
    high = np.where(begins_right, flips.alpha, np.inf)
    high_open = begins_right & ~flips.after
    lowest, highest = low.max(1), high.min(1)
    low_open = ((low == lowest[:, None]) & low_open).any(1)
    high_open = ((high == highest[:, None]) & high_open).any(1) & np.isfinite(highest)
    never = np.isinf(lowest) | (lowest > highest)
    never |= (lowest == highest) & (low_open | high_open)
    ends = [np.where(never, np.nan, end) for end in (lowest, highest)]
    return Ranges(*ends, low_open & ~never, high_open & ~never, margins.exact_to.min(1))


def _events(margins: Margins, alpha_max: float) -> _Events:
    flips = _flips(margins)
    n = len(margins.base)
    given = sorted(float(a) for a in margins.decoded if a <= alpha_max)
    ends = margins.exact_to
    # A flip beyond the exact range is never seen. At its end it is: the range is closed.
    seen = (flips.alpha <= alpha_max) & (flips.alpha <= ends)
    seen &= ~(flips.after & (flips.alpha == ends))
    lost = (ends < alpha_max) & (ends > 0)
    inner = [flips.alpha[seen], ends[lost], np.array([0.0, *given])]
    alphas = np.unique(np.concatenate(inner))
    never = 2 * len(alphas)
    at = np.where(seen, 2 * np.searchsorted(alphas, flips.alpha) + flips.after, never)
    gone = np.where(lost, 2 * np.searchsorted(alphas, ends) + 1, never)
    first = np.where(ends == 0, UNKNOWN, flips.first)
    step = np.where(seen, 1 - 2 * flips.first, 0)
    steps = np.hstack([step, UNKNOWN - (flips.first + step)]) * np.tile(_DIGITS, 2)  # [N, 8]
    place = np.hstack([at, gone])
    order = np.argsort(place, axis=1)
    place, steps = (np.take_along_axis(a, order, 1) for a in (place, steps))
    start = first @ _DIGITS
    new = start[:, None] + np.cumsum(steps, 1)
    kept = place < never
    columns = [[place[kept], np.nonzero(kept)[0], (new - steps)[kept], new[kept]]]
    for alpha in given:
        here = 2 * np.searchsorted(alphas, alpha)
        usual = _algebraic(margins, alpha) @ _DIGITS
        known = 81 + quadruples.pattern(margins.decoded[alpha])
        columns.append([np.full(n, here), np.arange(n), usual, known])
        columns.append([np.full(n, here + 1), np.arange(n), known, usual])
    place, pair, old, new = (np.concatenate(c) for c in zip(*columns))
    order = np.argsort(place, kind="stable")
    return _Events(alphas, start, place[order], pair[order], old[order], new[order])


def _last_of_each(place: np.ndarray) -> np.ndarray:
    """Indices of the last of equal neighbours, int[P], of ascending int[E]."""
    return np.flatnonzero(np.append(place[1:] != place[:-1], True))


def curve(margins: Margins, *, alpha_max: float = 2.0) -> Curve:
    """The curve of every metric over α ∈ [0, alpha_max]. ValueError without pairs."""
    _check(margins, alpha_max)
    events = _events(margins, alpha_max)
    place = np.append(0, events.place)
    last = _last_of_each(place)

    def counts(matrix):  # [C, P] at the places where something changes
        changes = matrix[events.new] - matrix[events.old]
        total = np.vstack([matrix[events.start].sum(0), changes]).cumsum(0)
        return total[last].T.astype(np.float64)

    least, most = counts(_LEAST), counts(_MOST)
    exact = np.array_equal(least, most)
    bounds = [_metrics(least, most)]
    bounds.append(bounds[0] if exact else _metrics(most, least))
    all_places = np.arange(2 * len(events.alphas)).reshape(-1, 2).T  # [2, B]
    pick = np.searchsorted(place[last], all_places, side="right") - 1
    low, high = (np.moveaxis(values[:, pick], 1, 0) for values in bounds)  # [2, K, B]
    return Curve(events.alphas, low, high, margins.exact_until, float(alpha_max))


def _check(margins: Margins, alpha_max: float) -> None:
    if not len(margins.base):
        raise ValueError("no pair is complete: there is nothing to draw a curve of")
    if not (np.isfinite(alpha_max) and alpha_max > 0):
        raise ValueError(f"alpha_max must be a positive number, got {alpha_max}")


def _metrics(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """One bound of all metrics, float64[K, P], from both bounds of the counts [C + 5, P].

    Lower ones come from (least, most), upper ones from (most, least). Every metric but those below
    rises with all counts that are not _WORSE and falls with those, and in ratios X/(X+Y) it is
    least at the least X and the most Y."""
    n_conditions = len(_WORSE)
    corner = np.where(_WORSE[:, None], there[:n_conditions], here[:n_conditions])
    found = quadruples.formulas(corner)
    names = list(quadruples.CONDITIONS)
    parts = [(key, here[names.index(key)], there[n_conditions + i])
             for i, key in enumerate(_FAILURES)]  # fmt: skip
    parts.append(("vri", here[names.index("vs")], there[names.index("qs")]))
    for key, part, rest in parts:
        whole = part + rest
        found[key] = 100 * np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)
    return np.stack([found[key] for key in quadruples.KEYS])


def values(found: Curve, alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound of every metric at any α in [0, alpha_max]: float[n] -> float64[K, n]
    twice. ValueError for an α outside."""
    alphas = np.asarray(alphas, np.float64)
    if not ((alphas >= 0) & (alphas <= found.alpha_max)).all():
        raise ValueError(f"α must lie between 0 and {found.alpha_max}")
    i = np.searchsorted(found.alphas, alphas, side="right") - 1
    side = (alphas != found.alphas[i]).astype(int)
    return found.low[side, :, i].T, found.high[side, :, i].T


def best(
    margins: Margins, scene: np.ndarray, key: str, *, alpha_max: float, weights: np.ndarray
) -> Best:
    """The α in [0, alpha_max] at which metric `key` (one of SELECTABLE) is highest.

    Among equals the stretch of the lowest α wins: 0 if it begins there, as then no contrast is
    needed, else its middle. Labels beyond the exact range count as wrong. scene: int[N] in 0..S−1;
    weights: float[R, S] how often each scene was drawn (`bootstrap.draw_weights`).
    """
    _check(margins, alpha_max)
    if key not in SELECTABLE:
        raise ValueError(f"metric {key!r} must be one of {', '.join(SELECTABLE)}")
    events = _events(margins, alpha_max)
    # A pair's value is a multiple of 1/12, so that integers tell which α is best.
    lower = quadruples.formulas(
        np.where(_WORSE, _MOST[:, : len(_WORSE)], _LEAST[:, : len(_WORSE)]).T
    )
    score = np.rint(0.12 * lower[key])  # [162]
    change = score[events.new] - score[events.old]
    moves = np.flatnonzero(change)
    place = np.append(0, events.place[moves])
    last = _last_of_each(place)
    ends = np.append(events.alphas[place[last] // 2], alpha_max)
    owner = scene[events.pair[moves]]

    def stretches(drawn):  # float[r, S] -> first and last α of the best stretch, float[r] each
        gains = drawn[:, owner].astype(np.float64) * change[moves]
        total = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), 1)[:, last]  # [r, P], up to a constant
        top = total == total.max(1, keepdims=True)
        begin = top.argmax(1)
        over = ~top & (np.arange(len(last)) > begin[:, None])
        end = np.where(over.any(1), over.argmax(1), len(last))
        return ends[begin], ends[end], begin == 0

    def chosen(low, high, at_zero):
        return np.where(at_zero, 0.0, (low + high) / 2)

    low, high, at_zero = stretches(np.ones((1, int(scene.max()) + 1)))
    alpha = float(chosen(low, high, at_zero)[0])
    rows = max(1, _CHUNK // (len(moves) + 1))
    parts = [weights[i : i + rows] for i in range(0, len(weights), rows)]
    replicates = [chosen(*stretches(part)) for part in parts]
    pooled = np.bincount(_state_at(margins, alpha), minlength=162)
    value = float(pooled @ lower[key]) / len(margins.base)
    return Best(
        alpha, float(low[0]), float(high[0]), value, np.concatenate([np.zeros(0), *replicates])
    )


def _state_at(margins: Margins, alpha: float) -> np.ndarray:
    return quadruples.pattern(labels(margins, alpha)) + 81 * (alpha in margins.decoded)
