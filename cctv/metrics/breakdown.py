"""Groups of question pairs that results are broken down by: by a text, or by quantiles of a number.

Groups depend on the data set only (those by margin on all systems together), so that every system
is cut alike. What is not known is a group of its own. Axes: N pairs, G groups, Y systems.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# By what, in the order it is shown; `margin` is the smallest |margin| of a pair's four cells.
TEXTS = ("category", "anomaly_type", "view", "source")
NUMBERS = ("contact_position", "question_words", "clip_seconds")
MARGIN = "margin"
FACTORS = (*TEXTS, *NUMBERS, MARGIN)
# What is reported of a group.
METRICS = (
    "quad_acc",
    "contr_q_pos",
    "reject_q_neg",
    "video_consistency",
    "contr_v_pos",
    "reject_v_neg",
    "question_consistency",
    "ba_acc",
    "mcc_score",
    "yes_rate",
)
UNKNOWN = "unknown"
BINS = 4
# With fewer pairs or scenes than these a group is flagged as small: a percentile interval from
# fewer scenes is too narrow, and one pair is then several points.
FEW_PAIRS, FEW_SCENES = 30, 10


class Group(NamedTuple):
    """Pairs of one text, or with a number in [low, high], the ends being values that occur."""

    name: str
    low: float | None = None
    high: float | None = None


class Factor(NamedTuple):
    groups: list[Group]
    index: np.ndarray  # int[..., N], the group of each pair

    @property
    def members(self) -> np.ndarray:
        """bool[G, ..., N]."""
        return np.stack([self.index == g for g in range(len(self.groups))])


def by_text(values: Sequence[str | None]) -> Factor:
    """One group a text, sorted; None is UNKNOWN, which comes last."""
    texts = [UNKNOWN if value is None else value for value in values]
    names = sorted(set(texts), key=lambda text: (text == UNKNOWN, text))
    place = {name: i for i, name in enumerate(names)}
    return Factor([Group(name) for name in names], np.array([place[t] for t in texts], np.int64))


def by_number(values: np.ndarray) -> Factor:
    """At most BINS groups of about equally many values, float[..., N]; NaN is UNKNOWN, the last.

    Equal values are never parted. ValueError for an infinite value.
    """
    values = np.asarray(values, np.float64)
    if np.isinf(values).any():
        raise ValueError("values to group by must be finite, or NaN where they are not known")
    known = ~np.isnan(values)
    cuts = np.quantile(values[known], np.arange(1, BINS) / BINS) if known.any() else []
    index = np.searchsorted(np.unique(cuts), values, side="right")
    groups, dense = [], np.zeros(values.shape, np.int64)
    for i in np.unique(index[known]):
        inside = known & (index == i)
        low, high = float(values[inside].min()), float(values[inside].max())
        dense[inside] = len(groups)
        name = _text(low) if low == high else f"{_text(low)} to {_text(high)}"
        groups.append(Group(name, low, high))
    if not known.all():
        dense[~known] = len(groups)
        groups.append(Group(UNKNOWN))
    return Factor(groups, dense)


def _text(value: float) -> str:
    return f"{value:.2f}" if 0 < abs(value) < 0.01 else f"{value:.3g}"


def factors(facts: Sequence[Mapping[str, str | float | None]]) -> dict[str, Factor]:
    """Everything but the margin, by name, from the facts of N pairs (`cctv.data.facts`)."""
    found = {name: by_text([f[name] for f in facts]) for name in TEXTS}
    for name in NUMBERS:
        found[name] = by_number(np.array([f[name] for f in facts], np.float64))  # None is NaN
    return found


def by_margin(margins: Sequence[np.ndarray]) -> list[Factor]:
    """One factor a system, with the same groups, from the margins float[N, 4] of Y systems."""
    together = by_number(np.stack([np.abs(m).min(-1) for m in margins]))
    return [Factor(together.groups, index) for index in together.index]


def is_small(n_pairs: int, n_scenes: int) -> bool:
    return n_pairs < FEW_PAIRS or n_scenes < FEW_SCENES
