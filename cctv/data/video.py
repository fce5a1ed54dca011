"""Reading and writing videos: `probe`, `read_frames` and `write`.

A file's packet index (presentation times of all packets, without decoding) decides how many frames
there are and when they are shown; what headers say is never used. All of this runs in the calling
process: `cctv.data.pool` adds worker processes and a time limit.

Frames come from PyAV (readers "auto" and "pyav"); decord is for those who ask for it. decord 0.6.0
against PyAV 18.1 with err_detect=explode, 52 sound clips of h264 and hevc in mp4, mov and mkv and
600 damaged ones (bytes changed or zeroed):
* Pixels are the same (all bit depths, chroma formats and colour matrices tried) on the 40 clips
  whose keyframes are all IDR pictures, without rotation or frames hidden by an edit list. On open
  GOPs (the default of x265), intra refresh and trimmed clips decord gives neighbouring or
  half-drawn frames without a word: these are refused. So are rotated ones, though three were right.
* Of 239 damaged files that PyAV refused, decord gave frames of 146 (its `fault_tol` changed
  nothing in 180); never the other way round. A packet index doesn't show such damage, so there is
  no file of which decord is known to be as right: "auto" never chooses it.
* It isn't faster. 16 of 300 frames of 720p, two cores: decord 0.59-0.75 s, PyAV 0.43-0.53 s
  (processor time 0.62-0.80 and 0.64-0.77 s); 16 of 120 frames of `write`, 448x448: 0.11 s each.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from av.stream import Disposition

from cctv.data.errors import UserError

READERS = ("auto", "pyav", "decord")
_MP4 = "mov,mp4,m4a,3gp,3g2,mj2"  # what FFmpeg calls the family of mp4
_MKV = "matroska,webm"


class VideoDecodeError(UserError):
    """A file that can't be read as a video; its text is one line that names the file."""

    def __init__(self, path: str | Path, reason: str):
        super().__init__(str(path), reason)
        self.path, self.reason = str(path), reason

    def __str__(self):
        return f"{self.path}: {self.reason}"


