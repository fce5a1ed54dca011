"""The keys that every config has; a family's file adds its model and its video sampling."""

from ml_collections import ConfigDict, config_dict


def get_config() -> ConfigDict:
    """What is the same for all families. It can't be run: `model` and `video` are incomplete."""
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
    config.vision_batch = 8  # groups of frames encoded together
    config.allow_missing = False  # run although videos are missing or can't be decoded

    config.data = ConfigDict()
    config.data.path = ""  # a data set folder
    config.data.workers = 2  # decoding processes
    config.data.timeout = 60.0  # seconds for one file

    config.model = ConfigDict()
    config.model.name = ""  # as rows call it; empty: the last part of the path
    config.model.dtype = "bfloat16"
    config.model.system_prompt = config_dict.placeholder(str)  # empty: none

    config.video = ConfigDict()

    config.prompt = (
        "You are given a traffic video and a question. Answer based only on the video with exactly "
        "one word: Yes or No. Question: {question}"
    )
    config.bootstrap = ConfigDict(dict(replicates=2000, seed=0))
    return config
