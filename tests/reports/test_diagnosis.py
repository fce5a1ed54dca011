"""Breakdowns and the threshold-free view in reports: what is shown is what metrics.json has."""

import copy
import random

import numpy as np
import pytest
import sweep_rows

from cctv.metrics.evaluate import evaluate
from cctv.reports import diagnosis, figures, page, tables

METHODS = ("vcd", "c_tcd")
EVIL = "模型\"'><script>alert(1)</script>$\\frac{$ {{ 7*7 }}\n" * 3


def facts_of(pairs):
    return {
        (s, p): {"category": "event", "view": "driving" if i % 2 else "roadside"}
        | {"anomaly_type": f"type {int(s[1:]) % 3}", "source": EVIL, "clip_seconds": None}
        | {"contact_position": float(s[1:]) if i % 4 else None, "question_words": i % 7}
        for i, (s, p) in enumerate(pairs)
    }


@pytest.fixture(scope="module")
def world():
    return sweep_rows.World(scenes=12, methods=METHODS)


@pytest.fixture(scope="module")
def evaluation(world):
    questions = {s: [(p, "event") for p in ps] for s, ps in world.questions().items()}
    return evaluate(world.all_rows(), questions, facts=facts_of(world.pairs), replicates=30)


@pytest.fixture(scope="module")
def systems(evaluation):
    return evaluation.metrics["systems"]


def labels_of(systems):
    return [s["method"] for s in systems]


def parts_of(evaluation):
    return {part.title.split(";")[0]: part for part in tables.sections(*evaluation)}


def test_breakdown_tables_show_every_group_with_its_size(evaluation, systems):
    parts = parts_of(evaluation)
    for factor, name in tables.FACTORS.items():
        if factor in ("category", "clip_seconds"):
            assert f"QuadAcc (%) by {name}" not in parts
            continue
        table = parts[f"QuadAcc (%) by {name}"]
        groups = systems[0]["breakdowns"][factor]
        if factor == "source":
            assert table.header[1][:5] == "模型\"'>"
            assert len(table.header[1]) == 40
            assert table.header[1].isprintable()
        else:
            assert list(table.header) == ["system", *(g["group"] for g in groups)]
        rows = [row for row in table.rows if row[0] != "quadruples (scenes)"]
        for system, row in zip(systems, rows, strict=True):
            for g, cell in zip(system["breakdowns"][factor], row[1:], strict=True):
                entry = g["metrics"]["quad_acc"]
                text = f"{entry['mean']:.2f} ± {entry['half_width']:.2f}"
                assert cell == (text if entry["mean"] is not None else "–") + "*" * g["small"]
        sizes = [row for row in table.rows if row[0] == "quadruples (scenes)"]
        assert len(sizes) == (len(systems) if factor == "margin" else 1)
        assert sizes[0][1:] == [f"{g['n_pairs']} ({g['n_scenes']})" for g in groups]
    assert parts["Not annotated"].lines == ["By seconds of the clip: known of no quadruple."]


def test_margin_tables_hold_the_numbers(evaluation, systems):
    parts = parts_of(evaluation)
    whole = parts["From margins, whatever the threshold, % [95 % interval]"]
    chosen = parts["A threshold chosen on other scenes, against 0, % [95 % interval]"]
    for system, first, second in zip(systems, whole.rows, chosen.rows, strict=True):
        found = system["threshold_free"]
        auroc, gain = found["metrics"]["auroc"], found["threshold"]["quad_acc"]["difference"]
        assert first[2] == f"{auroc['value']:.2f} [{auroc['low']:.2f}, {auroc['high']:.2f}]"
        assert second[4].startswith(f"{gain['value']:+.2f} [{gain['low']:+.2f}, ")
    lines = parts["Blindness or a biased threshold?"].lines
    assert [line.split(": ")[0] for line in lines] == ["toy base", "toy vcd α=1", "toy c_tcd α=1"]
    silent = [dict(s, threshold_free={"n_pairs": 0}) for s in systems]
    titles = [p.title for p in tables.sections({**evaluation.metrics, "systems": silent}, {}, {})]
    assert not [t for t in titles if "threshold" in t]


