"""Parity of Qwen2.5-VL with transformers on random checkpoints, every parameter perturbed."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import torch
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from cctv.data.errors import UserError
from cctv.decoding import sharding
from cctv.models import qwen2_5_vl, weights
from cctv.models.decoder import Cache
from cctv.models.qwen2_5_vit import Windows, layout, windows
from cctv.models.qwen2_5_vl import positions, time_positions

GOLDEN = Path(__file__).parents[1] / "golden"
# groups, rows, columns of patches: whole windows, cut ones on both sides, less than one
GRIDS = [(2, 8, 8), (3, 10, 14), (1, 2, 2)]


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("qwen2_5_vl")


@pytest.fixture(scope="module")
def pair(folder):
    """(torch model, our model) of one folder."""
    theirs = tiny.qwen2_5_vl(folder)
    return theirs, load(folder)


def load(folder, dtype=jnp.float32):
    config = qwen2_5_vl.from_hf(folder)
    abstract = nnx.eval_shape(lambda: qwen2_5_vl.Model(config, rngs=nnx.Rngs(0)))
    rules = qwen2_5_vl.rules(config)
    return weights.load(folder, abstract, rules, dtype=dtype, tied=qwen2_5_vl.TIED)


def pixels(rng, groups, rows, columns):
    return rng.standard_normal((groups, rows * columns, 1176)).astype(np.float32)


@jax.jit
def encode(ours, inputs):
    return ours.encode_video(inputs)


@jax.jit
def forward(ours, tokens, where, visual, features):
    hidden, _ = ours(
        tokens[None],
        positions=where[None],
        rows=visual[None],
        features=features,
        cache=Cache.zeros(ours.decoder_config, batch=1, slots=len(tokens), dtype=features.dtype),
        start=0,
    )
    return ours.logits(hidden)[0]


def prompt(rng, groups, rows, columns, *, seconds=1.0, text=6):
    """Three tokens, the video, some more, at `seconds` a group."""
    count = groups * rows * columns // 4
    ids = [1, *rng.integers(10, 280, 2), tiny.VISION_START, *[tiny.VIDEO_PAD] * count]
    tokens = np.array([*ids, tiny.VISION_END, *rng.integers(10, 280, text)], np.int32)
    is_visual = tokens == tiny.VIDEO_PAD
    visual = np.where(is_visual, np.cumsum(is_visual) - 1, -1).astype(np.int32)
    times = np.repeat(np.arange(groups) * seconds, 2)
    times = time_positions(times, pair=2, tokens_per_second=2)
    return positions(tokens, visual, times=times, rows=rows // 2, columns=columns // 2)


def torch_inputs(p, patches, rows, columns):
    """Our positions are given to the reference, whose own rule is another one."""
    return dict(
        input_ids=torch.tensor(p.tokens[None]).long(),
        position_ids=torch.tensor(p.positions.T[:, None]).long(),
        mm_token_type_ids=torch.tensor((p.tokens == tiny.VIDEO_PAD)[None] * 2).int(),
        pixel_values_videos=torch.tensor(patches.reshape(-1, 1176)),
        video_grid_thw=torch.tensor([[len(patches), rows, columns]]),
    )


def logits(ours, p, patches, rows, columns):
    features = encode(ours, windows(patches, rows, columns, ours.config.vision))
    features = features.reshape(-1, *features.shape[2:])
    return np.asarray(forward(ours, p.tokens, p.positions, p.visual, features))


@pytest.mark.parametrize(("groups", "rows", "columns"), GRIDS)
def test_vision_features_match(pair, groups, rows, columns):
    theirs, ours = pair
    patches = pixels(np.random.default_rng(0), groups, rows, columns)
    with torch.no_grad():
        out = theirs.model.visual(
            torch.tensor(patches.reshape(-1, 1176)), torch.tensor([[groups, rows, columns]])
        )
    got = np.asarray(encode(ours, windows(patches, rows, columns, ours.config.vision)))
    expected = out.pooler_output.numpy().reshape(got.shape)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)


def test_windows_are_seen(pair):
    """The same pixels all in one window give other features: the test above is not vacuous."""
    _, ours = pair
    inputs = windows(pixels(np.random.default_rng(0), 3, 10, 14), 10, 14, ours.config.vision)
    other = inputs._replace(window=np.zeros_like(inputs.window))
    a, b = (np.asarray(encode(ours, i)) for i in (inputs, other))
    assert np.abs(a - b).max() > 1e-3


@pytest.mark.parametrize("padding", [4, 100])
def test_padding_changes_nothing(pair, padding):
    """A group padded to a larger bucket of patches, with rubbish in the padding."""
    _, ours = pair
    exact = windows(pixels(np.random.default_rng(1), 3, 10, 14), 10, 14, ours.config.vision)
    padded = Windows(*(np.pad(a, [(0, 1), (0, padding)] + [(0, 0)] * (a.ndim - 2)) for a in exact))
    padded.patches[:, 140:] = 1e3
    got = np.asarray(encode(ours, padded))[:3, :35]
    np.testing.assert_allclose(got, np.asarray(encode(ours, exact)), atol=1e-5)


def plain_layout(rows, columns, side):
    """The order of merged patches by four loops."""
    rows, columns = rows // 2, columns // 2
    order, window = [], []
    for top in range(0, rows, side):
        for left in range(0, columns, side):
            for r in range(top, min(top + side, rows)):
                for c in range(left, min(left + side, columns)):
                    order.append(r * columns + c)
                    window.append((top, left))
    return order, window


@given(rows=st.integers(1, 13), columns=st.integers(1, 13))
@settings(max_examples=40, deadline=None)
def test_layout_against_a_plain_loop(rows, columns):
    c = qwen2_5_vl.VARIANTS["qwen2_5_vl_3b"].vision
    order, coords, window, place = layout(2 * rows, 2 * columns, c)
    merged, names = plain_layout(2 * rows, 2 * columns, 4)
    assert order.reshape(-1, 4).tolist() == [[4 * m + i for i in range(4)] for m in merged]
    assert (coords[::4] // 2 == np.stack(np.divmod(merged, columns), 1)).all()
    same = np.array([[a == b for a in names] for b in names])
    assert ((window[::4, None] == window[None, ::4]) == same).all()
    assert np.array(merged)[place[::4]].tolist() == list(range(rows * columns))
    _, sizes = np.unique(window, return_counts=True)
    assert sizes.max() <= c.window_patches == 64


@pytest.mark.parametrize(("groups", "rows", "columns"), GRIDS)
def test_logits_match(pair, groups, rows, columns):
    theirs, ours = pair
    rng = np.random.default_rng(groups)
    patches = pixels(rng, groups, rows, columns)
    p = prompt(rng, groups, rows, columns, seconds=0.7 if groups == 3 else 1.0)
    with torch.no_grad():
        expected = theirs(**torch_inputs(p, patches, rows, columns)).logits[0].numpy()
    assert expected.std() > 0.1
    got = logits(ours, p, patches, rows, columns)
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def test_positions_equal_the_reference():
    """4.57.6 cuts the seconds of a group to a whole number before it multiplies."""
    cases = json.loads((GOLDEN / "qwen2_5_vl-4.57.6.json").read_text())["positions"]
    assert {case["second_per_grid"] for case in cases} == {0.5, 1.0, 1.6, 2.0}
    for case in cases:
        groups, rows, columns = case["grid"]
        count = groups * rows * columns // 4
        tokens = np.array([0, 0, 1, *[2] * count, 3, 3, 3, 3], np.int32)
        visual = np.full(len(tokens), -1, np.int32)
        visual[3 : 3 + count] = np.arange(count)
        frames = np.repeat(np.arange(groups) * int(case["second_per_grid"]), 2)
        p = positions(
            tokens,
            visual,
            times=time_positions(frames, pair=2, tokens_per_second=case["tokens_per_second"]),
            rows=rows // 2,
            columns=columns // 2,
        )
        assert p.positions.T.tolist() == case["positions"], case
        assert p.next_position == case["next"]


@given(
    groups=st.integers(1, 8),
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    before=st.integers(0, 5),
    after=st.integers(1, 5),
    seconds=st.floats(0.01, 5),
)
@settings(max_examples=60, deadline=None)
def test_positions_against_a_plain_loop(groups, rows, columns, before, after, seconds):
    """cases.md row 8: time goes on by tokens_per_second for each second."""
    expected, at = [(i, i, i) for i in range(before)], before
    for g in range(groups):
        t = int(np.floor(g * seconds * 2 + 1e-6))
        expected += [(at + t, at + r, at + c) for r in range(rows) for c in range(columns)]
    at = max([at - 1, *(max(e) for e in expected)]) + 1
    expected += [(at + i,) * 3 for i in range(after)]
    count = groups * rows * columns
    visual = np.array([-1] * before + list(range(count)) + [-1] * after, np.int32)
    frames = np.stack([np.arange(groups) * seconds, np.arange(groups) * seconds + 0.01], 1)
    p = positions(
        np.zeros(len(visual), np.int32),
        visual,
        times=time_positions(frames.ravel(), pair=2, tokens_per_second=2),
        rows=rows,
        columns=columns,
    )
    assert p.positions.tolist() == [list(e) for e in expected]
    assert p.next_position == at + after


@given(total=st.integers(10, 3000), fps=st.sampled_from([10.0, 24.0, 25.0, 29.97, 30.0, 60.0]))
@settings(max_examples=60, deadline=None)
def test_time_is_that_of_the_reference_to_one_position(total, fps):
    """Real times of the sampled frames against steps of the mean rate, and the ends exactly."""
    from cctv.data.qwen2_5_video import Qwen25VideoProcessor

    indices = Qwen25VideoProcessor().sample(total, fps)
    got = time_positions(indices / fps, pair=2, tokens_per_second=2)
    rate = len(indices) / total * fps
    mean = np.floor(np.arange(len(got)) * (2 / rate) * 2 + 1e-9)
    assert np.abs(got - mean).max() <= max(1, np.ceil(2 / rate))
    assert got[0] == 0
    assert got[-1] == int(indices[::2][-1] / fps * 2 + 1e-6)


def test_two_seconds_a_group_when_frames_are_dropped():
    """Frames that TCD keeps stay at their own times."""
    times = np.array([0.0, 0.5, 4.0, 4.5, 9.1])
    assert time_positions(times, pair=2, tokens_per_second=2).tolist() == [0, 8, 18]


def test_bfloat16_stays_near_float32(pair, folder):
    _, exact = pair
    ours = load(folder, jnp.bfloat16)
    assert {leaf.dtype for leaf in jax.tree.leaves(ours)} == {jnp.dtype("bfloat16")}
    rng = np.random.default_rng(0)
    patches, p = pixels(rng, 2, 8, 8), prompt(rng, 2, 8, 8)
    a, b = (logits(m, p, patches, 8, 8) for m in (ours, exact))
    assert np.isfinite(a).all()
    assert 0 < np.abs(a - b).mean() < 0.1 * b.std()


def test_what_we_save_opens_in_transformers(pair, folder, tmp_path):
    _, ours = pair
    weights.save(tmp_path, ours, qwen2_5_vl.rules(ours.config))
    a, b = (load_file(f / "model.safetensors") for f in (folder, tmp_path))
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key])


def test_a_tied_checkpoint(tmp_path):
    theirs = tiny.qwen2_5_vl(tmp_path, tie_word_embeddings=True)
    ours = load(tmp_path)
    assert ours.decoder.head is None
    rng = np.random.default_rng(3)
    patches, p = pixels(rng, 1, 2, 2), prompt(rng, 1, 2, 2)
    with torch.no_grad():
        expected = theirs(**torch_inputs(p, patches, 2, 2)).logits[0].numpy()
    assert np.abs(logits(ours, p, patches, 2, 2) - expected).max() <= 1e-4


# config.json of Qwen/Qwen2.5-VL-3B-Instruct: the decoder's fields at the top level.
PUBLISHED = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "vision_token_id": 151654,
    "image_token_id": 151655,
    "video_token_id": 151656,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "max_position_embeddings": 128000,
    "max_window_layers": 70,
    "model_type": "qwen2_5_vl",
    "num_attention_heads": 16,
    "num_hidden_layers": 36,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2",
    "use_cache": True,
    "use_sliding_window": False,
    "vision_config": {
        "depth": 32,
        "hidden_act": "silu",
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": 2048,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "tokens_per_second": 2,
        "temporal_patch_size": 2,
    },
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vocab_size": 151936,
}


def write(folder, change=lambda config: None):
    config = json.loads(json.dumps(PUBLISHED))
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_published_config(tmp_path):
    assert qwen2_5_vl.from_hf(write(tmp_path)) == qwen2_5_vl.VARIANTS["qwen2_5_vl_3b"]


def test_the_config_that_transformers_writes_of_it(tmp_path):
    """Version 5 nests the decoder's fields and renames some."""
    from transformers import Qwen2_5_VLConfig

    Qwen2_5_VLConfig.from_pretrained(write(tmp_path)).save_pretrained(tmp_path)
    assert "text_config" in json.loads((tmp_path / "config.json").read_text())
    assert qwen2_5_vl.from_hf(tmp_path) == qwen2_5_vl.VARIANTS["qwen2_5_vl_3b"]


