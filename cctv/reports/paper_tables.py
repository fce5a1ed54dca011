"""The paper's tables from entries of metrics.json, in Markdown, LaTeX (booktabs) and CSV.

Table 1: main results by model. Table 2: sensitivity to video and question. Table 3: decoding
methods by model. And the shares that Figure 5 draws. Cells are bootstrap mean ± half width, as the
paper prints; the best of a group is bold, also where several print alike.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cctv.reports import tables

METHOD_NAMES = {"base": "Base", "vcd": "VCD", "tcd": "TCD", "c_tcd": "C-TCD"}
PAIRING = "C-TCD uses the benchmark's own pairing at test time, which no deployed model has."
CELLS = "Bootstrap mean ± the larger distance to the ends of the 95 % interval over scenes."
BOLD = "Bold: the best of its group."
_SIZE = re.compile(r"(.+?)[ _-]+(\d+(?:\.\d+)?[BM](?:-A\d+(?:\.\d+)?B)?)", re.IGNORECASE)
_TITLE = re.compile(r"Table \d\. ")  # LaTeX numbers its tables itself
# What pdflatex takes in a text; letters it has no font for are written by their code.
_TEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "—": "---", "…": r"\ldots{}", "α": r"$\alpha$",
    "β": r"$\beta$", "×": r"$\times$", "’": "'", "‘": "`", "“": "``", "”": "''",
    "`": r"\textasciigrave{}",
}  # fmt: skip


class Model(NamedTuple):
    """One model (of one run) and the entries of "systems" that stand for it."""

    group: str
    name: str
    systems: Mapping[str, Mapping]  # by method, of one α each

    @property
    def base(self) -> Mapping | None:
        return self.systems.get("base")


class Row(NamedTuple):
    """`labels` fill the text columns; an entry is one of "metrics", or a text as it is."""

    group: str
    labels: Sequence[str]
    entries: Sequence[Mapping | str]


class Table(NamedTuple):
    """`columns` are (key, head, whether the highest is bold); `spans` (title, columns) or none."""

    stem: str
    caption: str
    labels: Sequence[tuple[str, str]]  # (key, head) of the text columns
    columns: Sequence[tuple[str, str, bool]]
    rows: Sequence[Row]
    notes: Sequence[str]
    spans: Sequence[tuple[str, int]] = ()


def split_size(name: str) -> tuple[str, str]:
    """A model's name and its size: ("Qwen3-VL", "2B") of "Qwen3-VL-2B"; no size where none is."""
    found = _SIZE.fullmatch(name)
    return found.groups() if found else (name, "")


def main_table(models: Sequence[Model]) -> Table:
    """Table 1: both consistencies with their parts, BaAcc, MCCScore, QuadAcc of the base runs."""
    overall = {"video_consistency": "Overall (video)", "question_consistency": "Overall (question)"}
    return _by_model(
        "table1_main",
        "Table 1. Contrastive consistency and accuracy, %",
        [(key, overall.get(key, head), True) for key, head in tables.MAIN],
        models,
        spans=(("Across videos", 3), ("Across questions", 3), ("Accuracy", 3)),
    )


def sensitivity_table(models: Sequence[Model]) -> Table:
    """Table 2: VS, QS, GVRS and SVE of the base runs."""
    columns = [(key, head, True) for key, head in tables.SENSITIVITY if key != "vri"]
    title = "Table 2. Sensitivity to the video and to the question, %"
    return _by_model("table2_sensitivity", title, columns, models)


def failure_table(models: Sequence[Model]) -> Table:
    """The shares of Figure 5. They are of different wholes, so none is called the best."""
    columns = [(key, head, False) for key, head in tables.FAILURES]
    title = "Failure modes, % of a model's wrong quadruples (Figure 5); they overlap"
    return _by_model("failure_modes", title, columns, models)


def _by_model(stem, caption, columns, models: Sequence[Model], spans=()) -> Table:
    rows = [
        Row(m.group, split_size(m.name), [m.base["metrics"][key] for key, *_ in columns])
        for m in models
        if m.base
    ]
    best = [BOLD] if any(bold for *_, bold in columns) else []
    notes = [CELLS, *best, *_coverage([m for m in models if m.base], "base")]
    labels = (("model", "Model"), ("size", "Size"))
    return Table(stem, caption, labels, columns, rows, notes, spans)


