"""Flax ports of video LLMs: one decoder, one tower a vision line, one file of glue a family.

Axis letters used in every comment of this folder:

    B batch          F frames           G temporal groups      P patches of a group
    V visual tokens  T/S query/key len  N/K query/kv heads     H head dimension
    D width          M mlp width        L layers               E DeepStack features

A mask always means True = attend.
"""

import importlib
from types import ModuleType

from cctv.data.errors import UserError

# Family name -> module with VARIANTS, Config, Model, from_hf, rules, TIED, OPTIONS, processor and
# encoder.
MODELS = {
    "qwen3_vl": "cctv.models.qwen3_vl",
    "internvl3_5": "cctv.models.internvl3_5",
    "qwen2_5_vl": "cctv.models.qwen2_5_vl",
    "qwen3_vl_moe": "cctv.models.qwen3_vl_moe",
    "videollama3": "cctv.models.videollama3",
}

# What each port was run on. No family was ever run with its published weights here.
_RANDOM = "random checkpoint, fp32, CPU, against transformers 5.24.0"
TESTED_ON = {
    "qwen3_vl": (_RANDOM,),
    "internvl3_5": (_RANDOM,),
    "qwen2_5_vl": (_RANDOM,),
    "qwen3_vl_moe": (_RANDOM,),
    "videollama3": (_RANDOM,),
}


def get(family: str) -> ModuleType:
    """The module of a family. UserError for an unknown name."""
    if family not in MODELS:
        raise UserError(f"model.family={family!r} is not one of {sorted(MODELS)}")
    return importlib.import_module(MODELS[family])
