"""The paper's figures: bars and radars are the plain loop's values, and texts stay apart."""

import copy
import itertools

import numpy as np
import paper_rows
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from cctv.reports import paper_figures as figures
from cctv.reports.paper_tables import METHOD_NAMES, Model

FAILURES = {"PosOmiss": "pos_omiss", "PosSwap": "pos_swap"}
FAILURES |= {"NegHall": "neg_hall", "MEViol": "me_viol"}


@pytest.fixture(scope="module")
def world():
    return paper_rows.world()


def many(world, count, length=0):
    """As many models in three groups, of long names if asked."""
    out = []
    for i, model in zip(range(count), itertools.cycle(world.models)):
        name = f"{i:02d} {model.name}".ljust(length, "w")
        out.append(model._replace(name=name, group=f"group {3 * i // count}"))
    return out


def undefined(model, *keys, categories=()):
    """The model with null metrics, and null in whole categories."""
    base = copy.deepcopy(model.base)
    null = dict.fromkeys(("value", "mean", "low", "high", "half_width")) | {"n_undefined": 50}
    for key in keys:
        base["metrics"][key] = null
    for category in categories:
        base["by_category"][category] = dict.fromkeys(base["metrics"], null)
    return model._replace(systems={**model.systems, "base": base})


def bars_of(axis):
    """{label: bars} of an axis, without error bars."""
    return {c.get_label(): c for c in axis.containers if hasattr(c, "patches")}


def whiskers_of(axis):
    """[[n, 2, 2] end points] of each set of error bars."""
    return [np.array(c.lines[2][0].get_segments()) for c in axis.containers
            if not hasattr(c, "patches")]  # fmt: skip


def test_failure_bars_are_the_plain_loops_with_their_intervals(world):
    axis = figures.failure_figure(world.models).axes[0]
    bars = bars_of(axis)
    assert list(bars) == list(FAILURES)
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert names == [m.name for m in world.models]
    for (label, drawn), ends in zip(bars.items(), whiskers_of(axis), strict=True):
        key = FAILURES[label]
        for i, (bar, name) in enumerate(zip(drawn, names, strict=True)):
            value = paper_rows.plain(world.rows, name, "base")[key]
            assert bar.get_width() == pytest.approx(value)
            assert bar.get_y() + bar.get_height() / 2 == pytest.approx(i, abs=0.4)
            entry = world.models[i].base["metrics"][key]
            low, high = min(entry["low"], value), max(entry["high"], value)
            assert ends[i][:, 0] == pytest.approx([low, high])


def test_radars_are_the_plain_loops_by_category(world):
    figure = figures.radar_figure(world.models, "All")
    categories = figures.categories_of(world.models)
    assert len(categories) == 6
    assert [a.get_title() for a in figure.axes] == [f"{n}, %" for n in figures.RADARS.values()]
    for axis, key in zip(figure.axes, figures.RADARS):
        labels = [t.get_text().replace("-\n", "_") for t in axis.get_xticklabels()]
        assert [label.replace("counter_", "counter") for label in labels] == categories
        for line, model in zip(axis.get_lines(), world.models, strict=True):
            values = [
                paper_rows.plain(world.rows, model.name, "base", c, world.scenes)[key]
                for c in categories
            ]
            assert line.get_ydata() == pytest.approx([*values, values[0]])
            assert line.get_ydata().max() <= axis.get_rmax()
            steps = 2 * np.pi * np.arange(6) / 6
            assert line.get_xdata() == pytest.approx([*steps, 0])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [m.name for m in world.models]


def test_method_bars_are_the_plain_loops(world):
    shown = [m for m in world.models if len(m.systems) > 1]
    figure = figures.method_figure(shown)
    assert len(figure.axes) == len(shown) > 1
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [*METHOD_NAMES.values()]
    for axis, model in zip(figure.axes, shown):
        assert axis.get_title("left") == f"{model.name}, α = 1"
        bars = bars_of(axis)
        assert list(bars) == [METHOD_NAMES[method] for method in model.systems]
        for method, drawn in zip(model.systems, bars.values()):
            plain = paper_rows.plain(world.rows, model.name, method)
            plain["mcc"] *= 100
            heights = [bar.get_height() for bar in drawn]
            assert heights == pytest.approx([plain[key] for key in figures.METHOD_METRICS])
            centres = [bar.get_x() + bar.get_width() / 2 for bar in drawn]
            assert np.round(centres).tolist() == list(range(len(figures.METHOD_METRICS)))


def test_models_that_lack_methods_stand_beside_those_that_have_them(world):
    full = next(m for m in world.models if len(m.systems) == 4)
    part = full._replace(systems={k: full.systems[k] for k in ("base", "c_tcd")})
    figure = figures.method_figure([part, full])
    assert list(bars_of(figure.axes[0])) == ["Base", "C-TCD"]
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert texts == ["Base", "VCD", "TCD", "C-TCD"]
    without = full._replace(systems={k: full.systems[k] for k in ("base", "vcd")})
    assert not figures.method_figure([without]).get_supxlabel()
    assert "pairing" in figure.get_supxlabel()


