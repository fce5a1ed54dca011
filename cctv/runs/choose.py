"""α chosen on some scenes and reported on the others: what alpha.json holds, from margins."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cctv.data.errors import UserError
from cctv.metrics import alpha as alphas
from cctv.metrics import bootstrap, quadruples
from cctv.reports import figures

_STEP = 0.25  # of the grid


class System(NamedTuple):
    """One contrastive method's complete pairs, sorted by scene and pair."""

    pairs: list[tuple[str, str]]  # (scene_id, pair_id), N of them
    margins: alphas.Margins
    n_incomplete: int


def grid(alpha_max: float) -> tuple[float, ...]:
    """0, 0.25, … and alpha_max."""
    steps = np.arange(0, alpha_max, _STEP).tolist()
    return (*steps, float(alpha_max))


def analyse(
    systems: Mapping[str, System],
    *,
    metric: str,
    alpha_max: float,
    select_on: float,
    seed: int,
    replicates: int,
) -> dict:
    """What alpha.json holds, a pure function of the systems. UserError for too few scenes."""
    scenes = sorted({scene for s in systems.values() for scene, _ in s.pairs})
    select, report = split(scenes, select_on=select_on, seed=seed)
    draw = {"replicates": replicates, "seed": seed}
    methods = {}
    for name, system in systems.items():
        parts = [_part(system, chosen) for chosen in (select, report)]
        if not all(pairs.any() for pairs in parts):
            raise UserError(
                f"{name}: too few of its {len({s for s, _ in system.pairs})} scenes are complete "
                f"to choose α on some and report on others; change --seed or --select_on"
            )
        chosen = _chosen(system, parts[0], metric, alpha_max=alpha_max, **draw)
        methods[name] = {
            "n_pairs": len(system.pairs),
            "n_incomplete": system.n_incomplete,
            "exact_until": system.margins.exact_until,
            "n_disagree": alphas.disagreements(system.margins),
            "chosen": chosen,
            "reported": _reported(system, parts[1], chosen["alpha"], **draw),
            "all_scenes": _all_scenes(system, metric, alpha_max),
            "quadruples": _quadruples(system),
        }
    return {
        "metric": metric,
        "alpha_max": alpha_max,
        "split": {"select_on": select_on, "seed": seed, "select": select, "report": report},
        "bootstrap": {**draw, "unit": "scene"},
        "methods": methods,
    }


def split(scenes: Sequence[str], *, select_on: float, seed: int) -> tuple[list[str], list[str]]:
    """Two disjoint sorted lists: scenes to choose α on, and those to report on."""
    count = round(select_on * len(scenes))
    if not 0 < count < len(scenes):
        raise UserError(
            f"{len(scenes)} scenes are too few to choose α on a share of {select_on} and report on "
            "the rest; run more scenes or change --select_on"
        )
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(scenes))
    return tuple(sorted(scenes[i] for i in part) for part in np.split(order, [count]))


def _part(system: System, scenes: Sequence[str]) -> np.ndarray:
    chosen = set(scenes)
    return np.array([scene in chosen for scene, _ in system.pairs])


