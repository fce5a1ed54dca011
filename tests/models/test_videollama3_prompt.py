"""VideoLLaMA3's host side: prompts against golden token ids, and which tokens they hold."""

import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from cctv.data.errors import UserError
from cctv.data.preprocess import Clip, grid_of
from cctv.data.videollama3_video import VideoLLaMA3VideoProcessor
from cctv.models import tokenizers, videollama3

GOLDEN = Path(__file__).parents[1] / "golden" / "videollama3.json"
ORIGINAL = videollama3.VARIANTS["videollama3_2b"]
CONFIGS = {
    "original": ORIGINAL,
    "transformers": dataclasses.replace(
        ORIGINAL, layout="transformers", visual_token_id=151656, token_compression=None
    ),
}


@pytest.fixture(scope="module")
def encoders(qwen_tokenizer_dir, tmp_path_factory):
    """layout -> a function that makes the encoder of a folder with that layout's tokenizer, whose
    11 MB are read once."""
    made = {}
    saved = json.loads((qwen_tokenizer_dir / "tokenizer.json").read_text())
    for layout, config in CONFIGS.items():
        folder, tokenizer = tmp_path_factory.mktemp(layout), saved
        if layout == "original":  # the added tokens of Qwen2.5, and one behind them
            added = [t for t in saved["added_tokens"] if t["id"] < config.visual_token_id]
            pad = {"id": config.visual_token_id, "content": "<image>"}
            tokenizer = saved | {"added_tokens": [*added, added[0] | pad]}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        made[layout] = functools.partial(videollama3.encoder, folder, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "load", functools.cache(tokenizers.load))
        yield made


@pytest.mark.parametrize("layout", ["transformers", "original"])
def test_prompts_equal_the_reference(encoders, layout):
    """cases.md 7: real times, and tokens of each frame as the compression leaves them."""
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompts"]
    cases = [case for case in cases if case["layout"] == layout]
    assert len(cases) > 20
    made = {}
    for case in cases:
        options = case["system"], case["newline"]
        if options not in made:
            made[options] = encoders[layout](
                system_prompt=case["system"],
                newline_after_video=case["newline"],
                video={"slot_times": False},
            )
        clip = Clip(None, None, np.array(case["times"]), (), "")
        assert made[options].ids(case["question"], clip, case["kept"]) == case["ids"], case


def test_the_form_of_the_prompt(encoders):
    encoder = encoders["original"](system_prompt="Be brief.")
    clip = Clip(None, None, np.array([0.97, 1.97]), (), "")
    ids = encoder.ids("Did they collide?", clip, [2, 1])
    assert encoder.tokenizer.decode(ids, skip_special=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nTime 0.0s:<image><image>,"
        "Time 1.0s:<image>\nDid they collide?<|im_end|>\n<|im_start|>assistant\n"
    )
    for text in ("", " \n"):
        with pytest.raises(UserError, match="empty"):
            encoder.ids(text, clip, [2, 1])
    with pytest.raises(UserError, match=re.escape("<image>")):
        encoder.ids("what <image> is this?", clip, [2, 1])


def a_clip(encoder, frames):
    processor = encoder.processor
    times = np.arange(len(frames)) + 0.9
    return Clip(frames, grid_of(frames, processor), times, tuple(range(len(frames))), "00" * 32)


def moving(count=4):
    """uint8[F, 56, 84, 3]: a square that moves over a still ground, its last two frames alike."""
    frames = np.full((count, 56, 84, 3), 90, np.uint8)
    for f in range(count):
        x = 20 * min(f, count - 2)
        frames[f, 30:50, x : x + 16] = 200
    return frames


@pytest.mark.parametrize("layout", ["transformers", "original"])
def test_the_prompt_holds_the_kept_tokens_only(encoders, layout):
    encoder = encoders[layout]()
    clip = a_clip(encoder, moving())
    (prompt,) = encoder.prompts(["Did they collide?"], clip)
    kept = encoder.kept(clip)
    assert kept.sum(axis=1).tolist() == [6, 2, 2, 1]
    visual = prompt.visual[prompt.visual >= 0]
    np.testing.assert_array_equal(visual, np.flatnonzero(kept))
    assert (prompt.tokens == encoder.visual_id).sum() == kept.sum()
    # Contiguous positions, as if the others had never been there.
    np.testing.assert_array_equal(prompt.positions[:, 0], np.arange(len(prompt.tokens)))
    assert prompt.next_position == len(prompt.tokens)
    # A measured clip has no pixels: an upper bound.
    (bound,) = encoder.prompts(["?"], clip._replace(frames=clip.frames[..., :0]))
    assert (bound.tokens == encoder.visual_id).sum() == kept.size


