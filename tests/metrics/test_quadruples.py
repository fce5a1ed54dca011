"""Every metric against a plain loop, scikit-learn and the identities of the definitions."""

import itertools
import math

import numpy as np
import plain_loop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from cctv.metrics import quadruples

CODES = {"no": quadruples.NO, "yes": quadruples.YES, None: quadruples.UNPARSED}
PAIR = st.tuples(*[st.sampled_from(["yes", "no", None])] * 4)
PAIRS = st.lists(PAIR, min_size=1, max_size=40)


def pooled(pairs):
    cells = np.array([[CODES[a] for a in pair] for pair in pairs]).reshape(-1, 4)
    zero = np.zeros(len(cells), int)
    return quadruples.histograms(zero, quadruples.pattern(cells), 1)[0]


def values(pairs):
    found = quadruples.plug_in(pooled(pairs))
    return {key: None if math.isnan(v) else float(v) for key, v in found.items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert found[key] is None, key
        else:
            assert found[key] == pytest.approx(value, abs=1e-10, rel=1e-12), key


def test_patterns_are_all_81_and_their_own_index():
    np.testing.assert_array_equal(quadruples.pattern(quadruples.PATTERNS), np.arange(81))
    assert set(map(tuple, quadruples.PATTERNS)) == set(itertools.product(range(3), repeat=4))


@pytest.mark.parametrize("pair", list(itertools.product(["yes", "no", None], repeat=4)), ids=str)
def test_each_of_the_81_patterns_alone_equals_the_plain_loop(pair):
    """Also the one-pair benchmark."""
    assert_same(values([pair]), plain_loop.metrics([pair]))


@given(PAIRS)
def test_pooled_pairs_equal_the_plain_loop(pairs):
    assert_same(values(pairs), plain_loop.metrics(pairs))
    card = {key: float(v) for key, v in quadruples.card(pooled(pairs)).items()}
    assert card == pytest.approx(plain_loop.card(pairs))


def test_no_pairs_is_undefined_everywhere():
    assert_same(values([]), plain_loop.metrics([]))
    assert set(values([]).values()) == {None}
    assert all(math.isnan(v) for v in quadruples.card(pooled([])).values())


@given(PAIRS)
def test_confusion_metrics_equal_sklearn_with_unparsed_as_the_wrong_label(pairs):
    gold = [1, 0, 0, 0] * len(pairs)
    wrong = {1: 0, 0: 1}
    said = [{"yes": 1, "no": 0, None: wrong[g]}[a] for g, a in zip(gold, itertools.chain(*pairs))]
    found = values(pairs)
    close = {"abs": 1e-9}
    mcc = sklearn_metrics.matthews_corrcoef(gold, said)
    assert found["mcc"] == pytest.approx(mcc, **close)
    assert found["mcc_score"] == pytest.approx(100 * ((mcc + 1) / 2) ** 2, **close)
    for key, function in {
        "ba_acc": sklearn_metrics.balanced_accuracy_score,
        "accuracy": sklearn_metrics.accuracy_score,
    }.items():
        assert found[key] == pytest.approx(100 * function(gold, said), **close)
    scores = sklearn_metrics.precision_recall_fscore_support(
        gold, said, average="binary", zero_division=0
    )
    if any(said):
        assert found["precision"] == pytest.approx(100 * scores[0], **close)
    else:
        assert found["precision"] is None
    assert found["recall"] == pytest.approx(100 * scores[1], **close)
    assert found["f1"] == pytest.approx(100 * scores[2], **close)


@given(PAIRS)
def test_identities(pairs):
    found = values(pairs)
    four = [found[k] for k in ("contr_q_pos", "reject_q_neg", "contr_v_pos", "reject_v_neg")]
    assert found["video_consistency"] == pytest.approx(sum(four[:2]) / 2)
    assert found["question_consistency"] == pytest.approx(sum(four[2:]) / 2)
    assert found["quad_acc"] <= min(four) + 1e-9
    vs, qs = found["vs"], found["qs"]
    harmonic = 2 * vs * qs / (vs + qs) if vs + qs else 0
    assert found["gvrs"] == pytest.approx(harmonic)
    assert found["sve"] <= vs + 1e-9
    assert -1 - 1e-12 <= found["mcc"] <= 1 + 1e-12


@given(PAIR)
def test_a_quadruple_is_both_video_conditions_and_both_question_conditions(pair):
    found = values([pair])
    right = found["quad_acc"] == 100
    assert right == (found["contr_q_pos"] == 100 and found["reject_q_neg"] == 100)
    assert right == (found["contr_v_pos"] == 100 and found["reject_v_neg"] == 100)


def test_always_no():
    found = values([("no",) * 4] * 7)
    expected = {"quad_acc": 0, "contr_q_pos": 0, "contr_v_pos": 0, "reject_q_neg": 100}
    expected |= {"reject_v_neg": 100, "video_consistency": 50, "question_consistency": 50}
    expected |= {"ba_acc": 50, "mcc": 0, "mcc_score": 25, "precision": None, "vri": None}
    expected |= {"gvrs": 0, "yes_rate": 0, "pos_omiss": 100, "f1": 0, "accuracy": 75}
    assert expected.items() <= found.items()


def test_always_yes():
    found = values([("yes",) * 4] * 7)
    expected = {"quad_acc": 0, "video_consistency": 0, "question_consistency": 0, "ba_acc": 50}
    expected |= {"mcc": 0, "mcc_score": 25, "yes_rate": 100, "precision": 25, "recall": 100}
    expected |= {"pos_omiss": 0, "pos_swap": 100, "neg_hall": 100, "me_viol": 100, "vri": None}
    assert expected.items() <= found.items()


def test_always_unparsed_earns_nothing():
    found = values([(None,) * 4] * 7)
    assert found.pop("mcc") == -1
    assert found.pop("vri") is None
    assert found.pop("unparsed_failed") == 100
    assert set(found.values()) == {0}


def test_oracle():
    found = values([("yes", "no", "no", "no")] * 7)
    undefined = {"pos_omiss", "pos_swap", "neg_hall", "me_viol", "unparsed_failed"}
    assert {key for key, v in found.items() if v is None} == undefined
    assert found.pop("mcc") == 1
    assert found.pop("yes_rate") == 25
    assert found.pop("vri") == 50
    assert {v for v in found.values() if v is not None} == {100}


def test_equal_unparsed_answers_are_no_evidence_of_stable_q_neg():
    assert values([("yes", None, "no", None)])["sve"] == 0
    assert values([("yes", "yes", "no", "yes")])["sve"] == 100


@settings(max_examples=10, deadline=None)
@given(st.lists(st.lists(PAIR, max_size=5), min_size=4, max_size=4), st.integers(0, 2**32 - 1))
def test_replicates_on_the_device_equal_the_plain_loop(scenes, seed):
    weights = np.random.default_rng(seed).integers(0, 4, (6, 4))
    counts = np.stack([pooled(pairs) for pairs in scenes])
    found = quadruples.replicate_metrics(weights.astype(np.float32), counts)
    assert found.dtype == np.float64
    for r, row in enumerate(weights):
        pairs = [pair for w, pairs in zip(row, scenes) for pair in pairs * int(w)]
        one = {k: None if math.isnan(v) else v for k, v in zip(quadruples.KEYS, found[:, r])}
        assert_same(one, plain_loop.metrics(pairs))


def test_counts_that_float32_cannot_hold_are_refused():
    counts = np.zeros((1, 81), np.int32)
    counts[0, 0] = 2**22
    with pytest.raises(ValueError, match=r"2\*\*24"):
        quadruples.replicate_metrics(np.ones((1, 1), np.float32), counts)
    counts[0, 0] -= 1
    assert quadruples.replicate_metrics(np.ones((1, 1), np.float32), counts)[0, 0] == 0
