"""decord, for those who ask for it: PyAV's pixels, or an error that says why not."""

import shutil
import sys

import av
import clips
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctv.data import video
from cctv.data.errors import UserError
from cctv.data.preprocess import load_video
from cctv.data.qwen_video import QwenVideoProcessor
from cctv.data.video import VideoDecodeError, VideoMissingError, probe, read_frames

# Why a file is refused; all others in mp4, mov and mkv are read.
REFUSED = {
    "h264_trimmed.mp4": "hidden by an edit list",
    "h264_open_gop.mp4": "not IDR",
    "h264_intra_refresh.mp4": "not IDR",
    "hevc_open_gop.mp4": "not IDR",
    "hevc_10_bit.mkv": "not IDR",
    **{name: "turned by its rotation" for name in clips.ROTATION},
    **{
        name: "is not h264 or hevc in mp4, mov or mkv"
        for name in clips.CLIPS
        if not name.startswith(("h264", "hevc")) or name.endswith(".ts")
    },
}


def noise(count, size=(64, 96)):
    """Coloured noise that moves, with the number in a corner."""
    scene = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    for i in range(count):
        frame = scene[3 * i : 3 * i + size[0], 2 * i : 2 * i + size[1]].copy()
        frame[:32, :48] = clips.draw(i, 48, 32)
        yield frame


@pytest.mark.parametrize("name", [name for name in clips.CLIPS if name not in REFUSED])
def test_the_frames_of_pyav(clip, name):
    pytest.importorskip("decord")
    path = clip(name)
    count = probe(path).num_frames
    expected = read_frames(path, range(count), reader="pyav")
    rng = np.random.default_rng(0)
    uniform = np.linspace(0, count - 1, 16).round().astype(int)
    for indices in (uniform, [count - 1], rng.integers(0, count, 20), rng.permutation(count)):
        frames = read_frames(path, indices, reader="decord")
        np.testing.assert_array_equal(frames, expected[indices])
    assert read_frames(path, [], reader="decord").shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("name", REFUSED)
def test_what_decord_reads_wrongly_is_refused_and_auto_reads_it(clip, name):
    pytest.importorskip("decord")
    with pytest.raises(VideoDecodeError, match=rf"{name}: .*{REFUSED[name]}.*'pyav'$") as caught:
        read_frames(clip(name), [1], reader="decord")
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(
        read_frames(clip(name), [1]), read_frames(clip(name), [1], reader="pyav")
    )


@pytest.mark.parametrize("name", clips.BROKEN)
def test_a_broken_file_is_an_error_or_what_decord_makes_of_it(clip, name):
    pytest.importorskip("decord")
    try:
        frames = read_frames(clip(name), [0, 30, 59], reader="decord")
    except VideoDecodeError as error:
        assert str(error).startswith(f"{clip(name)}: ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:  # damage within packets alone
        assert name == "corrupt_middle.mp4"
        assert frames.shape == (3, clips.HEIGHT, clips.WIDTH, 3)


def test_damage_that_decord_passes_over_is_an_error_by_default(tmp_path):
    """The measurement behind "auto": decord gives another picture, PyAV none."""
    pytest.importorskip("decord")
    path = tmp_path / "v.mp4"
    video.write(path, noise(60), fps=10)
    whole = read_frames(path, range(60))
    np.testing.assert_array_equal(read_frames(path, range(60), reader="decord"), whole)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packet = [p for p in container.demux(video=0) if p.size][45]
        start = packet.pos + 60
    data[start : start + 200] = np.random.default_rng(0).bytes(200)
    path.write_bytes(data)
    for reader in ("auto", "pyav"):
        with pytest.raises(VideoDecodeError, match="frame 45 of 60 can't be decoded"):
            read_frames(path, [0, 45], reader=reader)
    patched = read_frames(path, [0, 45], reader="decord")
    np.testing.assert_array_equal(patched[0], whole[0])
    assert (patched[1] != whole[45]).any()


def test_errors_of_decord_are_one_line(clip, tmp_path, monkeypatch):
    decord = pytest.importorskip("decord")
    path = shutil.copy(clip("h264.mp4"), tmp_path / "v.mp4")

    def fail(*_, **__):
        raise decord.DECORDError("first line\nStack trace")

    with monkeypatch.context() as patch:
        patch.setattr(decord, "VideoReader", fail)
        with pytest.raises(VideoDecodeError, match=r"v.mp4: can't be decoded by decord; damaged"):
            read_frames(path, [0], reader="decord")
    monkeypatch.setattr(decord, "VideoReader", lambda *_, **__: range(61))
    with pytest.raises(VideoDecodeError, match=r"v.mp4: has 60 frames but 61 for decord"):
        read_frames(path, [0], reader="decord")


def test_the_index_comes_first(clip, tmp_path):
    pytest.importorskip("decord")
    with pytest.raises(ValueError, match="frame 60 is out of range, the video has 60 frames"):
        read_frames(clip("h264.mp4"), [60], reader="decord")
    with pytest.raises(VideoMissingError, match=r"none.mp4: no such"):
        read_frames(tmp_path / "none.mp4", [0], reader="decord")


def test_without_decord(clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "decord", None)
    with pytest.raises(UserError, match=r"h264.mp4: decord is not installed; use reader 'pyav'$"):
        read_frames(clip("h264.mp4"), [0], reader="decord")
    assert clips.number_of(read_frames(clip("h264.mp4"), [7])[0]) == 7


def test_an_unknown_reader(clip):
    with pytest.raises(UserError, match="one of auto, pyav, decord, not 'opencv'"):
        read_frames(clip("h264.mp4"), [0], reader="opencv")


def test_load_video_with_either_reader(tmp_path):
    pytest.importorskip("decord")
    path = tmp_path / "v.mp4"
    video.write(path, noise(20), fps=10)
    processor = QwenVideoProcessor(num_frames=4)
    default, other = load_video(path, processor), load_video(path, processor, reader="decord")
    np.testing.assert_array_equal(default.frames, other.frames)
    assert default.digest == other.digest
    with pytest.raises(UserError, match="reader must be one of"):
        load_video(path, processor, reader="")


AVCC = bytes([1, 0, 0, 0, 0xFC])
HVCC = bytes([1] + [0] * 20 + [0xFC])


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("codec", "kinds", "expected"),
    [
        ("h264", [6, 7, 8, 5], True),
        ("h264", [9, 6, 1], False),
        ("h264", [1, 5], False),  # data of a picture that is not IDR come first
        ("h264", [6], False),
        ("h264", [], False),
        ("hevc", [32, 33, 34, 39, 19, 19], True),
        ("hevc", [20], True),
        ("hevc", [39, 21], False),  # CRA: an open GOP
        ("hevc", [16], False),  # BLA: leading pictures are lost
        ("hevc", [40], False),
    ],
)
def test_idr(codec, kinds, expected, size):
    units = [bytes([k if codec == "h264" else k << 1]) + bytes(range(30)) for k in kinds]
    packet = b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)
    setup = bytearray(AVCC if codec == "h264" else HVCC)
    setup[-1] |= size - 1
    assert video._is_idr(packet, codec, bytes(setup)) is expected
    assert not video._is_idr(packet, codec, b"")


@given(st.binary(max_size=60), st.sampled_from([("h264", AVCC), ("hevc", HVCC)]))
def test_idr_of_any_bytes(packet, form):
    assert video._is_idr(packet, *form) in (True, False)
