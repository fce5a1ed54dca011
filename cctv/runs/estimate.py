"""What a run would do, counted before anything is loaded: rows, tokens, memory, time."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from ml_collections import ConfigDict

from cctv.decoding.engine import bucket
from cctv.models import weights
from cctv.models.decoder import BLOCK, MAX_BLOCKS
from cctv.runs.predict import System

ASSUMED_USE = 0.4  # share of the measured matmul rate that a run reaches


class Prompts(NamedTuple):
    """Sizes of one video's prompts: visual tokens, and all tokens of each question."""

    visual: int
    lengths: Sequence[int]


def lines(
    prompts: Sequence[Prompts], *, family, model_config, systems: list[System], config: ConfigDict
) -> list[str]:
    """What --dry_run prints. `prompts`: one entry a video that can be read."""
    abstract = nnx.eval_shape(lambda: family.Model(model_config, rngs=nnx.Rngs(0)))
    itemsize = jnp.dtype(config.model.dtype).itemsize
    parameters = weights.parameter_count(abstract)
    longest = max((max(p.lengths) for p in prompts), default=0)
    # A scene's streams: its two videos, and both once more for each method that changes the video.
    forms = 1 + sum(name in ("vcd", "tcd") for name in {s.method.name for s in systems})
    decoder, streams = abstract.decoder_config, 2 * forms
    size = bucket(longest, least=64)
    cache = (
        2 * streams * size * decoder.num_layers * decoder.num_kv_heads * decoder.head_dim * itemsize
    )
    block = max(BLOCK, size // MAX_BLOCKS)
    scores = 4 * streams * decoder.num_heads * block * size
    # One prefix a stream, then the questions' own tokens against it.
    tokens = forms * sum(min(p.lengths) + sum(p.lengths) - len(p.lengths) * min(p.lengths)
                         for p in prompts)  # fmt: skip
    flops = 2 * parameters * tokens
    rate = measured_flops(config.model.dtype)
    seconds = flops / (rate * ASSUMED_USE)
    visual = [p.visual for p in prompts] or [0]
    return [
        f"model: {parameters / 1e9:.3f} B parameters, {parameters * itemsize / 1e9:.2f} GB "
        f"in {config.model.dtype}",
        f"prompts: {int(np.median(visual))} visual tokens a video (median), the longest prompt "
        f"{longest} tokens, padded to {size}",
        f"memory: about {(parameters * itemsize + cache + scores) / 1e9:.2f} GB on the device "
        f"(weights, {cache / 1e9:.2f} GB keys and values, {scores / 1e9:.2f} GB scores)",
        f"work: {flops / 1e12:.2f} TFLOP at {rate / 1e9:.0f} GFLOP/s measured on "
        f"{jax.devices()[0].device_kind}: about {_duration(seconds)} at {ASSUMED_USE:.0%} of it, "
        "compilation aside",
    ]


def measured_flops(dtype: str) -> float:
    """FLOP a second of a square matmul on the default device, the best of a few."""
    size = 4096 if jax.default_backend() != "cpu" else 1024
    x = jnp.ones((size, size), dtype)
    multiply = jax.jit(lambda a: a @ a)
    multiply(x).block_until_ready()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        multiply(x).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
