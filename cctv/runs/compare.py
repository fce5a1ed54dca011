"""From the rows of several runs to the comparison of their systems, as JSON and as tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.metrics import bootstrap, evaluate, quadruples
from cctv.metrics import compare as comparing
from cctv.reports import tables
from cctv.runs import manifest, rows, sweep

SHOWN = 40  # comparisons in the terminal; the file has all
# What the terminal ranks and shows the spread of, where no metrics were asked for.
MAIN = ("quad_acc", "video_consistency", "question_consistency", "ba_acc", "mcc_score")

Place = tuple[str, str]  # (scene_id, pair_id)


class _Run(NamedTuple):
    """What one argument of the command holds."""

    name: str
    pairs: dict[Place, tuple[str, str]]  # annotated: its two questions
    systems: dict[str, dict[Place, int | None]]  # by name: pattern, None where incomplete
    videos: dict[tuple[str, str], set[str]]  # (scene_id, side) -> digests, where rows tell


def compare(
    runs: Sequence[str],
    *,
    annotations: str | None = None,
    metrics: Sequence[str] = (),
    intersection: bool = False,
    replicates: int = 2000,
    permutations: int = 10_000,
    seed: int = 0,
) -> dict:
    """Compares all systems of run folders, row files or globs; the keys are in cctv/compare.py.

    The pairs compared are those that are complete in every system. UserError or OSError, one line,
    for what a user can mend; a UserError too where runs differ in annotations, videos or in the
    pairs they asked, unless `intersection`, which leaves those pairs out.
    """
    for key in metrics:
        if key not in quadruples.KEYS:
            raise UserError(f"--metric={key} must be one of {', '.join(quadruples.KEYS)}")
    if len(set(runs)) < len(runs):
        raise UserError("a run is given twice; give each once")
    read = [_read(run, annotations) for run in runs]
    common = _common(read, intersection=intersection)
    # Systems of one name in two runs are told apart by the run.
    names = [name for run in read for name in run.systems]
    systems = {
        name if names.count(name) == 1 else f"{run.name}: {name}": patterns
        for run in read
        for name, patterns in run.systems.items()
    }
    if len(systems) < 2:
        raise UserError(f"{', '.join(runs)}: only one system; give another run to compare with")
    complete = [p for p in common if all(s.get(p) is not None for s in systems.values())]
    if not complete:
        raise UserError("no question pair is complete in all systems; nothing to compare")
    scenes = sorted({scene for scene, _ in complete})
    rank = {scene: i for i, scene in enumerate(scenes)}
    at = np.array([rank[scene] for scene, _ in complete])
    histograms = np.stack(
        [
            quadruples.histograms(at, np.array([s[p] for p in complete]), len(scenes))
            for s in systems.values()
        ]
    )
    chosen = tuple(dict.fromkeys(metrics)) or quadruples.KEYS
    options = {"replicates": replicates, "permutations": permutations, "seed": seed}
    found = comparing.compare(histograms, metrics=chosen, **options)
    annotated = {p for run in read for p in run.pairs}
    return {
        "n_scenes": len(scenes),
        "n_pairs": len(complete),
        "n_incomplete": len(common) - len(complete),
        "n_not_common": len(annotated) - len(common),
        **_as_json(found, list(systems)),
        "bootstrap": {"replicates": replicates, "seed": seed, "unit": "scene"},
        "permutations": permutations,
    }


def _read(run: str, annotations: str | None) -> _Run:
    files = rows.shards(run)
    manifest.check_together(files)
    found = rows.read(files)
    if not found:
        raise UserError(f"{run}: no prediction rows")
    if annotations:
        scenes = schema.load(annotations).scenes
    elif Path(run).is_dir():
        scenes = sweep.annotated(Path(run), sweep.read_config(Path(run)), None)
    else:
        raise UserError(f"{run} is no run folder that names its data; give --annotations=DIR")
    texts = {(s.scene_id, q.pair_id): (q.positive, q.negative) for s in scenes for q in s.questions}
    try:
        places, answers = evaluate.lay_out_answers(found, schema.pairs_of(scenes))
    except ValueError as error:
        raise UserError(f"{run}: {error}") from None
    systems = {
        evaluate.system_name(system): {
            place: int(pattern) if complete else None
            for place, pattern, complete, asked in zip(places, *answered)
            if asked
        }
        for system, answered in answers.items()
    }
    videos: dict[tuple[str, str], set[str]] = {}
    for row in found:
        if row.get("video_digest"):
            videos.setdefault((row["scene_id"], row["video"]), set()).add(row["video_digest"])
    return _Run(run, texts, systems, videos)


def _common(read: Sequence[_Run], *, intersection: bool) -> list[Place]:
    """The annotated pairs that every system was asked on equal videos, sorted."""

    def refuse_unless(equal: bool, run: _Run, what: str) -> None:
        if not (equal or intersection):
            raise UserError(
                f"{read[0].name} and {run.name} differ in {what}; "
                "--intersection compares on what all runs share"
            )

    first = read[0]
    items = set(first.pairs.items())
    asked = set(next(iter(first.systems.values())))
    videos = dict(first.videos)
    redrawn = set()  # scenes with another video in some run
    for run in read:
        other = items ^ set(run.pairs.items())
        refuse_unless(not other, run, f"annotations ({_first({p for p, _ in other})})")
        for patterns in run.systems.values():
            other = asked ^ set(patterns)
            refuse_unless(not other, run, f"the pairs that were asked ({_first(other)})")
        other = {v for v, some in run.videos.items() if len(videos.setdefault(v, some) | some) > 1}
        refuse_unless(not other, run, f"videos ({_first(other)})")
        redrawn |= {scene for scene, _ in other}
    shared = set.intersection(*(set(run.pairs.items()) for run in read))
    common = {place for place, _ in shared if place[0] not in redrawn}
    return sorted(common.intersection(*(s for run in read for s in run.systems.values())))


def _first(places: set[Place]) -> str:
    return f"{len(places)}, first {' '.join(min(places))}" if places else ""


def _as_json(found: comparing.Comparison, names: list[str]) -> dict:
    number = evaluate.number

    def interval(of: bootstrap.Interval) -> dict:
        return {key: number(value) for key, value in of._asdict().items() if key != "value"}

    systems = [
        {
            "name": name,
            "metrics": {
                key: {
                    "value": number(s.scene.value),
                    "scene": interval(s.scene),
                    "pair": interval(s.pair),
                    "iid": {"low": number(s.iid[0]), "high": number(s.iid[1])},
                    "design_effect": number(s.design_effect),
                }
                for key, s in spreads.items()
            },
        }
        for name, spreads in zip(names, found.spreads)
    ]
    comparisons = [
        {"a": names[d.a], "b": names[d.b], "metric": d.metric}
        | {"difference": number(d.interval.value), **interval(d.interval)}
        | {key: number(getattr(d, key)) for key in d._fields[4:]}
        for d in found.differences
    ]
    ranking = {
        key: {
            "n_undefined": ranking.n_undefined,
            "shares": {n: [number(v) for v in line] for n, line in zip(names, ranking.shares)},
        }
        for key, ranking in found.rankings.items()
    }
    return {"systems": systems, "comparisons": comparisons, "ranking": ranking}


def as_tables(found: Mapping, metrics: Sequence[str] = ()) -> list[tables.Table | tables.Block]:
    """What the terminal shows: all metrics of two systems; of more, QuadAcc or what was asked."""
    two = len(found["systems"]) == 2
    shown = list(dict.fromkeys(metrics)) or [k for k in MAIN if two or k == MAIN[0]]
    compared = [
        [
            f"{tables.label_of(c['a'])} − {tables.label_of(c['b'])}",
            c["metric"],
            *(_text(c[key]) for key in ("difference", "low", "high")),
            *(_text(c[key], 4) for key in ("p", "p_holm_metrics", "p_holm_systems")),
            _text(c["detectable"]),
        ]
        for c in found["comparisons"]
        if c["metric"] in shown or (two and not metrics)
    ]
    header = ["a − b", "metric", "difference", "low", "high", "p", "Holm/metrics"]
    header += ["Holm/systems", "detectable"]
    out: list[tables.Table | tables.Block] = [
        tables.Table("Differences, paired by scene", header, compared[:SHOWN])
    ]
    if len(compared) > SHOWN:
        out.append(tables.Block("Left out here", [f"{len(compared) - SHOWN} more comparisons"]))
    for key in shown:
        shares = found["ranking"][key]["shares"]
        lines = [[tables.label_of(name), *map(_share, line)] for name, line in shares.items()]
        places = [f"rank {i}" for i in range(1, len(lines) + 1)]
        out.append(tables.Table(f"{key}: % of replicates", ["system", *places], lines))
    spread = [
        [tables.label_of(s["name"]), key, _text(m["value"])]
        + [f"[{_text(m[of]['low'])}, {_text(m[of]['high'])}]" for of in ("scene", "pair", "iid")]
        + [_text(m["design_effect"])]
        for s in found["systems"]
        for key, m in s["metrics"].items()
        if key in shown
    ]
    header = ["system", "metric", "value", "scenes drawn", "pairs drawn", "i.i.d."]
    out.append(tables.Table("What clustering costs, 95 %", [*header, "design effect"], spread))
    return [*out, tables.Block("Notes", _notes(found))]


def _notes(found: Mapping) -> list[str]:
    return [
        f"{found['n_pairs']} pairs of {found['n_scenes']} scenes are complete in every system; "
        f"{found['n_incomplete']} more are incomplete in some, and {found['n_not_common']} are not "
        "annotated, asked and shown alike in all.",
        "Intervals: paired bootstrap over scenes. p: scenes exchanged between the two systems, "
        f"{found['permutations']} times, metric recomputed.",
        "detectable: the difference found 8 times in 10 at the 5 % level on as many scenes; one of "
        "x points needs (detectable / x)² times as many.",
        "Only intervals over scenes are honest where pairs share videos; the others show the cost.",
    ]


def _text(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}"
