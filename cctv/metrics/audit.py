"""Is a published table possible under the definitions? Linear programs over the answer patterns.

Whatever a model answered, its question pairs are a mixture p of the 81 patterns that four answers
in {no, yes, unparsed} can show, and so is a bootstrap mean of such mixtures. Most metrics are
linear in p: a row is possible if some p gives every printed value up to TOLERANCE. This relaxes
what is true in three ways, so that what it calls impossible is: shares needn't be multiples of
1/N; a paper that knows no unparsed answers has only 16 of the patterns; and MCCScore, which is not
linear, leaves with BaAcc a set of intervals of TPR, of which only the hulls are used.

Axes: P = 81 patterns, K columns of a row.
"""

import csv
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from cctv.metrics import quadruples

TOLERANCE = 0.04  # percentage points: two decimals, of a bootstrap mean
NAMES = {
    "contr_q_pos": "Contr@q+",
    "reject_q_neg": "Reject@q-",
    "video_consistency": "Overall (video)",
    "contr_v_pos": "Contr@v+",
    "reject_v_neg": "Reject@v-",
    "question_consistency": "Overall (question)",
    "ba_acc": "BaAcc",
    "quad_acc": "QuadAcc",
    "accuracy": "Accuracy",
    "recall": "TPR",
    "yes_rate": "yes rate",
    "vs": "VS",
    "qs": "QS",
    "sve": "SVE",
}
_LABELS = ("model", "size", "method")  # what rows of several tables are matched by
_IGNORED = ("group",)
_STEP = 0.01  # of the scan over TPR, in percentage points
_SLACK = 1e-6  # what the solver may leave


def _linear() -> dict[str, np.ndarray]:
    """What a pair of each pattern adds to each linear metric, float64[P], in percent."""
    c = {key: value.astype(np.float64) for key, value in quadruples.CONDITIONS.items()}
    true_negatives = 3 - c["fp"]
    out = {key: c[key] for key in NAMES if key in c}
    out["quad_acc"] = 1 - c["failed"]
    out["video_consistency"] = (c["contr_q_pos"] + c["reject_q_neg"]) / 2
    out["question_consistency"] = (c["contr_v_pos"] + c["reject_v_neg"]) / 2
    out["ba_acc"] = (c["tp"] + true_negatives / 3) / 2
    out["accuracy"] = (c["tp"] + true_negatives) / 4
    out["recall"] = c["tp"]
    out["yes_rate"] = c["yes"] / 4
    return {key: 100 * out[key] for key in NAMES}


LINEAR = _linear()


class Row(NamedTuple):
    """One model of one or more tables."""

    name: str
    printed: tuple[tuple[str, float], ...]  # (metric, percent); twice if two tables print it


class Bound(NamedTuple):
    """sum of weight * value over the terms <= limit for any answers, and the row prints more."""

    terms: tuple[tuple[str, float, float], ...]  # metric, its value, weight != 0
    limit: float  # percent
    excess: float  # percentage points above the limit

    def __str__(self) -> str:
        def side(sign: int, extra: float) -> str:
            parts = [
                f"{'' if abs(w) == 1 else f'{abs(w):g} × '}{NAMES[key]} {value:.2f}"
                for key, value, w in self.terms
                if w * sign > 0
            ]
            return " + ".join(parts + ([f"{extra:g}"] if extra > 0 or not parts else []))

        low, high = side(-1, max(self.limit, 0.0)), side(1, max(-self.limit, 0.0))
        return f"{low} < {high} by {self.excess:.2f}"


class Verdict(NamedTuple):
    """`bound` is None where the row is possible; `why` is its text, or that of BaAcc and MCCScore
    which no TPR gives together."""

    row: Row
    bound: Bound | None
    why: str


class _Column(NamedTuple):
    """A linear metric that must lie in an interval, percent."""

    key: str
    low: float
    high: float
    printed: float | None = None  # within the interval; None where the interval is all there is


