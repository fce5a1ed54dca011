"""Run by test_sharding on 8 fake devices: margins of a scene on several meshes, as JSON."""

import hashlib
import json
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.decoding import sharding
from cctv.decoding.contrast import CTCD, Base
from cctv.decoding.engine import Engine, Stream
from cctv.decoding.passes import Job
from cctv.models import qwen3_vl, weights
from cctv.models.decoder import DecoderConfig
from cctv.models.qwen_vit import VisionConfig, groups

VIDEO_PAD, WIDTH = 291, 64


def config(heads: int, kv_heads: int) -> qwen3_vl.Config:
    """With 4 heads the decoder is sparse."""
    experts = dict(num_experts=6, experts_per_token=2) if heads == 4 else {}
    text = DecoderConfig(
        vocab_size=300, width=WIDTH, mlp_dim=96, num_layers=2, num_heads=heads,
        num_kv_heads=kv_heads, head_dim=16, rope_theta=5e6, qk_norm=True,
        mrope_section=(4, 2, 2), mrope_interleaved=True, **experts,
    )  # fmt: skip
    vision = VisionConfig(
        width=48, mlp_dim=80, num_layers=2, num_heads=3, out_width=WIDTH, table_side=7,
        deepstack=(0,),
    )  # fmt: skip
    return qwen3_vl.Config(text=text, vision=vision, video_token_id=VIDEO_PAD)


def streams(c: qwen3_vl.Config, scenes: int) -> list[Stream]:
    rng, out = np.random.default_rng(0), []
    texts = [rng.integers(10, 280, n) for n in (5, 9, 7)]
    for i in range(2 * scenes):
        g, rows, columns = (2, 4, 6) if i % 2 else (3, 4, 4)
        patches = rng.standard_normal((g, rows * columns, 1536)).astype(np.float32)
        clip = SimpleNamespace(
            patches=patches, rows=rows, columns=columns,
            digest=hashlib.sha256(patches.tobytes()).hexdigest(),
        )  # fmt: skip
        video = [t for _ in range(g) for t in (11, *[VIDEO_PAD] * (rows * columns // 4), 12)]
        prompts = []
        for text in texts:
            tokens = np.array([1, *video, *text], np.int32)
            pad = tokens == VIDEO_PAD
            visual = np.where(pad, np.cumsum(pad) - 1, -1).astype(np.int32)
            prompts.append(qwen3_vl.positions(tokens, visual, rows // 2, columns // 2))
        out.append(Stream(clip, prompts, owner=str(i)))
    return [*out, out[0]]


def place(model, mesh, c):
    """The model with each parameter on its shards; numpy first, as from a file."""
    put = sharding.placer(mesh, c.text)

    def one(path, leaf):
        return put(weights.path_name(path), np.asarray(leaf))

    return jax.tree_util.tree_map_with_path(one, model)


def margins(c, model, shape, scenes=4):
    encoder = SimpleNamespace(
        answer_ids=(7, 9), stop_ids=(999,),
        vision_inputs=lambda k: groups(k.patches, k.rows, k.columns, c.vision),
        group_digests=lambda k: [hashlib.sha1(p.tobytes()).digest() for p in k.patches],
    )  # fmt: skip
    mesh = None
    if shape is not None:
        mesh = sharding.make_mesh(shape)
        model = place(model, mesh, c)
        split = [x for x in jax.tree.leaves(model) if not x.sharding.is_fully_replicated]
        assert bool(split) == (shape[1] > 1)
    engine = Engine(model, encoder, vision_batch=4, max_new_tokens=2, mesh=mesh)
    n = 2 * scenes
    other = tuple(i ^ 1 for i in range(n))
    jobs = [Job(Base(), tuple(range(n))), Job(CTCD(), tuple(range(n)), other)]
    out = engine.run(streams(c, scenes), jobs, alphas=[0, 1])
    return [[a.margin.tolist(), a.tokens.tolist()] for a in out]


def main():
    jax.config.update("jax_default_matmul_precision", "highest")
    assert jax.device_count() == 8
    found = {}
    every = (None, (8, 1), (4, 2), (2, 4))
    # 4 devices divide 4 heads but not 2 kv heads, and neither 6 nor 3.
    cases = [(8, 4, every), (4, 2, (None, (2, 4))), (6, 3, (None, (2, 4)))]
    for heads, kv_heads, shapes in cases:
        c = config(heads, kv_heads)
        model = qwen3_vl.Model(c, rngs=nnx.Rngs(0))
        model = jax.tree.map(
            lambda w: w + 0.05 * jnp.cos(jnp.arange(w.size)).reshape(w.shape), model
        )
        for shape in shapes:
            found[f"{heads}/{kv_heads} {shape}"] = margins(c, model, shape)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
