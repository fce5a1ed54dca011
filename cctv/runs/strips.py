"""What is shown of the videos: strips of the frames that a model saw, frames at the moments that
matter, durations."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cctv.data import video
from cctv.data.schema import SIDES, Dataset, Scene
from cctv.reports.paper_sheets import Frame, Video

FRAMES, HEIGHT = 6, 108  # of a strip; pixels
MOMENT_HEIGHT = 270


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


def duration(scene: Scene, dataset: Dataset) -> float | None:
    """Seconds of the accident's clip: the end of its last segment, else the video's; None where
    neither is known."""
    if "contrastive" in scene.segments:
        return float(scene.segments["contrastive"][1])
    try:
        info = video.probe(dataset.video_path(scene, "positive"))
    except video.VideoDecodeError:
        return None  # counted where durations are shown
    return float(info.times[-1] + 1 / info.fps)


def moments(scene: Scene, dataset: Dataset) -> list[Video]:
    """Frames of both videos: the first, at the branch, at the contact, the last; where a scene
    doesn't say when these are, frames spread over the clip. A video that can't be read says why."""
    out = []
    names = {"positive": "v+", "negative": "v-"}
    for side in SIDES:
        path = dataset.video_path(scene, side)
        try:
            info = video.probe(path)
            at = _moments(scene, info)
            indices = [int(np.abs(info.times - time).argmin()) for time in at.values()]
            images = video.read_frames(path, indices)
        except video.VideoDecodeError as error:
            out.append(Video(names[side], [], str(error)))
            continue
        times = [f"{info.times[i]:.2f} s" for i in indices]
        titles = [f"{name} {time}".strip() for name, time in zip(at, times)]
        frames = [Frame(title, _small(image)) for title, image in zip(titles, images)]
        out.append(Video(names[side], frames))
    return out


def _moments(scene: Scene, info: video.VideoInfo) -> dict[str, float]:
    end = float(info.times[-1])
    marked = {"branch": scene.split_time}
    if "key_frames" in scene.segments:
        marked["contact (on v+)"] = sum(scene.segments["key_frames"]) / 2
    marked = {name: time for name, time in marked.items() if time is not None and time <= end}
    if marked:
        return {"first": 0.0, **marked, "last": end}
    return {" " * i: end * i / 3 for i in range(4)}


def _small(image: np.ndarray) -> np.ndarray:
    found = Image.fromarray(image)
    found.thumbnail((16 * MOMENT_HEIGHT // 9, MOMENT_HEIGHT), Image.Resampling.LANCZOS)
    return np.asarray(found)
