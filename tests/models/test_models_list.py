import json
import subprocess
import sys
from pathlib import Path

import pytest

from cctv import models

# Parameters in billions as published, or counted from transformers' models on the meta device;
# layers, key heads and head size of the decoder; visual tokens of 16 frames of 640x360, by hand.
PUBLISHED = {
    "qwen3_vl_2b": (2.128, 28 * 8 * 128, 8 * 20 * 11),
    "qwen3_vl_8b": (8.767, 36 * 8 * 128, 8 * 20 * 11),
    "qwen2_5_vl_3b": (3.755, 36 * 2 * 128, 8 * 23 * 13),
    "qwen2_5_vl_7b": (8.292, 28 * 4 * 128, 8 * 23 * 13),
    "qwen3_vl_moe_30b_a3b": (31.071, 48 * 4 * 128, 8 * 20 * 11),
    "internvl3_5_2b": (2.348, 28 * 8 * 128, 16 * 256),
    "internvl3_5_8b": (8.528, 36 * 8 * 128, 16 * 256),
    "videollama3_2b": (1.960, 28 * 2 * 128, 16 * 23 * 13),  # before any token is left out
    "videollama3_7b": (8.045, 28 * 4 * 128, 16 * 23 * 13),
}


@pytest.fixture(scope="module")
def listed():
    done = subprocess.run(
        [sys.executable, "-m", "cctv.models", "--json"], capture_output=True, text=True, check=True
    )
    return {d["variant"]: d for d in json.loads(done.stdout)}


def test_every_variant_of_every_family_is_listed(listed):
    variants = [(f, v) for f in models.MODELS for v in models.get(f).VARIANTS]
    assert [(d["family"], d["variant"]) for d in listed.values()] == variants
    assert set(listed) == set(PUBLISHED)


@pytest.mark.parametrize("variant", PUBLISHED)
def test_sizes(listed, variant):
    billions, cache, tokens = PUBLISHED[variant]
    d = listed[variant]
    assert d["parameters"] / 1e9 == pytest.approx(billions, abs=6e-4)
    assert d["kv_bytes_per_token"] == 2 * 2 * cache  # keys and values, two bytes each
    assert d["vision_tokens"] == tokens
    assert d["bf16_gigabytes"] == pytest.approx(2 * billions, abs=2e-3)
    assert d["tested_on"]


def test_the_table_has_a_line_for_each(listed):
    from cctv.models.__main__ import table

    lines = table(list(listed.values())).splitlines()
    assert [line.split()[1] for line in lines[1:]] == list(listed)


@pytest.mark.parametrize("family", models.MODELS)
def test_a_family_is_one_short_file(family):
    path = Path(models.get(family).__file__)
    assert len(path.read_text().splitlines()) < 300


def test_wrong_use_is_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "cctv.models", "qwen"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
