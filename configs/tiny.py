"""The embedded default: scenes of the built-in world, a small untrained model, no download.

    python -m cctv.main --config=configs/tiny.py

The model has Qwen3-VL's architecture and random weights, so its numbers say nothing; every part of
a real run is exercised. Keys are those of configs/qwen.py, which explains them.
"""

from ml_collections import ConfigDict, config_dict


def get_config(arg: str = "") -> ConfigDict:
    """The run; there are no variants."""
    if arg:
        raise ValueError(f"configs/tiny.py has no variants, got {arg!r}")
    config = ConfigDict()
    config.run = ""
    config.seed = 0
    config.limit = config_dict.placeholder(int)
    config.methods = ("base", "c_tcd")
    config.alpha = 1.0
    config.beta = 0.0
    config.vcd = ConfigDict(dict(noise_step=500))
    config.tcd = ConfigDict()
    config.tcd.num_frames = config_dict.placeholder(int)
    config.tcd.mode = "repeat"
    config.share_base_segment = False
    config.max_new_tokens = 16
    config.batch = 32
    config.mesh = (1, 1)
    config.vision_batch = 8
    config.allow_missing = False

    config.data = ConfigDict()
    config.data.path = ""  # empty: the built-in world below, made once and cached
    config.data.world = ConfigDict(dict(scenes=4, seed=0, size=(320, 180)))
    config.data.workers = 2
    config.data.timeout = 60.0

    config.model = ConfigDict()
    config.model.family = "qwen3_vl"
    config.model.path = ""  # empty: the small checkpoint that the project makes, cached
    config.model.name = ""
    config.model.dtype = "float32"
    config.model.system_prompt = config_dict.placeholder(str)
    config.model.outer_vision_markers = False

    config.video = ConfigDict()
    config.video.fps = 2.0
    config.video.num_frames = config_dict.placeholder(int)
    config.video.min_frames = 4
    config.video.max_frames = 8  # fewer than published: this is a demonstration
    config.video.min_pixels = 4096
    config.video.max_pixels = 25165824

    config.prompt = (
        "You are given a traffic video and a question. Answer based only on the video with exactly "
        "one word: Yes or No. Question: {question}"
    )
    config.bootstrap = ConfigDict(dict(replicates=2000, seed=0))
    return config
