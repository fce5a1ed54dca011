"""Feeding the device: videos a second of decoding and preprocessing, and how long the device waits.

    python -m experiments.bench.pipeline [--out=FILE] [--videos=12] [--repeats=3]

Videos of 1280x720, 5 s at 30 fps, as the project writes them; Qwen3-VL's default sampling (2 fps)
and pixel limits. `alone` reads them one after another in this process, `pool_N` through N worker
processes. The wait is that of a whole run of configs/tiny.py on the built-in world: the seconds in
which the loop waited for frames, of those and the model's.
"""

import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

from absl import flags

from cctv import cli

OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")
VIDEOS = flags.DEFINE_integer("videos", 12, "How many videos.", lower_bound=2)
REPEATS = flags.DEFINE_integer("repeats", 3, "Runs of each way.", lower_bound=1)
SIZE, FRAMES, FPS = (1280, 720), 150, 30
WORKERS = (1, 2)


def write_videos(folder: Path) -> list[str]:
    """Moving gradients with noise, so that the files have a camera's size."""
    import numpy as np

    from cctv.data import video

    rng = np.random.default_rng(0)
    width, height = SIZE
    noise = rng.integers(0, 12, (height, width, 3), np.uint8)
    ramp = (np.arange(2 * width) % 200).astype(np.uint8)
    frames = (
        np.roll(noise, 3 * i, axis=1) + ramp[i : i + width][None, :, None] for i in range(FRAMES)
    )
    first = folder / "0.mp4"
    video.write(first, frames, fps=FPS)
    paths = [first]
    for i in range(1, VIDEOS.value):
        paths.append(folder / f"{i}.mp4")
        paths[-1].write_bytes(first.read_bytes())
    return [str(p) for p in paths]


def waiting(folder: Path) -> dict[str, float]:
    """Seconds by phase of a run of the embedded default."""
    import importlib.util

    from cctv.runs import run

    spec = importlib.util.spec_from_file_location("tiny", Path("configs/tiny.py"))
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    run.evaluate(tiny.get_config(), folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["provenance"]["invocations"][-1]["seconds"]


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    import functools

    import av

    from cctv.data.pool import DecodePool
    from cctv.data.preprocess import load_video
    from cctv.data.qwen_video import QwenVideoProcessor

    load = functools.partial(load_video, processor=QwenVideoProcessor())
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = write_videos(Path(folder))
        size = os.path.getsize(paths[0])
        for _ in range(REPEATS.value):
            start = time.perf_counter()
            for path in paths:
                load(path)
            seconds.setdefault("alone", []).append(time.perf_counter() - start)
            for workers in WORKERS:
                with DecodePool(workers) as pool:
                    list(pool.imap(load, [(p,) for p in paths[:workers]]))  # they have started
                    start = time.perf_counter()
                    for _ in pool.imap(load, [(p,) for p in paths]):
                        pass
                    seconds.setdefault(f"pool_{workers}", []).append(time.perf_counter() - start)
        phases = waiting(Path(folder) / "run")
    wait, model = phases["wait for frames"], phases["model"]
    found = {
        "videos_per_second": {
            name: len(paths) / statistics.median(times) for name, times in seconds.items()
        },
        "wait_s": wait,
        "model_s": model,
        "wait_share": wait / (wait + model),
        "shapes": {"size": SIZE, "frames": FRAMES, "fps": FPS, "bytes": size},
        "versions": {"python": platform.python_version(), "av": av.__version__},
    }
    text = json.dumps(found, indent=1)
    print(text)
    if OUT.value:
        Path(OUT.value).write_text(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
