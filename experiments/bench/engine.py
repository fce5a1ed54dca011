"""One scene through the engine and through transformers, on one core: seconds and ratios.

    python -m experiments.bench.engine [--out=FILE] [--repeats=5]

Two videos x 12 questions of 40 tokens, vision included, a prefix of at least 1,000 tokens, the same
random Qwen3-VL checkpoint in float32. Medians of interleaved runs in one process pinned to one
core, after one run of each (compilation is left out):
  hf_one_by_one    transformers, every question with its video again
  hf_shared        transformers, vision features and prefix cache once a video
  ours_one_by_one  the engine, every question alone
  ours             the engine, base
  ours_c_tcd       base and C-TCD
  ours_all_methods base, VCD, TCD and C-TCD
Answers and first logits must agree. Needs the test extra (torch, transformers).
"""

import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

from absl import flags

from cctv import cli

OUT = flags.DEFINE_string("out", None, "Where to write the JSON too.")
REPEATS = flags.DEFINE_integer("repeats", 5, "Runs of each way.", lower_bound=1)

QUESTIONS, QUESTION_TOKENS = 12, 40
GROUPS, ROWS, COLUMNS = 8, 16, 32  # patches; 128 visual tokens a group
VOCABULARY, PAD, START, END, YES, NO = 1000, 991, 992, 993, 7, 9


def pin() -> None:
    """One core for everything, torch and XLA alike; before either is imported."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"


def checkpoint(folder: Path):
    """A random checkpoint, perturbed as in the parity tests; the torch model that was written."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rope = dict(rope_type="default", rope_theta=5e6, mrope_section=[12, 10, 10],
                mrope_interleaved=True)  # fmt: skip
    config = Qwen3VLConfig(
        text_config=dict(
            vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=6,
            num_attention_heads=8, num_key_value_heads=2, head_dim=64, rope_parameters=rope,
        ),
        vision_config=dict(
            depth=6, hidden_size=192, intermediate_size=512, num_heads=4, out_hidden_size=256,
            num_position_embeddings=256, deepstack_visual_indexes=[1, 3, 4],
        ),
        image_token_id=990, video_token_id=PAD, vision_start_token_id=START,
        vision_end_token_id=END,
    )  # fmt: skip
    model = Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    return model


