"""The pool: a file that hangs or crashes its reader is named, and the others finish."""

import os
import signal
import subprocess
import sys
import time

import clips
import pytest

from cctv.data.pool import DecodePool
from cctv.data.video import VideoDecodeError, VideoMissingError, read_frames

pytestmark = pytest.mark.slow


def work(path, what):
    """Runs in a worker: reads frame 3 of the file, or fails in the way `what` says."""
    if what == "hangs":
        time.sleep(1000)
    elif what == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "exits":
        os._exit(3)
    elif what == "memory":
        raise MemoryError
    elif what == "bug":
        raise KeyError("a bug")
    elif what == "modules":
        return sorted(sys.modules)
    return clips.number_of(read_frames(path, [3])[0])


def test_each_failure_is_named_and_the_others_finish_in_order(clip, tmp_path):
    good, missing, broken = clip("h264.mp4"), tmp_path / "none.mp4", clip("cut_faststart.mp4")
    items = [
        (good, "read"),
        (good, "hangs"),
        (good, "crashes"),
        (clip("mpeg2.ts"), "read"),
        (good, "exits"),
        (good, "memory"),
        (missing, "read"),
        (broken, "read"),
        (clip("h264.ts"), "read"),
    ]
    with DecodePool(2, timeout=3) as pool:
        answers = list(pool.imap(work, items))
    assert [item for item, _ in answers] == items
    results = [result for _, result in answers]
    assert [r for r in results if not isinstance(r, VideoDecodeError)] == [3, 3, 3]
    assert str(results[1]).startswith(f"{good}: no answer within 3 s; ")
    assert "crashed (exit code -11)" in str(results[2])
    assert "crashed (exit code 3)" in str(results[4])
    assert "out of memory" in str(results[5])
    assert isinstance(results[6], VideoMissingError)
    assert str(broken) in str(results[7])


def test_workers_import_no_accelerator_library(clip):
    with DecodePool(1) as pool:
        [(_, names)] = pool.imap(work, [(clip("h264.mp4"), "modules")])
    assert "cctv.data.video" in names
    assert not {"jax", "flax", "torch", "transformers", "matplotlib"} & set(names)


def test_an_error_of_the_program_is_raised_and_ends_the_pool_at_once(clip):
    start = time.monotonic()
    with pytest.raises(KeyError, match="a bug"), DecodePool(2) as pool:
        for _ in pool.imap(work, [("x", "bug"), *[("x", "hangs")] * 9]):
            pass
    assert time.monotonic() - start < 60  # the workers would sleep for 1000 s


def test_items_are_taken_only_a_few_ahead(clip):
    taken = []

    def items():
        for i in range(12):
            taken.append(i)
            yield clip("h264.mp4"), "read"

    with DecodePool(2) as pool:
        for done, _ in enumerate(pool.imap(work, items()), 1):
            assert len(taken) <= done + 4
    assert len(taken) == 12


@pytest.mark.parametrize(("workers", "timeout"), [(0, 1), (1, 0), (1, float("nan"))])
def test_wrong_settings(workers, timeout):
    with pytest.raises(ValueError, match="must be positive"):
        DecodePool(workers, timeout=timeout)


INTERRUPTED = """
import sys, time
from cctv.data.pool import DecodePool

def slow(path):
    time.sleep(0.2)
    return path

if __name__ == "__main__":
    try:
        with DecodePool(2) as pool:
            for _, result in pool.imap(slow, ((str(i),) for i in range(10_000))):
                print(result, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_stops_everything_without_a_trace(tmp_path):
    """As from a terminal: the signal goes to the parent and to its workers."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "interrupted.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout.readline() == b"0\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == b""


def test_workers_end_when_the_parent_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(INTERRUPTED.replace("print(result", "print(os_pids()"))
    text = (tmp_path / "killed.py").read_text()
    ask = "import multiprocessing\n\ndef os_pids():\n"
    ask += "    return *[p.pid for p in multiprocessing.active_children()],\n"
    (tmp_path / "killed.py").write_text(ask + text)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "killed.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    workers = eval(process.stdout.readline())
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
