"""Figures of a run, drawn from its result files: PNG to look at, PDF to print."""

import functools
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

PANELS = {
    "video_consistency": "video consistency",
    "question_consistency": "question consistency",
    "ba_acc": "BaAcc",
    "quad_acc": "QuadAcc",
}
NAMES = {"vcd": "VCD", "tcd": "TCD", "c_tcd": "C-TCD"}
ALL_SCENES = "all scenes: a picture, not an estimate"
# Okabe and Ito's palette, told apart by every kind of colour vision; dashes for grey prints.
COLOURS = {"vcd": "#0072B2", "tcd": "#009E73", "c_tcd": "#D55E00"}
_DASHES = {"vcd": (0, (5, 1.5)), "tcd": (0, (4, 1.5, 1, 1.5)), "c_tcd": "solid"}
_MARKERS = {"vcd": "s", "tcd": "^", "c_tcd": "D"}
# Texts of users are never formulas, whatever dollars they have.
STYLE = {"font.size": 9, "axes.titlesize": 10, "pdf.fonttype": 42, "axes.linewidth": 0.6,
         "text.parse_math": False}  # fmt: skip
_DPI = 200
LONGEST = 32  # letters of a name in a figure
# What would differ between equal figures.
_SILENT = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}


def short(text: str, longest: int = LONGEST) -> str:
    """A name in one line that fits: its middle gives way, as names differ at their ends."""
    text = printable(" ".join(text.split()))
    if len(text) <= longest:
        return text
    tail = longest // 2
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def printable(text: str) -> str:
    """`text` with � for every letter that the figures' font lacks."""
    known = _charmap()
    return "".join(c if ord(c) in known or c == "\n" else "�" for c in text)


@functools.cache
def _charmap() -> Mapping[int, int]:
    path = font_manager.findfont("DejaVu Sans")
    return font_manager.get_font(path).get_charmap()


def until(method: Mapping) -> str:
    """How far a method's curve is exact."""
    end = method["exact_until"]
    return "∞" if end is None or math.isinf(end) else f"{end:.3g}"


def notes(found: Mapping) -> list[str]:
    """What must be said wherever these numbers are shown."""
    out = []
    if "c_tcd" in found["methods"]:
        out.append(
            "C-TCD uses the benchmark's own pairing at test time, which no deployed model has."
        )
    out.append("Part of a gain may be a shift of the yes rate: read it with the gain.")
    for name, method in found["methods"].items():
        unknown = method["reported"]["n_unknown"]
        if unknown:
            out.append(
                f"{NAMES[name]}: {unknown} answers at the chosen α lie beyond their exact range "
                "and count as unparsed; --redecode runs the model there."
            )
    return out


