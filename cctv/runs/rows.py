"""Prediction rows: the wall between accelerator work and statistics.

A row is a dict with the FIELDS of the protocol; files hold one JSON object a line, append-only, one
file a process. What is read is checked and completed, so everything after works on sound rows.
"""

import glob
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from cctv.data import files
from cctv.data.errors import UserError
from cctv.data.schema import SIDES
from cctv.metrics.answers import parse_answer
from cctv.metrics.evaluate import FAILED, METHODS

FIELDS = (
    "scene_id",
    "pair_id",
    "video",
    "question",
    "category",
    "model",
    "run",
    "method",
    "alpha",
    "answer",
    "label",
    "margin",
    "margin_contrast",
    "alpha_exact_to",
    "masked",
    "status",
    "video_digest",
    "frame_indices",
    "n_prompt_tokens",
    "n_answer_tokens",
)
STATUSES = ("ok", "unparsed", *FAILED)
LABELS = {"yes": 1, "no": 0, None: None}
_KEY = ("model", "run", "method", "alpha", "scene_id", "pair_id", "video", "question")

Row = dict
Key = tuple


def key(row: Mapping) -> Key:
    """What makes a row unique: (model, run, method, alpha, scene_id, pair_id, video, question)."""
    return tuple(row[name] for name in _KEY)


def is_failed(row: Mapping) -> bool:
    """True where the cell could not be run, so that another try may replace the row."""
    return row["status"] in FAILED


def done_keys(rows: Iterable[Mapping]) -> set[Key]:
    """Keys that need no other try."""
    return {key(row) for row in rows if not is_failed(row)}


def shard_path(workdir: str | Path, index: int, count: int) -> Path:
    """The file of process `index` of `count`."""
    return Path(workdir) / f"predictions-{index:05d}-of-{count:05d}.jsonl"


