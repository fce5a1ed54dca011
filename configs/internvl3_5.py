"""InternVL3.5 on a data set folder.

    python -m cctv.main --config=configs/internvl3_5.py --config.data.path=DIR
    python -m cctv.main --config=configs/internvl3_5.py:internvl3_5_8b --config.data.path=DIR \
        --config.model.path=/checkpoints/InternVL3_5-8B

Folders of both published layouts work: `InternVL3_5-8B` and `InternVL3_5-8B-HF`.
"""

from ml_collections import ConfigDict

from configs import common

# Hugging Face ids of the published checkpoints; a local folder works as well.
CHECKPOINTS = {
    "internvl3_5_2b": "OpenGVLab/InternVL3_5-2B",
    "internvl3_5_8b": "OpenGVLab/InternVL3_5-8B",
}


def get_config(arg: str = "internvl3_5_2b") -> ConfigDict:
    """The run of one size; `arg` is what stands after the colon of --config."""
    variant = arg or "internvl3_5_2b"
    if variant not in CHECKPOINTS:
        raise ValueError(
            f"configs/internvl3_5.py has the variants {sorted(CHECKPOINTS)}, not {arg!r}"
        )
    config = common.get_config()
    config.model.family = "internvl3_5"
    config.model.path = CHECKPOINTS[variant]
    # The system message of the template "internvl2_5" (conversation.py of the checkpoints), which
    # their chat code sends with every request; OpenGVLab also names it as the way to keep thinking
    # off (github.com/OpenGVLab/InternVL/issues/1141). The chat template of the -HF folders has none
    # by default: --config.model.system_prompt= gives that.
    config.model.system_prompt = (
        "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的"
        "多模态大语言模型。"
    )

    # The model card's video example calls load_video with 8 segments; the function's own default is
    # 32. The paper (arXiv 2604.20460) does not say what it used.
    config.video.num_frames = 8
    return config
