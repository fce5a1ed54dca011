"""A file is replaced as a whole or stays as it was."""

import os

import pytest

from cctv.data import files


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.json"
    files.write_text(path, "first\n")
    files.write_text(path, "zweite Zeile: ü\n")
    assert path.read_bytes() == "zweite Zeile: ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_names_it(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    files.write_text(path, "first")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"can't write .*a\.json: No space left"):
        files.write_text(path, "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_utf8_can_not_hold(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        files.write_text(tmp_path / "a", "\ud800")
    assert not list(tmp_path.iterdir())
    files.write_text(tmp_path / "a", "\ud800", errors="replace")
    assert (tmp_path / "a").read_text() == "?"
