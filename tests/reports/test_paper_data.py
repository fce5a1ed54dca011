"""Figures 3 and 7, drawn from annotations: counts, samples and words by plain loops."""

from collections import Counter

import paper_rows
import pytest
from test_paper_figures import bars_of, boxes_of, check_apart

from cctv.reports import paper_data as data


@pytest.fixture(scope="module")
def scenes():
    return paper_rows.facts(paper_rows.world().scenes)


def renamed(scenes, count):
    """Scenes of many types and sources of long names."""
    return [
        s | {"scene_id": f"s{i}", "anomaly_type": f"a rather long type of anomaly number {i}"}
        | {"source": f"source-{i % 30:02d}"}
        for i, s in enumerate(scenes * (1 + count // len(scenes)))
    ][:count]  # fmt: skip


def test_bars_are_counts_by_view(scenes):
    figure = data.source_figure(scenes)
    for axis, key in zip(figure.axes, ("anomaly_type", "source"), strict=True):
        names = [t.get_text() for t in axis.get_yticklabels()]
        total = Counter(s[key] for s in scenes)
        assert names == sorted(total, key=lambda n: (-total[n], n))
        for view, bars in bars_of(axis).items():
            counts = Counter(s[key] for s in scenes if s["view"] == view)
            assert [b.get_width() for b in bars] == [counts[n] for n in names]
        assert [t.get_text() for t in axis.texts] == [str(total[n]) for n in names]


def test_too_many_types_are_summed_up(scenes):
    many = renamed(scenes, 40)
    axis = data.source_figure(many).axes[0]
    labels = [t.get_text() for t in axis.get_yticklabels()]
    assert len(labels) == data.SHOWN
    assert labels[-1] == "17 others"
    assert sum(int(t.get_text()) for t in axis.texts) == 40
    assert axis.texts[-1].get_text() == "17"


def test_boxes_are_of_the_durations_and_the_word_counts(scenes):
    scenes = [*scenes[:-1], scenes[-1] | {"duration": None}]
    figure = data.language_figure(scenes)
    assert f"{len(scenes) - 1} of {len(scenes)} scenes" in figure.axes[0].get_title("left")
    for axis, samples in zip(figure.axes, (durations(scenes), lengths(scenes))):
        labels = [t.get_text() for t in axis.get_yticklabels()]
        assert labels == [f"{name} ({len(values)})" for name, values in samples]
        medians = [line for line in axis.get_lines() if line.get_linewidth() == 1.2]
        for line, (_, values) in zip(medians, samples, strict=True):
            assert line.get_xdata()[0] == pytest.approx(median(values))


def durations(scenes):
    found = {}
    for s in scenes:
        if s["duration"] is not None:
            found.setdefault(s["anomaly_type"], []).append(s["duration"])
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def lengths(scenes):
    found = {}
    for pair in (p for s in scenes for p in s["pairs"]):
        for side in ("positive", "negative"):
            found.setdefault(pair["category"], []).append(len(pair[side].split()))
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def median(values):
    values, half = sorted(values), len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def test_words_by_side(scenes):
    axis = data.language_figure(scenes).axes[2]
    shown = [t.get_text() for t in axis.get_yticklabels()]
    assert len(shown) == data.WORDS
    assert not {"the", "of", "was"} & set(shown)
    for side, label in (("positive", "q+"), ("negative", "q-")):
        text = " ".join(p[side] for s in scenes for p in s["pairs"]).lower().replace("?", "")
        counts = Counter(text.split())
        assert [b.get_width() for b in bars_of(axis)[label]] == [counts[w] for w in shown]


def test_words():
    assert data.words("Did the T-bone's car (red) hit it?") == ["did", "the", "t-bone's", "car",
                                                                "red", "hit", "it"]  # fmt: skip
    assert data.words("是否 发生 追尾？") == ["是否", "发生", "追尾"]
    assert data.words("?!_ --") == []


def test_no_duration_no_word_one_scene(scenes):
    pair = {"pair_id": "p", "category": "event", "positive": "?", "negative": "??"}
    one = scenes[0] | {"duration": None, "pairs": [pair]}
    figure = data.language_figure([one])
    assert "no duration is known" in [text for text, _ in boxes_of(figure)]
    assert data.statistics_table([one]).rows[6].entries[0] == "–"
    check_apart(data.source_figure([one]))


def test_texts_stay_apart(scenes):
    many = renamed(scenes, 40)
    check_apart(data.source_figure(many))
    check_apart(data.language_figure(many))