def test_the_brief_form_for_a_terminal_keeps_the_verdict_and_no_details(evaluation):
    whole, brief = (
        [part.title for part in tables.sections(*evaluation, brief=b)] for b in (False, True)
    )
    left_out = [title for title in whole if title not in brief]
    assert brief == [title for title in whole if title in brief]
    assert "Blindness or a biased threshold?" in brief
    assert any("by view" in title for title in left_out)
    details = ("QuadAcc (%) by", "Not annotated", "From margins", "A threshold")
    assert all(title.startswith(details) for title in left_out)


def verdict(zero, gain, low, *, scenes=50):
    entry = {"value": zero, "low": zero, "high": zero}
    held = {"value": zero + gain}
    threshold = {"at_zero": entry, "held_out": held}
    threshold["difference"] = {"value": gain, "low": low, "high": gain + 1}
    return tables.verdict(
        {"n_scenes": scenes, "metrics": {"ordered": {"value": 30.0}}}
        | {"threshold": {"quad_acc": threshold}}
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((100, 0, 0), ": nothing is missing."),
        ((10, 2, -1), ": blindness, not the threshold: no gain from another one is shown."),
        ((10, 0, 0), ": blindness, not the threshold: no gain from another one is shown."),
        ((10, 45, 40), ": mostly a biased threshold."),
        ((10, 18, 12), ": a biased threshold costs 20 % of what is missing."),
    ],
)
def test_verdict(given, words):
    assert verdict(*given).endswith(words)
    assert verdict(*given, scenes=9).endswith("; but 9 scenes are too few to tell.")


def test_one_scene_gives_a_verdict_too():
    world = sweep_rows.World(scenes=1, methods=())
    questions = {s: [(p, "event") for p in ps] for s, ps in world.questions().items()}
    found = evaluate(world.all_rows(), questions, facts=facts_of(world.pairs), replicates=5)
    text = tables.as_text(tables.sections(*found))
    assert "one scene, so there are no others to choose a threshold on" in text
    assert "A threshold chosen on other scenes" not in text


def test_what_margins_do_not_decide_is_counted(systems):
    one = copy.deepcopy(systems[0])
    one["threshold_free"] |= {"n_without_margin": 3, "n_unparsed": 2, "n_disagree": 1}
    lines = tables.sections({"systems": [one], "comparisons": [], "bootstrap": {
        "replicates": 1, "unit": "scene", "seed": 0}}, {}, {})  # fmt: skip
    (block,) = [part for part in lines if part.title.startswith("Blindness")]
    assert [line.split(": ")[1].split()[0] for line in block.lines[1:]] == ["3", "2", "1"]


def test_margins_figure_draws_what_metrics_say(systems):
    figure = diagnosis.margins_figure(systems, diagnosis._lines(systems, labels_of(systems)))
    panels = {axis.get_title(): axis for axis in figure.axes}
    assert list(panels) == ["Reliability", "Quadruple margin", "Abstaining, answers",
                            "Abstaining, quadruples"]  # fmt: skip
    for i, system in enumerate(systems):
        found = system["threshold_free"]
        margin = panels["Quadruple margin"].lines[1 + i]  # after the line at 0
        np.testing.assert_array_equal(margin.get_xdata(), found["quadruple_margin"]["quantiles"])
        bins = [b for b in found["reliability"] if b["n_answers"]]
        drawn = panels["Reliability"].lines[1 + i].get_xydata()
        expected = [[b["probability"], b["yes"]["value"]] for b in bins]
        np.testing.assert_array_equal(drawn, expected)
        for key in ("answers", "quadruples"):
            curve = panels[f"Abstaining, {key}"].lines[2 * i]
            expected = [entry["value"] for entry in found["risk_coverage"][key]]
            np.testing.assert_array_equal(curve.get_ydata(), expected)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["base", "vcd", "c_tcd"]
    colours = [line.get_color() for line in panels["Quadruple margin"].lines[1:]]
    assert colours == ["#000000", figures.COLOURS["vcd"], figures.COLOURS["c_tcd"]]


