"""From the rows of a run folder to alpha.json: metrics against α, and α chosen on other scenes."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.metrics import alpha as alphas
from cctv.metrics import quadruples
from cctv.metrics.evaluate import FAILED, METHODS
from cctv.reports import figures, tables
from cctv.runs import builtin, rows
from cctv.runs.choose import System, analyse, grid

LABELS = {1: quadruples.YES, 0: quadruples.NO, None: quadruples.UNPARSED}

Questions = Mapping[str, Sequence[str]]  # scene_id -> pair_ids


def sweep(
    workdir: Path,
    *,
    annotations: str | None = None,
    metric: str = "quad_acc",
    alpha_max: float = 2.0,
    select_on: float = 0.5,
    seed: int = 0,
    replicates: int = 2000,
    redecode: bool = False,
) -> dict:
    """Writes alpha.json and figures/alpha.png, .pdf in a run folder; returns what alpha.json holds.

    The keys are described in cctv/sweep.py. UserError or OSError, one line, for what a user can
    mend."""
    if metric not in alphas.SELECTABLE:
        raise UserError(f"--metric={metric} must be one of {', '.join(alphas.SELECTABLE)}")
    if not (math.isfinite(alpha_max) and alpha_max > 0):
        raise UserError(f"--alpha_max={alpha_max} must be a positive number")
    if not 0 < select_on < 1:
        raise UserError(f"--select_on={select_on} must lie between 0 and 1: a share of the scenes")
    config = read_config(workdir)
    scenes = annotated(workdir, config, annotations)
    questions = {s.scene_id: [pair.pair_id for pair in s.questions] for s in scenes}
    systems = gather(rows.merge(workdir), questions, where=str(workdir))
    if redecode and _redecode(workdir, config, systems, alpha_max):
        systems = gather(rows.merge(workdir), questions, where=str(workdir))
    options = {"metric": metric, "alpha_max": float(alpha_max)}
    found = analyse(systems, **options, select_on=select_on, seed=seed, replicates=replicates)
    rows.write_json(workdir / "alpha.json", found)
    figures.save(figures.alpha_figure(found), workdir / "figures" / "alpha")
    return found


def read_config(workdir: Path) -> dict | None:
    """The run's config with tuples for lists, None where the folder has none."""
    path = workdir / "config.json"
    if not workdir.is_dir():
        raise UserError(f"{workdir} is not a run folder")
    if not path.is_file():
        return None
    try:
        return _tuples(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None


def _tuples(value):
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def annotated(
    workdir: Path, config: dict | None, annotations: str | None
) -> tuple[schema.Scene, ...]:
    """The scenes that a run folder was made from, or those of other `annotations`."""
    limit = (config or {}).get("limit")
    return schema.load(annotations or data_path(workdir, config)).scenes[:limit]


def data_path(workdir: Path, config: dict | None) -> str | Path:
    """The data set folder that a run folder was made from; UserError where it names none."""
    data = (config or {}).get("data", {})
    if data.get("path"):
        return data["path"]
    if "world" in data:
        return builtin.dataset(**data["world"], workers=data["workers"])
    raise UserError(f"{workdir}: no config.json names the data; give --annotations=DIR")


def gather(found: Iterable[Mapping], questions: Questions, *, where: str) -> dict[str, System]:
    """The contrastive methods of sound rows, in the order of METHODS.

    A cell's margins come from its base row and its first contrastive row; a pair that lacks some is
    incomplete. A row that masked tokens, or whose base answer is unparsed, is never exact. Rows of
    scenes that are not in `questions` are left out. UserError where nothing can be drawn.
    """
    pairs = {(s, p) for s in questions for p in questions[s]}
    table: dict[str, dict[float, dict[tuple, Mapping]]] = {}
    runs = set()
    for row in found:
        if (row["scene_id"], row["pair_id"]) in pairs:
            runs.add((row["model"], row["run"]))
            cells = table.setdefault(row["method"], {}).setdefault(row["alpha"], {})
            cells[row["scene_id"], row["pair_id"], row["video"], row["question"]] = row
    if len(runs) > 1:
        names = ", ".join(f"{model!r} run {run!r}" for model, run in sorted(runs))
        raise UserError(f"{where}: rows of several models or runs ({names}); sweep one at a time")
    base = table.get("base", {}).get(0.0, {})
    names = [m for m in METHODS if m != "base" and m in table]
    if not names:
        raise UserError(
            f"{where}: no rows of a contrastive method on these scenes; run one first, "
            """for example with --config.methods='("base","c_tcd")'"""
        )
    systems = {name: _system(sorted(pairs), base, table[name]) for name in names}
    empty = [name for name in names if not systems[name].pairs]
    if empty:
        raise UserError(
            f"{where}: no complete question pair of {', '.join(empty)} has margins; rows need "
            "margin and margin_contrast, which another program may not have written"
        )
    return systems


def _system(pairs: Sequence[tuple], base: Mapping, runs: Mapping[float, Mapping]) -> System:
    kept, numbers = [], []
    by_alpha = [runs[alpha] for alpha in sorted(runs)]
    for pair in pairs:
        cells = [_cell((*pair, *cell), base, by_alpha) for cell in quadruples.CELLS]
        if None not in cells:
            kept.append(pair)
            numbers.append(cells)
    numbers = np.array(numbers, np.float64).reshape(-1, 4, 3)
    decoded = {}
    for alpha, answered in [*runs.items(), (0.0, base)]:
        answers = _answers(kept, answered)
        if answers is not None:
            decoded[alpha] = answers
    margins = alphas.Margins(
        base=numbers[..., 0],
        contrast=numbers[..., 1],
        exact_to=numbers[..., 2],
        decoded=decoded,
    )
    return System(kept, margins, len(pairs) - len(kept))


def _cell(key: tuple, base: Mapping, by_alpha: Sequence[Mapping]) -> tuple | None:
    """(base margin, contrast margin, exact to) of a cell, None where a margin is lacking."""
    for answered in by_alpha:
        row = answered.get(key, {})
        fused, contrast = row.get("margin"), row.get("margin_contrast")
        if fused is None or contrast is None:
            continue
        plain = base.get(key, {})
        margin = plain.get("margin")
        if margin is None:
            margin = (fused + row["alpha"] * contrast) / (1 + row["alpha"])
        # A row that doesn't say how far it is exact is not known to be so anywhere.
        end = row.get("alpha_exact_to", 0.0)
        end = math.inf if end is None else max(end, 0.0)
        if row.get("masked") or plain.get("status") == "unparsed":
            end = 0.0
        return margin, contrast, end
    return None


def _answers(pairs: Sequence[tuple], answered: Mapping) -> np.ndarray | None:
    """Labels int[N, 4] of one α, None where a cell was not run."""
    found = [[answered.get((*pair, *cell)) for cell in quadruples.CELLS] for pair in pairs]
    if any(row is None or row["status"] in FAILED for four in found for row in four):
        return None
    return np.array([[LABELS[r["label"]] for r in four] for four in found]).reshape(-1, 4)


def _redecode(
    workdir: Path, config: dict | None, systems: Mapping[str, System], alpha_max: float
) -> bool:
    """Runs the model on the grid where some row is not exact up to alpha_max."""
    lacking = [name for name, s in systems.items() if s.margins.exact_until < alpha_max]
    if not lacking:
        print(f"every row is exact up to α = {alpha_max:g}: nothing to decode", file=sys.stderr)
        return False
    if config is None:
        raise UserError(f"{workdir}: no config.json, so the model can't be run again")
    from cctv.runs import run  # the model and its libraries, for this alone

    methods = tuple(m for m in METHODS if m in systems or m in config["methods"])
    run.evaluate(ConfigDict({**config, "methods": methods}), workdir, alphas=grid(alpha_max))
    return True


def as_tables(found: Mapping) -> list[tables.Table | tables.Block]:
    """The terminal's summary of an alpha.json."""
    columns = [*((key, head) for key, head in figures.PANELS.items()), tables.YES_RATE]
    lines, changes = [], []
    for name, method in found["methods"].items():
        chosen, reported = method["chosen"], method["reported"]
        title = f"{figures.NAMES[name]} α={chosen['alpha']:.4g}"
        about = [f"[{chosen['low']:.3g}, {chosen['high']:.3g}]", figures.until(method)]
        entries = [tables.interval(reported["metrics"][key]) for key, _ in columns]
        lines.append([title, *about, *entries])
        base = [tables.interval(reported["base"][key]) for key, _ in columns]
        lines.append(["  base, same quadruples", "", "", *base])
        cells = (reported["difference"][key] for key, _ in columns)
        changes.append([title, *map(_change, cells)])
    heads = [head for _, head in columns]
    share = found["split"]
    notes = [
        "α is chosen on some scenes and reported on the others; the figure shows "
        f"{figures.ALL_SCENES}.",
        f"Chosen by {found['metric']} on {len(share['select'])} scenes, reported on the other "
        f"{len(share['report'])} (seed {share['seed']}); 95 % intervals over whole scenes.",
        *figures.notes(found),
    ]
    return [
        tables.Table(
            "On the scenes that α was not chosen on, % (mean ± half width)",
            ["system", "α interval", "exact to", *heads],
            lines,
        ),
        tables.Table("Difference to base, points [95 % interval]", ["system", *heads], changes),
        tables.Block("Notes", notes),
    ]


def _change(entry: Mapping) -> str:
    return f"{entry['value']:+.2f} [{entry['low']:+.2f}, {entry['high']:+.2f}]"
