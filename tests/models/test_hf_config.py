"""A checkpoint's JSON files: whatever is wrong in them is one line that names file and field."""

import copy
import importlib
import json
import re

import pytest

from cctv import models
from cctv.data.errors import UserError
from cctv.data.qwen_video import QwenVideoProcessor
from cctv.models import hf_config, processor_files, qwen3_vl, tiny

IDS = {token: 400 + i for i, token in enumerate(tiny.CONTROL)}
GOOD = tiny._hf_config(500, IDS)
ROPE = "text_config.rope_parameters"


def write(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def change(name, value):
    config = copy.deepcopy(GOOD)
    *path, last = name.split(".")
    place = config
    for part in path:
        place = place[part]
    place[last] = value
    return config


def test_the_config_as_it_is_published(tmp_path):
    config = qwen3_vl.from_hf(write(tmp_path, GOOD))
    assert config.text.num_layers == 4
    assert config.vision.deepstack == (0, 1)
    assert not config.text.tie_embeddings


@pytest.mark.parametrize("value", [[64], "64", 0, -1, 2.5, True, {}])
@pytest.mark.parametrize(
    "name",
    [
        "text_config.hidden_size",
        "text_config.num_hidden_layers",
        "text_config.num_key_value_heads",
        "vision_config.depth",
        "vision_config.patch_size",
        "vision_config.num_position_embeddings",
    ],
)
def test_a_value_of_the_wrong_type_is_named(tmp_path, name, value):
    with pytest.raises(UserError, match=name.rpartition(".")[2]) as error:
        qwen3_vl.from_hf(write(tmp_path, change(name, value)))
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("text_config.rms_norm_eps", "1e-6", "rms_norm_eps must be a positive number"),
        ("text_config.rms_norm_eps", float("nan"), "rms_norm_eps must be a positive number"),
        (f"{ROPE}.rope_theta", 0, "rope_theta must be a positive number"),
        (f"{ROPE}.mrope_section", [6, 5], "mrope_section must have three entries"),
        (f"{ROPE}.mrope_section", [6, 5, "5"], "mrope_section must be a list of whole numbers"),
        (f"{ROPE}.mrope_section", "655", "mrope_section must be a list of whole numbers"),
        ("text_config.rope_scaling", [1], "rope_scaling must be an object"),
        ("vision_config.deepstack_visual_indexes", 1, "must be a list of whole numbers"),
        ("vision_config.deepstack_visual_indexes", [True], "must be a list of whole numbers"),
        (f"{ROPE}.mrope_section", [6, 5, 4], "must sum to head_dim/2"),
        ("text_config.num_key_value_heads", 3, "4 heads can't share 3"),
        ("vision_config.num_position_embeddings", 255, "must be a square"),
        ("vision_config.deepstack_visual_indexes", [0, 9], "must rise and lie below 3"),
        ("vision_config.num_heads", 5, "head size"),
        ("tie_word_embeddings", "yes", "tie_word_embeddings must be true or false"),
        ("video_token_id", -4, "video_token_id must be a whole number of at least 0"),
        ("video_token_id", None, "lacks"),
        ("text_config", [], "no 'text_config' section"),
        ("model_type", ["qwen3_vl"], "model_type is"),
        ("text_config.hidden_act", ["silu"], "hidden_act="),
        ("text_config.sliding_window", 4096, "does not know the field sliding_window"),
    ],
)
def test_values_that_do_not_fit(tmp_path, name, value, words):
    with pytest.raises(UserError, match=words) as error:
        qwen3_vl.from_hf(write(tmp_path, change(name, value)))
    assert "\n" not in str(error.value)
    assert "config.json" in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": "\udcff"}', "[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_files_that_hold_no_object(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=name) as error:
        (qwen3_vl.from_hf if name == "config.json" else hf_config.stop_ids)(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["<|im_end|>", [1, "2"], -1, 1.5, True, {}, 10**14])
def test_stop_tokens_of_the_wrong_type(tmp_path, value):
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
    with pytest.raises(UserError, match=r"generation_config.json: eos_token_id"):
        hf_config.stop_ids(tmp_path)


@pytest.mark.parametrize(("value", "expected"), [(None, ()), (3, (3,)), ([5, 3], (5, 3))])
def test_stop_tokens(tmp_path, value, expected):
    assert hf_config.stop_ids(tmp_path) == ()
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
    assert hf_config.stop_ids(tmp_path) == expected


# What Qwen3-VL's checkpoints have.
PROCESSOR = {
    "size": {"longest_edge": 25165824, "shortest_edge": 4096},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "video_processor_type": "Qwen3VLVideoProcessor",
}
FILES = ("video_preprocessor_config.json", "preprocessor_config.json")


@pytest.mark.parametrize("name", FILES)
def test_a_processor_as_published_is_silent(tmp_path, name):
    assert processor_files.compare(tmp_path, QwenVideoProcessor()) == ()
    (tmp_path / name).write_text(json.dumps(PROCESSOR))
    assert processor_files.compare(tmp_path, QwenVideoProcessor()) == ()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("patch_size", 14),
        ("patch_size", [16]),
        ("temporal_patch_size", 1),
        ("merge_size", 3),
        ("image_mean", [0.48, 0.46, 0.41]),
        ("image_mean", 0.5),
        ("image_std", [0.27, 0.26, 0.28]),
    ],
)
def test_a_processor_that_the_weights_do_not_fit(tmp_path, name, field, value):
    (tmp_path / name).write_text(json.dumps(PROCESSOR | {field: value}))
    with pytest.raises(UserError, match=f"{name}: {field}"):
        processor_files.compare(tmp_path, QwenVideoProcessor())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": {"longest_edge": 786432, "shortest_edge": 4096}}, ["786432", "25165824"]),
        ({"size": {"longest_edge": 25165824, "shortest_edge": 1}}, ["shortest_edge is 1;", "4096"]),
        ({"size": None, "max_pixels": 5}, ["max_pixels is 5;", "25165824"]),
        ({"fps": 1}, ["fps is 1;", "config.video.fps=2.0"]),
        ({"max_frames": 32}, ["max_frames is 32;", "768"]),
    ],
)
def test_limits_that_differ_are_notes_of_both_values(tmp_path, change, words):
    (tmp_path / FILES[0]).write_text(json.dumps(PROCESSOR | change))
    (tmp_path / FILES[1]).write_text(json.dumps(PROCESSOR))  # an image processor's: not asked
    (note,) = processor_files.compare(tmp_path, QwenVideoProcessor())
    assert all(word in note for word in (*words, FILES[0])), note


def test_the_joint_file_and_frames_by_number(tmp_path):
    path = tmp_path / "processor_config.json"
    path.write_text(json.dumps({"video_processor": PROCESSOR | {"fps": 1}}))
    (note,) = processor_files.compare(tmp_path, QwenVideoProcessor())
    assert "fps is 1" in note
    assert processor_files.compare(tmp_path, QwenVideoProcessor(num_frames=8)) == ()


@pytest.mark.parametrize("found", hf_config.CONFIGS)
def test_another_familys_checkpoint_names_the_config_for_it(found, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": found}))
    with pytest.raises(UserError) as caught:
        hf_config.read(tmp_path, model_type="someone's")
    name = re.search(r"--config=(configs/\w+\.py)", str(caught.value))[1]
    family = importlib.import_module(name[:-3].replace("/", ".")).get_config().model.family
    assert hf_config.read(tmp_path, model_type=found) == {"model_type": found}
    with pytest.raises(UserError) as caught:  # past the check of model_type: its sizes are missing
        models.get(family).from_hf(tmp_path)
    assert "model_type is" not in str(caught.value)
