"""A small data set and run settings shared by the tests of whole runs."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from cctv.runs import builtin, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Made and compiled things of all tests here go to one temporary folder."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCTV_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def make_config(cache):
    """configs/tiny.py on two small scenes, with keys changed by dotted name."""
    spec = importlib.util.spec_from_file_location("tiny_config", ROOT / "configs" / "tiny.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def make(**change):
        config = module.get_config()
        config.data.world.scenes = 2
        config.data.world.seed = 10  # two scenes of one shape: half of the programs to compile
        config.data.world.size = (160, 90)
        config.bootstrap.replicates = 200
        config.batch = 16
        config.update_from_flattened_dict({k.replace("__", "."): v for k, v in change.items()})
        return config

    return make


@pytest.fixture(scope="session")
def finished(make_config, tmp_path_factory):
    """The workdir of one uninterrupted run, not to be changed."""
    workdir = tmp_path_factory.mktemp("finished") / "run"
    assert run.evaluate(make_config(), workdir) == 0
    return workdir


@pytest.fixture(scope="session")
def made(finished, make_config):
    """(data folder, checkpoint folder) of `finished`, not to be changed."""
    world = make_config().data.world
    data = builtin.dataset(scenes=world.scenes, seed=world.seed, size=tuple(world.size))
    return data, builtin.checkpoint(data)


@pytest.fixture
def own_data(made, tmp_path):
    """A copy of the data set that a test may damage."""
    return Path(shutil.copytree(made[0], tmp_path / "data"))


def read_rows(workdir):
    """All rows of a run folder as they stand in its files."""
    files = sorted(Path(workdir).glob("predictions-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def rows_of():
    return read_rows
