"""The data set folder: valid, complete, finished after a kill, closed to foreign folders."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cctv.data import schema, video
from cctv.data.errors import UserError
from cctv.world import generate
from cctv.world.accident import KINDS
from cctv.world.card import card_markdown, card_text
from cctv.world.checker import check

ROOT = Path(__file__).parents[2]
SMALL = {"scenes": 2, "seed": 3, "size": (64, 36), "fps": 5, "duration": 5.0, "difficulty": "easy"}
FLAGS = ("--scenes=2", "--seed=3", "--size=64x36", "--fps=5", "--duration=5", "--difficulty=easy")


def contents(folder):
    """Relative path -> bytes of every file."""
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("world") / "set"
    generate(out, **SMALL)
    return out


def command(*arguments):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "cctv.world", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def test_the_folder_is_a_valid_data_set(folder):
    data = schema.load(folder)
    assert [s.scene_id for s in data.scenes] == [f"world-3-{i:05d}" for i in range(2)]
    assert {s.source for s in data.scenes} == {"cctv-world"}
    assert {s.view for s in data.scenes} == {"roadside", "driving"}
    assert {s.anomaly_type for s in data.scenes} < set(KINDS)
    for scene in data.scenes:
        assert scene.split_time == scene.metadata["branch"]
        assert set(scene.segments) == {"base", "key_frames", "contrastive"}
        for side in schema.SIDES:
            info = video.probe(data.video_path(scene, side))
            assert (info.num_frames, info.width, info.height) == (25, 64, 36)
    names = ["card.md", "scenes.jsonl", "videos", "world.json"]
    assert sorted(p.name for p in folder.iterdir()) == names
    records = [json.loads(line) for line in (folder / "scenes.jsonl").read_text().splitlines()]
    assert [check(r) for r in records] == [[], []]


def test_the_card_counts_what_is_there(folder):
    card = json.loads((folder / "world.json").read_text())["card"]
    scenes = schema.load(folder).scenes
    for name in ("kinds", "views", "layouts", "looks", "causes", "interventions", "durations"):
        assert sum(card[name].values()) == 2, name
    assert sum(card["types"].values()) == sum(len(s.metadata["actors"]) for s in scenes)
    assert (
        card["pairs"] == sum(len(s.questions) for s in scenes) == sum(card["categories"].values())
    )
    assert set(card["categories"]) == set(schema.CATEGORIES)
    assert card["draws"] == 2 + sum(card["rejected"].values())
    contacts = [s.metadata["contact"]["time"] for s in scenes]
    assert card["contact_time"][::2] == [round(t, 4) for t in (min(contacts), max(contacts))]
    assert card["difficulty"] == "easy"
    text, page = card_text(card), (folder / "card.md").read_text()
    assert page == card_markdown(card)
    assert "2 scenes, 4 videos" in text
    for line in text.splitlines():
        assert line[14:] in page
    for kind in card["kinds"]:
        assert kind in text


def test_a_contact_sheet_shows_frames_and_questions(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "set")
    generate(tmp_path / "set", **SMALL, sheet=True)
    made = sorted((tmp_path / "set/sheets").iterdir())
    assert [p.stem for p in made] == [s.scene_id for s in schema.load(folder).scenes]
    after = contents(tmp_path / "set")
    assert {k: v for k, v in after.items() if not k.startswith("sheets")} == contents(folder)
    record = json.loads((folder / "scenes.jsonl").read_text().splitlines()[0])
    sheet = np.array(Image.open(made[0]))
    assert sheet.shape[1] == 6 * 306 + 6
    # At the contact the rows differ, at the start they don't.
    tops = [40 + 20 + 12 + k * (169 + 26) for k in (0, 1)]
    rows = [sheet[y : y + 169].astype(int) for y in tops]
    assert np.abs(rows[0][:, 6:306] - rows[1][:, 6:306]).max() < 12
    assert (
        np.abs(rows[0][:, 6 + 4 * 306 :][:, :300] - rows[1][:, 6 + 4 * 306 :][:, :300]).max() > 60
    )
    assert sheet.shape[0] > tops[1] + 169 + 40 * len(record["questions"])


def test_the_same_arguments_again_change_nothing(folder):
    before = contents(folder)
    times = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    generate(folder, **SMALL)
    assert contents(folder) == before
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == times


def test_a_lost_video_is_made_again(folder):
    before = contents(folder)
    (folder / "videos/world-3-00001_neg.mp4").unlink()
    generate(folder, **SMALL)
    assert contents(folder) == before


@pytest.mark.slow
def test_two_processes_make_the_same_folder(folder, tmp_path):
    generate(tmp_path / "set", **SMALL, workers=2)
    assert contents(tmp_path / "set") == contents(folder)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [0, 1])
def test_killed_and_resumed_is_as_uninterrupted(folder, tmp_path, parts):
    out = tmp_path / "set"
    arguments = (f"--out={out}", *FLAGS, "--workers=1")
    process = command(*arguments)
    deadline = time.monotonic() + 60
    while len(list(out.glob(".parts/*.json"))) < parts or not (out / "videos").is_dir():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (out / "scenes.jsonl").exists()
    for path in (out / "videos").glob("[!.]*.mp4"):  # what has its final name is whole
        assert video.probe(path).num_frames == 25
    resumed = command(*arguments)
    stdout, stderr = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, stderr
    assert "2 scenes, 4 videos" in stdout
    assert contents(out) == contents(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenes": 0}, "scenes=0"),
        ({"seed": -1}, "seed=-1"),
        ({"size": (62, 36)}, "size=62x36"),
        ({"size": (320, 181)}, "size=320x181"),
        ({"size": (100000, 180)}, "size=100000x180"),
        ({"fps": 0}, "fps=0"),
        ({"fps": float("nan")}, "fps=nan"),
        ({"duration": 1}, "duration=1"),
        ({"difficulty": "brutal"}, "difficulty=brutal: one of easy, medium, hard"),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, change, message):
    with pytest.raises(UserError, match=message) as error:
        generate(tmp_path / "set", **{**SMALL, **change})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "set").exists()


def test_folders_that_hold_something_else(folder, tmp_path):
    before = contents(folder)
    for change in (
        {"seed": 4},
        {"scenes": 4},
        {"size": (64, 38)},
        {"duration": 7.0},
        {"difficulty": "hard"},
    ):
        with pytest.raises(UserError, match=f"{next(iter(change))}="):
            generate(folder, **{**SMALL, **change})
    assert contents(folder) == before
    (tmp_path / "mine.txt").write_text("hello")
    with pytest.raises(UserError, match="holds something else"):
        generate(tmp_path, **SMALL)
    with pytest.raises(UserError, match="is a file"):
        generate(tmp_path / "mine.txt", **SMALL)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/world.json").write_text("[1, 2")
    with pytest.raises(UserError, match="not of the built-in world"):
        generate(tmp_path / "other", **SMALL)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "other"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenes=1",), "--out=DIR and --scenes=N are needed"),
        (("--out=x", "--scenes=1", "--size=big"), "--size=big"),
        (("--out=x", "--scenes=0"), "scenes=0"),
        (("--out=x", "--scenes=1", "--difficulty=none"), "difficulty=none"),
        (("--out=x", "--scenes=two"), "scenes"),
        (("--out=x", "--scenes=1", "--sceness=2"), "sceness"),
        (("--out=x", "--scenes=1", "extra"), "extra"),
        (("--out=/dev/null/x", "--scenes=1"), "/dev/null"),
    ],
)
def test_wrong_use_of_the_command_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = command(*arguments)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode in (1, 2)
    assert stdout == ""
    assert len(stderr.strip().splitlines()) == 1
    assert message in stderr
    assert list(tmp_path.iterdir()) == []


def test_help_says_what_it_does():
    stdout, _ = (process := command("--help")).communicate(timeout=60)
    assert process.returncode == 0
    assert "Writes a data set folder" in stdout
    assert all(flag in stdout for flag in ("--scenes", "--difficulty", "--sheet"))