def alpha_figure(found: Mapping) -> Figure:
    """Metrics against α, from the content of alpha.json (its keys: cctv/sweep.py).

    Lines are exact; a band holds every value that rows beyond their exact range allow. Squares,
    triangles and diamonds with bars are the estimates: α chosen on some scenes, value and 95 %
    interval on the others. The base, dotted, is that of the method with most complete pairs.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 8.4), layout="constrained")
        axes = figure.subplot_mosaic(
            [[*PANELS][:2], [*PANELS][2:], ["yes_rate", "yes_rate"]],
            height_ratios=[1, 1, 0.62],
        )
        for key, title in PANELS.items():
            _panel(axes[key], found, key)
            axes[key].set_title(title)
        _panel(axes["yes_rate"], found, "yes_rate")
        axes["yes_rate"].axhline(25, color="0.55", linewidth=0.6, zorder=1)
        axes["yes_rate"].set_title("yes rate (gold: 25)")
        for key in ("ba_acc", "quad_acc", "yes_rate"):
            axes[key].set_xlabel("contrast strength α")
        title = f"Curves over {ALL_SCENES}"
        if "c_tcd" in found["methods"]:
            title += "\nC-TCD uses the benchmark's own pairing at test time"
        figure.suptitle(title, fontsize=10)
        handles = _legend(found)
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _panel(axis: Axes, found: Mapping, key: str) -> None:
    thin = key == "yes_rate"
    methods = found["methods"]
    widest = max(methods.values(), key=lambda m: m["n_pairs"])
    base = widest["all_scenes"]["base"][key]
    axis.axhline(base, color="black", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    axis.plot([0], [base], "o", color="black", markersize=4, zorder=5)
    for name, method in methods.items():
        colour = COLOURS[name]
        _curve(axis, method["all_scenes"]["curves"][key], found["alpha_max"], name, thin=thin)
        points = [p for p in method["all_scenes"]["decoded"] if p["alpha"] > 0]
        axis.plot(
            [p["alpha"] for p in points],
            [p["metrics"][key] for p in points],
            linestyle="none",
            marker="o",
            markersize=4,
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=0.9,
            zorder=4,
        )
        alpha = method["chosen"]["alpha"]
        axis.axvline(alpha, color=colour, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=1)
        entry = method["reported"]["metrics"][key]
        axis.errorbar(
            [alpha],
            [entry["value"]],
            yerr=[
                [max(0, entry["value"] - entry["low"])],
                [max(0, entry["high"] - entry["value"])],
            ],
            fmt=_MARKERS[name],
            color=colour,
            markersize=5,
            elinewidth=1,
            capsize=2.5,
            zorder=6,
        )
    edge = 0.02 * found["alpha_max"]  # markers at α = 0 stand clear of the axis
    axis.set_xlim(-edge, found["alpha_max"] + edge)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_ylabel("%")
    axis.grid(color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _curve(axis: Axes, steps: Mapping, alpha_max: float, name: str, *, thin: bool) -> None:
    x = [*steps["alpha"], alpha_max]
    low, high = ([*steps[key], steps[key][-1]] for key in ("after_low", "after_high"))
    style = {"color": COLOURS[name], "drawstyle": "steps-post", "zorder": 3}
    exact = [a if a == b else math.nan for a, b in zip(low, high)]
    axis.plot(x, exact, linewidth=0.8 if thin else 1.5, linestyle=_DASHES[name], **style)
    for bound in (low, high):
        edge = [math.nan if a == b else v for a, b, v in zip(low, high, bound)]
        axis.plot(x, edge, linewidth=0.5, **style)
    axis.fill_between(
        x, low, high, step="post", color=COLOURS[name], alpha=0.22, linewidth=0, zorder=2
    )


def _legend(found: Mapping) -> list:
    methods = found["methods"]
    n_report = len(found["split"]["report"])
    handles = [
        Line2D([], [], color=COLOURS[name], linestyle=_DASHES[name], marker=_MARKERS[name],
               markersize=5, linewidth=1.5,
               label=f"{NAMES[name]}, chosen α = {method['chosen']['alpha']:.3g}")
        for name, method in methods.items()
    ]  # fmt: skip
    dots = {"marker": "o", "markersize": 4}
    handles.append(
        Line2D([], [], color="black", linewidth=0.8, linestyle=(0, (1, 2)), label="base", **dots)
    )
    bar = {"marker": "|", "markersize": 10, "linestyle": "none", "color": "0.3"}
    marks = f"estimate, 95 % interval: the {n_report} scenes that α was not chosen on"
    handles.append(Line2D([], [], label=marks, **bar))
    if any(len(m["all_scenes"]["decoded"]) > 1 for m in methods.values()):
        white = {"markerfacecolor": "white", "markeredgecolor": "0.3", "linestyle": "none"}
        handles.append(Line2D([], [], label="run with the model", **dots, **white))
    if any(
        c["after_low"] != c["after_high"]
        for m in methods.values()
        for c in m["all_scenes"]["curves"].values()
    ):
        handles.append(Patch(color="0.75", label="beyond the exact range"))
    return handles


def save(figure: Figure, stem: str | Path, *, kinds: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Writes `stem`.png (200 dpi), `stem`.pdf or `stem`.svg, each as a whole or not at all. Equal
    figures give equal bytes. OSError names the file."""
    stem = Path(stem)
    out = []
    for kind in kinds:
        path = stem.with_suffix(f".{kind}")
        buffer = io.BytesIO()
        with matplotlib.rc_context({**STYLE, "svg.hashsalt": "cctv"}):
            figure.savefig(buffer, format=kind, dpi=_DPI, metadata=_SILENT[kind])
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(buffer.getvalue())
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"can't write {path}: {error.strerror}") from error
        out.append(path)
    return out
