"""Compares systems on the same scenes from prediction rows alone: no model, no accelerator.

    python -m cctv.compare RUN_A RUN_B ... [--annotations=SCENES.jsonl|DIR] [--metric=quad_acc]
        [--output=compare.json] [--intersection] [--replicates=2000] [--permutations=10000]

A RUN is a run folder, a file of rows or a glob; every system in it (model, run, method, α) is
compared with every other. Prints tables; --output also writes all of it:

  n_scenes, n_pairs   compared: complete in every system; n_incomplete: in some not;
                      n_not_common: not annotated, asked and shown alike in all runs
  systems [{name, metrics {key: value; scene, pair, iid: the 95 % interval if scenes are drawn, if
                      pairs are, and if pairs were independent; design_effect: variance over
                      scenes / variance of independent pairs}}]
  comparisons [{a, b, metric, difference a - b, mean, low, high, half_width, n_undefined: paired
                      scene bootstrap; p: scenes exchanged between a and b, metric recomputed;
                      p_holm_metrics, p_holm_systems: Holm's correction over the metrics of a and b
                      or over all a and b; detectable: what as many scenes find 8 times in 10}]
  ranking {key: n_undefined, shares {name: share of replicates with rank 1, 2, ...}}; the highest
                      value is first, of failure shares the lowest; equal systems share ranks
  bootstrap {replicates, seed, unit}, permutations

Runs of other annotations, videos or pairs are refused; with --intersection those are left out.
"""

from absl import flags

from cctv import cli
from cctv.data.errors import UserError
from cctv.reports import tables
from cctv.runs import compare, rows

ANNOTATIONS = flags.DEFINE_string("annotations", None, "The data; by default each run's own.")
METRIC = flags.DEFINE_list("metric", [], "Metrics to compare, with commas; by default all.")
OUTPUT = flags.DEFINE_string("output", None, "Where to write the comparison as JSON.")
INTERSECTION = flags.DEFINE_bool("intersection", False, "Compare on what the runs share.")
REPLICATES = flags.DEFINE_integer(
    "replicates", 2000, "Bootstrap replicates.", lower_bound=1, upper_bound=10**6
)
PERMUTATIONS = flags.DEFINE_integer("permutations", 10_000, "Of the test.", lower_bound=1)
SEED = flags.DEFINE_integer("seed", 0, "Of all draws.", lower_bound=0)


def main(argv: list[str]) -> None:
    if not argv:
        raise UserError("expected run folders or files of rows (--help)")
    found = compare.compare(
        argv,
        annotations=ANNOTATIONS.value,
        metrics=METRIC.value,
        intersection=INTERSECTION.value,
        replicates=REPLICATES.value,
        permutations=PERMUTATIONS.value,
        seed=SEED.value,
    )
    if OUTPUT.value:
        rows.write_json(OUTPUT.value, found)
    print(tables.as_text(compare.as_tables(found, METRIC.value)), end="")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