def method_table(models: Sequence[Model]) -> Table:
    """Table 3: a group a model, a row a decoding method; models with the base run alone are out."""
    columns = [(key, head, True) for key, head in tables.MAIN if key in _TABLE_3]
    columns.append(("yes_rate", "yes rate", False))
    shown = [m for m in models if len(m.systems) > 1]
    rows = [
        Row(
            m.name,
            (m.name, method),
            [s["metrics"][key] for key, *_ in columns],
        )
        for m in shown
        for method, s in m.systems.items()
    ]
    notes = [CELLS, "Bold: the best of a model's methods.", *_strengths(shown), *_coverage(shown)]
    notes.append("Part of a gain may be a shift of the yes rate (gold: 25).")
    if any("c_tcd" in m.systems for m in shown):
        notes.append(PAIRING)
    labels = (("model", "Model"), ("method", "Method"))
    title = "Table 3. Decoding methods, %"
    return Table("table3_decoding", title, labels, columns, rows, notes)


_TABLE_3 = ("ba_acc", "mcc_score", "quad_acc")


def _strengths(models: Sequence[Model]) -> list[str]:
    """At which α the methods were run: once where it is the same for all."""
    found = [(m.name, k, s["alpha"]) for m in models for k, s in m.systems.items() if k != "base"]
    if len({alpha for *_, alpha in found}) <= 1:
        return [f"Contrast strength α = {alpha:g}." for *_, alpha in found[:1]]
    parts = (f"{name} {METHOD_NAMES[method]} {alpha:g}" for name, method, alpha in found)
    return [f"Contrast strength α: {', '.join(parts)}."]


def _coverage(models: Sequence[Model], only: str | None = None) -> list[str]:
    """A line on each system some of whose quadruples are incomplete."""
    return [
        f"{m.name}, {METHOD_NAMES[method]}: {s['n_incomplete']} of {s['n_pairs']} quadruples are "
        "incomplete and left out."
        for m in models
        for method, s in m.systems.items()
        if s["n_incomplete"] and only in (None, method)
    ]


def bold_cells(table: Table) -> set[tuple[int, int]]:
    """(row, column) of the best by group as printed; none where a group has one value only."""
    out = set()
    for group in dict.fromkeys(row.group for row in table.rows):
        for c, (_, _, bold) in enumerate(table.columns):
            values = {
                r: round(row.entries[c]["mean"], 2)
                for r, row in enumerate(table.rows)
                if bold and row.group == group and row.entries[c]["mean"] is not None
            }
            if len(values) > 1:
                out |= {(r, c) for r, value in values.items() if value == max(values.values())}
    return out


def as_markdown(table: Table) -> str:
    """A heading, the table, its notes as a list."""
    bold, groups = bold_cells(table), _groups(table)
    head = [text for _, text in table.labels] + [text for _, text, _ in table.columns]
    lines = [head, [":--"] * len(table.labels) + ["--:"] * len(table.columns)]
    for r, row in enumerate(table.rows):
        if len(groups) > 1 and r in groups.values() and row.group != row.labels[0]:
            lines.append([f"*{marked(row.group)}*", *[""] * (len(head) - 1)])
        cells = []
        for c, entry in enumerate(row.entries):
            mean, plus, half = _text(entry).partition(" ± ")
            mean = marked(mean)
            cells.append((f"**{mean}**" if (r, c) in bold else mean) + plus + half)
        lines.append([*map(marked, _shown(table, row)), *cells])
    body = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [f"- {marked(note)}" for note in table.notes]
    return "\n".join([f"## {marked(table.caption)}", "", *body, "", *notes]) + "\n"


