"""What Hugging Face calls the parts of a llama-like decoder: config fields and weights."""

from typing import Any

from cctv.data.errors import UserError
from cctv.models import hf_config
from cctv.models.decoder import DecoderConfig
from cctv.models.hf_config import INDICES, OBJECT, POSITIVE, SIZE
from cctv.models.weights import Rule, linear, norm

NAMES = dict(
    vocab_size="vocab_size", width="hidden_size", mlp_dim="intermediate_size",
    num_layers="num_hidden_layers", num_heads="num_attention_heads",
    num_kv_heads="num_key_value_heads", norm_eps="rms_norm_eps",
)  # fmt: skip


def config(
    hf: dict[str, Any],
    *,
    tie: bool,
    where: str,
    qk_norm: bool = False,
    qkv_bias: bool = False,
    mrope: str | None = None,
) -> DecoderConfig:
    """The decoder that a text config describes (Qwen2, Qwen3 and Llama styles).

    mrope: "interleaved", "chunked" or None, a rotary position on one axis. UserError, beginning
    with `where`, for a field that the port does not follow.
    """
    kinds = {name: POSITIVE if name == "rms_norm_eps" else SIZE for name in NAMES.values()}
    values = hf_config.take(
        hf,
        kinds,
        where=where,
        fixed={"hidden_act": ("silu",), "attention_bias": (qkv_bias,)},
        # max_window_layers counts only with use_sliding_window, which is refused.
        known=("rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings", "head_dim",
               "max_window_layers", "layer_types"),
    )  # fmt: skip
    if hf.get("layer_types") not in (None, ["full_attention"] * values["num_hidden_layers"]):
        raise UserError(f"{where}: layer_types must be full_attention in each layer")
    # transformers 5 writes rope_parameters; 4.57 wrote rope_scaling and rope_theta beside it.
    scaling, parameters = (
        hf_config.optional(hf, name, OBJECT, where=where) or {}
        for name in ("rope_scaling", "rope_parameters")
    )
    rope = {"rope_theta": hf.get("rope_theta")} | scaling | parameters
    kinds, fixed = {"rope_theta": POSITIVE}, {"rope_type": ("default",), "type": ("default",)}
    if mrope:
        kinds["mrope_section"] = INDICES
    if mrope == "interleaved":
        fixed["mrope_interleaved"] = (True,)
    rope = hf_config.take(rope, kinds, where=f"{where}, rope", fixed=fixed)
    if mrope and len(rope["mrope_section"]) != 3:
        raise UserError(f"{where}: mrope_section must have three entries (time, row, column)")
    head_dim = hf_config.optional(hf, "head_dim", SIZE, where=where)
    return DecoderConfig(
        **{ours: values[theirs] for ours, theirs in NAMES.items()},
        head_dim=head_dim or values["hidden_size"] // values["num_attention_heads"],
        qk_norm=qk_norm,
        qkv_bias=qkv_bias,
        tie_embeddings=tie,
        rope_theta=float(rope["rope_theta"]),
        mrope_section=tuple(rope["mrope_section"]) if mrope else None,
        mrope_interleaved=mrope == "interleaved",
    )


def rules(c: DecoderConfig, prefix: str, *, head: str = "lm_head") -> list[Rule]:
    """Where the tensors under `prefix` go, and the output head where it is not tied."""
    layer = f"{prefix}.layers.{{}}"
    out = [
        Rule(key=f"{prefix}.embed_tokens.weight", path="decoder.embed.table"),
        *norm(f"{prefix}.norm", "decoder.norm", bias=False),
    ]
    norms = {"input_layernorm": "attn_norm", "post_attention_layernorm": "mlp_norm"}
    if c.qk_norm:
        norms |= {"self_attn.q_norm": "q_norm", "self_attn.k_norm": "k_norm"}
    for theirs, ours in norms.items():
        out += norm(f"{layer}.{theirs}", f"decoder.layers.{ours}", bias=False)
    for name in "qkvo":
        bias = c.qkv_bias and name != "o"
        out += linear(f"{layer}.self_attn.{name}_proj", f"decoder.layers.{name}", bias=bias)
    for name in ("gate", "up", "down"):
        out += linear(f"{layer}.mlp.{name}_proj", f"decoder.layers.{name}", bias=False)
    if not c.tie_embeddings:
        out.append(Rule(key=f"{head}.weight", path="decoder.head.table"))
    return out