def test_compression_can_be_turned_off(encoders):
    """By the config alone, and the manifest says so."""
    digests = set()
    for wanted, expected in ((None, True), (True, True), (False, False)):
        encoder = encoders["original"](use_token_compression=wanted)
        settings = encoder.settings()
        assert settings["use_token_compression"] is expected
        digests.add(settings["tokens_of_example"])
        assert (encoder.kept(a_clip(encoder, moving())) is not None) == expected
    assert len(digests) == 2


@pytest.mark.parametrize(("said", "expected"), [(None, True), (True, True), (False, False)])
def test_what_the_processor_file_says(encoders, said, expected):
    """transformers keeps the switch beside the pixel limits, which are compared."""
    folder, make = encoders["transformers"].args[0], encoders["transformers"]
    fields = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 1, "max_frames": 180,
              "image_mean": [0.5] * 3, "min_frames": 4, "use_token_compression": said,
              "size": {"shortest_edge": 12544, "longest_edge": 602112}}  # fmt: skip
    path = folder / "video_preprocessor_config.json"
    path.write_text(json.dumps(fields))
    encoder = make()
    assert encoder.options["use_token_compression"] is expected
    assert make(use_token_compression=not expected).options["use_token_compression"] is not expected
    (note,) = encoder.notes
    assert "602112" in note
    assert "12845056" in note
    for wrong in ({"temporal_patch_size": 2}, {"use_token_compression": "no"}):
        path.write_text(json.dumps(fields | wrong))
        with pytest.raises(UserError, match=next(iter(wrong))):
            make()
    path.unlink()


def test_the_processor_file_of_the_original(encoders):
    """preprocessor_config.json as published with the 7B-Image."""
    path = encoders["original"].args[0] / "preprocessor_config.json"
    fields = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "patch_size": 14, "do_resize": True,
              "image_processor_type": "Videollama3ImageProcessor", "max_tokens": 16384,
              "min_tokens": 16, "resample": 3, "rescale_factor": 0.00392156862745098}  # fmt: skip
    path.write_text(json.dumps(fields))
    assert encoders["original"]().notes == ()
    path.write_text(json.dumps(fields | {"image_mean": [0.48, 0.46, 0.41]}))
    with pytest.raises(UserError, match="image_mean"):
        encoders["original"]()
    path.unlink()


def test_tcd_compresses_the_frames_that_are_shown(encoders):
    """Frames shown again are one token each; VCD's noise leaves the tokens as they are."""
    encoder = encoders["original"]()
    clip = a_clip(encoder, moving(6))
    kept = encoder.kept(clip)
    repeat = encoder.keep_frames(clip, [0, 5], mode="repeat")
    assert encoder.kept(repeat).sum(axis=1).tolist() == [6, 1, 1, 2, 1, 1]
    (prompt,) = encoder.prompts(["Did they collide?"], repeat)
    assert (prompt.visual >= 0).sum() == 12 != kept.sum()
    drop = encoder.keep_frames(clip, [0, 5], mode="drop")
    assert encoder.kept(drop).sum(axis=1).tolist() == [6, 2]


def test_the_prefix_is_shared_up_to_the_question(encoders):
    encoder = encoders["transformers"]()
    clip = a_clip(encoder, moving())
    a, b = encoder.prompts(["Did they collide?", "Was the car red?"], clip)
    end = int(np.flatnonzero(a.visual >= 0)[-1]) + 1
    np.testing.assert_array_equal(a.tokens[:end], b.tokens[:end])


def test_patches_come_in_blocks_with_their_coordinates(encoders):
    encoder = encoders["transformers"]()
    frames = np.random.default_rng(0).integers(0, 256, (2, 56, 84, 3), np.uint8)
    patches, coords, mask = encoder.vision_inputs(a_clip(encoder, frames))
    assert mask.all()
    for p in (0, 1, 2, 5, 23):
        row, column = coords[1, p] * 14
        block = frames[1, row : row + 14, column : column + 14] / 127.5 - 1
        np.testing.assert_allclose(
            patches[1, p].reshape(3, 14, 14), block.transpose(2, 0, 1), atol=1e-6
        )
    assert coords[0, :5].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2]]


def test_a_processor_of_other_sizes():
    config = videollama3.VARIANTS["videollama3_2b"]
    assert videollama3.processor(config, fps=2.0) == VideoLLaMA3VideoProcessor(fps=2.0)