def read(paths: Iterable[str | Path]) -> tuple[list[Row], list[str]]:
    """The rows of CSV tables, those of equal model, size and method taken jointly, and the metrics
    that are printed but not checked.

    Columns are keys of quadruples.KEYS in percent (an empty cell: not printed); KEY_half_width and
    group are left out. ValueError, one line, names the file and line.
    """
    found: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    unchecked: set[str] = set()
    for path in paths:
        seen = set()
        for number, record in _records(path):
            labels = tuple((record.pop(name, None) or "").strip() for name in _LABELS)
            if not labels[0]:
                raise ValueError(f"{path}:{number}: the column model must name the model")
            if labels in seen:
                raise ValueError(f"{path}:{number}: {' '.join(labels).strip()} stands there twice")
            seen.add(labels)
            printed = found.setdefault(labels, [])
            for key, text in record.items():
                if text.strip():
                    printed.append((key, _percent(key, text, f"{path}:{number}")))
    if not found:
        raise ValueError("the tables hold no row")
    rows = [Row(" ".join(filter(None, labels)), tuple(found[labels])) for labels in found]
    for row in rows:
        keys = {key for key, _ in row.printed}
        unchecked |= keys - set(LINEAR) - ({"mcc_score"} if "ba_acc" in keys else set())
    return rows, [key for key in quadruples.KEYS if key in unchecked]


