"""From prediction rows to a folder with the paper's tables and figures, and what could not be made.

Needs rows and annotations; videos only for the frames of the sheets.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from cctv.data import files, schema
from cctv.data.errors import UserError
from cctv.metrics import evaluate
from cctv.reports import figures, paper_data, paper_figures, paper_sheets, paper_tables
from cctv.reports.paper_tables import Model, Table
from cctv.runs import groups as grouping
from cctv.runs import manifest, moments, paper_curves, rows, sweep

MOST_LINES = 20  # of a sheet that shows contrastive methods too
TITLE = "# Tables and figures from prediction rows"  # of the index, by which its folder is known


@dataclass(frozen=True, kw_only=True)
class _Folder:
    """The folder that is written, and what its index says."""

    path: Path
    tables: list[Table] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)  # stem, caption
    not_made: list[str] = field(default_factory=list)

    def table(self, table: Table, why_empty: str) -> None:
        if not table.rows:
            self.not_made.append(f"{table.caption.partition('.')[0]}: {why_empty}")
            return
        self.tables.append(table)
        forms = {"md": paper_tables.as_markdown, "tex": paper_tables.as_latex}
        for kind, form in (forms | {"csv": paper_tables.as_csv}).items():
            files.write_text(self.path / "tables" / f"{table.stem}.{kind}", form(table))

    def figure(self, figure: Figure, stem: str, caption: str) -> None:
        figures.save(figure, self.path / "figures" / stem)
        self.figures.append((stem, caption))


def make(
    predictions: Sequence[str],
    *,
    out: Path,
    annotations: str | None = None,
    groups: str | None = None,
    alpha: float | None = None,
    scenes: Sequence[str] = (),
    replicates: int = 2000,
    seed: int = 0,
    command: str = "",
) -> list[str]:
    """Writes everything that the rows allow; returns lines that say what was made and what not.

    The arguments are described in cctv/paper.py. UserError or OSError, one line, for what a user
    can mend.
    """
    _refuse_foreign(out)
    paths = list(dict.fromkeys(path for p in predictions for path in rows.shards(p)))
    manifest.check_together(paths)
    found = rows.read(paths)
    if not found:
        raise UserError(f"{', '.join(predictions)}: no prediction rows")
    dataset = schema.load(annotations) if annotations else _own_data(predictions[0])
    questions = schema.pairs_of(dataset.scenes)
    for name in scenes:
        if name not in questions:
            raise UserError(f"--scenes: {name!r} is not annotated")
    try:
        metrics = evaluate.evaluate(found, questions, replicates=replicates, seed=seed).metrics
    except ValueError as error:  # rows that don't fit the annotations
        raise UserError(f"{', '.join(predictions)}: {error}") from None
    models, notes = grouping.models(metrics["systems"], groups=groups, alpha=alpha)
    folder = _Folder(path=out)
    for sub in ("tables", "figures"):
        (out / sub).mkdir(parents=True, exist_ok=True)
    rows.write_json(out / "metrics.json", metrics)
    _tables(folder, models)
    _base_figures(folder, [m for m in models if m.base])
    _method_figures(folder, [m for m in models if len(m.systems) > 1])
    by_system = _by_system(found)
    _curves(folder, models, by_system, questions, replicates=replicates, seed=seed)
    _data(folder, dataset)
    _sheets(folder, models, by_system, dataset, scenes)
    stems = [table.stem for table in folder.tables]
    files.write_text(out / "tables" / "all.tex", paper_tables.latex_document(stems))
    settings = _settings(metrics, dataset, paths, len(found))
    files.write_text(out / "README.md", _index(folder, command, [*settings, *notes]))
    made = f"{len(folder.tables)} tables and {len(folder.figures)} figures in {out}: see README.md"
    return [*notes, *(f"not made: {line}" for line in folder.not_made), made]


def _refuse_foreign(out: Path) -> None:
    """UserError for a folder of something else: its README.md or metrics.json would be lost."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: --out needs a folder")
    index = out / "README.md"
    if index.is_file():
        foreign = not index.read_text("utf-8", errors="replace").startswith(TITLE)
    else:  # an interrupted command has no index yet
        names = {path.name for path in out.iterdir()} if out.exists() else set()
        foreign = not names <= {"tables", "figures", "metrics.json"}
    if foreign:
        raise UserError(f"{out} holds something else: choose a new or empty folder for --out")


def _own_data(run: str) -> schema.Dataset:
    """The scenes that a run folder was made from."""
    workdir = Path(run)
    if not workdir.is_dir():
        raise UserError(f"{workdir} is no run folder that names its data; give --annotations=DIR")
    config = sweep.read_config(workdir)
    dataset = schema.load(sweep.data_path(workdir, config))
    return dataclasses.replace(dataset, scenes=dataset.scenes[: (config or {}).get("limit")])