@pytest.mark.parametrize(
    ("place", "name", "value", "words"),
    [
        ((), "use_sliding_window", True, "sliding_window"),
        ((), "hidden_act", "gelu", "hidden_act"),
        ((), "attention_bias", False, "attention_bias"),
        ((), "model_type", "qwen2_vl", "model_type"),
        ((), "video_token_id", None, "video_token_id"),
        ((), "num_key_value_heads", 3, "can't share"),
        ((), "quantization_config", {"bits": 4}, "quantization_config"),
        ((), "rope_scaling", {"type": "yarn", "mrope_section": [16, 24, 24]}, "yarn"),
        ((), "rope_scaling", {"type": "mrope", "mrope_section": [16, 24, 23]}, "head_dim"),
        ((), "text_config", [], "text_config"),
        (("vision_config",), "hidden_act", "quick_gelu", "hidden_act"),
        (("vision_config",), "spatial_patch_size", 16, "spatial_patch_size"),
        (("vision_config",), "window_size", 27, "window of 27"),
        (("vision_config",), "window_size", "112", "window_size"),
        (("vision_config",), "tokens_per_second", None, "tokens_per_second"),
        (("vision_config",), "fullatt_block_indexes", 7, "fullatt_block_indexes"),
        (("vision_config",), "num_heads", 7, "head size"),
        (("vision_config",), "deepstack_visual_indexes", [3], "deepstack_visual_indexes"),
    ],
)
def test_a_config_that_the_port_does_not_follow(tmp_path, place, name, value, words):
    def change(config):
        for part in place:
            config = config[part]
        config[name] = value

    with pytest.raises(UserError, match=words) as error:
        qwen2_5_vl.from_hf(write(tmp_path, change))
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "billions", "vision"), [("qwen2_5_vl_3b", 3.755, 669), ("qwen2_5_vl_7b", 8.292, 677)]
)
def test_real_sizes(name, billions, vision):
    config = qwen2_5_vl.VARIANTS[name]
    model = nnx.eval_shape(lambda: qwen2_5_vl.Model(config, rngs=nnx.Rngs(0)))
    assert round(weights.parameter_count(model) / 1e9, 3) == billions
    assert round(weights.parameter_count(model.vision) / 1e6) == vision
    shapes = {path: leaf.shape for path, leaf in weights.leaves(model).items()}
    assert {rule.path for rule in qwen2_5_vl.rules(config)} == set(shapes)
    for path, axis in (("gate.kernel", 2), ("up.bias", 1), ("down.kernel", 1)):
        path = f"vision.layers.{path}"
        spec = sharding.spec(path, shapes[path], config=config.text, model=4)
        assert spec[axis] == "model"
