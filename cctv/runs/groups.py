"""Which models a paper's tables show, in which groups, and which α stands for a method."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from cctv.data.errors import UserError
from cctv.metrics.evaluate import METHODS
from cctv.reports.paper_tables import METHOD_NAMES, Model

ALL = "all models"
ALPHA = 1.0  # of contrastive methods, where it was run


def models(
    systems: Sequence[Mapping], *, groups: str | None, alpha: float | None
) -> tuple[list[Model], list[str]]:
    """The models of entries of "systems" in the order of the groups file, and what to say of them.

    A model that has several runs is one entry a run. UserError for a groups file that is none, a
    model that it doesn't place, two models of one name, or an α that no method was run at.
    """
    runs: dict[tuple[str, str], list[Mapping]] = {}
    for system in systems:
        runs.setdefault((system["model"], system["run"]), []).append(system)
    places, notes = _placed({model for model, _ in runs}, groups)
    order = list(places)
    out = []
    for model, run in sorted(runs, key=lambda key: (order.index(key[0]), key[1])):
        group, name = places[model]
        several = sum(other == model for other, _ in runs) > 1
        label = f"{name} [{run}]" if several and run else name
        chosen, more = _chosen(runs[model, run], label, alpha)
        notes += more
        if "base" not in chosen:
            notes.append(f"{label} has no base run: only methods are shown of it")
        out.append(Model(group, label, chosen))
    labels = [model.name for model in out]
    for label in labels:
        if labels.count(label) > 1:
            where = groups or "--groups"
            raise UserError(f"{where}: two models are called {label!r}; give each its own name")
    if alpha is not None and not any(set(m.systems) - {"base"} for m in out):
        raise UserError(f"--alpha={alpha:g}: no contrastive method was run at it")
    return out, notes


def _placed(names: set[str], path: str | None) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """(group, name to show) of each model in the order to show them, and notes."""
    if path is None:
        return {name: (ALL, name) for name in sorted(names)}, []
    places: dict[str, tuple[str, str]] = {}
    for group, members in _read(path).items():
        if isinstance(members, list):
            members = dict(zip(members, members)) if all(map(_is_text, members)) else None
        if not isinstance(members, dict) or not all(map(_is_text, members.values())):
            raise UserError(
                f"{path}: group {group!r} must be a list of models, or an object of model: name"
            )
        for model, name in members.items():
            if model in places:
                raise UserError(f"{path}: model {model!r} is in two groups")
            places[model] = (group, name)
    lacking = sorted(names - set(places))
    if lacking:
        raise UserError(
            f"{path}: model {lacking[0]!r} of the rows is in no group"
            + (f" (nor are {len(lacking) - 1} more)" if lacking[1:] else "")
        )
    absent = [model for model in places if model not in names]
    return places, [f"{path} names {model!r}, of which there are no rows" for model in absent]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _read(path: str) -> dict:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(error.errno, f"can't read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: expected an object of group: models")
    return found


def _chosen(
    systems: Sequence[Mapping], label: str, alpha: float | None
) -> tuple[dict[str, Mapping], list[str]]:
    """One system a method, in the order of METHODS, and a line on each that is left out."""
    out, notes = {}, []
    for method in METHODS:
        found = {s["alpha"]: s for s in systems if s["method"] == method}
        if not found:
            continue
        if method == "base":
            out[method] = found[0.0]
            continue
        # A contrast of strength 0 is the base run.
        best = min(found, key=lambda a: (a != ALPHA, a == 0, a)) if alpha is None else alpha
        if best in found:
            out[method] = found[best]
        left = ", ".join(f"{a:g}" for a in sorted(found) if a != best)
        if left:
            at = f"is shown at α = {best:g}" if best in found else "is not shown"
            notes.append(f"{label}, {METHOD_NAMES[method]} {at}; also run at {left}")
    return out, notes
