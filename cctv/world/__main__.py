"""Writes a data set folder of the built-in world: accidents that did not happen.

  python -m cctv.world --out=DIR --scenes=N --seed=S [--size=WxH] [--fps=10] [--duration=6]
      [--difficulty=easy|medium|hard] [--sheet] [--workers=N]

Each scene has two videos, with an accident and without, and question pairs in six categories.
The same arguments again finish or keep what is there. Prints a card of what the folder holds
(also DIR/card.md). --sheet adds DIR/sheets: a picture a scene, its frames, questions and truths.
"""

import os
import re

from absl import flags

from cctv import cli
from cctv.data.errors import UserError
from cctv.world.card import card_text
from cctv.world.generate import generate

OUT = flags.DEFINE_string("out", None, "folder to write")
SCENES = flags.DEFINE_integer("scenes", None, "number of scenes")
SEED = flags.DEFINE_integer("seed", 0, "seed of the world")
SIZE = flags.DEFINE_string("size", "320x180", "width x height of the videos, even numbers")
FPS = flags.DEFINE_float("fps", 10.0, "frames a second")
DURATION = flags.DEFINE_float("duration", 6.0, "seconds of each video")
DIFFICULTY = flags.DEFINE_string(
    "difficulty", "medium", "easy, medium or hard: late branch, small gap, many and small actors"
)
SHEET = flags.DEFINE_bool("sheet", False, "draw a contact sheet of each scene, for a person")
WORKERS = flags.DEFINE_integer("workers", None, "processes that share the work (one a CPU core)")


def main(argv: list[str]) -> None:
    """Flags -> `generate`."""
    cli.no_more(argv)
    if not OUT.value or SCENES.value is None:
        raise UserError("--out=DIR and --scenes=N are needed (--help)")
    size = re.fullmatch(r"(\d+)x(\d+)", SIZE.value)
    if size is None:
        raise UserError(f"--size={SIZE.value}: expected WIDTHxHEIGHT, as 320x180")
    card = generate(
        OUT.value,
        scenes=SCENES.value,
        seed=SEED.value,
        size=(int(size[1]), int(size[2])),
        fps=FPS.value,
        duration=DURATION.value,
        difficulty=DIFFICULTY.value,
        workers=os.cpu_count() if WORKERS.value is None else WORKERS.value,
        sheet=SHEET.value,
        progress=True,
    )
    print(card_text(card))


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
