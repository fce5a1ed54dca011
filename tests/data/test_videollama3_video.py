"""VideoLLaMA3's frames, sizes, patches and changed tokens: goldens, libavfilter, plain loops."""

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.data.errors import UserError
from cctv.data.preprocess import grid_of, patches_of, prepare
from cctv.data.videollama3_video import VideoLLaMA3VideoProcessor

GOLDEN = Path(__file__).parents[1] / "golden"
PROCESSOR = VideoLLaMA3VideoProcessor()


def test_sizes_equal_the_reference():
    cases = json.loads((GOLDEN / "videollama3.json").read_text(encoding="utf-8"))["sizes"]
    assert len(cases) > 300
    for frames, height, width, low, high, *want in cases:
        processor = VideoLLaMA3VideoProcessor(min_pixels=low, max_pixels=high)
        assert list(processor.smart_resize(frames, height, width)) == want


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("same_size", dict(min_pixels=1568)),
        ("one_frame", dict(min_pixels=1568)),
        ("shrunk", dict(min_pixels=1568, max_pixels=2 * 56 * 84)),
        ("grown", {}),
        ("still", dict(min_pixels=1568)),
    ],
)
def test_pixels_and_kept_tokens_equal_the_reference(name, limits):
    processor = VideoLLaMA3VideoProcessor(**limits)
    with np.load(GOLDEN / "videollama3.npz") as arrays:
        frames, grid = prepare(arrays[f"{name}_frames"], processor), arrays[f"{name}_grid"]
        kept = arrays[f"{name}_kept"]
        want = arrays[f"{name}_patches"] if name != "still" else None
    assert grid_of(frames, processor) == tuple(grid)
    got = patches_of(frames, processor)
    assert got.shape == (grid[0], grid[1] * grid[2], 588)
    if want is not None:
        steps = np.abs((got.reshape(want.shape) * 0.5 + 0.5) * 255 - want)
        # Pillow's resize, which the original uses too, is within one step of torchvision's (one
        # pixel of the thousands here is two away); most are equal.
        assert steps.max() < (2.001 if name in ("shrunk", "grown", "one_frame") else 1e-3)
        assert (steps > 1.001).sum() <= 1
        assert steps.mean() < 0.1
    np.testing.assert_array_equal(processor.changed(frames).ravel(), kept)
    if name == "still":
        assert 0 < kept.reshape(7, -1)[1:].sum() < 20  # both answers, or this would show little


def by_ffmpeg(total: int, rate: Fraction, fps: Fraction) -> list[tuple[int, float]]:
    """(frame number, time) that libavfilter's fps filter gives, rounding down as the original."""
    graph = av.filter.Graph()
    source = graph.add_buffer(width=16, height=16, format="gray16le", time_base=1 / rate)
    chain = graph.add("fps", f"fps={fps}:round=down")
    sink = graph.add("buffersink")
    source.link_to(chain)
    chain.link_to(sink)
    graph.configure()
    out = []

    def pull():
        while True:
            try:
                frame = graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            out.append((int(frame.to_ndarray()[0, 0]), float(frame.pts * frame.time_base)))

    for i in range(total):
        frame = av.VideoFrame.from_ndarray(np.full((16, 16), i, np.uint16), format="gray16le")
        frame.pts, frame.duration, frame.time_base = i, 1, 1 / rate
        graph.push(frame)
        pull()
    graph.push(None)
    pull()
    return out


@pytest.mark.parametrize("rate", [Fraction(10), Fraction(30000, 1001), Fraction(24), Fraction(3)])
@pytest.mark.parametrize(("total", "fps"), [(80, 1), (85, 1), (59, 1), (97, 2), (31, 3)])
def test_sampled_frames_and_times_equal_ffmpeg(rate, total, fps):
    want = by_ffmpeg(total, rate, Fraction(fps))
    assert want
    processor = VideoLLaMA3VideoProcessor(fps=float(fps))
    indices = processor.sample(total, float(rate))
    assert indices.tolist() == [i for i, _ in want]
    times = indices / float(rate)
    np.testing.assert_allclose(processor.time_stamps(times), [t for _, t in want], atol=1e-9)
    own = VideoLLaMA3VideoProcessor(fps=float(fps), slot_times=False)
    np.testing.assert_array_equal(own.time_stamps(times), times)


