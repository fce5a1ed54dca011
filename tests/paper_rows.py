"""Simulated rows of a few models, their evaluation and their scenes, for tests of the paper's
tables and figures."""

import functools
from typing import NamedTuple

import numpy as np
import plain_loop

from cctv.metrics.evaluate import evaluate
from cctv.metrics.quadruples import CELLS
from cctv.runs import groups, rows
from experiments.paper_figures import simulate

WORDS = {1: "yes", 0: "no", None: None}


class World(NamedTuple):
    """Scenes as lines of scenes.jsonl; sound rows; metrics.json; the models of one group a size."""

    scenes: list
    rows: list
    metrics: dict
    models: list


@functools.cache
def world(n_scenes=6):
    rng = np.random.default_rng(7)
    scenes = simulate.scenes(n_scenes, rng)
    chosen = [simulate.MODELS[i] for i in (0, 1, 4, 8, 10, 13)]  # two of each group
    found = [rows.check(row) for model in chosen for row in simulate.rows(model, scenes, rng)]
    questions = {
        s["scene_id"]: [(q["pair_id"], q["category"]) for q in s["questions"]] for s in scenes
    }
    metrics = evaluate(found, questions, replicates=50).metrics
    models, _ = groups.models(metrics["systems"], groups=None, alpha=None)
    by_name = {model.name: model.group for model in chosen}
    order = [model.name for model in chosen]
    models = sorted(models, key=lambda m: order.index(m.name))
    return World(scenes, found, metrics, [m._replace(group=by_name[m.name]) for m in models])


def plain(found, model, method, category=None, scenes=()):
    """All metrics of a system by the plain loop, over all pairs or those of a category."""
    kept = None
    if category is not None:
        kept = {q["pair_id"] for s in scenes for q in s["questions"] if q["category"] == category}
    answers = {}
    for row in found:
        mine = row["model"] == model and row["method"] == method
        if mine and (kept is None or row["pair_id"] in kept):
            cells = answers.setdefault(row["pair_id"], {})
            cells[row["video"], row["question"]] = WORDS[row["label"]]
    return plain_loop.metrics([tuple(cells[cell] for cell in CELLS) for cells in answers.values()])


def facts(scenes):
    """Scenes as the reports take them."""
    return [
        {key: s[key] for key in ("scene_id", "view", "anomaly_type", "source")}
        | {"duration": s["segments"]["contrastive"][1], "pairs": s["questions"]}
        for s in scenes
    ]
