"""Writes a data set folder of the built-in world: scenes.jsonl, videos/, its card in world.json.

Every file appears whole or not at all. A scene's videos come first, then its part in .parts/, and
scenes.jsonl last, so that a killed generation goes on where it was and a finished one is kept.
"""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cctv.data import files, video
from cctv.data.errors import UserError
from cctv.world.accident import DIFFICULTIES
from cctv.world.card import card_markdown, card_of
from cctv.world.checker import check
from cctv.world.dataset import record_of, scene_id
from cctv.world.eventlog import GENERATOR
from cctv.world.render import Shot, render
from cctv.world.scene import draw_scene
from cctv.world.sheet import write_sheet

SMALLEST, LARGEST = (64, 36), (3840, 2160)
DURATIONS, MAX_FPS = (5.0, 20.0), 60.0


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What a data set of the world depends on. `size` is (W, H), `duration` in seconds."""

    scenes: int
    seed: int
    size: tuple[int, int]
    fps: float
    duration: float
    difficulty: str

    def __post_init__(self):
        if self.scenes < 1:
            raise UserError(f"scenes={self.scenes}: at least 1 scene is needed")
        if self.seed < 0:
            raise UserError(f"seed={self.seed}: a seed is 0 or more")
        if len(self.size) != 2 or not all(isinstance(n, int) for n in self.size):
            raise UserError(f"size={self.size!r}: width and height in pixels, such as (320, 180)")
        if any(not a <= b <= c or b % 2 for a, b, c in zip(SMALLEST, self.size, LARGEST)):
            asked, least, most = ("{}x{}".format(*s) for s in (self.size, SMALLEST, LARGEST))
            raise UserError(f"size={asked}: even width and height from {least} to {most}")
        if not 1 <= self.fps <= MAX_FPS:
            raise UserError(f"fps={self.fps:g}: 1 to {MAX_FPS:g} frames a second")
        if not DURATIONS[0] <= self.duration <= DURATIONS[1]:
            least, most = DURATIONS
            raise UserError(f"duration={self.duration:g}: {least:g} to {most:g} seconds")
        if self.difficulty not in DIFFICULTIES:
            raise UserError(f"difficulty={self.difficulty}: one of {', '.join(DIFFICULTIES)}")


def generate(
    out: str | Path,
    *,
    scenes: int,
    seed: int,
    size: tuple[int, int] = (320, 180),
    fps: float = 10,
    duration: float = 6.0,
    difficulty: str = "medium",
    workers: int = 1,
    sheet: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Writes `scenes` scenes of a seed into the folder `out` and returns its card (counts).

    The same arguments again finish what is there, or leave it alone when nothing is missing.
    `workers` processes share the work and don't change the outcome; `sheet` also draws a contact
    sheet of each scene; `progress` draws a bar on stderr. Raises UserError for bad arguments or a
    folder that holds something else.
    """
    arguments = Arguments(
        scenes=scenes,
        seed=seed,
        size=tuple(size),
        fps=float(fps),
        duration=float(duration),
        difficulty=difficulty,
    )
    if workers < 1:
        raise UserError(f"workers={workers}: at least 1 process is needed")
    out = Path(out)
    state = {"generator": GENERATOR, "arguments": {**asdict(arguments), "size": list(size)}}
    card = _claim(out, state)
    if card is None or _missing_videos(out, arguments):
        card = _fill(out, arguments, state, workers, progress)
    shutil.rmtree(out / ".parts", ignore_errors=True)
    if sheet:
        lines = (out / "scenes.jsonl").read_text().splitlines()
        for line in tqdm(lines, unit="sheet", disable=not progress):
            write_sheet(out, json.loads(line))
    return card


