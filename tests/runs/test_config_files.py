"""The config file of every family: each variant is sound and repeats the code's own defaults."""

import importlib
from pathlib import Path

import pytest

from cctv import models
from cctv.runs import config as configs

FILES = sorted(
    p.stem
    for p in (Path(__file__).parents[2] / "configs").glob("*.py")
    if p.stem not in ("__init__", "common", "tiny")
)
CASES = [
    (name, variant)
    for name in FILES
    for variant in importlib.import_module(f"configs.{name}").CHECKPOINTS
]


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_a_config_states_the_defaults(name, variant):
    config = importlib.import_module(f"configs.{name}").get_config(variant)
    config.data.path = "somewhere"
    configs.check(config)
    family = models.get(config.model.family)
    assert config.model.path
    sizes = family.VARIANTS[variant]
    video = configs.settings(config)
    assert family.processor(sizes, **video) == family.processor(sizes)


@pytest.mark.parametrize("name", FILES)
def test_variants(name):
    module = importlib.import_module(f"configs.{name}")
    assert module.get_config() == module.get_config("")
    with pytest.raises(ValueError, match=f"configs/{name}.py has the variants"):
        module.get_config("giant")


def test_every_variant_of_every_family_has_a_config():
    known = [variant for family in models.MODELS for variant in models.get(family).VARIANTS]
    assert sorted(variant for _, variant in CASES) == sorted(known)
