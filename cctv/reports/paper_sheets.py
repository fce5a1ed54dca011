"""Figures 16 to 18: a qualitative sheet of one scene.

Frames of both videos, the questions, and the four answers of every system to each pair. Right and
wrong are told apart by a mark, a hatch and a colour.
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from cctv.metrics.quadruples import CELLS
from cctv.reports.figures import printable, short
from cctv.reports.paper_figures import labels_of, style

GOLD = (1, 0, 0, 0)  # labels of CELLS
_WIDTH = 11.0  # inches
_NAMES = 2.3  # of the systems' names
_SHARE = 0.93  # of the width, for frames
_TITLE, _TALLEST = 0.3, 2.8  # inches of a frame's title and of a frame
_LINE = 0.155  # inches of a line of questions
_ROW = 0.23  # inches of a system's row
_HEAD = 0.5  # above the rows
_FEWEST, _MOST = 5, 8  # pairs side by side
_THICK = 1.8  # points: the frame of a right quadruple
_LOOKS = {
    "right": ("✓", "#DCEBF7", "", "black"),
    "wrong": ("✗", "#D55E00", "", "white"),
    "unparsed": ("?", "#F5E3A8", "////", "black"),
    "failed": ("–", "white", "xxxx", "black"),
}
_WORDS = {1: "Y", 0: "N"}


class Frame(NamedTuple):
    """A picture and what its moment is called."""

    title: str
    image: np.ndarray  # uint8[H, W, 3]


class Video(NamedTuple):
    """Frames of one video, or the reason why there are none."""

    title: str
    frames: Sequence[Frame]
    note: str = ""


def sheet(
    scene: Mapping,
    videos: Sequence[Video],
    answers: Mapping[str, Mapping[tuple[str, str, str], Mapping]],
    *,
    title: str,
    note: str = "",
) -> Figure:
    """The sheet of a scene (as `paper_data` takes it).

    `answers`: system label -> (pair_id, video, question) -> row; a cell without a row is shown as
    failed, as is one that could not be run.
    """
    pairs = scene["pairs"]
    lines = [line for i, pair in enumerate(pairs, 1) for line in _question(i, pair)]
    wide = max(_FEWEST, -(-len(pairs) // -(-len(pairs) // _MOST)))  # pairs side by side
    blocks = [range(i, min(i + wide, len(pairs))) for i in range(0, len(pairs), wide)]
    frames = [_strip_height(v) for v in videos]
    grids = [_HEAD + _ROW * (len(answers) + 0.6)] * len(blocks)
    with style():
        heights = [*frames, _LINE * (len(lines) + 1), *grids]
        top, bottom = 0.62, 0.4
        total = sum(heights) + top + bottom
        figure = Figure(figsize=(_WIDTH, total))
        figure.text(0.5, 1 - 0.12 / total, printable(title), ha="center", va="top", fontsize=11)
        facts = [short(scene[key], 60) for key in ("anomaly_type", "view", "source")]
        facts = " · ".join([*facts, note] if note else facts)
        figure.text(0.5, 1 - 0.36 / total, facts, ha="center", va="top", fontsize=8)
        edges = total - top - np.cumsum([0, *heights])
        places = [(low / total, (high - low) / total) for high, low in itertools.pairwise(edges)]
        for video, place in zip(videos, places):
            _frames(figure, video, *place)
        _questions(figure, lines, *places[len(videos)])
        for block, place in zip(blocks, places[len(videos) + 1 :]):
            _grid(figure, pairs, block, wide, answers, *place)
        handles = [
            Patch(facecolor=fill, hatch=hatch, edgecolor="black", linewidth=0.4, label=label)
            for label, (_, fill, hatch, _) in (
                ("✓ right", _LOOKS["right"]),
                ("✗ wrong", _LOOKS["wrong"]),
                ("? neither yes nor no", _LOOKS["unparsed"]),
                ("– no answer", _LOOKS["failed"]),
            )
        ]
        handles.append(Patch(fill=False, linewidth=_THICK, label="all four right"))
        figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _question(number: int, pair: Mapping) -> list[str]:
    """The lines of a pair's two questions, and an empty one."""
    head = f"{number}  {pair['category'].replace('_', '-')}"
    out = []
    for sign, side in (("q+", "positive"), ("q-", "negative")):
        start = f"{head if side == 'positive' else '':<26}{sign}  "
        text = printable(" ".join(pair[side].split()))
        out += textwrap.wrap(
            text, 165, initial_indent=start, subsequent_indent=" " * 30, max_lines=3,
            placeholder=" …", break_long_words=True,
        )  # fmt: skip
    return [*out, ""]


