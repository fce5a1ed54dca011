"""manifest.json: what a run is (identity) and how it was done (provenance).

A workdir may be resumed only by a run of equal identity; hardware, batch and library versions may
change, methods and α may be added. Rows of different manifests are never mixed.
"""

import json
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from cctv.data.errors import UserError
from cctv.runs.rows import write_json

NAME = "manifest.json"
PACKAGES = ("cctv", "jax", "jaxlib", "flax", "numpy", "transformers", "tokenizers", "av", "decord")


def resume(workdir: Path, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest to go on with: the workdir's own, or a new one.

    UserError, one line that names the first field that differs, when the workdir holds another run.
    """
    path = workdir / NAME
    if not path.exists():
        if any(workdir.glob("predictions-*.jsonl")):
            raise UserError(f"{workdir} has predictions but no {NAME}; choose another --workdir")
        return {"identity": _plain(identity), "provenance": {"invocations": []}}
    try:
        manifest = json.loads(path.read_text())
        old = manifest["identity"]
        _ = manifest["provenance"]["invocations"]  # a damaged file fails here
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path} is damaged; choose another --workdir") from None
    new = _plain(identity)
    methods = {**old.get("methods", {}), **new.get("methods", {})}
    for name, before, now in _differences(old, new):
        if not (name.startswith("methods.") and (before is _ABSENT or now is _ABSENT)):
            raise UserError(
                f"{path}: {name} was {_show(before)} and is now {_show(now)}; "
                "choose another --workdir or set it back"
            )
    manifest["identity"] = {**new, "methods": methods}
    return manifest


def write(workdir: Path, manifest: Mapping[str, Any]) -> None:
    """Writes the manifest whole or not at all."""
    write_json(workdir / NAME, manifest)


def environment() -> dict[str, Any]:
    """Versions and devices, for the provenance."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "versions": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "devices": [str(d.device_kind) for d in jax.devices()],
        "backend": jax.default_backend(),
    }


_ABSENT = object()


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(value))


def _differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, old, new) of every leaf that differs; a method is a leaf when it is new."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            where = f"{name}.{key}" if name else key
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), where)
    elif old is _ABSENT or new is _ABSENT or old != new:
        yield name, old, new


def _show(value: Any) -> str:
    text = "absent" if value is _ABSENT else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