def check(row: Mapping) -> Row:
    """A sound row from one that may lack everything but ids, cell and answer or label.

    Known fields come first, in the order of FIELDS; others are kept. An explicit label null without
    an answer is unparsed. UserError says what is wrong.
    """
    row = dict(row)
    for name in ("scene_id", "pair_id"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise UserError(f"{name} must be a text, got {row.get(name)!r}")
    for name in ("video", "question"):
        _one_of(row, name, SIDES)
    row = {"model": "unknown", "run": "", "method": "base", "alpha": 0.0} | row
    for name in ("model", "run"):
        if not isinstance(row[name], str) or not row[name].isprintable():
            raise UserError(f"{name} must be a printable text, got {row[name]!r}")
    _one_of(row, "method", METHODS)
    for name in ("alpha", "margin", "margin_contrast", "alpha_exact_to"):
        _number(row, name)
    if row["alpha"] is None or row["alpha"] < 0 or (row["method"] == "base" and row["alpha"]):
        raise UserError(f"alpha must be >= 0, and 0 for method base, got {row['alpha']!r}")
    if not isinstance(row.get("masked", False), bool):
        raise UserError(f"masked must be true or false, got {row['masked']!r}")
    _settle(row)
    return {name: row[name] for name in FIELDS if name in row} | row


def _one_of(row: Row, name: str, allowed: Sequence[str]) -> None:
    if row.get(name) not in allowed:
        raise UserError(f"{name} must be one of {', '.join(allowed)}, got {row.get(name)!r}")


def _number(row: Row, name: str) -> None:
    value = row.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise UserError(f"{name} must be a finite number or null, got {value!r}")
    row[name] = float(value)


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def _settle(row: Row) -> None:
    """Completes and cross-checks answer, label and status."""
    answer, label, status = row.get("answer"), row.get("label"), row.get("status")
    if status is not None:
        _one_of(row, "status", STATUSES)
    if answer is not None and not isinstance(answer, str):
        raise UserError(f"answer must be a text or null, got {answer!r}")
    if isinstance(label, bool) or label not in (0, 1, None):
        raise UserError(f"label must be 1, 0 or null, got {label!r}")
    if status in FAILED:
        if label is not None:
            raise UserError(f"status {status} can't have the label {label!r}")
        row["label"] = None
        return
    if answer is None and "label" not in row and status != "unparsed":
        raise UserError("needs an answer or a label")
    parsed = None if answer is None else LABELS[parse_answer(answer)]
    if label is None:
        label = parsed
    elif parsed is not None and parsed != label:
        raise UserError(f"label {label!r} disagrees with the answer {answer!r}")
    if status == "unparsed" and label is not None:
        raise UserError(f"status unparsed can't have the label {label!r} or such an answer")
    row["label"] = None if label is None else int(label)
    row["status"] = "unparsed" if label is None else "ok"


def _parse(line: bytes) -> Row:
    """One line of a file as a sound row; UserError without the place."""
    try:
        row = json.loads(line, parse_constant=_refuse)
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON ({error})") from None
    if not isinstance(row, dict):
        raise UserError("not a JSON object")
    return check(row)


def _refuse(constant: str) -> None:
    raise UserError(f"{constant} is not allowed: numbers must be finite, or null")


def _lines(data: bytes) -> list[bytes]:
    """Whole lines. A last one without its line break counts if it is a whole object (a file that
    another program wrote), else it was torn by an interrupted write and is left out."""
    *lines, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [*lines, last] if _is_whole(last) else lines


def _is_whole(tail: bytes) -> bool:
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False


def read(paths: Iterable[str | Path]) -> list[Row]:
    """All rows of several files, each key once, in the order of first appearance.

    In a file a later row of the same key replaces a failed one; between files, whose order means
    nothing, any answered row does. Other rows of one key must be equal. UserError names file and
    line; OSError the file.
    """
    rows: dict[Key, Row] = {}
    places: dict[Key, Path] = {}
    for path in map(Path, paths):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise OSError(error.errno, f"can't read {path}: {error.strerror}") from error
        for number, line in enumerate(_lines(data), 1):
            if not line.strip():
                continue
            try:
                row = _parse(line)
                _add(rows, row, new_file=places.get(key(row)) not in (None, path))
            except UserError as error:
                raise UserError(f"{path}:{number}: {error}") from None
            places[key(row)] = path
    return list(rows.values())


def _add(rows: dict[Key, Row], row: Row, *, new_file: bool = False) -> bool:
    """Puts a row in its place; False where it is already there. UserError where it contradicts."""
    old = rows.get(key(row))
    if old == row or (new_file and is_failed(row) and not is_failed(old)):
        return False
    if old is not None and not is_failed(old):
        raise UserError(f"a different row of the same key {name_of(row)} is already there")
    rows[key(row)] = row
    return True


def name_of(row: Mapping) -> str:
    """The key as one readable word."""
    return "|".join(map(str, key(row)))


def shards(pattern: str | Path) -> list[Path]:
    """A file, all files a glob pattern matches, or all shards in a folder; at least one."""
    path = Path(pattern)
    if path.is_dir():
        pattern = Path(glob.escape(str(path))) / "predictions-*.jsonl"
    found = [path] if path.is_file() else sorted(glob.glob(str(pattern), recursive=True))
    if not found:
        raise FileNotFoundError(f"no prediction file matches {pattern}")
    return list(map(Path, found))


def merge(pattern: str | Path) -> list[Row]:
    """The rows of a file, of all files a glob pattern matches, or of all shards in a folder."""
    return read(shards(pattern))


class RowWriter:
    """Appends rows to one file so that a kill at any moment loses nothing that was written.

    Opening drops a torn last line and reads what is there (`rows`, by key). Not for two processes
    on one file. UserError for a row that contradicts, OSError naming the file if it can't be
    written; what the file held before stays.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise self._cannot(error) from error
        try:
            self._drop_torn_line()
            self.rows = {key(row): row for row in read([self.path])}
        except BaseException:
            self.close()
            raise

    def _drop_torn_line(self) -> None:
        data = self.path.read_bytes()
        self._size = data.rfind(b"\n") + 1
        tail = data[self._size :]
        try:
            if _is_whole(tail):
                self._append(b"\n", start=len(data))
            elif tail:
                os.ftruncate(self._fd, self._size)
                os.fsync(self._fd)
            if not data:
                files.sync_folder(self.path.parent)  # the name of a new file must survive too
        except OSError as error:
            raise self._cannot(error) from error

    def write(self, rows: Iterable[Mapping]) -> int:
        """Appends a batch, synced to disk when it returns; the number of rows that were new.

        Rows equal to what is there are skipped; all are checked before any is written.
        """
        added = dict(self.rows)
        lines = []
        for row in rows:
            try:
                line = json.dumps(row, default=_plain)
                sound = _parse(line.encode())
                if _add(added, sound):
                    lines.append(json.dumps(sound) + "\n")
            except (TypeError, ValueError) as error:
                where = "|".join(str(row.get(name)) for name in _KEY)
                raise UserError(f"{self.path}: row {where}: {error}") from error
        if lines:
            try:
                self._append("".join(lines).encode(), start=self._size)
            except OSError as error:
                raise self._cannot(error) from error
        self.rows = added
        return len(lines)

    def _append(self, data: bytes, *, start: int) -> None:
        """Appends at `start`, the end of the file, and takes a part back if not all was written (on
        a full disk); if even that fails the next opening drops the torn line."""
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except BaseException:
            os.ftruncate(self._fd, start)
            raise
        self._size = start + len(data)

    def _cannot(self, error: OSError) -> OSError:
        text = f"can't write {self.path}: {error.strerror}; mend that and run the same command"
        return OSError(error.errno, text)

    def close(self) -> None:
        """Closes the file; nothing is buffered."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _plain(value: object) -> object:
    """JSON for numpy scalars and arrays. float32 becomes the float64 of the same value."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def write_json(path: str | Path, value: object) -> None:
    """Writes JSON as a whole or not at all; what is not finite becomes null. Equal values in equal
    order give equal bytes. OSError names the file."""
    files.write_text(path, json.dumps(_nulls(value), indent=1, allow_nan=False) + "\n")


def _nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _nulls(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nulls(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _nulls(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