def _scene_index(system: System, chosen: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of scenes of the chosen pairs, and each pair's scene among them."""
    names = [scene for (scene, _), kept in zip(system.pairs, chosen) if kept]
    found, index = np.unique(names, return_inverse=True)
    return len(found), index


def _chosen(
    system: System, part: np.ndarray, metric: str, *, alpha_max: float, replicates: int, seed: int
) -> dict:
    n_scenes, scene = _scene_index(system, part)
    weights = bootstrap.draw_weights(n_scenes, replicates=replicates, seed=seed)
    margins = system.margins.take(part)
    best = alphas.best(margins, scene, metric, alpha_max=alpha_max, weights=weights)
    interval = bootstrap.summarise(np.array(best.alpha), best.replicates)
    return {
        "alpha": best.alpha,
        "low": float(interval.low),
        "high": float(interval.high),
        "stretch": [best.low, best.high],
        "value": best.value,
        "n_scenes": n_scenes,
        "n_pairs": int(part.sum()),
    }


def _reported(
    system: System, part: np.ndarray, alpha: float, *, replicates: int, seed: int
) -> dict:
    n_scenes, scene = _scene_index(system, part)
    weights = bootstrap.draw_weights(n_scenes, replicates=replicates, seed=seed)
    margins = system.margins.take(part)
    unknown = 0 if alpha in margins.decoded else int(alphas.is_unknown(margins, alpha).sum())
    here, base = (
        quadruples.histograms(scene, quadruples.pattern(alphas.labels(margins, a)), n_scenes)
        for a in (alpha, 0.0)
    )
    differences = bootstrap.differences(here, base, weights)
    return {
        "alpha": alpha,
        "n_scenes": n_scenes,
        "n_pairs": int(part.sum()),
        "n_unknown": unknown,
        "metrics": _entries(bootstrap.intervals(here, weights)),
        "base": _entries(bootstrap.intervals(base, weights)),
        "difference": {
            key: {"value": _number(d.value), "low": _number(d.low), "high": _number(d.high)}
            for key, d in differences.items()
        },
    }


def _number(value) -> float:
    return round(float(value), 10) + 0.0  # no minus zero


def _entries(intervals: Mapping[str, bootstrap.Interval]) -> dict:
    return {
        key: {name: _number(value) for name, value in interval._asdict().items()}
        | {"n_undefined": int(interval.n_undefined)}
        for key, interval in intervals.items()
    }


def _all_scenes(system: System, metric: str, alpha_max: float) -> dict:
    margins = system.margins
    curve = alphas.curve(margins, alpha_max=alpha_max)
    low, high = alphas.values(curve, np.array(grid(alpha_max)))
    one = np.zeros((0, 1))
    best = alphas.best(
        margins, np.zeros(len(system.pairs), int), metric, alpha_max=alpha_max, weights=one
    )
    shown = dict.fromkeys((*figures.PANELS, "yes_rate", metric))
    return {
        "label": figures.ALL_SCENES,
        "best": {"alpha": best.alpha, "stretch": [best.low, best.high], "value": best.value},
        "base": _plug_in(alphas.labels(margins, 0.0)),
        "curves": {key: _steps(curve, quadruples.KEYS.index(key)) for key in shown},
        "grid": [
            {"alpha": alpha, "low": _by_key(low[:, i]), "high": _by_key(high[:, i])}
            for i, alpha in enumerate(grid(alpha_max))
        ],
        "decoded": [
            {"alpha": alpha, "metrics": _plug_in(margins.decoded[alpha])}
            for alpha in sorted(margins.decoded)
            if alpha <= alpha_max
        ],
    }


def _by_key(column: np.ndarray) -> dict[str, float]:
    return {key: _number(value) for key, value in zip(quadruples.KEYS, column)}


def _plug_in(cells: np.ndarray) -> dict[str, float]:
    pooled = np.bincount(quadruples.pattern(cells), minlength=81)
    return {key: _number(value) for key, value in quadruples.plug_in(pooled).items()}


def _steps(curve: alphas.Curve, k: int) -> dict[str, list[float]]:
    """One metric's step function, without the breakpoints at which it stays."""
    four = np.stack([curve.low[0, k], curve.high[0, k], curve.low[1, k], curve.high[1, k]])
    same = np.array_equal
    kept = [0] + [
        i
        for i in range(1, len(curve.alphas))
        if not (same(four[:2, i], four[2:, i - 1], equal_nan=True)
                and same(four[2:, i], four[2:, i - 1], equal_nan=True))
    ]  # fmt: skip
    names = ("at_low", "at_high", "after_low", "after_high")
    values = {name: [_number(v) for v in row[kept]] for name, row in zip(names, four)}
    return {"alpha": curve.alphas[kept].tolist(), **values}


def _quadruples(system: System) -> list[dict]:
    ranges = alphas.right_ranges(system.margins)
    out = []
    for i, (scene_id, pair_id) in enumerate(system.pairs):
        never = bool(np.isnan(ranges.low[i]))
        right = None if never else [float(ranges.low[i]), float(ranges.high[i])]
        opened = [bool(ranges.low_open[i]), bool(ranges.high_open[i])]
        out.append(
            {"scene_id": scene_id, "pair_id": pair_id, "right": right, "open": opened}
            | {"exact_to": float(ranges.exact_to[i])}
        )
    return out
