"""The paper's tables from metrics.json, for a terminal and for report.md."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cctv.metrics import breakdown

MAIN = (
    ("contr_q_pos", "Contr@q+"),
    ("reject_q_neg", "Reject@q-"),
    ("video_consistency", "Overall"),
    ("contr_v_pos", "Contr@v+"),
    ("reject_v_neg", "Reject@v-"),
    ("question_consistency", "Overall"),
    ("ba_acc", "BaAcc"),
    ("mcc_score", "MCCScore"),
    ("quad_acc", "QuadAcc"),
)
SENSITIVITY = (("vs", "VS"), ("qs", "QS"), ("vri", "VRI"), ("gvrs", "GVRS"), ("sve", "SVE"))
FAILURES = (
    ("pos_omiss", "PosOmiss"),
    ("pos_swap", "PosSwap"),
    ("neg_hall", "NegHall"),
    ("me_viol", "MEViol"),
    ("unparsed_failed", "unparsed"),
)
YES_RATE = ("yes_rate", "yes rate")
FACTORS = {  # of the breakdowns
    "category": "category",
    "anomaly_type": "type of anomaly",
    "view": "view",
    "source": "source",
    "contact_position": "place of contact, % of clip",
    "question_words": "words of a question",
    "clip_seconds": "seconds of the clip",
    "margin": "smallest |margin|",
}
FEW = f"{breakdown.FEW_PAIRS} quadruples or {breakdown.FEW_SCENES} scenes"
_LONGEST = 40  # letters of a group's name
SHOWN_INCOMPLETE = 20  # of a system in the terminal; report.md lists all


class Table(NamedTuple):
    """A title, a header and rows of text; the first column is left-aligned, the others right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Block(NamedTuple):
    """A heading and lines under it."""

    title: str
    lines: Sequence[str]


def name_of(system: Mapping) -> str:
    """ "model|run|method|alpha" of an entry of "systems"."""
    return "|".join(str(system[key]) for key in ("model", "run", "method", "alpha"))


def label_of(name: str) -> str:
    """How a table calls the system of a name: `model method`, the run and α where there are any."""
    model, run, method, alpha = name.rsplit("|", 3)
    parts = [
        model,
        f"[{run}]" if run else "",
        method,
        "" if method == "base" else f"α={float(alpha):g}",
    ]
    return " ".join(part for part in parts if part)


def interval(entry: Mapping) -> str:
    """`mean ± half_width` of an entry of "metrics", "–" where it is undefined."""
    if entry["mean"] is None:
        return "–"
    return f"{entry['mean']:.2f} ± {entry['half_width']:.2f}"


def sections(
    metrics: Mapping,
    incomplete: Mapping[str, Sequence[Mapping]],
    near_ties: Mapping[str, int | None],
    *,
    brief: bool = False,
) -> list[Table | Block]:
    """Everything that a report shows of the three parts of an evaluation, in reading order.

    `brief`, for a terminal, leaves out the breakdowns and of the margins all but the verdict.
    """
    systems = metrics["systems"]
    margins = _threshold_free(systems)
    if brief:
        details = [part for part in margins if isinstance(part, Block)]
    else:
        details = [*_breakdowns(systems), *margins]
    out = [
        _metric_table("Consistency and accuracy, % (mean ± half width)", systems, MAIN),
        _metric_table("Sensitivity to the video and to the question, %", systems, SENSITIVITY),
        _metric_table("Failure modes, % of the wrong quadruples", systems, FAILURES),
        _categories(systems),
        *details,
        _coverage(systems, near_ties),
        _card(systems),
    ]
    if metrics["comparisons"]:
        out.append(_comparisons(metrics["comparisons"]))
    return [*out, *_incomplete(systems, incomplete), Block("Notes", _notes(metrics))]


def _metric_table(title: str, systems: Sequence[Mapping], columns) -> Table:
    columns = [*columns, YES_RATE]
    rows = [
        [label_of(name_of(s)), *(interval(s["metrics"][key]) for key, _ in columns)]
        for s in systems
    ]
    return Table(title, ["system", *(head for _, head in columns)], rows)


def _categories(systems: Sequence[Mapping]) -> Table:
    names = sorted({name for s in systems for name in s["by_category"]})
    rows = [
        [label_of(name_of(s)), *(interval(s["by_category"][c]["quad_acc"]) for c in names)]
        for s in systems
    ]
    return Table("QuadAcc by category, %", ["system", *names], rows)


def is_told(groups: Sequence[Mapping]) -> bool:
    """Whether a breakdown says more than that nothing is known."""
    return [g["group"] for g in groups] != [breakdown.UNKNOWN]


def _breakdowns(systems: Sequence[Mapping]) -> list[Table | Block]:
    """A table for each factor but the category, which has its own."""
    if not systems or "breakdowns" not in systems[0]:
        return []
    out: list[Table | Block] = []
    silent = []
    for factor, name in FACTORS.items():
        groups = systems[0]["breakdowns"][factor]
        if not is_told(groups):
            silent.append(f"By {name}: known of no quadruple.")
        elif factor != "category":
            rows = _breakdown_rows(systems, factor)
            header = ["system", *(_one_line(g["group"]) for g in groups)]
            out.append(Table(f"QuadAcc (%) by {name}; * fewer than {FEW}", header, rows))
    return [*out, Block("Not annotated", silent)] if silent else out


