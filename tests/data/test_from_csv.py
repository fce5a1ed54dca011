"""A table of questions and a folder of videos become a data set, or every bad row is named."""

import csv
import io
import shutil
import subprocess
import sys

import clips
import pytest

from cctv.data import from_csv, schema, validate
from cctv.data.errors import UserError
from cctv.data.from_csv import convert, read_table
from cctv.data.schema import DataError

pytestmark = pytest.mark.slow

HEADER = [*from_csv.REQUIRED, "split_time", "anomaly_type"]


def row(scene="1", **changes):
    cells = {
        "scene_id": scene,
        "positive_video": f"{scene}/pos.mp4",
        "negative_video": f"{scene}/neg.MP4",
        "category": "event",
        "positive_question": "Did the car, a red one, hit the van?",
        "negative_question": 'Did the "van" hit a wall?',
        **changes,
    }
    return [cells.get(name, "") for name in HEADER]


def text_of(rows, delimiter=","):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue()


@pytest.fixture
def table(tmp_path, clip):
    """table(rows or bytes) -> the table's path, beside the videos of scenes 1 and 2."""
    for scene in ("1", "2"):
        (tmp_path / "in" / scene).mkdir(parents=True)
        for name in ("pos.mp4", "neg.MP4"):
            clips.copy(clip("h264.mp4"), tmp_path / "in" / scene / name, note=scene + name)

    def make(content):
        if not isinstance(content, bytes):
            content = text_of([HEADER, *content]).encode()
        (tmp_path / "in" / "table.csv").write_bytes(content)
        return tmp_path / "in" / "table.csv"

    return make


GOOD = [
    row("1", split_time="1.2", anomaly_type="rear_end"),
    row("1", category="Key entity", positive_video="", negative_video=""),
    row("2", category="spatial-temporal", positive_question="Zwei\nZeilen – ö?"),
]


