"""What the embedded default runs on: scenes of the built-in world and the project's own checkpoint.

Both are made once and kept in the cache folder: $CCTV_CACHE, else ~/.cache/cctv.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cctv import world
from cctv.data import schema
from cctv.models import tiny
from cctv.world.eventlog import GENERATOR


def cache_folder() -> Path:
    """Where made and compiled things are kept between runs."""
    return Path(os.environ.get("CCTV_CACHE") or Path.home() / ".cache" / "cctv")


def dataset(*, scenes: int, seed: int, size: tuple[int, int], workers: int = 1) -> Path:
    """The folder of a data set of the built-in world, made if it is not there."""
    width, height = size
    version = GENERATOR.replace(" ", "-")
    name = f"{version}-{scenes}-{seed}-{width}x{height}"
    folder = cache_folder() / "data" / name
    with _locked(folder):
        world.generate(folder, scenes=scenes, seed=seed, size=(width, height), workers=workers)
    return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Waits until no other process makes this folder; the first one makes it for all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def checkpoint(data: Path, *, seed: int = 0) -> Path:
    """The folder of the small untrained checkpoint, its tokenizer made of the data's questions."""
    texts = [
        text
        for scene in schema.load(data).scenes
        for pair in scene.questions
        for text in (pair.positive, pair.negative)
    ]
    digest = hashlib.sha256(json.dumps([tiny.VERSION, seed, texts]).encode()).hexdigest()[:12]
    folder = cache_folder() / "models" / f"tiny-{digest}"
    with _locked(folder):
        if not folder.exists():
            part = Path(tempfile.mkdtemp(prefix=".tiny-", dir=folder.parent))
            try:
                tiny.create(part, texts=texts, seed=seed)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder
