"""What the annotations hold: the table of data statistics and Figures 3 and 7.

A scene is {"scene_id", "source", "view", "anomaly_type", "duration": seconds | None, "pairs":
[{"pair_id", "category", "positive", "negative"}]}.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cctv.reports.figures import printable, short
from cctv.reports.paper_figures import WIDTH, bar_style, style
from cctv.reports.paper_tables import Row, Table

SHOWN = 24  # bars of a panel; the rest are summed up in the last
WORDS = 25
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# Words of grammar, which the vocabulary panel leaves out.
_GRAMMAR = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on at to by with from for into did do does was were is are be been being "
        "have has had it its they them and or not that this there as",
    )
)
_STACK = (("#0072B2", ""), ("#F0E442", "////"), ("#009E73", "...."), ("#CC79A7", "xxxx"),
          ("#56B4E9", "----"), ("#D55E00", "++++"), ("#BBBBBB", ""))  # fmt: skip


def words(text: str) -> list[str]:
    """The words of a question in small letters; a hyphen or apostrophe inside belongs to one."""
    return _WORD.findall(text.lower())


def statistics_table(scenes: Sequence[Mapping]) -> Table:
    """Counts of scenes, videos, pairs and instances, and their shares by kind."""
    pairs = [pair for s in scenes for pair in s["pairs"]]
    lengths = [len(words(p[side])) for p in pairs for side in ("positive", "negative")]
    vocabulary = {w for p in pairs for side in ("positive", "negative") for w in words(p[side])}
    durations = [s["duration"] for s in scenes if s["duration"] is not None]
    rows = [
        Row("all", (name,), (value, ""))
        for name, value in (
            ("scenes", f"{len(scenes)}"),
            ("videos", f"{2 * len(scenes)}"),
            ("question pairs", f"{len(pairs)}"),
            ("question pairs a scene", f"{len(pairs) / len(scenes):.2f}"),
            ("instances", f"{4 * len(pairs)}"),
            ("gold Yes, %", "25.00"),
            ("clip duration, s: mean", _mean(durations)),
            ("clip duration, s: range", _range(durations, 1)),
            ("clips of known duration", f"{len(durations)}"),
            ("words a question: mean", _mean(lengths)),
            ("words a question: range", _range(lengths, 0)),
            ("vocabulary, words", f"{len(vocabulary)}"),
        )
    ]
    for title, names in (
        ("scenes by anomaly type", [s["anomaly_type"] for s in scenes]),
        ("scenes by source", [s["source"] for s in scenes]),
        ("scenes by view", [s["view"] for s in scenes]),
        ("question pairs by category", [p["category"] for p in pairs]),
    ):
        rows += [
            Row(title, (name,), (f"{n}", f"{100 * n / len(names):.2f}"))
            for name, n in _ordered(Counter(names))
        ]
    columns = (("value", "value", False), ("share", "share, %", False))
    caption = "Data statistics, from the annotations"
    notes = [
        "Duration of the accident's clip: the end of its contrastive segment, else the file's."
    ]
    return Table("data_statistics", caption, (("statistic", ""),), columns, rows, notes)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f}" if values else "–"


def _range(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if values else "–"


def _ordered(counts: Counter) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def source_figure(scenes: Sequence[Mapping]) -> Figure:
    """Figure 3: scenes by anomaly type, parted by view, and by source."""
    types = _ordered(Counter(s["anomaly_type"] for s in scenes))
    sources = _ordered(Counter(s["source"] for s in scenes))
    rows = [min(len(types), SHOWN), min(len(sources), SHOWN)]
    with style():
        figure = Figure(figsize=(WIDTH, 1.9 + 0.24 * sum(rows)), layout="constrained")
        top, bottom = figure.subplots(2, height_ratios=[n + 1.5 for n in rows])
        views = sorted({s["view"] for s in scenes})
        for axis, key in ((top, "anomaly_type"), (bottom, "source")):
            names = types if axis is top else sources
            _stacked(axis, names, {v: Counter(s[key] for s in scenes if s["view"] == v)
                                   for v in views})  # fmt: skip
            axis.set_xlabel("scenes")
            axis.set_title(f"By {key.replace('_', ' ')}", loc="left")
        handles, labels = top.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(views), frameon=False)
    return figure


def _stacked(axis: Axes, names: Sequence[tuple[str, int]], parts: Mapping[str, Counter]) -> None:
    """Horizontal bars of `names` in parts, the sum at the end; what is too much is summed up."""
    kept = names if len(names) <= SHOWN else names[: SHOWN - 1]
    rest = [name for name, _ in names[len(kept) :]]
    labels = [short(name, 40) for name, _ in kept]
    labels += [f"{len(rest)} others"] if rest else []
    left = np.zeros(len(labels))
    for (part, counts), look in zip(parts.items(), _STACK):
        values = [counts[name] for name, _ in kept]
        values += [sum(counts[name] for name in rest)] if rest else []
        axis.barh(range(len(labels)), values, 0.7, left, label=printable(part), **bar_style(*look))
        left += values
    for y, total in enumerate(left):
        axis.annotate(f"{total:.0f}", (total, y), (3, 0), textcoords="offset points",
                      va="center", fontsize=7)  # fmt: skip
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlim(0, 1.08 * left.max())
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axis.spines[["top", "right"]].set_visible(False)


def language_figure(scenes: Sequence[Mapping]) -> Figure:
    """Figure 7: clip durations by type, question lengths by category, the commonest words."""
    durations: dict[str, list[float]] = {}
    for s in scenes:
        if s["duration"] is not None:
            durations.setdefault(s["anomaly_type"], []).append(s["duration"])
    lengths: dict[str, list[int]] = {}
    counts = {side: Counter() for side in ("positive", "negative")}
    for pair in (pair for s in scenes for pair in s["pairs"]):
        for side in counts:
            found = words(pair[side])
            lengths.setdefault(pair["category"], []).append(len(found))
            counts[side].update(found)
    known = sum(map(len, durations.values()))
    rows = [max(1, min(len(durations), SHOWN)), len(lengths)]
    common = _commonest(counts)
    with style():
        height = 2.6 + 0.24 * sum(rows) + 0.2 * len(common)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(3, height_ratios=[rows[0] + 2, rows[1] + 2, 0.85 * len(common) + 2])
        _boxes(axes[0], durations, "no duration is known")
        axes[0].set_title(f"Clip durations by anomaly type: {known} of {len(scenes)} scenes",
                          loc="left")  # fmt: skip
        axes[0].set_xlabel("seconds")
        _boxes(axes[1], lengths, "no question")
        axes[1].set_title("Question lengths by category", loc="left")
        axes[1].set_xlabel("words")
        _vocabulary(axes[2], common, counts)
    return figure


def _boxes(axis: Axes, values: Mapping[str, Sequence[float]], none: str) -> None:
    """Box plots by name, the largest samples first: quartiles, median, 1.5 IQR, mean as diamond."""
    if not values:
        axis.text(0.5, 0.5, none, transform=axis.transAxes, ha="center")
        axis.set_yticks([])
        return
    names = sorted(values, key=lambda name: (-len(values[name]), name))[:SHOWN]
    axis.boxplot(
        [values[name] for name in names],
        orientation="horizontal",
        positions=range(len(names)),
        widths=0.6,
        patch_artist=True,
        showmeans=True,
        boxprops={"facecolor": "#56B4E9", "linewidth": 0.6},
        medianprops={"color": "black", "linewidth": 1.2},
        meanprops={"marker": "D", "markersize": 3, "markerfacecolor": "white",
                   "markeredgecolor": "black", "markeredgewidth": 0.6},
        flierprops={"marker": "o", "markersize": 2, "markeredgecolor": "0.4"},
        whiskerprops={"linewidth": 0.6},
        capprops={"linewidth": 0.6},
    )  # fmt: skip
    labels = [f"{short(name, 36)} ({len(values[name])})" for name in names]
    axis.set_yticks(range(len(names)), labels)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, None)
    axis.grid(axis="x", color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _commonest(counts: Mapping[str, Counter]) -> list[str]:
    total = sum(counts.values(), Counter())
    return [word for word, _ in _ordered(total) if word not in _GRAMMAR][:WORDS]


def _vocabulary(axis: Axes, common: Sequence[str], counts: Mapping[str, Counter]) -> None:
    looks = {"positive": ("q+", *_STACK[0]), "negative": ("q-", *_STACK[1])}
    for i, (side, (label, *look)) in enumerate(looks.items()):
        y = np.arange(len(common)) + (i - 0.5) * 0.4
        axis.barh(y, [counts[side][w] for w in common], 0.4, label=label, **bar_style(*look))
    axis.set_yticks(range(len(common)), [short(w, 24) for w in common])
    axis.set_ylim(len(common) - 0.4, -0.6)
    axis.set_xlabel("times in the questions")
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    size = len(counts["positive"] | counts["negative"])
    axis.set_title(
        f"The {len(common)} commonest of {size} words, words of grammar left out", loc="left"
    )
    axis.legend(frameon=False, loc="lower right")
    axis.spines[["top", "right"]].set_visible(False)
