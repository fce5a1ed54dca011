"""Sampling, resizing, patches and time stamps, against transformers' outputs and plain loops."""

import dataclasses
import hashlib
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.data import preprocess, video
from cctv.data.errors import UserError
from cctv.data.preprocess import (
    grid_of,
    load_video,
    patches_of,
    prepare,
    resize,
    tokens_per_group,
)
from cctv.data.qwen_video import QwenVideoProcessor

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("4.57.6", "5.24.0")
QWEN = QwenVideoProcessor()


def golden(release: str) -> dict:
    return json.loads((GOLDEN / f"qwen3_vl-{release}.json").read_text(encoding="utf-8"))


def noise(frames: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (frames, height, width, 3), np.uint8)


# Against the reference


@pytest.mark.parametrize("release", RELEASES)
def test_sampled_frames_equal_the_reference(release):
    cases = golden(release)["sampling"]
    assert len(cases) > 200
    for case in cases:
        processor = QwenVideoProcessor(num_frames=case.get("num_frames"))
        got = processor.sample(case["total"], case.get("fps", 30.0)).tolist()
        want = case["indices"]
        if isinstance(want, dict):
            assert len(got) == want["length"], case
            assert got[:10] == want["head"], case
            assert got[-10:] == want["tail"], case
            assert sum(i * v for i, v in enumerate(got)) == want["weighted"], case
        else:
            assert got == want, case


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_equal_the_reference(release):
    compared = 0
    for frames, height, width, low, high, *want in golden(release)["sizes"]:
        got = QwenVideoProcessor(min_pixels=low, max_pixels=high).smart_resize(
            frames, height, width
        )
        if want == [None, None]:  # 4.57.6 refuses small sides, 5.24.0 and we enlarge them
            assert release == "4.57.6"
            assert min(height, width) < 32
        else:
            assert list(got) == want, (frames, height, width, low, high)
            compared += 1
    assert compared > 500


GOLDEN_VIDEOS = (
    ("same_size", QWEN),
    ("odd_frames", QWEN),
    ("three_frames", QWEN),
    ("one_frame", QWEN),
    ("tall", QWEN),
    ("small", QWEN),
    ("shrunk", QwenVideoProcessor(max_pixels=4 * 64 * 64)),
    ("much_shrunk", QwenVideoProcessor(max_pixels=2 * 64 * 64)),
)


@pytest.mark.parametrize(("name", "processor"), GOLDEN_VIDEOS, ids=[n for n, _ in GOLDEN_VIDEOS])
def test_pixel_values_are_within_one_step_of_the_reference(name, processor):
    with np.load(GOLDEN / "qwen3_vl.npz") as arrays:
        frames, want, grid = (arrays[f"{name}_{k}"] for k in ("frames", "patches", "grid"))
    resized = prepare(frames, processor)
    patches, got_grid = patches_of(resized, processor), grid_of(resized, processor)
    assert got_grid == tuple(grid)
    assert patches.dtype == np.float32
    assert patches.shape == (grid[0], grid[1] * grid[2], 3 * 2 * 16 * 16)
    steps = patches.reshape(want.shape) - (want.astype(np.float64) / 255 - 0.5) / 0.5
    steps *= 255 * 0.5
    assert np.abs(steps).max() < 1 + 1e-3
    assert np.abs(steps).mean() < 0.05  # most are equal
    if name == "same_size":
        assert np.abs(steps).max() < 1e-3


@pytest.mark.parametrize("release", RELEASES)
def test_time_stamps_equal_the_reference(release):
    for case in golden(release)["prompts"]:
        times = np.asarray(case["indices"]) / case["fps"]
        assert QWEN.time_stamps(times).tolist() == case["time_stamps"]


# Faults that users met elsewhere


def test_case_6_time_stamps_are_source_times_after_the_last_sampling():
    # A variable rate: 1 s of slow frames, then fast ones. Markers computed from a rate are wrong.
    times = np.concatenate([np.arange(4) / 4, 1 + np.arange(60) / 60])
    processor = QwenVideoProcessor(num_frames=4)
    indices = processor.sample(len(times), (len(times) - 1) / times[-1])
    assert indices.tolist() == [0, 21, 42, 63]
    want = [(times[0] + times[21]) / 2, (times[42] + times[63]) / 2]
    assert processor.time_stamps(times[indices]).tolist() == want
    assert np.round(want, 3).tolist() == [0.642, 1.808]


def test_case_6_load_video_takes_the_times_of_the_file(tmp_path, monkeypatch):
    path = tmp_path / "clip.mp4"
    video.write(path, noise(6, 64, 96), fps=10)
    times = np.array([0, 1, 1.1, 1.2, 5, 6.5])
    info = dataclasses.replace(video.probe(path), times=times)
    monkeypatch.setattr(video, "probe", lambda path: info)
    processor = QwenVideoProcessor(num_frames=3)
    clip = load_video(path, processor)
    assert clip.indices == (0, 2, 5)
    assert clip.times.tolist() == [0.0, 1.1, 6.5]
    assert processor.time_stamps(clip.times).tolist() == [0.55, 6.5]


