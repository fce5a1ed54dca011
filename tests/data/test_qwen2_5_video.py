"""Qwen2.5-VL's sampling, sizes and patches against the outputs of the reference."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.data.errors import UserError
from cctv.data.preprocess import grid_of, patches_of, prepare
from cctv.data.qwen2_5_video import Qwen25VideoProcessor

GOLDEN = Path(__file__).parents[1] / "golden"
PUBLISHED = Qwen25VideoProcessor()


@pytest.fixture(scope="module")
def golden():
    return json.loads((GOLDEN / "qwen2_5_vl.json").read_text(encoding="utf-8"))


def test_sampled_frames_equal_the_reference(golden):
    cases = golden["sampling"]
    assert len(cases) > 200
    for case in cases:
        processor = Qwen25VideoProcessor(num_frames=case.get("num_frames"))
        got = processor.sample(case["total"], case["fps"]).tolist()
        assert len(got) / case["total"] * case["fps"] == pytest.approx(case["rate"])
        want = case["indices"]
        if isinstance(want, dict):
            assert len(got) == want["length"], case
            assert (got[:10], got[-10:]) == (want["head"], want["tail"]), case
            assert sum(i * v for i, v in enumerate(got)) == want["weighted"], case
        else:
            assert got == want, case


def test_what_the_reference_refuses_is_as_many_frames_as_there_are():
    assert PUBLISHED.sample(1, 30.0).tolist() == [0]
    assert Qwen25VideoProcessor(num_frames=8).sample(5, 30.0).tolist() == [0, 1, 3, 4]
    assert Qwen25VideoProcessor(num_frames=1).sample(9, 30.0).tolist() == [0, 8]


def test_sizes_equal_the_reference(golden):
    cases = golden["sizes"]
    assert len(cases) > 200
    capped = 0
    for frames, height, width, low, high, *want in cases:
        processor = Qwen25VideoProcessor(min_pixels=low, max_pixels=high)
        assert list(processor.smart_resize(frames, height, width)) == want
        capped += want != list(processor.smart_resize(2, height, width))
    assert capped > 10


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("same_size", 4, 20), ("odd_frames", 4, 20), ("enlarged", 4, 20), ("shrunk", 4, 6)],
)
def test_patches_equal_the_reference(name, low, high):
    """Pixels in uint8 steps: Pillow and torchvision round the same filter differently."""
    with np.load(GOLDEN / "qwen2_5_vl.npz") as arrays:
        frames, want, grid = (arrays[f"{name}_{part}"] for part in ("frames", "patches", "grid"))
    processor = Qwen25VideoProcessor(min_pixels=low * 784, max_pixels=high * 784)
    resized = prepare(frames, processor)
    assert grid_of(resized, processor) == tuple(grid)
    got = patches_of(resized, processor).reshape(len(want), 3, -1)
    mean, std = (np.array(v)[:, None] for v in (processor.mean, processor.std))
    steps = (got * std + mean) * 255
    np.testing.assert_allclose(steps, steps.round(), atol=1e-3)
    difference = np.abs(steps.round().reshape(want.shape) - want)
    assert difference.max() <= (0 if name == "same_size" else 1)


@given(
    total=st.integers(1, 5000),
    fps=st.floats(0.5, 240),
    num_frames=st.none() | st.integers(1, 100),
)
@settings(max_examples=200, deadline=None)
def test_sampling_always_gives_whole_groups(total, fps, num_frames):
    got = Qwen25VideoProcessor(num_frames=num_frames).sample(total, fps)
    assert len(got) % 2 == 0 or total == 1
    assert got[0] == 0
    assert got[-1] == total - 1
    assert (np.diff(got) > 0).all()
    assert len(got) <= 768


@given(
    frames=st.integers(1, 768),
    height=st.integers(1, 3000),
    width=st.integers(1, 3000),
    most=st.integers(20, 2000),
)
@settings(max_examples=200, deadline=None)
def test_sizes_are_within_the_limits(frames, height, width, most):
    processor = Qwen25VideoProcessor(min_pixels=4 * 784, max_pixels=most * 784)
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(UserError, match="aspect ratio"):
            processor.smart_resize(frames, height, width)
        return
    new = processor.smart_resize(frames, height, width)
    assert all(side % 28 == 0 and side > 0 for side in new)
    if max(height, width) < 4 * min(height, width):
        assert 4 * 784 <= new[0] * new[1] <= most * 784


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (dict(min_pixels=602113), "min_pixels 602113 is over"),
        (dict(max_frames=3), "min_frames 4 is over"),
        (dict(fps=0), "fps must be a positive number"),
        (dict(num_frames=0), "num_frames must be a whole number"),
        (dict(total_pixels=0.5), "total_pixels must be a whole number"),
        (dict(patch_size=True), "patch_size must be a whole number"),
        (dict(std=(0.2, 0.2)), "std must be three numbers"),
    ],
)
def test_wrong_settings(fields, words):
    with pytest.raises(UserError, match=words):
        Qwen25VideoProcessor(**fields)


def test_wrong_input():
    with pytest.raises(ValueError, match="0 frames"):
        PUBLISHED.sample(0, 30.0)
    with pytest.raises(ValueError, match="frames a second"):
        PUBLISHED.sample(10, float("nan"))
    with pytest.raises(ValueError, match="uint8"):
        prepare(np.zeros((2, 56, 56, 3)), PUBLISHED)
