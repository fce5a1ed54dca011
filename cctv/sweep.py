"""Metrics against the contrast strength α, from the rows of a run, and the best α; no model needed.

    python -m cctv.sweep WORKDIR [--metric=quad_acc] [--alpha_max=2] [--select_on=0.5] [--seed=0]
        [--redecode] [--annotations=SCENES.jsonl|DIR]

α is chosen by --metric on a share of the scenes and reported on the others. Prints that and writes
figures/alpha.png, figures/alpha.pdf and alpha.json:

  metric, alpha_max, split {select_on, seed, select, report: scene ids}, bootstrap {replicates,
  seed, unit}, methods {vcd | tcd | c_tcd: of complete quadruples
    n_pairs, n_incomplete
    exact_until   the α up to which every answer follows from the margins; null = for ever
    n_disagree    answers of the model that the margins give otherwise (near-ties)
    chosen        alpha, its 95 % interval {low, high}, the stretch [from, to] that is as good,
                  value, n_scenes, n_pairs; among equals the lowest stretch: 0 if it begins there,
                  else its middle
    reported      alpha, n_scenes, n_pairs, metrics and base {key: as in metrics.json}, difference
                  {key: value, low, high}; n_unknown answers beyond their exact range count as
                  unparsed
    all_scenes    a picture, not an estimate: best; base {key: value}; curves {key: alpha, at_low,
                  at_high, after_low, after_high: at each breakpoint and on the open segment after
                  it}; grid [{alpha, low, high: every metric}]; decoded [{alpha, metrics}], where
                  the model was run
    quadruples    [{scene_id, pair_id, right: [from, to] or null = never, to null = for ever,
                  open: whether each end is left out, exact_to}]}

low and high differ where rows are beyond their exact range: they may say Yes, No or neither there.
--redecode runs the model on α = 0, 0.25, ... if some are, and its answers stand at those α.
"""

from pathlib import Path

from absl import flags

from cctv import cli
from cctv.data.errors import UserError

ANNOTATIONS = flags.DEFINE_string("annotations", None, "The data; by default the run's own.")
METRIC = flags.DEFINE_string("metric", "quad_acc", "What α is chosen by.")
ALPHA_MAX = flags.DEFINE_float("alpha_max", 2.0, "The largest α.", lower_bound=0, upper_bound=1000)
SELECT_ON = flags.DEFINE_float("select_on", 0.5, "The share of the scenes that α is chosen on.")
SEED = flags.DEFINE_integer("seed", 0, "Of the split and of the bootstrap.", lower_bound=0)
REDECODE = flags.DEFINE_bool("redecode", False, "Run the model where margins don't tell.")


def main(argv: list[str]) -> None:
    if len(argv) != 1:
        raise UserError(f"expected one run folder, got {len(argv)} arguments (--help)")
    # Decoding workers import this module again: what is heavy must wait until here.
    from cctv.reports import tables
    from cctv.runs import sweep

    found = sweep.sweep(
        Path(argv[0]),
        annotations=ANNOTATIONS.value,
        metric=METRIC.value,
        alpha_max=ALPHA_MAX.value,
        select_on=SELECT_ON.value,
        seed=SEED.value,
        redecode=REDECODE.value,
    )
    print(tables.as_text(sweep.as_tables(found)), end="")
    print(f"\nresults in {argv[0]}: alpha.json, figures/alpha.png, figures/alpha.pdf")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
