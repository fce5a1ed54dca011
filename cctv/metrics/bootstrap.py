"""Scene-level cluster bootstrap: resample scenes, pool their pairs, recompute every metric.

Axes: S scenes, P answer patterns, R replicates, K metrics; `...` is any set of groups (all pairs
and each category) that share the resampled scenes.
"""

import math
from typing import NamedTuple

import numpy as np

from cctv.metrics import quadruples

_AT_ONCE = 2**20  # replicates x groups whose metrics are held together


class Interval(NamedTuple):
    """Plug-in value and percentile interval; float64[...] each, NaN where undefined."""

    value: np.ndarray
    mean: np.ndarray  # of the defined replicates
    low: np.ndarray  # 2.5 %
    high: np.ndarray  # 97.5 %
    half_width: np.ndarray  # the larger of |mean - low|, |high - mean|
    n_undefined: np.ndarray  # int, replicates left out


def draw_weights(n_scenes: int, *, replicates: int, seed: int) -> np.ndarray:
    """How often each scene was drawn in each replicate, float32[R, S]; rows sum to S.

    Equal arguments give equal draws, so systems with as many scenes are resampled alike.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = generator.integers(0, max(n_scenes, 1), size=(replicates, n_scenes), dtype=np.int64)
    drawn += n_scenes * np.arange(replicates)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=replicates * n_scenes)
    return counts.reshape(replicates, n_scenes).astype(np.float32)


def summarise(value: np.ndarray, replicates: np.ndarray) -> Interval:
    """The interval around a plug-in value float[...] from its replicates float[..., R].

    NaN replicates are left out and counted. Quantiles are linear between order statistics, as
    np.nanpercentile's, which takes a slow path on the rows that hold NaN.
    """
    ordered = np.sort(replicates, axis=-1)  # NaN last
    n_undefined = np.isnan(ordered).sum(-1)
    n = ordered.shape[-1] - n_undefined
    some = np.maximum(n, 1)

    def quantile(q):
        place = q * (some - 1)
        below = np.floor(place).astype(int)
        above = np.minimum(below + 1, some - 1)
        pick = [np.take_along_axis(ordered, i[..., None], -1)[..., 0] for i in (below, above)]
        return pick[0] + (place - below) * (pick[1] - pick[0])

    mean = np.where(n > 0, np.nansum(ordered, -1) / some, np.nan)
    low, high = quantile(0.025), quantile(0.975)
    half_width = np.maximum(np.abs(mean - low), np.abs(high - mean))
    return Interval(np.asarray(value), mean, low, high, half_width, n_undefined)


def intervals(scenes: np.ndarray, weights: np.ndarray) -> dict[str, Interval]:
    """Interval of every metric, by key, from scene histograms int[..., S, P]."""
    *lead, n_scenes, n_patterns = scenes.shape
    groups = scenes.reshape(math.prod(lead), n_scenes, n_patterns)  # [G, S, P]
    at_once = max(1, _AT_ONCE // len(weights))
    parts = [groups[i : i + at_once] for i in range(0, len(groups), at_once)]
    found = [_summary(part, weights) for part in parts]
    return _by_key(Interval(*(np.concatenate(f, axis=1).reshape(-1, *lead) for f in zip(*found))))


def _summary(scenes: np.ndarray, weights: np.ndarray) -> Interval:
    """[K, G] each, from int[G, S, P]."""
    plug_in = quadruples.plug_in(scenes.sum(-2))
    value = np.stack([plug_in[key] for key in quadruples.KEYS])
    return summarise(value, quadruples.replicate_metrics(weights, scenes))


def differences(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> dict[str, Interval]:
    """Interval of metric(a) - metric(b), by key, paired: int[S, P] histograms of two systems over
    the same scenes and pairs, the same resampled scenes for both in every replicate."""
    both = np.stack([a, b])  # [2, S, P]
    plug_in = quadruples.plug_in(both.sum(-2))
    value = np.stack([plug_in[key] for key in quadruples.KEYS])  # [K, 2]
    replicates = quadruples.replicate_metrics(weights, both)  # [K, 2, R]
    found = summarise(value[:, 0] - value[:, 1], replicates[:, 0] - replicates[:, 1])
    return _by_key(found)


def _by_key(found: Interval) -> dict[str, Interval]:
    """An interval whose leading axis is the metric, split by metric."""
    return {key: Interval(*(f[k] for f in found)) for k, key in enumerate(quadruples.KEYS)}
