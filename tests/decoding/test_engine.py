"""The engine against transformers' generate and against runs without any cache."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import torch
from flax import nnx

from cctv.decoding.contrast import CTCD, Base
from cctv.decoding.engine import Engine, bucket, encode_video, generate
from cctv.models import qwen3_vl, weights
from cctv.models.qwen3_vl import positions
from cctv.models.qwen_vit import groups

STEPS = 10


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3_vl")
    theirs = tiny.qwen3_vl(folder)
    config = qwen3_vl.from_hf(folder)
    abstract = nnx.eval_shape(lambda: qwen3_vl.Model(config, rngs=nnx.Rngs(0)))
    return theirs, weights.load(folder, abstract, qwen3_vl.rules(config), dtype=jnp.float32)


class Clips:
    """Random videos and prompts, and what the engine needs of an encoder."""

    def __init__(self, ours, shapes, *, seed=0, stop=(tiny.STOP,), yes=tiny.YES):
        rng = np.random.default_rng(seed)
        self.videos = [
            (rng.standard_normal((g, r * c, 1536)).astype(np.float32), r, c) for g, r, c in shapes
        ]
        self.encoder = SimpleNamespace(
            answer_ids=(yes, tiny.NO),
            stop_ids=stop,
            vision_inputs=lambda v: groups(*v, ours.config.vision),
        )
        self.tokens = [
            tiny.prompt_tokens(rng, groups=g, per_group=r * c // 4, text=5 + 3 * i)
            for i, (g, r, c) in enumerate(shapes)
        ]

    def prompt(self, i, text=None):
        """The prompt of video i; `text` replaces its last tokens by another video's question."""
        tokens, (_, rows, columns) = self.tokens[i], self.videos[i]
        if text is not None:
            tokens = np.concatenate([tokens[: len(tokens) - 5 - 3 * i], text])
        is_visual = tokens == tiny.VIDEO_PAD
        visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
        return positions(tokens, visual, rows // 2, columns // 2)

    def text(self, i):
        return self.tokens[i][-(5 + 3 * i) :]


def engine(ours, clips, **kw):
    return Engine(ours, clips.encoder, **(dict(batch=2, vision_batch=2, max_new_tokens=STEPS) | kw))


def torch_logits(theirs, clips, i, tokens):
    patches, rows, columns = clips.videos[i]
    with torch.no_grad():
        out = theirs(
            input_ids=torch.tensor(tokens[None]).long(),
            mm_token_type_ids=torch.tensor((tokens == tiny.VIDEO_PAD)[None] * 2).int(),
            pixel_values_videos=torch.tensor(patches.reshape(-1, 1536)),
            video_grid_thw=torch.tensor([[len(patches), rows, columns]]),
        )
    return out.logits[0, -1].numpy().astype(np.float64)


def without_cache(theirs, clips, branches, alpha, steps, *, stop=(tiny.STOP,)):
    """Greedy tokens and first margin by a full forward of each branch at each step.

    branches: [(video, prompt tokens)], the original first.
    """
    said, margin = [], None
    for _ in range(steps):
        z = [torch_logits(theirs, clips, i, np.concatenate([t, said]).astype(np.int32))
             for i, t in branches]  # fmt: skip
        fused = z[0] if len(z) == 1 else (1 + alpha) * z[0] - alpha * z[1]
        margin = fused[tiny.YES] - fused[tiny.NO] if margin is None else margin
        said.append(int(fused.argmax()))
        if said[-1] in stop or (len(said) == 1 and said[0] in (tiny.YES, tiny.NO)):
            break
    return said, margin


def test_greedy_tokens_equal_transformers(pair):
    """Two videos of different length in one batch, odd sizes, left-over padding."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)])
    run = engine(ours, clips)
    features, offsets = run.encode_videos(clips.videos)
    out = run.answer(
        [[clips.prompt(0), clips.prompt(1)]],
        [offsets],
        features=features,
        method=Base(),
        alpha=0.0,
    )
    for i in range(2):
        said, margin = without_cache(theirs, clips, [(i, clips.tokens[i])], 0.0, STEPS)
        assert len(said) >= 8
        assert out.tokens[i, : out.count[i]].tolist() == said
        assert abs(out.margin[i] - margin) < 1e-4
    patches, rows, columns = clips.videos[0]
    generated = theirs.generate(
        input_ids=torch.tensor(clips.tokens[0][None]).long(),
        mm_token_type_ids=torch.tensor((clips.tokens[0] == tiny.VIDEO_PAD)[None] * 2).int(),
        pixel_values_videos=torch.tensor(patches.reshape(-1, 1536)),
        video_grid_thw=torch.tensor([[len(patches), rows, columns]]),
        do_sample=False,
        max_new_tokens=STEPS,
        pad_token_id=0,
    )
    assert out.tokens[0].tolist() == generated[0, len(clips.tokens[0]) :].tolist()


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_each_branch_equals_a_run_without_cache(pair, alpha):
    """cases.md 14 and 15: branches of different prompt length, several answer tokens."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)], seed=1)
    run = engine(ours, clips)
    features, offsets = run.encode_videos(clips.videos)
    text = [clips.text(0), clips.text(0)]
    prompts = [clips.prompt(i, t) for i, t in enumerate(text)]
    assert len(prompts[0].tokens) != len(prompts[1].tokens)
    out = run.answer(
        [prompts, prompts[::-1]],  # row 0: video 0 against 1, row 1: video 1 against 0
        [offsets, offsets[::-1]],
        features=features,
        method=CTCD(),
        alpha=alpha,
    )
    for row, order in enumerate([(0, 1), (1, 0)]):
        branches = [(i, prompts[i].tokens) for i in order]
        said, margin = without_cache(theirs, clips, branches, alpha, STEPS)
        assert len(said) > 2
        assert out.tokens[row, : out.count[row]].tolist() == said
        assert abs(out.margin[row] - margin) < 1e-4 * (1 + 2 * alpha)
    # The contrast branch of one row is the original of the other.
    base = run.answer([prompts], [offsets], features=features, method=Base(), alpha=0.0)
    np.testing.assert_allclose(out.margin_contrast, base.margin[::-1], atol=1e-5)
    np.testing.assert_allclose(
        out.margin, (1 + alpha) * base.margin - alpha * base.margin[::-1], atol=1e-4
    )


def test_a_later_call_equals_a_fresh_one(pair):
    """cases.md 13, 15: nothing of an earlier call is left; same shapes are bitwise equal."""
    _, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)])

    def answers(run):
        features, offsets = run.encode_videos(clips.videos)
        prompts = [clips.prompt(0), clips.prompt(1)]
        return run.answer([prompts], [offsets], features=features, method=Base(), alpha=0.0)

    fresh, used = engine(ours, clips), engine(ours, clips)
    features, offsets = used.encode_videos(clips.videos)
    prompts = [clips.prompt(1), clips.prompt(0)]
    used.answer(
        [prompts, prompts[::-1]], [offsets[::-1], offsets],
        features=features, method=CTCD(), alpha=1.0,
    )  # fmt: skip
    answers(used)
    for a, b in zip(answers(fresh), answers(used)):
        np.testing.assert_array_equal(a, b)