def _by_system(found: Sequence[Mapping]) -> dict[tuple, list[Mapping]]:
    """Rows by (model, run, method, α)."""
    out: dict[tuple, list[Mapping]] = {}
    for row in found:
        out.setdefault((row["model"], row["run"], row["method"], row["alpha"]), []).append(row)
    return out


def _key(system: Mapping) -> tuple:
    return tuple(system[name] for name in ("model", "run", "method", "alpha"))


def _tables(folder: _Folder, models: Sequence[Model]) -> None:
    no_base = "no model has rows of a base run"
    folder.table(paper_tables.main_table(models), no_base)
    folder.table(paper_tables.sensitivity_table(models), no_base)
    folder.table(paper_tables.failure_table(models), no_base)
    folder.table(paper_tables.method_table(models), "no model has rows of more than one method")


def _base_figures(folder: _Folder, models: Sequence[Model]) -> None:
    """Figures 5, 6 and 12 to 14."""
    if not models:
        folder.not_made.append("figures 5, 6, 12-14: no model has rows of a base run")
        return
    pages = paper_figures.pages(models, "failures")
    for i, page in enumerate(pages, 1):
        stem = "figure_05_failures" + (f"_{i}" if len(pages) > 1 else "")
        caption = "Figure 5. Failure modes, % of the wrong quadruples; 95 % intervals."
        folder.figure(paper_figures.failure_figure(page), stem, caption)
    categories = paper_figures.categories_of(models)
    if len(categories) < 3:
        folder.not_made.append(
            f"figures 6, 12-14: a radar needs three categories with complete quadruples, "
            f"there are {len(categories)} ({', '.join(categories)})"
        )
        return
    parts: dict[str, list[Model]] = {}
    for model in models:
        parts.setdefault(model.group, []).append(model)
    what = "QuadAcc, Score_cls (MCCScore), question and video consistency by category"
    figure = paper_figures.radar_figure(models, "All models")
    folder.figure(figure, "figure_06_radar_all", f"Figure 6. {what}, all models.")
    if len(parts) == 1:
        folder.not_made.append("figures 12-14: all models are one group (figure 6); give --groups")
        return
    for i, (group, members) in enumerate(parts.items(), 1):
        stem, caption = f"figure_12-14_{i}_{slug(group)}", f"Figures 12-14. {what}: {group}."
        folder.figure(paper_figures.radar_figure(members, group), stem, caption)


def _method_figures(folder: _Folder, models: Sequence[Model]) -> None:
    if not models:
        folder.not_made.append("figure 11: no model has rows of more than one method")
    pages = paper_figures.pages(models, "methods")
    for i, page in enumerate(pages, 1):
        stem = "figure_11_methods" + (f"_{i}" if len(pages) > 1 else "")
        caption = "Figure 11. Decoding methods; 95 % intervals; dotted: the gold yes rate, 25 %."
        folder.figure(paper_figures.method_figure(page), stem, caption)


def _curves(
    folder: _Folder,
    models: Sequence[Model],
    by_system: Mapping[tuple, Sequence[Mapping]],
    questions: evaluate.Questions,
    *,
    replicates: int,
    seed: int,
) -> None:
    """Figure 15, one a model."""
    options = {"replicates": replicates, "seed": seed}
    for i, model in enumerate(models, 1):
        origin = _key(next(iter(model.systems.values())))[:2]
        given = [r for key, some in by_system.items() if key[:2] == origin for r in some]
        try:
            figure = paper_curves.figure(given, questions, title=model.name, **options)
        except UserError as error:
            folder.not_made.append(f"figure 15 of {model.name}: {error}")
            continue
        caption = f"Figure 15. {model.name}: metrics against α; {figures.ALL_SCENES}."
        folder.figure(figure, f"figure_15_{i}_{slug(model.name)}", caption)


def _data(folder: _Folder, dataset: schema.Dataset) -> None:
    facts = [_facts(scene, moments.duration(scene, dataset)) for scene in dataset.scenes]
    folder.table(paper_data.statistics_table(facts), "")
    what = "Scenes by anomaly type, view and source."
    folder.figure(paper_data.source_figure(facts), "figure_03_sources", f"Figure 3. {what}")
    what = "Clip durations by type, question lengths by category, vocabulary."
    folder.figure(paper_data.language_figure(facts), "figure_07_language", f"Figure 7. {what}")


def _facts(scene: schema.Scene, duration: float | None) -> dict:
    keys = ("scene_id", "view", "anomaly_type", "source")
    pairs = [dict(vars(pair)) for pair in scene.questions]
    return {key: getattr(scene, key) for key in keys} | {"duration": duration, "pairs": pairs}


