"""The audit against random answers, a plain loop over rates, and the published tables."""

import math
import re
from pathlib import Path

import numpy as np
import plain_loop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import matthews_corrcoef

from cctv.metrics import audit, quadruples

PAPER = Path(__file__).parents[2] / "experiments/paper_tables"
COLUMNS = (*audit.LINEAR, "mcc_score")


def printed(pooled, columns=COLUMNS):
    """What a table prints of a histogram int[P]."""
    values = quadruples.plug_in(pooled)
    return {key: round(float(values[key]), 2) for key in columns}


def verdict(values):
    return audit.audit(audit.Row("m", tuple(values.items())))


@st.composite
def histograms(draw):
    """A few patterns or many, with and without unparsed answers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = quadruples.PATTERNS.max(1) <= draw(st.sampled_from([1, 2]))
    p = kinds * rng.dirichlet(np.full(81, draw(st.sampled_from([0.01, 0.1, 1.0]))))
    return rng.multinomial(draw(st.sampled_from([1, 7, 1776])), p / p.sum())


def test_linear_metrics_are_those_of_a_plain_loop():
    names = ["no", "yes", None]
    for n, pattern in enumerate(quadruples.PATTERNS):
        expected = plain_loop.metrics([tuple(names[v] for v in pattern)])
        for key, share in audit.LINEAR.items():
            assert share[n] == pytest.approx(expected[key]), (key, pattern)


@settings(max_examples=60, deadline=None)
@given(histograms())
def test_tables_of_real_answers_pass(pooled):
    assert verdict(printed(pooled)) == (audit.Row("m", tuple(printed(pooled).items())), None, "")


@settings(max_examples=12, deadline=None)
@given(histograms(), st.sampled_from(sorted(audit.LINEAR)), st.floats(0.2, 40), st.booleans())
def test_a_broken_bound_holds_for_all_answers_and_not_for_the_row(pooled, key, by, up):
    values = printed(pooled)
    values[key] += by if up else -by
    found = verdict(values)
    if found.bound is None:
        assert not found.why or "no TPR" in found.why
        return
    weights = np.array([w for _, _, w in found.bound.terms])
    per_pattern = weights @ np.stack([audit.LINEAR[k] for k, _, _ in found.bound.terms])
    assert per_pattern.max() <= found.bound.limit + 1e-6
    assert weights @ [v for _, v, _ in found.bound.terms] > found.bound.limit
    assert found.bound.excess > 0


@settings(max_examples=5, deadline=None)
@given(histograms(), st.floats(0.2, 20))
def test_perturbed_tables_fail(pooled, by):
    """Identities of the definitions, each broken by more than the tolerances explain."""
    values = printed(pooled)
    mean = (values["contr_q_pos"] + values["reject_q_neg"]) / 2
    for change in (
        {"video_consistency": mean + by},
        {"qs": values["contr_v_pos"] - by},
        {"vs": values["sve"] - by},
        {"quad_acc": values["contr_q_pos"] + by},
        {"ba_acc": values["ba_acc"] + by, "recall": values["recall"] - 2 * by, "accuracy": 0.0},
    ):
        assert verdict(values | change).why


def test_the_bound_is_named_as_a_reader_would():
    found = verdict({"contr_v_pos": 38.58, "qs": 36.11, "sve": 3.0})
    assert found.why == "QS 36.11 < Contr@v+ 38.58 by 2.47"
    assert [term[0] for term in found.bound.terms] == ["contr_v_pos", "qs"]
    found = verdict({"contr_v_pos": 10.0, "reject_q_neg": 90.0, "qs": 25.0})
    assert found.why == "Contr@v+ 10.00 + 100 < Reject@q- 90.00 + QS 25.00 by 5.00"


def test_tolerance_is_on_each_column():
    assert not verdict({"contr_v_pos": 20.0, "qs": 19.93}).why
    assert verdict({"contr_v_pos": 20.0, "qs": 19.91}).why


@pytest.mark.parametrize(
    ("ba_acc", "mcc_score", "why"),
    [
        (50.0, 25.0, ""),
        (50.0, 30.0, "BaAcc 50.00 with MCCScore 30.00: no TPR gives both"),
        (100.0, 100.0, ""),
        (90.0, 40.0, "BaAcc 90.00 with MCCScore 40.00: no TPR gives both"),
    ],
)
def test_ba_acc_with_mcc_score(ba_acc, mcc_score, why):
    assert verdict({"ba_acc": ba_acc, "mcc_score": mcc_score}).why == why


def test_ba_acc_with_mcc_score_bounds_the_rest():
    """Alone each is possible; MCC says that few Yes were right, TPR follows, Contr@v+ <= TPR."""
    pooled = np.zeros(81, int)
    pooled[quadruples.pattern(np.array([[1, 0, 0, 0], [0, 0, 0, 0]]))] = [20, 80]
    values = printed(pooled, ("ba_acc", "mcc_score"))
    assert not verdict({"ba_acc": values["ba_acc"], "contr_v_pos": 60.0}).why
    found = verdict(values | {"contr_v_pos": 60.0})
    assert found.why.startswith("TPR 20.")
    assert "from BaAcc 60.00 with MCCScore" in found.why


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.integers(0, 120))
def test_the_scan_never_leaves_out_the_true_rate(tp, fp):
    gold = np.repeat([1, 0], [40, 120])
    said = np.concatenate([np.arange(40) < tp, np.arange(120) < fp]).astype(int)
    mcc = 100 * ((matthews_corrcoef(gold, said) + 1) / 2) ** 2
    tpr, tnr = tp / 40, 1 - fp / 120
    found = audit.true_positive_rates(round(50 * (tpr + tnr), 2), round(mcc, 2))
    assert any(low - 1e-9 <= 100 * tpr <= high + 1e-9 for low, high in found)


def test_the_scan_leaves_out_what_a_fine_loop_does_not_find():
    """Every end of an interval is near rates that do give both numbers."""
    intervals = audit.true_positive_rates(65.0, 40.0)
    hits = []
    for i in range(100_001):
        tpr = i / 100_000
        tnr = 1.3 - tpr
        q = (tpr + 3 * (1 - tnr)) / 4
        if 0 <= tnr <= 1 and 0 < q < 1:
            mcc = math.sqrt(3) / 4 * 0.3 / math.sqrt(q * (1 - q))
            if abs(25 * (mcc + 1) ** 2 - 40) <= 0.04:
                hits.append(100 * tpr)
    assert intervals
    assert hits
    for low, high in intervals:
        inside = [tpr for tpr in hits if low <= tpr <= high]
        assert min(inside) - low < 1
        assert high - max(inside) < 1
    assert all(any(low <= tpr <= high for low, high in intervals) for tpr in hits)


def failures(*tables):
    rows, unchecked = audit.read([PAPER / table for table in tables])
    assert len(rows) == (8 if "table3.csv" in tables else 14)
    return {row.name for row in rows if audit.audit(row).why}, unchecked


def test_each_published_table_is_possible_alone():
    assert failures("table1.csv") == (set(), [])
    assert failures("table2.csv") == (set(), ["gvrs"])
    assert failures("table3.csv") == (set(), [])


def test_five_published_rows_are_impossible_together_whatever_the_order():
    five = {"InternVL3.5 8B", "Qwen3-VL 2B", "Gemini-2.5 flash-lite", "GPT-5 nano", "GPT-5 mini"}
    assert failures("table1.csv", "table2.csv") == (five, ["gvrs"])
    assert failures("table2.csv", "table1.csv") == (five, ["gvrs"])


def test_four_columns_can_be_impossible_where_no_three_are():
    rows, _ = audit.read([PAPER / "table1.csv", PAPER / "table2.csv"])
    (row,) = (row for row in rows if row.name == "GPT-5 mini")
    assert audit.audit(row).why == (
        "Contr@v+ 56.64 + QuadAcc 25.85 + 100 < 2 × Overall (video) 58.10 + QS 68.67 by 2.38"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("model,qs\n", "no row"),
        ("qs\n1\n", "needs a column model"),
        ("model,qss\nm,1\n", "unknown column 'qss'"),
        ("model,qs,qs\nm,1,1\n", "'qs' stands there twice"),
        ("model,qs\nm,1,2\n", "t.csv:2: 3 cells under 2 columns"),
        ("model,qs\nm,x\n", "t.csv:2: qs must be from 0 to 100, got 'x'"),
        ("model,qs\nm,101\n", "got '101'"),
        ("model,qs\nm,nan\n", "got 'nan'"),
        ("model,qs\n ,1\n", "must name the model"),
        ("model,qs\nm,1\nm,1\n", "t.csv:3: m stands there twice"),
        ('model,qs\n"m,1\n', "not a CSV table"),
        ("model,qs\n\udcff,1\n", "not a CSV table in UTF-8"),
    ],
)
def test_bad_tables(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        audit.read([path])
    assert "\n" not in str(caught.value)


def test_what_is_not_printed_or_not_linear_is_not_checked(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeffmodel, size ,qs,qs_half_width,mcc,mcc_score\nm,2B,,1,-0.5,25\n\n")
    rows, unchecked = audit.read([path])
    assert rows == [audit.Row("m 2B", (("mcc", -0.5), ("mcc_score", 25.0)))]
    assert unchecked == ["mcc", "mcc_score"]
    assert not audit.audit(rows[0]).why
