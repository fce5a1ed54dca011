"""The paper's tables and figures from prediction rows alone: no model, no accelerator.

    python -m cctv.paper --predictions=RUN|FILE|GLOB [--predictions=...] --out=DIR
        [--annotations=SCENES.jsonl|DIR] [--groups=GROUPS.json] [--alpha=1.0] [--scenes=ID,ID]

Writes to DIR/tables (Markdown, LaTeX, CSV): 1 main results, 2 sensitivity, failure modes,
3 decoding methods, data statistics. To DIR/figures (PNG, PDF): 3 and 7 the data, 5 failure modes,
6 and 12-14 radars by category, 11 decoding methods, 15 metrics against α, 16-18 a sheet a scene,
with frames if the videos are there. DIR/README.md lists what was made and what could not be;
DIR/metrics.json has every number.

GROUPS.json orders and names the models: {"small": ["model", ...], "commercial": {"model": "its name
in the paper"}}; tables make the best of a group bold. Without it all models are one group.
"""

import shlex
import sys
from pathlib import Path

from absl import flags

from cctv import cli
from cctv.data.errors import UserError

PREDICTIONS = flags.DEFINE_multi_string("predictions", [], "Rows: a file, a glob, a run folder.")
ANNOTATIONS = flags.DEFINE_string("annotations", None, "The data; by default the run's own.")
OUT = flags.DEFINE_string("out", None, "The folder to write.")
GROUPS = flags.DEFINE_string("groups", None, "JSON of the groups and names of models.")
ALPHA = flags.DEFINE_float(
    "alpha",
    None,
    "α of the contrastive methods; by default 1 where it was run, else the lowest.",
    lower_bound=0,
)
SCENES = flags.DEFINE_list(
    "scenes", [], "Scenes to make sheets of; by default those with most, median and fewest right."
)
REPLICATES = flags.DEFINE_integer(
    "replicates", 2000, "Bootstrap replicates.", lower_bound=1, upper_bound=10**6
)
SEED = flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    # What is slow to import waits until Ctrl-C is one line.
    from cctv.runs import paper

    for flag in (PREDICTIONS, OUT):
        if not flag.value:
            raise UserError(f"--{flag.name} is needed (--help)")
    lines = paper.make(
        PREDICTIONS.value,
        out=Path(OUT.value),
        annotations=ANNOTATIONS.value,
        groups=GROUPS.value,
        alpha=ALPHA.value,
        scenes=SCENES.value,
        replicates=REPLICATES.value,
        seed=SEED.value,
        command=f"python -m cctv.paper {shlex.join(sys.argv[1:])}",
    )
    print("\n".join(lines))


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
