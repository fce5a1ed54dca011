"""The engine against transformers' generate and against runs without any cache."""

import hashlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import torch
from flax import nnx

from cctv.decoding import passes
from cctv.decoding.contrast import CTCD, TCD, VCD, Base, noise_scales
from cctv.decoding.engine import Engine, Stream, bucket, common_prefix
from cctv.decoding.passes import Job
from cctv.models import qwen3_vl, weights
from cctv.models.base import Prompt
from cctv.models.qwen3_vl import positions
from cctv.models.qwen_vit import groups

STEPS = 10
QUESTIONS = [5, 9, 7]  # tokens of each question


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
    """Random videos (patches, rows, columns) and what the engine needs of an encoder."""

    def __init__(self, ours, shapes, *, seed=0, questions=QUESTIONS, video_first=True):
        rng = np.random.default_rng(seed)
        self.clips = [self.clip(rng, *shape) for shape in shapes]
        self.texts = [rng.integers(10, 280, n) for n in questions]
        self.head = [rng.integers(10, 280, 3) for _ in range(10)]  # "time stamps"
        self.video_first = video_first
        self.encoder = SimpleNamespace(
            answer_ids=(tiny.YES, tiny.NO),
            stop_ids=(tiny.STOP,),
            vision_inputs=lambda c: groups(c.patches, c.rows, c.columns, ours.config.vision),
            group_digests=lambda c: [hashlib.sha1(p.tobytes()).digest() for p in c.patches],
        )

    @staticmethod
    def clip(rng, g, rows, columns):
        patches = rng.standard_normal((g, rows * columns, 1536)).astype(np.float32)
        digest = hashlib.sha256(patches.tobytes()).hexdigest()
        return SimpleNamespace(patches=patches, rows=rows, columns=columns, digest=digest)

    def tokens(self, clip, text):
        """Three tokens and a vision block a group; the question behind (or before)."""
        video = []
        for g in range(len(clip.patches)):
            pads = [tiny.VIDEO_PAD] * (clip.rows * clip.columns // 4)
            video += [*self.head[g], tiny.VISION_START, *pads, tiny.VISION_END]
        parts = ([1], video, [2, 3], text) if self.video_first else ([1], text, video, [2, 3])
        return np.concatenate(parts).astype(np.int32)

    def prompt(self, clip, text) -> Prompt:
        tokens = self.tokens(clip, text)
        is_visual = tokens == tiny.VIDEO_PAD
        visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
        return positions(tokens, visual, clip.rows // 2, clip.columns // 2)

    def stream(self, i, **kw) -> Stream:
        clip = self.clips[i]
        return Stream(clip, [self.prompt(clip, t) for t in self.texts], owner=str(i), **kw)

    def streams(self):
        return [self.stream(i) for i in range(len(self.clips))]


def engine(ours, clips, **kw):
    return Engine(ours, clips.encoder, **(dict(vision_batch=2, max_new_tokens=STEPS) | kw))


BASE2 = Job(Base(), (0, 1))
CTCD2 = Job(CTCD(), (0, 1), (1, 0))


def torch_inputs(clip, tokens):
    return dict(
        input_ids=torch.tensor(tokens[None]).long(),
        mm_token_type_ids=torch.tensor((tokens == tiny.VIDEO_PAD)[None] * 2).int(),
        pixel_values_videos=torch.tensor(clip.patches.reshape(-1, 1536)),
        video_grid_thw=torch.tensor([[len(clip.patches), clip.rows, clip.columns]]),
    )


def without_cache(theirs, branches, alpha, steps, *, stop=(tiny.STOP,)):
    """Greedy tokens and first margins by a full forward of each branch at each step.

    branches: [(clip, prompt tokens)], the original first.
    """
    said, margins = [], None
    for _ in range(steps):
        z = []
        for clip, tokens in branches:
            tokens = np.concatenate([tokens, said]).astype(np.int32)
            with torch.no_grad():
                z.append(theirs(**torch_inputs(clip, tokens)).logits[0, -1].double().numpy())
        fused = z[0] if len(z) == 1 else (1 + alpha) * z[0] - alpha * z[1]
        if margins is None:
            margins = [a[tiny.YES] - a[tiny.NO] for a in (fused, *z[1:])]
        said.append(int(fused.argmax()))
        if said[-1] in stop or (len(said) == 1 and said[0] in (tiny.YES, tiny.NO)):
            break
    return said, margins


@pytest.mark.parametrize("video_first", [True, False])
def test_greedy_tokens_equal_transformers(pair, video_first):
    """Two videos of different length and size, three questions of different length; also where a
    family's prompt has the question before the video, so that only vision features are shared."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)], video_first=video_first)
    (out,) = engine(ours, clips).run(clips.streams(), [BASE2], alphas=[0.0])
    long = 0
    for v, clip in enumerate(clips.clips):
        for q, text in enumerate(clips.texts):
            said, (margin,) = without_cache(theirs, [(clip, clips.tokens(clip, text))], 0.0, STEPS)
            assert out.tokens[v, q, : out.count[v, q]].tolist() == said
            assert abs(out.margin[v, q] - margin) < 1e-4
            long += len(said) >= 8
    assert long >= 3
    tokens = clips.tokens(clips.clips[0], clips.texts[0])
    generated = theirs.generate(
        **torch_inputs(clips.clips[0], tokens),
        do_sample=False,
        max_new_tokens=STEPS,
        pad_token_id=0,
    )
    assert out.tokens[0, 0].tolist() == generated[0, len(tokens) :].tolist()


def torch_logits(theirs, clip, tokens):
    with torch.no_grad():
        return theirs(**torch_inputs(clip, tokens)).logits[0, -1].double().numpy()


def exact_to(original, contrast):
    """Where a third token first wins, on a fine grid of α (inf: not before 10)."""
    grid = np.linspace(0, 10, 10_001)[:, None]
    third = ~np.isin(((1 + grid) * original - grid * contrast).argmax(1), [tiny.YES, tiny.NO])
    return grid[third.argmax(), 0] if third.any() else np.inf


def test_plausibility_in_a_whole_pass(pair):
    """β removes tokens: rows say so, and keep the margin of the unmasked logits."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)], seed=1)
    jobs = [CTCD2, Job(CTCD(beta=0.5), (0, 1), (1, 0))]
    free, held = engine(ours, clips).run(clips.streams(), jobs, alphas=[2.0, 2.0])
    np.testing.assert_array_equal(held.margin, free.margin)
    assert held.masked.all()
    assert not free.masked.any()
    for v, order in enumerate([(0, 1), (1, 0)]):
        for q, text in enumerate(clips.texts):
            z, other = (
                torch_logits(theirs, clips.clips[i], clips.tokens(clips.clips[i], text))
                for i in order
            )
            fused = np.where(z < np.log(0.5) + z.max(), -np.inf, 3 * z - 2 * other)
            assert held.tokens[v, q, 0] == fused.argmax()


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_each_branch_equals_a_run_without_cache(pair, alpha):
    """cases.md 14 and 15: branches of different prompt length, several answer tokens."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)], seed=1)
    base, contrast = engine(ours, clips).run(clips.streams(), [BASE2, CTCD2], alphas=[0, alpha])
    long = 0
    for v, order in enumerate([(0, 1), (1, 0)]):
        for q, text in enumerate(clips.texts):
            branches = [(clips.clips[i], clips.tokens(clips.clips[i], text)) for i in order]
            assert len(branches[0][1]) != len(branches[1][1])
            said, margins = without_cache(theirs, branches, alpha, STEPS)
            assert contrast.tokens[v, q, : contrast.count[v, q]].tolist() == said
            assert abs(contrast.margin[v, q] - margins[0]) < 1e-4 * (1 + 2 * alpha)
            assert abs(contrast.margin_contrast[v, q] - margins[1]) < 1e-4
            long += len(said) > 2
            z = [torch_logits(theirs, *branch) for branch in branches]
            assert contrast.exact_to[v, q] == pytest.approx(exact_to(*z), rel=1e-2, abs=2e-3)
    assert long >= 3
    # C-TCD from the base run: the contrast of one video is the base of the other, bit by bit.
    np.testing.assert_array_equal(contrast.margin_contrast, base.margin[::-1])


def test_the_base_is_not_touched_by_other_methods(pair):
    """cases.md 14: with multi-token answers in the same pass, the base answers stay what they are;
    invariance to which other methods run."""
    _, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)])
    (alone,) = engine(ours, clips).run(clips.streams(), [BASE2], alphas=[0])
    streams = [*clips.streams(), clips.stream(0, noise_step=500), clips.stream(1, noise_step=500)]
    jobs = [Job(VCD(), (0, 1), (2, 3)), BASE2, CTCD2]
    _, together, _ = engine(ours, clips).run(streams, jobs, alphas=[1, 0, 1])
    np.testing.assert_array_equal(together.tokens, alone.tokens)
    np.testing.assert_allclose(together.margin, alone.margin, atol=1e-5)


def test_vcd_against_transformers_on_the_same_noise(pair):
    """The contrast branch sees √ᾱ x + √(1−ᾱ) ε, drawn once a video."""
    theirs, ours = pair
    clips = Clips(ours, [(3, 4, 6)])
    streams = [clips.stream(0), clips.stream(0, noise_step=700)]
    run = engine(ours, clips, seed=3)
    (out,) = run.run(streams, [Job(VCD(noise_step=700), (0,), (1,))], alphas=[1.5])
    # The same draws, made here patch by patch.
    clip = clips.clips[0]
    key = jax.random.fold_in(jax.random.key(3), np.uint32(int(clip.digest[:8], 16)))
    keep, add = noise_scales(700)
    noisy = clip.patches.copy()
    for g in range(3):
        for p in range(24):
            k = jax.random.fold_in(jax.random.fold_in(key, g), p)
            noisy[g, p] = keep * noisy[g, p] + add * np.asarray(jax.random.normal(k, (1536,)))
    assert 0.9 < (noisy - keep * clip.patches).std() / add < 1.1
    other = SimpleNamespace(**(vars(clip) | dict(patches=noisy)))
    for q, text in enumerate(clips.texts):
        tokens = clips.tokens(clip, text)
        said, margins = without_cache(theirs, [(clip, tokens), (other, tokens)], 1.5, STEPS)
        assert out.tokens[0, q, : out.count[0, q]].tolist() == said
        np.testing.assert_allclose(
            [out.margin[0, q], out.margin_contrast[0, q]], margins, atol=4e-4
        )


def test_noise_does_not_depend_on_padding_or_batch(pair):
    _, ours = pair
    clips = Clips(ours, [(5, 4, 6)])
    tables = [
        np.asarray(engine(ours, clips, vision_batch=n).encode([clips.stream(0, noise_step=500)])[0])
        for n in (1, 2, 8)
    ]
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], atol=1e-5)
    other = engine(ours, clips, seed=1).encode([clips.stream(0, noise_step=500)])[0]
    assert np.abs(np.asarray(other) - tables[0]).max() > 0.01


def test_noise_schedule():
    """Protocol section 4."""
    assert abs(noise_scales(500)[0] ** 2 - 0.744799) < 1e-6
    assert abs(noise_scales(999)[0] ** 2 - 0.081249) < 1e-6
    assert abs(sum(s**2 for s in noise_scales(123)) - 1) < 1e-12


def test_a_later_call_equals_a_fresh_one(pair):
    """cases.md 13, 15: nothing of an earlier call is left; same shapes are bitwise equal."""
    _, ours = pair
    clips, others = Clips(ours, [(3, 4, 6), (1, 2, 8)]), Clips(ours, [(2, 6, 2), (3, 4, 4)], seed=5)
    fresh, used = engine(ours, clips), engine(ours, clips)
    used.run(others.streams(), [CTCD2, BASE2], alphas=[2.0, 0])
    used.run(clips.streams()[::-1], [BASE2], alphas=[0])
    a, b = (e.run(clips.streams(), [BASE2, CTCD2], alphas=[0, 1.0]) for e in (fresh, used))
    for x, y in zip(a, b):
        for field, other in zip(x, y):
            np.testing.assert_array_equal(field, other)


def test_answers_do_not_depend_on_company_or_order(pair):
    """cases.md 11, 12, 13: alone, in batches of one or two questions, in another order."""
    _, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8), (2, 6, 2)])
    (out,) = engine(ours, clips).run(clips.streams(), [Job(Base(), (0, 1, 2))], alphas=[0])
    for batch in (1, 2):
        (small,) = engine(ours, clips, batch=batch).run(
            clips.streams(), [Job(Base(), (0, 1, 2))], alphas=[0]
        )
        np.testing.assert_allclose(small.margin, out.margin, atol=1e-5)
        np.testing.assert_array_equal(small.tokens, out.tokens)
    for v in range(3):
        alone = clips.stream(v)
        (one,) = engine(ours, clips).run([alone], [Job(Base(), (0,))], alphas=[0])
        np.testing.assert_allclose(one.margin[0], out.margin[v], atol=1e-5)
        turned = alone._replace(prompts=alone.prompts[::-1])
        (one,) = engine(ours, clips).run([turned], [Job(Base(), (0,))], alphas=[0])
        np.testing.assert_allclose(one.margin[0, ::-1], out.margin[v], atol=1e-5)
        single = alone._replace(prompts=alone.prompts[1:2])
        (one,) = engine(ours, clips).run([single], [Job(Base(), (0,))], alphas=[0])
        np.testing.assert_allclose(one.margin[0, 0], out.margin[v, 1], atol=1e-5)


def test_streams_with_different_numbers_of_questions(pair):
    _, ours = pair
    clips = Clips(ours, [(3, 4, 6), (1, 2, 8)])
    few = clips.stream(1)._replace(prompts=clips.stream(1).prompts[:1])
    (out,) = engine(ours, clips).run([clips.stream(0), few], [BASE2], alphas=[0])
    (whole,) = engine(ours, clips).run(clips.streams(), [BASE2], alphas=[0])
    np.testing.assert_allclose(out.margin[0], whole.margin[0], atol=1e-5)
    np.testing.assert_allclose(out.margin[1, 0], whole.margin[1, 0], atol=1e-5)


def test_a_video_does_not_depend_on_its_vision_batch(pair):
    _, ours = pair
    clips = Clips(ours, [(5, 4, 6)])
    tables = [engine(ours, clips, vision_batch=n).encode(clips.streams())[0] for n in (1, 2, 8)]
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], atol=1e-5)


def test_equal_groups_are_encoded_once(pair):
    """TCD's repeated frames and, when asked for, the segment that v+ and v- have in common."""
    _, ours = pair
    clips = Clips(ours, [(4, 4, 6), (4, 4, 6)])
    a, b = clips.clips
    b.patches = np.concatenate([a.patches[:2], b.patches[2:]])  # v- branches off after two groups
    own = engine(ours, clips)
    shared = engine(ours, clips, share_base_segment=True)
    streams = [s._replace(owner="scene") for s in clips.streams()]
    plain = own.run(clips.streams(), [BASE2, CTCD2], alphas=[0, 1.0])
    same = shared.run(streams, [BASE2, CTCD2], alphas=[0, 1.0])
    for x, y in zip(plain, same):
        np.testing.assert_allclose(x.margin, y.margin, atol=1e-4)
        np.testing.assert_array_equal(x.tokens, y.tokens)
    assert own.counts["groups_encoded"] == own.counts["groups"] == 8
    assert shared.counts["groups_encoded"] == 6
    per_group = 3 + 1 + 6 + 1
    # Two whole groups, then the third's time stamp and its vision start, which are text.
    assert shared.counts["prefix_tokens_shared"] == 1 + 2 * per_group + 4
    assert own.counts["prefix_tokens_shared"] == 0


def test_identical_videos_share_everything(pair):
    """Also: identical videos give answers that do not depend on α."""
    _, ours = pair
    clips = Clips(ours, [(2, 4, 6), (2, 4, 6)])
    clips.clips[1] = clips.clips[0]
    streams = [s._replace(owner="scene") for s in clips.streams()]
    run = engine(ours, clips, share_base_segment=True)
    jobs = [BASE2, CTCD2, CTCD2]
    base, low, high = run.run(streams, jobs, alphas=[0, 0.5, 4.0])
    assert run.counts["groups_encoded"] == 2
    np.testing.assert_allclose(low.margin, base.margin, atol=1e-4)
    np.testing.assert_allclose(high.margin, base.margin, atol=1e-4)
    np.testing.assert_array_equal(low.tokens, base.tokens)


def test_decoding_stops_at_yes_no_and_stop_tokens(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    run = engine(ours, clips)

    def answers():
        (out,) = run.run(clips.streams(), [Job(Base(), (0,))], alphas=[0])
        return out

    free = answers()
    said = free.tokens[0, 0].tolist()
    assert free.count[0, 0] == STEPS
    # The first token as Yes: one token and the end.
    run.encoder.answer_ids = (said[0], tiny.NO)
    out = answers()
    assert out.count[0, 0] == 1
    assert out.tokens[0, 0, 0] == said[0]
    # A later token as stop: the answer is what stands before it.
    later = next(i for i, t in enumerate(said) if i and t not in said[:i])
    run.encoder.answer_ids, run.encoder.stop_ids = (tiny.YES, tiny.NO), (said[later],)
    assert answers().count[0, 0] == later
    # A stop token at once: an empty answer.
    run.encoder.stop_ids = (said[0],)
    assert answers().count[0, 0] == 0


def test_non_finite_logits_are_seen_row_by_row(pair):
    """cases.md 20."""
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4), (1, 2, 8)])
    clips.clips[1].patches[:] = np.nan
    base, contrast = engine(ours, clips).run(clips.streams(), [BASE2, CTCD2], alphas=[0, 1])
    assert base.finite.all(axis=1).tolist() == [True, False]
    assert not contrast.finite.any()


