"""The command that makes the paper's tables and figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cctv.data.schema import CELLS

ROOT = Path(__file__).parents[1]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "cctv.paper", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert "Traceback" not in done.stderr
    return done


def test_rows_of_another_program_in_two_files(tmp_path):
    scene = {"scene_id": "s", "source": "x", "view": "driving", "anomaly_type": "rear_end"}
    scene |= {"videos": {"positive": "p.mp4", "negative": "n.mp4"}}
    scene["questions"] = [
        {"pair_id": "s-0", "category": "event", "positive": "A?", "negative": "B?"}
    ]
    (tmp_path / "scenes.jsonl").write_text(json.dumps(scene) + "\n")
    for name in ("one", "two"):
        rows = [
            {"scene_id": "s", "pair_id": "s-0", "video": video, "question": question}
            | {"label": int(i == 0), "model": name}
            for i, (video, question) in enumerate(CELLS)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    given = [f"--predictions={tmp_path}/{name}.jsonl" for name in ("one", "two")]
    out = tmp_path / "out"
    done = run(*given, f"--annotations={tmp_path}", f"--out={out}", "--replicates=5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "not made: figure 11: no model has rows of more than one method" in done.stdout
    assert f"4 tables and 4 figures in {out}: see README.md" in done.stdout
    assert f"python -m cctv.paper --predictions={tmp_path}/one.jsonl" in (
        (out / "README.md").read_text()
    )
    table = (out / "tables" / "table1_main.md").read_text()
    assert table.count("**100.00** ± 0.00") == 2 * 9


def test_wrong_use_is_one_line():
    done = run("--out=x")
    assert (done.returncode, done.stderr) == (2, "cctv: --predictions is needed (--help)\n")
