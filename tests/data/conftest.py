"""Clips are made once a test run, when a test first asks for one."""

import clips
import pytest


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """clip(name) -> the path of that file of clips.CLIPS or clips.BROKEN."""
    folder = tmp_path_factory.mktemp("clips")

    def get(name):
        path = folder / name
        if not path.exists():
            (clips.CLIPS | clips.BROKEN)[name](path)
        return path

    return get
