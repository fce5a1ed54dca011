"""Reading a Hugging Face config.json strictly: a field that the port does not know is an error."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cctv.data.errors import UserError

# Fields that say nothing about the function computed at inference.
INERT = {
    *("architectures", "_name_or_path", "transformers_version", "torch_dtype", "dtype"),
    *("model_type", "use_cache", "initializer_range", "attention_dropout", "pad_token_id"),
    *("max_position_embeddings", "bos_token_id", "eos_token_id", "_attn_implementation"),
}


def read(folder: Path, *, model_type: str) -> dict[str, Any]:
    """config.json of a checkpoint folder, checked to be of this family."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{folder}: no config.json; is this a checkpoint folder?") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    found = config.get("model_type") if isinstance(config, dict) else None
    if found != model_type:
        raise UserError(f"{path}: model_type is {found!r}, this family is {model_type!r}")
    return config


def section(config: Mapping[str, Any], name: str, *, where: str) -> dict[str, Any]:
    """A nested section; UserError when it is absent."""
    value = config.get(name)
    if not isinstance(value, dict):
        raise UserError(f"{where}: no {name!r} section")
    return value


def take(
    config: Mapping[str, Any],
    names: Iterable[str],
    *,
    where: str,
    fixed: Mapping[str, tuple] | None = None,
    known: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of `names`, all required.

    `fixed` maps a field to the values under which the port is right; absent is right too. `known`
    fields are read elsewhere. Any other field with a value that is not null, false or inert raises
    UserError: it may change the function in a way that this port does not follow.
    """
    fixed, names = fixed or {}, list(names)
    missing = [n for n in names if config.get(n) is None]
    if missing:
        raise UserError(f"{where}: config.json lacks {missing}")
    for name, allowed in fixed.items():
        if name in config and config[name] not in allowed:
            raise UserError(
                f"{where}: {name}={config[name]!r} is not supported, only {list(allowed)}"
            )
    read_here = {*names, *fixed, *known}
    for name, value in config.items():
        if name not in read_here and name not in INERT and value not in (None, False, {}, []):
            raise UserError(f"{where}: the port does not know the field {name}={value!r}")
    return {n: config[n] for n in names}
