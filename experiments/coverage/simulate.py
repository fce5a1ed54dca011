"""Scenes of answers with a known truth, and how often intervals and tests are right about them.

Scenes are the benchmark's: 305, with 1 to 12 pairs each, 5.82 on average. The answers of a scene's
pairs are drawn from the scene's own distribution over the 16 patterns, which is drawn from a
Dirichlet distribution around that of the system: so every metric's indicators have the intra-class
correlation ICC = 1 / (1 + concentration) inside scenes, and the true value of each metric is its
formula at the system's distribution. Margins are normal, with a part of their variance shared by a
scene; their truth is that of one sample of 100,000 scenes.
"""

import numpy as np

from cctv.metrics import bootstrap, compare, quadruples, threshold_free

SCENES, PAIRS = 305, 1776
ICCS = (0.0, 0.1, 0.3)
METRICS = ("quad_acc", "ba_acc", "video_consistency", "mcc_score")
REPLICATES, PERMUTATIONS = 2000, 999
# Chance of Yes in each cell for a share of pairs, and what the other pairs do alike.
SYSTEMS = {
    "middling": {"yes": (0.7, 0.2, 0.5, 0.3), "right": 0.25, "always_no": 0.1},
    "weak": {"yes": (0.6, 0.45, 0.55, 0.45), "right": 0.0, "always_no": 0.2},
    "strong": {"yes": (0.9, 0.1, 0.15, 0.1), "right": 0.5, "always_no": 0.05},
}
MARGIN_METRICS = ("auroc", "average_precision", "ece", "aurc_quadruples", "ordered")
MARGIN_REPLICATES = 500
_MEANS = (1.0, -0.3, 0.3, -0.6)  # margins of the four cells; their variance is 1
_AT_ONCE = 50  # simulations that share their bootstrap draws


def distribution(*, yes, right: float, always_no: float) -> np.ndarray:
    """Shares of the 81 patterns, float[81]; nothing is unparsed."""
    cells = quadruples.PATTERNS
    chance = np.where(cells == quadruples.YES, yes, 1 - np.array(yes)).prod(1)
    chance[(cells == quadruples.UNPARSED).any(1)] = 0
    shares = (1 - right - always_no) * chance
    shares[quadruples.GOLD_PATTERN] += right
    shares[0] += always_no
    return shares


