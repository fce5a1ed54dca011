"""The statistics of one system at the benchmark's size, three ways: seconds and ratios.

    python -m experiments.bench.metrics [--out=FILE] [--repeats=7]

305 scenes, 1,776 pairs, 7,104 answers, 2,000 replicates, all metrics with their intervals. The
three ways start from the same answers, draw with the same generator and must agree:
  loop    plain Python: counts of each scene once, then sums over the drawn scenes of a replicate
  scipy   scipy.stats.bootstrap, vectorised, all metrics in one statistic
  ours    cctv.metrics: histograms, draws, replicates on the device, quantiles
Medians of interleaved runs in one process, after one run of each (compilation is left out).
"""

import json
import math
import platform
import statistics
import time

import jax
import numpy as np
import scipy
from absl import flags

from cctv import cli
from cctv.metrics import bootstrap, quadruples

SCENES, PAIRS, REPLICATES, SEED = 305, 1776, 2000, 0
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")
REPEATS = flags.DEFINE_integer("repeats", 7, "Runs of each way.", lower_bound=1)

Answers = tuple[np.ndarray, np.ndarray]  # scene int[pairs], cells int[pairs, 4]


def make_answers() -> Answers:
    """Answers of a middling model, with a few that are neither yes nor no."""
    rng = np.random.default_rng(1)
    scene = np.sort(np.append(np.arange(SCENES), rng.integers(0, SCENES, PAIRS - SCENES)))
    skill = rng.beta(2, 2, SCENES)[scene]
    cells = (rng.random((PAIRS, 4)) < np.array([0.8, 0.3, 0.4, 0.3])).astype(int)
    cells[rng.random(PAIRS) < skill / 2] = [1, 0, 0, 0]
    cells[rng.random((PAIRS, 4)) < 0.01] = quadruples.UNPARSED
    return scene, cells


def ours(answers: Answers) -> dict[str, tuple[float, float, float]]:
    """(value, low, high) of every metric."""
    scene, cells = answers
    histograms = quadruples.histograms(scene, quadruples.pattern(cells), SCENES)
    weights = bootstrap.draw_weights(SCENES, replicates=REPLICATES, seed=SEED)
    found = bootstrap.intervals(histograms, weights)
    return {key: (float(i.value), float(i.low), float(i.high)) for key, i in found.items()}


def with_scipy(answers: Answers) -> dict[str, tuple[float, float, float]]:
    scene, cells = answers
    histograms = quadruples.histograms(scene, quadruples.pattern(cells), SCENES)
    counts = (histograms @ quadruples.CONDITION_MATRIX).astype(float)

    def statistic(drawn, axis):
        pooled = counts[drawn.astype(int)].sum(-2)
        return np.stack(list(quadruples.formulas(np.moveaxis(pooled, -1, 0)).values()))

    found = scipy.stats.bootstrap(
        (np.arange(SCENES),),
        statistic,
        n_resamples=REPLICATES,
        vectorized=True,
        method="percentile",
        rng=np.random.Generator(np.random.PCG64(SEED)),
    ).confidence_interval
    value = statistic(np.arange(SCENES), -1)
    return dict(zip(quadruples.KEYS, zip(value, found.low, found.high)))


def loop(answers: Answers) -> dict[str, tuple[float, float, float]]:
    scenes = [[0] * 17 for _ in range(SCENES)]
    for scene, cells in zip(*(a.tolist() for a in answers)):
        _count(scenes[scene], *cells)
    drawn = np.random.Generator(np.random.PCG64(SEED)).integers(0, SCENES, (REPLICATES, SCENES))
    value = _metrics([sum(column) for column in zip(*scenes)])
    replicates = []
    for row in drawn.tolist():
        total = [0] * 17
        for s in row:
            for k, count in enumerate(scenes[s]):
                total[k] += count
        replicates.append(_metrics(total))
    out = {}
    for key in quadruples.KEYS:
        column = sorted(r[key] for r in replicates)
        out[key] = (value[key], _quantile(column, 0.025), _quantile(column, 0.975))
    return out


