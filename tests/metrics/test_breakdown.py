"""Groups of pairs: bins, unknown values, and their metrics against the plain loop."""

import json
import math

import numpy as np
import plain_loop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.metrics import breakdown, quadruples
from cctv.metrics.evaluate import evaluate

LABELS = {"yes": 1, "no": 0, None: None}
NAMES = ["no", "yes", None]
QUESTIONS = {f"s{i:02d}": [(f"p{k}", "event") for k in range(1 + i % 4)] for i in range(24)}
PAIRS = [(s, p) for s, pairs in QUESTIONS.items() for p, _ in pairs]


def facts_of(pair, **more):
    """Facts that are a function of the scene but for the words, as in a data set."""
    i, k = int(pair[0][1:]), int(pair[1][1:])
    return {
        "category": "event",
        "anomaly_type": ("rear_end", "t_bone", "head_on")[i % 3],
        "view": "driving" if i % 2 else "roadside",
        "source": "CCD",
        "contact_position": None if i % 5 == 0 else 4.0 * i,
        "question_words": 6 + (7 * i + 3 * k) % 9,
        "clip_seconds": None,
    } | more


FACTS = {pair: facts_of(pair) for pair in PAIRS}


def rows_of(answers, margins, *, method="base", alpha=0.0):
    return [
        {"scene_id": s, "pair_id": p, "video": video, "question": question}
        | {"model": "m", "run": "", "method": method, "alpha": alpha}
        | {"label": LABELS[answer], "status": "ok" if answer else "unparsed", "margin": margin}
        for (s, p), four, values in zip(answers, answers.values(), margins)
        for (video, question), answer, margin in zip(quadruples.CELLS, four, values)
    ]


def make(seed=0):
    rng = np.random.default_rng(seed)
    answers = {n: tuple(NAMES[i] for i in rng.choice(3, 4, p=[0.5, 0.4, 0.1])) for n in PAIRS}
    return answers, rng.normal(0, 2, (len(PAIRS), 4)).tolist()


def systems_of(rows, **options):
    options = {"replicates": 20, "facts": FACTS} | options
    return evaluate(rows, QUESTIONS, **options).metrics["systems"]


def test_every_group_equals_the_plain_loop_over_its_pairs():
    answers, margins = make()
    (system,) = systems_of(rows_of(answers, margins))
    smallest = {n: min(map(abs, four)) for n, four in zip(PAIRS, margins)}
    assert tuple(system["breakdowns"]) == breakdown.FACTORS
    for factor, groups in system["breakdowns"].items():
        seen = []
        for g in groups:
            inside = []
            for n in PAIRS:
                value = smallest[n] if factor == "margin" else FACTS[n][factor]
                if g["group"] == "unknown":
                    inside += [n] * (value is None)
                elif g["low"] is None:
                    inside += [n] * (value == g["group"])
                else:
                    inside += [n] * (value is not None and g["low"] <= value <= g["high"])
            assert g["n_pairs"] == len(inside) > 0
            assert g["n_scenes"] == len({s for s, _ in inside})
            assert g["n_incomplete"] == 0
            assert g["small"] == (len(inside) < 30 or g["n_scenes"] < 10)
            expected = plain_loop.metrics([answers[n] for n in inside])
            assert tuple(g["metrics"]) == breakdown.METRICS
            for key, entry in g["metrics"].items():
                assert entry["value"] == pytest.approx(expected[key], abs=1e-9)
                assert entry["low"] <= entry["value"] + 1e-9
                assert entry["value"] <= entry["high"] + 1e-9
            seen += inside
        assert sorted(seen) == PAIRS, "every pair is in one group"
    assert [g["group"] for g in system["breakdowns"]["contact_position"]][-1] == "unknown"
    assert [g["group"] for g in system["breakdowns"]["clip_seconds"]] == ["unknown"]


def test_categories_are_those_of_by_category_and_the_protocols_keys_stay():
    answers, margins = make()
    rows = rows_of(answers, margins)
    questions = {s: [(p, "causal" if p == "p0" else "event") for p, _ in pairs]
                 for s, pairs in QUESTIONS.items()}  # fmt: skip
    facts = {n: facts_of(n, category="causal" if n[1] == "p0" else "event") for n in PAIRS}
    with_facts = evaluate(rows, questions, replicates=20, facts=facts).metrics
    (system,) = with_facts["systems"]
    for group in system["breakdowns"]["category"]:
        for key, entry in group["metrics"].items():
            assert entry == system["by_category"][group["group"]][key]
    del system["breakdowns"], system["threshold_free"]
    assert evaluate(rows, questions, replicates=20).metrics == with_facts


