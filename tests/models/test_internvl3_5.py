"""Parity of the InternVL3.5 port with transformers on random checkpoints in both published layouts,
every parameter perturbed."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_internvl as tiny
import torch
from flax import nnx
from safetensors.numpy import load_file

from cctv.data.errors import UserError
from cctv.data.preprocess import patch_coords, patchify
from cctv.models import internvl3_5, weights
from cctv.models.decoder import Cache
from cctv.models.encoder import text_positions
from cctv.models.internvl3_5 import Frames
from cctv.models.vit import ViTConfig

SIZE = tiny.SIDE * tiny.PATCH


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{layout: folder} of the same weights, and the torch model."""
    hf, chat = (tmp_path_factory.mktemp(name) for name in ("internvl", "internvl_chat"))
    theirs = tiny.create(hf)
    return {"internvl": hf, "internvl_chat": tiny.as_chat(hf, chat)}, theirs


@pytest.fixture(scope="module")
def pair(folders):
    """(torch model, our model)."""
    return folders[1], load(folders[0]["internvl"])


def load(folder, dtype=jnp.float32):
    config = internvl3_5.from_hf(folder)
    abstract = nnx.eval_shape(lambda: internvl3_5.Model(config, rngs=nnx.Rngs(0)))
    return weights.load(
        folder,
        abstract,
        internvl3_5.rules(config),
        dtype=dtype,
        tied=internvl3_5.TIED,
        layout=config.layout,
    )


def pixels(rng, count):
    return rng.standard_normal((count, SIZE, SIZE, 3)).astype(np.float32)


def frames(pixels):
    patches = patchify(pixels, patch=tiny.PATCH, merge=2)
    coords = np.broadcast_to(patch_coords(tiny.SIDE, tiny.SIDE, merge=2), (*patches.shape[:2], 2))
    return Frames(patches, coords, np.ones(patches.shape[:2], bool))


def prompt(rng, count, text):
    """int32[S]: three tokens of text and one frame at a time, then `text` tokens."""
    ids = [1]
    for _ in range(count):
        ids += [*rng.integers(10, 280, 3), tiny.IMG, *[tiny.CONTEXT] * tiny.TOKENS, tiny.IMG_END]
    return np.array([*ids, *rng.integers(10, 280, text)], np.int32)


def logits(ours, pixels, tokens):
    features = encode(ours, frames(pixels))
    is_visual = tokens == tiny.CONTEXT
    rows = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
    where = text_positions(tokens, rows, None).positions
    table = features.reshape(-1, *features.shape[2:])
    return np.asarray(forward(ours, tokens[None], where[None], rows[None], table))


@jax.jit
def encode(ours, inputs):
    return ours.encode_video(inputs)


@jax.jit
def forward(ours, tokens, where, rows, features):
    size = tokens.shape[1]
    cache = Cache.zeros(ours.decoder_config, batch=1, slots=size, dtype=features.dtype)
    hidden, _ = ours(tokens, positions=where, rows=rows, features=features, cache=cache, start=0)
    return ours.logits(hidden)


def torch_inputs(pixels, tokens):
    return dict(
        input_ids=torch.tensor(tokens[None]).long(),
        pixel_values=torch.tensor(pixels.transpose(0, 3, 1, 2).copy()),
    )


def test_vision_modules_match(pair):
    """The tower before and after the projector, in the reference's order of patches."""
    theirs, ours = pair
    video = pixels(np.random.default_rng(0), 3)
    inputs = frames(video)
    with torch.no_grad():
        given = torch_inputs(video, np.zeros(1, np.int32))["pixel_values"]
        hidden = theirs.model.vision_tower(given).last_hidden_state[:, 1:].numpy()
        projected = theirs.model.get_image_features(given).pooler_output.numpy()
    order = patch_coords(tiny.SIDE, tiny.SIDE, merge=2) @ [tiny.SIDE, 1]
    got = np.asarray(ours.vision.vit(inputs.patches, inputs.mask, inputs.coords))
    assert np.abs(hidden).max() > 0.1
    np.testing.assert_allclose(got, hidden[:, order], atol=1e-5, rtol=1e-5)
    got = np.asarray(encode(ours, inputs))
    assert np.abs(projected).max() > 0.1
    np.testing.assert_allclose(got[:, :, 0], projected, atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing(pair):
    """A frame of 16 patches padded to 64, with rubbish in the padding."""
    _, ours = pair
    exact = frames(pixels(np.random.default_rng(1), 3))
    padded = Frames(*(np.pad(a, [(0, 1), (0, 48)] + [(0, 0)] * (a.ndim - 2)) for a in exact))
    padded.patches[:, 16:] = 1e3
    got = np.asarray(encode(ours, padded))
    assert got.shape[1] == 16
    np.testing.assert_allclose(got[:3, :4], np.asarray(encode(ours, exact)), atol=1e-5)
    assert np.isfinite(got).all()


def test_logits_match(pair):
    theirs, ours = pair
    rng = np.random.default_rng(2)
    video, tokens = pixels(rng, 3), prompt(rng, 3, 9)
    with torch.no_grad():
        expected = theirs(**torch_inputs(video, tokens)).logits.numpy()
    got = logits(ours, video, tokens)
    assert expected.std() > 0.1
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())
    assert (
        np.abs(got - logits(ours, video[::-1], tokens)).max() > 1e-2
    )  # the order of frames counts


