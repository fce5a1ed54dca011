"""The paper's figures from entries of metrics.json: failure modes, radars, decoding methods.

Bars, points and radars are plug-in values with their 95 % interval over scenes. Colours are those
of Okabe and Ito; hatches and markers tell them apart in grey prints.
"""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cctv.reports import tables
from cctv.reports.figures import COLOURS, LONGEST, STYLE, printable, short
from cctv.reports.paper_tables import METHOD_NAMES, PAIRING, Model

WIDTH = 7.2  # inches: a page's text
MODELS_A_PAGE = {"failures": 16, "methods": 5}
RADARS = {
    "quad_acc": "QuadAcc",
    "mcc_score": "Score_cls",
    "question_consistency": "question consistency",
    "video_consistency": "video consistency",
}
METHOD_METRICS = {
    "ba_acc": "BaAcc",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "mcc": "MCC × 100",
    "mcc_score": "Score_cls",
    "quad_acc": "QuadAcc",
    "yes_rate": "yes rate",
}
# Light and dark alternate, so that neighbours differ in grey too.
_FAILURES = {
    "pos_omiss": ("#0072B2", ""),
    "pos_swap": ("#F0E442", "////"),
    "neg_hall": ("#D55E00", "...."),
    "me_viol": ("#56B4E9", "xxxx"),
}
_METHODS = {"base": ("#BBBBBB", ""), "vcd": (COLOURS["vcd"], "////")}
_METHODS |= {"tcd": (COLOURS["tcd"], "...."), "c_tcd": (COLOURS["c_tcd"], "xxxx")}
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^DvPX<>p*hd8"
_DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1.2)))


def labels_of(names: Sequence[str]) -> list[str]:
    """Short names that differ: what is before the last slash goes first, a number comes last."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    found = [short(name) for name in (last if len(set(last)) == len(last) else names)]
    if len(set(found)) == len(found):
        return found
    return [f"{i} {short(name, LONGEST - 3)}" for i, name in enumerate(names, 1)]


def style():
    """The settings that every figure of the paper is made under."""
    return matplotlib.rc_context({**STYLE, "font.family": "DejaVu Sans", "hatch.linewidth": 0.5})


def pages(models: Sequence[Model], kind: str) -> list[Sequence[Model]]:
    """The models of each page of a figure, as even as can be."""
    count = -(-len(models) // MODELS_A_PAGE[kind])
    ends = [round(i * len(models) / count) for i in range(count + 1)] if count else []
    return [models[a:b] for a, b in itertools.pairwise(ends)]


def bar_style(colour: str, hatch: str) -> dict:
    """Fill, hatch and edge of a bar; a hatch takes the colour of the edge."""
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.4}


def _whiskers(entries: Sequence[Mapping], scale: float = 1.0) -> np.ndarray:
    """Distances to the ends of the intervals, float[2, n], 0 where undefined."""
    out = np.zeros((2, len(entries)))
    for i, e in enumerate(entries):
        if None not in (e["value"], e["low"], e["high"]):
            out[:, i] = max(0, e["value"] - e["low"]), max(0, e["high"] - e["value"])
    return scale * out


def _values(entries: Sequence[Mapping], scale: float = 1.0) -> np.ndarray:
    """Plug-in values float[n], NaN where undefined."""
    return np.array([np.nan if e["value"] is None else scale * e["value"] for e in entries])


def failure_figure(models: Sequence[Model]) -> Figure:
    """Figure 5: the four failure modes of each model's base run as grouped bars."""
    with style():
        figure = Figure(figsize=(WIDTH, 1.2 + 0.55 * len(models)), layout="constrained")
        axis = figure.subplots()
        heads = dict(tables.FAILURES)
        thick = 0.2
        for i, (key, look) in enumerate(_FAILURES.items()):
            entries = [m.base["metrics"][key] for m in models]
            y = np.arange(len(models)) + (i - 1.5) * thick
            axis.barh(y, _values(entries), thick, label=heads[key], **bar_style(*look))
            axis.errorbar(_values(entries), y, xerr=_whiskers(entries), **_WHISKER)
            for place, entry, model in zip(y, entries, models):
                if entry["value"] is None:
                    some = model.base["n_incomplete"] < model.base["n_pairs"]
                    why = "nothing is wrong" if some else "nothing is complete"
                    axis.text(0.5, place, f"undefined: {why}", va="center", fontsize=6)
        axis.set_yticks(range(len(models)), labels_of([m.name for m in models]))
        axis.set_ylim(len(models) - 0.5, -0.5)
        axis.set_xlim(0, 100)
        axis.set_xlabel("% of the model's wrong quadruples (modes overlap)")
        _separate(axis, models)
        _clean(axis, "x")
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


