"""Where arrays live on a mesh: streams (scenes) over "data", heads and MLP over "model".

Modules carry no annotation. Weights get their sharding from the table below by path; what the mesh
does not divide is replicated, whole heads being the unit. Inputs are sharded over streams, and the
compiler derives the rest (GSPMD, arXiv 2105.04663).
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cctv.models.decoder import DecoderConfig

AXES = ("data", "model")

# Path of a parameter -> which of its axes is split over "model", and what it counts.
TABLE = (
    (r"decoder\.(embed|head)\.table", 0, "vocabulary"),
    (r"decoder\.layers\.q\.(kernel|bias)", -1, "heads"),
    (r"decoder\.layers\.[kv]\.(kernel|bias)", -1, "kv_heads"),
    (r"decoder\.layers\.o\.kernel", 1, "heads"),
    (r"decoder\.layers\.(gate|up)\.kernel", -1, "mlp"),
    (r"decoder\.layers\.down\.kernel", 1, "mlp"),
    (r"decoder\.layers\.experts\.gate_up", -1, "mlp"),
    (r"decoder\.layers\.experts\.down", 2, "mlp"),
    (r"vision\.(vit\.)?layers\.(fc1|gate|up)\.(kernel|bias)", -1, "mlp"),
    (r"vision\.(vit\.)?layers\.(fc2|down)\.kernel", 1, "mlp"),
)


def make_mesh(shape: tuple[int, int]) -> Mesh:
    """A mesh of (data, model) devices. ValueError when there are not as many."""
    size, devices = shape[0] * shape[1], jax.devices()
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"mesh={shape} must be (data, model), each at least 1")
    if size > len(devices):
        raise ValueError(f"mesh={shape} needs {size} devices, there are {len(devices)}")
    return jax.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * 2, devices=devices[:size])


def spec(path: str, shape: tuple[int, ...], *, config: DecoderConfig, model: int) -> P:
    """The PartitionSpec of a parameter on a mesh whose "model" axis has `model` devices."""
    units = {"heads": config.num_heads, "kv_heads": config.num_kv_heads}
    for pattern, axis, counts in TABLE:
        if re.fullmatch(pattern, path):
            if units.get(counts, shape[axis]) % model or shape[axis] % model:
                return P()
            axes: list[str | None] = [None] * len(shape)
            axes[axis] = "model"
            return P(*axes)
    return P()


def placer(mesh: Mesh, config: DecoderConfig) -> Callable[[str, np.ndarray], jax.Array]:
    """A function that puts a named parameter on its devices, each getting its own part only."""

    def place(path: str, array: np.ndarray) -> jax.Array:
        where = spec(path, array.shape, config=config, model=mesh.shape["model"])
        sharding = NamedSharding(mesh, where)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return place


def over_streams(tree: Any, mesh: Mesh) -> Any:
    """Arrays with their leading axis split over "data", which must divide it."""
    return jax.device_put(tree, NamedSharding(mesh, P("data")))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Arrays with a copy on every device."""
    return jax.device_put(tree, NamedSharding(mesh, P()))


def scalars_per_device(
    shapes: Mapping[str, tuple[int, ...]], *, config: DecoderConfig, model: int
) -> int:
    """Scalars of weights that one device of a mesh holds. shapes: path -> shape."""
    total = 0
    for path, shape in shapes.items():
        split = "model" in spec(path, shape, config=config, model=model)
        total += math.prod(shape) // (model if split else 1)
    return total
