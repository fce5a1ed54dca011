"""The qualitative sheets: every answer of every system, right or wrong by a mark."""

import numpy as np
import paper_rows
import pytest
from matplotlib.patches import Rectangle
from test_paper_figures import boxes_of, check_apart

from cctv.metrics.quadruples import CELLS
from cctv.reports import paper_sheets as sheets

NONE = [sheets.Video("v+", [], "gone.mp4: no such file"), sheets.Video("v-", [], "broken")]


@pytest.fixture(scope="module")
def world():
    return paper_rows.world()


def answers_of(world, scene_id):
    found = {}
    for row in world.rows:
        if row["method"] == "base":
            cells = found.setdefault(row["model"], {})
            if row["scene_id"] == scene_id:
                cells[row["pair_id"], row["video"], row["question"]] = row
    return found


def grid_of(figure):
    """[texts of the cells] of each row of each block, top to bottom."""
    out = []
    for axis in figure.axes:
        cells = [t for t in axis.texts if t.get_fontsize() == 6.5]
        lines = {}
        for text in cells:
            x, y = text.get_position()
            lines.setdefault(int(y), []).append((x, text.get_text()))
        out += [[t for _, t in sorted(lines[y])] for y in sorted(lines)]
    return out


def test_every_answer_with_its_mark(world):
    scene = paper_rows.facts(world.scenes)[0]
    answers = answers_of(world, scene["scene_id"])
    figure = sheets.sheet(scene, NONE, answers, title="A scene")
    grid = grid_of(figure)
    n = len(scene["pairs"])
    assert n <= 8
    for found, cells in zip(answers.values(), grid, strict=True):
        expected = []
        for pair in scene["pairs"]:
            for cell in CELLS:
                label = found[pair["pair_id"], *cell]["label"]
                gold = int(cell == ("positive", "positive"))
                mark = "✓" if label == gold else "✗"
                expected.append("?" if label is None else ("Y" if label else "N") + mark)
        assert cells == expected
    thick = [p for axis in figure.axes for p in axis.patches if p.get_linewidth() > 1]
    right = sum(
        [found[pair["pair_id"], *cell]["label"] for cell in CELLS] == [1, 0, 0, 0]
        for found in answers.values()
        for pair in scene["pairs"]
    )
    assert len(thick) == right
    texts = [text for text, _ in boxes_of(figure)]
    for pair in scene["pairs"]:
        for side in ("positive", "negative"):
            assert any(pair[side] in text for text in texts)
    assert "no frames: gone.mp4: no such file" in texts
    assert "no frames: broken" in texts


def test_many_pairs_take_more_blocks_and_nothing_overlaps(world):
    scene = paper_rows.facts(world.scenes)[0]
    pairs = [
        {"pair_id": f"p{i}", "category": "spatial_temporal", "positive": "word " * 90 + "?"}
        | {"negative": "事故 $x$ " + "w" * 400}
        for i in range(9)
    ]
    names = [f"{i} {'long-' * 12}name" for i in range(3)]
    frames = [sheets.Frame(f"moment {i}", np.zeros((40, 60, 3), np.uint8)) for i in range(4)]
    videos = [sheets.Video("v+", frames), sheets.Video("v-", frames)]
    figure = sheets.sheet(scene | {"pairs": pairs}, videos, {n: {} for n in names}, title="x" * 90)
    check_apart(figure)
    grid = grid_of(figure)
    assert [len(line) for line in grid] == [20] * 3 + [16] * 3
    assert {text for line in grid for text in line} == {"–"}
    pictures = [axis for axis in figure.axes if axis.images]
    assert len(pictures) == 8


def test_kinds():
    row = {"status": "ok", "label": 1}
    assert sheets.kind_of(row, 1) == "right"
    assert sheets.kind_of(row, 0) == "wrong"
    assert sheets.kind_of({"status": "unparsed", "label": None}, 1) == "unparsed"
    assert sheets.kind_of({"status": "video_missing", "label": None}, 0) == "failed"
    assert sheets.kind_of(None, 0) == "failed"


def test_marks_hatches_and_shades_differ(world):
    scene = paper_rows.facts(world.scenes)[0]
    pair = scene["pairs"][0] | {"pair_id": "p"}
    rows = {("p", *CELLS[0]): {"status": "ok", "label": 1}}
    rows |= {("p", *CELLS[1]): {"status": "ok", "label": 1}}
    rows |= {("p", *CELLS[2]): {"status": "unparsed", "label": None}}
    figure = sheets.sheet(scene | {"pairs": [pair]}, NONE, {"m": rows}, title="t")
    assert grid_of(figure) == [["Y✓", "Y✗", "?", "–"]]
    cells = [p for p in figure.axes[-1].patches if isinstance(p, Rectangle) and p.get_fill()]
    grey = [0.3 * r + 0.59 * g + 0.11 * b for r, g, b, _ in (p.get_facecolor() for p in cells)]
    assert abs(grey[0] - grey[1]) > 0.3
    assert len({p.get_hatch() or "" for p in cells}) == 3