def test_the_result_is_a_valid_data_set(table, tmp_path):
    made = convert(table(GOOD), tmp_path / "out")
    assert made.new
    assert made.warnings == ()
    assert validate.validate(tmp_path / "out") == []
    data = schema.load(tmp_path / "out")
    assert data == made.dataset
    one, two = data.scenes
    assert (one.scene_id, one.source, one.view) == ("1", "unknown", "driving")
    assert (one.split_time, one.anomaly_type) == (1.2, "rear_end")
    assert [q.pair_id for q in one.questions] == ["1-00", "1-01"]
    assert [q.category for q in one.questions] == ["event", "key_entity"]
    assert two.questions[0].category == "spatial_temporal"
    assert two.questions[0].positive == "Zwei\nZeilen – ö?"
    assert two.questions[0].negative == 'Did the "van" hit a wall?'
    assert two.split_time is None
    assert dict(two.videos) == {
        "positive": "videos/2_positive.mp4",
        "negative": "videos/2_negative.mp4",
    }
    copied = (tmp_path / "out/videos/2_negative.mp4").read_bytes()
    assert copied == (tmp_path / "in/2/neg.MP4").read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_same_again_is_fine_and_anything_else_there_is_refused(table, tmp_path):
    path, out = table(GOOD), tmp_path / "out"
    out.mkdir()
    first = convert(path, out)
    again = convert(path, out)
    assert (first.new, again.new) == (True, False)
    assert again.dataset == first.dataset
    (out / "note.txt").write_text("mine")
    with pytest.raises(UserError, match="already holds something else"):
        convert(path, out)
    (out / "note.txt").unlink()
    with pytest.raises(UserError, match="already holds something else"):
        convert(table(GOOD[:2]), out)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="already holds something else"):
        convert(path, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


SPREADSHEETS = {
    "utf-8 with mark": text_of([HEADER, *GOOD]).encode("utf-8-sig"),
    "semicolons": text_of([HEADER, *GOOD], ";").encode(),
    "tabs in utf-16": text_of([HEADER, *GOOD], "\t").encode("utf-16"),
    "sep line": ("sep=;\r\n" + text_of([HEADER, *GOOD], ";")).encode("utf-8-sig"),
    "blank rows and columns": text_of(
        [[*HEADER, "", ""], [""] * 9, *[[*r, "", ""] for r in GOOD], [], [""] * 10]
    ).encode(),
    "unix line ends": text_of([HEADER, *GOOD]).replace("\r\n", "\n").encode(),
    "titles": text_of([[" " + n.replace("_", " ").title() for n in HEADER], *GOOD]).encode(),
    "decimal comma": text_of([HEADER, row("1", split_time="1,2")], ";").encode(),
}


@pytest.mark.parametrize("content", SPREADSHEETS.values(), ids=SPREADSHEETS)
def test_what_spreadsheets_write(table, tmp_path, content):
    data = convert(table(content), tmp_path / "out", view="roadside").dataset
    assert data.scenes[0].split_time == 1.2
    assert data.scenes[0].view == "roadside"
    if len(data.scenes) == 2:
        assert sum(len(s.questions) for s in data.scenes) == 3


def test_every_bad_row_is_named_and_nothing_is_written(table, tmp_path, clip):
    shutil.copyfile(clip("text.mp4"), tmp_path / "in/2/neg.MP4")
    path = table(
        [
            row("1"),
            row("1", category="when", positive_question="A\nB?"),
            row("1", negative_question=""),
            row("1", negative_question="did the car, a RED one, hit the van? "),
            row("1", positive_video="2/pos.mp4"),
            row("2", split_time="soon"),
            row("3"),
            row("", category=""),
            row("4", positive_video="", negative_video="1/neg.MP4"),
        ]
    )
    with pytest.raises(DataError) as caught:
        convert(path, tmp_path / "out")
    found = [(int(p.where.rpartition(":")[2]), p.message) for p in caught.value.problems]
    expected = [
        (3, "unknown category 'when'"),
        (5, "negative_question is empty"),
        (6, "the positive and negative question are equal"),
        (7, "positive_video '2/pos.mp4' differs from '1/pos.mp4'"),
        (8, "split_time 'soon'"),
        (8, f"{tmp_path}/in/2/neg.MP4: can't be decoded"),
        (9, f"{tmp_path}/in/3/pos.mp4: no such video file"),
        (9, f"{tmp_path}/in/3/neg.MP4: no such video file"),
        (10, "scene_id is empty"),
        (10, "category is empty"),
        (11, "positive_video is empty"),
    ]
    assert [line for line, _ in found] == [line for line, _ in expected]
    for (_, message), (_, start) in zip(found, expected):
        assert message.startswith(start)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no rows below a header"),
        (b"scene_id,category\n1,event\n", "1: the table lacks the column 'positive_video'"),
        (text_of([[*HEADER, "vieww"], row()]).encode(), "unknown column 'vieww'"),
        (text_of([[*HEADER, "category"], row()]).encode(), "has twice the column 'category'"),
        (text_of([HEADER]).encode(), "no rows below a header"),
        (text_of([HEADER, [*row(), "x"]]).encode(), ":2: 9 cells for 8 columns"),
        (text_of([HEADER, row()]).encode() + b'1,"open', "not a table"),
        (b"\xff\x00\x81", "not UTF-8"),
        (text_of([HEADER, row(category="é")]).encode("latin-1"), "save it as CSV UTF-8"),
    ],
)
def test_what_is_no_table(table, content, message):
    with pytest.raises(UserError) as caught:
        read_table(table(content))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_names_that_would_give_the_same_file(table, tmp_path):
    (tmp_path / "in" / "a b").symlink_to("1")
    (tmp_path / "in" / "A_B").symlink_to("2")
    with pytest.raises(DataError, match="too much like 'a b'"):
        convert(table([row("a b"), row("A_B")]), tmp_path / "out")


def test_pair_ids_are_unique(table, tmp_path):
    header = [*HEADER, "pair_id"]
    rows = [[*row("1"), "x"], [*row("2"), "x"]]
    with pytest.raises(DataError, match="duplicate pair_id 'x', first in line 2"):
        convert(table(text_of([header, *rows]).encode()), tmp_path / "out")


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "cctv.data.from_csv", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_the_command(table, tmp_path):
    path, out = table(GOOD), tmp_path / "a" / "out"
    result = command(path, f"--out={out}", f"--videos={tmp_path / 'in'}")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{out}: 2 scenes, 3 question pairs, written\n"
    result = command(path, f"--out={out}")
    assert result.stdout == f"{out}: 2 scenes, 3 question pairs, already there\n"
    result = command(table([row("1", category="x"), row("9")]), f"--out={tmp_path / 'b'}")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 4
    assert not (tmp_path / "b").exists()


def test_wrong_use_is_one_line(tmp_path):
    for arguments in ([], ["t.csv"], ["t.csv", "--out=x", "--view=drone"], ["t.csv", "--otu=x"]):
        result = command(*arguments)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1
    result = command(tmp_path / "none.csv", f"--out={tmp_path / 'out'}")
    assert result.returncode == 1
    assert "none.csv" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    help_text = command("--help").stdout
    assert all(name in help_text for name in (*from_csv.REQUIRED, *from_csv.OPTIONAL, "--videos"))