def _one_line(text: str) -> str:
    """An annotation's text as a column's head: printable, and not too long."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _breakdown_rows(systems: Sequence[Mapping], factor: str) -> list[list[str]]:
    """The values of each system, under how many complete quadruples they are of; where all systems
    have equally many that is one line on top."""
    values, counts = [], []
    for s in systems:
        groups = s["breakdowns"][factor]
        cells = [interval(g["metrics"]["quad_acc"]) + "*" * g["small"] for g in groups]
        values.append([label_of(name_of(s)), *cells])
        sizes = [f"{g['n_pairs']} ({g['n_scenes']})" for g in groups]
        counts.append(["quadruples (scenes)", *sizes])
    if all(line == counts[0] for line in counts):
        return [counts[0], *values]
    return [line for both in zip(counts, values) for line in both]


def _threshold_free(systems: Sequence[Mapping]) -> list[Table | Block]:
    entries = [
        (label_of(name_of(s)), s["threshold_free"])
        for s in systems
        if "metrics" in s.get("threshold_free", {})
    ]
    if not entries:
        return []
    header = ["system", "quadruples", "AUROC", "AP (chance 25)", "ECE", "AURC answers"]
    header += ["AURC quadruples", "ordered (chance 25)", "quadruple margin, logits"]
    keys = ("auroc", "average_precision", "ece", "aurc_answers", "aurc_quadruples", "ordered")
    rows = [
        [label, str(t["n_pairs"])]
        + [_with_ends(t["metrics"][key]) for key in (*keys, "quadruple_margin")]
        for label, t in entries
    ]
    chosen = [
        [label, *_threshold(t["threshold"]["quad_acc"]), *_threshold(t["threshold"]["ba_acc"])]
        for label, t in entries
        if t["threshold"]["quad_acc"]
    ]
    out: list[Table | Block] = [
        Table("From margins, whatever the threshold, % [95 % interval]", header, rows)
    ]
    if chosen:
        columns = [f"{m}{what}" for m in ("QuadAcc", "BaAcc") for what in (" at 0", "", " gain")]
        columns = ["threshold", *columns[:3], "threshold", *columns[3:]]
        title = "A threshold chosen on other scenes, against 0, % [95 % interval]"
        out.append(Table(title, ["system", *columns], chosen))
    lines = [f"{label}: {verdict(t)}" for label, t in entries]
    return [*out, Block("Blindness or a biased threshold?", lines + _left_out(entries))]


def _with_ends(entry: Mapping, *, sign: str = "") -> str:
    low, high = (format(entry[key], f"{sign}.2f") for key in ("low", "high"))
    return f"{entry['value']:{sign}.2f} [{low}, {high}]"


def _threshold(found: Mapping) -> list[str]:
    low, *_, high = sorted(found["thresholds"])
    cells = [_with_ends(found[key]) for key in ("at_zero", "held_out")]
    return [f"{low:+.2f} to {high:+.2f}", *cells, _with_ends(found["difference"], sign="+")]


def verdict(found: Mapping) -> str:
    """Is a low QuadAcc blindness or a biased threshold? One line from "threshold_free"."""
    threshold, ordered = found["threshold"]["quad_acc"], found["metrics"]["ordered"]["value"]
    if threshold is None:
        return "one scene, so there are no others to choose a threshold on."
    zero, held, gain = (threshold[key] for key in ("at_zero", "held_out", "difference"))
    missing = 100 - zero["value"]
    if missing == 0:
        said = "nothing is missing"
    elif gain["low"] <= 0:
        said = "blindness, not the threshold: no gain from another one is shown"
    elif gain["value"] >= missing / 2:
        said = "mostly a biased threshold"
    else:
        share = 100 * gain["value"] / missing
        said = f"a biased threshold costs {share:.0f} % of what is missing"
    if found["n_scenes"] < breakdown.FEW_SCENES:
        said += f"; but {found['n_scenes']} scenes are too few to tell"
    return (
        f"QuadAcc {zero['value']:.2f} at threshold 0, {held['value']:.2f} at one chosen on other "
        f"scenes ({_with_ends(gain, sign='+')}), {ordered:.2f} if each quadruple had its own "
        f"(by chance 25): {said}."
    )


def _left_out(entries: Sequence[tuple[str, Mapping]]) -> list[str]:
    """What the margins don't cover or don't decide."""
    texts = {
        "n_without_margin": "complete quadruples lack a margin and are left out here",
        "n_unparsed": "answers that are neither Yes nor No count by the sign of their margin here",
        "n_disagree": "answers differ from the sign of their margin, which counts here",
    }
    return [
        f"{label}: {t[key]} {text}."
        for label, t in entries
        for key, text in texts.items()
        if t[key]
    ]


def _coverage(systems: Sequence[Mapping], near_ties: Mapping[str, int | None]) -> Table:
    header = ["system", "scenes", "quadruples", "incomplete", "coverage", "wrong", "unparsed rows"]
    rows = []
    for s in systems:
        counts = [s[key] for key in ("n_scenes", "n_pairs", "n_incomplete")]
        ties = near_ties.get(name_of(s))
        cells = [*counts, f"{s['coverage']:.2f} %", s["n_failed"], s["n_unparsed"]]
        cells.append("–" if ties is None else ties)
        rows.append([label_of(name_of(s)), *map(str, cells)])
    return Table("What was answered", [*header, "near ties (|margin| < 0.001)"], rows)


def _card(systems: Sequence[Mapping]) -> Table:
    rows = [
        [label_of(name_of(s))]
        + ["–" if s["card"][k] is None else f"{s['card'][k]:.2f}" for k in ("quad_acc", "ba_acc")]
        for s in systems
    ]
    title = "As an evaluation card counts, which expects Yes for (v-, q-), against the paper; %"
    return Table(title, ["system", "card QuadAcc", "card BaAcc"], rows)


def _comparisons(comparisons: Sequence[Mapping]) -> Table:
    columns = [*MAIN, YES_RATE]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for c in comparisons:
        text = "–"
        if c["difference"] is not None and c["low"] is not None:
            text = f"{c['difference']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}]"
        found.setdefault((c["a"], c["b"]), {})[c["metric"]] = text
    rows = [
        [f"{label_of(a)} − {label_of(b).rsplit(' ', 1)[-1]}", *(cells[key] for key, _ in columns)]
        for (a, b), cells in found.items()
    ]
    title = "Paired differences on the quadruples complete in both, points [95 % interval]"
    return Table(title, ["systems", *(head for _, head in columns)], rows)


def _incomplete(systems: Sequence[Mapping], incomplete: Mapping) -> list[Block]:
    blocks = []
    for s in systems:
        listed = incomplete.get(name_of(s), ())
        if listed:
            title = f"Incomplete quadruples of {label_of(name_of(s))}: {len(listed)}"
            blocks.append(Block(title, [_lacking(item) for item in listed]))
    return blocks


def _lacking(item: Mapping) -> str:
    signs = {"positive": "+", "negative": "-"}
    cells = ", ".join(
        f"(v{signs[c['video']]}, q{signs[c['question']]}) {c['reason']}" for c in item["cells"]
    )
    return f"{item['scene_id']} {item['pair_id']}: {cells}"


def _notes(metrics: Mapping) -> list[str]:
    systems, bootstrap = metrics["systems"], metrics["bootstrap"]
    notes = [
        f"Intervals: {bootstrap['replicates']} bootstrap replicates of whole {bootstrap['unit']}s, "
        f"seed {bootstrap['seed']}; mean ± the larger distance to the 2.5 and 97.5 percentiles. "
        "– is undefined."
    ]
    if any(s["method"] == "c_tcd" for s in systems):
        notes.append(
            "C-TCD contrasts each video with its counterfactual: it uses the benchmark's own "
            "pairing at test time, which no deployed model has."
        )
    names = {name_of(s) for s in systems}
    for s in systems:
        base = "|".join((s["model"], s["run"], "base", "0.0"))
        if s["method"] != "base" and base not in names:
            notes.append(f"{label_of(name_of(s))} has no base run beside it to compare with.")
    if any(s["method"] != "base" for s in systems):
        notes.append("Part of a gain may be a shift of the yes rate: read it with the gain.")
    return notes


def as_text(parts: Sequence[Table | Block]) -> str:
    """For a terminal: aligned columns; long lists of incomplete quadruples are cut and counted."""
    out = []
    for part in parts:
        if isinstance(part, Table):
            lines = [part.header, *part.rows]
            widths = [max(map(_width, column)) for column in zip(*lines)]
            body = ["  ".join(_aligned(line, widths)).rstrip() for line in lines]
        else:
            body = list(part.lines)
            if part.title != "Notes" and len(body) > SHOWN_INCOMPLETE:
                more = len(body) - SHOWN_INCOMPLETE
                body = [*body[:SHOWN_INCOMPLETE], f"… and {more} more"]
        out.append("\n".join([part.title, *body]))
    return "\n\n".join(out) + "\n"


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = [" " * (width - _width(text)) for text, width in zip(line, widths)]
    return [line[0] + first, *(pad + text for pad, text in zip(rest, line[1:]))]


def as_markdown(parts: Sequence[Table | Block]) -> str:
    """For report.md: every part under a second-level heading, nothing cut."""
    out = []
    for part in parts:
        if isinstance(part, Table):
            rule = [":--", *["--:"] * (len(part.header) - 1)]
            lines = [part.header, rule, *part.rows]
            body = ["| " + " | ".join(map(_escaped, line)) + " |" for line in lines]
        else:
            body = [f"- {_escaped(line)}" for line in part.lines]
        out.append("\n".join([f"## {_escaped(part.title)}", "", *body]))
    return "\n\n".join(out) + "\n"


def _escaped(text: str) -> str:
    text = " ".join(text.split()).replace("\\", "\\\\")
    for mark in "|`*_<":
        text = text.replace(mark, "\\" + mark)
    return text