def test_breakdown_figure_draws_every_group_and_hollow_where_small(systems):
    lines = diagnosis._lines(systems, labels_of(systems))
    figure = diagnosis.breakdown_figure(systems, lines)
    shown = {axis.get_title(): axis for axis in figure.axes}
    assert tables.FACTORS["clip_seconds"] not in shown, "nothing is known of it"
    axis = shown[tables.FACTORS["view"]]
    names = [label.get_text() for label in axis.get_yticklabels()]
    groups = systems[0]["breakdowns"]["view"]
    assert names == [f"{g['group']} ({g['n_pairs']})" for g in groups]
    points = [line for line in axis.lines if line.get_marker() == "o"]
    drawn = {v: line.get_markerfacecolor() for line in points for v in line.get_xdata()}
    for g in groups:
        face = drawn[g["metrics"]["quad_acc"]["value"]]
        assert face == ("white" if g["small"] else "#000000")


def test_many_systems_and_groups_are_cut_and_counted(systems, tmp_path):
    group = systems[0]["breakdowns"]["view"][0]
    nothing = {key: [dict(group, group="unknown")] for key in tables.FACTORS}
    many = [dict(systems[0], model=f"m{i}", threshold_free={}) for i in range(11)]
    for system in many:
        system["breakdowns"] = nothing | {"source": [group] * 15}
    (picture,) = diagnosis.write(tmp_path, many, [f"m{i}" for i in range(11)])
    assert picture.path == "figures/breakdowns.svg", "no margins, no figure of them"
    assert picture.caption.endswith("The first 8 systems; 3 more are in metrics.json.")
    lines = diagnosis._lines(many, labels_of(many))
    assert len({(line.colour, line.marker) for line in lines}) == 8
    figure = diagnosis.breakdown_figure(many[:8], lines)
    assert figure.axes[0].get_title() == "source, 3 more groups left out"


def test_no_systems_are_no_figures(tmp_path):
    assert diagnosis.write(tmp_path, [], []) == []
    assert not list(tmp_path.iterdir())


def test_report_shows_the_figures_and_equal_input_gives_equal_bytes(tmp_path, world, evaluation):
    scenes = [
        {"scene_id": s, "view": "v", "anomaly_type": "a", "source": EVIL, "videos": {}}
        | {"strips": {}, "pairs": [{"pair_id": p, "category": "event", "positive": "A?"}
                                   | {"negative": "B?"} for p in pairs]}
        for s, pairs in world.questions().items()
    ]  # fmt: skip

    def write(folder, rows):
        page.write_report(folder, title="t", evaluation=evaluation, rows=rows, scenes=scenes,
                          notes=[], settings={})  # fmt: skip
        return {p.name: p.read_bytes() for p in folder.rglob("*.*") if p.is_file()}

    rows = world.all_rows()
    first = write(tmp_path / "a", rows)
    assert first == write(tmp_path / "b", random.Random(0).sample(rows, len(rows)))
    assert set(first) == {"report.html", "report.md", "margins.svg", "breakdowns.svg"}
    html, text = first["report.html"].decode(), first["report.md"].decode()
    assert "<script>alert(1)" not in html + first["breakdowns.svg"].decode()
    assert "Blindness or a biased threshold?" in html
    for name in ("margins", "breakdowns"):
        assert f'src="./figures/{name}.svg"' in html
        assert f"](figures/{name}.svg)" in text
        assert first[f"{name}.svg"].startswith(b"<?xml")
