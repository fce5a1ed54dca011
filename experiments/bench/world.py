"""The built-in world: frames and clips a second of one core.

    python -m experiments.bench.world [--out=FILE] [--scenes=30] [--repeats=3]

CPU seconds of this process (so that other work on the machine doesn't count), medians over the
repeats. `frames_per_second`: whole videos of 60 frames at 320x180, weather and noise included, by
view and by look. `clips_per_second`: 8 frames spread over 6 s at 128x80, first of scenes that are
drawn already, then with the search for each scene included, which makes two clips of it.
"""

import json
import platform
import statistics
import time
from collections import defaultdict
from pathlib import Path

from absl import flags

from cctv import cli

OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")
SCENES = flags.DEFINE_integer("scenes", 30, "How many scenes.", lower_bound=6)
REPEATS = flags.DEFINE_integer("repeats", 3, "Runs of each measure.", lower_bound=1)
VIDEO, CLIP = ((320, 180), 60), ((128, 80), 8)


def seconds(shots: list, size: tuple[int, int], count: int) -> float:
    """CPU seconds to render `count` frames of each shot, nothing kept from before."""
    from cctv.world.render import forget, render

    forget()
    start = time.process_time()
    for shot in shots:
        for k in range(count):
            render(shot, k * shot.world.duration / count, size)
    return time.process_time() - start


def middle(shots: list, size: tuple[int, int], count: int) -> float:
    """The median of `seconds` over the repeats."""
    return statistics.median(seconds(shots, size, count) for _ in range(REPEATS.value))


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    import cv2
    import numpy as np

    from cctv.world.scene import draw_scene

    cv2.setNumThreads(1)
    start = time.process_time()
    scenes = [draw_scene(0, i) for i in range(SCENES.value)]
    drawing = (time.process_time() - start) / len(scenes)
    of_video = [middle([s.positive], *VIDEO) for s in scenes]
    of_clip = [middle([s.positive, s.negative], *CLIP) / 2 for s in scenes]

    def frames(name_of):
        spent = defaultdict(list)
        for scene, value in zip(scenes, of_video):
            spent[name_of(scene)].append(value / VIDEO[1])
        return {name: round(1 / statistics.mean(v), 1) for name, v in sorted(spent.items())}

    clip = statistics.mean(of_clip)
    found = {
        "frames_per_second": {
            **frames(lambda s: s.view),
            **frames(lambda s: s.look.kind),
            **frames(lambda s: "all"),
        },
        "clips_per_second": {
            "drawn": round(1 / clip, 1),
            "drawing_included": round(2 / (drawing + 2 * clip), 2),
        },
        "drawing_s_per_scene": round(drawing, 3),
        "shapes": {"video": VIDEO, "clip": CLIP, "scenes": len(scenes)},
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "opencv": cv2.__version__,
        },
    }
    text = json.dumps(found, indent=1)
    print(text)
    if OUT.value:
        Path(OUT.value).write_text(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
