"""The project's own mp4 files: their form, and that equal beginnings stay equal."""

import av
import clips
import numpy as np
import pytest

from cctv.data.video import probe, read_frames, write


def moving(count, *, seed, branch=40, size=(64, 96)):
    """Frames of noise that moves; those before `branch` don't depend on the seed."""
    rng = np.random.default_rng(0)
    scene = rng.integers(0, 256, (size[0] * 2, size[1] * 2, 3), dtype=np.uint8)
    own = np.random.default_rng(seed)
    for i in range(count):
        frame = scene[i % 60 : i % 60 + size[0], i % 90 : i % 90 + size[1]].copy()
        if i >= branch:
            frame[10:40, 10:50] = own.integers(0, 256, (30, 40, 3))
        yield frame


def packets(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [
            (p.pts * stream.time_base, p.dts * stream.time_base, p.is_keyframe)
            for p in container.demux(stream)
            if p.size
        ]


def test_the_form_of_the_file(tmp_path):
    path = tmp_path / "v.mp4"
    write(path, moving(80, seed=1), fps=15)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    assert b"elst" not in data
    with av.open(str(path)) as container:
        assert [s.type for s in container.streams] == ["video"]
        context = container.streams.video[0].codec_context
        assert (context.name, context.pix_fmt) == ("h264", "yuv420p")
    found = packets(path)
    assert [float(pts * 15) for pts, _, _ in found] == list(range(80))
    assert all(pts == dts for pts, dts, _ in found)
    # No keyframe at the branch: it would give away where the videos part.
    assert [i for i, (_, _, key) in enumerate(found) if key] == [0, 30, 60]
    assert [p.name for p in tmp_path.iterdir()] == ["v.mp4"]


def test_equal_beginnings_are_equal_after_decoding(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        write(tmp_path / f"{name}.mp4", moving(70, seed=seed), fps=10)
    a, b = (read_frames(tmp_path / f"{name}.mp4", range(70)) for name in "ab")
    same = [bool((x == y).all()) for x, y in zip(a, b)]
    assert same == [True] * 40 + [False] * 30


def test_the_same_frames_give_the_same_bytes(tmp_path):
    for name in "ab":
        write(tmp_path / f"{name}.mp4", moving(20, seed=1), fps=10)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize("fps", [1, 7.5, 25, 30, 29.97])
def test_rate_and_pictures(tmp_path, fps):
    write(tmp_path / "v.mp4", (clips.draw(i) for i in range(12)), fps=fps)
    info = probe(tmp_path / "v.mp4")
    np.testing.assert_allclose(info.times, np.arange(12) / fps, atol=1e-4)
    frames = read_frames(tmp_path / "v.mp4", range(12))
    assert [clips.number_of(f) for f in frames] == list(range(12))
    difference = np.abs(frames.astype(int) - np.stack([clips.draw(i) for i in range(12)]))
    assert difference.mean() < 4


@pytest.mark.parametrize(
    ("name", "shapes", "fps", "message"),
    [
        ("v.avi", [(4, 4, 3)], 5, r"v.avi: only .mp4"),
        ("v.mp4", [], 5, "v.mp4: no frames"),
        ("v.mp4", [(15, 16, 3)], 5, r"even H and W, not \[15, 16, 3\]"),
        ("v.mp4", [(16, 16)], 5, r"not \[16, 16\]"),
        ("v.mp4", [(16, 16, 3), (16, 18, 3)], 5, r"frame 1 is uint8\[16, 18, 3\]"),
        ("v.mp4", [(16, 16, 3)], 0, "fps must be positive, not 0"),
    ],
)
def test_wrong_input_leaves_no_file(tmp_path, name, shapes, fps, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path / name, (np.zeros(s, np.uint8) for s in shapes), fps=fps)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError, match="none"):
        write(tmp_path / "none" / "v.mp4", moving(2, seed=0), fps=5)
