"""The audit command: what it prints and its exit status."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLES = [f"experiments/paper_tables/table{n}.csv" for n in (1, 2)]


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "cctv.audit", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done


def test_possible_is_0():
    done = command(TABLES[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0 of 14 rows are impossible\n"


def test_impossible_is_1_and_names_bound_and_excess():
    done = command(*TABLES)
    assert (done.returncode, done.stderr) == (1, "")
    first, *rest, last = done.stdout.splitlines()
    assert first == "not checked: gvrs"
    assert rest[0] == "impossible: InternVL3.5 8B: QS 36.11 < Contr@v+ 38.58 by 2.47"
    assert len(rest) == 5
    assert last == "5 of 14 rows are impossible"


def test_bad_input_is_2_and_one_line(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("model,qs\nm,no\n")
    for arguments in ([], [tmp_path / "none.csv"], [tmp_path], [TABLES[0], bad], ["--x"]):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


def test_help():
    done = command("--help")
    assert done.returncode == 0
    assert "Exit status" in done.stdout
