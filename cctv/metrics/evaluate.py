"""From prediction rows to metrics.json: every system, its intervals, and the comparisons."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cctv.metrics import bootstrap, breakdown, quadruples, threshold_free

METHODS = ("base", "vcd", "tcd", "c_tcd")  # in the order systems are listed
NEAR_TIE = 1e-3  # margins below it may flip with the hardware
_LABELS = {0: quadruples.NO, 1: quadruples.YES, None: quadruples.UNPARSED}
FAILED = ("video_missing", "video_error", "not_finite")  # statuses of cells that could not be run
# Enough digits for every test and few enough that float64 sums agree between machines.
_DECIMALS = 10

System = tuple[str, str, str, float]  # (model, run, method, alpha)
Questions = Mapping[str, Sequence[tuple[str, str]]]  # scene_id -> (pair_id, category) of its pairs
Facts = Mapping[tuple[str, str], Mapping[str, str | float | None]]  # of (scene_id, pair_id)


class Evaluation(NamedTuple):
    """`metrics` is what metrics.json holds; the rest, by system name, is for reports."""

    metrics: dict
    # [{"scene_id", "pair_id", "cells": [{"video", "question", "reason"}]}], the reason of a cell
    # being its failed status, or "no row".
    incomplete: dict[str, list[dict]]
    near_ties: dict[str, int | None]  # rows with |margin| < NEAR_TIE; None where no row has one


class _Answers(NamedTuple):
    """One system's answers. N pairs in the order of the annotations sorted by scene and pair."""

    cells: np.ndarray  # int[N, 4], values of quadruples; 0 where incomplete
    complete: np.ndarray  # bool[N]
    incomplete: list[dict]
    margins: np.ndarray  # float[N, 4], NaN where a row is not there or has none


class _Pairs(NamedTuple):
    """The annotated pairs, sorted: what every system is laid out on."""

    index: dict[tuple[str, str], int]  # (scene_id, pair_id) -> n
    scene: np.ndarray  # int[N], rank of the scene
    category: np.ndarray  # int[N]
    categories: list[str]
    n_scenes: int


def system_name(system: System) -> str:
    """ "model|run|method|alpha", alpha as Python and JSON write a float (1.0)."""
    model, run, method, alpha = system
    return f"{model}|{run}|{method}|{float(alpha)}"


def evaluate(
    rows: Iterable[Mapping],
    questions: Questions,
    *,
    facts: Facts | None = None,
    replicates: int = 2000,
    seed: int = 0,
) -> Evaluation:
    """All statistics of sound prediction rows (protocol section 3), a pure function of them.

    Every annotated pair counts for every system: one that lacks an answer in any cell is
    incomplete, listed, and lowers the coverage. With the facts of every pair (`cctv.data.facts`) a
    system also has "breakdowns" and "threshold_free". ValueError for rows of scenes or pairs that
    are not annotated, for two rows of one cell, for a margin that is not finite, and for
    replicates < 1.
    """
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    pairs = _lay_out(questions)
    by_system = _group(rows, pairs)
    draw = functools.cache(functools.partial(_draw, replicates=replicates, seed=seed))
    answers = {system: _answers(by_system[system], pairs) for system in by_system}
    factors = _factors(answers, pairs, facts)
    systems = [_system(s, by_system[s], answers[s], pairs, factors[s], draw) for s in by_system]
    if facts is not None:
        for system, entry in zip(by_system, systems):
            entry["threshold_free"] = _threshold_free(answers[system], pairs, draw, seed=seed)
    comparisons = [
        comparison
        for system in by_system
        if system[2] != "base" and (base := (*system[:2], "base", 0.0)) in by_system
        for comparison in _compare(system, base, answers, pairs, draw)
    ]
    metrics = {
        "systems": systems,
        "comparisons": comparisons,
        "bootstrap": {"replicates": replicates, "seed": seed, "unit": "scene"},
    }
    return Evaluation(
        metrics=metrics,
        incomplete={system_name(s): answers[s].incomplete for s in by_system},
        near_ties={system_name(s): _near_ties(by_system[s].values()) for s in by_system},
    )


