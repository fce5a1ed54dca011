"""The command line of the main job in processes of their own: kills, exits, one-line errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = (
    "--config.data.world.scenes=3",
    "--config.data.world.size=(160, 90)",
    "--config.bootstrap.replicates=200",
    "--config.batch=16",
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return os.environ | {
        "CCTV_CACHE": str(tmp_path_factory.mktemp("cache")),
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
    }


@pytest.fixture(scope="module")
def start(environment):
    def run(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "cctv.main", *arguments],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return run


def count(workdir):
    shard = workdir / "predictions-00000-of-00001.jsonl"
    return shard.read_bytes().count(b"\n") if shard.exists() else -1


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """The workdir of an uninterrupted run."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    process = start(*SMALL, f"--workdir={workdir}")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return workdir


@pytest.mark.slow
def test_sigkill_at_any_moment_and_resume(start, whole, tmp_path):
    """cases.md 17: five kills, at different moments, then a run to the end: metrics.json is
    byte-equal to that of an uninterrupted run."""
    workdir = tmp_path / "killed"
    moments = [
        lambda: workdir.exists(),  # before or while the manifest is written
        lambda: (workdir / "manifest.json").exists(),  # while the model is loaded
        lambda: count(workdir) >= 1,  # in the first scene
        lambda: count(workdir) >= total // 2,
        lambda: (workdir / "metrics.json").exists() or count(workdir) >= total,  # scoring, report
    ]
    total = count(whole)
    assert total > 100
    seen = []
    for moment in moments:
        process = start(*SMALL, f"--workdir={workdir}")
        while process.poll() is None and not moment():
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        seen.append(count(workdir))
    assert seen == sorted(seen)
    assert len(set(seen)) >= 3
    last = start(*SMALL, f"--workdir={workdir}")
    _, err = last.communicate(timeout=200)
    assert last.returncode == 0, err
    assert (workdir / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()
    assert count(workdir) == total


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_resumes(start, whole, tmp_path):
    process = start(*SMALL, f"--workdir={tmp_path}")
    while process.poll() is None and count(tmp_path) < 1:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    (line,) = (line for line in err.splitlines() if line.startswith("cctv:"))
    assert "the same command goes on" in line
    assert not (tmp_path / "metrics.json").exists()
    again = start(*SMALL, f"--workdir={tmp_path}")
    _, err = again.communicate(timeout=200)
    assert again.returncode == 0, err
    assert count(tmp_path) == count(whole)
    assert (tmp_path / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.alhpa=2"], ["alhpa", "alpha"]),
        (["--config.modl.path=x"], ["modl"]),
        (["--config=configs/none.py"], ["none.py"]),
        (["--config=configs/qwen.py:giant"], ["giant", "qwen3_vl_8b"]),
        (["--config=configs/tiny.py:x"], ["no variants"]),
        (["--config.alpha=much"], ["alpha"]),
        (["--config.batch=0"], ["batch"]),
        (["--nope"], ["nope"]),
        (["extra"], ["extra"]),
        (["--config=configs/qwen.py"], ["data.path"]),
        (["--config=configs/qwen.py", "--config.data.path=/nowhere"], ["/nowhere"]),
    ],
)
def test_wrong_use_is_one_line(start, tmp_path, arguments, words):
    process = start(*arguments, f"--workdir={tmp_path / 'run'}")
    out, err = process.communicate(timeout=100)
    assert process.returncode in (1, 2)
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert all(word in err for word in words), err
    assert not (tmp_path / "run").exists()


def test_help(start):
    process = start("--help")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0
    assert err == ""
    assert "--workdir" in out
    assert "--dry_run" in out or "dry_run" in out