def _sheets(
    folder: _Folder,
    models: Sequence[Model],
    by_system: Mapping[tuple, Sequence[Mapping]],
    dataset: schema.Dataset,
    asked: Sequence[str],
) -> None:
    """Figures 16 to 18."""
    shown = {
        m.name if method == "base" else f"{m.name} {paper_tables.METHOD_NAMES[method]}": by_system[
            _key(system)
        ]
        for m in models
        for method, system in m.systems.items()
    }
    bases = {m.name: by_system[_key(m.base)] for m in models if m.base}
    if len(shown) > MOST_LINES and bases:
        shown = bases
    by_scene: dict[str, dict[str, dict[tuple, Mapping]]] = {}
    for name, some in shown.items():
        for row in some:
            scene = by_scene.setdefault(row["scene_id"], {name: {} for name in shown})
            scene[name][row["pair_id"], row["video"], row["question"]] = row
    has_pairing = shown is not bases and any("c_tcd" in m.systems for m in models)
    note = paper_tables.PAIRING if has_pairing else ""
    why = {name: "as asked for" for name in asked} or choose_scenes(bases or shown)
    scenes = {scene.scene_id: scene for scene in dataset.scenes}
    for i, (name, reason) in enumerate(why.items(), 1):
        videos = moments.frames(scenes[name], dataset)
        lacking = "; ".join(f"{video.title}: {video.note}" for video in videos if video.note)
        if lacking:
            folder.not_made.append(f"frames of scene {name}: {lacking}")
        facts = _facts(scenes[name], None)
        answers = by_scene.get(name, {system: {} for system in shown})
        sheet = paper_sheets.sheet(
            facts, videos, answers, title=f"Scene {name}: {reason}", note=note
        )
        caption = f"Figures 16-18. Scene {name}: {reason}."
        folder.figure(sheet, f"figure_16-18_{i}_{slug(name)}", caption)


def choose_scenes(systems: Mapping[str, Sequence[Mapping]]) -> dict[str, str]:
    """The scenes with most, median and fewest right answers of some systems, and what each is.

    A rule, so that nobody has to trust that examples were not picked; ties go by scene id.
    """
    right: dict[str, list[bool]] = {}
    cells = dict(zip(schema.CELLS, paper_sheets.GOLD))
    for row in (row for some in systems.values() for row in some):
        gold = cells[row["video"], row["question"]]
        kind = paper_sheets.kind_of(row, gold)
        right.setdefault(row["scene_id"], []).append(kind == "right")
    order = sorted(right, key=lambda s: (-sum(right[s]) / len(right[s]), s))
    chosen = {order[0]: "most right answers"}
    chosen.setdefault(order[-1], "fewest right answers")
    chosen.setdefault(order[len(order) // 2], "median of right answers")
    return chosen


def slug(name: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "unnamed"


def _settings(
    metrics: Mapping, dataset: schema.Dataset, paths: Sequence[Path], n_rows: int
) -> list[str]:
    boot = metrics["bootstrap"]
    names = ", ".join(map(str, paths[:5])) + (", …" if len(paths) > 5 else "")
    return [
        f"{n_rows} rows of {len(metrics['systems'])} systems from {names}.",
        f"Annotations: {dataset.root}, {len(dataset.scenes)} scenes, digest {dataset.digest[:16]}.",
        f"Tables: bootstrap mean ± the larger distance to the 2.5 and 97.5 percentiles; "
        f"{boot['replicates']} replicates of whole {boot['unit']}s, seed {boot['seed']}.",
        "Figures: plug-in values, with the 95 % percentile interval of the same replicates.",
    ]


def _index(folder: _Folder, command: str, settings: Sequence[str]) -> str:
    lines = [TITLE, "", "```", command, "```", ""]
    marked = paper_tables.marked
    lines += [f"- {marked(line)}" for line in settings]
    lines += ["", "`metrics.json` has every number. `tables/all.tex` compiles all tables.", ""]
    if folder.not_made:
        lines += ["## Not made", "", *(f"- {marked(line)}" for line in folder.not_made), ""]
    lines += ["## Tables", ""]
    for table in folder.tables:
        links = " · ".join(
            f"[{kind}](tables/{table.stem}.{end})"
            for kind, end in (("Markdown", "md"), ("LaTeX", "tex"), ("CSV", "csv"))
        )
        lines.append(f"- {marked(table.caption)}: {links}")
    lines += ["", "## Figures", ""]
    for stem, caption in folder.figures:
        path = f"figures/{stem}"
        lines += [f"{marked(caption)} [PDF]({path}.pdf)", "", f"![{stem}]({path}.png)", ""]
    return "\n".join(lines)
