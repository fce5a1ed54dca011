"""Placement: parity on 8 fake CPU devices, and the table of specs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from cctv import models
from cctv.decoding import sharding
from cctv.models import weights


@pytest.mark.slow
def test_parity_on_eight_devices():
    """Meshes (8,1), (4,2), (2,4), head counts that they do and do not divide, 9 streams (which 8
    and 4 do not divide): margins and tokens are those of one device."""
    script = Path(__file__).with_name("mesh_script.py")
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == 8
    for name, answers in found.items():
        expected = found[f"{name.split()[0]} None"]
        for (margin, tokens), (other, same) in zip(answers, expected):
            assert np.std(other) > 1e-3
            np.testing.assert_allclose(margin, other, atol=1e-4)
            assert tokens == same


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen3_vl", "qwen3_vl_2b"),
        ("qwen3_vl", "qwen3_vl_8b"),
        ("videollama3", "videollama3_7b"),
    ],
)
@pytest.mark.parametrize("model", [1, 2, 4, 8, 16])
def test_specs_of_real_sizes(family, name, model):
    """Every split axis is divisible, heads stay whole, the big ones are split where they can."""
    module = models.get(family)
    config = module.VARIANTS[name]
    abstract = nnx.eval_shape(lambda: module.Model(config, rngs=nnx.Rngs(0)))
    shapes = {path: leaf.shape for path, leaf in weights.leaves(abstract).items()}
    for path, shape in shapes.items():
        spec = sharding.spec(path, shape, config=config.text, model=model)
        for axis, split in enumerate(spec):
            assert split is None or shape[axis] % model == 0
        if path == "decoder.layers.k.kernel":
            whole = config.text.num_kv_heads % model == 0
            assert spec == (P(None, None, "model") if whole else P())
        if path in ("vision.layers.fc1.kernel", "vision.vit.layers.fc1.kernel"):
            assert spec == (P(None, None, "model") if shape[2] % model == 0 else P())
        if path == "decoder.layers.down.kernel":
            assert spec == P(None, "model", None)
    alone, split = (
        sharding.scalars_per_device(shapes, config=config.text, model=n) for n in (1, model)
    )
    assert alone == weights.parameter_count(abstract)
    assert split <= alone / model + 0.25 * alone


def test_meshes_that_can_not_be():
    for shape in ((64, 64), (0, 1), (1, -1)):
        with pytest.raises(ValueError, match="mesh"):
            sharding.make_mesh(shape)
