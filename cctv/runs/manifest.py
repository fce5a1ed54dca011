"""manifest.json: what a run is (identity) and how it was done (provenance).

A workdir may be resumed only by a run of equal identity; hardware, batch and library versions may
change, methods and α may be added. Rows of different manifests are never mixed.
"""

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
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
        others = [*workdir.glob("predictions-*.jsonl"), *workdir.glob("metrics.json")]
        if others:
            raise UserError(
                f"{workdir} has {others[0].name} but no {NAME}; choose another --workdir"
            )
        return {"identity": _plain(identity), "provenance": {"invocations": []}}
    manifest = _read(path)
    old, new = manifest["identity"], _plain(identity)
    difference = _contradiction(old, new)
    if difference:
        name, before, now = difference
        raise UserError(
            f"{path}: {name} was {_show(before)} and is now {_show(now)}; "
            "choose another --workdir or set it back"
        )
    manifest["identity"] = {**new, "methods": {**old.get("methods", {}), **new.get("methods", {})}}
    return manifest


def check_together(files: Iterable[Path]) -> None:
    """UserError when rows of one model and run come from run folders of different identity.

    files: of rows; one without a manifest beside it is taken as it is.
    """
    first: dict[tuple, tuple[Path, dict]] = {}
    for path in sorted({file.parent / NAME for file in files}):
        if not path.is_file():
            continue
        identity = _read(path)["identity"]
        label = (str(identity.get("model", {}).get("id")), str(identity.get("run")))
        before, other = first.setdefault(label, (path, identity))
        difference = _contradiction(other, identity)
        if difference:
            name, a, b = difference
            raise UserError(
                f"rows of different runs under one name: {name} is {_show(a)} in {before} and "
                f"{_show(b)} in {path}; score them apart, or give each run its own --config.run"
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
        sound = isinstance(manifest["identity"].get("model", {}), dict)
        sound = sound and isinstance(manifest["provenance"]["invocations"], list)
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UserError(f"{path} is damaged; choose another --workdir")
    return manifest


def _contradiction(old: Mapping, new: Mapping) -> tuple[str, Any, Any] | None:
    """The first difference of two identities that is not a method which only one of them has."""
    for name, before, now in _differences(old, new):
        whole_method = name.startswith("methods.") and name.count(".") == 1
        if not (whole_method and (before is _ABSENT or now is _ABSENT)):
            return name, before, now
    return None


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
        # The example's digest last: a setting that changed it says more.
        for key in sorted({*old, *new}, key=lambda k: (k == "tokens_of_example", k)):
            where = f"{name}.{key}" if name else key
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), where)
    elif old is _ABSENT or new is _ABSENT or old != new:
        yield name, old, new


def _show(value: Any) -> str:
    text = "absent" if value is _ABSENT else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