def test_case_7_time_stamps_of_eight_of_380_frames():
    indices = QwenVideoProcessor(num_frames=8).sample(380, 30.0)
    stamps = QWEN.time_stamps(np.arange(380)[indices] / 30)
    assert [f"{t:.1f}" for t in stamps] == ["0.9", "4.5", "8.1", "11.7"]


# Sampling


@given(
    total=st.integers(1, 20_000),
    fps=st.floats(0.5, 240),
    num_frames=st.none() | st.integers(1, 900),
)
def test_samples_are_sorted_in_range_and_reach_both_ends(total, fps, num_frames):
    indices = QwenVideoProcessor(num_frames=num_frames).sample(total, fps)
    assert 1 <= len(indices) <= min(total, num_frames or 768)
    assert len(indices) >= min(total, num_frames or 4)
    assert indices[0] == 0
    assert (np.diff(indices) > 0).all()
    assert indices[-1] == (total - 1 if len(indices) > 1 else 0)
    if len(indices) > 1:  # evenly spread: steps differ by one at most
        assert np.ptp(np.diff(indices)) <= 1


def test_a_rate_measured_from_time_stamps_costs_no_frame():
    for fps in (10, 24, 25, 30000 / 1001, 30, 60):
        for total in range(2, 1500):
            times = np.arange(total) / fps
            measured = (total - 1) / (times[-1] - times[0])
            assert len(QWEN.sample(total, measured)) == len(QWEN.sample(total, fps))


def test_one_frame_has_no_rate():
    assert QWEN.sample(1, math.nan).tolist() == [0]
    assert QWEN.sample(1, math.inf).tolist() == [0]


@pytest.mark.parametrize("fps", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_rate_is_an_error(fps):
    with pytest.raises(ValueError, match="frames a second"):
        QWEN.sample(10, fps)
    with pytest.raises(ValueError, match="0 frames"):
        QWEN.sample(0, 30.0)


# Resizing


@given(
    frames=st.integers(1, 768),
    height=st.integers(1, 3000),
    width=st.integers(1, 3000),
    low=st.integers(1, 300_000),
    extra=st.integers(0, 10_000_000),
)
def test_sizes_are_multiples_and_within_the_limits(frames, height, width, low, extra):
    # High enough that one block of 32x32 pixels fits, and a gap that a size can fall into.
    high = max(8 * low, frames * 32 * 32 * 8) + extra
    processor = QwenVideoProcessor(min_pixels=low, max_pixels=high)
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(UserError, match="aspect ratio over 200"):
            processor.smart_resize(frames, height, width)
        return
    new = processor.smart_resize(frames, height, width)
    assert all(side >= 32 and side % 32 == 0 for side in new)
    volume = max(frames, 2) * new[0] * new[1]
    # The limits are compared with an odd count rounded to an even one (3 as 4, 5 as 4).
    assert volume >= 0.75 * low
    if min(new) > 32:  # a side cannot shrink below one block
        assert volume <= 1.25 * high


@given(height=st.integers(1, 70), width=st.integers(1, 70))
@settings(max_examples=30)
def test_resize_gives_uint8_of_the_asked_size_and_keeps_flat_colour(height, width):
    frames = np.full((2, 20, 30, 3), (10, 128, 250), np.uint8)
    out = resize(frames, (height, width))
    assert out.dtype == np.uint8
    assert out.shape == (2, height, width, 3)
    assert (out == frames[0, 0, 0]).all()


def test_a_frame_of_the_right_size_is_not_touched():
    frames = noise(3, 64, 96)
    assert np.array_equal(prepare(frames, QWEN), frames)


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((2, 32, 32, 3), np.float32),
        np.zeros((2, 3, 32, 32), np.uint8),
        np.zeros((32, 32, 3), np.uint8),
        np.zeros((0, 32, 32, 3), np.uint8),
    ],
)
def test_wrong_frames_are_an_error(frames):
    with pytest.raises(ValueError, match="expected uint8"):
        prepare(frames, QWEN)


# Patches


