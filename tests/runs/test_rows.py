"""Prediction rows: what is accepted, what is refused and where, and that nothing is lost."""

import errno
import json
import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctv.data.errors import UserError
from cctv.runs import rows

ROOT = Path(__file__).parents[2]


def make(pair="p0", *, video="positive", question="positive", **fields):
    row = {"scene_id": "s0", "pair_id": pair, "video": video, "question": question}
    row |= {"category": "event", "model": "m", "run": "r", "method": "base", "alpha": 0.0}
    row |= {"answer": "Yes", "label": 1, "margin": 1.5, "margin_contrast": None}
    row |= {"alpha_exact_to": None, "masked": False, "status": "ok", "video_digest": "d"}
    row |= {"frame_indices": [0, 4], "n_prompt_tokens": 9, "n_answer_tokens": 1}
    return row | fields


def failed(pair="p0", status="video_missing", **fields):
    return make(pair, status=status, answer=None, label=None, margin=None, **fields)


def save(path, *lines, end="\n"):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end)
    return path


def error_of(path):
    with pytest.raises(UserError) as caught:
        rows.read([path])
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_our_own_row_is_unchanged_and_has_every_field():
    assert rows.check(make()) == make()
    assert tuple(rows.check(make())) == rows.FIELDS


def test_foreign_rows_need_ids_cell_and_answer_or_label(tmp_path):
    cell = {"scene_id": "s0", "video": "positive", "question": "negative"}
    path = save(
        tmp_path / "a.jsonl",
        cell | {"pair_id": "a", "answer": "**No.**"},
        cell | {"pair_id": "b", "label": 1, "note": "kept"},
        cell | {"pair_id": "c", "answer": "maybe"},
        cell | {"pair_id": "d", "answer": "maybe", "label": 0},
        cell | {"pair_id": "e", "label": None},
        cell | {"pair_id": "f", "status": "video_error"},
    )
    found = rows.read([path])
    assert [row["label"] for row in found] == [0, 1, None, 0, None, None]
    statuses = ["ok", "ok", "unparsed", "ok", "unparsed", "video_error"]
    assert [row["status"] for row in found] == statuses
    assert found[1]["note"] == "kept"
    assert rows.key(found[0]) == ("unknown", "", "base", 0.0, "s0", "a", "positive", "negative")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "okay"}, "status must be one of ok, unparsed"),
        ({"method": "dola"}, "method must be one of base, vcd, tcd, c_tcd, got 'dola'"),
        ({"video": "v+"}, "video must be one of positive, negative, got 'v+'"),
        ({"question": None}, "question must be"),
        ({"label": 2}, "label must be 1, 0 or null, got 2"),
        ({"label": True}, "label must be"),
        ({"label": "yes"}, "label must be"),
        ({"label": 0}, "label 0 disagrees with the answer 'Yes'"),
        ({"answer": 1}, "answer must be a text"),
        ({"answer": None, "label": None, "status": "ok"}, None),
        ({"status": "unparsed"}, "status unparsed can't"),
        ({"status": "unparsed", "label": None}, "status unparsed can't"),
        ({"status": "video_missing"}, "status video_missing can't have the label 1"),
        ({"scene_id": ""}, "scene_id must be a text"),
        ({"pair_id": 7}, "pair_id must be a text, got 7"),
        ({"model": None}, "model must be a printable text"),
        ({"run": "\x1b[2J"}, "run must be a printable text"),
        ({"alpha": -1}, "alpha must be >= 0"),
        ({"alpha": 1}, "alpha must be >= 0, and 0 for method base"),
        ({"alpha": None}, "alpha must be"),
        ({"alpha": "1"}, "alpha must be a finite number"),
        ({"margin": "big"}, "margin must be a finite number"),
        ({"margin": 10**400}, "margin must be a finite number"),
        ({"masked": 0}, "masked must be true or false"),
        ({"method": "c_tcd", "alpha": 1.0, "margin_contrast": True}, "margin_contrast must be"),
    ],
)
def test_a_wrong_field_is_one_line_that_names_file_line_and_value(tmp_path, change, words):
    path = save(tmp_path / "a.jsonl", make("p9"), make() | change, make("p8"))
    if words is None:  # an explicit null label without an answer is the third value
        assert rows.read([path])[1]["status"] == "unparsed"
    else:
        assert error_of(path).startswith(f"{path}:2: {words}")


@pytest.mark.parametrize("name", ["margin", "margin_contrast", "alpha", "alpha_exact_to"])
@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(tmp_path, name, text):
    line = json.dumps(make() | {name: "HERE"}).replace('"HERE"', text)
    assert error_of(save(tmp_path / "a.jsonl", line)).startswith(f"{tmp_path}/a.jsonl:1: ")