def _fill(
    out: Path, arguments: Arguments, state: dict[str, Any], workers: int, progress: bool
) -> dict[str, Any]:
    """Makes what is missing, then the annotations and the card."""
    parts, scenes = out / ".parts", arguments.scenes
    (out / "videos").mkdir(exist_ok=True)
    parts.mkdir(exist_ok=True)
    for half in (
        *out.glob(".*.tmp"),
        *out.glob("sheets/.*.tmp"),
        *parts.glob(".*.tmp"),
        *out.glob("videos/.*.tmp.mp4"),
    ):
        half.unlink()  # of a killed generation
    todo = [i for i in range(scenes) if not _is_done(out, arguments.seed, i)]
    with tqdm(total=scenes, initial=scenes - len(todo), unit="scene", disable=not progress) as bar:
        for _ in _made(out, arguments, todo, min(workers, len(todo))):
            bar.update()
    done = [json.loads(_part(out, i).read_text()) for i in range(scenes)]
    card = card_of(state["arguments"], done)
    files.write_text(out / "card.md", card_markdown(card))
    files.write_text(out / "world.json", json.dumps({**state, "card": card}, indent=1) + "\n")
    files.write_text(out / "scenes.jsonl", "".join(json.dumps(d["record"]) + "\n" for d in done))
    return card


def write_video(path: Path, shot: Shot, arguments: Arguments) -> None:
    """Renders a shot at the frame times k / fps and encodes it."""
    count = round(arguments.duration * arguments.fps)
    frames = (render(shot, k / arguments.fps, arguments.size) for k in range(count))
    video.write(path, frames, fps=arguments.fps)


def _make(out: Path, arguments: Arguments, index: int) -> None:
    """One scene: its two videos, then its part."""
    scene = draw_scene(
        arguments.seed, index, arguments.duration, DIFFICULTIES[arguments.difficulty]
    )
    record = record_of(scene)
    faults = check(record)
    if faults:  # never wrong data: a fault is a bug of the world, to be reported
        raise ValueError(f"scene {index} of seed {arguments.seed} fails its check: {faults[0]}")
    for side, shot in (("positive", scene.positive), ("negative", scene.negative)):
        write_video(out / record["videos"][side], shot, arguments)
    part = {"record": record, "rejected": dict(scene.rejected)}
    files.write_text(_part(out, index), json.dumps(part))


def _made(out: Path, arguments: Arguments, todo: list[int], workers: int) -> Iterator[None]:
    if workers <= 1:
        for i in todo:
            yield _make(out, arguments, i)
        return
    # Fresh processes: a fork would copy the threads of whatever library is loaded.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_make, out, arguments, i) for i in todo]
        try:
            for job in as_completed(jobs):
                yield job.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _claim(out: Path, state: dict[str, Any]) -> dict[str, Any] | None:
    """Makes the folder this data set's. Returns the card if it is finished."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: --out needs a folder")
    mark = out / "world.json"
    if not mark.exists():
        if out.is_dir() and any(not p.name.endswith(".tmp") for p in out.iterdir()):
            raise UserError(f"{out} holds something else: choose a new or empty folder")
        out.mkdir(parents=True, exist_ok=True)
        files.write_text(mark, json.dumps(state, indent=1) + "\n")
        return None
    try:
        found = json.loads(mark.read_text())
        before = {k: found[k] for k in state}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{mark} is not of the built-in world: choose a new folder") from error
    if before != state:
        old, new = ({"generator": s["generator"], **s["arguments"]} for s in (before, state))
        field = next(k for k in new if old.get(k) != new[k])
        raise UserError(
            f"{out} holds a world with {field}={old.get(field)}, not {new[field]}: "
            "choose a new folder or the same arguments"
        )
    return found.get("card") if (out / "scenes.jsonl").exists() else None


def _part(out: Path, index: int) -> Path:
    return out / ".parts" / f"{index:05d}.json"


def _videos(out: Path, seed: int, index: int) -> list[Path]:
    return [out / "videos" / f"{scene_id(seed, index)}_{side}.mp4" for side in ("pos", "neg")]


def _is_done(out: Path, seed: int, index: int) -> bool:
    return _part(out, index).exists() and all(p.exists() for p in _videos(out, seed, index))


def _missing_videos(out: Path, arguments: Arguments) -> bool:
    indices = range(arguments.scenes)
    return not all(p.exists() for i in indices for p in _videos(out, arguments.seed, i))
