"""The vision tower of the Qwen-VL line: patches of two frames, 2-D rotary, per-group attention.

Attention never crosses a temporal group, so groups are a batch axis: a video is [G, P, …] and
videos of different length or size share a call (P padded, the padding masked).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data.preprocess import patch_coords
from cctv.models.layers import (
    Embed,
    LayerNorm,
    Linear,
    Segment,
    attend,
    grid_angles,
    rotate,
    stack,
)


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """Sizes of the tower. `deepstack` are the layers whose output is also merged and handed on."""

    width: int
    mlp_dim: int
    num_layers: int
    num_heads: int
    out_width: int
    patch_size: int = 16
    temporal_patch_size: int = 2
    merge_size: int = 2
    channels: int = 3
    table_side: int = 48
    deepstack: tuple[int, ...] = ()
    rope_theta: float = 10_000.0

    def __post_init__(self):
        if self.width % self.num_heads or (self.width // self.num_heads) % 4:
            raise ValueError(
                f"vision width {self.width} over {self.num_heads} heads must give a head size "
                "that is a multiple of 4"
            )
        if list(self.deepstack) != sorted({i for i in self.deepstack if i < self.num_layers}):
            raise ValueError(
                f"deepstack layers {self.deepstack} must rise and lie below {self.num_layers}"
            )

    @property
    def patch_dim(self) -> int:
        return self.channels * self.temporal_patch_size * self.patch_size**2


class Groups(NamedTuple):
    """Temporal groups of any videos, P patches each in merge-block order, the tail padded.

    patches float32[G, P, patch_dim]; coords int32[G, P, 2] (row, column); taps int32[G, P, 4] and
    weights float32[G, P, 4] into the learned position table; mask bool[G, P], True = a real patch.
    """

    patches: np.ndarray
    coords: np.ndarray
    taps: np.ndarray
    weights: np.ndarray
    mask: np.ndarray


def layout(height: int, width: int, config: VisionConfig):
    """Where each patch of a (height, width) grid lies: coords, taps, weights as in `Groups`.

    Patches come block by block of merge_size², row-major inside a block. The square table of
    learned positions is resampled bilinearly with aligned corners.
    """
    coords = patch_coords(height, width, merge=config.merge_size)  # [P, 2]
    last = config.table_side - 1
    at = (
        coords.astype(np.float32) * last / np.maximum([height - 1, width - 1], 1).astype(np.float32)
    )
    low = np.minimum(at.astype(np.int32), last)
    high = np.minimum(low + 1, last)
    f = at - low  # [P, 2]
    rows, columns = (low[:, 0], high[:, 0]), (low[:, 1], high[:, 1])
    row_weights, column_weights = (1 - f[:, 0], f[:, 0]), (1 - f[:, 1], f[:, 1])
    taps = [r * config.table_side + c for r in rows for c in columns]
    weights = [r * c for r in row_weights for c in column_weights]
    return coords, np.stack(taps, 1).astype(np.int32), np.stack(weights, 1).astype(np.float32)


def groups(patches: np.ndarray, height: int, width: int, config: VisionConfig) -> Groups:
    """The `Groups` of one video. patches: float32[G, h·w, patch_dim]."""
    n = len(patches)
    repeated = (np.broadcast_to(a, (n, *a.shape)) for a in layout(height, width, config))
    return Groups(patches, *repeated, np.ones(patches.shape[:2], bool))


class VisionBlock(nnx.Module):
    """Pre-norm attention (fused qkv) and a GELU MLP."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.norm1 = LayerNorm(c.width, eps=1e-6)
        self.qkv = Linear(c.width, 3 * c.width, rngs=rngs)
        self.proj = Linear(c.width, c.width, rngs=rngs)
        self.norm2 = LayerNorm(c.width, eps=1e-6)
        self.fc1 = Linear(c.width, c.mlp_dim, rngs=rngs)
        self.fc2 = Linear(c.mlp_dim, c.width, rngs=rngs)

    def __call__(self, x: jax.Array, angles: jax.Array, mask: jax.Array) -> jax.Array:
        c, (g, p, _) = self.config, x.shape
        qkv = self.qkv(self.norm1(x)).reshape(g, p, 3, c.num_heads, -1)  # [G, P, 3, N, H]
        q, k, v = (qkv[:, :, i] for i in range(3))
        q, k = (rotate(a, angles, dtype=jnp.float32) for a in (q, k))
        x = x + self.proj(attend(q, Segment(k, v, mask[:, None])).reshape(g, p, -1))
        return x + self.fc2(jax.nn.gelu(self.fc1(self.norm2(x)), approximate=True))


class Merger(nnx.Module):
    """Joins merge_size² neighbouring patches into one token of the decoder's width.

    `c` needs width, merge_size and out_width; `norm` makes the norm of a size.
    """

    def __init__(self, c: Any, *, norm_after: bool = False, norm=LayerNorm, rngs: nnx.Rngs):
        joined = c.width * c.merge_size**2
        self.joined, self.norm_after = joined, norm_after
        self.norm = norm(joined if norm_after else c.width, eps=1e-6)
        self.fc1 = Linear(joined, joined, rngs=rngs)
        self.fc2 = Linear(joined, c.out_width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        if not self.norm_after:
            x = self.norm(x)
        x = x.reshape(*x.shape[:-2], -1, self.joined)  # [G, V, 4D]
        if self.norm_after:
            x = self.norm(x)
        return self.fc2(jax.nn.gelu(self.fc1(x), approximate=False))


class VisionTower(nnx.Module):
    """Patches to visual tokens, with one extra set of features a DeepStack layer."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.patch = Linear(c.patch_dim, c.width, rngs=rngs)
        self.table = Embed(c.table_side**2, c.width, rngs=rngs)
        self.layers = stack(lambda r: VisionBlock(c, rngs=r), c.num_layers, rngs=rngs)
        self.merger = Merger(c, rngs=rngs)
        self.deepstack_mergers = (
            stack(lambda r: Merger(c, norm_after=True, rngs=r), len(c.deepstack), rngs=rngs)
            if c.deepstack
            else None
        )

    def __call__(self, inputs: Groups) -> jax.Array:
        """float[G, V, 1 + E, out_width] with V = P / merge_size²: the merged output, then the
        DeepStack features in the order of the decoder layers they are added after."""
        c = self.config
        dtype = self.patch.kernel.dtype
        x = self.patch(inputs.patches.astype(dtype))  # [G, P, D]
        learned = self.table(inputs.taps).astype(jnp.float32) * inputs.weights[..., None]
        x = x + learned.sum(axis=-2).astype(dtype)
        angles = grid_angles(inputs.coords, c.width // c.num_heads, c.rope_theta)  # [G, P, H/2]

        def run(x, first, last):
            part = jax.tree.map(lambda w: w[first:last], self.layers)
            return jax.lax.scan(lambda h, b: (b(h, angles, inputs.mask), None), x, part)[0]

        features, first = [], 0
        for i, layer in enumerate(c.deepstack):
            x = run(x, first, layer + 1)
            first = layer + 1
            features.append(jax.tree.map(lambda w, i=i: w[i], self.deepstack_mergers)(x))
        x = run(x, first, c.num_layers)
        return jnp.stack([self.merger(x), *features], axis=2)
