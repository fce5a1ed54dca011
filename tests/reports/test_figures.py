"""The α figure: what is drawn is what alpha.json says, and equal content gives equal files."""

import json

import numpy as np
import pytest
import sweep_rows
from PIL import Image

from cctv.reports import figures
from cctv.runs import choose, rows, sweep

OPTIONS = {"metric": "quad_acc", "alpha_max": 2.0, "select_on": 0.5, "seed": 0, "replicates": 20}


def found_of(**options):
    world = sweep_rows.World(**options)
    systems = sweep.gather(world.all_rows(), world.questions(), where="x")
    return choose.analyse(systems, **OPTIONS)


@pytest.fixture(scope="module")
def exact():
    return found_of()


@pytest.fixture(scope="module")
def banded():
    return found_of(ends=1.25, methods=("c_tcd",))


def panels(figure):
    return {axis.get_title(): axis for axis in figure.axes}


def test_a_panel_a_metric_with_every_method_base_and_choice(exact):
    figure = figures.alpha_figure(exact)
    assert "all scenes: a picture, not an estimate" in figure.get_suptitle()
    assert "benchmark's own pairing" in figure.get_suptitle()
    axes = panels(figure)
    assert list(axes) == [*figures.PANELS.values(), "yes rate (gold: 25)"]
    for key, title in (*figures.PANELS.items(), ("yes_rate", "yes rate (gold: 25)")):
        lines = axes[title].get_lines()
        for method in exact["methods"].values():
            steps = method["all_scenes"]["curves"][key]
            x, y = [*steps["alpha"], 2.0], [*steps["after_low"], steps["after_low"][-1]]
            drawn = [line for line in lines if line.get_drawstyle() == "steps-post"]
            assert any(
                np.array_equal(line.get_xdata(), x) and np.array_equal(line.get_ydata(), y)
                for line in drawn
            )
            alpha = method["chosen"]["alpha"]
            assert any(list(line.get_xdata()) == [alpha, alpha] for line in lines)
            base = method["all_scenes"]["base"][key]
            dots = [line for line in lines if list(line.get_xdata()) == [0]]
            assert any(list(line.get_ydata()) == [base] for line in dots)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sum("chosen α" in text for text in texts) == 3
    assert not any("beyond" in text for text in texts)


def test_a_band_beyond_the_exact_range(banded):
    figure = figures.alpha_figure(banded)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "beyond the exact range" in texts
    (line,) = [
        line
        for line in panels(figure)["yes rate (gold: 25)"].get_lines()
        if line.get_drawstyle() == "steps-post" and line.get_linewidth() == 0.8
    ]
    x, y = np.array(line.get_xdata()), np.array(line.get_ydata())
    assert not np.isnan(y[x < 1.25]).any()
    assert np.isnan(y[x >= 1.25]).all()


def test_without_c_tcd_its_caveat_is_not_there():
    found = found_of(methods=("tcd",))
    assert "pairing" not in figures.alpha_figure(found).get_suptitle()
    assert not any("C-TCD" in note for note in figures.notes(found))


def test_files_are_the_same_each_time_and_from_the_json(banded, tmp_path):
    one = figures.save(figures.alpha_figure(banded), tmp_path / "one")
    rows.write_json(tmp_path / "alpha.json", banded)
    again = json.loads((tmp_path / "alpha.json").read_text())
    two = figures.save(figures.alpha_figure(again), tmp_path / "deep" / "er" / "two")
    assert [path.suffix for path in one] == [".png", ".pdf"]
    for a, b in zip(one, two):
        assert a.read_bytes() == b.read_bytes()
    with Image.open(one[0]) as image:
        assert image.size == (1600, 1680)
        assert image.info["dpi"][0] == pytest.approx(200, abs=0.1)
    assert b"CreationDate" not in one[1].read_bytes()
    assert sorted(p.name for p in tmp_path.glob("*.p*")) == ["one.pdf", "one.png"]


def test_drawing_leaves_matplotlibs_settings_alone(exact, tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures.save(figures.alpha_figure(exact), tmp_path / "x")
    assert dict(matplotlib.rcParams) == before


def test_a_place_that_cannot_be_written_is_named(exact, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"can't write .*file/alpha\.png"):
        figures.save(figures.alpha_figure(exact), tmp_path / "file" / "alpha")
