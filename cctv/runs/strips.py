"""What the report shows of the videos: a strip of the frames that the model saw."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cctv.data.schema import SIDES, Dataset, Scene

FRAMES, HEIGHT = 6, 108  # of a strip; pixels


def write(workdir: Path, clips: Iterable[Any]) -> None:
    """Writes figures/DIGEST.jpg of each clip that has none yet: frames spread over the clip."""
    folder = workdir / "figures"
    folder.mkdir(exist_ok=True)
    for clip in clips:
        path = folder / _name(clip.digest)
        if path.exists():
            continue
        chosen = np.linspace(0, len(clip.frames) - 1, min(FRAMES, len(clip.frames))).round()
        images = [Image.fromarray(clip.frames[int(i)]) for i in chosen]
        width = max(1, round(images[0].width * HEIGHT / images[0].height))
        strip = Image.new("RGB", (width * len(images), HEIGHT))
        for i, image in enumerate(images):
            strip.paste(image.resize((width, HEIGHT), Image.Resampling.LANCZOS), (i * width, 0))
        part = path.with_suffix(".part")
        strip.save(part, "JPEG", quality=85)
        part.replace(path)


def digests(rows: Iterable[Mapping]) -> dict[tuple[str, str], str]:
    """(scene_id, side) -> digest of the video that rows were made from."""
    return {(r["scene_id"], r["video"]): d for r in rows if (d := r.get("video_digest"))}


def about(
    scene: Scene, dataset: Dataset, workdir: Path, videos: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """A scene as `page.write_report` takes it, paths relative to the workdir. See `digests`."""
    links, strips = {}, {}
    for side in SIDES:
        # realpath, not Path.resolve, which raises on links that go in circles
        path = os.path.relpath(*map(os.path.realpath, (dataset.video_path(scene, side), workdir)))
        links[side] = Path(path).as_posix()
        image = workdir / "figures" / _name(videos.get((scene.scene_id, side), ""))
        strips[side] = f"figures/{image.name}" if image.is_file() else None
    return {
        "scene_id": scene.scene_id,
        "view": scene.view,
        "anomaly_type": scene.anomaly_type,
        "source": scene.source,
        "videos": links,
        "strips": strips,
        "pairs": [dict(vars(pair)) for pair in scene.questions],
    }


def _name(digest: str) -> str:
    return f"{digest[:16]}.jpg"