def test_the_other_layout_gives_the_same_model(pair, folders):
    other = weights.leaves(load(folders[0]["internvl_chat"]))
    ours = weights.leaves(pair[1])
    assert other.keys() == ours.keys()
    for path, leaf in ours.items():
        np.testing.assert_array_equal(np.asarray(other[path]), np.asarray(leaf), err_msg=path)


@pytest.mark.parametrize("layout", internvl3_5.NAMES)
def test_what_we_save_is_what_was_published(folders, layout, tmp_path):
    folder = folders[0][layout]
    ours = load(folder)
    weights.save(tmp_path, ours, internvl3_5.rules(internvl3_5.from_hf(folder)))
    a, b = (load_file(n / "model.safetensors") for n in (folder, tmp_path))
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key])


def test_a_folder_of_the_wrong_layout_is_named(folders, tmp_path):
    paths, _ = folders
    for layout, other in (("internvl", "internvl_chat"), ("internvl_chat", "internvl")):
        out = tmp_path / layout
        out.mkdir()
        (out / "config.json").write_bytes((paths[layout] / "config.json").read_bytes())
        (out / "model.safetensors").write_bytes((paths[other] / "model.safetensors").read_bytes())
        with pytest.raises(weights.ConversionError, match=f"in the {layout} layout") as error:
            load(out)
        assert "\n" not in str(error.value)


def test_a_tied_checkpoint(tmp_path):
    theirs = tiny.create(tmp_path, tie_word_embeddings=True)
    edit(tmp_path, lambda c: c.update(tie_word_embeddings=True))  # the class default is not written
    ours = load(tmp_path).decoder
    assert ours.head is None
    table = theirs.lm_head.weight.detach().numpy()
    np.testing.assert_array_equal(np.asarray(ours.embed.table[...]), table)


def test_bfloat16_stays_near_float32(pair, folders):
    half, rng = load(folders[0]["internvl_chat"], jnp.bfloat16), np.random.default_rng(5)
    assert {leaf.dtype for leaf in jax.tree.leaves(half)} == {jnp.dtype("bfloat16")}
    video, tokens = pixels(rng, 3), prompt(rng, 3, 9)
    features, exact = (np.asarray(encode(m, frames(video)), np.float32) for m in (half, pair[1]))
    assert encode(half, frames(video)).dtype == jnp.bfloat16
    assert np.abs(features - exact).max() < 0.05 * np.abs(exact).max()
    near, exact = (logits(m, video, tokens) for m in (half, pair[1]))
    assert 1e-4 < np.abs(near - exact).max() < 0.05 * np.abs(exact).max()


# config.json


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@pytest.fixture(params=internvl3_5.NAMES)
def copied(request, folders, tmp_path):
    """A config.json that a test may change, and the name of its text section."""
    source = folders[0][request.param] / "config.json"
    (tmp_path / "config.json").write_bytes(source.read_bytes())
    text = {"internvl": "text_config", "internvl_chat": "llm_config"}[request.param]
    return tmp_path, text


