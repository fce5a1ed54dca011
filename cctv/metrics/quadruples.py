"""From the answers of quadruples to the metrics of the paper, as functions of pooled counts.

A question pair has four cells, each answered no, yes or unparsed, so it shows one of 81 patterns. A
scene is a histogram over its patterns, any sum of scenes is one too, and every metric is a ratio
of linear functions of that histogram. Axes: S scenes, P = 81 patterns, C conditions, R replicates.
"""

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

NO, YES, UNPARSED = 0, 1, 2
# (video, question) in the order y++, y+-, y-+, y--; only the first has the gold answer Yes.
CELLS = (
    ("positive", "positive"),
    ("positive", "negative"),
    ("negative", "positive"),
    ("negative", "negative"),
)
PATTERNS = np.indices((3, 3, 3, 3)).reshape(4, 81).T  # [P, 4], the value of each cell
GOLD_PATTERN = 27  # Yes, No, No, No

# Metrics in the order they are written; all in percent but `mcc`.
KEYS = (
    "quad_acc",
    "contr_q_pos",
    "reject_q_neg",
    "video_consistency",
    "contr_v_pos",
    "reject_v_neg",
    "question_consistency",
    "ba_acc",
    "mcc",
    "mcc_score",
    "accuracy",
    "precision",
    "recall",
    "f1",
    "yes_rate",
    "pos_omiss",
    "pos_swap",
    "neg_hall",
    "me_viol",
    "unparsed_failed",
    "vs",
    "qs",
    "vri",
    "gvrs",
    "sve",
)
CARD_KEYS = ("quad_acc", "ba_acc")


def _conditions() -> dict[str, np.ndarray]:
    """What one pair of each pattern adds to each count, int64[P]. Unparsed is neither Yes nor No;
    only in the confusion matrix (tp, fp) it is the wrong label of its cell."""
    yes, no, odd = (value == PATTERNS.T for value in (YES, NO, UNPARSED))  # [4, P] each
    failed = ~(yes[0] & no[1] & no[2] & no[3])
    vs = (yes[0] & no[2]) | (no[0] & yes[2])
    same_q_neg = (yes[1] & yes[3]) | (no[1] & no[3])
    conditions = {
        "pairs": np.ones(81),
        "yes": yes.sum(0),
        "tp": yes[0],
        "fp": (~no[1:]).sum(0),
        "failed": failed,
        "contr_q_pos": yes[0] & no[2],
        "reject_q_neg": no[1] & no[3],
        "contr_v_pos": yes[0] & no[1],
        "reject_v_neg": no[2] & no[3],
        "pos_omiss": failed & no[0],
        "pos_swap": failed & yes[1],
        "neg_hall": failed & (yes[2] | yes[3]),
        "me_viol": failed & ((yes[0] & yes[1]) | (yes[2] & yes[3])),
        "unparsed_failed": failed & odd.any(0),
        "vs": vs,
        "qs": (yes[0] & no[1]) | (no[0] & yes[1]),
        "sve": vs & same_q_neg,
        "card_quad_acc": yes[0] & no[1] & no[2] & yes[3],
        "card_ba_acc": yes[0] & yes[3],
    }
    return {key: value.astype(np.int64) for key, value in conditions.items()}


CONDITIONS = _conditions()
CONDITION_MATRIX = np.stack(list(CONDITIONS.values()), axis=1)  # int64[P, C]


def pattern(cells: np.ndarray) -> np.ndarray:
    """Index of the pattern of each pair: int[..., 4] values in the order of CELLS -> int[...]."""
    return np.asarray(cells, np.int64) @ np.array([27, 9, 3, 1])


def histograms(scenes: np.ndarray, patterns: np.ndarray, n_scenes: int) -> np.ndarray:
    """Pattern histogram of each scene, int32[S, P], from int[pairs] scene and pattern indices."""
    bins = np.asarray(scenes, np.int64) * 81 + np.asarray(patterns, np.int64)
    flat = np.bincount(bins, minlength=n_scenes * 81)
    return flat.reshape(n_scenes, 81).astype(np.int32)


