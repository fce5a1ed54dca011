"""Systems on the same pairs: differences, permutation tests, ranks, and what clustering costs.

Everything starts from int[Y, S, P] histograms: Y systems, S scenes, P answer patterns; further axes
are R replicates, M permutations, K metrics, C conditions. A scene is the unit: its pairs share two
videos, so they are resampled, and exchanged between systems, together.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cctv.metrics import bootstrap, quadruples

# Shares of failures, where the lowest is ranked first; of all others the highest.
LOWEST_FIRST = ("pos_omiss", "pos_swap", "neg_hall", "me_viol", "unparsed_failed")
Z_95, Z_POWER_80 = 1.959963984540054, 0.8416212335729143
_TIE = 1e-9  # float64 values of equal counts differ by less, values of other counts by more


class Difference(NamedTuple):
    """metric(a) - metric(b) over the same scenes; NaN where undefined."""

    a: int
    b: int
    metric: str
    interval: bootstrap.Interval  # paired scene bootstrap
    p: float  # paired permutation test, two-sided
    p_holm_metrics: float  # Holm's, over the metrics of these two systems
    p_holm_systems: float  # Holm's, over the pairs of systems in this metric
    detectable: float  # difference found with power 80 % at 5 % on as many scenes; x needs
    # (detectable / x)**2 times as many


class Ranking(NamedTuple):
    """float[Y, Y]: share of replicates in which each system has each rank; ties share theirs."""

    shares: np.ndarray
    n_undefined: int  # replicates left out, in which the metric of some system is undefined


class Spread(NamedTuple):
    """One metric of one system, as uncertain as three views of the same answers make it."""

    scene: bootstrap.Interval  # scenes drawn: what the data are
    pair: bootstrap.Interval  # pairs drawn, as if those of a scene were unrelated
    iid: tuple[float, float]  # low, high: normal approximation for unrelated pairs
    design_effect: float  # variance over scenes / variance of unrelated pairs; NaN if that is 0


class Comparison(NamedTuple):
    differences: list[Difference]
    rankings: dict[str, Ranking]
    spreads: list[dict[str, Spread]]  # of each system, by metric


def compare(
    histograms: np.ndarray,
    *,
    metrics: Sequence[str] = quadruples.KEYS,
    replicates: int = 2000,
    permutations: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """All comparisons of Y >= 2 systems, int[Y, S, P], on the same pairs of S >= 1 scenes.

    ValueError for an unknown metric, or systems that don't have equally many pairs in each scene.
    """
    unknown = [key for key in metrics if key not in quadruples.KEYS]
    if unknown:
        raise ValueError(f"unknown metric {unknown[0]!r}; one of {', '.join(quadruples.KEYS)}")
    sizes = histograms.sum(-1)
    if len(histograms) < 2 or not sizes.size or (sizes != sizes[0]).any() or not sizes[0].all():
        raise ValueError("needs two systems or more with the same pairs, some in each scene")
    chosen = [quadruples.KEYS.index(key) for key in metrics]
    plug_in = quadruples.plug_in(histograms.sum(-2))
    value = np.stack([plug_in[key] for key in metrics])  # [K, Y]
    weights = bootstrap.draw_weights(sizes.shape[1], replicates=replicates, seed=seed)
    drawn = quadruples.replicate_metrics(weights, histograms)[chosen]  # [K, Y, R]
    sides = list(itertools.combinations(range(len(histograms)), 2))
    p = permutation_test(histograms, sides, metrics, permutations=permutations, seed=seed)  # [K, X]
    over_systems = np.stack([holm(line) for line in p])
    over_metrics = np.stack([holm(line) for line in p.T], axis=1)
    differences = []
    for x, (a, b) in enumerate(sides):
        gap = drawn[:, a] - drawn[:, b]  # [K, R]
        found = bootstrap.summarise(value[:, a] - value[:, b], gap)
        detectable = (Z_95 + Z_POWER_80) * np.sqrt(_variance(gap))
        differences += [
            Difference(a, b, key, bootstrap.Interval(*(field[k] for field in found)), p[k, x],
                       over_metrics[k, x], over_systems[k, x], detectable[k])
            for k, key in enumerate(metrics)
        ]  # fmt: skip
    rankings = {
        key: rank(-drawn[k] if key in LOWEST_FIRST else drawn[k]) for k, key in enumerate(metrics)
    }
    return Comparison(differences, rankings, _spreads(histograms, metrics, drawn, seed=seed))


def permutation_test(
    histograms: np.ndarray,
    sides: Sequence[tuple[int, int]],
    metrics: Sequence[str],
    *,
    permutations: int,
    seed: int,
) -> np.ndarray:
    """Two-sided p-values float[K, X] of X pairs of systems, paired by scene.

    If two systems were alike, each scene's two histograms could as well be exchanged: exchange each
    with chance 1/2, recompute the metric of both, and count how often the difference is at least as
    large as the one found; p = (1 + count) / (1 + M). A permutation that leaves the metric
    undefined counts, so p errs upwards; p is NaN where the difference itself is undefined.
    """
    counts = histograms.astype(np.float64) @ quadruples.CONDITION_MATRIX  # [Y, S, C]
    n_systems, n_scenes, n_conditions = counts.shape
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    exchanged = generator.integers(0, 2, size=(permutations, n_scenes)).astype(np.float64)
    # Sums of integers far below 2**53: exact, the same on every machine.
    flat = counts.transpose(1, 0, 2).reshape(n_scenes, -1)
    moved = (exchanged @ flat).reshape(permutations, n_systems, n_conditions)
    total = counts.sum(1)  # [Y, C]
    p = np.empty((len(metrics), len(sides)))
    for x, (a, b) in enumerate(sides):
        to_b = moved[:, a] - moved[:, b]  # [M, C]
        both = np.stack([total[a] - to_b, total[b] + to_b], axis=1)  # [M, 2, C]
        both = np.concatenate([total[[a, b]][None], both])  # the systems as they are come first
        found = quadruples.formulas(np.moveaxis(both, -1, 0))
        for k, key in enumerate(metrics):
            gap = np.abs(found[key][:, 0] - found[key][:, 1])
            as_large = ~(gap[1:] < gap[0] - _TIE)
            p[k, x] = np.nan if np.isnan(gap[0]) else (1 + as_large.sum()) / (1 + permutations)
    return p


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of p-values float[N]; NaN is no test and stays NaN."""
    order = np.argsort(p, kind="stable")  # NaN last
    n = int((~np.isnan(p)).sum())
    steps = p[order[:n]] * np.arange(n, 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[order[:n]] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def rank(values: np.ndarray) -> Ranking:
    """How often each of Y systems has each rank, the highest value first, from float[Y, R].

    Of n equal systems each has each of their n ranks to 1/n, so rows and columns sum to 1.
    """
    undefined = np.isnan(values).any(0)
    values, n_undefined = values[:, ~undefined], int(undefined.sum())
    n_systems = len(values)
    if not values.size:
        return Ranking(np.full((n_systems, n_systems), np.nan), n_undefined)
    gap = values[None] - values[:, None]  # [Y, Y, R]: the other's minus one's own
    better, equal = (gap > _TIE).sum(1), (np.abs(gap) <= _TIE).sum(1)  # [Y, R]
    at = np.arange(n_systems)[:, None, None]
    shares = (((better <= at) & (at < better + equal)) / equal).mean(-1)  # [rank, Y]
    return Ranking(shares.T, n_undefined)


def _variance(replicates: np.ndarray) -> np.ndarray:
    """Variance over the last axis, undefined replicates left out; NaN with less than two."""
    there = ~np.isnan(replicates)
    n = there.sum(-1)
    mean = np.where(there, replicates, 0).sum(-1) / np.maximum(n, 1)
    squares = np.where(there, replicates - mean[..., None], 0) ** 2
    return np.where(n > 1, squares.sum(-1) / np.maximum(n - 1, 1), np.nan)


def _spreads(
    histograms: np.ndarray, metrics: Sequence[str], drawn: np.ndarray, *, seed: int
) -> list[dict[str, Spread]]:
    generator = np.random.Generator(np.random.PCG64([seed, 2]))
    out = []
    for y, pooled in enumerate(histograms.sum(1)):
        value, variance = (dict(zip(quadruples.KEYS, v)) for v in iid_variance(pooled))
        n = pooled.sum()
        # Drawing n pairs with replacement is a multinomial draw of their patterns.
        redrawn = generator.multinomial(n, pooled / n, size=drawn.shape[-1])
        pairs = quadruples.plug_in(redrawn)
        spread = {}
        for k, key in enumerate(metrics):
            half = Z_95 * np.sqrt(variance[key])
            known = variance[key] > _TIE**2
            effect = _variance(drawn[k, y]) / variance[key] if known else np.nan
            spread[key] = Spread(
                bootstrap.summarise(value[key], drawn[k, y]),
                bootstrap.summarise(value[key], pairs[key]),
                (value[key] - half, value[key] + half),
                float(effect),
            )
        out.append(spread)
    return out


def iid_variance(pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Plug-in values and their variances if all pairs were drawn independently, float64[K] each,
    from int[P]: the delta method, p (1 - p) / n for a proportion. NaN where undefined."""
    shares = pooled / pooled.sum()
    with jax.enable_x64(True):
        slope = np.asarray(_slope(jnp.asarray(shares)))  # [K, P]
    variance = ((slope - (slope @ shares)[:, None]) ** 2) @ shares / pooled.sum()
    plug_in = quadruples.plug_in(pooled)
    value = np.array([float(plug_in[key]) for key in quadruples.KEYS])
    return value, np.where(np.isnan(value), np.nan, variance)


@jax.jit
def _slope(shares: jax.Array) -> jax.Array:
    """Derivative of each metric by the share of each pattern, float64[K, P]."""

    def metrics(shares):
        counts = shares @ jnp.asarray(quadruples.CONDITION_MATRIX, jnp.float64)
        return jnp.stack(list(quadruples.formulas(counts, jnp).values()))

    return jax.jacfwd(metrics)(shares)
