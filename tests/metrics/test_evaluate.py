"""The whole of metrics.json from rows: schema, coverage, pairing, order, corner cases."""

import json
import math
import random

import numpy as np
import plain_loop
import pytest

from cctv.metrics import evaluate as evaluate_module
from cctv.metrics import quadruples
from cctv.metrics.evaluate import evaluate

CATEGORIES = ("event", "causal", "spatial")
QUESTIONS = {
    f"s{s}": [(f"s{s}-{k}", CATEGORIES[(s + k) % 3]) for k in range(1 + s % 4)] for s in range(12)
}
NAMES = [(s, p) for s, pairs in QUESTIONS.items() for p, _ in pairs]
LABELS = {"yes": 1, "no": 0, None: None}


def answer_all(answers, *, method="base", alpha=0.0, model="m", run="r"):
    """Rows of one system from {(scene_id, pair_id): (y++, y+-, y-+, y--)}."""
    out = []
    for (scene_id, pair_id), four in answers.items():
        for (video, question), answer in zip(quadruples.CELLS, four):
            row = {"scene_id": scene_id, "pair_id": pair_id, "video": video, "question": question}
            row |= {"model": model, "run": run, "method": method, "alpha": alpha}
            row |= {"label": LABELS[answer], "status": "ok" if answer else "unparsed"}
            out.append(row | {"margin": 2.0})
    return out


def some(seed=0):
    rng = random.Random(seed)
    return {n: tuple(rng.choices(["yes", "no", None], [4, 5, 1], k=4)) for n in NAMES}


def one(rows, questions=QUESTIONS, **options):
    found = evaluate(rows, questions, **{"replicates": 50} | options)
    return found.metrics["systems"][0]


def test_schema():
    rows = answer_all(some()) + answer_all(some(1), method="c_tcd", alpha=1.0)
    metrics = evaluate(rows, QUESTIONS, replicates=20, seed=4).metrics
    assert list(metrics) == ["systems", "comparisons", "bootstrap"]
    assert metrics["bootstrap"] == {"replicates": 20, "seed": 4, "unit": "scene"}
    counts = ["n_scenes", "n_pairs", "n_failed", "n_unparsed", "n_incomplete", "coverage"]
    parts = ["metrics", "by_category", "card"]
    for system in metrics["systems"]:
        assert list(system) == ["model", "run", "method", "alpha", *counts, *parts]
        assert list(system["by_category"]) == sorted(CATEGORIES)
        for entries in (system["metrics"], *system["by_category"].values()):
            assert tuple(entries) == quadruples.KEYS
            for entry in entries.values():
                assert list(entry) == ["value", "mean", "low", "high", "half_width", "n_undefined"]
        assert list(system["card"]) == ["quad_acc", "ba_acc"]
    assert [c["metric"] for c in metrics["comparisons"]] == list(quadruples.KEYS)
    for comparison in metrics["comparisons"]:
        assert list(comparison) == ["a", "b", "metric", "difference", "low", "high"]
        assert (comparison["a"], comparison["b"]) == ("m|r|c_tcd|1.0", "m|r|base|0.0")
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_values_equal_the_plain_loop_overall_and_by_category():
    answers = some()
    system = one(answer_all(answers))
    category = {(s, p): c for s, pairs in QUESTIONS.items() for p, c in pairs}
    groups = [(system["metrics"], answers)]
    for name, entries in system["by_category"].items():
        groups.append((entries, {n: a for n, a in answers.items() if category[n] == name}))
    for entries, chosen in groups:
        for key, value in plain_loop.metrics(list(chosen.values())).items():
            found = entries[key]["value"]
            assert found == (None if value is None else pytest.approx(value, abs=1e-9))
    assert system["card"] == pytest.approx(plain_loop.card(list(answers.values())))
    failed = sum(a != ("yes", "no", "no", "no") for a in answers.values())
    unparsed = sum(a.count(None) for a in answers.values())
    assert (system["n_failed"], system["n_unparsed"]) == (failed, unparsed)
    assert (system["n_scenes"], system["n_pairs"]) == (12, len(NAMES))
    assert (system["n_incomplete"], system["coverage"]) == (0, 100)


