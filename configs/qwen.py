"""Qwen3-VL on a data set folder.

    python -m cctv.main --config=configs/qwen.py --config.data.path=DIR
    python -m cctv.main --config=configs/qwen.py:qwen3_vl_8b --config.data.path=DIR \
        --config.model.path=/checkpoints/Qwen3-VL-8B-Instruct
"""

from ml_collections import ConfigDict, config_dict

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
    config = ConfigDict()
    config.run = ""  # a label of yours, written into every row
    config.seed = 0
    config.limit = config_dict.placeholder(int)  # only the first scenes
    config.methods = ("base", "c_tcd")  # of base, vcd, tcd, c_tcd; they share what they can
    config.alpha = 1.0  # contrast strength; the paper's sweet spot for C-TCD is 0.75 to 1.0
    config.beta = 0.0  # plausibility constraint of VCD; off, as the paper's equation 16 has none
    config.vcd = ConfigDict(dict(noise_step=500))  # VCD's own default, of 1,000 steps
    config.tcd = ConfigDict()
    config.tcd.num_frames = config_dict.placeholder(int)  # frames kept; empty: a quarter
    config.tcd.mode = "repeat"  # or "drop": the video is shortened instead
    config.share_base_segment = False  # read what v+ and v- have in common once
    config.max_new_tokens = 16
    config.batch = 32  # questions of a video that run together
    config.mesh = (1, 1)  # (data, model): scenes side by side, and devices that split each layer
    config.vision_batch = 8  # pairs of frames encoded together
    config.allow_missing = False  # run although videos are missing or can't be decoded

    config.data = ConfigDict()
    config.data.path = ""  # a data set folder
    config.data.workers = 2  # decoding processes
    config.data.timeout = 60.0  # seconds for one file

    config.model = ConfigDict()
    config.model.family = "qwen3_vl"
    config.model.path = CHECKPOINTS[variant]
    config.model.name = ""  # as rows call it; empty: the last part of the path
    config.model.dtype = "bfloat16"
    config.model.system_prompt = config_dict.placeholder(str)  # the chat template has none
    # transformers 4.57 and vLLM drop the vision markers around a video, transformers 5 keeps them.
    config.model.outer_vision_markers = False

    # Frame rate and limits of transformers' Qwen3VLVideoProcessor, pixel limits (frames x height x
    # width) of the checkpoints' video_preprocessor_config.json. The paper (arXiv 2604.20460) does
    # not say what it used.
    config.video = ConfigDict()
    config.video.fps = 2.0
    config.video.num_frames = config_dict.placeholder(int)  # this many frames instead of a rate
    config.video.min_frames = 4
    config.video.max_frames = 768
    config.video.min_pixels = 4096
    config.video.max_pixels = 25165824

    config.prompt = (
        "You are given a traffic video and a question. Answer based only on the video with exactly "
        "one word: Yes or No. Question: {question}"
    )
    config.bootstrap = ConfigDict(dict(replicates=2000, seed=0))
    return config