def _strip_height(video: Video) -> float:
    """Inches of a video's row: its frames as wide as there is room, a title above."""
    if not video.frames:
        return 0.3
    height, width = video.frames[0].image.shape[:2]
    return _TITLE + min(_SHARE * _WIDTH / len(video.frames) * height / width, _TALLEST)


def _frames(figure: Figure, video: Video, bottom: float, height: float) -> None:
    figure.text(0.01, bottom + height / 2, printable(video.title), va="center", fontsize=9,
                fontweight="bold")  # fmt: skip
    if not video.frames:
        note = printable(textwrap.shorten(f"no frames: {video.note}", 150))
        figure.text(1 - _SHARE, bottom + height / 2, note, va="center", fontsize=8,
                    fontstyle="italic")  # fmt: skip
        return
    width = (_SHARE - 0.01) / len(video.frames)
    title = _TITLE / figure.get_figheight()
    for i, frame in enumerate(video.frames):
        box = (1 - _SHARE + i * width, bottom, 0.97 * width, height - title)
        axis = figure.add_axes(box)
        axis.imshow(frame.image)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_title(printable(frame.title), fontsize=8, pad=2)


def _questions(figure: Figure, lines: Sequence[str], bottom: float, height: float) -> None:
    step = _LINE / figure.get_figheight()
    for i, line in enumerate(lines):
        figure.text(0.01, bottom + height - (i + 0.9) * step, line, va="top", fontsize=7.5,
                    fontfamily="DejaVu Sans Mono")  # fmt: skip


def _grid(
    figure: Figure,
    pairs: Sequence[Mapping],
    block: range,
    wide: int,
    answers: Mapping[str, Mapping],
    bottom: float,
    height: float,
) -> None:
    """A row a system, four cells a pair, as much room as `wide` pairs need."""
    left, head = _NAMES / _WIDTH, _HEAD / figure.get_figheight()
    axis = figure.add_axes((left, bottom, 0.99 - left, height - head))
    axis.set_xlim(0, 4.4 * wide)
    axis.set_ylim(len(answers) + 0.6, 0)
    axis.axis("off")
    for column, number in enumerate(block):
        x = 4.4 * column
        axis.text(x + 2, -0.95, f"pair {number + 1}", ha="center", va="bottom", fontsize=8)
        for j, cell in enumerate(CELLS):
            signs = "".join("+" if side == "positive" else "-" for side in cell)
            axis.text(x + j + 0.5, -0.1, f"v{signs[0]}\nq{signs[1]}", ha="center", va="bottom",
                      fontsize=5.5, linespacing=0.95)  # fmt: skip
        for y, found in enumerate(answers.values()):
            rows = [found.get((pairs[number]["pair_id"], *cell)) for cell in CELLS]
            kinds = [_cell(axis, x + j, y, row, gold)
                     for j, (row, gold) in enumerate(zip(rows, GOLD))]  # fmt: skip
            right = kinds == ["right"] * 4
            axis.add_patch(Rectangle((x, y), 4, 1, fill=False, linewidth=_THICK if right else 0.5,
                                     edgecolor="black", zorder=3, clip_on=False))  # fmt: skip
    for y, name in enumerate(labels_of(list(answers))):
        axis.text(-0.3, y + 0.5, name, ha="right", va="center", fontsize=7.5)


def kind_of(row: Mapping | None, gold: int) -> str:
    """right, wrong, unparsed or failed."""
    if row is None or row["status"] not in ("ok", "unparsed"):
        return "failed"
    if row["label"] is None:
        return "unparsed"
    return "right" if row["label"] == gold else "wrong"


def _cell(axis: Axes, x: float, y: float, row: Mapping | None, gold: int) -> str:
    kind = kind_of(row, gold)
    mark, fill, hatch, ink = _LOOKS[kind]
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, hatch=hatch, edgecolor="0.6",
                             linewidth=0.3))  # fmt: skip
    text = _WORDS[row["label"]] + mark if kind in ("right", "wrong") else mark
    axis.text(x + 0.5, y + 0.52, text, ha="center", va="center", fontsize=6.5, color=ink)
    return kind
