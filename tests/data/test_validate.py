"""The validator lists everything that is wrong with a data set at once."""

import json
import shutil
import subprocess
import sys

import clips
import pytest
from test_schema import question, record

from cctv.data import schema, validate
from cctv.data.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, clip):
    """folder(records, names) -> a data set; names: clip of each video that is not h264.mp4."""

    def make(records, names=()):
        (tmp_path / "videos").mkdir()
        for scene in records:
            for text in scene["videos"].values():
                name = dict(names).get(text, "h264.mp4")
                if name == "h264.mp4":
                    clips.copy(clip(name), tmp_path / text, note=text)
                elif name:
                    shutil.copyfile(clip(name), tmp_path / text)
        lines = "".join(json.dumps(r) + "\n" for r in records)
        (tmp_path / "scenes.jsonl").write_text(lines)
        return tmp_path

    return make


def scene(number, **changes):
    """A scene of two clips of 2.4 s."""
    return record(number, split_time=1.2, segments={"base": [0, 1.2]}, **changes)


def listed(problems):
    return [(p.level, int(p.where.rpartition(":")[2]), p.message) for p in problems]


def test_nothing_to_say(folder):
    assert validate.validate(folder([scene(1), scene(2)])) == []


def test_all_errors_and_warnings_are_listed(folder):
    records = [
        scene(1),
        scene(2, view="drone", questions=[question(2, 0, category="x")]),
        scene(3),
        scene(4),
        record(5, split_time=9, segments={"contrastive": [1, 8]}),
        scene(6),
        record(7, split_time=..., segments=...),
    ]
    names = {
        "videos/s0001_pos.mp4": None,
        "videos/s0001_neg.mp4": "empty.mp4",
        "videos/s0002_neg.mp4": "text.mp4",  # of a scene with other errors
        "videos/s0003_pos.mp4": "cut_faststart.mp4",
        "videos/s0004_neg.mp4": "h264_uneven.mp4",
        "videos/s0006_pos.mp4": "sound_only.mp4",
        "videos/s0007_pos.mp4": "h264_one_frame.mp4",
        "videos/s0007_neg.mp4": "h264_one_frame.mp4",
    }  # both files of scene 7 are the same
    root = folder(records, names.items())
    found = listed(validate.validate(root, timeout=30))
    expected = [
        ("error", 1, f"{root}/videos/s0001_pos.mp4: no such video file"),
        ("error", 1, f"{root}/videos/s0001_neg.mp4: an empty file (0 bytes)"),
        ("error", 2, "unknown view 'drone'"),
        ("error", 2, "unknown category 'x'"),
        ("error", 2, f"{root}/videos/s0002_neg.mp4: can't be decoded"),
        ("error", 3, f"{root}/videos/s0003_pos.mp4: is cut off or damaged"),
        ("warning", 4, "scene s0004: the durations differ: 2.40 s and 4.4"),
        ("warning", 5, "scene s0005: split_time 9 s is beyond the end"),
        ("warning", 5, "scene s0005: segment contrastive ends at 8 s"),
        ("error", 6, f"{root}/videos/s0006_pos.mp4: has no video stream"),
        ("warning", 7, "scene s0007: the positive video lasts 0.04 s only"),
        ("warning", 7, "scene s0007: the negative video lasts 0.04 s only"),
        ("warning", 7, "scene s0007: both videos are the same file"),
    ]
    assert [f[:2] for f in found] == [e[:2] for e in expected]
    for (_, _, text), (_, _, start) in zip(found, expected):
        assert text.startswith(start)


def test_every_missing_video_is_listed(folder):
    """As many errors as files, before a model is loaded (and none only because it came first)."""
    records = [scene(i) for i in range(1, 6)]
    missing = [v for r in records[1:] for v in r["videos"].values()]
    root = folder(records, [(v, None) for v in missing])
    found = listed(validate.validate(root))
    assert [text for _, _, text in found] == [f"{root / v}: no such video file" for v in missing]
    assert [line for _, line, _ in found] == [2, 2, 3, 3, 4, 4, 5, 5]


def test_one_file_twice_and_other_sizes(folder):
    same = {"positive": "videos/a.mp4", "negative": "videos/a.mp4"}
    names = [("videos/s0002_pos.mp4", "h264_odd_size.mp4")]
    found = listed(validate.validate(folder([scene(1, videos=same), scene(2)], names)))
    assert found == [
        ("warning", 1, "scene s0001: both videos are the same file: no quadruple can be right"),
        ("warning", 2, "scene s0002: the sizes differ: 97x63 and 96x64"),
    ]


def test_equal_files_under_two_names(folder, clip):
    root = folder([scene(1)])
    for text in ("videos/s0001_pos.mp4", "videos/s0001_neg.mp4"):
        shutil.copyfile(clip("h264.mp4"), root / text)
    (found,) = listed(validate.validate(root))
    assert "the same file" in found[2]


def test_a_pair_that_asks_what_another_asks(folder):
    first = question(1, 0)
    root = folder([scene(1, questions=[first, {**first, "pair_id": "again"}])])
    (found,) = listed(validate.validate(root))
    assert found[:2] == ("warning", 1)
    assert "pair again asks the same as" in found[2]


def test_a_data_set_that_loads_and_one_that_does_not_agree_with_load(folder):
    root = folder([scene(1), scene(1)])
    problems = validate.validate(root)
    with pytest.raises(schema.DataError) as caught:
        schema.load(root)
    assert tuple(problems) == caught.value.problems
    assert isinstance(caught.value, UserError)


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "cctv.data.validate", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_the_command(folder):
    root = folder([scene(1), scene(2)], [("videos/s0002_neg.mp4", "text.mp4")])
    bad = command(root)
    assert bad.returncode == 1
    first, summary = bad.stdout.splitlines()
    assert first.startswith(f"error: {root}/scenes.jsonl:2: {root}/videos/s0002_neg.mp4: ")
    assert summary == f"{root}: 1 errors, 0 warnings"
    assert bad.stderr == ""
    shutil.copyfile(root / "videos/s0001_neg.mp4", root / "videos/s0002_neg.mp4")
    good = command(root, "--workers=1")
    assert (good.returncode, good.stdout) == (0, f"{root}: 0 errors, 0 warnings\n")


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--wrokers=3"], ["a", "--workers=0"]])
def test_wrong_use_is_one_line(arguments):
    result = command(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_help_and_a_folder_that_is_not_there(tmp_path):
    result = command("--help")
    assert result.returncode == 0
    assert "python -m cctv.data.validate DIR" in result.stdout
    assert "--timeout" in result.stdout
    result = command(tmp_path / "none")
    assert result.returncode == 1
    assert "No such file" in result.stdout