def test_long_and_short_videos():
    indices = PROCESSOR.sample(10 * 400, 10.0)  # 400 slots, of which 180 are shown
    want = np.linspace(0, 399, 180, dtype=int)
    assert indices.tolist() == [10 * slot + 9 for slot in want]
    np.testing.assert_array_equal(PROCESSOR.time_stamps(indices / 10), want)
    assert PROCESSOR.sample(7, 10.0).tolist() == [6]  # shorter than a slot
    assert PROCESSOR.sample(1, 0.0).tolist() == [0]


def test_a_number_of_frames_replaces_the_rate():
    """cases.md 7: spread over the video, each with its own time."""
    processor = VideoLLaMA3VideoProcessor(num_frames=8)
    indices = processor.sample(380, 30.0)
    assert indices.tolist() == np.linspace(0, 379, 8, dtype=int).tolist()
    np.testing.assert_array_equal(processor.time_stamps(indices / 30), indices / 30)
    assert processor.sample(3, 30.0).tolist() == [0, 1, 2]


@settings(deadline=None, max_examples=200)
@given(
    total=st.integers(1, 20_000),
    rate=st.floats(0.2, 240),
    fps=st.floats(0.1, 30),
    most=st.integers(1, 200),
)
def test_sampling_stays_inside_the_video(total, rate, fps, most):
    processor = VideoLLaMA3VideoProcessor(fps=fps, max_frames=most)
    indices = processor.sample(total, rate)
    assert 1 <= len(indices) <= most
    assert 0 <= indices[0] <= indices[-1] < total
    assert (np.diff(indices) >= 0).all()
    stamps = processor.time_stamps(indices / rate)
    assert (stamps <= indices / rate + 1e-5).all()
    assert (indices / rate - stamps < 1 / fps + 1e-9).all()


def plain_changed(frames, processor):
    """Token by token, on the normalised pixels as the reference has them."""
    x = (frames / 255 - np.array(processor.mean)) / np.array(processor.std)
    count, height, width, _ = x.shape
    kept = []
    for f in range(count):
        row = []
        for top in range(0, height, 28):
            for left in range(0, width, 28):
                block = np.s_[top : top + 28, left : left + 28]
                row.append(f == 0 or np.abs(x[f][block] - x[f - 1][block]).mean() * 255 > 0.1)
        kept.append([True, *row[1:]] if not any(row) else row)
    return np.array(kept)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    std=st.tuples(*[st.sampled_from([0.2, 0.5, 0.9])] * 3),
    steps=st.lists(st.integers(0, 300), min_size=6, max_size=6),
)
def test_changed_tokens_equal_a_plain_loop(seed, std, steps):
    rng = np.random.default_rng(seed)
    frames = np.repeat(rng.integers(0, 255, (1, 56, 56, 3), np.uint8), 6, axis=0)
    for f, n in enumerate(steps):
        at = rng.integers(0, 56, (2, n))
        frames[f, at[0], at[1], rng.integers(0, 3, n)] += 1
    processor = VideoLLaMA3VideoProcessor(std=std)
    got = processor.changed(frames)
    np.testing.assert_array_equal(got, plain_changed(frames, processor))
    assert got[0].all()
    assert got.any(axis=1).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fps", 0),
        ("fps", "1"),
        ("max_frames", 0),
        ("num_frames", 1.5),
        ("min_pixels", 10**9),
        ("slot_times", "yes"),
        ("mean", (0.5, 0.5)),
        ("std", (0.5, 0.0, 0.5)),
        ("merge_size", True),
    ],
)
def test_wrong_settings_are_named(field, value):
    with pytest.raises(UserError, match=f"video.{field}"):
        VideoLLaMA3VideoProcessor(**{field: value})


def test_wrong_videos():
    with pytest.raises(ValueError, match="0 frames"):
        PROCESSOR.sample(0, 30.0)
    with pytest.raises(ValueError, match="frames a second"):
        PROCESSOR.sample(9, 0.0)
    with pytest.raises(UserError, match="aspect ratio"):
        PROCESSOR.smart_resize(1, 3000, 14)
    with pytest.raises(UserError, match="0x9"):
        PROCESSOR.smart_resize(1, 9, 0)
