"""Scenes and question pairs: the annotation file `scenes.jsonl` of a data set folder.

`load` is strict: a data set with any annotation problem is refused, and all problems are listed at
once. Whether the videos exist and can be decoded is checked by `cctv.data.validate`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from cctv.data import files
from cctv.data.errors import UserError

CATEGORIES = ("event", "key_entity", "spatial", "spatial_temporal", "causal", "counterfactual")
VIEWS = ("driving", "roadside")
SIDES = ("positive", "negative")
# The four cells of a quadruple as (video, question), in the order y++, y+-, y-+, y--.
CELLS = tuple((video, question) for video in SIDES for question in SIDES)

_SCENE_KEYS = ("scene_id", "source", "view", "anomaly_type", "videos", "questions")
_OPTIONAL_KEYS = ("split_time", "segments", "metadata")
_QUESTION_KEYS = ("pair_id", "category", *SIDES)


@dataclass(frozen=True, kw_only=True)
class QuestionPair:
    """q+ (`positive`, true on v+ only) and q- (`negative`, false on both videos)."""

    pair_id: str
    category: str
    positive: str
    negative: str


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A video with an accident, its counterfactual without, and their question pairs.

    `videos` maps "positive" and "negative" to paths relative to the data set folder; times are in
    seconds; `metadata` is kept as it is.
    """

    scene_id: str
    source: str
    view: str
    anomaly_type: str
    videos: Mapping[str, str]
    questions: tuple[QuestionPair, ...]
    split_time: float | None = None
    segments: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The scenes of a data set folder, in the order of the file."""

    root: Path
    scenes: tuple[Scene, ...]

    def video_path(self, scene: Scene, side: str) -> Path:
        """The file of v+ ("positive") or v- ("negative")."""
        return self.root / scene.videos[side]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all annotations, not of the videos (see `video_digest`)."""
        text = json.dumps(
            [record_of(s) for s in self.scenes], sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with a data set; `level` is "error" or "warning", `where` a file:line."""

    level: str
    where: str
    message: str

    def __str__(self):
        return f"{self.level}: {self.where}: {self.message}"


class DataError(UserError):
    """Annotations that can't be used. `problems` has them all, the text only the first."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        first, more = self.problems[0], len(self.problems) - 1
        text = f"{first.where}: {first.message}"
        if more:
            text += f" (and {more} more; `python -m cctv.data.validate` lists them all)"
        super().__init__(text)

    def __reduce__(self):
        return DataError, (self.problems,)


class VideoEntry(NamedTuple):
    """One well-formed video path, also of a scene that has other problems."""

    where: str
    scene_id: str
    side: str
    path: Path


class Reading(NamedTuple):
    """What could be read: the scenes without a problem, all problems, all usable video paths."""

    dataset: Dataset
    problems: tuple[Problem, ...]
    videos: tuple[VideoEntry, ...]
    where: Mapping[str, str]  # scene_id -> file:line


def load(path: str | Path) -> Dataset:
    """The data set of a folder or of its scenes.jsonl; DataError with all that is wrong."""
    reading = read_problems(path)
    if reading.problems:
        raise DataError(reading.problems)
    return reading.dataset


def read_problems(path: str | Path) -> Reading:
    """As `load`, but never raises: problems are returned beside what could be read."""
    path = Path(path)
    file = path / "scenes.jsonl" if path.is_dir() else path
    root = file.parent
    problems: list[Problem] = []
    checker = _Checker(root=root, problems=problems)
    try:
        data = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        checker.where = str(file)
        checker.error(f"can't be read ({reason}); expected a data set folder with scenes.jsonl")
        data = None
    scenes = []
    for number, line in enumerate((data or b"").split(b"\n"), 1):
        if line.strip():
            checker.where = f"{file}:{number}"
            scene = checker.scene(line)
            if scene is not None:
                scenes.append(scene)
    if data is not None and not data.strip():
        checker.where = str(file)
        checker.error("empty: expected one scene a line")
    dataset = Dataset(root=root, scenes=tuple(scenes))
    return Reading(dataset, tuple(problems), tuple(checker.videos), checker.scene_ids)


def save(root: str | Path, scenes: Iterable[Scene]) -> Path:
    """Writes `root`/scenes.jsonl whole or not at all, and returns its path."""
    file = Path(root) / "scenes.jsonl"
    lines = [json.dumps(record_of(scene), ensure_ascii=False) + "\n" for scene in scenes]
    files.write_text(file, "".join(lines))
    return file


def record_of(scene: Scene) -> dict[str, Any]:
    """The JSON object of a scene's line in scenes.jsonl; optional keys only where they say more."""
    record = {k: v for k, v in vars(scene).items() if v is not None and v != {}}
    return {**record, "questions": [dict(vars(q)) for q in scene.questions]}


def pairs_of(scenes: Iterable[Scene]) -> dict[str, list[tuple[str, str]]]:
    """{scene_id: (pair_id, category) of each of its pairs}, what statistics are laid out on."""
    return {s.scene_id: [(q.pair_id, q.category) for q in s.questions] for s in scenes}


def video_digest(path: str | Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_problem(root: Path, text: str) -> str | None:
    """Why `text` can't be a video path of the folder `root` (it must stay inside), or None."""
    if "\\" in text or "\0" in text:
        return f"path {text!r} has a backslash or NUL: write it with /"
    if PurePosixPath(text).is_absolute() or PureWindowsPath(text).drive:
        return f"path {text!r} is absolute: write it relative to the folder of scenes.jsonl"
    real_root = os.path.realpath(root)
    inside = os.path.realpath(os.path.join(real_root, text))
    if ".." in PurePosixPath(text).parts or not inside.startswith(os.path.join(real_root, "")):
        return f"path {text!r} leaves the data set folder (by .. or a link)"
    return None


class _Checker:
    """Checks records one by one; collects problems, ids seen and video paths."""

    def __init__(self, *, root: Path, problems: list[Problem]):
        self.root, self.problems = root, problems
        self.where = ""
        self.scene_ids: dict[str, str] = {}  # id -> where it was first used
        self.pair_ids: dict[str, str] = {}
        self.videos: list[VideoEntry] = []

    def error(self, message: str) -> None:
        self.problems.append(Problem(level="error", where=self.where, message=message))

    def scene(self, line: bytes) -> Scene | None:
        """The scene of one line, or None when it has a problem."""
        before = len(self.problems)
        try:
            record = json.loads(
                line.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant
            )
        except (ValueError, RecursionError) as error:
            # UnicodeDecodeError and JSONDecodeError are ValueErrors.
            self.error(f"not JSON: {error}")
            return None
        if not self._keys("scene", record, _SCENE_KEYS, _OPTIONAL_KEYS):
            return None
        scene_id = self._text(record, "scene_id")
        self._unique("scene_id", scene_id, self.scene_ids)
        source, anomaly_type = self._text(record, "source"), self._text(record, "anomaly_type")
        view = self._choice(record, "view", VIEWS)
        videos = self._videos(record, scene_id)
        questions = self._questions(record)
        split_time, segments = record.get("split_time"), self._segments(record)
        if split_time is not None and not _is_time(split_time):
            self.error(f"split_time {split_time!r:.80} is not a number of seconds >= 0")
        metadata = record.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            self.error("metadata is not an object")
        if len(self.problems) > before:
            return None
        return Scene(
            scene_id=scene_id,
            source=source,
            view=view,
            anomaly_type=anomaly_type,
            videos=videos,
            questions=tuple(questions),
            split_time=split_time,
            segments=segments,
            metadata=metadata or {},
        )

    def _keys(self, name, record, required, optional=()) -> bool:
        """Whether `record` is an object with the required keys; unknown keys are errors too."""
        if not isinstance(record, dict):
            self.error(f"{name} is not an object: {record!r:.80}")
            return False
        missing = [key for key in required if key not in record]
        if missing:
            self.error(f"{name} lacks {', '.join(missing)}")
        for key in record:
            if key not in required and key not in optional:
                known = ", ".join((*required, *optional))
                self.error(f"{name} has the unknown key {key!r:.80} (known: {known})")
        return True

    def _text(self, record, key) -> str | None:
        """A string with something in it, or None (an error unless the key is missing: known)."""
        if key not in record:
            return None
        value = record[key]
        if not isinstance(value, str):
            self.error(f"{key} is not a string: {value!r:.80}")
        elif not value.strip():
            self.error(f"{key} is empty")
        elif any("\ud800" <= letter <= "\udfff" for letter in value):
            self.error(f"{key} has half a surrogate pair: {value!r:.80}")
        elif key.endswith("_id") and (not value.isprintable() or value != value.strip()):
            self.error(f"{key} {value!r:.80} has a control character or outer white space")
        else:
            return value
        return None

    def _choice(self, record, key, allowed) -> str | None:
        value = self._text(record, key)
        if value is not None and value not in allowed:
            self.error(f"unknown {key} {value!r:.80} (known: {', '.join(allowed)})")
        return value

    def _unique(self, key, value, seen) -> None:
        if value is None:
            return
        if value in seen:
            self.error(f"duplicate {key} {value!r:.80}, first at {seen[value]}")
        seen.setdefault(value, self.where)

    def _videos(self, record, scene_id) -> dict[str, str]:
        videos = record.get("videos", {})
        if "videos" not in record or not self._keys("videos", videos, SIDES):
            return {}
        for side in SIDES:
            text = self._text(videos, side)
            if text is None:
                continue
            problem = path_problem(self.root, text)
            if problem:
                self.error(f"videos.{side}: {problem}")
            else:
                self.videos.append(VideoEntry(self.where, scene_id or "", side, self.root / text))
        return videos

    def _questions(self, record) -> list[QuestionPair]:
        questions = record.get("questions", [])
        if not isinstance(questions, list):
            self.error(f"questions is not a list: {questions!r:.80}")
            return []
        if "questions" in record and not questions:
            self.error("a scene without questions")
        pairs = []
        for number, question in enumerate(questions):
            if not self._keys(f"questions[{number}]", question, _QUESTION_KEYS):
                continue
            pair_id = self._text(question, "pair_id")
            self._unique("pair_id", pair_id, self.pair_ids)
            category = self._choice(question, "category", CATEGORIES)
            positive, negative = self._text(question, "positive"), self._text(question, "negative")
            if positive and negative and same_question(positive, negative):
                self.error(f"pair {pair_id!r:.80}: the positive and negative question are equal")
            pairs.append(
                QuestionPair(
                    pair_id=pair_id, category=category, positive=positive, negative=negative
                )
            )
        return pairs

    def _segments(self, record) -> dict[str, tuple[float, float]]:
        segments = record.get("segments")
        if segments is None:
            return {}
        if not isinstance(segments, dict):
            self.error(f"segments is not an object: {segments!r:.80}")
            return {}
        good = {}
        for name, span in segments.items():
            if (
                isinstance(span, list)
                and len(span) == 2
                and all(map(_is_time, span))
                and span[0] <= span[1]
            ):
                good[name] = tuple(span)
            else:
                self.error(f"segments[{name!r:.40}] is not [start, end] in seconds: {span!r:.80}")
        return good


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < 1e9  # false for NaN and infinity too


def same_question(a: str, b: str) -> bool:
    """Whether two questions differ in case and white space only."""
    return " ".join(a.split()).casefold() == " ".join(b.split()).casefold()
