"""The embedded default: scenes of the built-in world, a small untrained model, no download.

    python -m cctv.main --config=configs/tiny.py

The model has Qwen3-VL's architecture and random weights, so its numbers say nothing; every part of
a real run is exercised. Keys are those of configs/common.py and configs/qwen.py.
"""

from ml_collections import ConfigDict

from configs import qwen


def get_config(arg: str = "") -> ConfigDict:
    """The run; there are no variants."""
    if arg:
        raise ValueError(f"configs/tiny.py has no variants, got {arg!r}")
    config = qwen.get_config()
    # Empty data.path: the built-in world below, made once and cached.
    config.data.world = ConfigDict(dict(scenes=4, seed=0, size=(320, 180)))
    config.model.path = ""  # empty: the small checkpoint that the project makes, cached
    config.model.dtype = "float32"
    config.video.max_frames = 8  # fewer than published: this is a demonstration
    return config
