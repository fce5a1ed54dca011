"""What the embedded default runs on is made once, by whoever comes first."""

import os
import subprocess
import sys
from pathlib import Path

from cctv.data import schema
from cctv.models import tiny
from cctv.runs import builtin

ROOT = Path(__file__).parents[2]
MAKE = """
from cctv.runs import builtin
data = builtin.dataset(scenes=1, seed=5, size=(64, 48))
print(builtin.checkpoint(data))
"""


def test_two_first_runs_at_once(tmp_path):
    env = os.environ | {"CCTV_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    started = [
        subprocess.Popen([sys.executable, "-c", MAKE], cwd=ROOT, env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=200) for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert len({out.splitlines()[-1] for out, _ in outputs}) == 1
    (data,) = (p for p in (tmp_path / "data").iterdir() if p.is_dir())
    assert len(schema.load(data).scenes) == 1
    names = sorted(p.name for p in (tmp_path / "models").iterdir())
    assert len(names) == 2  # the folder and its lock
    assert names[1] == f"{names[0]}.lock"


def test_the_checkpoint_has_a_version_of_its_own(made, monkeypatch):
    data, folder = made
    assert builtin.checkpoint(data) == folder
    monkeypatch.setattr(tiny, "VERSION", tiny.VERSION + 1)
    monkeypatch.setattr(tiny, "create", lambda folder, **kw: None)
    assert builtin.checkpoint(data) != folder


def test_the_builtin_checkpoint_is_the_same_every_time(made, tmp_path):
    data, folder = made
    texts = [t for s in schema.load(data).scenes for p in s.questions
             for t in (p.positive, p.negative)]  # fmt: skip
    tiny.create(tmp_path, texts=texts)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    assert builtin.checkpoint(data) == folder
