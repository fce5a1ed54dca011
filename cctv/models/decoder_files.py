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
EXPERTS = dict(
    mlp_dim="moe_intermediate_size", num_experts="num_experts",
    experts_per_token="num_experts_per_tok",
)  # fmt: skip


def config(
    hf: dict[str, Any],
    *,
    tie: bool,
    where: str,
    qk_norm: bool = False,
    qkv_bias: bool = False,
    mrope: str | None = None,
    sparse: bool = False,
) -> DecoderConfig:
    """The decoder that a text config describes (Qwen2, Qwen3 and Llama styles).

    mrope: "interleaved", "chunked" or None, a rotary position on one axis. sparse: every MLP is a
    mixture of experts. UserError, beginning with `where`, for a field that the port does not
    follow.
    """
    names = NAMES | (EXPERTS if sparse else {})
    kinds = {name: POSITIVE if name == "rms_norm_eps" else SIZE for name in names.values()}
    fixed = {"hidden_act": ("silu",), "attention_bias": (qkv_bias,)}
    # max_window_layers counts only with use_sliding_window, which is refused.
    known = ["rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings", "head_dim",
             "max_window_layers", "layer_types"]  # fmt: skip
    if hf.get("use_sliding_window") is False:
        known.append("sliding_window")  # Qwen2.5-VL states one that is not used
    if sparse:
        fixed |= {"norm_topk_prob": (True,), "decoder_sparse_step": (1,)}
        # The width of the dense layers, of which there are none, and one of training.
        known += ["intermediate_size", "router_aux_loss_coef"]
        hf = {("num_experts" if k == "num_local_experts" else k): v for k, v in hf.items()}
    values = hf_config.take(hf, kinds, where=where, fixed=fixed, known=known)
    if sparse and values["hidden_size"] in (values["moe_intermediate_size"] * n for n in (1, 2)):
        raise UserError(f"{where}: experts of these sizes can't be told from transposed ones")
    if hf.get("layer_types") not in (None, ["full_attention"] * values["num_hidden_layers"]):
        raise UserError(f"{where}: layer_types must be full_attention in each layer")
    # transformers 5 writes rope_parameters; 4.57 wrote rope_scaling and rope_theta beside it.
    scaling, parameters = (
        hf_config.optional(hf, name, OBJECT, where=where) or {}
        for name in ("rope_scaling", "rope_parameters")
    )
    rope = {"rope_theta": hf.get("rope_theta")} | scaling | parameters
    kinds, plain = {"rope_theta": POSITIVE}, ("default",)
    if mrope:
        kinds["mrope_section"] = INDICES
    if mrope == "chunked":
        plain = ("default", "mrope")
    fixed = {"rope_type": plain, "type": plain}
    if mrope == "interleaved":
        fixed["mrope_interleaved"] = (True,)
    rope = hf_config.take(rope, kinds, where=f"{where}, rope", fixed=fixed)
    if mrope and len(rope["mrope_section"]) != 3:
        raise UserError(f"{where}: mrope_section must have three entries (time, row, column)")
    head_dim = hf_config.optional(hf, "head_dim", SIZE, where=where)
    return DecoderConfig(
        **{ours: values[theirs] for ours, theirs in names.items()},
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
    if c.num_experts:
        out += _expert_rules(layer)
    else:
        for name in ("gate", "up", "down"):
            out += linear(f"{layer}.mlp.{name}_proj", f"decoder.layers.{name}", bias=False)
    if not c.tie_embeddings:
        out.append(Rule(key=f"{head}.weight", path="decoder.head.table"))
    return out


def _expert_rules(layer: str) -> list[Rule]:
    """Published files have [experts, in, out]; transformers 5 writes [experts, out, in]."""
    out = linear(f"{layer}.mlp.gate", "decoder.layers.experts.router", bias=False)
    for name, kind in (("gate_up", "halves"), ("down", "keep")):
        key, path = f"{layer}.mlp.experts.{name}_proj", f"decoder.layers.experts.{name}"
        out.append(Rule(key=key, path=path, kind=kind, either_order=True))
    return out
