"""What the paper's sheets and statistics show of the videos: frames that matter, durations."""

import numpy as np
from PIL import Image

from cctv.data import video
from cctv.data.schema import SIDES, Dataset, Scene
from cctv.reports.paper_sheets import Frame, Video

HEIGHT = 270  # pixels of a frame, at most


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


def frames(scene: Scene, dataset: Dataset) -> list[Video]:
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
        shown = [Frame(title, _small(image)) for title, image in zip(titles, images)]
        out.append(Video(names[side], shown))
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
    found.thumbnail((16 * HEIGHT // 9, HEIGHT), Image.Resampling.LANCZOS)
    return np.asarray(found)