def _records(path: str | Path) -> list[tuple[int, dict[str, str]]]:
    """(line number, cells by column) of a CSV file, the columns that say nothing left out."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, line) for line in reader if any(map(str.strip, line))]
    except OSError as error:
        raise ValueError(f"can't read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV table in UTF-8 ({error})") from None
    if not lines:
        raise ValueError(f"{path}: empty; the first line must name the columns")
    header = [name.strip() for name in lines[0][1]]
    known = {*_LABELS, *_IGNORED, *quadruples.KEYS}
    for name in header:
        if header.count(name) > 1:
            raise ValueError(f"{path}: the column {name!r} stands there twice")
        if name.removesuffix("_half_width") not in known:
            raise ValueError(
                f"{path}: unknown column {name!r}; columns are {', '.join(_LABELS)}, and of the "
                f"metrics {', '.join(quadruples.KEYS)}, each also as NAME_half_width"
            )
    if "model" not in header:
        raise ValueError(f"{path}: needs a column model")
    records = []
    for number, line in lines[1:]:
        if len(line) != len(header):
            raise ValueError(f"{path}:{number}: {len(line)} cells under {len(header)} columns")
        cells = dict(zip(header, line))
        skipped = [n for n in header if n in _IGNORED or n.endswith("_half_width")]
        records.append((number, {n: cells[n] for n in header if n not in skipped}))
    return records


def _percent(key: str, text: str, where: str) -> float:
    low = -1 if key == "mcc" else 0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= 100:
        raise ValueError(f"{where}: {key} must be from {low} to 100, got {text.strip()!r}")
    return value


def audit(row: Row, *, tolerance: float = TOLERANCE) -> Verdict:
    """Whether some mixture of answers gives a row, and if not the bound that it breaks.

    Of the sets of columns that are impossible together a smallest one is named (up to four columns
    by search, more by leaving out what isn't needed), the one that is broken by most.
    """
    columns = [
        _Column(key, value - tolerance, value + tolerance, value)
        for key, value in row.printed
        if key in LINEAR
    ]
    if (bound := _broken(columns)) is not None:
        return Verdict(row, bound, str(bound))
    printed = dict(row.printed)
    if not {"ba_acc", "mcc_score"} <= set(printed):
        return Verdict(row, None, "")
    text = f"BaAcc {printed['ba_acc']:.2f} with MCCScore {printed['mcc_score']:.2f}"
    intervals = true_positive_rates(printed["ba_acc"], printed["mcc_score"], tolerance=tolerance)
    if not intervals:
        return Verdict(row, None, f"{text}: no TPR gives both")
    choices = [[*columns, _Column("recall", *interval)] for interval in intervals]
    slacks = [_least_slack(choice)[0] for choice in choices]
    if min(slacks) <= _SLACK:
        return Verdict(row, None, "")
    # Impossible on every interval; the one that is nearest to possible is shown.
    nearest = int(np.argmin(slacks))
    bound = _broken(choices[nearest])
    low, high = intervals[nearest]
    return Verdict(row, bound, f"{bound} (TPR {low:.2f} to {high:.2f} from {text})")


def true_positive_rates(
    ba_acc: float, mcc_score: float, *, tolerance: float = TOLERANCE
) -> list[tuple[float, float]]:
    """Intervals of TPR (percent) outside which no rates give BaAcc and MCCScore up to a tolerance.

    A scan: in each step of TPR, BaAcc leaves an interval of TNR, and MCC grows with either rate.
    """
    edges = np.linspace(0, 100, round(100 / _STEP) + 1) / 100
    start, end = edges[:-1], edges[1:]
    low = 2 * (ba_acc - tolerance) / 100 - end
    high = 2 * (ba_acc + tolerance) / 100 - start
    inside = (low <= 1) & (high >= 0)
    least = _mcc_score(start, np.clip(low, 0, 1))
    most = _mcc_score(end, np.clip(high, 0, 1))
    inside &= (least <= mcc_score + tolerance) & (most >= mcc_score - tolerance)
    change = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    return [(100 * edges[a], 100 * edges[b]) for a, b in change.reshape(-1, 2)]


def _mcc_score(tpr: np.ndarray, tnr: np.ndarray) -> np.ndarray:
    """MCCScore in percent at one positive to three negatives."""
    said_yes = (tpr + 3 * (1 - tnr)) / 4
    spread = np.sqrt(said_yes * (1 - said_yes))
    some = spread > 0  # one predicted class only: an MCC of 0
    mcc = np.where(some, math.sqrt(3) / 4 * (tpr + tnr - 1) / np.where(some, spread, 1), 0.0)
    return 100 * ((mcc + 1) / 2) ** 2


def _least_slack(columns: Sequence[_Column]) -> tuple[float, np.ndarray]:
    """By how much every interval must be widened until some mixture fits, in percentage points,
    and float64[K] weights whose bound on the columns says so."""
    if not columns:
        return 0.0, np.zeros(0)
    matrix = np.stack([LINEAR[c.key] for c in columns])  # [K, P]
    widen = -np.ones((2 * len(columns), 1))
    found = linprog(
        np.append(np.zeros(81), 1.0),
        A_ub=np.hstack([np.vstack([matrix, -matrix]), widen]),
        b_ub=[c.high for c in columns] + [-c.low for c in columns],
        A_eq=np.append(np.ones(81), 0.0)[None],
        b_eq=[1.0],
        method="highs",
    )
    if not found.success:
        raise ArithmeticError(f"the linear program failed: {found.message}")
    above, below = -found.ineqlin.marginals.reshape(2, -1)
    return float(found.fun), below - above


def _broken(columns: Sequence[_Column]) -> Bound | None:
    """The bound that columns break; None where they are possible together."""
    if _least_slack(columns)[0] <= _SLACK:
        return None
    for size in (1, 2, 3, 4):
        sets = list(itertools.combinations(columns, size))
        slacks = [_least_slack(chosen)[0] for chosen in sets]
        if sets and max(slacks) > _SLACK:
            return _bound(sets[int(np.argmax(slacks))])
    chosen = list(columns)
    for column in sorted(columns, key=lambda c: "consistency" not in c.key):  # means go first
        fewer = [c for c in chosen if c is not column]
        if _least_slack(fewer)[0] > _SLACK:
            chosen = fewer
    return _bound(chosen)


def _bound(columns: Sequence[_Column]) -> Bound:
    """The bound of an impossible set. Any weights give a true bound, so rounding them is safe."""
    _, weights = _least_slack(columns)
    smallest = np.abs(weights[np.abs(weights) > 1e-9]).min()
    weights = np.round(weights / smallest, 3)
    values = [
        c.printed if c.printed is not None else (c.low if w > 0 else c.high)
        for c, w in zip(columns, weights)
    ]
    limit = float((weights @ np.stack([LINEAR[c.key] for c in columns])).max())
    terms = zip((c.key for c in columns), values, map(float, weights))
    excess = float(weights @ values) - limit
    return Bound(tuple(t for t in terms if t[2]), round(limit, 9) + 0.0, excess)