def test_colours_hatches_and_markers_tell_series_apart(world):
    axis = figures.failure_figure(world.models[:1]).axes[0]
    looks = [(to_hex(c[0].get_facecolor()), c[0].get_hatch()) for c in bars_of(axis).values()]
    assert len({colour for colour, _ in looks}) == len({hatch for _, hatch in looks}) == 4
    models = many(world, 14)
    lines = figures.radar_figure(models, "All").axes[0].get_lines()
    assert len({line.get_marker() for line in lines}) == 14
    colours = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(colours) == 14


def boxes_of(figure):
    """(text, box in pixels) of every text that is drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [*figure.texts, *(t for legend in figure.legends for t in legend.get_texts())]
    texts += [t for t in (figure._suptitle, figure._supxlabel) if t is not None]
    for axis in figure.axes:
        texts += [*axis.texts, axis.title, axis._left_title]
        for line in (axis.xaxis, axis.yaxis) if axis.axison else ():
            low, high = sorted(line.get_view_interval())
            inside = [t for t in line.get_major_ticks() if low - 1e-9 <= t.get_loc() <= high + 1e-9]
            texts += [line.label, *(t.label1 for t in inside)]
    unique = {id(t): t for t in texts if t.get_text().strip() and t.get_visible()}
    return [(t.get_text(), t.get_window_extent(renderer)) for t in unique.values()]


def check_apart(figure):
    """No text lies on another or leaves the page."""
    found = boxes_of(figure)
    page = figure.bbox
    for text, box in found:
        assert page.x0 - 1 <= box.x0 <= box.x1 <= page.x1 + 1, text
        assert page.y0 - 1 <= box.y0 <= box.y1 <= page.y1 + 1, text
    for (a, one), (b, two) in itertools.combinations(found, 2):
        x = min(one.x1, two.x1) - max(one.x0, two.x0)
        y = min(one.y1, two.y1) - max(one.y0, two.y0)
        assert not (x > 1 and y > 1), f"{a!r} on {b!r}"


@pytest.mark.parametrize(("count", "length"), [(1, 0), (14, 60)])
def test_no_text_on_another_with_any_number_and_length_of_names(world, count, length):
    models = many(world, count, length)
    check_apart(figures.failure_figure(figures.pages(models, "failures")[0]))
    check_apart(figures.radar_figure(models, "A title"))
    several = [m for m in models if len(m.systems) > 1]
    check_apart(figures.method_figure(figures.pages(several, "methods")[-1]))


def test_pages_hold_all_models_in_order_and_evenly(world):
    models = many(world, 33)
    pages = figures.pages(models, "failures")
    assert [m for page in pages for m in page] == models
    assert sorted(map(len, pages)) == [11, 11, 11]
    assert figures.pages([], "methods") == []
    assert len(figures.pages(models[:1], "methods")) == 1


def test_undefined_metrics_are_gaps_that_are_said(world):
    model = undefined(world.models[0], "pos_omiss", "precision", categories=["event", "causal"])
    axis = figures.failure_figure([model]).axes[0]
    assert np.isnan(bars_of(axis)["PosOmiss"][0].get_width())
    assert [t.get_text() for t in axis.texts] == ["undefined: nothing is wrong"]
    model.base["n_incomplete"] = model.base["n_pairs"]
    texts = [t.get_text() for t in figures.failure_figure([model]).axes[0].texts]
    assert texts == ["undefined: nothing is complete"]
    assert "event" in figures.categories_of([model, world.models[1]])
    assert figures.categories_of([model]) == ["counterfactual", "key_entity", "spatial",
                                              "spatial_temporal"]  # fmt: skip
    line = figures.radar_figure([model, world.models[1]], "x").axes[0].get_lines()[0]
    assert np.isnan(line.get_ydata()).tolist() == [True, False, True, False, False, False, True]
    del model.base["by_category"]["spatial"]
    line = figures.radar_figure([model, world.models[1]], "x").axes[0].get_lines()[0]
    assert np.isnan(line.get_ydata()[4])
    height = bars_of(figures.method_figure([model]).axes[0])["Base"][2].get_height()
    assert np.isnan(height)


def test_names_fit_and_letters_that_the_font_lacks_are_marked():
    assert figures.short("Qwen3-VL-2B") == "Qwen3-VL-2B"
    long = "organisation/" + "x" * 60 + "-2B-Instruct"
    assert len(figures.short(long)) == 32
    assert figures.short(long).startswith("organisation/")
    assert figures.short(long).endswith("-2B-Instruct")
    assert figures.printable("ein Über-α ✓ 事故") == "ein Über-α ✓ ��"
    assert figures.short("two\nlines\tand $tex$") == "two lines and $tex$"


def test_labels_differ_where_names_do():
    assert figures.labels_of(["a/x", "b/y"]) == ["x", "y"]
    assert figures.labels_of(["a/x", "b/x"]) == ["a/x", "b/x"]
    names = ["w" * 40 + str(i) + "w" * 40 for i in range(20)]
    found = figures.labels_of(names)
    assert len(set(found)) == 20
    assert max(map(len, found)) <= 32
    assert found[19].startswith("20 ww")


def test_names_are_never_formulas(world):
    models = [Model(m.group, rf"${m.name} \frac", m.systems) for m in world.models[:2]]
    models[0] = models[0]._replace(name="$x$ 事故")
    for figure in (figures.failure_figure(models), figures.radar_figure(models, "$a$")):
        assert "$x$ ��" in [text for text, _ in boxes_of(figure)]