_WHISKER = {"fmt": "none", "ecolor": "0.15", "elinewidth": 0.6, "capsize": 1.5, "capthick": 0.6}


def _separate(axis: Axes, models: Sequence[Model]) -> None:
    """Lines between groups, their names at the right; one group needs none."""
    groups = [m.group for m in models]
    if len(set(groups)) == 1:
        return
    for group in dict.fromkeys(groups):
        first, count = groups.index(group), groups.count(group)
        if first:
            axis.axhline(first - 0.5, color="0.4", linewidth=0.6)
        axis.annotate(
            short(group, max(10, 10 * count)),
            (1.01, first + count / 2 - 0.5),
            xycoords=("axes fraction", "data"),
            rotation=270,
            va="center",
            fontsize=8,
        )


def _clean(axis: Axes, grid: str) -> None:
    axis.grid(axis=grid, color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def radar_figure(models: Sequence[Model], title: str) -> Figure:
    """Figures 6 and 12 to 14: four metrics by category, a line a model. Needs three categories."""
    with style():
        names = labels_of([m.name for m in models])
        columns = 3 if max(map(len, names)) < 24 else 2
        columns = min(columns, len(models))
        lines = -(-len(models) // columns)
        figure = Figure(figsize=(WIDTH, 6.9 + 0.2 * lines), layout="constrained")
        axes = figure.subplots(2, 2, subplot_kw={"projection": "polar"})
        for axis, (key, head) in zip(axes.flat, RADARS.items()):
            _radar(axis, models, key)
            axis.set_title(f"{head}, %", pad=6)
        handles = [Line2D([], [], label=name, **_line(i)) for i, name in enumerate(names)]
        figure.suptitle(title, fontsize=10)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False,
                      fontsize=8, handlelength=3.2)  # fmt: skip
    return figure


def categories_of(models: Sequence[Model]) -> list[str]:
    """Categories in which some base run has a complete quadruple, sorted."""
    return sorted({c for m in models for c, e in m.base["by_category"].items() if _has_value(e)})


def _has_value(entries: Mapping) -> bool:
    return entries["quad_acc"]["value"] is not None


def _radar(axis: Axes, models: Sequence[Model], key: str) -> None:
    categories = categories_of(models)
    angles = np.linspace(0, 2 * np.pi, len(categories), endpoint=False)
    for i, model in enumerate(models):
        by_category = model.base["by_category"]
        values = _values([by_category.get(c, {key: {"value": None}})[key] for c in categories])
        axis.plot(np.append(angles, 0), np.append(values, values[0]), clip_on=False, **_line(i))
    axis.set_theta_offset(np.pi / 2)
    axis.set_theta_direction(-1)
    axis.set_xticks(angles, [_broken(c) for c in categories], fontsize=8)
    for label, angle in zip(axis.get_xticklabels(), angles):
        side = round(float(np.sin(angle)), 6)
        label.set_horizontalalignment("center" if not side else "left" if side > 0 else "right")
    axis.tick_params(axis="x", pad=-2)
    most = max([line.get_ydata().max(where=~np.isnan(line.get_ydata()), initial=0.0)
                for line in axis.get_lines()])  # fmt: skip
    rings = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0, max(most, 1.0))
    axis.set_rlim(0, rings[-1])
    axis.set_yticks(rings[1:], [""] * (len(rings) - 1))
    # Above the lines, not below them as tick labels are.
    for ring in rings[1:]:
        axis.text(angles[1] / 2, ring, f"{ring:g}", ha="center", va="center", fontsize=6.5,
                  color="0.25", zorder=6, bbox={"boxstyle": "square,pad=0.05", "linewidth": 0,
                  "facecolor": "white", "alpha": 0.75})  # fmt: skip
    axis.grid(color="0.85", linewidth=0.5)
    axis.spines["polar"].set_visible(False)