def test_rows_do_not_depend_on_their_batch(pair):
    """cases.md 11, 12, 13: alone, with others, in another order, in a larger batch."""
    _, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8), (2, 6, 2)])
    prompts = [clips.prompt(i) for i in range(3)]

    def margins(order, batch):
        run = engine(ours, clips, batch=batch)
        features, offsets = run.encode_videos(clips.videos)
        out = run.answer(
            [[prompts[i] for i in order]],
            [[offsets[i] for i in order]],
            features=features,
            method=Base(),
            alpha=0.0,
        )
        return dict(zip(order, out.margin)), dict(zip(order, out.tokens.tolist()))

    expected, tokens = margins([0, 1, 2], 4)
    for order, batch in [([2, 0, 1], 4), ([1], 2), ([2, 1], 2)]:
        got, said = margins(order, batch)
        for i in order:
            assert abs(got[i] - expected[i]) < 1e-5
            assert said[i] == tokens[i]


def test_a_video_does_not_depend_on_its_vision_batch(pair):
    _, ours = pair
    clips = Clips(ours, [(5, 4, 6)])
    tables = [engine(ours, clips, vision_batch=n).encode_videos(clips.videos)[0] for n in (1, 2, 8)]
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], atol=1e-5)


def test_decoding_stops_at_yes_no_and_stop_tokens(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    run = engine(ours, clips, batch=1)
    features, offsets = run.encode_videos(clips.videos)
    kw = dict(features=features, method=Base(), alpha=0.0)
    free = run.answer([[clips.prompt(0)]], [offsets], **kw)
    said = free.tokens[0].tolist()
    assert free.count[0] == STEPS
    # The first token as Yes: one token and the end.
    run.encoder.answer_ids = (said[0], tiny.NO)
    out = run.answer([[clips.prompt(0)]], [offsets], **kw)
    assert out.count[0] == 1
    assert out.tokens[0, 0] == said[0]
    # A later token as stop: the answer is what stands before it.
    later = next(i for i, t in enumerate(said) if i and t not in said[:i])
    run.encoder.answer_ids, run.encoder.stop_ids = (tiny.YES, tiny.NO), (said[later],)
    out = run.answer([[clips.prompt(0)]], [offsets], **kw)
    assert out.count[0] == later
    # A stop token at once: an empty answer.
    run.encoder.stop_ids = (said[0],)
    assert run.answer([[clips.prompt(0)]], [offsets], **kw).count[0] == 0


def test_non_finite_logits_are_seen_row_by_row(pair):
    """cases.md 20."""
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4), (1, 2, 8)])
    run = engine(ours, clips)
    features, offsets = run.encode_videos(clips.videos)
    features = features.at[offsets[1]].set(jnp.nan)
    out = run.answer(
        [[clips.prompt(0), clips.prompt(1)]], [offsets], features=features, method=Base(), alpha=0
    )
    assert out.finite.tolist() == [True, False]


