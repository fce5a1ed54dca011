"""Figure 15 of a model: metrics against α, exact from margins."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from cctv.data.errors import UserError
from cctv.metrics import alpha as alphas
from cctv.metrics import evaluate, quadruples
from cctv.reports import figures
from cctv.reports.paper_figures import printable
from cctv.runs import choose, sweep

ALPHA_MAX = 2.0
ASSUMED = "C-TCD follows from the base run's margins, if no third token ever wins"
_OTHER_VIDEO = [2, 3, 0, 1]  # the cell with the same question on the scene's other video


def figure(
    rows: Sequence[Mapping],
    questions: evaluate.Questions,
    *,
    title: str,
    replicates: int,
    seed: int,
) -> Figure:
    """The figure from the rows of one model and run. UserError where no margins allow it."""
    systems, assumed = curves(rows, questions)
    found = choose.analyse(
        systems,
        metric="quad_acc",
        alpha_max=ALPHA_MAX,
        select_on=0.5,
        seed=seed,
        replicates=replicates,
    )
    drawn = figures.alpha_figure(found)
    lines = [printable(title), drawn.get_suptitle(), *([ASSUMED] if assumed else [])]
    drawn.suptitle("\n".join(lines), fontsize=9)
    return drawn


def curves(
    rows: Sequence[Mapping], questions: evaluate.Questions
) -> tuple[dict[str, choose.System], bool]:
    """The contrastive methods that have margins, and whether C-TCD is from base margins alone."""
    pairs = {scene: [pair for pair, _ in some] for scene, some in questions.items()}
    known = {r["method"] for r in rows if r.get("margin_contrast") is not None}
    systems = {}
    if known:
        kept = [r for r in rows if r["method"] in {"base", *known}]
        systems = sweep.gather(kept, pairs, where="its rows")
    assumed = "c_tcd" not in systems
    if assumed and (derived := _from_base(rows, pairs)) is not None:
        systems["c_tcd"] = derived
    if not systems:
        raise UserError("no complete quadruple has margins")
    return systems, assumed and "c_tcd" in systems


def _from_base(rows: Sequence[Mapping], pairs: Mapping[str, Sequence[str]]) -> choose.System | None:
    """C-TCD of a base run: the contrast of a cell is the base margin on the other video."""
    table = {
        (r["scene_id"], r["pair_id"], r["video"], r["question"]): r
        for r in rows
        if r["method"] == "base" and r.get("margin") is not None
    }
    places = sorted((scene, pair) for scene, some in pairs.items() for pair in some)
    kept = [p for p in places if all((*p, *cell) in table for cell in quadruples.CELLS)]
    if not kept:
        return None
    four = [[table[(*p, *cell)] for cell in quadruples.CELLS] for p in kept]
    base = np.array([[row["margin"] for row in some] for some in four])
    labels = [[sweep.LABELS[row["label"]] for row in some] for some in four]
    # An answer that was neither yes nor no is not decided by its margin.
    ends = [[math.inf if row["label"] is not None else 0.0 for row in some] for some in four]
    margins = alphas.Margins(
        base=base,
        contrast=base[:, _OTHER_VIDEO],
        exact_to=np.array(ends),
        decoded={0.0: np.array(labels)},
    )
    return choose.System(kept, margins, len(places) - len(kept))