def draw(
    rng: np.random.Generator, shares: np.ndarray, *, icc: float, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """n data sets: each scene's distribution float[n, S, 81] and number of pairs int[n, S]."""
    sizes = 1 + rng.binomial(11, (PAIRS / SCENES - 1) / 11, (n, SCENES))
    if not icc:
        return np.broadcast_to(shares, (n, SCENES, 81)), sizes
    # Gamma variates, scaled to sum to 1, are a Dirichlet variate.
    possible = shares > 0
    weight = np.zeros((n, SCENES, 81))
    weight[..., possible] = rng.gamma(
        shares[possible] * (1 / icc - 1), size=(n, SCENES, possible.sum())
    )
    return weight / weight.sum(-1, keepdims=True), sizes


def truth(shares: np.ndarray) -> dict[str, float]:
    counts = shares @ quadruples.CONDITION_MATRIX
    return {key: float(value) for key, value in quadruples.formulas(counts).items()}


def coverage(name: str, *, icc: float, simulations: int, seed: int) -> dict:
    """Share of intervals that hold the truth, by metric, and their mean half width in points; for
    the difference to a system that is right in 5 % more of the pairs, the same."""
    rng = np.random.default_rng([seed, 1])
    shares = distribution(**SYSTEMS[name])
    better = 0.95 * shares
    better[quadruples.GOLD_PATTERN] += 0.05
    true, other = truth(shares), truth(better)
    held = {key: np.zeros(2) for key in METRICS}
    width = dict.fromkeys(METRICS, 0.0)
    for start in range(0, simulations, _AT_ONCE):
        n = min(_AT_ONCE, simulations - start)
        chance, sizes = draw(rng, shares, icc=icc, n=n)
        a = rng.multinomial(sizes, chance)
        b = rng.multinomial(sizes, 0.95 * chance + 0.05 * np.eye(81)[quadruples.GOLD_PATTERN])
        weights = bootstrap.draw_weights(
            SCENES, replicates=REPLICATES, seed=int(rng.integers(2**31))
        )
        drawn = quadruples.replicate_metrics(weights, np.stack([a, b]))  # [K, 2, n, R]
        for key in METRICS:
            one, two = drawn[quadruples.KEYS.index(key)]
            for i, (found, value) in enumerate(
                ((one, true[key]), (two - one, other[key] - true[key]))
            ):
                interval = bootstrap.summarise(np.zeros(n), found)
                held[key][i] += ((interval.low <= value) & (value <= interval.high)).sum()
                width[key] += interval.half_width.sum() if i == 0 else 0
    return {
        key: {
            "truth": true[key],
            "coverage": 100 * held[key][0] / simulations,
            "coverage_of_difference": 100 * held[key][1] / simulations,
            "half_width": width[key] / simulations,
        }
        for key in METRICS
    }


def draw_margins(
    rng: np.random.Generator, *, icc: float, n_scenes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Margins float[N, 4], and the scene of each pair int[N]."""
    sizes = 1 + rng.binomial(11, (PAIRS / SCENES - 1) / 11, n_scenes)
    scene = np.repeat(np.arange(n_scenes), sizes)
    shared = rng.normal(0, np.sqrt(icc), (n_scenes, 1))
    own = rng.normal(0, np.sqrt(1 - icc), (len(scene), 4))
    return np.array(_MEANS) + shared[scene] + own, scene


def margin_metrics(margins: np.ndarray, scene: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """MARGIN_METRICS of each weighting of the scenes, float[metrics, R]."""
    ranking = threshold_free.over_chunks(
        weights, margins.size, lambda w: threshold_free.ranked(margins, scene, w)
    )
    sure, wrong = np.abs(margins).min(1), threshold_free.quadruple_margin(margins) <= 0
    risk = threshold_free.over_chunks(
        weights, len(scene), lambda w: threshold_free.risk(sure, wrong, scene, w)
    )
    ece = threshold_free.calibration(margins, scene, weights)[1]
    ordered = threshold_free.mean(margins[:, 0] > margins[:, 1:].max(1), scene, weights)
    return np.stack([*ranking, ece, risk[-1], 100 * ordered])


def margin_coverage(*, icc: float, simulations: int, seed: int) -> dict:
    """Share of intervals that hold the truth of a metric of margins; truth, and mean value."""
    rng = np.random.default_rng([seed, 3])
    many = draw_margins(rng, icc=icc, n_scenes=100_000)
    true = margin_metrics(*many, np.ones((2, 100_000)))[:, 0]
    held, value = np.zeros(len(true)), np.zeros(len(true))
    for i in range(simulations):
        if i % _AT_ONCE == 0:
            weights = bootstrap.draw_weights(
                SCENES, replicates=MARGIN_REPLICATES, seed=int(rng.integers(2**31))
            )
            weights = np.concatenate([np.ones((1, SCENES)), weights])
        found = margin_metrics(*draw_margins(rng, icc=icc, n_scenes=SCENES), weights)
        interval = bootstrap.summarise(found[:, 0], found[:, 1:])
        held += (interval.low <= true) & (true <= interval.high)
        value += found[:, 0]
    return {
        key: {"truth": true[k], "mean": value[k] / simulations}
        | {"coverage": 100 * held[k] / simulations}
        for k, key in enumerate(MARGIN_METRICS)
    }


def calibrated_ece(*, simulations: int, seed: int) -> dict:
    """ECE of a model whose margins are the true log odds, so that its truth is 0: mean value and
    mean of the bootstrap means, and the lowest and highest end of all 95 % intervals."""
    rng = np.random.default_rng([seed, 4])
    weights = bootstrap.draw_weights(SCENES, replicates=MARGIN_REPLICATES, seed=seed)
    weights = np.concatenate([np.ones((1, SCENES)), weights])
    found = []
    for _ in range(simulations):
        shape, scene = draw_margins(rng, icc=0, n_scenes=SCENES)
        seen = rng.normal([1, -1, -1, -1], 1, shape.shape)  # one positive to three negatives
        ece = threshold_free.calibration(2 * seen - np.log(3), scene, weights)[1]
        interval = bootstrap.summarise(ece[0], ece[1:])
        found.append([interval.value, interval.mean, interval.low, interval.high])
    value, mean, low, high = np.array(found).T
    return {"value": value.mean(), "mean": mean.mean(), "low": low.min(), "high": high.max()}


def type_one(name: str, *, icc: float, kind: str, simulations: int, seed: int) -> dict:
    """Share of simulations in which two equally good systems differ at 5 %, by test and metric.

    Of kind "alike" both draw from the scene's distribution; of kind "unlike" one of them draws from
    the system's in every scene: every metric is equal in truth, how it varies between scenes isn't.
    """
    rng = np.random.default_rng([seed, 2])
    shares = distribution(**SYSTEMS[name])
    found = {test: dict.fromkeys(METRICS, 0) for test in ("permutation", "bootstrap")}
    for start in range(0, simulations, _AT_ONCE):
        n = min(_AT_ONCE, simulations - start)
        chance, sizes = draw(rng, shares, icc=icc, n=n)
        a = rng.multinomial(sizes, chance)
        b = rng.multinomial(sizes, chance if kind == "alike" else shares)
        weights = bootstrap.draw_weights(
            SCENES, replicates=REPLICATES, seed=int(rng.integers(2**31))
        )
        drawn = quadruples.replicate_metrics(weights, np.stack([a, b]))
        for key in METRICS:
            one, two = drawn[quadruples.KEYS.index(key)]
            interval = bootstrap.summarise(np.zeros(n), one - two)
            found["bootstrap"][key] += int(((interval.low > 0) | (interval.high < 0)).sum())
        for pair in zip(a, b):
            p = compare.permutation_test(
                np.stack(pair), [(0, 1)], METRICS,
                permutations=PERMUTATIONS, seed=int(rng.integers(2**31)),
            )  # fmt: skip
            for key, value in zip(METRICS, p[:, 0]):
                found["permutation"][key] += int(value <= 0.05)
    return {
        test: {key: 100 * count / simulations for key, count in by_key.items()}
        for test, by_key in found.items()
    }
