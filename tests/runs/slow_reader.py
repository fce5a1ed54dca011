"""A reader that hangs on one file; a module of its own, as decoding workers import it."""

import time

from cctv.data import preprocess


def load(path, *, processor, hangs_on):
    """`preprocess.load_video`, but for the file whose path ends in `hangs_on`."""
    if path.endswith(hangs_on):
        time.sleep(1000)
    return preprocess.load_video(path, processor)
