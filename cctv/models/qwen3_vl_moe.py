"""Qwen3-VL-MoE (Qwen team, 2025; Hugging Face `Qwen/Qwen3-VL-30B-A3B-Instruct`).

Qwen3-VL with a mixture of experts in every layer of the decoder; all else is `qwen3_vl`'s.
"""

import functools

from cctv.models import qwen3_vl
from cctv.models.qwen3_vl import OPTIONS, TIED, Config, Model, encoder, processor, rules, variant

__all__ = [
    "OPTIONS",
    "TIED",
    "VARIANTS",
    "Config",
    "Model",
    "encoder",
    "from_hf",
    "processor",
    "rules",
]

# Sizes from the published config.json. Its intermediate_size (6144) belongs to dense layers, of
# which there are none.
VARIANTS = {
    "qwen3_vl_moe_30b_a3b": variant(
        dict(
            width=2048, mlp_dim=768, num_experts=128, experts_per_token=8, num_layers=48,
            num_heads=32, num_kv_heads=4,
        ),
        dict(width=1152, mlp_dim=4304, num_layers=27, deepstack=(8, 16, 24)),
    ),
}  # fmt: skip

from_hf = functools.partial(qwen3_vl.from_hf, model_type="qwen3_vl_moe", sparse=True)
