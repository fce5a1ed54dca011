"""A plain vision transformer: InternViT, SigLIP and CLIP towers differ by a few config fields.

Frames are a batch axis: attention never crosses a temporal group, and padded patches are masked.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

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

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
}


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Sizes and kind of a tower.

    activation: one of ACTIVATIONS. positions: rows of the learned position table, or None: one for
    the class token where there is one, then a square grid of patches, row by row. class_token: one
    learned token before the patches. rope_theta: base of 2-D rotary positions, or None.
    layer_scale: a learned scale on both residual branches.
    """

    width: int
    mlp_dim: int
    num_layers: int
    num_heads: int
    patch_size: int
    channels: int = 3
    activation: str = "gelu"
    norm_eps: float = 1e-6
    patch_bias: bool = True
    class_token: bool = False
    positions: int | None = None
    rope_theta: float | None = None
    layer_scale: bool = False
    final_norm: bool = False

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is not one of {sorted(ACTIVATIONS)}")
        if self.width % self.num_heads:
            raise ValueError(
                f"vision width {self.width} does not split into {self.num_heads} heads"
            )
        if self.rope_theta is not None and (self.width // self.num_heads) % 4:
            raise ValueError(
                f"vision width {self.width} over {self.num_heads} heads must give a head size that "
                "is a multiple of 4"
            )
        if self.positions and self.table_side**2 + self.class_token != self.positions:
            raise ValueError(
                f"{self.positions} learned positions are no square of patches"
                f"{' and a class token' if self.class_token else ''}"
            )

    @property
    def table_side(self) -> int:
        """Rows and columns of the grid of learned positions."""
        return math.isqrt(self.positions - self.class_token)

    @property
    def patch_dim(self) -> int:
        return self.channels * self.patch_size**2


class Frames(NamedTuple):
    """G frames in P patches each, the tail padded.

    patches float32[G, P, patch_dim]; coords int32[G, P, 2] (row, column); mask bool[G, P], True = a
    real patch.
    """

    patches: np.ndarray
    coords: np.ndarray
    mask: np.ndarray


def frames_of(patches: np.ndarray, rows: int, columns: int, *, merge: int = 1) -> Frames:
    """The `Frames` of one video, its patches float32[G, P, patch_dim] as `patchify` orders them."""
    shape, coords = patches.shape[:2], patch_coords(rows, columns, merge=merge)
    return Frames(patches, np.broadcast_to(coords, (*shape, 2)), np.ones(shape, bool))


class ViTBlock(nnx.Module):
    """Pre-norm attention and MLP. The softmax is float32 in every dtype; InternViT's own eager code
    has it in the activations'."""

    def __init__(self, c: ViTConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.norm1 = LayerNorm(c.width, eps=c.norm_eps)
        self.q, self.k, self.v, self.proj = (Linear(c.width, c.width, rngs=rngs) for _ in range(4))
        self.norm2 = LayerNorm(c.width, eps=c.norm_eps)
        self.fc1 = Linear(c.width, c.mlp_dim, rngs=rngs)
        self.fc2 = Linear(c.mlp_dim, c.width, rngs=rngs)
        self.scale1 = nnx.Param(jnp.ones(c.width)) if c.layer_scale else None
        self.scale2 = nnx.Param(jnp.ones(c.width)) if c.layer_scale else None

    def __call__(self, x: jax.Array, angles: jax.Array | None, mask: jax.Array) -> jax.Array:
        c, (g, p, _) = self.config, x.shape
        y = self.norm1(x)
        q, k, v = (f(y).reshape(g, p, c.num_heads, -1) for f in (self.q, self.k, self.v))
        if angles is not None:
            q, k = (rotate(a, angles, dtype=jnp.float32) for a in (q, k))
        y = self.proj(attend(q, Segment(k, v, mask[:, None])).reshape(g, p, -1))
        x = x + (y if self.scale1 is None else y * self.scale1[...])
        y = self.fc2(ACTIVATIONS[c.activation](self.fc1(self.norm2(x))))
        return x + (y if self.scale2 is None else y * self.scale2[...])


class ViT(nnx.Module):
    """Patches to hidden states."""

    def __init__(self, c: ViTConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.patch = Linear(c.patch_dim, c.width, bias=c.patch_bias, rngs=rngs)
        self.class_token = nnx.Param(jnp.zeros(c.width)) if c.class_token else None
        self.table = Embed(c.positions, c.width, rngs=rngs) if c.positions else None
        self.layers = stack(lambda r: ViTBlock(c, rngs=r), c.num_layers, rngs=rngs)
        self.norm = LayerNorm(c.width, eps=c.norm_eps) if c.final_norm else None

    def __call__(self, patches: jax.Array, mask: jax.Array, coords: jax.Array) -> jax.Array:
        """float[G, P, D] of the patches, the class token left out.

        Args:
          patches: float[G, P, patch_dim], in any order.
          mask: bool[G, P], True = a real patch.
          coords: int[G, P, 2] (row, column), for rotary and learned positions.
        """
        c, dtype = self.config, self.patch.kernel.dtype
        x = self.patch(patches.astype(dtype))  # [G, P, D]
        if self.table is not None:
            x = x + self.table(coords @ jnp.array([c.table_side, 1]) + c.class_token)
        if c.class_token:
            first = self.class_token[...] + (0 if self.table is None else self.table(0))
            first = jnp.broadcast_to(first, (len(x), 1, c.width))
            x = jnp.concatenate([first, x], axis=1)  # [G, 1 + P, D]
            mask = jnp.pad(mask, ((0, 0), (1, 0)), constant_values=True)
        angles = None
        if c.rope_theta is not None:
            angles = grid_angles(coords, c.width // c.num_heads, c.rope_theta)  # [G, P, H/2]
        x, _ = jax.lax.scan(lambda h, b: (b(h, angles, mask), None), x, self.layers)
        x = x[:, 1:] if c.class_token else x
        return x if self.norm is None else self.norm(x)
