"""Reading a Hugging Face folder's JSON files strictly: a field that the port does not know, or that
holds another type than expected, is an error of one line."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cctv.data.errors import UserError

# Fields that say nothing about the function computed at inference.
INERT = {
    *("architectures", "_name_or_path", "transformers_version", "torch_dtype", "dtype"),
    *("model_type", "use_cache", "initializer_range", "attention_dropout", "pad_token_id"),
    *("max_position_embeddings", "bos_token_id", "eos_token_id", "_attn_implementation"),
    *("auto_map", "use_bfloat16", "ep_size"),
    # Older releases wrote the defaults of sampling and of classifiers into every config.
    *("return_dict", "id2label", "label2id", "max_length", "num_beams", "num_beam_groups"),
    *("num_return_sequences", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty"),
    "length_penalty",
}

# The file in configs/ that runs each model_type, for whoever chose another one.
CONFIGS = {
    "qwen3_vl": "qwen",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen3_vl_moe": "qwen3_vl_moe",
    "internvl": "internvl3_5",
    "internvl_chat": "internvl3_5",
    "video_llama_3": "videollama3",
    "videollama3_qwen2": "videollama3",
}


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


# What a field may be called to hold, and whether a value is that.
KINDS: dict[str, Callable[[Any], bool]] = {
    "a positive whole number": lambda v: _whole(v, 1),
    "a whole number of at least 0": lambda v: _whole(v, 0),
    "a positive number": lambda v: _number(v) and v > 0,
    "a list of whole numbers": lambda v: isinstance(v, list) and all(_whole(i, 0) for i in v),
    "a list of numbers": lambda v: isinstance(v, list) and all(map(_number, v)),
    "true or false": lambda v: isinstance(v, bool),
    "an object": lambda v: isinstance(v, dict),
}
SIZE, INDEX, POSITIVE, INDICES, NUMBERS, SWITCH, OBJECT = KINDS


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; UserError names a file that holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # bad JSON or UTF-8
        raise UserError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected an object, got {value!r:.80}")
    return value


def read(folder: Path, *, model_type: str | tuple[str, ...]) -> dict[str, Any]:
    """config.json of a checkpoint folder, checked to be of this family (one of its layouts)."""
    path = folder / "config.json"
    try:
        config = read_json(path)
    except FileNotFoundError:
        raise UserError(f"{folder}: no config.json; is this a checkpoint folder?") from None
    found = config.get("model_type")
    known = (model_type,) if isinstance(model_type, str) else model_type
    if found not in known:
        named = " or ".join(map(repr, known))
        right = CONFIGS.get(found) if isinstance(found, str) else None
        hint = f"; --config=configs/{right}.py is for it" if right else ""
        raise UserError(f"{path}: model_type is {found!r:.80}, this family is {named}{hint}")
    return config


def optional(config: Mapping[str, Any], name: str, kind: str, *, where: str) -> Any:
    """A field of one of KINDS, or None where it is absent or null. UserError for another type."""
    value = config.get(name)
    if value is not None and not KINDS[kind](value):
        raise UserError(f"{where}: {name} must be {kind}, got {value!r:.80}")
    return value


def square(config: Mapping[str, Any], name: str, *, where: str) -> int:
    """A side that is given once or as [side, side]. UserError for anything else."""
    value = config.get(name)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if not KINDS[SIZE](value):
        raise UserError(
            f"{where}: {name} must be {SIZE} or two equal ones, got {config.get(name)!r:.80}"
        )
    return value


def tied(*configs: Mapping[str, Any], where: str) -> bool:
    """tie_word_embeddings of the first of some sections that says it; False where none does."""
    ties = (optional(c, "tie_word_embeddings", SWITCH, where=where) for c in configs)
    return next((value for value in ties if value is not None), False)


def section(config: Mapping[str, Any], name: str, *, where: str) -> dict[str, Any]:
    """A nested section; UserError when it is absent."""
    value = config.get(name)
    if not isinstance(value, dict):
        raise UserError(f"{where}: no {name!r} section")
    return value


def take(
    config: Mapping[str, Any],
    fields: Mapping[str, str],
    *,
    where: str,
    fixed: Mapping[str, tuple] | None = None,
    known: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of `fields`, {name: one of KINDS}, all required and of that kind.

    `fixed` maps a field to the values under which the port is right; absent is right too. `known`
    fields are read elsewhere. Any other field with a value that is not null, false or inert raises
    UserError: it may change the function in a way that this port does not follow.
    """
    fixed = fixed or {}
    missing = [n for n in fields if config.get(n) is None]
    if missing:
        raise UserError(f"{where}: config.json lacks {missing}")
    values = {name: optional(config, name, kind, where=where) for name, kind in fields.items()}
    for name, allowed in fixed.items():
        if name in config and config[name] not in allowed:
            raise UserError(
                f"{where}: {name}={config[name]!r:.80} is not supported, only {list(allowed)}"
            )
    read_here = {*fields, *fixed, *known}
    for name, value in config.items():
        if name not in read_here and name not in INERT and value not in (None, False, {}, []):
            raise UserError(f"{where}: the port does not know the field {name}={value!r:.80}")
    return values


def stop_ids(folder: Path) -> tuple[int, ...]:
    """eos_token_id of generation_config.json, () where there is no such file or field."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return ()
    ids = read_json(path).get("eos_token_id")
    ids = [] if ids is None else ids if isinstance(ids, list) else [ids]
    if not KINDS[INDICES](ids) or any(i >= 2**31 for i in ids):
        raise UserError(f"{path}: eos_token_id must be {INDICES} or one of them, got {ids!r:.80}")
    return tuple(ids)
