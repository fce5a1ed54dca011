"""A whole run on a mesh: three scenes over two, heads over two, as on one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_run_on_a_mesh_equals_one_device(cache, tmp_path, rows_of):
    script = Path(__file__).with_name("mesh_run.py")
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    found = []
    for mesh in (("1", "1"), ("2", "2")):
        workdir = tmp_path / "x".join(mesh)
        command = [sys.executable, script, workdir, *mesh]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr[-2000:]
        names = ("method", "pair_id", "video", "question")
        found.append({tuple(r[n] for n in names): r for r in rows_of(workdir)})
    one, many = found
    assert one.keys() == many.keys()
    assert len(one) > 100
    for key, row in one.items():
        assert abs(row["margin"] - many[key]["margin"]) < 1e-3