class Scene:
    """Two videos as patches and their prompts, as both sides need them."""

    def __init__(self):
        import numpy as np

        rng = np.random.default_rng(0)
        self.patches = rng.standard_normal((2, GROUPS, ROWS * COLUMNS, 1536)).astype(np.float32)
        video = []
        for _ in range(GROUPS):
            pads = [PAD] * (ROWS * COLUMNS // 4)
            video += [*rng.integers(10, 900, 5), START, *pads, END]
        self.head = np.array([1, 2, *video], np.int32)
        self.questions = [
            rng.integers(10, 900, QUESTION_TOKENS).astype(np.int32) for _ in range(QUESTIONS)
        ]
        for i, question in enumerate(self.questions):
            question[0] = 100 + i  # so that the common prefix is the video's part exactly
        self.prompts = [np.concatenate([self.head, q]) for q in self.questions]


class Reference:
    """The two ways of transformers."""

    def __init__(self, model, scene: Scene):
        import torch

        self.torch, self.model, self.scene = torch, model, scene
        self.grid = torch.tensor([[GROUPS, ROWS, COLUMNS]])

    def one_by_one(self) -> list:
        out = []
        for patches in self.scene.patches:
            pixels = self.torch.tensor(patches.reshape(-1, 1536))
            for prompt in self.scene.prompts:
                ids = self.torch.tensor(prompt[None]).long()
                with self.torch.no_grad():
                    logits = self.model(
                        input_ids=ids, mm_token_type_ids=(ids == PAD).int() * 2,
                        pixel_values_videos=pixels, video_grid_thw=self.grid, logits_to_keep=1,
                    ).logits  # fmt: skip
                out.append(logits[0, -1].numpy())
        return out

    def shared(self) -> list:
        """Prefix cache once a video, each question against it; then the cache is cut back."""
        from transformers import DynamicCache

        torch, out = self.torch, []
        head = torch.tensor(self.scene.head[None]).long()
        for patches in self.scene.patches:
            cache = DynamicCache(config=self.model.config)
            with torch.no_grad():
                self.model(
                    input_ids=head, mm_token_type_ids=(head == PAD).int() * 2, cache=cache,
                    pixel_values_videos=torch.tensor(patches.reshape(-1, 1536)),
                    video_grid_thw=self.grid, logits_to_keep=1, use_cache=True,
                )  # fmt: skip
                length = head.shape[1]
                delta = int(self.model.model.rope_deltas[0, 0])
                for question in self.scene.questions:
                    ids = torch.tensor(question[None]).long()
                    where = torch.arange(length, length + ids.shape[1]) + delta
                    logits = self.model(
                        input_ids=ids, position_ids=where.expand(3, 1, -1), cache=cache,
                        logits_to_keep=1, use_cache=True,
                    ).logits  # fmt: skip
                    out.append(logits[0, -1].numpy())
                    cache.crop(-ids.shape[1])
        return out


class Ours:
    """The engine on the same folder."""

    def __init__(self, folder: Path, scene: Scene):
        import hashlib
        from types import SimpleNamespace

        import jax
        import jax.numpy as jnp
        import numpy as np
        from flax import nnx

        from cctv.decoding import contrast
        from cctv.decoding.engine import Engine, Stream
        from cctv.decoding.passes import Job
        from cctv.models import qwen3_vl, weights
        from cctv.models.qwen_vit import groups

        jax.config.update("jax_default_matmul_precision", "highest")
        config = qwen3_vl.from_hf(folder)
        abstract = nnx.eval_shape(lambda: qwen3_vl.Model(config, rngs=nnx.Rngs(0)))
        model = weights.load(folder, abstract, qwen3_vl.rules(config), dtype=jnp.float32)
        encoder = SimpleNamespace(
            answer_ids=(YES, NO),
            stop_ids=(),
            vision_inputs=lambda c: groups(c.patches, ROWS, COLUMNS, config.vision),
            group_digests=lambda c: c.groups,
        )
        self.engine = Engine(model, encoder, vision_batch=GROUPS, max_new_tokens=1)

        def clip(patches):
            # Of the pixels, as decoding workers give it; like resizing, not part of what is timed.
            digest = hashlib.sha256(patches.tobytes()).hexdigest()
            groups = [hashlib.blake2b(p.tobytes()).digest() for p in patches]
            return SimpleNamespace(patches=patches, digest=digest, groups=groups)

        def prompt(tokens):
            visual = np.where(tokens == PAD, np.cumsum(tokens == PAD) - 1, -1).astype(np.int32)
            return qwen3_vl.positions(tokens, visual, ROWS // 2, COLUMNS // 2)

        prompts = [prompt(tokens) for tokens in scene.prompts]
        still = [p[[0, 0, 2, 2, 4, 4, 6, 6]] for p in scene.patches]  # a quarter of the time left
        self.streams = [
            *(Stream(clip(p), prompts, owner=f"{i}") for i, p in enumerate(scene.patches)),
            *(Stream(clip(p), prompts, noise_step=500) for p in scene.patches),
            *(Stream(clip(p), prompts, owner=f"tcd {i}") for i, p in enumerate(still)),
        ]
        base, c_tcd = Job(contrast.Base(), (0, 1)), Job(contrast.CTCD(), (0, 1), (1, 0))
        self.base, self.two = [base], [base, c_tcd]
        self.all = [base, Job(contrast.VCD(), (0, 1), (2, 3)),
                    Job(contrast.TCD(), (0, 1), (4, 5)), c_tcd]  # fmt: skip
        self.single = [Job(contrast.Base(), (0,))]

    def one_by_one(self):
        return [
            self.engine.run([s._replace(prompts=[p])], self.single, alphas=[0])[0]
            for s in self.streams[:2]
            for p in s.prompts
        ]

    def run(self, streams, jobs):
        return self.engine.run(self.streams[:streams], jobs, alphas=[1.0] * len(jobs))


def first_logits(ours: Ours) -> list:
    """The engine's own first logits of the base streams, float32[vocabulary] a prompt."""
    import jax
    import numpy as np

    from cctv.decoding import contrast

    seen = []
    fuse = contrast.Base.fuse

    def spy(self, z, **kw):
        jax.debug.callback(lambda a: seen.append(np.asarray(a)), z)
        return fuse(self, z, **kw)

    contrast.Base.fuse = spy
    try:
        jax.clear_caches()
        ours.run(2, ours.base)
        jax.effects_barrier()
    finally:
        contrast.Base.fuse = fuse
        jax.clear_caches()
    rows = seen[0].reshape(2, -1, VOCABULARY)[:, :QUESTIONS]
    return list(rows.reshape(-1, VOCABULARY))


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    pin()
    import jax
    import numpy as np
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        scene = Scene()
        reference = Reference(checkpoint(Path(folder)), scene)
        ours = Ours(Path(folder), scene)
    theirs, shared = reference.one_by_one(), reference.shared()
    logits = first_logits(ours)
    difference = max(float(np.abs(a - b).max()) for a, b in zip(theirs, logits))
    between = max(float(np.abs(a - b).max()) for a, b in zip(theirs, shared))
    answers = [a.argmax() for a in logits]
    equal = answers == [a.argmax() for a in theirs] == [a.argmax() for a in shared]
    ways = {
        "hf_one_by_one_s": reference.one_by_one,
        "hf_shared_s": reference.shared,
        "ours_one_by_one_s": ours.one_by_one,
        "ours_s": lambda: ours.run(2, ours.base),
        "ours_c_tcd_s": lambda: ours.run(2, ours.two),
        "ours_all_methods_s": lambda: ours.run(6, ours.all),
    }
    seconds = {name: [] for name in ways}
    for i in range(REPEATS.value + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if i:  # the first run compiles
                seconds[name].append(time.perf_counter() - start)
    found = {name: statistics.median(times) for name, times in seconds.items()}
    ratio = lambda a, b: found[a] / found[b]  # noqa: E731
    found |= {
        "ratio_hf_one_by_one": ratio("hf_one_by_one_s", "ours_s"),
        "ratio_ours_one_by_one": ratio("ours_one_by_one_s", "ours_s"),
        "ratio_hf_shared": ratio("hf_shared_s", "ours_s"),
        "ratio_c_tcd_to_base": ratio("ours_c_tcd_s", "ours_s"),
        "ratio_all_methods_to_base": ratio("ours_all_methods_s", "ours_s"),
        "max_abs_dlogit": difference,
        "max_abs_dlogit_hf_shared": between,
        "answers_equal": bool(equal),
        "shapes": {
            "videos": 2, "questions": QUESTIONS, "question_tokens": QUESTION_TOKENS,
            "prefix_tokens": len(scene.head), "patches": GROUPS * ROWS * COLUMNS,
            "parameters": sum(p.numel() for p in reference.model.parameters()),
        },
        "versions": {
            "python": platform.python_version(), "jax": jax.__version__,
            "torch": torch.__version__, "transformers": transformers.__version__,
            "device": jax.devices()[0].device_kind,
        },
    }  # fmt: skip
    text = json.dumps(found, indent=1)
    print(text)
    if OUT.value:
        Path(OUT.value).write_text(text + "\n")


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
