"""Every family through the same engine, methods, rows and runs, against its transformers model."""

import hashlib
import importlib
import json
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from families import FAMILIES, write_tokenizer
from flax import nnx

from cctv import models
from cctv.data import schema
from cctv.data.preprocess import Clip, grid_of, resize
from cctv.data.schema import SIDES, QuestionPair, Scene
from cctv.decoding import engine as engines
from cctv.decoding.contrast import CTCD, TCD, VCD, Base, noise_scales
from cctv.models import weights
from cctv.runs import builtin, predict, run

ALPHA, SEED = 0.5, 7
PROMPT = "Watch and answer with Yes or No. {question}"
SYSTEMS = {
    "base": Base(),
    "vcd": VCD(noise_step=500),
    "tcd": TCD(),
    "drop": TCD(num_frames=3, mode="drop"),
    "c_tcd": CTCD(),
}
QUESTIONS = (
    ("Did the red car hit the van?", "Did it stop?"),
    (
        "Was the bus the first to enter the junction at 0.5 s?",
        "Did a truck leave the road, or not?",
    ),
)


@pytest.fixture(scope="module", autouse=True)
def exact_and_slim():
    """Exact matmuls. Few of the compiler's optimizations, as these models run for less time than
    they compile; and one torch thread, as in models so small threads wait for each other only."""
    before, name = torch.get_num_threads(), "jax_disable_most_optimizations"
    optimized = jax.config.read(name)
    torch.set_num_threads(1)
    jax.config.update(name, True)
    with jax.default_matmul_precision("highest"):
        yield
    jax.config.update(name, optimized)
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=FAMILIES)
def one(request, tmp_path_factory):
    """A tiny checkpoint of a family: its folder, torch model, our model, encoder, clips."""
    family, module = FAMILIES[request.param], models.get(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    texts = [PROMPT, *(q for pair in QUESTIONS for q in pair)]
    theirs = family.create(folder, *write_tokenizer(folder, family, texts))
    config = module.from_hf(folder)
    abstract = nnx.eval_shape(lambda: module.Model(config, rngs=nnx.Rngs(0)))
    ours = weights.load(folder, abstract, module.rules(config), dtype=jnp.float32, tied=module.TIED)
    encoder = module.encoder(folder, config, video=dict(family.video), **family.options)
    clips = {side: clip(encoder, *shape) for side, shape in zip(SIDES, family.shapes)}
    return SimpleNamespace(
        name=request.param, family=family, folder=folder, theirs=theirs, ours=ours,
        encoder=encoder, clips=clips,
    )  # fmt: skip


def clip(encoder, count, height, width, *, seed=0) -> Clip:
    """A clip as `load_clip` gives it, of frames whose right half changes from one to the next."""
    rng = np.random.default_rng([seed, count, height])
    frames = rng.integers(0, 256, (count, height, width, 3)).astype(np.uint8)
    frames[:, :, : width // 2] = frames[0, :, : width // 2]
    frames = resize(frames, encoder.processor.smart_resize(count, height, width))
    return Clip(
        frames=frames,
        grid=grid_of(frames, encoder.processor),
        times=np.arange(count) / 2,
        indices=tuple(range(count)),
        digest=hashlib.sha256(frames.tobytes()).hexdigest(),
    )


def make_scene(name="s", questions=QUESTIONS) -> Scene:
    pairs = [
        QuestionPair(pair_id=f"{name}-{i}", category="event", positive=a, negative=b)
        for i, (a, b) in enumerate(questions)
    ]
    return Scene(
        scene_id=name, source="", view="", anomaly_type="", videos={}, questions=tuple(pairs)
    )


def rows_under(one, names, units, **settings):
    """{(system, text, side): row} of the first unit."""
    systems = [
        predict.System(method=SYSTEMS[n], alpha=0.0 if n == "base" else ALPHA, model=n, run="")
        for n in names
    ]
    # One token: the loop for more is compiled for each method. The run below has answers of more.
    settings = dict(max_new_tokens=1, seed=SEED) | settings
    engine = engines.Engine(one.ours, one.encoder, **settings)
    first = units[0].scene
    texts = {(p.pair_id, side): getattr(p, side) for p in first.questions for side in SIDES}
    found = predict.rows_of(units, systems, engine=engine, prompt=PROMPT)
    return {
        (row["model"], texts[row["pair_id"], row["question"]], row["video"]): row
        for row in found
        if row["scene_id"] == first.scene_id
    }


@pytest.fixture(scope="module")
def rows(one):
    """The rows of one scene under all systems, in one pass."""
    return rows_under(one, SYSTEMS, [predict.Unit(make_scene(), one.clips)])


# The same by transformers, one prompt at a time and without a cache.


def noisy(one, clip):
    """Vision inputs under VCD's noise, drawn patch by patch on the normalised pixels."""
    inputs = one.encoder.vision_inputs(clip)
    key = jax.random.fold_in(jax.random.key(SEED), np.uint32(int(clip.digest[:8], 16)))
    keep, add = noise_scales(SYSTEMS["vcd"].noise_step)
    groups, patches, size = inputs.patches.shape

    @jax.jit
    def draw(group, patch):
        k = jax.random.fold_in(jax.random.fold_in(key, group), patch)
        return jax.random.normal(k, (size,))

    out = keep * inputs.patches
    for g in range(groups):
        for p in range(patches):
            out[g, p] += add * np.asarray(draw(g, p))
    return inputs._replace(patches=out)


def forms(one, name, side):
    """(clip, vision inputs) of the original and of what a system contrasts it with."""
    clip = one.clips[side]
    original = (clip, one.encoder.vision_inputs(clip))
    if name == "base":
        return [original]
    if name == "vcd":
        return [original, (clip, noisy(one, clip))]
    if name == "c_tcd":
        other = one.clips[SIDES[1 - SIDES.index(side)]]
    else:
        method = SYSTEMS[name]
        kept = method.kept(len(clip.indices))
        other = one.encoder.keep_frames(clip, kept, mode=method.mode)
    return [original, (other, one.encoder.vision_inputs(other))]


def logits(one, form, tokens):
    """float64[vocabulary] after the last token."""
    tokens = torch.tensor(np.asarray(tokens)[None]).long()
    with torch.no_grad():
        out = one.theirs(**one.family.torch_inputs(one.encoder, *form, tokens))
    return out.logits[0, -1].double().numpy()


def greedy(one, branches, text, alpha, *, steps=1):
    """(tokens, margins): the first margins of the fused logits and of each further branch."""
    prompts = [one.encoder.prompts([text], c)[0].tokens for c, _ in branches]
    yes, no = one.encoder.answer_ids
    said, margins = [], None
    for _ in range(steps):
        z = [logits(one, form, [*p, *said]) for form, p in zip(branches, prompts)]
        fused = z[0] if len(z) == 1 else (1 + alpha) * z[0] - alpha * z[1]
        if margins is None:
            margins = [a[yes] - a[no] for a in (fused, *z[1:])]
        token = int(fused.argmax())
        if token in one.encoder.stop_ids:
            break
        said.append(token)
        if len(said) == 1 and token in (yes, no):
            break
    return said, margins


@pytest.mark.parametrize("name", SYSTEMS)
def test_rows_equal_transformers(one, rows, name):
    """Margins of every cell and branch."""
    alpha, compared = (0.0 if name == "base" else ALPHA), 0
    for side in SIDES:
        branches = forms(one, name, side)
        for text in (q for pair in QUESTIONS for q in pair):
            row = rows[name, text, side]
            said, margins = greedy(one, branches, PROMPT.format(question=text), alpha)
            assert row["status"] in ("ok", "unparsed")
            assert row["answer"] == one.encoder.decode(said)
            assert abs(row["margin"] - margins[0]) < 1e-4 * (1 + 2 * alpha)
            if name != "base":
                assert abs(row["margin_contrast"] - margins[1]) < 1e-4
                assert abs(row["margin_contrast"] - rows["base", text, side]["margin"]) > 1e-4
            compared += 1
    assert compared == 2 * 4


def test_c_tcd_is_read_off_the_base(rows):
    for (name, text, side), row in rows.items():
        if name == "c_tcd":
            other = SIDES[1 - SIDES.index(side)]
            assert row["margin_contrast"] == rows["base", text, other]["margin"]


def test_branches_have_prompts_of_different_length(one, rows):
    """Where counterparts can't, the video that TCD shortened is the shorter one."""
    text = PROMPT.format(question=QUESTIONS[0][0])
    kept = SYSTEMS["drop"].kept(8)
    short = one.encoder.keep_frames(one.clips["positive"], kept, mode="drop")
    own, dropped = (len(one.encoder.prompts([text], c)[0].tokens)
                    for c in (one.clips["positive"], short))  # fmt: skip
    assert rows["base", QUESTIONS[0][0], "positive"]["n_prompt_tokens"] == own > dropped
    counts = {rows["base", QUESTIONS[0][0], side]["n_prompt_tokens"] for side in SIDES}
    assert len(counts) == (1 if one.name in SAME_LENGTH else 2)


SAME_LENGTH = ("internvl3_5",)  # families that show every video in as many tokens


def test_batch_order_and_company_change_nothing(one, rows):
    """Other batches, the questions in another order, and a longer scene in the same pass."""
    (count, height, width), other = one.family.shapes
    longer = {
        "positive": clip(one.encoder, count + 3, height, width, seed=1),
        "negative": clip(one.encoder, *other, seed=1),
    }
    reverse = [(b, a) for a, b in reversed(QUESTIONS)]
    units = [
        predict.Unit(make_scene("s", reverse), one.clips),
        predict.Unit(make_scene("longer"), longer),
    ]
    found = rows_under(one, ("base", "vcd", "c_tcd"), units, batch=3, vision_batch=3)
    assert len(found) == 3 * 2 * 4
    for at, row in found.items():
        assert abs(row["margin"] - rows[at]["margin"]) < 1e-4 * (1 + 2 * ALPHA), at
        assert row["answer"] == rows[at]["answer"]
        assert row["n_prompt_tokens"] == rows[at]["n_prompt_tokens"]


# Whole runs


@pytest.fixture(scope="module")
def data(cache, tmp_path_factory):
    """A scene of the built-in world with two of its pairs, and the same with its videos exchanged:
    two scenes that need one compilation, whatever a family makes of their lengths."""
    source = builtin.dataset(scenes=2, seed=10, size=(160, 90))
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(source / "videos", folder / "videos")
    scene = json.loads((source / "scenes.jsonl").read_text().splitlines()[0])
    videos, lines = scene["videos"], []
    for name, order in (("first", SIDES), ("second", SIDES[::-1])):
        pairs = [q | {"pair_id": f"{name}-{i}"} for i, q in enumerate(scene["questions"][:2])]
        exchanged = {side: videos[other] for side, other in zip(SIDES, order)}
        lines.append(scene | {"scene_id": name, "videos": exchanged, "questions": pairs})
    (folder / "scenes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def config(one, data):
    """The family's own config on two scenes and the tiny checkpoint."""
    c = importlib.import_module(f"configs.{one.name}").get_config()
    c.data.path = str(data)
    c.model.path, c.model.dtype, c.model.name = str(one.folder), "float32", one.name
    c.max_new_tokens, c.alpha, c.bootstrap.replicates = 3, ALPHA, 50
    c.video.update(one.family.video)
    c.model.update(one.family.options)
    return c


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """The workdir of an uninterrupted run of base and C-TCD, not to be changed."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    assert run.evaluate(config, workdir) == 0
    return workdir


def test_answers_of_several_tokens_from_the_file(one, config, whole, rows_of):
    """From the mp4 to the last token, again by transformers without a cache."""
    data = schema.load(config.data.path)
    about, longest = data.scenes[-1], 0
    clips = {side: one.encoder.load_clip(str(data.video_path(about, side))) for side in SIDES}
    pair = about.questions[0]
    rows = {
        (r["method"], r["video"]): r
        for r in rows_of(whole)
        if (r["pair_id"], r["question"]) == (pair.pair_id, "positive")
    }
    text = config.prompt.replace("{question}", pair.positive)
    forms = {side: (clip, one.encoder.vision_inputs(clip)) for side, clip in clips.items()}
    for side, other in (SIDES, SIDES[::-1]):
        for method, branches in (("base", [side]), ("c_tcd", [side, other])):
            row = rows[method, side]
            said, (margin, *_) = greedy(one, [forms[b] for b in branches], text, ALPHA, steps=3)
            assert row["answer"] == one.encoder.decode(said)
            assert row["n_answer_tokens"] == len(said)
            assert abs(row["margin"] - margin) < 1e-4 * (1 + 2 * ALPHA)
            longest = max(longest, len(said))
    assert longest > 1


def test_an_interrupted_run_resumes_to_the_same_files(config, whole, tmp_path):
    part, name = tmp_path / "part", "predictions-00000-of-00001.jsonl"
    shutil.copytree(whole, part)
    lines = (whole / name).read_text().splitlines(keepends=True)
    (part / name).write_text("".join(lines[: len(lines) * 3 // 4]))  # half of the second scene
    (part / "metrics.json").unlink()
    assert run.evaluate(config, part) == 0
    resumed = (part / name).read_text().splitlines(keepends=True)
    assert sorted(resumed) == sorted(lines)
    assert (part / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()
