"""The comparison of runs from their rows: what is refused, what is left out, what is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cctv.data.errors import UserError
from cctv.data.schema import CELLS
from cctv.metrics import quadruples
from cctv.runs import compare

ROOT = Path(__file__).parents[1]
FAST = {"replicates": 50, "permutations": 50}


def scene(i, *, pairs=2, text="A?"):
    questions = [
        {"pair_id": f"s{i}-{k}", "category": "event", "positive": text, "negative": "B?"}
        for k in range(pairs)
    ]
    return {
        "scene_id": f"s{i}",
        "source": "x",
        "view": "driving",
        "anomaly_type": "rear_end",
        "videos": {"positive": f"{i}p.mp4", "negative": f"{i}n.mp4"},
        "questions": questions,
    }


def rows_of(scenes, *, wrong=(), **more):
    """A system that is right but for the scenes in `wrong`, where it always says No."""
    return [
        {"scene_id": s["scene_id"], "pair_id": q["pair_id"], "video": video, "question": question}
        | {"label": int(j == 0 and s["scene_id"] not in wrong), **more}
        for s in scenes
        for q in s["questions"]
        for j, (video, question) in enumerate(CELLS)
    ]


def write(path, items):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return str(path)


@pytest.fixture
def data(tmp_path):
    """Annotations of six scenes; rows of two models, b worse than a in scenes s0 to s3."""
    scenes = [scene(i) for i in range(6)]
    write(tmp_path / "scenes.jsonl", scenes)
    write(tmp_path / "a.jsonl", rows_of(scenes, model="a"))
    write(tmp_path / "b.jsonl", rows_of(scenes, model="b", wrong=["s0", "s1", "s2", "s3"]))
    return tmp_path


def compared(data, *names, **options):
    options = {"annotations": str(data), **FAST, **options}
    return compare.compare([str(data / name) for name in names], **options)


def run_folder(path, scenes, rows):
    """A run folder with its own annotations, named by its config."""
    write(path / "scenes.jsonl", scenes)
    write(path / "predictions-00000-of-00001.jsonl", rows)
    config = {"data": {"path": str(path), "workers": 1}}
    (path / "config.json").write_text(json.dumps(config))
    return path.name


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "cctv.compare", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert "Traceback" not in done.stderr
    return done


def test_command_prints_and_writes_row_18(data):
    out = data / "c.json"
    arguments = [data / "a.jsonl", data / "b.jsonl", f"--annotations={data}", f"--output={out}"]
    done = command(*arguments, "--replicates=100", "--permutations=2000")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a base − b base" in done.stdout
    assert "12 pairs of 6 scenes" in done.stdout
    found = json.loads(out.read_text())
    assert [s["name"] for s in found["systems"]] == ["a||base|0.0", "b||base|0.0"]
    assert set(found["systems"][0]["metrics"]) == set(quadruples.KEYS)
    (quad,) = (c for c in found["comparisons"] if c["metric"] == "quad_acc")
    assert (quad["a"], quad["b"]) == ("a||base|0.0", "b||base|0.0")
    assert quad["difference"] == pytest.approx(400 / 6)
    assert quad["low"] <= quad["difference"] <= quad["high"]
    # All four scenes that differ must be exchanged alike: 2 of 16 permutations.
    assert quad["p"] == pytest.approx(2 / 16, abs=0.03)
    assert found["ranking"]["quad_acc"]["shares"]["a||base|0.0"][0] > 0.9
    assert found["bootstrap"] == {"replicates": 100, "seed": 0, "unit": "scene"}
    before = out.read_bytes()
    assert command(*arguments, "--replicates=100", "--permutations=2000").returncode == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize("more", [["--metric=quadacc"], ["--replicates=0"], ["none.jsonl"]])
def test_wrong_use_is_one_line(data, more):
    done = command(data / "a.jsonl", data / "b.jsonl", f"--annotations={data}", *more)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_systems_inside_one_run_are_compared(data):
    scenes = [scene(i) for i in range(6)]
    rows = rows_of(scenes) + rows_of(scenes, method="c_tcd", alpha=1.0, wrong=["s1"])
    write(data / "c.jsonl", rows)
    found = compared(data, "c.jsonl", metrics=["quad_acc", "quad_acc"])
    (only,) = found["comparisons"]
    assert (only["a"], only["b"]) == ("unknown||base|0.0", "unknown||c_tcd|1.0")
    assert only["difference"] == pytest.approx(100 / 6)


def test_equal_names_are_told_apart_by_their_run(data):
    write(data / "c.jsonl", rows_of([scene(i) for i in range(6)], model="a", wrong=["s5"]))
    found = compared(data, "a.jsonl", "c.jsonl", "b.jsonl", metrics=["quad_acc"])
    names = [s["name"] for s in found["systems"]]
    assert names == [f"{data}/a.jsonl: a||base|0.0", f"{data}/c.jsonl: a||base|0.0", "b||base|0.0"]
    text = "\n".join(map(str, compare.as_tables(found)))
    assert "c.jsonl: a base" in text


def test_failed_cells_are_left_out_in_all_and_counted(data):
    lines = (data / "b.jsonl").read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"label": None, "status": "video_error"})
    (data / "b.jsonl").write_text("\n".join(lines) + "\n")
    found = compared(data, "a.jsonl", "b.jsonl")
    assert (found["n_pairs"], found["n_incomplete"], found["n_not_common"]) == (11, 1, 0)
    assert found["systems"][0]["metrics"]["quad_acc"]["value"] == 100


def test_other_pairs_are_refused_or_left_out_when_asked(data):
    write(data / "c.jsonl", rows_of([scene(i) for i in range(3)], model="c"))
    with pytest.raises(UserError, match=r"differ in the pairs that were asked \(6, first s3 s3-0"):
        compared(data, "a.jsonl", "c.jsonl")
    found = compared(data, "a.jsonl", "c.jsonl", "b.jsonl", intersection=True)
    assert (found["n_scenes"], found["n_pairs"], found["n_not_common"]) == (3, 6, 6)
    notes = str(compare.as_tables(found)[-1])
    assert "6 pairs of 3 scenes" in notes
    assert "6 are not annotated, asked and shown alike in all" in notes


def test_runs_of_other_annotations_are_refused_or_intersected(data):
    one = [scene(i) for i in range(4)]
    two = [scene(0), scene(1, text="C?"), scene(2, pairs=1), scene(3), scene(4)]
    a = run_folder(data / "run_a", one, rows_of(one, model="a"))
    b = run_folder(data / "run_b", two, rows_of(two, model="b"))
    with pytest.raises(UserError, match=r"run_a and .*run_b differ in annotations"):
        compared(data, a, b, annotations=None)
    found = compared(data, a, b, annotations=None, intersection=True)
    assert (found["n_scenes"], found["n_pairs"], found["n_not_common"]) == (3, 5, 5)
    same = run_folder(data / "run_c", one, rows_of(one, model="c"))
    assert compared(data, a, same, annotations=None)["n_pairs"] == 8


def test_runs_on_other_videos_are_refused_or_intersected(data):
    scenes = [scene(i) for i in range(6)]
    rows = [r | {"video_digest": r["scene_id"] + r["video"]} for r in rows_of(scenes, model="a")]
    other = [dict(r, model="c") for r in rows]
    for row in other[:2]:
        row["video_digest"] = "new"
    write(data / "a.jsonl", rows)
    write(data / "c.jsonl", other)
    assert compared(data, "a.jsonl", "b.jsonl")["n_scenes"] == 6  # b doesn't tell
    with pytest.raises(UserError, match=r"differ in videos \(1, first s0 positive"):
        compared(data, "b.jsonl", "a.jsonl", "c.jsonl")
    found = compared(data, "b.jsonl", "a.jsonl", "c.jsonl", intersection=True)
    assert (found["n_scenes"], found["n_pairs"]) == (5, 10)


def test_what_cannot_be_compared_is_one_line(data):
    write(data / "other.jsonl", rows_of([scene(9)]))
    write(data / "empty.jsonl", [])
    write(data / "one.jsonl", rows_of([scene(0)])[:1])
    write(data / "nan.jsonl", [rows_of([scene(0)])[0] | {"margin": float("nan")}])
    write(data / "label.jsonl", [rows_of([scene(0)])[0] | {"label": 2}])
    for names, words in (
        (["a.jsonl"], "only one system"),
        (["a.jsonl", "a.jsonl"], "given twice"),
        (["a.jsonl", "other.jsonl"], "other.jsonl: no annotated pair for 8 of the rows"),
        (["a.jsonl", "empty.jsonl"], "empty.jsonl: no prediction rows"),
        (["a.jsonl", "nan.jsonl"], "NaN is not allowed"),
        (["a.jsonl", "label.jsonl"], "label must be 1, 0 or null"),
        (["a.jsonl", "one.jsonl"], "no question pair is complete in all systems"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            compared(data, *names, intersection=True)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="give --annotations=DIR"):
        compared(data, "a.jsonl", "b.jsonl", annotations=None)
    write(data / "bare" / "predictions-00000-of-00001.jsonl", rows_of([scene(0)]))
    with pytest.raises(UserError, match=r"no config.json names the data"):
        compared(data, "bare", annotations=None)


def test_one_scene_is_defined(data):
    write(data / "c.jsonl", rows_of([scene(0)], model="c"))
    found = compared(data, "a.jsonl", "c.jsonl", "b.jsonl", intersection=True)
    assert found["n_scenes"] == 1
    for c in found["comparisons"]:
        assert c["p"] in (1, None)
        assert c["low"] == c["high"]


def test_perfect_and_constant_systems_in_one_scene_by_command(data):
    write(data / "scenes.jsonl", [scene(0)])
    write(data / "a.jsonl", rows_of([scene(0)], model="a"))
    write(data / "b.jsonl", rows_of([scene(0)], model="b", wrong=["s0"]))
    arguments = [data / "a.jsonl", data / "b.jsonl", f"--annotations={data}"]
    done = command(*arguments, "--replicates=20", "--permutations=20")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nan" not in done.stdout
    (line,) = [text for text in done.stdout.splitlines() if " quad_acc  " in text and "−" in text]
    # One scene can't tell: exchanging it gives the same difference.
    assert line.split()[-7:-3] == ["100.00", "100.00", "100.00", "1.0000"]


def test_help():
    done = command("--help")
    assert done.returncode == 0
    assert "--intersection" in done.stdout
