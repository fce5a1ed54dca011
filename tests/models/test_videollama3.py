"""Parity of the VideoLLaMA3 port with transformers on random checkpoints in both layouts, every
parameter perturbed; prompts against golden token ids."""

import copy
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_videollama3 as tiny
import torch
from flax import nnx
from safetensors.numpy import load_file, save_file
from transformers import VideoLlama3Config

from cctv.data.errors import UserError
from cctv.models import videollama3, weights
from cctv.models.decoder import Cache
from cctv.models.encoder import text_positions
from cctv.models.vit import Frames, frames_of

GRIDS = [(3, 4, 6), (2, 8, 2)]
LENGTH = 48  # tokens of every prompt here, so that few programs are compiled


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{layout: folder} of the same weights, and the torch model."""
    hf, original = (tmp_path_factory.mktemp(name) for name in ("transformers", "original"))
    theirs = tiny.create(hf)
    return {"transformers": hf, "original": tiny.as_original(hf, original)}, theirs


@pytest.fixture(scope="module")
def pair(folders):
    """(torch model, our model)."""
    return folders[1], load(folders[0]["transformers"])


def load(folder, dtype=jnp.float32):
    config = videollama3.from_hf(folder)
    abstract = nnx.eval_shape(lambda: videollama3.Model(config, rngs=nnx.Rngs(0)))
    rules = videollama3.rules(config)
    return weights.load(folder, abstract, rules, dtype=dtype, tied=videollama3.TIED)


def video(rng, grid):
    """Random normalised patches of a grid of (frames, rows, columns)."""
    count, rows, columns = grid
    patches = rng.standard_normal((count, rows * columns, tiny.PATCH_DIM)).astype(np.float32)
    return frames_of(patches, rows, columns, merge=2)


def torch_video(inputs, grid):
    return dict(
        pixel_values_videos=torch.tensor(inputs.patches.reshape(-1, tiny.PATCH_DIM)),
        video_grid_thw=torch.tensor([grid]),
        video_merge_sizes=torch.tensor([2]),
    )


@pytest.mark.parametrize("grid", GRIDS)
def test_vision_modules_match(pair, grid):
    """The tower pooled, then the projector."""
    theirs, ours = pair
    inputs = video(np.random.default_rng(0), grid)
    seen = []
    hook = theirs.model.projector.register_forward_hook(lambda m, args, out: seen.extend(args))
    with torch.no_grad():
        out = theirs.model.get_video_features(**torch_video(inputs, grid))
    hook.remove()
    expected = out.pooler_output[0].numpy()
    assert np.abs(expected).max() > 0.1
    got = np.asarray(encode(ours, inputs))
    assert got.shape == (grid[0], grid[1] * grid[2] // 4, 1, 64)
    np.testing.assert_allclose(got.reshape(expected.shape), expected, atol=1e-5, rtol=1e-5)
    x = np.asarray(jax.jit(type(ours.vision.vit).__call__)(
        ours.vision.vit, inputs.patches, inputs.mask, inputs.coords
    ))  # fmt: skip
    pooled = x.reshape(grid[0], -1, 4, x.shape[-1]).mean(2).reshape(len(expected), -1)
    np.testing.assert_allclose(pooled, seen[0].numpy(), atol=1e-5, rtol=1e-5)


@jax.jit
def encode(ours, inputs):
    return ours.encode_video(inputs)


def test_padding_inside_a_frame_changes_nothing(pair):
    _, ours = pair
    exact = video(np.random.default_rng(1), (3, 4, 6))
    padded = Frames(*(np.pad(a, [(0, 1), (0, 8)] + [(0, 0)] * (a.ndim - 2)) for a in exact))
    padded.patches[:, 24:] = 1e3
    got = np.asarray(encode(ours, padded))[:3, :6]
    np.testing.assert_allclose(got, np.asarray(encode(ours, exact)), atol=1e-5)


def prompt(rng, kept):
    """int32[LENGTH]: three tokens of text and the kept visual tokens of each frame, then text."""
    ids = [1]
    for count in kept.sum(axis=1):
        ids += [*rng.integers(10, 280, 3), *[tiny.PAD] * count]
    return np.array([*ids, *rng.integers(10, 280, LENGTH - len(ids))], np.int32)


def logits(ours, inputs, kept, tokens):
    visual = np.full(len(tokens), -1, np.int32)
    visual[tokens == tiny.PAD] = np.flatnonzero(kept)
    p = text_positions(tokens, visual, None)
    features = encode(ours, inputs)
    return np.asarray(
        forward(ours, tokens[None], p.positions[None], visual[None],
                features.reshape(-1, *features.shape[2:]))
    )[0]  # fmt: skip


@jax.jit
def forward(ours, tokens, where, visual, features):
    cache = Cache.zeros(ours.decoder_config, batch=1, slots=tokens.shape[1], dtype=features.dtype)
    hidden, _ = ours(tokens, positions=where, rows=visual, features=features, cache=cache, start=0)
    return ours.logits(hidden)


def torch_inputs(inputs, grid, kept, tokens):
    return torch_video(inputs, grid) | dict(
        input_ids=torch.tensor(tokens[None]).long(),
        video_compression_mask=torch.tensor(kept.ravel()),
    )


def masks(rng, grid):
    """All tokens, and some of each frame."""
    count = grid[1] * grid[2] // 4
    some = rng.random((grid[0], count)) < 0.4
    some[0], some[1:, 0], some[1:, -1] = True, True, False
    return np.ones((grid[0], count), bool), some


@pytest.mark.parametrize("grid", GRIDS)
def test_logits_match_with_and_without_compression(pair, grid):
    theirs, ours = pair
    rng = np.random.default_rng(sum(grid))
    inputs = video(rng, grid)
    for kept in masks(rng, grid):
        tokens = prompt(rng, kept)
        with torch.no_grad():
            expected = theirs(**torch_inputs(inputs, grid, kept, tokens)).logits[0].numpy()
        got = logits(ours, inputs, kept, tokens)
        assert expected.std() > 0.1
        assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def test_both_layouts_load_the_same_model(folders, tmp_path):
    folders, _ = folders
    models = [weights.leaves(load(folder)) for folder in folders.values()]
    assert models[0].keys() == models[1].keys()
    for name, leaf in models[0].items():
        np.testing.assert_array_equal(leaf, models[1][name])
    for layout, folder in folders.items():  # and what we save is what was read
        (tmp_path / layout).mkdir()
        config = videollama3.from_hf(folder)
        assert config.layout == layout
        weights.save(tmp_path / layout, load(folder), videollama3.rules(config))
        saved, was = (load_file(f / "model.safetensors") for f in (tmp_path / layout, folder))
        assert saved.keys() == was.keys()
        for key, tensor in was.items():
            np.testing.assert_array_equal(saved[key], tensor)


def test_configs_of_both_layouts_agree(folders):
    one, other = (videollama3.from_hf(folder) for folder in folders[0].values())
    assert (one.token_compression, other.token_compression) == (None, True)
    assert one == dataclasses.replace(other, layout="transformers", token_compression=None)
    assert one.text.qkv_bias
    assert one.text.rope_theta == 1e6


def test_tied_checkpoints(tmp_path):
    """The 2B ties its head; a repeated head must be equal, in either layout."""
    hf, original = tmp_path / "hf", tmp_path / "original"
    original.mkdir()
    theirs = tiny.create(hf, tie=True)
    tiny.as_original(hf, original)
    rng = np.random.default_rng(3)
    grid, kept = (2, 8, 2), np.ones((2, 4), bool)
    inputs, tokens = video(rng, grid), prompt(rng, kept)
    with torch.no_grad():
        expected = theirs(**torch_inputs(inputs, grid, kept, tokens)).logits[0].numpy()
    ours = load(original)
    assert ours.decoder.head is None
    assert np.abs(logits(ours, inputs, kept, tokens) - expected).max() <= 1e-4
    for folder, embed in ((hf, "model.language_model"), (original, "model")):
        file = folder / "model.safetensors"
        tensors = load_file(file)
        head = tensors[f"{embed}.embed_tokens.weight"]
        save_file(tensors | {"lm_head.weight": head}, file)
        load(folder)
        save_file(tensors | {"lm_head.weight": head + 1}, file)
        with pytest.raises(UserError, match=r"lm_head.weight differs"):
            load(folder)


@pytest.mark.parametrize("where", [None, "text_config"])
def test_where_a_head_is_tied(folders, tmp_path, where):
    """The top level or the text section, as transformers reads it."""
    config = json.loads((folders[0]["transformers"] / "config.json").read_text())
    (config[where] if where else config)["tie_word_embeddings"] = True
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert videollama3.from_hf(tmp_path).text.tie_embeddings
    assert VideoLlama3Config.from_pretrained(tmp_path).tie_word_embeddings


def test_bfloat16_stays_near_float32(folders, pair):
    _, ours = pair
    low = load(folders[0]["original"], jnp.bfloat16)
    assert {leaf.dtype for leaf in jax.tree.leaves(low)} == {jnp.dtype("bfloat16")}
    rng = np.random.default_rng(0)
    grid, kept = (3, 4, 6), np.ones((3, 6), bool)
    inputs, tokens = video(rng, grid), prompt(rng, kept)
    assert encode(low, inputs).dtype == jnp.bfloat16
    exact, rounded = (logits(m, inputs, kept, tokens) for m in (ours, low))
    assert np.abs(exact - rounded).max() < 0.1 * np.abs(exact).max()


def test_strict_loading(folders, tmp_path):
    source = folders[0]["original"]
    (tmp_path / "config.json").write_text((source / "config.json").read_text())
    tensors = load_file(source / "model.safetensors")
    tensors["model.vision_encoder.head.weight"] = np.zeros(3, np.float32)
    tensors["model.mm_projector.readout.0.bias"] = np.zeros(3, np.float32)
    del tensors["model.vision_encoder.encoder.layers.1.self_attn.out_proj.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(weights.ConversionError) as error:
        load(tmp_path)
    assert sorted(p.split()[0] for p in error.value.problems) == [
        "model.mm_projector.readout.0.bias",
        "model.vision_encoder.encoder.layers.1.self_attn.out_proj.bias",
        "model.vision_encoder.head.weight",
    ]


@pytest.mark.parametrize(
    ("layout", "name", "value"),
    [
        ("transformers", "model_type", "llava"),
        ("transformers", "video_token_id", -1),
        ("transformers", "quantization_config", {"bits": 4}),
        ("transformers", "text_config.hidden_act", "gelu"),
        ("transformers", "text_config.use_sliding_window", True),
        ("transformers", "text_config.layer_types", ["sliding_attention"] * 3),
        ("transformers", "text_config.hidden_size", "64"),
        ("transformers", "vision_config.hidden_act", "gelu"),
        ("transformers", "vision_config.patch_size", [14, 14]),
        ("transformers", "vision_config.num_hidden_layers", 0),
        ("transformers", "vision_config.rope_parameters", {"rope_theta": 1e6}),
        ("transformers", "vision_config.layer_norm_eps", "small"),
        ("original", "mm_projector_type", "linear"),
        ("original", "image_token_index", None),
        ("original", "use_token_compression", "yes"),
        ("original", "vision_encoder", "DAMO-NLP-SG/SigLIP-NaViT"),
        ("original", "vision_encoder_config", None),
        ("original", "rope_scaling", {"type": "yarn"}),
        ("original", "mm_use_x_start_end", True),
        ("original", "num_key_value_heads", 3),
        ("original", "vision_encoder_config.num_attention_heads", 5),
        ("original", "vision_encoder_config.num_attention_heads", 24),  # of two numbers each
        ("original", "vision_encoder_config.attention_bias", True),
    ],
)
def test_fields_that_the_port_does_not_follow(folders, tmp_path, layout, name, value):
    config = json.loads((folders[0][layout] / "config.json").read_text())
    *path, last = name.split(".")
    place = config
    for part in path:
        place = place[part]
    place[last] = copy.deepcopy(value)
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = {"num_key_value_heads": "kv heads", "num_attention_heads": "heads"}
    words |= {"rope_scaling": "rope"}
    with pytest.raises(UserError, match=words.get(last, last)) as error:
        videollama3.from_hf(tmp_path)
    assert "\n" not in str(error.value)
    assert "config.json" in str(error.value)


@pytest.mark.parametrize(
    ("name", "billions"), [("videollama3_2b", 1.960), ("videollama3_7b", 8.045)]
)
def test_real_sizes(name, billions):
    config = videollama3.VARIANTS[name]
    model = nnx.eval_shape(lambda: videollama3.Model(config, rngs=nnx.Rngs(0)))
    assert round(weights.parameter_count(model) / 1e9, 3) == billions
    for layout in videollama3.PREFIXES:
        rules = videollama3.rules(dataclasses.replace(config, layout=layout))
        assert {rule.path for rule in rules} == set(weights.leaves(model))