def lay_out_answers(
    rows: Iterable[Mapping], questions: Questions
) -> tuple[list[tuple[str, str]], dict[System, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The N annotated pairs (scene_id, pair_id), sorted, and of each system on them: patterns
    int[N], bool[N] whether all four cells have an answer, bool[N] whether any has a row."""
    pairs = _lay_out(questions)
    found = {}
    for system, by_cell in _group(rows, pairs).items():
        answers = _answers(by_cell, pairs)
        has_row = np.zeros(len(pairs.index), bool)
        has_row[[n for n, _ in by_cell]] = True
        found[system] = (quadruples.pattern(answers.cells), answers.complete, has_row)
    return list(pairs.index), found


def _draw(n_scenes: int, *, replicates: int, seed: int) -> np.ndarray:
    return bootstrap.draw_weights(n_scenes, replicates=replicates, seed=seed)


def _lay_out(questions: Questions) -> _Pairs:
    scenes = sorted(questions)
    places = sorted(
        (rank, pair_id, category)
        for rank, scene_id in enumerate(scenes)
        for pair_id, category in questions[scene_id]
    )
    index = {(scenes[rank], pair_id): n for n, (rank, pair_id, _) in enumerate(places)}
    if len(index) != len(places):
        raise ValueError("the annotations hold a pair_id twice in a scene")
    categories = sorted({category for _, _, category in places})
    return _Pairs(
        index=index,
        scene=np.array([rank for rank, _, _ in places], np.int64),
        category=np.array([categories.index(c) for _, _, c in places], np.int64),
        categories=categories,
        n_scenes=len(scenes),
    )


def _group(rows: Iterable[Mapping], pairs: _Pairs) -> dict[System, dict[tuple, Mapping]]:
    """Rows by system (sorted) and (n, cell)."""
    cell_of = {cell: i for i, cell in enumerate(quadruples.CELLS)}
    found: dict[System, dict[tuple, Mapping]] = {}
    unknown = []
    for row in rows:
        name = (row["scene_id"], row["pair_id"])
        if name not in pairs.index:
            unknown.append(name)
            continue
        system = (row["model"], row["run"], row["method"], float(row["alpha"]))
        place = (pairs.index[name], cell_of[row["video"], row["question"]])
        if found.setdefault(system, {}).setdefault(place, row) is not row:
            cell = f"{row['video']} video, {row['question']} question"
            raise ValueError(f"two rows of {system_name(system)}, pair {name}, {cell}")
    if unknown:
        scene_id, pair_id = unknown[0]
        raise ValueError(
            f"no annotated pair for {len(unknown)} of the rows, first scene {scene_id!r} pair "
            f"{pair_id!r}: are these the annotations that the predictions were made from?"
        )
    order = sorted(found, key=lambda s: (s[0], s[1], METHODS.index(s[2]), s[3]))
    return {system: found[system] for system in order}


def _answers(rows: Mapping[tuple, Mapping], pairs: _Pairs) -> _Answers:
    cells = np.zeros((len(pairs.index), 4), np.int64)
    complete = np.ones(len(pairs.index), bool)
    margins = np.full(cells.shape, np.nan)
    incomplete = []
    for (scene_id, pair_id), n in pairs.index.items():
        lacking = []
        for i, (video, question) in enumerate(quadruples.CELLS):
            row = rows.get((n, i))
            if row is None or row["status"] in FAILED:
                reason = "no row" if row is None else row["status"]
                lacking.append({"video": video, "question": question, "reason": reason})
            else:
                cells[n, i] = _LABELS[row["label"]]
                margins[n, i] = _margin(row)
        if lacking:
            complete[n] = False
            incomplete.append({"scene_id": scene_id, "pair_id": pair_id, "cells": lacking})
    return _Answers(cells, complete, incomplete, margins)


def _margin(row: Mapping) -> float:
    margin = row.get("margin")
    if margin is not None and not np.isfinite(margin):
        name = f"{row['scene_id']} {row['pair_id']}"
        raise ValueError(f"pair {name}: margin must be a finite number or null, got {margin!r}")
    return np.nan if margin is None else margin


def _factors(
    answers: Mapping[System, _Answers], pairs: _Pairs, facts: Facts | None
) -> dict[System, dict[str, breakdown.Factor]]:
    """What each system is broken down by; nothing without facts."""
    if facts is None or not answers:
        return {system: {} for system in answers}
    known = breakdown.factors([facts[name] for name in pairs.index])
    by_margin = breakdown.by_margin([a.margins for a in answers.values()])
    return {s: {**known, breakdown.MARGIN: own} for s, own in zip(answers, by_margin)}


def _histograms(
    answers: _Answers, pairs: _Pairs, chosen: np.ndarray, members: np.ndarray | None = None
) -> np.ndarray:
    """int32[1 + G, S, P]: all chosen pairs (bool[N]), then those of each group (bool[G, N]), over
    the S scenes that have a chosen pair."""
    scenes, scene = np.unique(pairs.scene[chosen], return_inverse=True)
    patterns = quadruples.pattern(answers.cells[chosen])
    groups = [np.ones(len(scene), bool), *(() if members is None else members[:, chosen])]
    return np.stack([quadruples.histograms(scene[g], patterns[g], len(scenes)) for g in groups])


def number(value: float) -> float | None:
    """As JSON holds it: rounded, null for NaN."""
    return None if np.isnan(value) else round(float(value), _DECIMALS) + 0.0  # no minus zero


def _entry(found: bootstrap.Interval, place: int | tuple = ()) -> dict:
    """What metrics.json holds of an interval, or of one place of many."""
    entry = {name: number(field[place]) for name, field in found._asdict().items()}
    return entry | {"n_undefined": int(found.n_undefined[place])}


def _entries(intervals: Mapping[str, bootstrap.Interval], group: int) -> dict:
    return {key: _entry(found, group) for key, found in intervals.items()}


def _system(
    system: System,
    rows: Mapping,
    answers: _Answers,
    pairs: _Pairs,
    factors: Mapping[str, breakdown.Factor],
    draw,
) -> dict:
    """One entry of "systems". n_scenes and n_pairs are the annotated ones, n_unparsed counts all
    rows of the system; everything else is over the complete pairs."""
    categories = [pairs.category == c for c in range(len(pairs.categories))]
    members = np.concatenate([categories, *(f.members for f in factors.values())])
    histograms = _histograms(answers, pairs, answers.complete, members)
    intervals = bootstrap.intervals(histograms, draw(histograms.shape[1]))
    pooled = histograms[0].sum(0)
    n_pairs, n_complete = len(pairs.index), int(answers.complete.sum())
    model, run, method, alpha = system
    n_failed = n_complete - int(pooled[quadruples.GOLD_PATTERN])
    n_unparsed = sum(row["status"] == "unparsed" for row in rows.values())
    return {
        "model": model,
        "run": run,
        "method": method,
        "alpha": alpha,
        "n_scenes": pairs.n_scenes,
        "n_pairs": n_pairs,
        "n_failed": n_failed,
        "n_unparsed": n_unparsed,
        "n_incomplete": n_pairs - n_complete,
        "coverage": number(100 * n_complete / n_pairs),
        "metrics": _entries(intervals, 0),
        "by_category": {c: _entries(intervals, 1 + i) for i, c in enumerate(pairs.categories)},
        "card": {key: number(value) for key, value in quadruples.card(pooled).items()},
        **_breakdowns(factors, intervals, answers, pairs, start=1 + len(categories)),
    }


def _breakdowns(
    factors: Mapping[str, breakdown.Factor],
    intervals: Mapping[str, bootstrap.Interval],
    answers: _Answers,
    pairs: _Pairs,
    *,
    start: int,
) -> dict:
    """{"breakdowns": {factor: [group]}}; the first factor's first group is the interval `start`."""
    out: dict[str, list[dict]] = {}
    for name, factor in factors.items():
        out[name] = []
        for group, members in zip(factor.groups, factor.members):
            complete = members & answers.complete
            n_pairs, n_scenes = int(complete.sum()), len(np.unique(pairs.scene[complete]))
            out[name].append(
                {"group": group.name, "low": group.low, "high": group.high}
                | {"n_pairs": n_pairs, "n_scenes": n_scenes}
                | {"n_incomplete": int(members.sum()) - n_pairs}
                | {"small": breakdown.is_small(n_pairs, n_scenes)}
                | {"metrics": {k: _entry(intervals[k], start) for k in breakdown.METRICS}}
            )
            start += 1
    return {"breakdowns": out} if factors else {}


def _threshold_free(answers: _Answers, pairs: _Pairs, draw, *, seed: int) -> dict:
    """One system's "threshold_free": of the complete pairs, those whose four rows have a margin."""
    used = answers.complete & ~np.isnan(answers.margins).any(1)
    cells, margins = answers.cells[used], answers.margins[used]
    scenes, scene = np.unique(pairs.scene[used], return_inverse=True)
    parsed = cells != quadruples.UNPARSED
    out = {
        "n_scenes": len(scenes),
        "n_pairs": int(used.sum()),
        "n_without_margin": int((answers.complete & ~used).sum()),
        "n_unparsed": int((~parsed).sum()),  # counted by the sign of their margin here
        "n_disagree": int((parsed & (cells != (margins > 0))).sum()),
    }
    if not used.any():
        return out
    found = threshold_free.analyse(margins, scene, draw(len(scenes)), seed=seed)
    reliability = found.reliability
    risks = {"answers": found.answers, "quadruples": found.quadruples}
    whole = ("auroc", "average_precision", "ece", "ordered", "quadruple_margin")
    return out | {
        "metrics": {key: _entry(getattr(found, key)) for key in whole}
        | {f"aurc_{name}": _entry(risk.area) for name, risk in risks.items()},
        "reliability": [
            {"n_answers": int(n), "probability": number(reliability.probability[b])}
            | {"yes": _entry(reliability.yes, b)}
            for b, n in enumerate(reliability.cells)
        ],
        "risk_coverage": {
            "coverage": threshold_free.COVERAGES.tolist(),
            **{
                name: [_entry(risk.curve, i) for i in range(len(threshold_free.COVERAGES))]
                for name, risk in risks.items()
            },
        },
        "quadruple_margin": {
            "percent": threshold_free.QUANTILES.tolist(),
            "quantiles": [number(q) for q in found.margin_quantiles],
        },
        "threshold": {key: _chosen(t) for key, t in found.thresholds.items()},
    }


def _chosen(found: threshold_free.Threshold | None) -> dict | None:
    if found is None:  # one scene: there are no others to choose on
        return None
    parts = {key: _entry(getattr(found, key)) for key in ("at_zero", "held_out", "difference")}
    return {"thresholds": [number(t) for t in found.thresholds], **parts}


def _compare(
    a: System, b: System, answers: Mapping[System, _Answers], pairs: _Pairs, draw
) -> list[dict]:
    """Entries of "comparisons": a - b for every metric, paired on the pairs complete in both."""
    both = answers[a].complete & answers[b].complete
    one, two = (_histograms(answers[s], pairs, both)[0] for s in (a, b))
    found = bootstrap.differences(one, two, draw(len(one)))
    names = {"a": system_name(a), "b": system_name(b)}
    return [
        names
        | {"metric": key, "difference": number(interval.value)}
        | {"low": number(interval.low), "high": number(interval.high)}
        for key, interval in found.items()
    ]


def _near_ties(rows: Iterable[Mapping]) -> int | None:
    margins = [row["margin"] for row in rows if row.get("margin") is not None]
    return sum(abs(m) < NEAR_TIE for m in margins) if margins else None
