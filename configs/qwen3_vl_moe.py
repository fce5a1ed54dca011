"""Qwen3-VL-MoE on a data set folder: the keys and their defaults are those of configs/qwen.py.

python -m cctv.main --config=configs/qwen3_vl_moe.py --config.data.path=DIR
"""

from ml_collections import ConfigDict

from configs import qwen

# Hugging Face ids of the published checkpoints; a local folder works as well.
CHECKPOINTS = {"qwen3_vl_moe_30b_a3b": "Qwen/Qwen3-VL-30B-A3B-Instruct"}


def get_config(arg: str = "qwen3_vl_moe_30b_a3b") -> ConfigDict:
    """The run of one size; `arg` is what stands after the colon of --config."""
    variant = arg or "qwen3_vl_moe_30b_a3b"
    if variant not in CHECKPOINTS:
        known = sorted(CHECKPOINTS)
        raise ValueError(f"configs/qwen3_vl_moe.py has the variants {known}, not {arg!r}")
    config = qwen.get_config()
    config.model.family = "qwen3_vl_moe"
    config.model.path = CHECKPOINTS[variant]
    return config
