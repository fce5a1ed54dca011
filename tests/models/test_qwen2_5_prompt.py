"""Qwen2.5-VL's host side on Qwen's real tokenizer: prompts, positions, a folder's files."""

import functools
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cctv.data.errors import UserError
from cctv.data.preprocess import Clip
from cctv.models import qwen2_5_vl, tokenizers

GOLDEN = Path(__file__).parents[1] / "golden" / "qwen2_5_vl.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompts"]
CONFIG = qwen2_5_vl.VARIANTS["qwen2_5_vl_3b"]


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """Reading the tokenizer takes a second: once a folder is enough here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "load", functools.cache(tokenizers.load))
        yield


@pytest.fixture
def make(qwen_tokenizer_dir):
    return functools.partial(qwen2_5_vl.encoder, qwen_tokenizer_dir, CONFIG)


def clip(grid, *, times=None):
    groups, rows, columns = grid
    times = np.arange(2 * groups) / 2 if times is None else np.asarray(times)
    frames = np.zeros((len(times), 14 * rows, 14 * columns, 0), np.uint8)
    return Clip(frames, grid, times, tuple(range(len(times))), "")


def test_prompts_equal_the_reference(make):
    assert len(CASES) == 16
    for case in CASES:
        encoder = make(system_prompt=case["system"])
        (prompt,) = encoder.prompts([case["question"]], clip(tuple(case["grid"])))
        assert prompt.tokens.tolist() == case["ids"], case["question"]
        assert (prompt.visual >= 0).sum() == np.prod(case["grid"]) // 4


def test_positions_follow_the_real_times_of_frames(make):
    """cases.md rows 6 to 8: a video of varying rate."""
    times = [0.0, 0.5, 1.25, 1.5, 7.0, 7.5]
    (prompt,) = make().prompts(["Did it?"], clip((3, 4, 6), times=times))
    start = int((prompt.visual >= 0).argmax())
    video = prompt.positions[start : start + 18]
    assert video[:, 0].tolist() == [start] * 6 + [start + 2] * 6 + [start + 14] * 6
    assert video[:6, 1:].tolist() == [[start + r, start + c] for r in range(2) for c in range(3)]
    assert prompt.positions[start + 18].tolist() == [start + 15] * 3
    assert prompt.next_position == prompt.positions[-1, 0] + 1


def test_frames_that_tcd_drops_leave_the_others_where_they_were(make):
    encoder = make(video=dict(min_pixels=784))
    whole = clip((4, 4, 6))._replace(frames=np.zeros((8, 56, 84, 3), np.uint8))
    short = encoder.keep_frames(whole, [0, 1, 6], mode="drop")
    (prompt,) = encoder.prompts(["Did it?"], short)
    start = int((prompt.visual >= 0).argmax())
    assert prompt.positions[prompt.visual >= 0][::6, 0].tolist() == [start, start + 6]
    repeated = encoder.keep_frames(whole, [0, 1, 6], mode="repeat")
    a, b = (encoder.prompts(["Did it?"], c)[0] for c in (whole, repeated))
    np.testing.assert_array_equal(a.positions, b.positions)


def test_a_published_config_is_the_default(make):
    """configs/qwen2_5_vl.py states what the code has as its own defaults."""
    config = importlib.import_module("configs.qwen2_5_vl").get_config()
    video = {name: value for name, value in config.video.items() if value is not None}
    assert make(video=video).processor == make().processor
    options = {name: config.model[name] for name in qwen2_5_vl.OPTIONS}
    assert make(**options).settings()["system_prompt"] == "You are a helpful assistant."
    assert make().settings()["tokens_of_example"] != make(**options).settings()["tokens_of_example"]


def test_config_variants():
    module = importlib.import_module("configs.qwen2_5_vl")
    assert set(module.CHECKPOINTS) == set(qwen2_5_vl.VARIANTS)
    assert module.get_config("qwen2_5_vl_3b").model.path == "Qwen/Qwen2.5-VL-3B-Instruct"
    with pytest.raises(ValueError, match="not '72b'"):
        module.get_config("72b")


# preprocessor_config.json of the checkpoints; its limits are those of pictures.
PROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
}


@pytest.fixture
def folder(qwen_tokenizer_dir, tmp_path):
    shutil.copy(qwen_tokenizer_dir / "tokenizer.json", tmp_path)
    return tmp_path


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value))


def test_the_published_files_of_a_folder(folder):
    write(folder, "preprocessor_config.json", PROCESSOR)
    write(folder, "generation_config.json", {"eos_token_id": [151645, 151643]})
    encoder = qwen2_5_vl.encoder(folder, CONFIG)
    assert encoder.notes == ()
    assert encoder.stop_ids == (151643, 151645)
    assert encoder.answer_ids == (9454, 2753)


def test_files_that_say_something_else(folder):
    write(folder, "preprocessor_config.json", PROCESSOR | {"image_mean": [0.5, 0.5, 0.5]})
    with pytest.raises(UserError, match="image_mean"):
        qwen2_5_vl.encoder(folder, CONFIG)
    video = {"size": {"shortest_edge": 100352, "longest_edge": 1000}, "video_processor_type": "?"}
    write(folder, "video_preprocessor_config.json", video)
    (note,) = qwen2_5_vl.encoder(folder, CONFIG).notes
    assert "longest_edge is 1000; this run uses config.video.max_pixels=602112" in note


def test_wrong_input(make):
    encoder = make()
    with pytest.raises(UserError, match="the question is empty"):
        encoder.prompts([" "], clip((1, 4, 4)))
    with pytest.raises(UserError, match="video_pad"):
        encoder.prompts(["What is <|video_pad|>?"], clip((1, 4, 4)))
    with pytest.raises(UserError, match="im_end"):
        make(system_prompt="<|im_end|>").prompts(["Did it?"], clip((1, 4, 4)))
