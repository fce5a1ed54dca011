"""Scenes shared by the tests of the world: they take a while to draw."""

import pytest

from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene

SCENES = 36


@pytest.fixture(scope="session")
def scenes():
    """The first scenes of seed 3, half of them of either kind."""
    return [draw_scene(3, i) for i in range(SCENES)]


@pytest.fixture(scope="session")
def records(scenes):
    """Their annotations as they stand in scenes.jsonl."""
    return [record_of(s) for s in scenes]