def formulas(counts: np.ndarray, xp: ModuleType = np) -> dict[str, np.ndarray]:
    """All metrics, float[...] by key, from float64[C, ...] counts of CONDITIONS.

    The same lines serve numpy (plug-in values) and jax.numpy (replicates). Undefined is NaN.
    """
    c = dict(zip(CONDITIONS, counts, strict=True))
    n, failed = c["pairs"], c["failed"]
    tp, fp = c["tp"], c["fp"]
    fn, tn = n - tp, 3 * n - fp

    def share(part, whole):
        return xp.where(whole > 0, part / xp.where(whole > 0, whole, 1), xp.nan)

    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    # One predicted class only: 0 by convention, as in scikit-learn; undefined without any pair.
    mcc = (tp * tn - fp * fn) / xp.sqrt(xp.where(product > 0, product, 1))
    mcc = xp.where(n > 0, xp.where(product > 0, mcc, 0.0), xp.nan)
    out = {"quad_acc": share(n - failed, n), "mcc": mcc, "mcc_score": ((mcc + 1) / 2) ** 2}
    for key in ("contr_q_pos", "reject_q_neg", "contr_v_pos", "reject_v_neg", "vs", "qs", "sve"):
        out[key] = share(c[key], n)
    for key in ("pos_omiss", "pos_swap", "neg_hall", "me_viol", "unparsed_failed"):
        out[key] = share(c[key], failed)
    out["video_consistency"] = share(c["contr_q_pos"] + c["reject_q_neg"], 2 * n)
    out["question_consistency"] = share(c["contr_v_pos"] + c["reject_v_neg"], 2 * n)
    out["recall"] = share(tp, n)
    out["ba_acc"] = share(3 * tp + tn, 6 * n)  # (tp/n + tn/3n) / 2
    out["accuracy"] = share(tp + tn, 4 * n)
    out["precision"] = share(tp, tp + fp)
    out["f1"] = share(2 * tp, 2 * tp + fp + fn)
    out["yes_rate"] = share(c["yes"], 4 * n)
    reacted = c["vs"] + c["qs"]
    out["vri"] = share(c["vs"], reacted)
    gvrs = share(2 * c["vs"] * c["qs"], reacted * n)
    out["gvrs"] = xp.where((n > 0) & (reacted == 0), 0.0, gvrs)
    return {key: out[key] if key == "mcc" else 100 * out[key] for key in KEYS}


def plug_in(pooled: np.ndarray) -> dict[str, np.ndarray]:
    """All metrics in float64, float[...] by key, from integer pooled histograms int[..., P]."""
    return formulas(condition_counts(pooled).astype(np.float64))


def condition_counts(pooled: np.ndarray) -> np.ndarray:
    """Counts of CONDITIONS, int64[C, ...], from pooled histograms int[..., P]."""
    return np.moveaxis(np.asarray(pooled, np.int64) @ CONDITION_MATRIX, -1, 0)


def card(pooled: np.ndarray) -> dict[str, np.ndarray]:
    """The two numbers of the circulating evaluation card, which expects Yes for (v-, q-): percent
    of pairs with the pattern Yes/No/No/Yes, and with y++ and y-- Yes. NaN without pairs."""
    c = dict(zip(CONDITIONS, condition_counts(pooled).astype(np.float64), strict=True))
    n = np.where(c["pairs"] > 0, c["pairs"], np.nan)
    return {key: 100 * c[f"card_{key}"] / n for key in CARD_KEYS}


def replicate_metrics(weights: np.ndarray, scenes: np.ndarray) -> np.ndarray:
    """All metrics of each weighting of the scenes, float64[len(KEYS), ..., R], on the device.

    weights float32[R, S] holds integers >= 0, scenes int[..., S, P] histograms. Sums of integers
    below 2**24 are exact in float32 at the highest matmul precision, whatever their order.
    Raises ValueError where they could be larger.
    """
    most = 4 * float(weights.sum(1).max(initial=0)) * float(scenes.sum(-1).max(initial=0))
    if most >= 2**24:
        raise ValueError(f"{weights.shape[1]} scenes: up to {most:.0f} answers pass 2**24")
    # float64 for the formulas, so that intervals agree between devices to the digits written.
    with jax.enable_x64(True):
        return np.asarray(_replicate_metrics(jnp.asarray(weights), jnp.asarray(scenes)))


@jax.jit
def _replicate_metrics(weights: jax.Array, scenes: jax.Array) -> jax.Array:
    exact = jax.lax.Precision.HIGHEST
    matrix = jnp.asarray(CONDITION_MATRIX, jnp.float32)
    counts = jnp.matmul(scenes.astype(jnp.float32), matrix, precision=exact)  # [..., S, C]
    pooled = jnp.einsum("rs,...sc->c...r", weights, counts, precision=exact)  # [C, ..., R]
    return jnp.stack(list(formulas(pooled.astype(jnp.float64), jnp).values()))