def test_both_layouts_are_one_model(folders):
    hf, chat = (internvl3_5.from_hf(folders[0][name]) for name in internvl3_5.NAMES)
    assert (hf.text, hf.vision) == (chat.text, chat.vision)
    assert (hf.image_token_id, chat.image_token_id) == (tiny.CONTEXT, None)
    assert hf.vision.vit.positions == 17


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("text", "hidden_act", "gelu"),
        ("text", "attention_bias", True),
        ("text", "model_type", "qwen2"),
        ("text", "use_sliding_window", True),
        ("text", "hidden_size", [64]),
        ("vision_config", "hidden_act", "gelu_pytorch_tanh"),
        ("vision_config", "norm_type", "rms_norm"),
        ("vision_config", "attention_bias", False),
        ("vision_config", "qkv_bias", False),
        ("vision_config", "use_qk_norm", True),
        ("vision_config", "qk_normalization", True),
        ("vision_config", "use_moe", True),
        ("vision_config", "use_mask_token", True),
        ("vision_config", "use_mean_pooling", False),
        ("vision_config", "image_size", [24, 48]),
        ("vision_config", "image_size", 30),
        ("vision_config", "image_size", "24"),
        ("vision_config", "patch_size", None),
        ("vision_config", "num_attention_heads", 5),
        ("vision_config", "layer_norm_eps", "1e-6"),
        (None, "downsample_ratio", 0.25),
        (None, "projector_hidden_act", "relu"),
        (None, "vision_feature_layer", -2),
        (None, "select_layer", -4),
        (None, "ps_version", "v1"),
        (None, "template", "internlm2-chat"),
        (None, "use_llm_lora", 16),
        (None, "force_image_size", 224),
        (None, "image_seq_length", 64),
        (None, "tie_word_embeddings", "yes"),
        (None, "vision_config", None),
        (None, "quantization_config", {"bits": 4}),
        (None, "model_type", "internvl_flash"),
    ],
)
def test_a_config_that_the_port_does_not_follow(copied, section, name, value):
    folder, text = copied
    section = text if section == "text" else section
    internvl3_5.from_hf(folder)  # fine as it is
    edit(folder, lambda c: (c[section] if section else c).update({name: value}))
    words = "heads" if name == "num_attention_heads" else name
    with pytest.raises(UserError, match=words) as error:
        internvl3_5.from_hf(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_the_fields_of_the_published_hf_folders(folders, tmp_path):
    """OpenGVLab's converter took the decoder's section over as it was, and says no more of ties."""
    paths, _ = folders
    (tmp_path / "config.json").write_bytes((paths["internvl"] / "config.json").read_bytes())
    chat = json.loads((paths["internvl_chat"] / "config.json").read_text())

    def published(c):
        del c["tie_word_embeddings"]
        c["text_config"] = chat["llm_config"] | {"use_cache": True}
        del c["text_config"]["tie_word_embeddings"]
        c["vision_config"] |= {"dropout": 0.0, "initializer_factor": 0.1, "torch_dtype": "bfloat16"}
        c |= {"torch_dtype": "bfloat16", "transformers_version": "4.52.1"}

    edit(tmp_path, published)
    assert internvl3_5.from_hf(tmp_path) == internvl3_5.from_hf(paths["internvl"])


def test_an_absent_version_of_pixel_shuffle_is_the_other_one(folders, tmp_path):
    source = folders[0]["internvl_chat"] / "config.json"
    (tmp_path / "config.json").write_bytes(source.read_bytes())
    edit(tmp_path, lambda c: c.pop("ps_version"))
    with pytest.raises(UserError, match="ps_version is absent"):
        internvl3_5.from_hf(tmp_path)


def test_defaults_that_older_releases_wrote_are_fine(copied):
    folder, text = copied
    before = internvl3_5.from_hf(folder)
    older = {"return_dict": True, "temperature": 1.0, "top_k": 50, "id2label": {"0": "LABEL_0"}}
    edit(folder, lambda c: [c[s].update(older) for s in (text, "vision_config")])
    assert internvl3_5.from_hf(folder) == before


@pytest.mark.parametrize(
    ("name", "billions"), [("internvl3_5_2b", 2.348), ("internvl3_5_8b", 8.528)]
)
@pytest.mark.parametrize("layout", internvl3_5.NAMES)
def test_real_sizes(name, billions, layout):
    config = dataclasses.replace(internvl3_5.VARIANTS[name], layout=layout)
    model = nnx.eval_shape(lambda: internvl3_5.Model(config, rngs=nnx.Rngs(0)))
    assert round(weights.parameter_count(model) / 1e9, 3) == billions
    assert round(weights.parameter_count(model.vision.vit) / 1e6) == 304
    assert {rule.path for rule in internvl3_5.rules(config)} == set(weights.leaves(model))


def test_learned_positions_are_a_square():
    sizes = dict(width=8, mlp_dim=8, num_layers=1, num_heads=2, patch_size=2)
    assert ViTConfig(**sizes, positions=17, class_token=True).table_side == 4
    assert ViTConfig(**sizes, positions=16).table_side == 4
    for positions, class_token in ((16, True), (17, False)):
        with pytest.raises(ValueError, match="no square"):
            ViTConfig(**sizes, positions=positions, class_token=class_token)
