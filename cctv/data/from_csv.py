"""Makes a data set folder from a table of questions and a folder of videos.

  python -m cctv.data.from_csv TABLE.csv --out=DIR [--videos=FOLDER]

One row of the table is one question pair; the rows of a scene share its scene_id. Columns:

  scene_id           any name of the scene
  positive_video     the video with the accident: a path in FOLDER (default: the table's folder)
  negative_video     its counterfactual, without the accident
  category           event, key_entity, spatial, spatial_temporal, causal or counterfactual
  positive_question  true on the positive video only
  negative_question  false on both videos
  source             optional: where the video is from (default: unknown)
  view               optional: driving or roadside (default: --view)
  anomaly_type       optional: kind of accident (default: unknown)
  pair_id            optional: unique name of the pair (default: SCENE-00, SCENE-01, ...)
  split_time         optional: seconds until the two videos part

What describes the scene may be left empty in all rows but its first. The separator is a comma, a
semicolon or a tab; the text is UTF-8 or UTF-16, as spreadsheets write them. Videos are copied.
Every bad row is listed, with its line, before anything is written; DIR appears whole or not at all.
"""

import csv
import io
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.data.schema import CATEGORIES, SIDES, VIEWS, DataError, Problem, QuestionPair, Scene
from cctv.data.validate import check_videos, scene_warnings
from cctv.data.video import VideoDecodeError

VIDEOS = ("positive_video", "negative_video")
LONGEST_ID = 150  # bytes; the videos are named after it
REQUIRED = ("scene_id", *VIDEOS, "category", "positive_question", "negative_question")
OPTIONAL = ("source", "view", "anomaly_type", "pair_id", "split_time")
PER_SCENE = (*VIDEOS, "source", "view", "anomaly_type", "split_time")


class Row(NamedTuple):
    """One row: its line in the file, and its cells by column (stripped; "" where empty)."""

    line: int
    cells: Mapping[str, str]


class Converted(NamedTuple):
    """The folder that was made (`new`) or was there with the same content, and warnings."""

    dataset: schema.Dataset
    warnings: tuple[Problem, ...]
    new: bool


def convert(
    table: str | Path,
    out: str | Path,
    *,
    videos: str | Path | None = None,
    view: str = "driving",
    workers: int = 2,
    timeout: float = 60.0,
) -> Converted:
    """Writes the data set folder `out`; DataError with every problem of the table.

    UserError for a table that can't be read as one, and for an `out` that holds something else.
    """
    table, out = Path(table), Path(out)
    folder = table.parent if videos is None else Path(videos)
    rows = read_table(table)
    problems: list[Problem] = []

    def error(line: int, message: str) -> None:
        problems.append(Problem(level="error", where=f"{table}:{line}", message=message))

    scenes = _scenes(rows, view=view, error=error)
    sources = _check_sources(scenes, folder, error=error, workers=workers, timeout=timeout)
    if problems:
        raise DataError(sorted(problems, key=lambda p: int(p.where.rpartition(":")[2])))
    warnings = []
    copies = {}
    for line, scene in scenes:
        files = {side: folder / scene.videos[side] for side in SIDES}
        warnings += scene_warnings(
            scene, {s: sources[str(f)] for s, f in files.items()}, where=f"{table}:{line}"
        )
        copies |= {_copy_name(scene.scene_id, side, f): f for side, f in files.items()}
    final = [_with_copies(scene) for _, scene in scenes]
    new = not _holds(out, final, copies)
    if new:
        _write(out, final, copies)
    return Converted(schema.load(out), tuple(warnings), new)


def read_table(path: Path) -> list[Row]:
    """The rows of a table, blank ones left out; UserError when it isn't one."""
    lines = list(io.StringIO(_text(path), newline=""))
    skipped = 0
    separators = ",;\t"
    if lines and lines[0].lower().startswith("sep="):  # how Excel is told the separator
        separators, skipped = lines[0].strip()[4:5] or separators, 1
    header = lines[skipped] if len(lines) > skipped else ""
    separator = max(separators, key=header.count)
    reader = csv.reader(lines[skipped:], delimiter=separator, strict=True)
    rows, columns, line = [], None, skipped
    try:
        for cells in reader:
            line, start = skipped + reader.line_num, line + 1
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if columns is None:
                columns = _columns(path, start, cells)
                continue
            if any(cells[len(columns) :]):
                raise UserError(
                    f"{path}:{start}: {len(cells)} cells for {len(columns)} columns; put a text "
                    f"that contains {separator!r} in double quotes"
                )
            padded = cells + [""] * (len(columns) - len(cells))
            rows.append(Row(start, dict(zip(columns, padded))))
    except csv.Error as error:
        raise UserError(f"{path}:{line + 1}: not a table ({error})") from error
    if not rows:
        raise UserError(f"{path}: no rows below a header with {', '.join(REQUIRED)}")
    return rows


