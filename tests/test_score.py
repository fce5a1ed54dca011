"""The command that recomputes everything from rows alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cctv.data.schema import CELLS

ROOT = Path(__file__).parents[1]
CELL = '"scene_id":"s0","pair_id":"s0-0","video":"positive","question":"positive"'


@pytest.fixture
def folder(tmp_path):
    """Annotations without videos, and rows of another program: ids, cell and answer."""
    scenes, rows = [], []
    for i in range(4):
        scenes.append(
            {"scene_id": f"s{i}", "source": "x", "view": "driving", "anomaly_type": "rear_end"}
            | {"videos": {"positive": f"{i}p.mp4", "negative": f"{i}n.mp4"}, "metadata": {}}
            | {
                "questions": [
                    {
                        "pair_id": f"s{i}-{k}",
                        "category": "event",
                        "positive": "A?",
                        "negative": "B?",
                    }
                    for k in range(2)
                ]
            }
        )
        for k in range(2):
            for j, (video, question) in enumerate(CELLS):
                answer = "Yes." if j == 0 and i else "no, not at all"
                rows.append(
                    {"scene_id": f"s{i}", "pair_id": f"s{i}-{k}", "video": video}
                    | {"question": question, "answer": answer}
                )
    write(tmp_path / "scenes.jsonl", scenes)
    write(tmp_path / "rows.jsonl", rows)
    return tmp_path


def write(path, items):
    path.write_text("".join(json.dumps(item) + "\n" for item in items))


def score(folder, *more, annotations=None, predictions=None):
    command = [sys.executable, "-m", "cctv.score"]
    command += [f"--annotations={annotations or folder}"]
    command += [f"--predictions={predictions or folder / 'rows.jsonl'}", *more]
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert "Traceback" not in done.stderr
    return done


def test_tables_and_metrics_from_foreign_rows_without_videos(folder):
    out = folder / "metrics.json"
    done = score(folder, f"--output={out}", "--replicates=100", "--seed=3")
    assert (done.returncode, done.stderr) == (0, "")
    assert "QuadAcc" in done.stdout
    assert "unknown base" in done.stdout
    metrics = json.loads(out.read_text())
    assert metrics["bootstrap"] == {"replicates": 100, "seed": 3, "unit": "scene"}
    (system,) = metrics["systems"]
    assert (system["model"], system["run"], system["method"], system["alpha"]) == (
        "unknown",
        "",
        "base",
        0,
    )
    assert system["metrics"]["quad_acc"]["value"] == 75
    before = out.read_bytes()
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "b-1.jsonl").write_text("".join(lines[20:]))
    (folder / "b-2.jsonl").write_text("".join(reversed(lines[:20])))
    done = score(
        folder,
        *(f"--output={out}", "--replicates=100", "--seed=3"),
        annotations=folder / "scenes.jsonl",
        predictions=folder / "b-*.jsonl",
    )
    assert done.returncode == 0
    assert out.read_bytes() == before


def test_perfect_and_constant_systems_in_one_scene(folder):
    """Every number is defined or null: none of them is NaN, and nothing fails."""
    line = (folder / "scenes.jsonl").read_text().splitlines()[0]
    write(folder / "scenes.jsonl", [json.loads(line)])
    systems = {
        "perfect": (3, -3, -3, -3),
        "yes": (1, 1, 1, 1),
        "no": (-1, -1, -1, -1),
        "zero": (0, 0, 0, 0),
    }
    rows = [
        {"scene_id": "s0", "pair_id": f"s0-{k}", "video": video, "question": question}
        | {"model": name, "label": int(margins[j] > 0), "margin": margins[j]}
        for name, margins in systems.items()
        for k in range(2)
        for j, (video, question) in enumerate(CELLS)
    ]
    write(folder / "rows.jsonl", rows)
    done = score(folder, f"--output={folder / 'metrics.json'}", "--replicates=20")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nan" not in done.stdout
    found = {s["model"]: s for s in json.loads((folder / "metrics.json").read_text())["systems"]}
    aurocs = {name: s["threshold_free"]["metrics"]["auroc"]["value"] for name, s in found.items()}
    assert aurocs == {"perfect": 100, "yes": 50, "no": 50, "zero": 50}
    for name, system in found.items():
        quad = {"value": 100 * (name == "perfect"), "n_undefined": 0}
        assert system["metrics"]["quad_acc"].items() >= quad.items()
        (group,) = system["breakdowns"]["anomaly_type"]
        assert (group["group"], group["n_pairs"], group["n_scenes"]) == ("rear_end", 2, 1)
        assert group["small"]
        assert system["threshold_free"]["threshold"] == {"quad_acc": None, "ba_acc": None}
    assert found["perfect"]["metrics"]["pos_omiss"]["value"] is None
    assert done.stdout.count("one scene, so there are no others") == 4


def test_lacking_quadruples_show_as_coverage_row_5(folder):
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join(lines[4:]))
    done = score(folder, "--replicates=10")
    assert done.returncode == 0
    assert "87.50 %" in done.stdout
    assert "s0 s0-0: (v+, q+) no row" in done.stdout


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rows.jsonl", "", "rows.jsonl: no prediction rows"),
        ("rows.jsonl", "{}\n", "rows.jsonl:1: scene_id must be a text"),
        ("scenes.jsonl", "{}\n", "scenes.jsonl:1: "),
        ("scenes.jsonl", None, "scenes.jsonl"),
        ("rows.jsonl", None, "no prediction file matches"),
        (
            "rows.jsonl",
            '{"scene_id":"z","pair_id":"p","video":"positive","question":"positive","label":1}\n',
            "no annotated pair for 1 of the rows, first scene 'z'",
        ),
        (
            "rows.jsonl",
            f'{{{CELL},"label":2}}\n',
            "rows.jsonl:1: label must be 1, 0 or null, got 2",
        ),
        ("rows.jsonl", f'{{{CELL},"label":1,"margin":NaN}}\n', "rows.jsonl:1: NaN is not allowed"),
        (
            "rows.jsonl",
            f'{{{CELL},"label":1,"margin":1e999}}\n',
            "rows.jsonl:1: margin must be a finite number or null, got inf",
        ),
    ],
)
def test_wrong_input_is_one_line(folder, name, text, words):
    path = folder / name
    path.unlink() if text is None else path.write_text(text)
    done = score(folder)
    assert done.returncode in ((1, 2) if text is None else (2,))  # 1: no such file
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    "flag", ["--replicates=0", "--seed=x", "--sed=1", "extra", "--predictions="]
)
def test_wrong_use_is_one_line(folder, flag):
    done = score(folder, flag)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_output_that_cannot_be_written_is_one_line(folder):
    done = score(folder, f"--output={folder}/no/metrics.json", "--replicates=10")
    assert done.returncode == 1
    assert "can't write" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help(folder):
    done = score(folder, "--help")
    assert done.returncode == 0
    assert "--replicates" in done.stdout
    assert "no model, no videos" in done.stdout


def test_rows_of_runs_that_differ_are_not_mixed(folder):
    """cases.md 22; tests/runs/test_manifest.py has what may differ."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for name, part, dtype in (("a", rows[:16], "float32"), ("b", rows[16:], "bfloat16")):
        (folder / name).mkdir()
        write(folder / name / "predictions-00000-of-00001.jsonl", part)
        identity = {"model": {"id": "unknown", "dtype": dtype}, "run": ""}
        manifest = {"identity": identity, "provenance": {"invocations": []}}
        (folder / name / "manifest.json").write_text(json.dumps(manifest))
    done = score(folder, "--replicates=10", predictions=folder / "*" / "predictions-*.jsonl")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert 'model.dtype is "float32"' in line
    assert "b/manifest.json" in line
    assert score(folder, "--replicates=10", predictions=folder / "a").returncode == 0


def test_a_terminal_without_greek_shows_the_table_all_the_same(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    write(folder / "rows.jsonl", [r | {"method": "c_tcd", "alpha": 0.5} for r in rows])
    command = [sys.executable, "-m", "cctv.score", f"--annotations={folder}"]
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*command, f"--predictions={folder / 'rows.jsonl'}"],
        cwd=ROOT,
        capture_output=True,
        encoding="latin-1",
        env=env,
    )
    assert done.returncode == 0, done.stderr
    assert "?=0.5" in done.stdout