def test_a_tie_is_no(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    tied = jax.tree.map(lambda w: w, ours)
    table = np.asarray(tied.decoder.head.table[...]).copy()
    table[:] = 0
    tied.decoder.head.table[...] = jnp.asarray(table)
    run = engine(tied, clips, batch=1)
    run.encoder.answer_ids = (0, tiny.NO)  # Yes stands first, so a plain argmax would say Yes
    features, offsets = run.encode_videos(clips.videos)
    out = run.answer([[clips.prompt(0)]], [offsets], features=features, method=Base(), alpha=0.0)
    assert out.margin[0] == 0
    assert out.tokens[0, 0] == tiny.NO


def test_number_of_compilations(pair):
    """Lengths and sizes inside a bucket share a program."""
    _, ours = pair
    jax.clear_caches()
    for seed, shapes in enumerate(
        [[(1, 4, 4), (1, 2, 8)], [(2, 2, 8), (1, 4, 4)], [(1, 4, 6)] * 2]
    ):
        clips = Clips(ours, shapes, seed=seed)
        run = engine(ours, clips)
        features, offsets = run.encode_videos(clips.videos)
        prompts = [clips.prompt(0), clips.prompt(1)]
        run.answer([prompts], [offsets], features=features, method=Base(), alpha=0.0)
        for alpha in (0.5, 1.0):
            run.answer(
                [prompts, prompts[::-1]], [offsets, offsets[::-1]],
                features=features, method=CTCD(), alpha=alpha,
            )  # fmt: skip
    assert encode_video._cache_size() == 1
    assert generate._cache_size() == 2


@pytest.mark.parametrize(("n", "expected"), [(1, 64), (64, 64), (65, 80), (129, 160), (1000, 1024)])
def test_bucket(n, expected):
    assert bucket(n) == expected
    assert all(bucket(i) >= i and bucket(i) <= max(64, 1.25 * i) for i in range(1, 3000))


def test_wrong_use(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    with pytest.raises(ValueError, match="batch=0"):
        engine(ours, clips, batch=0)
    run = engine(ours, clips, batch=1)
    features, offsets = run.encode_videos(clips.videos)
    with pytest.raises(ValueError, match="branches"):
        run.answer([[clips.prompt(0)]], [offsets], features=features, method=CTCD(), alpha=1.0)