@pytest.mark.parametrize(
    "line", ["{", "[1]", "7", "no", '{"scene_id": "s"} x', "\x00", "[" * 99999]
)
def test_bad_json_in_the_middle_is_an_error(tmp_path, line):
    path = save(tmp_path / "a.jsonl", make("p1"), line, make("p2"))
    assert f"{path}:2: not " in error_of(path)


def test_bytes_that_are_not_utf8_are_an_error(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"scene_id": "\xff"}\n')
    assert "a.jsonl:1: not JSON" in error_of(tmp_path / "a.jsonl")


def test_an_answer_or_a_label_is_needed(tmp_path):
    row = make()
    del row["label"], row["answer"], row["status"]
    assert "needs an answer or a label" in error_of(save(tmp_path / "a.jsonl", row))


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(make()).encode() + b"\r\n\r\n\n")
    assert rows.read([path]) == [make()]


def test_a_torn_last_line_is_dropped_row_17(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = json.dumps(make("p1")).encode() + b"\n"
    torn = json.dumps(make("p2")).encode()
    for cut in (0, 1, 20, len(torn) - 1):
        path.write_bytes(whole + torn[:cut])
        assert rows.read([path]) == [make("p1")]
    path.write_bytes(whole + torn)  # whole, only its line break is lacking
    assert rows.read([path]) == [make("p1"), make("p2")]
    path.write_bytes(whole + torn[:20] + b"\n")  # not torn: something else broke it
    assert f"{path}:2: not JSON" in error_of(path)
    path.write_bytes(whole + b"\x00" * 4096)  # what some file systems leave after a power cut
    assert rows.read([path]) == [make("p1")]


def test_a_second_row_replaces_a_failed_one_and_only_that(tmp_path):
    path = tmp_path / "a.jsonl"
    for status in rows.FAILED:
        assert rows.read([save(path, failed(status=status), make())]) == [make()]
    assert rows.read([save(path, failed(), failed(status="video_error"))])[0]["status"] == (
        "video_error"
    )
    assert rows.read([save(path, make(), make())]) == [make()]
    for second in (make(margin=2.0), failed()):
        text = error_of(save(path, make("p1"), make(), second))
        assert text.startswith(f"{path}:3: a different row of the same key m|r|base|0.0|s0|p0|")


def test_shards_merge_and_an_answered_row_wins_over_a_failed_one_in_either_order(tmp_path):
    one, two = rows.shard_path(tmp_path, 0, 2), rows.shard_path(tmp_path, 1, 2)
    assert one.name == "predictions-00000-of-00002.jsonl"
    save(one, failed("p0"), make("p1"))
    save(two, make("p0"), failed("p1"), make("p2"))
    expected = [make("p0"), make("p1"), make("p2")]
    assert rows.merge(tmp_path) == expected
    assert rows.merge(tmp_path / "predictions-*.jsonl") == expected
    assert rows.merge(one) == [failed("p0"), make("p1")]
    save(two, make("p1", margin=3.0))
    with pytest.raises(UserError, match=r"00001-of-00002.jsonl:1: a different row"):
        rows.merge(tmp_path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no prediction file matches .*x-"):
        rows.merge(tmp_path / "x-*.jsonl")
    with pytest.raises(OSError, match=r"can't read .*nothing.jsonl: No such file"):
        rows.read([tmp_path / "nothing.jsonl"])


def test_a_file_name_with_brackets_is_a_file(tmp_path):
    assert rows.merge(save(tmp_path / "a[1].jsonl", make())) == [make()]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_margins_come_back_as_the_same_float(margin):
    line = json.dumps(make(margin=np.float32(margin)), default=rows._plain)
    assert np.float32(rows._parse(line.encode())["margin"]) == np.float32(margin)


def test_writer_appends_numpy_values_and_reads_back(tmp_path):
    path = tmp_path / "new" / "a.jsonl"
    row = make(margin=np.float32(0.1), label=np.int32(1), frame_indices=np.arange(3))
    with rows.RowWriter(path) as writer:
        assert writer.write([row, make("p1", answer="Ja \ud800\u2028 Yes")]) == 2
        assert writer.write([row]) == 0
        assert writer.write([]) == 0
        in_memory = list(writer.rows.values())
    assert rows.read([path]) == in_memory
    assert in_memory[0]["margin"] == float(np.float32(0.1))
    assert in_memory[0]["frame_indices"] == [0, 1, 2]
    assert len(path.read_bytes().split(b"\n")) == 3


def test_writer_refuses_what_contradicts_and_writes_nothing_of_that_batch(tmp_path):
    path = tmp_path / "a.jsonl"
    with rows.RowWriter(path) as writer:
        writer.write([make("p0"), failed("p1")])
        before = path.read_bytes()
        for bad in (
            make("p0", margin=9.0),
            failed("p0"),
            make("p5", margin=math.nan),
            make("p5", label=0),
            make("p5", note={1, 2}),
        ):
            with pytest.raises(UserError, match=r"a.jsonl: row m\|r\|base\|0.0\|s0\|p"):
                writer.write([make("p4"), bad])
            assert path.read_bytes() == before
        assert writer.write([make("p1"), make("p4")]) == 2
    assert rows.done_keys(rows.read([path])) == {rows.key(make(p)) for p in ("p0", "p1", "p4")}


def test_failed_rows_are_not_done():
    unparsed = make("p2", answer="?", label=None, status="unparsed")
    done = rows.done_keys([make("p0"), failed("p1"), unparsed])
    assert done == {rows.key(make("p0")), rows.key(unparsed)}


def test_writer_drops_a_torn_last_line_on_resume_row_17(tmp_path):
    path = tmp_path / "a.jsonl"
    with rows.RowWriter(path) as writer:
        writer.write([make("p0"), make("p1")])
    full = path.read_bytes()
    first = full.index(b"\n") + 1
    for cut in range(first, len(full) - 1, 37):
        path.write_bytes(full[:cut])
        with rows.RowWriter(path) as writer:
            assert len(writer.rows) == 1
            assert path.read_bytes() == full[:first]
            writer.write([make("p0"), make("p1")])
        assert path.read_bytes() == full
    path.write_bytes(full[:-1])  # only the line break is lacking
    with rows.RowWriter(path) as writer:
        assert len(writer.rows) == 2
        writer.write([make("p0"), make("p1")])
    assert path.read_bytes() == full


def test_resumed_after_sigkill_equals_uninterrupted_row_17(tmp_path):
    """A writer killed with its batch half written: nothing before is lost, the rest is redone."""
    script = """
import os, signal, sys
sys.path[:0] = ["tests/runs", "."]
from test_rows import make
from cctv.runs import rows
writer = rows.RowWriter(sys.argv[1])
kill_at, write = int(sys.argv[2]), os.write
def half(fd, data):
    if len(writer.rows) == kill_at:
        write(fd, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(fd, data)
os.write = half
for i in range(0, 6, 2):
    writer.write([make(f"p{i}"), make(f"p{i + 1}")])
"""
    whole = tmp_path / "whole.jsonl"
    with rows.RowWriter(whole) as writer:
        writer.write(make(f"p{i}") for i in range(6))
    path = tmp_path / "a.jsonl"
    for kill_at in (2, -1):
        done = subprocess.run([sys.executable, "-c", script, path, str(kill_at)], cwd=ROOT)
        assert done.returncode == (-signal.SIGKILL if kill_at > 0 else 0)
        assert len(rows.read([path])) == (3 if kill_at > 0 else 6)
    assert path.read_bytes() == whole.read_bytes()


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    """A file size limit stands for the disk: the write is cut in the middle of a row."""
    path = tmp_path / "a.jsonl"
    with rows.RowWriter(path) as writer:
        writer.write([make("p0")])
        before = path.read_bytes()
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, old[1]))
        try:
            with pytest.raises(OSError, match=r"can't write .*a.jsonl: File too large") as caught:
                writer.write([make("p1"), make("p2")])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        assert caught.value.errno == errno.EFBIG
        assert path.read_bytes() == before
        assert writer.write([make("p1")]) == 1
    assert rows.read([path]) == [make("p0"), make("p1")]


