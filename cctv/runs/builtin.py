"""What the embedded default runs on: scenes of the built-in world and the project's own checkpoint.

Both are made once and kept in the cache folder: $CCTV_CACHE, else ~/.cache/cctv.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
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
    world.generate(folder, scenes=scenes, seed=seed, size=(width, height), workers=workers)
    return folder


def checkpoint(data: Path, *, seed: int = 0) -> Path:
    """The folder of the small untrained checkpoint, its tokenizer made of the data's questions."""
    texts = [
        text
        for scene in schema.load(data).scenes
        for pair in scene.questions
        for text in (pair.positive, pair.negative)
    ]
    version = importlib.metadata.version("cctv")
    digest = hashlib.sha256(json.dumps([version, seed, texts]).encode()).hexdigest()[:12]
    folder = cache_folder() / "models" / f"tiny-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".tiny-", dir=folder.parent))
        try:
            tiny.create(part, texts=texts, seed=seed)
            part.rename(folder)
        except OSError:
            # Another process may have finished first; its folder is the same.
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder
