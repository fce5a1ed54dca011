"""Strict conversion between Hugging Face safetensors folders and our stacked pytrees.

A family lists `Rule`s. Loading reads the headers first and raises one error with every unknown,
missing and wrong-shaped tensor before a byte of weights is read. Rules work in both directions, so
a model of ours can be written as a folder that transformers opens.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cctv.data.errors import UserError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
DTYPES = ("F64", "F32", "F16", "BF16")


class ConversionError(UserError):
    """A checkpoint that does not fit the model. `problems` has one entry a tensor."""

    def __init__(self, path: Path, problems: Sequence[str], *, layout: str | None = None):
        self.problems = tuple(problems)
        shown = "; ".join(self.problems[:6])
        more = f"; and {len(problems) - 6} more" if len(problems) > 6 else ""
        inside = f" in the {layout} layout" if layout else ""
        super().__init__(
            f"{path}: {len(problems)} tensors do not fit the model{inside}: {shown}{more}"
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One tensor of the file, or one a layer where `key` has a `{}`, and where it goes in ours.

    `kind` is "keep" (same array), "transpose" (torch Linear: [out, in] in the file), "conv" (a
    patch convolution [out, *kernel] that is a Linear over flattened patches; `kernel` its shape) or
    "halves" (ours is [..., 2, M], the file has the two side by side, [..., 2·M]). With
    `either_order` the file's last two axes may also be exchanged; its shape tells.
    `lead` is the number of axes of size 1 that the file has in front. `part` (first, end, whole):
    ours is entries first … end-1 of the file's first axis, which has `whole` (fused q, k and v);
    the rules of such a key cover all of it, each entry once.
    """

    key: str
    path: str
    kind: str = "keep"
    kernel: tuple[int, ...] = ()
    lead: int = 0
    part: tuple[int, int, int] | None = None
    either_order: bool = False

    def file_shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the file of an array that has shape `ours` here (one layer)."""
        shape = self._part_shape(ours)
        if self.part is None:
            return shape
        first, end, whole = self.part
        if shape[0] != end - first:
            raise AssertionError(f"{self.path} has {shape[0]} entries, {self.part} of {self.key}")
        return (whole, *shape[1:])

    def _part_shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        if self.kind == "conv":
            return (ours[1], *self.kernel)
        if self.kind == "halves":
            return (*ours[:-2], 2 * ours[-1])
        return (1,) * self.lead + (ours if self.kind == "keep" else ours[::-1])

    def to_ours(self, array: np.ndarray) -> np.ndarray:
        """Ours of the file's array (of its part)."""
        array = array.reshape(array.shape[self.lead :])
        if self.kind == "halves":
            return array.reshape(*array.shape[:-1], 2, -1)
        return array if self.kind == "keep" else array.reshape(array.shape[0], -1).T

    def to_file(self, array: np.ndarray) -> np.ndarray:
        """The file's array (its part) of ours."""
        shape = self._part_shape(array.shape)
        return (array if self.kind in ("keep", "halves") else array.T).reshape(shape)


def linear(key: str, path: str, *, bias: bool) -> list[Rule]:
    """The rules of a torch Linear."""
    rules = [Rule(key=f"{key}.weight", path=f"{path}.kernel", kind="transpose")]
    return [*rules, Rule(key=f"{key}.bias", path=f"{path}.bias")] if bias else rules


def fused_linear(key: str, paths: Sequence[str], sizes: Sequence[int], *, bias: bool) -> list[Rule]:
    """The rules of one torch Linear that is several of ours, of these output sizes, in order."""
    rules, ends = [], list(itertools.accumulate(sizes))
    for path, size, end in zip(paths, sizes, ends):
        part = (end - size, end, ends[-1])
        rules += [dataclasses.replace(r, part=part) for r in linear(key, path, bias=bias)]
    return rules


def norm(key: str, path: str, *, bias: bool) -> list[Rule]:
    """The rules of a norm with scale and, for a LayerNorm, bias."""
    rules = [Rule(key=f"{key}.weight", path=f"{path}.scale")]
    return [*rules, Rule(key=f"{key}.bias", path=f"{path}.bias")] if bias else rules


def leaves(model: nnx.Module) -> dict[str, jax.Array]:
    """{dotted path: array} of a model or of its `nnx.eval_shape`."""
    flat = jax.tree_util.tree_leaves_with_path(model)
    return {path_name(path): leaf for path, leaf in flat}


def path_name(path) -> str:
    """The dotted form, decoder.layers.q.kernel, of a key path of jax.tree_util."""
    return ".".join(str(p).lstrip(".").strip("[]'") for p in path).removesuffix(".value")


def parameter_count(model: nnx.Module) -> int:
    """Number of scalars, from shapes alone."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model))


def _expand(rule: Rule, shape: tuple[int, ...]) -> list[tuple[str, int | None]]:
    """(file key, layer or None) of every tensor that a rule covers."""
    if "{}" not in rule.key:
        return [(rule.key, None)]
    return [(rule.key.format(i), i) for i in range(shape[0])]


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder, sorted; UserError naming what is absent."""
    index = folder / INDEX
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
            files = [folder / name for name in names]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise UserError(f"{index}: not a safetensors index ({error!r})") from None
        absent = [f.name for f in files if not f.is_file()]
        if absent:
            raise UserError(f"{folder}: the index names {len(absent)} absent files: {absent[:3]}")
        return files
    if not (folder / SINGLE).is_file():
        raise UserError(f"{folder}: neither {SINGLE} nor {INDEX}; convert the checkpoint first")
    return [folder / SINGLE]


