"""What can be guessed about the built-in world without watching: from words, motion, file size.

    python -m experiments.world.shortcuts [--scenes=2000] [--seed=100] [--workers=N] [--out=FILE]

Every figure is the accuracy in percent of a logistic regression under five-fold cross-validation
over scenes: q+ against q- from the words of the question, v+ against v- from numbers of the video
(128x80, 5 frames a second). `paired` is how often it orders the two videos of a scene rightly.
"""

import functools
import json
import os
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from absl import flags
from tqdm import tqdm

from cctv import cli
from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene
from experiments.world import measures

SCENES = flags.DEFINE_integer("scenes", 2000, "Scenes to measure.", lower_bound=10)
SEED = flags.DEFINE_integer("seed", 100, "Seed of the world.")
WORKERS = flags.DEFINE_integer("workers", os.cpu_count(), "Processes.", lower_bound=1)
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")


def measure(index: int, *, seed: int) -> tuple[dict[str, Any], tuple]:
    """The record of a scene, and the numbers of its two videos."""
    scene = draw_scene(seed, index)
    with tempfile.TemporaryDirectory() as folder:
        path, duration = Path(folder) / "video.mp4", scene.pair.cast.duration
        shots = (scene.positive, scene.negative)
        return record_of(scene), tuple(measures.video_row(s, duration, path) for s in shots)


def main(argv: list[str]) -> None:
    """Draws the scenes, measures, prints and writes the figures."""
    cli.no_more(argv)
    one = functools.partial(measure, seed=SEED.value)
    with ProcessPoolExecutor(WORKERS.value, mp_context=get_context("spawn")) as pool:
        made = pool.map(one, range(SCENES.value), chunksize=4)
        records, rows = zip(*tqdm(made, total=SCENES.value))
    marks = [("all", r["anomaly_type"], r["view"]) for r in records]
    counts = Counter(m for some in marks for m in some)
    found = {
        "scenes": len(records),
        "questions": measures.of_questions(records),
        "questions by pairs of words": measures.of_questions(records, words=2),
        "leaning words": measures.leaning_words(records),
        "contact time": measures.contact_times(records),
        "videos": {
            mark: measures.of_videos([row for row, m in zip(rows, marks) if mark in m])
            for mark in sorted(m for m, n in counts.items() if n >= 2 * measures.FOLDS)
        },
    }
    text = json.dumps(found, indent=1)
    print(text)
    if OUT.value:
        Path(OUT.value).write_text(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
