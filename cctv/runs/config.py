"""What a resolved config must satisfy before any work starts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from cctv import models
from cctv.data.errors import UserError
from cctv.decoding.contrast import CTCD, TCD, VCD, Base, Method
from cctv.metrics.evaluate import METHODS

DTYPES = ("float32", "bfloat16")
MAX_ALPHA = 1e3  # margins are float32 and their rounding errors grow with α

MAX_REPLICATES = 1_000_000
KEYS = (
    *("run", "seed", "limit", "methods", "alpha", "beta", "vcd.noise_step", "tcd.num_frames"),
    *("tcd.mode", "share_base_segment", "max_new_tokens", "batch", "mesh", "vision_batch"),
    *("allow_missing", "data.path", "data.workers", "data.timeout", "model.family", "model.path"),
    *("model.name", "model.dtype", "video", "prompt", "bootstrap.replicates", "bootstrap.seed"),
)


def _has(config: ConfigDict, key: str) -> bool:
    for name in key.split("."):
        if not isinstance(config, ConfigDict) or name not in config:
            return False
        config = config[name]
    return True


def check(config: ConfigDict, *, alphas: Sequence[float] = ()) -> None:
    """UserError naming the first key whose value can't be run, and what is allowed. `alphas` are
    to be run instead of config.alpha."""
    if not isinstance(config, ConfigDict):
        getattr(config, "methods", None)  # a file that could not be read says so when touched
        raise UserError(f"the config is a {type(config).__name__}, not a ConfigDict")
    lacking = [key for key in KEYS if not _has(config, key)]
    if lacking:
        raise UserError(f"the config lacks {lacking}; configs/common.py has all keys")
    methods = tuple(config.methods)
    unknown = [m for m in methods if m not in METHODS]
    if unknown or not methods or len(set(methods)) < len(methods):
        raise UserError(f"config.methods={methods} must be some of {METHODS}, each once")
    for alpha in (config.alpha, *alphas):
        if not 0 <= alpha <= MAX_ALPHA:  # false for NaN too
            raise UserError(f"config.alpha={alpha} must be a number from 0 to {MAX_ALPHA:g}")
    for name in METHODS:
        try:
            method_of(name, config)
        except ValueError as error:
            raise UserError(f"config.{error}") from None
    for name in ("max_new_tokens", "batch", "vision_batch", "limit"):
        if config[name] is not None and config[name] < 1:
            raise UserError(f"config.{name}={config[name]} must be at least 1")
    if len(config.mesh) != 2 or min(config.mesh) < 1:
        raise UserError(f"config.mesh={tuple(config.mesh)} must be (data, model), both at least 1")
    if math.prod(config.mesh) > jax.device_count():
        raise UserError(
            f"config.mesh={tuple(config.mesh)} needs {math.prod(config.mesh)} devices, there are "
            f"{jax.device_count()}"
        )
    if config.data.workers < 1 or not config.data.timeout > 0:
        raise UserError("config.data.workers and config.data.timeout must be positive")
    if not 1 <= config.bootstrap.replicates <= MAX_REPLICATES:
        raise UserError(f"config.bootstrap.replicates must be 1 to {MAX_REPLICATES}")
    for name, seed in (("seed", config.seed), ("bootstrap.seed", config.bootstrap.seed)):
        if not 0 <= seed < 2**32:
            raise UserError(f"config.{name}={seed} must be 0 to 2**32 - 1")
    if config.model.dtype not in DTYPES:
        raise UserError(f"config.model.dtype={config.model.dtype!r} must be one of {DTYPES}")
    if config.model.family not in models.MODELS:
        known = sorted(models.MODELS)
        raise UserError(f"config.model.family={config.model.family!r} must be one of {known}")
    own = set(models.get(config.model.family).OPTIONS)
    given = set(config.model) - {"family", "path", "name", "dtype"}
    if own != given:
        raise UserError(
            f"config.model needs the keys {sorted(own)} for the family {config.model.family}, "
            f"it has {sorted(given)}"
        )
    if config.prompt.count("{question}") != 1:
        raise UserError("config.prompt must contain {question} once")
    if "world" in config.data:
        size = tuple(config.data.world.size)
        if len(size) != 2 or not all(isinstance(n, int) for n in size):
            raise UserError(f"config.data.world.size={size} must be (width, height) in pixels")
    if not config.model.path and "world" not in config.data:
        raise UserError("config.model.path is empty: give a folder or hub id, --config.model.path=")
    if not config.data.path and "world" not in config.data:
        raise UserError("config.data.path is empty: give a folder, --config.data.path=DIR")


def method_of(name: str, config: ConfigDict) -> Method:
    """The decoding method of a name."""
    if name == "base":
        return Base()
    if name == "vcd":
        return VCD(noise_step=config.vcd.noise_step, beta=config.beta)
    if name == "tcd":
        return TCD(num_frames=config.tcd.num_frames, mode=config.tcd.mode, beta=config.beta)
    return CTCD(beta=config.beta)


def method_settings(config: ConfigDict) -> dict[str, dict[str, Any]]:
    """The parameters of each method for the manifest; α is in every row's key instead."""
    return {name: asdict(method_of(name, config)) for name in config.methods}


def model_name(config: ConfigDict, folder: Path) -> str:
    """What rows call the model."""
    return config.model.name or (
        Path(config.model.path).name if config.model.path else folder.name.partition("-")[0]
    )


def settings(config: ConfigDict) -> Mapping[str, Any]:
    """The video keys that are set."""
    return {k: v for k, v in config.video.items() if v is not None}