def digest(folder: Path) -> str:
    """sha256 (hex) over the weight files and config.json of a checkpoint folder."""
    return digest_of([*weight_files(folder), folder / "config.json"])


def digest_of(files: Sequence[Path]) -> str:
    """sha256 (hex) over the contents of some files, in their order."""
    total = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _read_headers(files: Sequence[Path]) -> tuple[dict, list[str]]:
    """{key: (open file, shape)}, and what is wrong by itself: a key that stands in two files, a
    tensor that is no plain floating-point number (quantised weights need their scales)."""
    found, problems = {}, []
    for path in files:
        try:
            handle = safe_open(path, framework="np")
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a readable safetensors file ({error})") from None
        for key in sorted(handle.keys()):
            if key in found:
                problems.append(f"{key} stands in two files")
            about = handle.get_slice(key)
            if about.get_dtype() not in DTYPES:
                problems.append(f"{key} is {about.get_dtype()}, expected one of {DTYPES}")
            found[key] = (handle, tuple(about.get_shape()))
    return found, problems


def load(
    folder: Path,
    model: nnx.Module,
    rules: Sequence[Rule],
    *,
    dtype: jnp.dtype,
    tied: tuple[str, ...] | None = None,
    layout: str | None = None,
    place: Callable[[str, np.ndarray], jax.Array] = lambda _, array: jnp.asarray(array),
) -> nnx.Module:
    """Fills `model` (an `nnx.eval_shape` result) from a folder; every tensor must fit.

    `tied` = (extra key, key it must equal in each layout): some files repeat a tied output head.
    `layout` names the folder's kind in errors, where a family has several. Weights are read tensor
    by tensor and `place`d on the device by path: at most one stacked parameter is on the host
    beside the result.
    """
    found, problems = _read_headers(weight_files(folder))
    ours = leaves(model)
    _check_rules(rules, ours)
    wanted = {}
    for rule in rules:
        shape = tuple(ours[rule.path].shape)
        for key, layer in _expand(rule, shape):
            expected = rule.file_shape(shape if layer is None else shape[1:])
            wanted[key] = (expected, _exchanged(expected) if rule.either_order else expected)
    for key, expected in wanted.items():
        if key not in found:
            problems.append(f"{key} is missing")
        elif found[key][1] not in expected:
            problems.append(f"{key} is {found[key][1]}, expected {expected[0]}")
    extra = set(found) - set(wanted)
    head, *embeds = tied or (None,)
    for embed in [key for key in embeds if head in extra and key in found]:
        extra.discard(head)
        a, b = (found[key][0].get_tensor(key) for key in (head, embed))
        if not np.array_equal(a, b):
            problems.append(f"{head} differs from {embed}, but the config says they are tied")
    problems += [f"{key} is unknown" for key in sorted(extra, key=_natural)]
    if problems:
        raise ConversionError(folder, problems, layout=layout)

    def fill(path, leaf):
        rule = next(r for r in rules if r.path == path_name(path))
        keys = _expand(rule, leaf.shape)
        array = np.empty(leaf.shape, dtype)
        for key, layer in keys:
            value = _read(found[key][0], key, rule)
            if rule.either_order and value.shape != wanted[key][0]:
                value = value.swapaxes(-1, -2)
            array[... if layer is None else layer] = rule.to_ours(value)
        return place(rule.path, array)

    return jax.tree_util.tree_map_with_path(fill, model)


def _exchanged(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def _read(handle, key: str, rule: Rule) -> np.ndarray:
    """What a rule takes of a tensor; no more of the file is read."""
    if rule.part is None:
        return handle.get_tensor(key)
    first, end, _ = rule.part
    return handle.get_slice(key)[first:end]


def _check_rules(rules: Sequence[Rule], ours: dict[str, jax.Array]) -> None:
    """AssertionError unless every parameter has one rule, and every key is covered once."""
    paths, parts = [rule.path for rule in rules], {}
    wrong = set(paths) ^ set(ours) | {p for p in paths if paths.count(p) > 1}
    if wrong:
        raise AssertionError(f"parameters without a rule, or with several: {sorted(wrong)}")
    for rule in rules:
        parts.setdefault(rule.key, []).append(rule.part or (0, 1, 1))
    for key, spans in parts.items():
        spans = sorted(spans)
        first, end, whole = zip(*spans)
        if first != (0, *end[:-1]) or set(whole) != {end[-1]}:
            raise AssertionError(f"the parts {spans} do not make {key} whole")


def save(folder: Path, model: nnx.Module, rules: Sequence[Rule]) -> None:
    """Writes the weights of `model` as one safetensors file in the family's published layout."""
    ours, parts = leaves(model), {}
    _check_rules(rules, ours)
    for rule in sorted(rules, key=lambda r: r.part or (0,)):
        array = np.asarray(ours[rule.path])
        for key, layer in _expand(rule, array.shape):
            value = rule.to_file(array if layer is None else array[layer])
            parts.setdefault(key, []).append(value)
    tensors = {key: np.ascontiguousarray(np.concatenate(p)) for key, p in parts.items()}
    save_file(tensors, folder / SINGLE, metadata={"format": "pt"})


def _natural(key: str) -> list:
    return [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", key)]