def _text(path: Path) -> str:
    data = path.read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error}); save it as CSV UTF-8") from error


def _columns(path: Path, line: int, cells: Sequence[str]) -> list[str]:
    """Column names of the header; UserError for unknown, missing and double ones."""
    names = ["_".join(cell.lower().split()) for cell in cells]
    while names and not names[-1]:
        names.pop()
    for what, wrong in (
        ("lacks the column", [n for n in REQUIRED if n not in names]),
        ("has the unknown column", [n for n in names if n not in REQUIRED + OPTIONAL]),
        ("has twice the column", [n for n in names if names.count(n) > 1]),
    ):
        if wrong:
            known = ", ".join(REQUIRED + OPTIONAL)
            raise UserError(f"{path}:{line}: the table {what} {wrong[0]!r:.80} (known: {known})")
    return names


def _scenes(rows: Sequence[Row], *, view: str, error) -> list[tuple[int, Scene]]:
    """Each scene (videos as the table has them) with its first line; problems go to `error`."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        for name in ("scene_id", "category", "positive_question", "negative_question"):
            if not row.cells[name]:
                error(row.line, f"{name} is empty")
        if row.cells["scene_id"]:
            groups.setdefault(row.cells["scene_id"], []).append(row)
    pair_ids: dict[str, int] = {}
    slugs: dict[str, str] = {}
    scenes = []
    for scene_id, group in groups.items():
        line = group[0].line
        other = slugs.setdefault(_slug(scene_id), scene_id)
        if other != scene_id:
            error(line, f"scene_id {scene_id!r:.80} is too much like {other!r:.80}: rename it")
        if len(scene_id.encode()) > LONGEST_ID:
            error(line, f"scene_id {scene_id!r:.40} is too long: {LONGEST_ID} bytes at most")
        if not scene_id.isprintable():
            error(line, f"scene_id {scene_id!r:.80} has a control character")
        shared = _shared(group, error)
        for name in VIDEOS:
            if not shared.get(name):
                error(line, f"{name} is empty")
        shared.setdefault("view", view)
        if shared["view"] not in VIEWS:
            error(line, f"unknown view {shared['view']!r:.80} (known: {', '.join(VIEWS)})")
        questions = [_pair(row, scene_id, n, pair_ids, error) for n, row in enumerate(group)]
        scene = Scene(
            scene_id=scene_id,
            source=shared.get("source", "unknown"),
            view=shared["view"],
            anomaly_type=shared.get("anomaly_type", "unknown"),
            videos={side: shared.get(f"{side}_video", "") for side in SIDES},
            questions=tuple(questions),
            split_time=_seconds(shared.get("split_time"), line, error),
        )
        scenes.append((line, scene))
    return scenes


def _shared(group: Sequence[Row], error) -> dict[str, str]:
    """What the rows of a scene say about the scene; they may not contradict each other."""
    shared: dict[str, str] = {}
    for row in group:
        for name in PER_SCENE:
            value = row.cells.get(name, "")
            if name == "view":
                value = value.lower()
            if value and shared.setdefault(name, value) != value:
                error(row.line, f"{name} {value!r:.80} differs from {shared[name]!r:.80} above")
    return shared


def _pair(row: Row, scene_id: str, number: int, pair_ids: dict[str, int], error) -> QuestionPair:
    cells = row.cells
    category = re.sub(r"[\s-]+", "_", cells["category"].lower())
    if category and category not in CATEGORIES:
        error(
            row.line, f"unknown category {cells['category']!r:.80} (known: {', '.join(CATEGORIES)})"
        )
    positive, negative = cells["positive_question"], cells["negative_question"]
    if positive and schema.same_question(positive, negative):
        error(row.line, "the positive and negative question are equal")
    pair_id = cells.get("pair_id") or f"{scene_id}-{number:02d}"
    first = pair_ids.setdefault(pair_id, row.line)
    if first != row.line:
        error(row.line, f"duplicate pair_id {pair_id!r:.80}, first in line {first}")
    if not pair_id.isprintable():
        error(row.line, f"pair_id {pair_id!r:.80} has a control character")
    return QuestionPair(pair_id=pair_id, category=category, positive=positive, negative=negative)


def _seconds(text: str | None, line: int, error) -> float | None:
    if text is None:
        return None
    if re.fullmatch(r"\d{1,8}([.,]\d*)?", text):
        return float(text.replace(",", "."))
    error(line, f"split_time {text!r:.80} is not a number of seconds")
    return None


def _check_sources(scenes, folder: Path, *, error, workers, timeout) -> dict:
    """What is known of each source file, by its path; those that can't be read are errors."""
    paths = [str(folder / v) for _, s in scenes for v in s.videos.values() if v]
    checked = check_videos(paths, workers=workers, timeout=timeout)
    for line, scene in scenes:
        for text in dict.fromkeys(v for v in scene.videos.values() if v):
            result = checked[str(folder / text)]
            if isinstance(result, VideoDecodeError):
                error(line, str(result))
    return checked


