"""The curve of every metric against α at the benchmark's size, against a grid: seconds, difference.

    python -m experiments.bench.alpha [--out=FILE] [--repeats=21]

305 scenes, 1,776 pairs, 7,104 float32 margins of a C-TCD run, α from 0 to 2. The grid fuses the
margins at 2,001 points and recomputes all metrics at each; the curve must give the same there.
Medians; the grid is run once.
"""

import json
import platform
import statistics
import time

import numpy as np
from absl import flags

from cctv import cli
from cctv.metrics import alpha, quadruples

SCENES, PAIRS, POINTS, ALPHA_MAX = 305, 1776, 2001, 2.0
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")
REPEATS = flags.DEFINE_integer("repeats", 21, "Runs of the curve.", lower_bound=1)


def make_margins() -> alpha.Margins:
    """Margins of a middling model, those of a scene's videos alike, all exact."""
    rng = np.random.default_rng(1)
    scene = np.append(np.arange(SCENES), rng.integers(0, SCENES, PAIRS - SCENES))
    video = rng.normal(0, 0.7, (SCENES, 2))[scene][:, [0, 0, 1, 1]]
    base = video + rng.normal([1.2, 0.3, 0.3, 0.1], 1, (PAIRS, 4))
    base = base.astype(np.float32)
    other = base[:, [2, 3, 0, 1]]  # C-TCD: the same question on the scene's other video
    return alpha.Margins(base=base, contrast=other, exact_to=np.full((PAIRS, 4), np.inf))


def brute(margins: alpha.Margins, points: np.ndarray) -> np.ndarray:
    """All metrics at each α from its fused margins, float64[K, points]."""
    out = []
    for a in points:
        yes = (1 + a) * margins.base - a * margins.contrast > 0
        pooled = np.bincount(quadruples.pattern(yes), minlength=81)
        out.append(list(quadruples.plug_in(pooled).values()))
    return np.array(out).T


def measure(repeats: int) -> dict:
    margins, points = make_margins(), np.linspace(0, ALPHA_MAX, POINTS)
    seconds = []
    for _ in range(repeats + 1):  # the first warms up
        start = time.perf_counter()
        found = alpha.curve(margins, alpha_max=ALPHA_MAX)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    expected = brute(margins, points)
    grid_s = time.perf_counter() - start
    low, high = alpha.values(found, points)
    np.testing.assert_array_equal(low, high)
    np.testing.assert_array_equal(np.isnan(low), np.isnan(expected))
    return {
        "curve_s": statistics.median(seconds[1:]),
        "max_abs_difference_to_grid": float(np.nanmax(np.abs(low - expected))),
        "grid_s": grid_s,
        "margins": int(margins.base.size),
        "breakpoints": len(found.alphas),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
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