class VideoMissingError(VideoDecodeError, FileNotFoundError):
    """There is no such file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoInfo:
    """What `probe` finds.

    `times`: float64[F], seconds from 0, strictly increasing. `fps` is (F-1) / (last - first), of a
    single frame the header's (1 if that says nothing). Width and height are as displayed;
    `rotation` (0, 90, 180 or 270 degrees counter-clockwise) leads from the stored frame to that.
    """

    num_frames: int
    times: np.ndarray
    fps: float
    width: int
    height: int
    codec: str
    rotation: int


def probe(path: str | Path) -> VideoInfo:
    """Frame times from the packet index and the displayed size; decodes the first frame only.

    VideoDecodeError, or VideoMissingError (a FileNotFoundError too), names the file.
    """
    with _opened(path) as (container, stream):
        index = _scan(path, container, stream)
        _, first = next(_frames(path, container, stream, index, [0]))
        base, rate = stream.time_base, stream.average_rate or 1
        codec = stream.codec_context.codec.canonical_name
    ticks = index.pts - index.pts[0]
    times = ticks * base.numerator / base.denominator
    times.flags.writeable = False
    count = len(times)
    if count > 1:
        rate = (count - 1) / (int(ticks[-1]) * base)  # exact until the last step
    return VideoInfo(
        num_frames=count,
        times=times,
        fps=float(rate),
        height=_image(first).shape[0],
        width=_image(first).shape[1],
        codec=codec,
        rotation=90 * _turns(first),
    )


def read_frames(path: str | Path, indices: Sequence[int], *, reader: str = "auto") -> np.ndarray:
    """The frames with these indices, uint8[len(indices), H, W, 3]: RGB, rotated for display.

    Any order, repeats allowed. Memory is that of the result and a few frames, whatever the length.
    `reader`: "auto" and "pyav" read with PyAV; "decord" with decord, only h264 or hevc in mp4, mov
    or mkv whose keyframes are all IDR, without rotation or frames hidden by an edit list. The same
    pixels, but damage in a file may go unnoticed. Why: see the top of this module.
    ValueError for an index out of range, an unknown or absent reader, VideoDecodeError or
    VideoMissingError for the file, also one that the reader asked for doesn't take.
    """
    if reader not in READERS:
        raise UserError(f"reader must be one of {', '.join(READERS)}, not {reader!r}")
    asked = [int(i) for i in indices]
    with _opened(path) as (container, stream):
        index = _scan(path, container, stream)
        count = len(index.pts)
        for i in asked:
            if not 0 <= i < count:
                raise ValueError(f"{path}: frame {i} is out of range, the video has {count} frames")
        _, first = next(_frames(path, container, stream, index, [0]))
        shape = _image(first).shape
        frames = np.empty((len(asked), *shape), np.uint8)
        places: dict[int, list[int]] = {}
        for place, i in enumerate(asked):
            places.setdefault(i, []).append(place)
        wanted = sorted(places)
        if reader == "decord":
            images = _decord_images(path, count, wanted, turned=bool(_turns(first)))
        else:
            found = _frames(path, container, stream, index, wanted)
            images = ((i, _image(frame)) for i, frame in found)
        for i, image in images:
            if image.shape != shape:
                raise VideoDecodeError(path, f"frame {i} has another size than the first")
            frames[places[i]] = image
    return frames


class _Index(NamedTuple):
    """The packets of a stream: sorted pts of the frames shown, sorted pts of all keyframes."""

    pts: np.ndarray
    keys: np.ndarray


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """The container and its video stream; what FFmpeg raises inside is a VideoDecodeError."""
    path = Path(path)
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long, a folder that can't be entered
        raise VideoDecodeError(path, f"can't be opened ({error.strerror})") from None
    if not there:
        raise VideoMissingError(path, "no such video file")
    if not path.is_file():
        raise VideoDecodeError(path, "not a regular file")
    if not path.stat().st_size:
        raise VideoDecodeError(path, "an empty file (0 bytes)")
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            videos = [s for s in container.streams.video if not _is_cover(s)]
            if not videos:
                raise VideoDecodeError(path, "has no video stream (audio only, or cut off)")
            if videos[0].codec_context is None:
                raise VideoDecodeError(path, "is in no codec known here; convert it to mp4 (h264)")
            # Without this, damaged frames are patched up from their neighbours and look valid.
            videos[0].codec_context.options = {"err_detect": "explode"}
            yield container, videos[0]
    except (av.FFmpegError, PermissionError) as error:
        raise VideoDecodeError(path, f"can't be decoded ({error.strerror})") from error


def _is_cover(stream: av.VideoStream) -> bool:
    return bool(stream.disposition & Disposition.attached_pic)


def _scan(path: str | Path, container, stream) -> _Index:
    """Reads all packets of the stream, decoding none."""
    shown, keys = set(), set()
    count, name = 0, container.format.name
    trimmed = cut_off = False
    for packet in container.demux(stream):
        if packet.pts is None:
            continue
        if not packet.size:  # nothing new to show, which an mp4 doesn't say this way
            cut_off |= name == _MP4
            continue
        count += 1
        # A packet that ends before it should; in a transport stream only a lost piece on the way.
        cut_off |= packet.is_corrupt and name != "mpegts"
        trimmed |= packet.is_discard
        if packet.is_keyframe:
            keys.add(packet.pts)
        if not packet.is_discard:
            shown.add(packet.pts)
    if cut_off or (name == _MP4 and not trimmed and count < len(stream.index_entries)):
        raise VideoDecodeError(path, f"is cut off or damaged: it has data of {count} frames only")
    # What is shown before the first keyframe (a recording cut anywhere) can't be decoded.
    start = min(keys, default=0)
    pts = np.array(sorted(p for p in shown if p >= start), np.int64)
    if not len(pts) or not keys:
        raise VideoDecodeError(path, "has no frames with time stamps; convert it to mp4")
    return _Index(pts, np.array(sorted(keys), np.int64))


def _frames(path, container, stream, index: _Index, wanted: Sequence[int]):
    """Yields (i, av.VideoFrame) of each wanted index (sorted, unique), not always in order.

    Seeks to the keyframe at or before it and decodes until its time; what is not found that way is
    looked for in one pass from the start. VideoDecodeError names the first index that isn't there.
    """
    missed = []
    decoder, position = None, None  # position: the time of the last frame found, None when unknown
    for i in wanted:
        pts = index.pts[i]
        key = index.keys[np.searchsorted(index.keys, pts, side="right") - 1]
        found = None
        try:
            if position is None or key > position:
                container.seek(int(key), stream=stream)
                decoder = container.decode(stream)
            found = next((f for f in decoder if f.pts is not None and f.pts >= pts), None)
        except av.FFmpegError:
            pass  # the pass from the start finds the frame or gives the reason
        if found is None or found.pts != pts or found.is_corrupt:
            missed.append(i)
            position = None
        else:
            position = pts
            yield i, found
    if missed:
        yield from _sequential(path, index, missed)


def _sequential(path, index: _Index, missed: list[int]):
    """As `_frames`, by decoding everything from the start."""
    missing = {int(index.pts[i]): i for i in missed}
    reason = "is not there"
    try:
        with _opened(path) as (container, stream):
            for frame in container.decode(stream):
                if frame.pts in missing and not frame.is_corrupt:
                    yield missing.pop(frame.pts), frame
                    if not missing:
                        return
    except VideoDecodeError as error:
        reason = error.reason
    i, count = min(missing.values()), len(index.pts)
    raise VideoDecodeError(path, f"frame {i} of {count} {reason}; cut off or damaged?")


def _decord_images(path, count: int, wanted: Sequence[int], *, turned: bool):
    """As `_frames`, but yields (i, uint8[H, W, 3]) read by decord from a file that it reads right.

    VideoDecodeError says why it doesn't, or that decord failed.
    """
    try:
        import decord  # no wheels for ARM or macOS
    except ImportError:
        raise UserError(f"{path}: decord is not installed; use reader 'pyav'") from None
    reason = "is turned by its rotation metadata" if turned else _not_for_decord(path)
    if reason:
        raise VideoDecodeError(path, f"{reason}, which decord may read wrongly; use reader 'pyav'")
    try:
        # More threads, and no context, can hang or fail.
        video = decord.VideoReader(str(path), ctx=decord.cpu(0), num_threads=1)
        if len(video) != count:
            text = f"has {count} frames but {len(video)} for decord; use reader 'pyav'"
            raise VideoDecodeError(path, text)
        for i in wanted:
            yield i, video[i].asnumpy()
    except (decord.DECORDError, RuntimeError, AssertionError, StopIteration) as error:
        raise VideoDecodeError(path, "can't be decoded by decord; damaged?") from error


def _not_for_decord(path) -> str | None:
    """What in the packets of a file is outside of what decord was measured to read right."""
    with _opened(path) as (container, stream):
        codec = stream.codec_context.codec.canonical_name
        if container.format.name not in (_MP4, _MKV) or codec not in ("h264", "hevc"):
            return "is not h264 or hevc in mp4, mov or mkv"
        setup = bytes(stream.codec_context.extradata or b"")
        for packet in container.demux(stream):
            if packet.is_discard:
                return "has frames hidden by an edit list"
            if packet.is_keyframe and packet.size and not _is_idr(bytes(packet), codec, setup):
                return "has keyframes that are not IDR (open GOPs or intra refresh)"
    return None


def _is_idr(packet: bytes, codec: str, setup: bytes) -> bool:
    """Whether the first slice is one of an IDR picture: decoding can start there, and nothing that
    follows is shown earlier or refers to what came before.

    NAL units have a length in front, of as many bytes as `setup` (avcC or hvcC, ISO/IEC 14496-15)
    says; their types are those of tables 7-1 of ITU-T H.264 and H.265.
    """
    field, shift, mask, slices, idr = {
        "h264": (4, 0, 31, range(1, 6), (5,)),
        "hevc": (21, 1, 63, range(32), (19, 20)),
    }[codec]
    if len(setup) <= field or setup[0] != 1:
        return False
    size, place = (setup[field] & 3) + 1, 0
    while place + size < len(packet):
        kind = packet[place + size] >> shift & mask
        if kind in slices:
            return kind in idr
        place += size + int.from_bytes(packet[place : place + size], "big")
    return False


def _image(frame: av.VideoFrame) -> np.ndarray:
    """uint8[H, W, 3] as displayed."""
    return np.rot90(frame.to_ndarray(format="rgb24"), _turns(frame))


def _turns(frame: av.VideoFrame) -> int:
    return frame.rotation // 90 % 4  # FFmpeg gives -180 .. 180, counter-clockwise


# Constant QP without look-ahead, macroblock tree, scene cuts or B-frames: what a frame is coded to
# depends on the frames before it alone, so two videos that begin alike also decode alike. One
# thread, because x264's output depends on their number.
_X264 = (
    "qp=18:keyint=30:min-keyint=30:scenecut=0:bframes=0:open-gop=0:rc-lookahead=0:mbtree=0:"
    "threads=1:lookahead-threads=1"
)


def write(path: str | Path, frames: Iterable[np.ndarray], *, fps: float | Fraction) -> None:
    """Writes an mp4 (h264 yuv420p, closed GOP of 30, faststart, no edit list, pts from 0).

    `frames`: uint8[H, W, 3] RGB, all of one even-sized shape, taken one at a time. Leading frames
    that are equal in two videos are equal after decoding too. The file appears whole or not at all.
    ValueError for no frames, a wrong shape or rate; OSError when it can't be written.
    """
    path = Path(path)
    if path.suffix != ".mp4":
        raise ValueError(f"{path}: only .mp4 is written")
    rate = Fraction(fps).limit_denominator(100_000)
    if rate <= 0:
        raise ValueError(f"{path}: fps must be positive, not {fps}")
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.mp4")
    try:
        _encode(temporary, frames, rate=rate, name=path)
        temporary.replace(path)
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _encode(target: Path, frames: Iterable[np.ndarray], *, rate: Fraction, name: Path) -> None:
    frames = iter(frames)
    image = next(frames, None)
    if image is None:
        raise ValueError(f"{name}: no frames to write")
    shape = np.shape(image)
    if len(shape) != 3 or shape[2] != 3 or shape[0] % 2 or shape[1] % 2 or 0 in shape:
        raise ValueError(f"{name}: frames must be [H, W, 3] with even H and W, not {list(shape)}")
    options = {"movflags": "+faststart", "use_editlist": "0"}
    with av.open(str(target), "w", options=options) as container:
        stream = container.add_stream("libx264", rate=rate, options={"x264-params": _X264})
        stream.height, stream.width = shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.time_base = 1 / rate
        index = 0
        while image is not None:
            if image.shape != shape or image.dtype != np.uint8:
                raise ValueError(
                    f"{name}: frame {index} is {image.dtype}{list(image.shape)}, "
                    f"expected uint8{list(shape)}"
                )
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame.pts, frame.time_base = index, 1 / rate
            container.mux(stream.encode(frame))
            image, index = next(frames, None), index + 1
        container.mux(stream.encode(None))
