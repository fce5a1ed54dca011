"""Small video files in every container and codec, with the frame number drawn into the picture.

`CLIPS` and `BROKEN` map a file name to the function that makes that file. Frame i shows the low 12
bits of i as black and white blocks, so that `number_of` reads from a decoded frame which one it is.
"""

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

WIDTH, HEIGHT, COUNT, RATE = 96, 64, 60, 25
ROWS, COLUMNS = 3, 4


def draw(number, width=WIDTH, height=HEIGHT):
    """uint8[H, W, 3]"""
    bits = [(number >> b) & 1 for b in range(ROWS * COLUMNS)]
    blocks = np.array(bits, np.uint8).reshape(ROWS, COLUMNS) * 255
    rows = np.arange(height) * ROWS // height
    columns = np.arange(width) * COLUMNS // width
    return np.repeat(blocks[rows][:, columns, None], 3, axis=2)


def number_of(image):
    """The number drawn into uint8[H, W, 3]."""
    height, width = image.shape[:2]
    value = 0
    for bit in range(ROWS * COLUMNS):
        row, column = divmod(bit, COLUMNS)
        y, x = (2 * row + 1) * height // (2 * ROWS), (2 * column + 1) * width // (2 * COLUMNS)
        value |= int(image[y - 2 : y + 3, x - 2 : x + 3].mean() > 127) << bit
    return value


def encode(path, codec, *, count=COUNT, size=(WIDTH, HEIGHT), pixels="yuv420p", **more):
    """Encodes `count` frames. `more`: options, container (options), format, times (ms), audio."""
    times = more.get("times")
    base = Fraction(1, 1000) if times else Fraction(1, RATE)
    with av.open(
        str(path), "w", format=more.get("format"), options=more.get("container", {})
    ) as out:
        stream = out.add_stream(codec, rate=RATE, options=more.get("options", {}))
        stream.width, stream.height = size
        stream.pix_fmt = pixels
        stream.codec_context.thread_count = 1  # encoders give other bytes with more
        if times:
            stream.codec_context.time_base = base
        sound = out.add_stream("aac", rate=8000, layout="mono") if more.get("audio") else None
        for i in range(count):
            frame = av.VideoFrame.from_ndarray(draw(i, *size), format="rgb24")
            frame.pts, frame.time_base = times[i] if times else i, base
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
        if sound:
            out.mux(_silence(sound, seconds=count / RATE))
    return path


def _silence(stream, *, seconds):
    packets = []
    for i in range(int(seconds * 8000 / 1024)):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 8000, i * 1024, Fraction(1, 8000)
        packets += stream.encode(frame)
    return packets + stream.encode(None)


def x264(text):
    return {"options": {"x264-params": text}}


def x265(text):
    return {"options": {"x265-params": f"log-level=none:pools=1:frame-threads=1:{text}"}}


VP = {"options": {"deadline": "realtime", "cpu-used": "8"}}
AV1 = {"options": {"preset": "12", "svtav1-params": "lp=1:keyint=30"}}
# 40 ms a frame with every third one 10 ms late and a long gap in the middle.
UNEVEN = [40 * i + (10 if i % 3 == 1 else 0) + (2000 if i >= 30 else 0) for i in range(COUNT)]


def rotated(path, degrees):
    """An mp4 to be shown turned clockwise by `degrees`: the matrix in its track header says so."""
    encode(path, "libx264")
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40  # version 0: 40 bytes come before the matrix
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    one = 1 << 16
    matrix = (cosine * one, sine * one, 0, -sine * one, cosine * one, 0, 0, 0, 1 << 30)
    data[place : place + 36] = struct.pack(">9i", *matrix)
    path.write_bytes(data)


def trimmed(path):
    """Frames 20 to 59 by copying packets from the keyframe at 15: an edit list hides 15 to 19."""
    source = encode(path.with_suffix(".whole.mp4"), "libx264", **x264("keyint=15:scenecut=0"))
    with av.open(str(source)) as inp, av.open(str(path), "w") as out:
        stream = inp.streams.video[0]
        copy = out.add_stream_from_template(stream)
        frame = int(1 / (stream.time_base * RATE))
        for packet in inp.demux(stream):
            if packet.pts is not None and packet.pts >= 15 * frame:
                packet.pts -= 20 * frame
                packet.dts -= 20 * frame
                packet.stream = copy
                out.mux(packet)
    source.unlink()


def mid_stream(path):
    """A transport stream that begins 10 frames before its second keyframe (frame 20)."""
    source = encode(
        path.with_suffix(".whole.ts"), "libx264", **x264("keyint=20:bframes=0:scenecut=0")
    )
    with av.open(str(source)) as inp, av.open(str(path), "w") as out:
        stream = inp.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for i, packet in enumerate(inp.demux(stream)):
            if packet.pts is not None and i >= 10:
                packet.stream = copy
                out.mux(packet)
    source.unlink()


def clip(codec, **more):
    return lambda path: encode(path, codec, **more)


