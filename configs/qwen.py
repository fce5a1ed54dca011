"""Qwen3-VL on a data set folder.

    python -m cctv.main --config=configs/qwen.py --config.data.path=DIR
    python -m cctv.main --config=configs/qwen.py:qwen3_vl_8b --config.data.path=DIR \
        --config.model.path=/checkpoints/Qwen3-VL-8B-Instruct
"""

from ml_collections import ConfigDict, config_dict

from configs import common

# Hugging Face ids of the published checkpoints; a local folder works as well.
CHECKPOINTS = {
    "qwen3_vl_2b": "Qwen/Qwen3-VL-2B-Instruct",
    "qwen3_vl_8b": "Qwen/Qwen3-VL-8B-Instruct",
}


def get_config(arg: str = "qwen3_vl_2b") -> ConfigDict:
    """The run of one size; `arg` is what stands after the colon of --config."""
    variant = arg or "qwen3_vl_2b"
    if variant not in CHECKPOINTS:
        raise ValueError(f"configs/qwen.py has the variants {sorted(CHECKPOINTS)}, not {arg!r}")
    config = common.get_config()
    config.model.family = "qwen3_vl"
    config.model.path = CHECKPOINTS[variant]
    # transformers 4.57 and vLLM drop the vision markers around a video, transformers 5 keeps them.
    config.model.outer_vision_markers = False

    # Frame rate and limits of transformers' Qwen3VLVideoProcessor, pixel limits (frames x height x
    # width) of the checkpoints' video_preprocessor_config.json. The paper (arXiv 2604.20460) does
    # not say what it used.
    config.video.fps = 2.0
    config.video.num_frames = config_dict.placeholder(int)  # this many frames instead of a rate
    config.video.min_frames = 4
    config.video.max_frames = 768
    config.video.min_pixels = 4096
    config.video.max_pixels = 25165824
    return config