def _slug(scene_id: str) -> str:
    """A part of a file name; compared without case, as some file systems do."""
    return re.sub(r"[^a-z0-9._-]", "_", scene_id.lower())


def _copy_name(scene_id: str, side: str, source: Path | str) -> str:
    return f"videos/{_slug(scene_id)}_{side}{_slug(Path(source).suffix)}"


def _with_copies(scene: Scene) -> Scene:
    """The scene with the paths of its copied videos."""
    videos = {side: _copy_name(scene.scene_id, side, scene.videos[side]) for side in SIDES}
    return replace(scene, videos=videos)


def _holds(out: Path, scenes: Sequence[Scene], copies: Mapping[str, Path]) -> bool:
    """Whether `out` already has exactly this content; UserError when it has something else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    if out.is_dir():
        there = schema.read_problems(out)
        files = {str(p.relative_to(out).as_posix()) for p in out.rglob("*") if p.is_file()}
        if (
            not there.problems
            and there.dataset.scenes == tuple(scenes)
            and files == {"scenes.jsonl", *copies}
            and all(_same_file(out / name, source) for name, source in copies.items())
        ):
            return True
    raise UserError(f"{out}: already holds something else; give another --out or remove it")


def _same_file(a: Path, b: Path) -> bool:
    same_size = a.stat().st_size == b.stat().st_size
    return same_size and schema.video_digest(a) == schema.video_digest(b)


def _write(out: Path, scenes: Sequence[Scene], copies: Mapping[str, Path]) -> None:
    """Builds the folder beside `out` under another name and renames it when it is complete."""
    out = Path(os.path.abspath(out))
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        (temporary / "videos").mkdir(parents=True)
        for name, source in copies.items():
            shutil.copyfile(source, temporary / name)
        schema.save(temporary, scenes)
        if out.exists():
            out.rmdir()  # empty
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def main(argv: list[str]) -> int:
    """Lists every problem on standard error, or says what was made."""
    if len(argv) != 1 or not flags.FLAGS.out:
        raise UserError("expected: python -m cctv.data.from_csv TABLE.csv --out=DIR (see --help)")
    values = {name: flags.FLAGS[name].value for name in ("videos", "view", "workers", "timeout")}
    try:
        made = convert(argv[0], flags.FLAGS.out, **values)
    except DataError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        print(f"{argv[0]}: {len(error.problems)} errors, nothing written", file=sys.stderr)
        return 1
    for warning in made.warnings:
        print(warning)
    scenes = made.dataset.scenes
    pairs = sum(len(scene.questions) for scene in scenes)
    state = "written" if made.new else "already there"
    print(f"{flags.FLAGS.out}: {len(scenes)} scenes, {pairs} question pairs, {state}")
    return 0


if __name__ == "__main__":
    from absl import flags

    from cctv import cli

    flags.DEFINE_string("out", None, "The data set folder to make.")
    flags.DEFINE_string("videos", None, "The folder of the videos (default: the table's folder).")
    flags.DEFINE_enum("view", "driving", VIEWS, "View of scenes for which the table has none.")
    flags.DEFINE_integer("workers", 2, "Processes that decode videos.", lower_bound=1)
    flags.DEFINE_float("timeout", 60.0, "Seconds after which a video is given up.", lower_bound=0.1)
    cli.run(main, usage=__doc__)