CLIPS = {
    "h264.mp4": clip("libx264"),
    "h264_short_gop.mp4": clip("libx264", **x264("keyint=12:bframes=3")),
    "h264_open_gop.mp4": clip("libx264", **x264("keyint=12:bframes=3:open-gop=1")),
    "h264_10_bit.mp4": clip("libx264", pixels="yuv420p10le"),
    "h264_444.mp4": clip("libx264", pixels="yuv444p"),
    "h264_full_range.mp4": clip("libx264", pixels="yuvj420p"),
    "h264_odd_size.mp4": clip("libx264", pixels="yuv444p", size=(97, 63)),
    "h264_faststart.mp4": clip("libx264", container={"movflags": "faststart"}),
    "h264_fragmented.mp4": clip("libx264", container={"movflags": "frag_keyframe+empty_moov"}),
    "h264_sound.mp4": clip("libx264", audio=True),
    "h264.mkv": clip("libx264"),
    "h264.mov": clip("libx264"),
    "h264.ts": clip("libx264", **x264("keyint=20:bframes=2")),
    "h264_mid_stream.ts": mid_stream,
    "h264_uneven.mp4": clip("libx264", times=UNEVEN),
    "h264_uneven.mkv": clip("libx264", times=UNEVEN),
    "h264_one_frame.mp4": clip("libx264", count=1),
    "h264_trimmed.mp4": trimmed,
    "h264_rotated_90.mp4": lambda path: rotated(path, 90),
    "h264_rotated_180.mp4": lambda path: rotated(path, 180),
    "h264_rotated_270.mp4": lambda path: rotated(path, 270),
    "hevc.mp4": clip("libx265", **x265("keyint=12:open-gop=0")),
    "hevc_open_gop.mp4": clip("libx265", **x265("keyint=12:open-gop=1")),
    "hevc_10_bit.mkv": clip("libx265", pixels="yuv420p10le", **x265("keyint=12")),
    "h264_intra_refresh.mp4": clip("libx264", **x264("keyint=20:intra-refresh=1:bframes=0")),
    "vp8.webm": clip("libvpx", **VP),
    "vp9.webm": clip("libvpx-vp9", **VP),
    "av1.mp4": clip("libsvtav1", **AV1),
    "mpeg4_b_frames.avi": clip("mpeg4", options={"bf": "2"}),
    "msmpeg4.avi": clip("msmpeg4"),
    "mjpeg.avi": clip("mjpeg", pixels="yuvj420p"),
    "mpeg2.ts": clip("mpeg2video", options={"bf": "2"}),
    "animated.gif": clip("gif", pixels="rgb8"),
}
# The first frame shown where it is not 0, and the number of frames where it is not COUNT.
FIRST = {"h264_trimmed.mp4": 20, "h264_mid_stream.ts": 20}
COUNTS = {"h264_trimmed.mp4": 40, "h264_mid_stream.ts": 40, "h264_one_frame.mp4": 1}
ROTATION = {f"h264_rotated_{d}.mp4": (360 - d) for d in (90, 180, 270)}


def sound_only(path):
    with av.open(str(path), "w") as out:
        out.mux(_silence(out.add_stream("aac", rate=8000, layout="mono"), seconds=2))


def unknown_codec(path):
    data = encode(path, "libx264").read_bytes()
    path.write_bytes(data.replace(b"avc1", b"zzzz").replace(b"avcC", b"zzzC"))


def damaged(path, *, keep=1.0, zeros=0, box=b"mdat", **more):
    """A clip of which only the part `keep` is left, or `zeros` bytes of a box are zero."""
    encode(path, "libx264", **more, **x264("rc-lookahead=0:mbtree=0"))  # same bytes every time
    data = bytearray(path.read_bytes())
    start = data.index(box)
    start += (len(data) - start) // 3 if box == b"mdat" else 12
    data[start : start + zeros] = bytes(zeros)
    path.write_bytes(data[: int(len(data) * keep)])


FASTSTART = {"container": {"movflags": "faststart"}}
BROKEN = {
    "empty.mp4": lambda path: path.write_bytes(b""),
    "text.mp4": lambda path: path.write_text("this is not a video\n" * 50),
    "random.mp4": lambda path: path.write_bytes(np.random.default_rng(0).bytes(5000)),
    "sound_only.mp4": sound_only,
    "unknown_codec.mp4": unknown_codec,
    "folder.mp4": lambda path: path.mkdir(),
    "cut_at_the_end.mp4": lambda path: damaged(path, keep=0.6),
    "cut_faststart.mp4": lambda path: damaged(path, keep=0.6, **FASTSTART),
    "cut_fragmented.mp4": lambda path: damaged(
        path, keep=0.6, container={"movflags": "frag_keyframe+empty_moov"}
    ),
    "corrupt_middle.mp4": lambda path: damaged(path, zeros=500, **FASTSTART),
    "corrupt_index.mp4": lambda path: damaged(path, zeros=300, box=b"stsz", **FASTSTART),
    "no_time_stamps.h264": clip("libx264", format="h264"),
}


def copy(source, target, *, note: str) -> None:
    """A copy of an mp4 with a `free` box of its own behind it: the same video, another file."""
    payload = note.encode()
    box = (8 + len(payload)).to_bytes(4, "big") + b"free" + payload
    Path(target).write_bytes(Path(source).read_bytes() + box)
