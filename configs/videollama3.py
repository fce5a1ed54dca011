"""VideoLLaMA3 on a data set folder.

    python -m cctv.main --config=configs/videollama3.py --config.data.path=DIR
    python -m cctv.main --config=configs/videollama3.py:videollama3_7b --config.data.path=DIR \
        --config.model.path=/checkpoints/VideoLLaMA3-7B
"""

from ml_collections import ConfigDict, config_dict

from configs import common

# Hugging Face ids of the published checkpoints; a local folder works as well, also one of the
# layout that transformers has for this family (model_type video_llama_3).
CHECKPOINTS = {
    "videollama3_2b": "DAMO-NLP-SG/VideoLLaMA3-2B",
    "videollama3_7b": "DAMO-NLP-SG/VideoLLaMA3-7B",
}


def get_config(arg: str = "videollama3_2b") -> ConfigDict:
    """The run of one size; `arg` is what stands after the colon of --config."""
    variant = arg or "videollama3_2b"
    if variant not in CHECKPOINTS:
        raise ValueError(
            f"configs/videollama3.py has the variants {sorted(CHECKPOINTS)}, not {arg!r}"
        )
    config = common.get_config()
    config.model.family = "videollama3"
    config.model.path = CHECKPOINTS[variant]
    # No system prompt, as in the original's evaluation (evaluation/benchmarks/base.py); its example
    # (inference/example_videollama3.py) has "You are a helpful assistant." instead.
    # The original's chat template ends a video with a line break.
    config.model.newline_after_video = True
    # Leave out tokens that did not change. Empty: as the checkpoint says; published ones say true.
    config.model.use_token_compression = config_dict.placeholder(bool)

    # Rate and limit of the original's evaluation and card (fps 1, max_frames 180; the processor
    # file's own max_frames is 128), pixel limits of the checkpoints' preprocessor_config.json
    # (max_tokens 16384, min_tokens 16, of 28 x 28 pixels). The paper (arXiv 2604.20460) does not
    # say what it used.
    config.video.fps = 1.0
    config.video.slot_times = True  # a frame is named after the beginning of its 1 / fps seconds
    config.video.num_frames = config_dict.placeholder(int)  # this many frames instead of a rate
    config.video.max_frames = 180
    config.video.min_pixels = 12544  # of a frame
    config.video.max_pixels = 12845056  # of all frames together
    return config