def test_a_tie_is_no(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    tied = jax.tree.map(lambda w: w, ours)
    tied.decoder.head.table[...] = jnp.zeros_like(ours.decoder.head.table[...])
    run = engine(tied, clips)
    run.encoder.answer_ids = (0, tiny.NO)  # Yes stands first, so a plain argmax would say Yes
    (out,) = run.run(clips.streams(), [Job(Base(), (0,))], alphas=[0])
    assert (out.margin == 0).all()
    assert (out.tokens[..., 0] == tiny.NO).all()


def test_number_of_compilations(pair):
    """Lengths, sizes and numbers of questions inside a bucket share a program; so do all α."""
    _, ours = pair
    jax.clear_caches()
    shapes = [[(1, 4, 4), (1, 2, 8)], [(2, 2, 8), (1, 4, 4)], [(1, 4, 6)] * 2]
    for seed, shape in enumerate(shapes):
        clips = Clips(ours, shape, seed=seed, questions=[5, 9, 7, 3][: 4 - seed])
        run = engine(ours, clips)
        for alpha in (0.5, 1.0):
            run.run(clips.streams(), [BASE2, CTCD2], alphas=[0, alpha])
    assert passes.encode_video._cache_size() == 1
    assert passes.read_prefix._cache_size() == 1
    assert passes.answer._cache_size() == 1
    assert passes.go_on._cache_size() == 2  # one a job


@pytest.mark.parametrize(("n", "expected"), [(1, 64), (64, 64), (65, 72), (129, 144), (1000, 1024)])
def test_bucket(n, expected):
    assert bucket(n, least=64) == expected
    assert all(i <= bucket(i, least=64) <= max(64, 1.125 * i) for i in range(1, 3000))


def test_common_prefix_is_of_tokens():
    def prompt(*ids):
        return Prompt(np.array(ids, np.int32), None, None, 0)

    assert common_prefix([prompt(1, 2, 3, 4), prompt(1, 2, 5)]) == 2
    assert common_prefix([prompt(1, 2, 3), prompt(1, 2, 3, 4)]) == 2  # each keeps a token
    assert common_prefix([prompt(1, 2, 3)]) == 2
    assert common_prefix([prompt(1), prompt(2, 3)]) == 0


@pytest.mark.parametrize(
    ("total", "n", "kept"),
    [(16, None, [0, 5, 10, 15]), (7, None, [0]), (3, 5, [0, 1, 2]), (1, None, [0]), (9, 2, [0, 8])],
)
def test_kept_frames(total, n, kept):
    assert TCD(num_frames=n).kept(total) == kept


def test_wrong_use(pair):
    _, ours = pair
    clips = Clips(ours, [(1, 4, 4)])
    with pytest.raises(ValueError, match="batch=0"):
        engine(ours, clips, batch=0)
    run = engine(ours, clips)
    for job in (Job(CTCD(), (0,)), Job(Base(), (0,), (0,)), Job(Base(), (1,)), Job(Base(), ())):
        with pytest.raises(ValueError, match="does not fit"):
            run.run(clips.streams(), [job], alphas=[0])
