"""The strict converter: what does not fit is listed, all of it, before a weight is read."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from flax import nnx
from safetensors.numpy import load_file, save_file

from cctv.data.errors import UserError
from cctv.models import qwen3_vl, tokenizers, weights
from cctv.models.layers import Linear, stack
from cctv.models.weights import Rule


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny.qwen3_vl(folder, tie_word_embeddings=True)
    return folder


@pytest.fixture
def edit(source, tmp_path):
    """A copy of the checkpoint whose tensors a test changes; returns what loading it raises."""

    def run(change):
        tensors = load_file(source / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
        return load(tmp_path)

    return run


def load(folder, *, dtype=jnp.float32):
    config = qwen3_vl.from_hf(folder)
    abstract = nnx.eval_shape(lambda: qwen3_vl.Model(config, rngs=nnx.Rngs(0)))
    return weights.load(folder, abstract, qwen3_vl.rules(config), dtype=dtype, tied=qwen3_vl.TIED)


KEY = "model.language_model.layers.1.mlp.up_proj.weight"


def test_missing_extra_and_wrong_shape_are_one_error(edit):
    def change(t):
        del t[KEY]
        t["model.visual.merger.norm.bias"] = np.zeros(7, np.float32)
        t["model.language_model.layers.5.mlp.up_proj.weight"] = np.zeros((2, 2), np.float32)
        t["surprise"] = np.zeros(1, np.float32)

    with pytest.raises(weights.ConversionError) as error:
        edit(change)
    text = str(error.value)
    assert "\n" not in text
    assert len(error.value.problems) == 4
    assert f"{KEY} is missing" in text
    assert "model.visual.merger.norm.bias is (7,), expected (48,)" in text
    assert "layers.5.mlp.up_proj.weight is unknown" in text
    assert "surprise is unknown" in text


def test_a_transposed_tensor_is_seen(edit):
    with pytest.raises(weights.ConversionError, match="expected"):
        edit(lambda t: t.update({KEY: np.ascontiguousarray(t[KEY].T)}))


def test_a_repeated_tied_head_is_accepted_when_equal(edit):
    table = "model.language_model.embed_tokens.weight"
    edit(lambda t: t.update({"lm_head.weight": t[table].copy()}))
    with pytest.raises(weights.ConversionError, match="tied"):
        edit(lambda t: t.update({"lm_head.weight": t[table] + 1}))


def test_every_tensor_reaches_its_own_place(source):
    """A tensor swapped for another of the same shape would pass a shape check."""
    model = load(source)
    tensors = load_file(source / "model.safetensors")
    ours = weights.leaves(model)
    up = np.asarray(ours["decoder.layers.up.kernel"])
    np.testing.assert_array_equal(up[1], tensors[KEY].T)
    assert sum(a.size for a in tensors.values()) == weights.parameter_count(model)


def test_folder_without_weights(tmp_path, source):
    with pytest.raises(UserError, match=r"neither model\.safetensors"):
        weights.weight_files(tmp_path)
    (tmp_path / weights.INDEX).write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}))
    with pytest.raises(UserError, match="absent files"):
        weights.weight_files(tmp_path)
    for broken in ("{", "[]", '{"weight_map": {"a": 3}}'):
        (tmp_path / weights.INDEX).write_text(broken)
        with pytest.raises(UserError, match="not a safetensors index"):
            weights.weight_files(tmp_path)
    (tmp_path / weights.INDEX).write_text("{")
    with pytest.raises(UserError, match="not a safetensors index"):
        weights.weight_files(tmp_path)


def test_truncated_file(source, tmp_path):
    data = (source / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load(tmp_path)


def test_quantised_weights_are_refused(edit):
    with pytest.raises(weights.ConversionError, match="is I8, expected one of"):
        edit(lambda t: t.update({KEY: t[KEY].astype(np.int8)}))


def test_two_files_with_one_tensor(source, tmp_path):
    tensors = load_file(source / "model.safetensors")
    save_file(tensors, tmp_path / "a.safetensors")
    save_file({KEY: tensors[KEY]}, tmp_path / "b.safetensors")
    index = {"weight_map": {k: "a.safetensors" for k in tensors} | {KEY: "b.safetensors"}}
    (tmp_path / weights.INDEX).write_text(json.dumps(index))
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    with pytest.raises(weights.ConversionError, match="two files"):
        load(tmp_path)


def test_digest_follows_the_weights(source, tmp_path, edit):
    before = weights.digest(source)
    edit(lambda t: t[KEY].__iadd__(1e-3))
    assert weights.digest(source) == before != weights.digest(tmp_path)


def test_a_bfloat16_file(source, tmp_path):
    """As checkpoints are published: read into either precision, value by value."""
    tensors = load_file(source / "model.safetensors")
    half = {k: v.astype(jnp.bfloat16) for k, v in tensors.items()}
    save_file(half, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    for dtype in (jnp.float32, jnp.bfloat16):
        up = weights.leaves(load(tmp_path, dtype=dtype))["decoder.layers.up.kernel"]
        assert up.dtype == dtype
        np.testing.assert_array_equal(np.asarray(up[1]), half[KEY].T.astype(dtype))


def test_the_tokenizer_files_have_a_digest(tmp_path):
    assert tokenizers.files(tmp_path) == []
    for name in ("tokenizer_config.json", "vocab.json", "merges.txt"):
        (tmp_path / name).write_text("{}")
    older = weights.digest_of(tokenizers.files(tmp_path))
    (tmp_path / "merges.txt").write_text("a b")
    assert weights.digest_of(tokenizers.files(tmp_path)) != older
    (tmp_path / "tokenizer.json").write_text("{}")
    assert tokenizers.files(tmp_path) == [tmp_path / "tokenizer.json"]  # all that is read then


# Fused tensors and axes of size 1


class Fused(nnx.Module):
    """Two layers of three Linears that a file holds as one, and a vector with axes in front."""

    def __init__(self, *, rngs):
        self.row = nnx.Param(jnp.arange(3.0))

        def layers(size):
            return stack(lambda r: Linear(3, size, rngs=r), 2, rngs=rngs)

        self.q, self.k, self.v = map(layers, SIZES.values())


SIZES = {"q": 4, "k": 2, "v": 2}
FUSED = [
    *weights.fused_linear("layers.{}.qkv", list(SIZES), list(SIZES.values()), bias=True),
    Rule(key="row", path="row", lead=2),
]


@pytest.fixture
def fused(tmp_path):
    """A file with fused tensors, its tensors and the empty model to load it into."""
    rng = np.random.default_rng(0)
    tensors = {"row": rng.standard_normal((1, 1, 3)).astype(np.float32)}
    for i in range(2):
        tensors[f"layers.{i}.qkv.weight"] = rng.standard_normal((8, 3)).astype(np.float32)
        tensors[f"layers.{i}.qkv.bias"] = rng.standard_normal(8).astype(np.float32)
    save_file(tensors, tmp_path / weights.SINGLE)
    return tmp_path, tensors, nnx.eval_shape(lambda: Fused(rngs=nnx.Rngs(0)))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_parts_of_a_fused_tensor(fused, dtype):
    folder, tensors, empty = fused
    save_file({k: v.astype(dtype) for k, v in tensors.items()}, folder / weights.SINGLE)
    model = weights.load(folder, empty, FUSED, dtype=dtype)
    ours, first = weights.leaves(model), 0
    for name, size in SIZES.items():
        for i in range(2):
            for kind, leaf in (("weight", "kernel"), ("bias", "bias")):
                theirs = tensors[f"layers.{i}.qkv.{kind}"][first : first + size].astype(dtype)
                np.testing.assert_array_equal(np.asarray(ours[f"{name}.{leaf}"][i]), theirs.T)
        first += size
    np.testing.assert_array_equal(np.asarray(ours["row"]), tensors["row"][0, 0].astype(dtype))


def test_fused_tensors_are_written_as_they_were_read(fused, tmp_path):
    folder, tensors, empty = fused
    model = weights.load(folder, empty, FUSED, dtype=jnp.float32)
    (tmp_path / "out").mkdir()
    weights.save(tmp_path / "out", model, FUSED[::-1])  # the order of rules does not matter
    written = load_file(tmp_path / "out" / weights.SINGLE)
    assert written.keys() == tensors.keys()
    for key, value in tensors.items():
        np.testing.assert_array_equal(written[key], value)


def test_a_wrong_fused_tensor_is_one_problem(fused):
    folder, tensors, empty = fused
    tensors["layers.1.qkv.weight"] = np.zeros((6, 3), np.float32)
    tensors["row"] = tensors["row"][0]
    del tensors["layers.0.qkv.bias"]
    save_file(tensors, folder / weights.SINGLE)
    with pytest.raises(weights.ConversionError, match="in the other layout") as error:
        weights.load(folder, empty, FUSED, dtype=jnp.float32, layout="other")
    assert sorted(error.value.problems) == [
        "layers.0.qkv.bias is missing",
        "layers.1.qkv.weight is (6, 3), expected (8, 3)",
        "row is (1, 3), expected (1, 1, 3)",
    ]


def with_part(part):
    return [Rule(key="row", path="row", part=part), *FUSED[:-1]]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (FUSED[1:], "without a rule"),
        ([*FUSED, FUSED[0]], "with several"),
        (with_part((0, 3, 4)), "do not make row whole"),
        (with_part((1, 4, 4)), "do not make row whole"),
        (with_part((0, 2, 2)), "row has 3 entries"),
        ([*FUSED[:-1], Rule(key="layers.{}.qkv.weight", path="row")], "do not make layers"),
    ],
)
def test_rules_that_do_not_cover_a_key_once(fused, rules, words):
    folder, _, empty = fused
    with pytest.raises(AssertionError, match=words):
        weights.load(folder, empty, rules, dtype=jnp.float32)
