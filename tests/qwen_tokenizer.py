"""Qwen's published tokenizer as a checkpoint folder, rebuilt offline.

The dashscope package (Apache-2.0) ships the byte-pair ranks of the Qwen tokenizers as a tiktoken
file. A Hugging Face tokenizer also wants the merge that makes each token; it follows from the
ranks: the last merge left when only merges of a lower rank are allowed.

    python tests/qwen_tokenizer.py FOLDER
"""

import base64
import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

# ids 151643 to 151656
SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
]
# ids 151657 to 151668: added, but shown when decoding
NOT_SPECIAL = [
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),
    *("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>"),
]
# How Qwen2 and later cut text into words before merging (single digits, contractions, ...).
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_ranks() -> dict[bytes, int]:
    """The 151,643 tokens of the ranks file, in rank order."""
    # Found without importing the package, which would pull in an HTTP stack.
    package = Path(importlib.util.find_spec("dashscope").origin).parent
    lines = (package / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    pairs = (line.split() for line in lines if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in byte-level BPE files (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(b if b in printable else next(others)) for b in range(256)]


def last_merge(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two parts that a token of two or more bytes is merged from."""
    limit = ranks[token]
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [ranks.get(a + b, limit) for a, b in pairwise(parts)]
        best = min(pairs)
        assert best < limit, f"no merge leads to {token!r}"
        i = pairs.index(best)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]


def build(folder: Path) -> Path:
    """Writes tokenizer.json, vocab.json, merges.txt and tokenizer_config.json into `folder`."""
    letters = byte_letters()
    ranks = read_ranks()
    spelled = {token: "".join(letters[b] for b in token) for token in ranks}
    vocab = {spelled[token]: rank for token, rank in ranks.items()}
    merges = [
        tuple(spelled[part] for part in last_merge(token, ranks))
        for token in sorted(ranks, key=ranks.get)
        if len(token) > 1
    ]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = [AddedToken(t, special=True, normalized=False) for t in SPECIAL]
    added += [AddedToken(t, special=False, normalized=False) for t in NOT_SPECIAL]
    tokenizer.add_tokens(added)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    (folder / "merges.txt").write_text(lines, encoding="utf-8")
    decoder = {
        str(tokenizer.token_to_id(t.content)): {
            "content": t.content,
            "special": t.special,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
        }
        for t in added
    }
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": decoder,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": None,
        "model_max_length": 262144,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    return folder


def extend(source: Path, folder: Path, tokens: list[str]) -> Path:
    """Writes tokenizer.json of `source` into `folder`, with special tokens added behind its own."""
    saved = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    first = max(t["id"] for t in saved["added_tokens"]) + 1
    like = saved["added_tokens"][0]
    saved["added_tokens"] += [like | {"id": first + i, "content": t} for i, t in enumerate(tokens)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]))
