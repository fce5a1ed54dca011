"""The report of a run: report.md to read anywhere, report.html to look at.

report.html is one file without external requests that works from file://; the videos and the strips
of sampled frames are linked, by paths relative to the run folder. Every text of a data set or a
model is untrusted: the template escapes all of it, paths are percent-encoded and stay relative.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import jinja2

from cctv.data import files
from cctv.metrics.evaluate import Evaluation, system_name
from cctv.metrics.quadruples import CELLS
from cctv.reports import diagnosis, tables

_SIDES = ("positive", "negative")
_GOLD = (1, 0, 0, 0)  # labels of CELLS
_WORDS = {1: "Yes", 0: "No"}
_SIGNS = {"right": "✓", "wrong": "✗", "unparsed": "?", "failed": "–", "incomplete": "–"}
_SHOWN_ANSWER = 60  # characters of an answer in a cell; its tool tip has more
_KEPT_ANSWER = 500
# The two columns that the paper calls Overall, told apart where they don't stand in its order.
_PANEL_NAMES = {
    "video_consistency": "Overall, across videos",
    "question_consistency": "Overall, across questions",
    "yes_rate": "yes rate (gold: 25)",
}


class _Cell(NamedTuple):
    kind: str  # right, wrong, unparsed or failed
    sign: str
    word: str
    margin: str  # two decimals, "" where there is none
    answer: str  # the text, shortened, where it says more than the word
    tip: str  # all of it


class _Line(NamedTuple):
    """One system's answers to one question pair."""

    system: int
    verdict: str  # right, wrong or incomplete
    sign: str
    cells: Sequence[_Cell]


def write_report(
    workdir: Path,
    *,
    title: str,
    evaluation: Evaluation,
    rows: Sequence[Mapping],
    scenes: Sequence[Mapping],
    notes: Sequence[str],
    settings: Mapping,
) -> None:
    """Writes report.md and report.html into the run folder, each as a whole or not at all, and the
    figures that they show (`diagnosis.write`).

    `rows` are those that were evaluated. A scene is {"scene_id", "view", "anomaly_type", "source",
    "videos": {"positive": path | None, "negative": …}, "strips": {"positive": path | None, …},
    "pairs": [{"pair_id", "category", "positive", "negative"}]} with posix paths relative to
    `workdir`; a file that isn't there is named as missing. `notes` stand on top, `settings` (may be
    nested) below. Equal input gives equal bytes. ValueError for rows of no given pair; OSError
    names the file that can't be written.
    """
    workdir = Path(workdir)
    parts = tables.sections(*evaluation)
    options = _flat(settings)
    systems = evaluation.metrics["systems"]
    pictures = diagnosis.write(workdir, systems, _short_labels(systems))
    page = _environment().get_template("report.html.j2")
    html = page.render(
        title=title,
        notes=notes,
        panels=_panels(systems),
        parts=parts,
        pictures=pictures,
        systems=_short_labels(systems),
        categories=sorted({pair["category"] for scene in scenes for pair in scene["pairs"]}),
        scenes=_scenes(workdir, scenes, rows, systems),
        n_pairs=sum(len(scene["pairs"]) for scene in scenes),
        settings=options,
    )
    text = _markdown(title, notes, parts, pictures, options)
    files.write_text(workdir / "report.md", text, errors="replace")
    files.write_text(workdir / "report.html", html, errors="replace")


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("cctv.reports", "html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _markdown(
    title: str,
    notes: Sequence[str],
    parts: Sequence[tables.Table | tables.Block],
    pictures: Sequence[diagnosis.Picture],
    options: Sequence[tuple[str, str]],
) -> str:
    more = "report.html shows every quadruple with its videos, answers and margins."
    top = tables.as_markdown([tables.Block(title, [*notes, more])])[1:]  # a first-level heading
    settings = tables.Block("Settings", [f"{key}: {value}" for key, value in options])
    shown = [f"## {p.title}\n\n![{p.title}]({p.path})\n\n{p.caption}\n" for p in pictures]
    return "\n".join([top, tables.as_markdown(parts), *shown, tables.as_markdown([settings])])


def _panels(systems: Sequence[Mapping]) -> list[dict]:
    """One plot a metric, QuadAcc first; positions are percent, None where undefined."""
    *others, first = tables.MAIN
    labels = _short_labels(systems)
    return [
        {
            "title": _PANEL_NAMES.get(key, head),
            "lines": [
                {"label": label, "method": s["method"]} | s["metrics"][key]
                for label, s in zip(labels, systems)
            ],
        }
        for key, head in (first, *others, tables.YES_RATE)
    ]