def as_latex(table: Table) -> str:
    """A table* environment to \\input; needs booktabs, graphicx and T1 fonts."""
    bold, groups = bold_cells(table), _groups(table)
    n_labels, n = len(table.labels), len(table.labels) + len(table.columns)
    out = [
        r"\begin{table*}[t]",
        r"\centering\small",
        rf"\caption{{{_tex(' '.join([_TITLE.sub('', table.caption) + '.', *table.notes]))}}}",
        rf"\label{{tab:{table.stem}}}",
        r"\vspace{4pt}",
        # As wide as it is, but never wider than the page.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' * n_labels}{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if table.spans:
        cells, rules, at = [" & " * (n_labels - 1)], [], n_labels + 1
        for title, width in table.spans:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_tex(title)}}}")
            if title:
                rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
            at += width
        out += [" & ".join(cells) + r" \\", "".join(rules)]
    heads = [text for _, text in table.labels] + [
        text.partition(" (")[0] if table.spans else text for _, text, _ in table.columns
    ]
    out += [" & ".join(map(_tex, heads)) + r" \\", r"\midrule"]
    for r, row in enumerate(table.rows):
        if len(groups) > 1 and r in groups.values():
            out += [r"\addlinespace"] if r else []
            if row.group != row.labels[0]:
                out.append(rf"\multicolumn{{{n}}}{{l}}{{\textit{{{_tex(row.group)}}}}} \\")
        cells = []
        for c, entry in enumerate(row.entries):
            mean, plus, half = map(_tex, _text(entry).partition(" ± "))
            mean = rf"\textbf{{{mean}}}" if (r, c) in bold else mean
            cells.append(mean + (rf" {{\scriptsize{plus.rstrip()}{half}}}" if plus else ""))
        out.append(" & ".join([*map(_tex, _shown(table, row)), *cells]) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]
    return "\n".join(out) + "\n"


def latex_document(stems: Sequence[str]) -> str:
    """A document that shows every table, to compile beside them."""
    packages = [r"\usepackage[utf8]{inputenc}", r"\usepackage[T1]{fontenc}"]
    packages += [r"\usepackage{booktabs}", r"\usepackage{graphicx}"]
    head = [r"\documentclass{article}", *packages, r"\usepackage[margin=1.5cm]{geometry}"]
    body = [rf"\input{{{stem}.tex}}" for stem in stems]
    return "\n".join([*head, r"\begin{document}", *body, r"\end{document}"]) + "\n"


def as_csv(table: Table) -> str:
    """Columns group, the text columns, then each metric by its key, with KEY_half_width after it;
    two decimals, nothing where undefined. `cctv.audit` reads it."""
    head = ["group", *(key for key, _ in table.labels)]
    for key, *_ in table.columns:
        head += [key, f"{key}_half_width"] if _has_widths(table) else [key]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in table.rows:
        cells = []
        for entry in row.entries:
            if isinstance(entry, str):
                cells.append(entry)
            elif entry["mean"] is None:
                cells += ["", ""]
            else:
                cells += [f"{entry['mean']:.2f}", f"{entry['half_width']:.2f}"]
        writer.writerow([row.group, *row.labels, *cells])
    return out.getvalue()


def _has_widths(table: Table) -> bool:
    return not any(isinstance(entry, str) for row in table.rows for entry in row.entries)


def _groups(table: Table) -> dict[str, int]:
    """The first row of each group."""
    return {row.group: r for r, row in reversed(list(enumerate(table.rows)))}


def _shown(table: Table, row: Row) -> list[str]:
    """The text columns for a reader; CSV has the methods' keys."""
    keys = [key for key, _ in table.labels]
    return [METHOD_NAMES[t] if key == "method" else t for key, t in zip(keys, row.labels)]


def _text(entry: Mapping | str) -> str:
    return entry if isinstance(entry, str) else tables.interval(entry)


def marked(text: str) -> str:
    """A text of a user in one line of Markdown."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    for mark in "|`*_<[":
        text = text.replace(mark, "\\" + mark)
    return text


def _tex(text: str) -> str:
    letters = (
        _TEX.get(c) or (c if c == " " or "!" <= c <= "~" or "\xa1" <= c <= "\xff" else _code(c))
        for c in text
    )
    return "".join(letters)


def _code(letter: str) -> str:
    return " " if letter.isspace() else f"U+{ord(letter):04X}"