def test_groups_are_the_same_for_all_systems_and_incomplete_pairs_stay_counted():
    answers, margins = make()
    rows = rows_of(answers, margins)
    big = [[10 * m for m in four] for four in margins]
    other = rows_of(make(1)[0], big, method="vcd", alpha=1.0)
    for row in other:
        if row["scene_id"] in ("s00", "s01"):
            row |= {"label": None, "status": "video_error", "margin": None}
    one, two = systems_of(rows + other)
    for factor, groups in one["breakdowns"].items():
        names = [(g["group"], g["low"], g["high"]) for g in groups]
        assert names == [(g["group"], g["low"], g["high"]) for g in two["breakdowns"][factor]]
        for system in (one, two):
            total = [g["n_pairs"] + g["n_incomplete"] for g in system["breakdowns"][factor]]
            assert sum(total) == len(PAIRS)
    unknown = two["breakdowns"]["margin"][-1]
    assert (unknown["group"], unknown["n_pairs"], unknown["n_incomplete"]) == ("unknown", 0, 3)
    assert {e["value"] for e in unknown["metrics"].values()} == {None}
    assert one["breakdowns"]["margin"][-1]["n_pairs"] == 0
    assert json.loads(json.dumps([one, two], allow_nan=False)) == [one, two]


def test_order_of_rows_does_not_matter():
    answers, margins = make()
    rows = rows_of(answers, margins)
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    backwards = {n: FACTS[n] for n in reversed(PAIRS)}
    assert systems_of(rows) == systems_of(mixed, facts=backwards)


def test_threshold_free_counts_what_it_leaves_out():
    answers, margins = make()
    rows = rows_of(answers, margins)
    rows[0]["margin"] = None  # of the first pair
    del rows[4]  # of the second, which is incomplete
    (system,) = systems_of(rows)
    found = system["threshold_free"]
    kept = [(a, v) for n, (a, v) in enumerate(zip(answers.values(), margins)) if n > 1]
    cells = [(a, m) for four in kept for a, m in zip(*four)]
    assert found["n_pairs"] == len(kept) == len(PAIRS) - 2
    assert found["n_without_margin"] == 1
    assert found["n_unparsed"] == sum(a is None for a, _ in cells)
    disagree = sum(a is not None and (a == "yes") != (m > 0) for a, m in cells)
    assert found["n_disagree"] == disagree > 0
    assert found["metrics"]["auroc"]["low"] < found["metrics"]["auroc"]["high"]
    assert sum(b["n_answers"] for b in found["reliability"]) == 4 * len(kept)
    assert len(found["risk_coverage"]["answers"]) == len(found["risk_coverage"]["coverage"])
    assert len(found["threshold"]["quad_acc"]["thresholds"]) == 10


def test_rows_without_any_margin_have_counts_only():
    answers, _ = make()
    rows = rows_of(answers, [[None] * 4] * len(PAIRS))
    (system,) = systems_of(rows)
    counts = {"n_scenes": 0, "n_pairs": 0, "n_without_margin": len(PAIRS)}
    assert system["threshold_free"] == counts | {"n_unparsed": 0, "n_disagree": 0}
    assert [g["group"] for g in system["breakdowns"]["margin"]] == ["unknown"]
    for row in rows:
        del row["margin"]
    assert systems_of(rows)[0] == system


def test_margins_that_are_no_numbers_are_refused():
    answers, margins = make()
    margins[2][1] = math.nan
    with pytest.raises(ValueError, match=r"pair s01 p1: margin must be a finite number or null"):
        systems_of(rows_of(answers, margins))


numbers = st.lists(st.one_of(st.integers(0, 6).map(float), st.just(math.nan)), max_size=40)


@settings(deadline=None)
@given(numbers)
def test_bins_part_the_known_numbers_and_no_equal_ones(values):
    found = breakdown.by_number(np.array(values))
    known = [v for v in values if not math.isnan(v)]
    names = [g.name for g in found.groups]
    assert len(set(names)) == len(names)
    assert (names[-1:] == ["unknown"]) == (len(known) < len(values))
    assert len(found.groups) <= breakdown.BINS + 1
    last = -math.inf
    for g, group in enumerate(found.groups):
        inside = [v for v, i in zip(values, found.index) if i == g]
        assert inside, "no group is empty"
        if group.name != "unknown":
            assert (min(inside), max(inside)) == (group.low, group.high)
            assert group.low > last
            last = group.high
    if len(set(known)) == len(known) >= breakdown.BINS:
        sizes = [sum(i == g for i in found.index) for g in range(breakdown.BINS)]
        assert max(sizes) - min(sizes) <= 1


def test_texts_are_sorted_with_unknown_last_and_infinity_is_refused():
    found = breakdown.by_text(["zebra", None, "a", "zebra"])
    assert [g.name for g in found.groups] == ["a", "zebra", "unknown"]
    assert found.index.tolist() == [1, 2, 0, 1]
    assert found.members.tolist()[1] == [True, False, False, True]
    with pytest.raises(ValueError, match="must be finite"):
        breakdown.by_number(np.array([1.0, math.inf]))
    assert breakdown.by_number(np.array([0.001, 0.002])).groups[0].name == "0.00"