def _short_labels(systems: Sequence[Mapping]) -> list[str]:
    """Labels as in the tables, without model and run where all systems share them."""
    labels = [tables.label_of(tables.name_of(s)) for s in systems]
    if len({(s["model"], s["run"]) for s in systems}) > 1:
        return labels
    return [tables.label_of(tables.name_of({**s, "model": "", "run": ""})) for s in systems]


def _scenes(
    workdir: Path, scenes: Sequence[Mapping], rows: Sequence[Mapping], systems: Sequence[Mapping]
) -> list[dict]:
    """What the template shows of each scene."""
    number = {tables.name_of(s): i for i, s in enumerate(systems)}
    answers: dict[tuple[str, str], dict[tuple, Mapping]] = {
        (scene["scene_id"], pair["pair_id"]): {} for scene in scenes for pair in scene["pairs"]
    }
    for row in rows:
        place = (row["scene_id"], row["pair_id"])
        if place not in answers:
            raise ValueError(f"rows of scene {place[0]!r} pair {place[1]!r}, which is not given")
        system = number[system_name((row["model"], row["run"], row["method"], row["alpha"]))]
        answers[place][system, row["video"], row["question"]] = row
    return [_scene(workdir, scene, answers, len(systems)) for scene in scenes]


def _scene(workdir: Path, scene: Mapping, answers: Mapping, n_systems: int) -> dict:
    pairs = []
    for pair in scene["pairs"]:
        found = answers[scene["scene_id"], pair["pair_id"]]
        lines = [_line(i, [found.get((i, *cell)) for cell in CELLS]) for i in range(n_systems)]
        pairs.append({**pair, "lines": lines})
    verdicts = [[pair["lines"][i].verdict for pair in pairs] for i in range(n_systems)]
    return {
        "scene_id": scene["scene_id"],
        "facts": [scene[key] for key in ("view", "anomaly_type", "source") if scene[key]],
        "sides": [
            {"side": side, "video": _linked(workdir, scene["videos"].get(side))}
            | {"strip": _linked(workdir, scene["strips"].get(side))}
            for side in _SIDES
        ],
        "pairs": pairs,
        "counts": [{name: v.count(name) for name in ("right", "incomplete")} for v in verdicts],
    }


def _linked(workdir: Path, path: str | None) -> dict:
    """A path and its href, None if there is no such file. `./` keeps every href relative."""
    if path is None or not (workdir / path).is_file():
        return {"path": path, "href": None}
    return {"path": path, "href": "./" + quote(os.fsencode(path))}


def _line(system: int, rows: Sequence[Mapping | None]) -> _Line:
    cells = [_cell(row, gold) for row, gold in zip(rows, _GOLD)]
    kinds = {cell.kind for cell in cells}
    verdict = "incomplete" if "failed" in kinds else "right" if kinds == {"right"} else "wrong"
    return _Line(system=system, verdict=verdict, sign=_SIGNS[verdict], cells=cells)


def _cell(row: Mapping | None, gold: int) -> _Cell:
    if row is None:
        return _Cell("failed", _SIGNS["failed"], "no row", "", "", "")
    margin, answer = row.get("margin"), row.get("answer") or ""
    if row["status"] not in ("ok", "unparsed"):
        kind, word = "failed", row["status"]
    elif row["label"] is None:
        kind, word = "unparsed", "unparsed"
    else:
        kind, word = "right" if row["label"] == gold else "wrong", _WORDS[row["label"]]
    plain = answer.strip().rstrip(".").casefold() == word.casefold()
    return _Cell(
        kind=kind,
        sign=_SIGNS[kind],
        word=word,
        margin="" if margin is None else f"{margin:+.2f}".replace("-", "−"),
        answer="" if plain else _cut(answer, _SHOWN_ANSWER),
        tip=_tip(row, "" if plain else answer),
    )


def _tip(row: Mapping, answer: str) -> str:
    names = (
        ("margin", "margin"),
        ("margin_contrast", "contrast"),
        ("alpha_exact_to", "exact to α"),
    )
    parts = [f"{text} {row[key]!r}" for key, text in names if row.get(key) is not None]
    if row.get("masked"):
        parts.append("masked")
    if answer:
        parts.append(f"answer: {_cut(answer, _KEPT_ANSWER)}")
    return "; ".join(parts)


def _cut(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _flat(settings: Mapping, prefix: str = "") -> list[tuple[str, str]]:
    """(dotted key, text) of every leaf."""
    out = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            out += _flat(value, f"{prefix}{key}.")
        else:
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False, default=str)
            )
            out.append((f"{prefix}{key}", text))
    return out