def test_a_full_disk_that_cannot_even_be_taken_back_leaves_a_torn_last_line(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with rows.RowWriter(path) as writer:
        writer.write([make("p0")])
        write = os.write
        steps = iter([lambda fd, data: write(fd, data[:50]), no_space])
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: next(steps)(fd, data))
            patch.setattr(os, "ftruncate", no_space)
            with pytest.raises(OSError, match="No space left") as caught:
                writer.write([make("p1")])
        assert str(path) in str(caught.value)
    assert rows.read([path]) == [make("p0")]
    with rows.RowWriter(path) as writer:
        writer.write([make("p1")])
    assert rows.read([path]) == [make("p0"), make("p1")]


def test_a_workdir_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"can't write .*file/a.jsonl"):
        rows.RowWriter(tmp_path / "file" / "a.jsonl")
    (tmp_path / "b.jsonl").mkdir()
    with pytest.raises(OSError, match=r"can't write .*b.jsonl: Is a directory"):
        rows.RowWriter(tmp_path / "b.jsonl")


def test_json_is_written_whole_with_null_for_nan(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    value = {"b": np.float64("nan"), "a": [1.5, math.inf, np.int64(3), ()], "c": "é"}
    rows.write_json(path, value)
    assert json.loads(path.read_text()) == {"b": None, "a": [1.5, None, 3, []], "c": "é"}
    before = path.read_bytes()
    rows.write_json(path, value)
    assert path.read_bytes() == before

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match=r"can't write .*m.json: No space left"):
        rows.write_json(path, {"a": 2})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.json"]