def plain_patches(frames, patch, pair, merge):
    """The order of patches and of the numbers in one, as loops."""
    frames = list(frames)
    while len(frames) % pair:
        frames.append(frames[-1])
    height, width, _ = frames[0].shape
    out = []
    for start in range(0, len(frames), pair):
        for block_y in range(0, height // patch, merge):
            for block_x in range(0, width // patch, merge):
                for y in range(block_y, block_y + merge):
                    for x in range(block_x, block_x + merge):
                        for c, t, i, j in np.ndindex(3, pair, patch, patch):
                            out.append(frames[start + t][y * patch + i, x * patch + j, c] / 255)
    return np.asarray(out).reshape(-1, 3 * pair * patch * patch)


@given(
    frames=st.integers(1, 5),
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
    patch=st.integers(1, 4),
    pair=st.integers(1, 3),
    merge=st.integers(1, 2),
)
@settings(max_examples=40)
def test_patches_equal_a_plain_loop(frames, rows, columns, patch, pair, merge):
    processor = QwenVideoProcessor(
        patch_size=patch,
        temporal_patch_size=pair,
        merge_size=merge,
        mean=(0.5, 0.25, 0.0),
        std=(0.5, 0.25, 2.0),
    )
    pixels = noise(frames, rows * patch * merge, columns * patch * merge)
    patches, grid = patches_of(pixels, processor), grid_of(pixels, processor)
    assert grid == (math.ceil(frames / pair), rows * merge, columns * merge)
    assert tokens_per_group(grid, processor) == rows * columns
    want = plain_patches(pixels, patch, pair, merge)
    mean, std = (np.repeat(v, pair * patch * patch) for v in (processor.mean, processor.std))
    want = (want - mean) / std
    np.testing.assert_allclose(patches.reshape(want.shape), want, atol=2e-6)


@given(groups=st.integers(1, 3), rows=st.integers(1, 3), columns=st.integers(1, 3))
@settings(max_examples=20)
def test_patches_can_be_put_together_again(groups, rows, columns):
    pixels = noise(2 * groups, 32 * rows, 32 * columns)
    patches, (_, h, w) = patches_of(pixels, QWEN), grid_of(pixels, QWEN)
    blocks = patches.reshape(groups, h // 2, w // 2, 2, 2, 3, 2, 16, 16)
    back = blocks.transpose(0, 6, 1, 3, 7, 2, 4, 8, 5).reshape(pixels.shape)
    assert np.array_equal(((back * 0.5 + 0.5) * 255).round().astype(np.uint8), pixels)


def test_case_10_one_group_and_one_time_stamp_a_pair_of_frames():
    pixels = noise(5, 32, 64)
    patches, grid = patches_of(pixels, QWEN), grid_of(pixels, QWEN)
    assert grid == (3, 2, 4)
    assert len(patches) == len(QWEN.time_stamps(np.arange(5.0))) == 3
    # The odd last frame stands twice in its group, and the group lies at its time.
    last = patches[2].reshape(8, 3, 2, 256)
    assert np.array_equal(last[:, :, 0], last[:, :, 1])
    assert QWEN.time_stamps(np.arange(5.0)).tolist() == [0.5, 2.5, 4.0]


def test_frames_that_were_not_resized_are_an_error():
    with pytest.raises(ValueError, match="48x32 frames are no multiple of 32"):
        patches_of(noise(2, 32, 48), QWEN)


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fps": 0}, "video.fps"),
        ({"fps": -2.0}, "video.fps"),
        ({"fps": math.nan}, "video.fps"),
        ({"fps": "2"}, "video.fps"),
        ({"num_frames": 0}, "video.num_frames"),
        ({"num_frames": 2.5}, "video.num_frames"),
        ({"num_frames": True}, "video.num_frames"),
        ({"patch_size": 0}, "video.patch_size"),
        ({"merge_size": None}, "video.merge_size"),
        ({"min_frames": 9, "max_frames": 8}, "video.min_frames 9 is over video.max_frames 8"),
        ({"min_pixels": 10, "max_pixels": 9}, "video.min_pixels 10 is over"),
        ({"max_pixels": -1}, "video.max_pixels"),
        ({"mean": 0.5}, "video.mean must be three numbers"),
        ({"mean": (0.5, 0.5)}, "video.mean must be three numbers"),
        ({"std": (0.5, 0.5, 0.0)}, "video.std must be positive"),
        ({"std": (0.5, 0.5, math.inf)}, "video.std must be three numbers"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        QwenVideoProcessor(**changes)
    assert "\n" not in str(caught.value)


def test_the_defaults_are_the_published_ones():
    assert (QWEN.fps, QWEN.min_frames, QWEN.max_frames) == (2.0, 4, 768)
    assert (QWEN.min_pixels, QWEN.max_pixels, QWEN.factor) == (4096, 25165824, 32)


# One call for a worker process


def test_load_video_from_a_file(tmp_path):
    path = tmp_path / "clip.mp4"
    ramp = np.arange(25, dtype=np.uint8)[:, None, None, None] * 10
    video.write(path, np.broadcast_to(ramp, (25, 64, 96, 3)), fps=10)
    processor = QwenVideoProcessor(fps=2.0)
    clip = pickle.loads(pickle.dumps(load_video(path, processor)))
    assert clip.indices == (0, 6, 12, 18, 24)
    assert clip.grid == (3, 4, 6)
    assert clip.frames.shape == (5, 64, 96, 3)
    assert clip.frames.dtype == np.uint8
    np.testing.assert_allclose(clip.frames.mean((1, 2, 3)), np.array(clip.indices) * 10, atol=4)
    np.testing.assert_allclose(clip.times, [0, 0.6, 1.2, 1.8, 2.4], atol=1e-9)
    np.testing.assert_allclose(processor.time_stamps(clip.times), [0.3, 1.5, 2.4], atol=1e-9)
    assert clip.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_load_video_in_small_pieces_gives_the_same(tmp_path, monkeypatch):
    path = tmp_path / "clip.mp4"
    video.write(path, noise(12, 64, 96), fps=10)
    processor = QwenVideoProcessor(num_frames=7, max_pixels=7 * 32 * 64)
    whole = load_video(path, processor)
    held = []
    read = video.read_frames
    monkeypatch.setattr(preprocess, "MAX_RAW_BYTES", 2 * 64 * 96 * 3)
    monkeypatch.setattr(
        video, "read_frames", lambda p, i, **more: held.append(len(i)) or read(p, i, **more)
    )
    pieces = load_video(path, processor)
    assert held == [2, 2, 2, 1]
    assert np.array_equal(whole.frames, pieces.frames)
    assert whole._replace(frames=None, times=None) == pieces._replace(frames=None, times=None)


def test_load_video_of_one_frame(tmp_path):
    path = tmp_path / "one.mp4"
    video.write(path, noise(1, 64, 96), fps=10)
    clip = load_video(path, QWEN)
    assert (clip.indices, clip.grid, clip.times.tolist()) == ((0,), (1, 4, 6), [0.0])


def test_load_video_errors_name_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.mp4"):
        load_video(tmp_path / "absent.mp4", QWEN)
    path = tmp_path / "text.mp4"
    path.write_text("not a video")
    with pytest.raises((ValueError, OSError), match=r"text\.mp4"):
        load_video(path, QWEN)
    flat = tmp_path / "flat.mp4"
    video.write(flat, noise(2, 2, 402), fps=10)
    with pytest.raises(UserError, match=r"flat\.mp4.*402x2.*aspect ratio"):
        load_video(flat, QWEN)


def test_a_worker_needs_no_accelerator_library():
    code = (
        "import sys, cctv.data.preprocess as p;"
        "print([m for m in ('jax', 'flax', 'torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What TCD contrasts with


def test_kept_frames_shown_or_alone(tmp_path):
    path = tmp_path / "clip.mp4"
    video.write(path, noise(16, 64, 96), fps=10)
    processor = QwenVideoProcessor(num_frames=16)
    clip = load_video(path, processor)
    kept = [0, 5, 10, 15]
    shown = preprocess.show_kept(clip, kept)
    for j in range(16):  # slot j shows kept[j·n//F] and keeps its own time
        assert np.array_equal(shown.frames[j], clip.frames[kept[j * 4 // 16]])
    assert np.array_equal(shown.times, clip.times)
    assert (shown.grid, shown.indices) == (clip.grid, clip.indices)
    alone = preprocess.drop_others(clip, kept, processor)
    assert np.array_equal(alone.frames, clip.frames[kept])
    assert np.array_equal(alone.times, clip.times[kept])
    assert (alone.grid[0], alone.indices) == (2, (0, 5, 10, 15))


def test_group_digests_follow_the_pixels(tmp_path):
    path = tmp_path / "clip.mp4"
    video.write(path, noise(5, 64, 96), fps=10)
    processor = QwenVideoProcessor(num_frames=5)
    clip = load_video(path, processor)
    digests = preprocess.group_digests(clip, 2)
    assert len(digests) == len(set(digests)) == 3
    frames = clip.frames.copy()
    frames[3, 0, 0, 0] ^= 1
    changed = preprocess.group_digests(clip._replace(frames=frames), 2)
    assert [a == b for a, b in zip(digests, changed)] == [True, False, True]
    still = clip._replace(frames=clip.frames[[0] * 4])
    assert len(set(preprocess.group_digests(still, 2))) == 1


@pytest.mark.parametrize(("rows", "columns", "merge"), [(4, 6, 2), (2, 3, 1), (6, 3, 3)])
def test_patch_coords_are_in_the_order_of_patchify(rows, columns, merge):
    row, column = np.mgrid[:rows, :columns]
    pixels = np.stack([row, column, row], axis=-1).astype(np.float32)[None]
    patches = preprocess.patchify(pixels, patch=1, merge=merge)[0]
    coords = preprocess.patch_coords(rows, columns, merge=merge)
    np.testing.assert_array_equal(coords, patches[:, :2])
