"""Layers shared by every tower: fp32 inside norms and softmax, results in the input's dtype.

Flax's own norms promote bfloat16 activations to float32, which breaks the carry of a scan over
layers; these cast back. Modules hold weights only and are never mutated in a call.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

_INIT = jax.nn.initializers.normal(0.02)


class Linear(nnx.Module):
    """y = x W + b, kernel float[in, out], bias float[out] or none."""

    def __init__(self, size_in: int, size_out: int, *, bias: bool = True, rngs: nnx.Rngs):
        self.kernel = nnx.Param(_INIT(rngs.params(), (size_in, size_out)))
        self.bias = nnx.Param(jnp.zeros(size_out)) if bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x @ self.kernel[...]
        return y if self.bias is None else y + self.bias[...]


class Embed(nnx.Module):
    """A table float[rows, D]: looked up by index, or used transposed as the output head."""

    def __init__(self, rows: int, size: int, *, rngs: nnx.Rngs):
        self.table = nnx.Param(_INIT(rngs.params(), (rows, size)))

    def __call__(self, index: jax.Array) -> jax.Array:
        return self.table[...][index]


class RMSNorm(nnx.Module):
    """Root-mean-square norm over the last axis; scaled after the cast back, as the ports need."""

    def __init__(self, size: int, *, eps: float):
        self.scale = nnx.Param(jnp.ones(size))
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.eps)
        return self.scale[...] * y.astype(x.dtype)


class LayerNorm(nnx.Module):
    """Layer norm over the last axis with scale and bias."""

    def __init__(self, size: int, *, eps: float):
        self.scale = nnx.Param(jnp.ones(size))
        self.bias = nnx.Param(jnp.zeros(size))
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x.astype(jnp.float32)
        y = y - jnp.mean(y, axis=-1, keepdims=True)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.eps)
        y = y * self.scale[...].astype(jnp.float32) + self.bias[...].astype(jnp.float32)
        return y.astype(x.dtype)


def stack(make: Callable[[nnx.Rngs], nnx.Module], depth: int, *, rngs: nnx.Rngs) -> nnx.Module:
    """`depth` layers as one module whose weights have a leading axis L, ready for lax.scan."""
    return nnx.vmap(make)(rngs.split(depth))


def attend(q: jax.Array, k: jax.Array, v: jax.Array, *, mask: jax.Array | None = None) -> jax.Array:
    """Scaled dot-product attention with grouped key/value heads, softmax in float32.

    Args:
      q: float[B, T, N, H]; k, v: float[B, S, K, H], N a multiple of K.
      mask: bool, broadcastable to [B, T, S]; True = attend. A row with no True gets finite values.

    Returns float[B, T, N, H].
    """
    mask = None if mask is None else mask[:, None]  # [B, 1, T, S]
    return jax.nn.dot_product_attention(q, k, v, mask=mask)


def rotate(x: jax.Array, angles: jax.Array, *, dtype: jnp.dtype | None = None) -> jax.Array:
    """Rotary embedding (RoFormer, arXiv 2104.09864), first half paired with second half.

    Args:
      x: float[B, T, N, H]; angles: float32[B, T, H/2] in radians.
      dtype: in which the rotation is done; None is x's own (cos and sin are rounded to it).
    """
    y = x.astype(dtype or x.dtype)
    cos = jnp.cos(angles).astype(y.dtype)[:, :, None]  # [B, T, 1, H/2]
    sin = jnp.sin(angles).astype(y.dtype)[:, :, None]
    a, b = jnp.split(y, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def rotary_frequencies(size: int, theta: float) -> jax.Array:
    """float32[size/2]: theta^(-2i/size)."""
    return 1.0 / theta ** (jnp.arange(0, size, 2, dtype=jnp.float32) / size)
