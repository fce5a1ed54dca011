"""Recomputes all statistics from prediction rows alone: no model, no videos, no accelerator.

    python -m cctv.score --annotations=SCENES.jsonl|DIR --predictions=FILE|GLOB
        [--output=metrics.json] [--replicates=2000] [--seed=0]

Rows that another program wrote need scene_id, pair_id, video, question and an answer or a label.
Prints the tables; --output also writes metrics.json. A quadruple that lacks an answer is listed and
lowers the coverage. Rows of one model and run from run folders whose settings differ are refused.

Besides the metrics, overall and by category, a system in metrics.json has

  breakdowns {factor: [group; low, high of a number; n_pairs, n_scenes complete; n_incomplete;
      small; metrics]}: by category, anomaly_type, view, source, contact_position (% of the clip),
      question_words, clip_seconds, margin (the smallest |margin| of a pair); numbers in quartiles
      over the data set, the same for all systems; what is not annotated is the group "unknown"
  threshold_free {n_pairs: complete with four margins; n_without_margin; n_unparsed, n_disagree:
      answers that the sign of the margin, which counts here, doesn't give; metrics {auroc,
      average_precision, ece of sigmoid(margin), aurc_answers, aurc_quadruples: areas under
      risk-coverage, ordered: right at a threshold of their own, quadruple_margin: mean};
      reliability; risk_coverage; quadruple_margin; threshold {quad_acc, ba_acc: at_zero, held_out:
      at thresholds chosen on other scenes, difference}}
"""

from absl import flags

from cctv import cli

ANNOTATIONS = flags.DEFINE_string("annotations", None, "scenes.jsonl, or the folder that has it.")
PREDICTIONS = flags.DEFINE_string("predictions", None, "A file of rows, a glob, or a run folder.")
OUTPUT = flags.DEFINE_string("output", None, "Where to write metrics.json.")
REPLICATES = flags.DEFINE_integer(
    "replicates", 2000, "Bootstrap replicates.", lower_bound=1, upper_bound=10**6
)
SEED = flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    # What is slow to import waits until Ctrl-C is one line.
    from cctv.data import facts, schema
    from cctv.data.errors import UserError
    from cctv.metrics import evaluate
    from cctv.reports import tables
    from cctv.runs import manifest, rows

    for flag in (ANNOTATIONS, PREDICTIONS):
        if not flag.value:
            raise UserError(f"--{flag.name} is needed (--help)")
    dataset = schema.load(ANNOTATIONS.value)
    files = rows.shards(PREDICTIONS.value)
    manifest.check_together(files)
    predictions = rows.read(files)
    if not predictions:
        raise UserError(f"{PREDICTIONS.value}: no prediction rows")
    try:
        found = evaluate.evaluate(
            predictions,
            schema.pairs_of(dataset.scenes),
            facts=facts.facts_of(dataset.scenes),
            replicates=REPLICATES.value,
            seed=SEED.value,
        )
    except ValueError as error:  # rows that don't fit the annotations
        raise UserError(f"{PREDICTIONS.value}: {error}") from None
    if OUTPUT.value:
        rows.write_json(OUTPUT.value, found.metrics)
    print(tables.as_text(tables.sections(*found)), end="")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
