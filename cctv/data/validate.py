"""Lists every problem of a data set folder, one a line, without loading a model.

  python -m cctv.data.validate DIR

Errors: everything wrong in DIR/scenes.jsonl, and each video that is missing or can't be decoded
(its packets, and its first, middle and last frame are read). Warnings: videos of a scene that
differ in duration or size, very short ones, times beyond the end. Exit status 1 with an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from cctv.data.errors import UserError
from cctv.data.pool import DecodePool
from cctv.data.schema import SIDES, Problem, Scene, read_problems, video_digest
from cctv.data.video import VideoDecodeError, probe, read_frames

DIFFERENCE = 0.05  # of the durations of v+ and v-, relative to the longer one
SHORT = 1.0  # seconds
SLACK = 0.1  # seconds that an annotated time may lie beyond the end


class Checked(NamedTuple):
    """A video that can be decoded; `duration` in seconds includes the last frame's, `digest` is of
    the file. `measured` is what `check_videos` was asked to find out beside that."""

    duration: float
    width: int
    height: int
    digest: str = ""
    measured: Any = None


def validate(path: str | Path, *, workers: int = 2, timeout: float = 60.0) -> list[Problem]:
    """All problems of a folder (or its scenes.jsonl), in the order of its lines."""
    reading = read_problems(path)
    problems = list(reading.problems)
    checked = check_videos((str(v.path) for v in reading.videos), workers=workers, timeout=timeout)
    for video in reading.videos:
        result = checked[str(video.path)]
        if isinstance(result, VideoDecodeError):
            problems.append(Problem(level="error", where=video.where, message=str(result)))
    data = reading.dataset
    for scene in data.scenes:
        videos = {side: checked[str(data.video_path(scene, side))] for side in SIDES}
        problems += scene_warnings(scene, videos, where=reading.where[scene.scene_id])
    return sorted(problems, key=_line)


def check_videos(
    paths: Iterable[str],
    *,
    workers: int = 2,
    timeout: float = 60.0,
    measure: Callable[[str], Any] | None = None,
) -> dict[str, Checked | VideoDecodeError]:
    """Decodes the beginning, middle and end of each file, in `workers` processes, which also call
    `measure` (a picklable function of a path that raises VideoDecodeError) where it is given."""
    items = [(path, measure) for path in dict.fromkeys(paths)]
    if not items:
        return {}
    with DecodePool(min(workers, len(items)), timeout=timeout) as pool:
        answers = pool.imap(check_video, items)
        bar = tqdm(answers, total=len(items), desc="videos", unit="", leave=False, disable=None)
        return {path: result for (path, _), result in bar}


def check_video(path: str, measure: Callable[[str], Any] | None = None) -> Checked:
    """VideoDecodeError where `path` is missing or can't be decoded."""
    info = probe(path)
    read_frames(path, sorted({0, info.num_frames // 2, info.num_frames - 1}))
    duration = float(info.times[-1]) + 1 / info.fps
    found = measure(path) if measure else None
    return Checked(duration, info.width, info.height, video_digest(path), found)


def scene_warnings(
    scene: Scene, videos: Mapping[str, Checked | VideoDecodeError], *, where: str
) -> list[Problem]:
    """What is odd about a scene whose annotations are correct."""
    found = list(_repeated_pairs(scene))
    good = {side: v for side, v in videos.items() if isinstance(v, Checked)}
    for side, video in good.items():
        if video.duration < SHORT:
            found.append(f"the {side} video lasts {video.duration:.2f} s only")
    if len(good) == len(SIDES):
        a, b = good["positive"], good["negative"]
        if a.digest and a.digest == b.digest:
            found.append("both videos are the same file: no quadruple can be right")
        if abs(a.duration - b.duration) > DIFFERENCE * max(a.duration, b.duration):
            found.append(f"the durations differ: {a.duration:.2f} s and {b.duration:.2f} s")
        if (a.width, a.height) != (b.width, b.height):
            found.append(f"the sizes differ: {a.width}x{a.height} and {b.width}x{b.height}")
        end = max(a.duration, b.duration) + SLACK
        if scene.split_time is not None and scene.split_time > end:
            found.append(f"split_time {scene.split_time:g} s is beyond the end of both videos")
        for name, span in scene.segments.items():
            if span[1] > end:
                found.append(f"segment {name} ends at {span[1]:g} s, beyond both videos")
    return [
        Problem(level="warning", where=where, message=f"scene {scene.scene_id}: {text}")
        for text in found
    ]


def _repeated_pairs(scene: Scene) -> Iterator[str]:
    """Pairs that ask what an earlier one asks, and so count twice."""
    seen: dict[tuple[str, str, str], str] = {}
    for pair in scene.questions:
        asked = (pair.category, pair.positive, pair.negative)
        first = seen.setdefault(asked, pair.pair_id)
        if first != pair.pair_id:
            yield f"pair {pair.pair_id} asks the same as {first} and counts once more"


def _line(problem: Problem) -> int:
    number = problem.where.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def main(argv: list[str]) -> int:
    """Prints the problems and a summary; 1 if one is an error."""
    if len(argv) != 1:
        raise UserError("expected one data set folder: python -m cctv.data.validate DIR")
    workers, timeout = flags.FLAGS.workers, flags.FLAGS.timeout
    problems = validate(argv[0], workers=workers, timeout=timeout)
    for problem in problems:
        print(problem)
    errors = sum(problem.level == "error" for problem in problems)
    print(f"{argv[0]}: {errors} errors, {len(problems) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    from absl import flags

    from cctv import cli

    flags.DEFINE_integer("workers", 2, "Processes that decode videos.", lower_bound=1)
    flags.DEFINE_float("timeout", 60.0, "Seconds after which a video is given up.", lower_bound=0.1)
    cli.run(main, usage=__doc__)