def _count(total: list[int], pp: int, pn: int, np_: int, nn: int) -> None:
    """Adds one pair's cells (0 no, 1 yes, 2 unparsed) to a scene's counts."""
    wrong = not (pp == 1 and pn == np_ == nn == 0)
    vs = pp + np_ == 1 and pp != 2 and np_ != 2
    flags_ = (
        True,
        (pp == 1) + (pn == 1) + (np_ == 1) + (nn == 1),
        pp == 1,
        (pn != 0) + (np_ != 0) + (nn != 0),
        wrong,
        pp == 1 and np_ == 0,
        pn == 0 and nn == 0,
        pp == 1 and pn == 0,
        np_ == 0 and nn == 0,
        wrong and pp == 0,
        wrong and pn == 1,
        wrong and (np_ == 1 or nn == 1),
        wrong and (pp == pn == 1 or np_ == nn == 1),
        wrong and 2 in (pp, pn, np_, nn),
        vs,
        pp + pn == 1 and pp != 2 and pn != 2,
        vs and pn == nn != 2,
    )
    for k, flag in enumerate(flags_):
        total[k] += flag


def _metrics(total: list[int]) -> dict[str, float]:
    n, yes, tp, fp, wrong, cqp, rqn, cvp, rvn, omiss, swap, hall, viol, odd, vs, qs, sve = total
    fn, tn = n - tp, 3 * n - fp
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    mcc = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    out = {"quad_acc": (n - wrong) / n, "contr_q_pos": cqp / n, "reject_q_neg": rqn / n}
    out |= {"video_consistency": (cqp + rqn) / n / 2, "contr_v_pos": cvp / n}
    out |= {"reject_v_neg": rvn / n, "question_consistency": (cvp + rvn) / n / 2}
    out |= {"ba_acc": (tp / n + tn / n / 3) / 2, "mcc_score": ((mcc + 1) / 2) ** 2}
    out |= {"accuracy": (tp + tn) / n / 4, "precision": tp / (tp + fp), "recall": tp / n}
    out |= {"f1": 2 * tp / (2 * tp + fp + fn), "yes_rate": yes / n / 4}
    out |= {"pos_omiss": omiss / wrong, "pos_swap": swap / wrong, "neg_hall": hall / wrong}
    out |= {"me_viol": viol / wrong, "unparsed_failed": odd / wrong, "vs": vs / n, "qs": qs / n}
    out |= {"vri": vs / (vs + qs), "gvrs": 2 * vs * qs / (vs + qs) / n, "sve": sve / n}
    return {key: 100 * value for key, value in out.items()} | {"mcc": mcc}


def _quantile(column: list[float], q: float) -> float:
    place = q * (len(column) - 1)
    below = math.floor(place)
    above = min(below + 1, len(column) - 1)
    return column[below] + (place - below) * (column[above] - column[below])


def measure(repeats: int) -> dict:
    """Median seconds of each way; AssertionError if their answers differ."""
    answers = make_answers()
    ways = {"loop": loop, "scipy": with_scipy, "ours": ours}
    results = {name: way(answers) for name, way in ways.items()}
    for key in quadruples.KEYS:
        for name in ("loop", "scipy"):
            np.testing.assert_allclose(results[name][key], results["ours"][key], atol=1e-9)
    seconds = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way(answers)
            seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "jax": jax.__version__}
    return {
        "loop_s": median["loop"],
        "scipy_s": median["scipy"],
        "ours_s": median["ours"],
        "ratio_loop": median["loop"] / median["ours"],
        "ratio_scipy": median["scipy"] / median["ours"],
        "versions": versions | {"device": jax.devices()[0].device_kind},
    }


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    text = json.dumps(measure(REPEATS.value), indent=1)
    print(text)
    if OUT.value:
        with open(OUT.value, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
