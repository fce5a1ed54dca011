"""Parity of the Flax port with transformers on random checkpoints, every parameter perturbed."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import torch
from flax import nnx

from cctv.data.errors import UserError
from cctv.models import get, qwen3_vl, weights
from cctv.models.decoder import Cache
from cctv.models.qwen3_vl import positions
from cctv.models.qwen_vit import Groups, groups, layout


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """(torch model, our model) of one folder."""
    folder = tmp_path_factory.mktemp("qwen3_vl")
    theirs = tiny.qwen3_vl(folder)
    return theirs, load(folder)


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_vl_moe"])
def either(request, pair, tmp_path_factory):
    """`pair`, and the same of the family whose decoder is sparse."""
    if request.param == "qwen3_vl":
        return pair
    folder = tmp_path_factory.mktemp(request.param)
    theirs = tiny.qwen3_vl_moe(folder)
    return theirs, load(folder, family=get(request.param))


def load(folder, dtype=jnp.float32, *, family=qwen3_vl):
    config = family.from_hf(folder)
    abstract = nnx.eval_shape(lambda: family.Model(config, rngs=nnx.Rngs(0)))
    return weights.load(folder, abstract, family.rules(config), dtype=dtype, tied=family.TIED)


def pixels(rng, groups_, rows, columns):
    return rng.standard_normal((groups_, rows * columns, 1536)).astype(np.float32)


def vision_inputs(ours, patches, rows, columns):
    return groups(patches, rows, columns, ours.config.vision)


def run(ours, videos, tokens_list, *, pad=0):
    """Logits [B, S, vocabulary] of prompts, one video each, right-padded to a common length."""
    tables, offsets, total = [], [], 0
    for patches, rows, columns in videos:
        f = ours.encode_video(vision_inputs(ours, patches, rows, columns))
        tables.append(f.reshape(-1, *f.shape[2:]))
        offsets.append(total)
        total += len(tables[-1])
    prompts = []
    for tokens, (_, rows, columns) in zip(tokens_list, videos):
        is_visual = tokens == tiny.VIDEO_PAD
        visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
        prompts.append(positions(tokens, visual, rows // 2, columns // 2))
    size = max(len(t) for t in tokens_list) + pad
    b = len(prompts)
    tokens, visual = np.zeros((b, size), np.int32), np.full((b, size), -1, np.int32)
    where = np.zeros((b, size, 3), np.int32)
    for i, p in enumerate(prompts):
        n = len(p.tokens)
        tokens[i, :n], where[i, :n] = p.tokens, p.positions
        visual[i, :n] = np.where(p.visual < 0, -1, p.visual + offsets[i])
    return np.asarray(forward(ours, tokens, where, visual, jnp.concatenate(tables))), prompts


@jax.jit
def forward(ours, tokens, where, visual, features):
    b, size = tokens.shape
    hidden, _ = ours(
        tokens,
        positions=where,
        rows=visual,
        features=features,
        cache=Cache.zeros(ours.decoder_config, batch=b, slots=size, dtype=jnp.float32),
        start=0,
    )
    return ours.logits(hidden)


def torch_inputs(tokens, videos):
    grid = torch.tensor([[len(p), rows, columns] for p, rows, columns in videos])
    return dict(
        input_ids=torch.tensor(tokens[None]).long(),
        mm_token_type_ids=torch.tensor((tokens == tiny.VIDEO_PAD)[None] * 2).int(),
        pixel_values_videos=torch.tensor(
            np.concatenate([p.reshape(-1, 1536) for p, _, _ in videos])
        ),
        video_grid_thw=grid,
    )


@pytest.mark.parametrize(
    ("groups_", "rows", "columns"), [(3, 4, 6), (1, 2, 2), (2, 8, 2), (1, 10, 14)]
)
def test_vision_modules_match(pair, groups_, rows, columns):
    theirs, ours = pair
    patches = pixels(np.random.default_rng(0), groups_, rows, columns)
    with torch.no_grad():
        out = theirs.model.visual(
            torch.tensor(patches.reshape(-1, 1536)), torch.tensor([[groups_, rows, columns]])
        )
    expected = np.stack([out.pooler_output, *out.deepstack_features], axis=1)
    got = np.asarray(ours.encode_video(vision_inputs(ours, patches, rows, columns)))
    got = got.reshape(-1, *got.shape[2:])
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)


def test_padding_inside_a_group_changes_nothing(pair):
    """A video padded to a larger bucket of patches, with rubbish in the padding."""
    _, ours = pair
    patches = pixels(np.random.default_rng(1), 2, 4, 6)
    exact = vision_inputs(ours, patches, 4, 6)
    padded = Groups(*(np.pad(a, [(0, 1), (0, 8)] + [(0, 0)] * (a.ndim - 2)) for a in exact))
    padded.patches[:, 24:] = 1e3
    got = np.asarray(ours.encode_video(padded))[:2, :6]
    np.testing.assert_allclose(got, np.asarray(ours.encode_video(exact)), atol=1e-5)


@pytest.mark.parametrize(("groups_", "rows", "columns"), [(4, 4, 6), (1, 2, 2), (2, 4, 12)])
def test_logits_match(either, groups_, rows, columns):
    theirs, ours = either
    rng = np.random.default_rng(groups_)
    video = (pixels(rng, groups_, rows, columns), rows, columns)
    tokens = tiny.prompt_tokens(rng, groups=groups_, per_group=rows * columns // 4, text=9)
    with torch.no_grad():
        expected = theirs(**torch_inputs(tokens, [video])).logits.numpy()
    got, _ = run(ours, [video], [tokens])
    assert expected.std() > 0.1
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def test_positions_match(pair):
    theirs, _ = pair
    rng = np.random.default_rng(0)
    for groups_, rows, columns in [(3, 4, 6), (1, 2, 2), (2, 2, 10)]:
        tokens = tiny.prompt_tokens(rng, groups=groups_, per_group=rows * columns // 4, text=5)
        inputs = torch_inputs(tokens, [(pixels(rng, groups_, rows, columns), rows, columns)])
        inputs.pop("pixel_values_videos")
        expected, delta = theirs.model.get_rope_index(**inputs)
        is_visual = tokens == tiny.VIDEO_PAD
        visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1)
        prompt = positions(tokens, visual, rows // 2, columns // 2)
        np.testing.assert_array_equal(prompt.positions.T, expected[:, 0].numpy())
        assert prompt.next_position == len(tokens) + int(delta)


def test_two_videos_of_different_length_in_a_batch(pair):
    """cases.md 11, 12: equal to batch 1, and to the reference, under extra padding."""
    theirs, ours = pair
    rng = np.random.default_rng(7)
    videos = [(pixels(rng, 4, 4, 6), 4, 6), (pixels(rng, 1, 2, 8), 2, 8)]
    tokens = [
        tiny.prompt_tokens(rng, groups=4, per_group=6, text=11),
        tiny.prompt_tokens(rng, groups=1, per_group=4, text=3),
    ]
    together, _ = run(ours, videos, tokens, pad=5)
    for i, (video, t) in enumerate(zip(videos, tokens)):
        alone, _ = run(ours, [video], [t])
        np.testing.assert_allclose(together[i, : len(t)], alone[0], atol=1e-5)
        with torch.no_grad():
            expected = theirs(**torch_inputs(t, [video])).logits.numpy()
        assert np.abs(together[i, : len(t)] - expected[0]).max() <= 1e-4


def test_bfloat16_stays_bfloat16(either, tmp_path):
    theirs, _ = either
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path, jnp.bfloat16, family=get(theirs.config.model_type))
    assert {leaf.dtype for leaf in jax.tree.leaves(ours)} == {jnp.dtype("bfloat16")}
    patches = pixels(np.random.default_rng(0), 1, 4, 4)
    features = ours.encode_video(vision_inputs(ours, patches, 4, 4))
    assert features.dtype == jnp.bfloat16
    assert np.isfinite(np.asarray(features, np.float32)).all()


def test_sharded_and_tied_checkpoints(tmp_path):
    theirs = tiny.qwen3_vl(tmp_path, shard="100KB", tie_word_embeddings=True)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ours = load(tmp_path)
    assert ours.decoder.head is None
    rng = np.random.default_rng(3)
    video = (pixels(rng, 1, 4, 4), 4, 4)
    tokens = tiny.prompt_tokens(rng, groups=1, per_group=4, text=4)
    with torch.no_grad():
        expected = theirs(**torch_inputs(tokens, [video])).logits.numpy()
    assert np.abs(run(ours, [video], [tokens])[0] - expected).max() <= 1e-4


def test_what_we_save_opens_in_transformers(either, tmp_path):
    """The published layout; transformers 5 exchanges the last two axes of experts, and reads (as we
    do) either order."""
    from safetensors.numpy import load_file

    theirs, ours = either
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    weights.save(tmp_path / "ours", ours, qwen3_vl.rules(ours.config))
    a, b = (load_file(tmp_path / n / "model.safetensors") for n in ("theirs", "ours"))
    assert a.keys() == b.keys()
    for key in a:
        saved = b[key].swapaxes(1, 2) if ".experts." in key else b[key]
        np.testing.assert_array_equal(a[key], saved)
    shutil.copy(tmp_path / "theirs" / "config.json", tmp_path / "ours")
    again = load(tmp_path / "ours", family=get(theirs.config.model_type))
    jax.tree.map(np.testing.assert_array_equal, weights.leaves(again), weights.leaves(ours))


def edit_config(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("text_config", "hidden_act", "gelu"),
        ("text_config", "attention_bias", True),
        ("text_config", "sliding_window", 4096),
        ("vision_config", "hidden_act", "silu"),
        ("vision_config", "num_position_embeddings", 48),
        (None, "quantization_config", {"bits": 4}),
        (None, "model_type", "llava"),
    ],
)
def test_unsupported_config_fields_raise(tmp_path, section, name, value):
    tiny.qwen3_vl_config().save_pretrained(tmp_path)
    qwen3_vl.from_hf(tmp_path)  # fine as it is
    edit_config(tmp_path, lambda c: (c[section] if section else c).update({name: value}))
    with pytest.raises(UserError, match=name):
        qwen3_vl.from_hf(tmp_path)


def test_rope_of_older_releases(tmp_path):
    """transformers 4.57 wrote rope_theta and rope_scaling instead of rope_parameters."""
    tiny.qwen3_vl_config().save_pretrained(tmp_path)
    new = qwen3_vl.from_hf(tmp_path)

    def older(config):
        rope = config["text_config"].pop("rope_parameters")
        config["text_config"]["rope_theta"] = rope.pop("rope_theta")
        config["text_config"]["rope_scaling"] = rope
        config["vision_config"].pop("rope_parameters")

    edit_config(tmp_path, older)
    assert qwen3_vl.from_hf(tmp_path) == new
    edit_config(tmp_path, lambda c: c["text_config"]["rope_scaling"].update(rope_type="yarn"))
    with pytest.raises(UserError, match="rope_type"):
        qwen3_vl.from_hf(tmp_path)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen3_vl_2b", 2.128), ("qwen3_vl_8b", 8.767), ("qwen3_vl_moe_30b_a3b", 31.071)],
)
def test_real_sizes(name, billions):
    config = (qwen3_vl.VARIANTS | get("qwen3_vl_moe").VARIANTS)[name]
    model = nnx.eval_shape(lambda: qwen3_vl.Model(config, rngs=nnx.Rngs(0)))
    assert round(weights.parameter_count(model) / 1e9, 3) == billions
    covered = {rule.path for rule in qwen3_vl.rules(config)}
    assert covered == set(weights.leaves(model))


def test_layout_is_block_major():
    config = qwen3_vl.VARIANTS["qwen3_vl_2b"].vision
    coords, taps, w = layout(4, 4, config)
    assert coords[:6].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3]]
    np.testing.assert_allclose(w.sum(1), 1, atol=1e-6)
    assert taps.max() == 48 * 48 - 1
