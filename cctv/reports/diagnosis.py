"""Figures of where and why a system fails, from metrics.json: margins, and breakdowns of QuadAcc.

Colours are those of Okabe and Ito; markers and dashes tell systems apart in grey prints.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cctv.reports import figures, tables
from cctv.reports.figures import short

MOST_SYSTEMS, MOST_GROUPS = 8, 12  # in a figure; tables and metrics.json have all
_LINES = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
_MARKERS = "os^Dv<>P"
_DASHES = ("solid", (0, (5, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (1, 1.2)))
_LONGEST = 20  # letters of a group's name
_WIDTH = 7.2  # inches: a page's text
_GREY = "0.55"


class Picture(NamedTuple):
    """A figure that was written: its path relative to the run folder, and what it shows."""

    path: str
    title: str
    caption: str


class _Line(NamedTuple):
    """How a system is drawn."""

    label: str
    colour: str
    marker: str
    dashes: object


def write(workdir: Path, systems: Sequence[Mapping], labels: Sequence[str]) -> list[Picture]:
    """Writes figures/margins.svg and figures/breakdowns.svg as far as the entries of "systems" have
    what they show. Equal entries give equal bytes. OSError names the file."""
    lines = _lines(systems, labels)
    more = len(systems) - len(lines)
    left_out = f" The first {len(lines)} systems; {more} more are in metrics.json." if more else ""
    shown = {"margins": margins_figure, "breakdowns": breakdown_figure}
    out = []
    for name, draw in shown.items():
        figure = draw(systems[:MOST_SYSTEMS], lines)
        if figure is not None:
            (path,) = figures.save(figure, workdir / "figures" / name, kinds=("svg",))
            title, caption = _TEXTS[name]
            out.append(Picture(f"figures/{path.name}", title, caption + left_out))
    return out


_TEXTS = {
    "margins": (
        "Margins: calibration, abstention, distance",
        "Top left: share of gold Yes among answers by the probability σ(margin), with 95 % "
        "intervals; larger marks hold more answers; a calibrated model is on the diagonal. Top "
        "right: distribution of the quadruple margin min(m++, −m+-, −m-+, −m--); right of 0 a "
        "quadruple is right. Below: the risk of a model that answers only where it is sure, by "
        "|margin| of an answer and by the smallest of a quadruple; bands are 95 % intervals.",
    ),
    "breakdowns": (
        "QuadAcc by groups of quadruples",
        f"Plug-in value and 95 % interval over scenes; hollow: fewer than {tables.FEW}, read with "
        "care. Dotted: all quadruples. Numbers in brackets count annotated quadruples. Metrics of "
        "every group are in metrics.json.",
    ),
}


def _lines(systems: Sequence[Mapping], labels: Sequence[str]) -> list[_Line]:
    """Each method has its colour where there is one system a method, as in the other figures."""
    methods = [s["method"] for s in systems]
    own = len(set(methods)) == len(methods)
    out = []
    for i, (method, label) in enumerate(zip(methods[:MOST_SYSTEMS], labels)):
        colour = figures.COLOURS.get(method, _LINES[0]) if own else _LINES[i]
        out.append(
            _Line(short(label, 2 * _LONGEST), colour, _MARKERS[i], _DASHES[i % len(_DASHES)])
        )
    return out


def margins_figure(systems: Sequence[Mapping], lines: Sequence[_Line]) -> Figure | None:
    """Reliability, quadruple margins, and risk–coverage of answers and of quadruples; None where no
    system has margins."""
    chosen = [
        (s["threshold_free"], line)
        for s, line in zip(systems, lines)
        if "metrics" in s.get("threshold_free", {})
    ]
    if not chosen:
        return None
    with matplotlib.rc_context(figures.STYLE):
        figure = _figure(5.8, [line for _, line in chosen], left=0.6)
        grid = {"wspace": 0.24, "hspace": 0.36}
        (reliability, distance), risks = figure.subplots(2, 2, gridspec_kw=grid)
        _percent(reliability, "probability of Yes, σ(margin), %", "gold Yes, %")
        reliability.plot([0, 100], [0, 100], color=_GREY, linewidth=0.7)
        reliability.set(title="Reliability", xlim=(-3, 103), ylim=(-3, 103))
        _percent(distance, "quadruple margin, logits", "quadruples at most, %")
        distance.axvline(0, color=_GREY, linewidth=0.7)
        distance.set_title("Quadruple margin")
        for axis, (key, title) in zip(risks, _RISKS.items()):
            _percent(axis, "coverage, %", "wrong among the answered, %")
            axis.set(title=title, xlim=(0, 103))
            for found, line in chosen:
                _risk(axis, found["risk_coverage"], key, line)
            axis.set_ylim(bottom=0)
        for found, line in chosen:
            _reliability(reliability, found["reliability"], line)
            margin = found["quadruple_margin"]
            distance.plot(margin["quantiles"], margin["percent"], color=line.colour,
                          linestyle=line.dashes, linewidth=1.3)  # fmt: skip
    return figure


def _figure(inches: float, lines: Sequence[_Line], *, left: float) -> Figure:
    """A page wide, the panels so many inches high, with a legend. Margins are given, because
    finding them takes as long as drawing."""
    columns = min(len(lines), 2)
    bottom = 0.65 + 0.19 * -(-len(lines) // columns)
    height = inches + bottom + 0.3
    figure = Figure(figsize=(_WIDTH, height))
    figure.subplots_adjust(left / _WIDTH, bottom / height, 1 - 0.2 / _WIDTH, 1 - 0.3 / height)
    handles = [_handle(line) for line in lines]
    figure.legend(handles=handles, loc="lower center", ncols=columns, frameon=False)
    return figure


_RISKS = {"answers": "Abstaining, answers", "quadruples": "Abstaining, quadruples"}


def _percent(axis: Axes, x: str, y: str) -> None:
    axis.set(xlabel=x, ylabel=y)
    axis.grid(color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _handle(line: _Line) -> Line2D:
    style = {"color": line.colour, "linestyle": line.dashes, "marker": line.marker}
    return Line2D([], [], label=line.label, markersize=4.5, linewidth=1.3, **style)


def _reliability(axis: Axes, bins: Sequence[Mapping], line: _Line) -> None:
    bins = [b for b in bins if b["n_answers"]]
    total = sum(b["n_answers"] for b in bins)
    x = [b["probability"] for b in bins]
    y = [b["yes"]["value"] for b in bins]
    axis.vlines(x, *_ends([b["yes"] for b in bins]), color=line.colour, linewidth=0.8, alpha=0.7)
    axis.plot(x, y, color=line.colour, linestyle=line.dashes, linewidth=1)
    sizes = [10 + 90 * b["n_answers"] / total for b in bins]
    axis.scatter(x, y, s=sizes, marker=line.marker, color=line.colour, linewidth=0, zorder=3)


def _risk(axis: Axes, found: Mapping, key: str, line: _Line) -> None:
    x, low_high = found["coverage"], _ends(found[key])
    axis.fill_between(x, *low_high, color=line.colour, alpha=0.13, linewidth=0)
    y = [entry["value"] for entry in found[key]]
    axis.plot(x, y, color=line.colour, linestyle=line.dashes, linewidth=1.3)
    axis.plot(x[-1:], y[-1:], color=line.colour, marker=line.marker, markersize=4.5)


def _ends(entries: Sequence[Mapping]) -> list[list[float]]:
    """Lows and highs; NaN where no replicate has the metric."""
    return [[np.nan if e[k] is None else e[k] for e in entries] for k in ("low", "high")]


def breakdown_figure(systems: Sequence[Mapping], lines: Sequence[_Line]) -> Figure | None:
    """QuadAcc of each group of each factor that has groups; None where there are no breakdowns."""
    if not systems or "breakdowns" not in systems[0]:
        return None
    factors = [f for f in tables.FACTORS if tables.is_told(systems[0]["breakdowns"][f])]
    sizes = [len(systems[0]["breakdowns"][f][:MOST_GROUPS]) for f in factors]
    heights = [max(sizes[i : i + 2]) for i in range(0, len(sizes), 2)]
    inches = (0.17 + 0.07 * len(systems)) * sum(heights)
    room = 0.55 * (len(heights) - 1)  # between the panels
    with matplotlib.rc_context(figures.STYLE):
        figure = _figure(inches + room, lines, left=1.6)
        grid = {"height_ratios": heights, "wspace": 0.85, "hspace": 0.55 * len(heights) / inches}
        axes = figure.subplots(len(heights), 2, squeeze=False, sharex=True, gridspec_kw=grid)
        for axis, factor in zip(axes.flat, factors):
            _breakdown(axis, systems, lines, factor)
        for axis in axes.flat[len(factors) :]:
            axis.set_axis_off()
        for axis in axes.flat[max(0, len(factors) - 2) : len(factors)]:
            axis.set_xlabel("QuadAcc, %")
            axis.tick_params(labelbottom=True)
        highest = max(axis.dataLim.xmax for axis in axes.flat[: len(factors)])
        axes.flat[0].set_xlim(-1.5, max(10, 1.05 * highest) if np.isfinite(highest) else 103)
    return figure


def _breakdown(axis: Axes, systems: Sequence[Mapping], lines: Sequence[_Line], factor: str) -> None:
    groups = systems[0]["breakdowns"][factor][:MOST_GROUPS]
    spread = np.linspace(-0.28, 0.28, len(systems)) if len(systems) > 1 else [0.0]
    for system, line, shift in zip(systems, lines, spread):
        whole = system["metrics"]["quad_acc"]["value"]
        if whole is not None:
            dotted = {"linestyle": (0, (1, 2)), "linewidth": 0.8}
            axis.axvline(whole, color=line.colour, zorder=1, **dotted)
        places = [
            (y + shift, g["metrics"]["quad_acc"], g["small"])
            for y, g in enumerate(system["breakdowns"][factor][:MOST_GROUPS])
            if g["metrics"]["quad_acc"]["value"] is not None
        ]
        axis.hlines([y for y, _, _ in places], *_ends([e for _, e, _ in places]),
                    color=line.colour, linewidth=1)  # fmt: skip
        for small in (False, True):
            axis.plot(
                [e["value"] for _, e, s in places if s == small],
                [y for y, _, s in places if s == small],
                marker=line.marker, markersize=4.5, linestyle="none", color=line.colour,
                markerfacecolor="white" if small else line.colour, zorder=3,
            )  # fmt: skip
    counts = [g["n_pairs"] + g["n_incomplete"] for g in groups]
    names = [short(g["group"], _LONGEST) for g in groups]
    if factor != "margin":  # whose groups are not the same pairs in every system
        names = [f"{name} ({n})" for name, n in zip(names, counts)]
    axis.set_yticks(range(len(groups)), names)
    axis.set_ylim(len(groups) - 0.5, -0.5)
    more = len(systems[0]["breakdowns"][factor]) - len(groups)
    axis.set_title(tables.FACTORS[factor] + (f", {more} more groups left out" if more else ""))
    axis.grid(axis="x", color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
