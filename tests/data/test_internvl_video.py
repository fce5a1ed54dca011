"""InternVL's frames: which are sampled, and their pixels against transformers' processor."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctv.data.errors import UserError
from cctv.data.internvl_video import InternVLVideoProcessor
from cctv.data.preprocess import grid_of, patches_of, resize, tokens_per_group

GOLDEN = Path(__file__).parents[1] / "golden" / "internvl3_5.npz"


@given(total=st.integers(1, 20_000), n=st.integers(1, 64))
def test_the_middle_of_each_segment(total, n):
    """A plain loop of the model card's rule; every frame exists, and none is out of order."""
    indices = InternVLVideoProcessor(num_frames=n).sample(total, 30.0)
    segment = (total - 1) / n
    assert indices.tolist() == [int(segment / 2 + round(segment * i)) for i in range(n)]
    assert 0 <= indices.min() <= indices.max() < total
    assert (np.diff(indices) >= 0).all()


def test_frames_by_hand():
    sample = InternVLVideoProcessor().sample
    assert sample(300, 30.0).tolist() == [18, 55, 93, 130, 168, 205, 242, 280]
    assert sample(1, 0.0).tolist() == [0] * 8
    assert sample(3, 2.0).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="0 frames"):
        sample(0, 30.0)


@pytest.mark.parametrize("name", ["same_size", "wide", "tall", "grown"])
def test_pixels_are_the_references(name):
    with np.load(GOLDEN) as arrays:
        frames, tiles = arrays[f"{name}_frames"], arrays[f"{name}_tiles"]
    processor = InternVLVideoProcessor(image_size=tiles.shape[1])
    size = processor.smart_resize(*frames.shape[:3])
    assert size == tiles.shape[1:3]
    ours = resize(frames, size)
    apart = np.abs(ours.astype(int) - tiles)
    assert apart.max() <= (2 if name == "grown" else 1)  # Pillow's filter against torchvision's
    assert (apart > 0).mean() < 0.01
    if name == "same_size":
        assert apart.max() == 0
    patches = patches_of(ours, processor)
    assert grid_of(ours, processor) == (len(frames), size[0] // 14, size[1] // 14)
    assert patches.shape == (len(frames), (size[0] // 14) ** 2, 3 * 14 * 14)
    # The second patch of the first block: one patch to the right, channel by channel.
    corner = ours[:, :14, 14:28].transpose(0, 3, 1, 2).reshape(len(frames), 3, -1) / 255
    mean, std = (np.array(v)[:, None] for v in (processor.mean, processor.std))
    expected = ((corner - mean) / std).reshape(len(frames), -1)
    np.testing.assert_allclose(patches[:, 1], expected, atol=1e-5)


def test_a_frame_of_the_checkpoints():
    processor = InternVLVideoProcessor()
    frames = np.zeros((2, *processor.smart_resize(2, 360, 640), 3), np.uint8)
    assert frames.shape[1:3] == (448, 448)
    assert tokens_per_group(grid_of(frames, processor), processor) == 256
    assert patches_of(frames, processor).shape == (2, 1024, 588)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_frames": 0}, "num_frames must be a whole number"),
        ({"num_frames": None}, "num_frames must be a whole number"),
        ({"image_size": 450}, "image_size 450 is no multiple of"),
        ({"mean": (0.5, 0.5)}, "mean must be three numbers"),
        ({"std": (0, 1, 1)}, "std must be positive"),
    ],
)
def test_wrong_settings(change, words):
    with pytest.raises(UserError, match=words):
        InternVLVideoProcessor(**change)


def test_an_empty_frame():
    with pytest.raises(UserError, match="640x0"):
        InternVLVideoProcessor().smart_resize(1, 0, 640)