def test_ten_quadruples_of_which_two_are_lacking_row_5():
    """n stays 10 and coverage shows 80 %; the two are listed with the cells and reasons."""
    questions = {f"s{i}": [("p", "event")] for i in range(10)}
    answers = {(f"s{i}", "p"): ("yes", "no", "no", "no") for i in range(10)}
    rows = answer_all(answers)
    rows = [r for r in rows if not (r["scene_id"] == "s3" and r["video"] == "negative")]
    for row in rows:
        if row["scene_id"] == "s7" and row["question"] == "positive":
            row |= {"status": "video_missing", "label": None}
    found = evaluate(rows, questions, replicates=20)
    system = found.metrics["systems"][0]
    assert (system["n_pairs"], system["n_incomplete"], system["coverage"]) == (10, 2, 80)
    assert system["metrics"]["quad_acc"]["value"] == 100
    assert found.incomplete["m|r|base|0.0"] == [
        {
            "scene_id": "s3",
            "pair_id": "p",
            "cells": [
                {"video": "negative", "question": "positive", "reason": "no row"},
                {"video": "negative", "question": "negative", "reason": "no row"},
            ],
        },
        {
            "scene_id": "s7",
            "pair_id": "p",
            "cells": [
                {"video": "positive", "question": "positive", "reason": "video_missing"},
                {"video": "negative", "question": "positive", "reason": "video_missing"},
            ],
        },
    ]


def test_order_of_rows_scenes_and_pairs_does_not_matter():
    rows = answer_all(some()) + answer_all(some(1), method="c_tcd", alpha=0.5)
    rows += answer_all(some(2), method="vcd", alpha=1.0) + answer_all(some(3), model="a")
    shuffled = random.Random(0).sample(rows, len(rows))
    mixed = {s: QUESTIONS[s][::-1] for s in reversed(QUESTIONS)}
    first = evaluate(rows, QUESTIONS, replicates=30)
    assert first == evaluate(shuffled, mixed, replicates=30)
    order = [(s["model"], s["method"]) for s in first.metrics["systems"]]
    assert order == [("a", "base"), ("m", "base"), ("m", "vcd"), ("m", "c_tcd")]


def test_the_seed_decides_and_only_the_intervals():
    rows = answer_all(some())
    again, other = one(rows, seed=0), one(rows, seed=1)
    assert again == one(rows)
    assert again["metrics"]["ba_acc"]["value"] == other["metrics"]["ba_acc"]["value"]
    assert again["metrics"]["ba_acc"]["mean"] != other["metrics"]["ba_acc"]["mean"]


def test_comparisons_are_paired_on_the_intersection_row_18():
    """Scenes that only one system answered don't count, and equal answers differ by exactly 0."""
    answers = some()
    base = [r for r in answer_all(answers) if r["scene_id"] != "s3"]
    better = {n: ("yes", "no", "no", "no") if n[0] == "s3" else a for n, a in answers.items()}
    other = [r for r in answer_all(better, method="c_tcd", alpha=1.0) if r["scene_id"] != "s5"]
    metrics = evaluate(base + other, QUESTIONS, replicates=50).metrics
    assert len(metrics["comparisons"]) == len(quadruples.KEYS)
    for comparison in metrics["comparisons"]:
        assert comparison["difference"] == comparison["low"] == comparison["high"] == 0
    worse = {n: ("no", *a[1:]) for n, a in answers.items()}
    metrics = evaluate(
        base + answer_all(worse, method="tcd", alpha=1.0), QUESTIONS, replicates=50
    ).metrics
    found = {c["metric"]: c for c in metrics["comparisons"]}["quad_acc"]
    kept = [a for n, a in answers.items() if n[0] != "s3"]
    expected = -plain_loop.metrics(kept)["quad_acc"]
    assert found["difference"] == pytest.approx(expected)
    assert found["low"] <= expected <= found["high"]


