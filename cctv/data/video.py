"""Reading and writing videos: `probe`, `read_frames` and `write`.

A file's packet index (presentation times of all packets, without decoding) decides how many frames
there are and when they are shown; what headers say is never used.
"""

import os
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

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