def _broken(category: str) -> str:
    """A category in two lines where its name is long."""
    if "_" in category:
        return printable(category.replace("_", "-\n", 1))
    return "counter-\nfactual" if category == "counterfactual" else short(category, 16)


def _line(i: int) -> dict:
    """Colour, marker and dashes of model i: the first 14 have markers of their own."""
    return {
        "color": _LINES[i % len(_LINES)],
        "marker": _MARKERS[i % len(_MARKERS)],
        "linestyle": _DASHES[i % len(_DASHES)],
        "linewidth": 1.0,
        "markersize": 4.5,
        "markerfacecolor": "white" if i // len(_LINES) % 2 else _LINES[i % len(_LINES)],
    }


def method_figure(models: Sequence[Model]) -> Figure:
    """Figure 11: the metrics of each decoding method, a panel a model."""
    with style():
        figure = Figure(figsize=(WIDTH, 1.3 + 1.75 * len(models)), layout="constrained")
        axes = figure.subplots(len(models), squeeze=False, sharex=True, sharey=True)[:, 0]
        shown = [key for key in METHOD_NAMES if any(key in m.systems for m in models)]
        for axis, model in zip(axes, models):
            _method_bars(axis, model, shown)
        axes[-1].set_xticks(range(len(METHOD_METRICS)), METHOD_METRICS.values())
        handles, labels = [], []
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels()):
                if label not in labels:
                    handles.append(handle)
                    labels.append(label)
        order = sorted(range(len(labels)), key=lambda i: [*METHOD_NAMES.values()].index(labels[i]))
        figure.legend([handles[i] for i in order], [labels[i] for i in order],
                      loc="outside upper center", ncols=4, frameon=False)  # fmt: skip
        if "c_tcd" in shown:
            figure.supxlabel(PAIRING, fontsize=7)
    return figure


def _method_bars(axis: Axes, model: Model, shown: Sequence[str]) -> None:
    thick = 0.8 / len(shown)
    for method, system in model.systems.items():
        scale = [100.0 if key == "mcc" else 1.0 for key in METHOD_METRICS]
        entries = [system["metrics"][key] for key in METHOD_METRICS]
        x = np.arange(len(entries)) + (shown.index(method) - (len(shown) - 1) / 2) * thick
        values = _values(entries) * scale
        axis.bar(x, values, thick, label=METHOD_NAMES[method], **bar_style(*_METHODS[method]))
        axis.errorbar(x, values, yerr=_whiskers(entries) * scale, **_WHISKER)
    axis.axhline(0, color="black", linewidth=0.6)
    axis.axvline(len(METHOD_METRICS) - 1.5, color="0.4", linewidth=0.6)
    axis.plot([len(METHOD_METRICS) - 1.45, len(METHOD_METRICS) - 0.55], [25, 25], color="black",
              linewidth=0.8, linestyle=(0, (1, 1.5)))  # fmt: skip
    axis.set_xlim(-0.6, len(METHOD_METRICS) - 0.4)
    axis.set_ylabel("%")
    axis.set_title(_with_strength(model), loc="left", fontsize=9)
    _clean(axis, "y")


def _with_strength(model: Model) -> str:
    alphas = {f"{s['alpha']:g}" for key, s in model.systems.items() if key != "base"}
    return f"{short(model.name, 60)}, α = {', '.join(sorted(alphas))}"
