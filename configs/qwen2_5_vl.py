"""Qwen2.5-VL on a data set folder.

    python -m cctv.main --config=configs/qwen2_5_vl.py --config.data.path=DIR
    python -m cctv.main --config=configs/qwen2_5_vl.py:qwen2_5_vl_3b --config.data.path=DIR \
        --config.model.path=/checkpoints/Qwen2.5-VL-3B-Instruct
"""

from ml_collections import ConfigDict, config_dict

from configs import common

# Hugging Face ids of the published checkpoints; a local folder works as well.
CHECKPOINTS = {
    "qwen2_5_vl_3b": "Qwen/Qwen2.5-VL-3B-Instruct",
    "qwen2_5_vl_7b": "Qwen/Qwen2.5-VL-7B-Instruct",
}


def get_config(arg: str = "qwen2_5_vl_7b") -> ConfigDict:
    """The run of one size; `arg` is what stands after the colon of --config."""
    variant = arg or "qwen2_5_vl_7b"
    if variant not in CHECKPOINTS:
        known = sorted(CHECKPOINTS)
        raise ValueError(f"configs/qwen2_5_vl.py has the variants {known}, not {arg!r}")
    config = common.get_config()
    config.model.family = "qwen2_5_vl"
    config.model.path = CHECKPOINTS[variant]
    # The checkpoints' chat template says this where a conversation has no system turn.
    config.model.system_prompt = "You are a helpful assistant."

    # Constants of the qwen-vl-utils package (0.0.11, vision_process.py) that the checkpoints' cards
    # use: FPS, FPS_MIN_FRAMES, FPS_MAX_FRAMES, VIDEO_MIN_PIXELS and VIDEO_MAX_PIXELS (of one frame,
    # 128 and 768 tokens of 28x28) and VIDEO_TOTAL_PIXELS (of all frames of a video, by two). The
    # paper (arXiv 2604.20460) names the model in its text, and neither a size nor frames.
    config.video.fps = 2.0
    config.video.num_frames = config_dict.placeholder(int)  # this many frames instead of a rate
    config.video.min_frames = 4
    config.video.max_frames = 768
    config.video.min_pixels = 100352
    config.video.max_pixels = 602112
    config.video.total_pixels = 90316800
    return config
