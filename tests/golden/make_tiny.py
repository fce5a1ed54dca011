"""Writes tiny.json: what the built-in checkpoint answers about a clip of moving squares.

    PYTHONPATH=. JAX_PLATFORMS=cpu python tests/golden/make_tiny.py

From the tokenizer to the margin, with nothing but the project's own parts, so that an upgrade of
any library that changes token ids, positions or logits is seen. To be run again only with a change
that is meant to move them (`cctv.models.tiny.VERSION`, the prompt, the processor).
"""

import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data.preprocess import Clip
from cctv.decoding.contrast import VCD, Base
from cctv.decoding.engine import Engine, Stream
from cctv.decoding.passes import Job
from cctv.models import qwen3_vl, tiny, weights

PATH = Path(__file__).with_name("tiny.json")
QUESTIONS = (
    "Did the red car hit the white truck?",
    "Did the white truck hit the red car?",
    "Was the contact on the left of the picture?",
)


def clips() -> list[Clip]:
    """Two clips of 5 frames, 64x96: a bright square that moves to the right, or stays."""
    out = []
    for number, speed in enumerate((12, 0)):
        frames = np.full((5, 64, 96, 3), (40, 60, 50), np.uint8)
        frames[:, 40:] += np.arange(24, dtype=np.uint8)[None, :, None, None]
        for f in range(5):
            frames[f, 20:36, 8 + f * speed : 24 + f * speed] = (200, 40, 30)
        times = np.array([0.0, 0.5, 1.0, 1.6, 2.1])
        out.append(Clip(frames, (3, 4, 6), times, tuple(range(5)), f"{number:064x}"))
    return out


def compute() -> dict:
    """{"tokens": ids of the first prompt, "margins": [clip][question], "noisy": under VCD}."""
    jax.config.update("jax_default_matmul_precision", "highest")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny.create(folder, texts=QUESTIONS)
        config = qwen3_vl.from_hf(folder)
        encoder = qwen3_vl.encoder(folder, config)
        abstract = nnx.eval_shape(lambda: qwen3_vl.Model(config, rngs=nnx.Rngs(0)))
        model = weights.load(folder, abstract, qwen3_vl.rules(config), dtype=jnp.float32)
    streams = []
    for step in (None, 500):
        for i, clip in enumerate(clips()):
            prompts = encoder.prompts(QUESTIONS, clip)
            streams.append(Stream(clip=clip, prompts=prompts, noise_step=step, owner=f"{i}"))
    jobs = [Job(Base(), (0, 1)), Job(VCD(noise_step=500), (0, 1), (2, 3))]
    base, noisy = Engine(model, encoder, batch=4).run(streams, jobs, alphas=[0.0, 1.0])
    return {
        "tokens": streams[0].prompts[0].tokens.tolist(),
        "positions": streams[0].prompts[0].positions.sum(1).tolist(),
        "margins": np.asarray(base.margin, np.float64).round(6).tolist(),
        "noisy": np.asarray(noisy.margin_contrast, np.float64).round(6).tolist(),
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(compute()) + "\n")
