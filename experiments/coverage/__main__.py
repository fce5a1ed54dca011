"""Do the intervals and tests keep what they promise? Simulated data of known truth.

    python -m experiments.coverage [--simulations=3000] [--tests=3000] [--margins=600] [--out=FILE]

Prints JSON; minutes on one core. The data: experiments/coverage/simulate.py.

coverage    share of simulations, in percent, whose 95 % scene-bootstrap interval holds the truth,
            by system, intra-class correlation and metric; and whose paired interval holds that of
            the difference to a system that is right in 5 % more of the pairs
margins     the same for metrics of margins, of which a share `icc` of the variance is the scene's
calibrated_ece  of a model whose true ECE is 0: mean value, mean of the bootstrap means, ends of all
            intervals
type_one    share in which two equally good systems, answering the same scenes, differ at the 5 %
            level: `permutation` the paired test, `bootstrap` 0 outside the paired interval.
            `alike`: both draw from the scene's distribution. `unlike`: one draws from the system's
            in every scene, so that metrics are equal in truth but vary otherwise between scenes
"""

import json

from absl import flags

from cctv import cli
from experiments.coverage import simulate

SIMULATIONS = flags.DEFINE_integer("simulations", 3000, "Of the intervals.", lower_bound=2)
TESTS = flags.DEFINE_integer("tests", 3000, "Of the tests.", lower_bound=2)
MARGINS = flags.DEFINE_integer("margins", 600, "Of the metrics of margins.", lower_bound=2)
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    out: dict = {"scenes": simulate.SCENES, "pairs": simulate.PAIRS}
    out |= {"replicates": simulate.REPLICATES, "permutations": simulate.PERMUTATIONS}
    out |= {"margin_replicates": simulate.MARGIN_REPLICATES}
    out |= {"simulations": SIMULATIONS.value, "tests": TESTS.value, "margin_runs": MARGINS.value}
    out["coverage"] = {
        name: {
            str(icc): simulate.coverage(name, icc=icc, simulations=SIMULATIONS.value, seed=i)
            for i, icc in enumerate(simulate.ICCS)
        }
        for name in simulate.SYSTEMS
    }
    out["margins"] = {
        str(icc): simulate.margin_coverage(icc=icc, simulations=MARGINS.value, seed=i)
        for i, icc in enumerate(simulate.ICCS)
    }
    out["calibrated_ece"] = simulate.calibrated_ece(simulations=100, seed=0)
    out["type_one"] = {
        kind: {
            str(icc): simulate.type_one(
                "middling", icc=icc, kind=kind, simulations=TESTS.value, seed=i
            )
            for i, icc in enumerate(simulate.ICCS)
        }
        for kind in ("alike", "unlike")
    }
    text = json.dumps(out, indent=1)
    print(text)
    if OUT.value:
        with open(OUT.value, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
