"""Draws scenes of the built-in world, writes their questions, and lets the checker judge them.

    python -m experiments.world.checks [--scenes=10000] [--first=0] [--seed=0] [--out=FILE]

Prints (and writes as JSON) how many scenes have a fault and which, why draws were rejected on the
way, and what the scenes and questions are. Exit status 1 if there is a fault.
"""

import json
from collections import Counter
from pathlib import Path

from absl import flags
from tqdm import tqdm

from cctv import cli
from cctv.data.errors import UserError
from cctv.world.checker import check
from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene

SCENES = flags.DEFINE_integer("scenes", 10000, "Number of scenes.", lower_bound=1)
FIRST = flags.DEFINE_integer("first", 0, "Index of the first scene.")
SEED = flags.DEFINE_integer("seed", 0, "Seed of the world.")
COUNTED = ("rejected", "kinds", "views", "layouts", "causes", "interventions", "categories")
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")


def main(argv: list[str]) -> int:
    """Draws, checks, counts. Returns the exit status."""
    cli.no_more(argv)
    faults = {}
    counts = {name: Counter() for name in COUNTED}
    for index in tqdm(range(FIRST.value, FIRST.value + SCENES.value)):
        try:
            scene = draw_scene(SEED.value, index)
        except UserError as error:
            faults[index] = [str(error)]
            continue
        record = record_of(scene)
        log = record["metadata"]
        if found := check(record):
            faults[index] = found
        counts["rejected"].update(scene.rejected)
        counts["kinds"][log["kind"]] += 1
        counts["views"][log["view"]] += 1
        counts["layouts"][log["layout"]["type"]] += 1
        counts["causes"][log["cause"]["kind"]] += 1
        counts["interventions"][log["intervention"]["kind"]] += 1
        counts["categories"].update(q["category"] for q in record["questions"])
    result = {
        "scenes": SCENES.value,
        "scenes with a fault": len(faults),
        "faults": faults,
        **{name: dict(count.most_common()) for name, count in counts.items()},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if OUT.value:
        Path(OUT.value).write_text(text + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
