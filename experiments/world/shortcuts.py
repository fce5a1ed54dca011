"""What can be guessed about the built-in world without watching: from words, motion, file size.

    python -m experiments.world.shortcuts [--scenes=2000] [--videos=2000] [--seed=100] [--out=FILE]

Every figure is the accuracy in percent of a logistic regression under five-fold cross-validation
over scenes: q+ against q- from the words of the question, v+ against v- from numbers of the video
(128x80, 5 frames a second). `paired` is how often it orders the two videos of a scene rightly.
"""

import json
import tempfile
from collections import Counter
from pathlib import Path

from absl import flags
from tqdm import tqdm

from cctv import cli
from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene
from experiments.world import measures

SCENES = flags.DEFINE_integer("scenes", 2000, "Scenes whose questions are read.", lower_bound=10)
VIDEOS = flags.DEFINE_integer("videos", 2000, "Scenes whose videos are rendered.", lower_bound=10)
SEED = flags.DEFINE_integer("seed", 100, "Seed of the world.")
OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")


def main(argv: list[str]) -> None:
    """Draws the scenes, measures, prints and writes the figures."""
    cli.no_more(argv)
    records, rows, marks = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for index in tqdm(range(SCENES.value)):
            scene = draw_scene(SEED.value, index)
            records.append(record_of(scene))
            if index < VIDEOS.value:
                shots = (scene.positive, scene.negative)
                path = Path(folder) / "video.mp4"
                duration = scene.pair.cast.duration
                rows.append(tuple(measures.video_row(s, duration, path) for s in shots))
                marks.append(("all", records[-1]["anomaly_type"], records[-1]["view"]))
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