def test_comparisons_need_a_base_of_the_same_model_and_run():
    rows = answer_all(some()) + answer_all(some(1), method="vcd", alpha=1.0, run="other")
    assert evaluate(rows, QUESTIONS, replicates=10).metrics["comparisons"] == []


def test_one_scene_one_pair():
    rows = answer_all({("s", "p"): ("yes", "no", "no", "no")})
    system = one(rows, {"s": [("p", "event")]})
    entry = {"value": 100, "mean": 100, "low": 100, "high": 100, "half_width": 0, "n_undefined": 0}
    assert system["metrics"]["quad_acc"] == entry
    undefined = dict.fromkeys(("value", "mean", "low", "high", "half_width")) | {"n_undefined": 50}
    assert system["metrics"]["pos_omiss"] == undefined


def test_no_rows_are_no_systems():
    found = evaluate([], QUESTIONS, replicates=10)
    assert found.metrics["systems"] == found.metrics["comparisons"] == []


def test_all_incomplete_is_null_everywhere_and_coverage_0():
    rows = answer_all(some()) + answer_all(some(), method="vcd", alpha=1.0)
    rows = [row | {"status": "video_error", "label": None} for row in rows]
    found = evaluate(rows, QUESTIONS, replicates=10)
    for system in found.metrics["systems"]:
        assert (system["coverage"], system["n_incomplete"]) == (0, len(NAMES))
        assert system["card"] == {"quad_acc": None, "ba_acc": None}
        for entry in system["metrics"].values():
            assert entry.pop("n_undefined") == 10
            assert set(entry.values()) == {None}
    assert {c["low"] for c in found.metrics["comparisons"]} == {None}
    assert len(found.incomplete["m|r|vcd|1.0"]) == len(NAMES)


def test_micro_average_over_pairs_not_over_categories_row_19():
    questions = {"s": [(f"p{i}", "event") for i in range(9)] + [("p9", "causal")]}
    answers = {("s", f"p{i}"): ("yes", "no", "no", "no") for i in range(9)}
    system = one(answer_all(answers | {("s", "p9"): ("no",) * 4}), questions)
    assert system["metrics"]["quad_acc"]["value"] == 90
    assert system["by_category"]["causal"]["quad_acc"]["value"] == 0
    assert system["by_category"]["event"]["pos_omiss"]["value"] is None


def test_rows_of_unknown_pairs_are_refused_with_the_first_and_the_number():
    rows = answer_all(some()) + answer_all({("s0", "x"): ("no",) * 4, ("zz", "p"): ("no",) * 4})
    with pytest.raises(ValueError, match="no annotated pair for 8 of the rows, first scene 's0'"):
        evaluate(rows, QUESTIONS)


def test_two_rows_of_a_cell_replicates_and_double_pairs_are_refused():
    rows = answer_all(some())
    with pytest.raises(ValueError, match=r"two rows of m\|r\|base"):
        evaluate([*rows, dict(rows[0])], QUESTIONS)
    with pytest.raises(ValueError, match="replicates must be at least 1, got 0"):
        evaluate(rows, QUESTIONS, replicates=0)
    with pytest.raises(ValueError, match="pair_id twice"):
        evaluate(rows, {"s": [("p", "event"), ("p", "causal")]})


def test_near_ties_are_counted_where_margins_are():
    rows = answer_all(some())
    for row, margin in zip(rows, (0.0, -0.0009, 0.001, None)):
        row["margin"] = margin
    foreign = [{k: v for k, v in r.items() if k != "margin"} for r in answer_all(some(), run="f")]
    ties = evaluate(rows + foreign, QUESTIONS, replicates=5).near_ties
    assert ties == {"m|r|base|0.0": 2, "m|f|base|0.0": None}


def test_numbers_written_are_rounded_far_below_any_tolerance():
    assert evaluate_module.number(math.nan) is None
    assert evaluate_module.number(np.float64(200) / 3) == pytest.approx(200 / 3, abs=1e-10)
    assert str(evaluate_module.number(-1e-14)) == "0.0"
