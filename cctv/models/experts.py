"""A sparse MLP: every token runs through a few of many experts, none is ever dropped.

Tokens are gathered in blocks that belong to one expert each, as in MegaBlocks (arXiv 2211.15841).
`jax.lax.ragged_dot` is not used: on a CPU it multiplies every token by every expert (jax 0.10), and
it can't be vmapped over tokens that share their weights.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from cctv.models.layers import _INIT, Linear

MAX_BLOCK = 128  # tokens of one expert that are multiplied together


class Experts(nnx.Module):
    """Router and SwiGLU experts: gate and up float[X, D, 2, M], down float[X, M, D]."""

    def __init__(self, width: int, mlp_dim: int, *, count: int, active: int, rngs: nnx.Rngs):
        self.active = active
        self.router = Linear(width, count, bias=False, rngs=rngs)
        self.gate_up = nnx.Param(_INIT(rngs.params(), (count, width, 2, mlp_dim)))
        self.down = nnx.Param(_INIT(rngs.params(), (count, mlp_dim, width)))

    def __call__(self, x: jax.Array) -> jax.Array:
        """float[..., D]: the experts' outputs, weighted by the router's renormalised shares."""
        shape = x.shape
        x = x.reshape(-1, shape[-1])  # [T, D]
        shares = jax.nn.softmax(self.router(x).astype(jnp.float32), axis=-1)  # [T, X]
        shares, expert = jax.lax.top_k(shares, self.active)  # [T, A]
        shares = (shares / shares.sum(axis=-1, keepdims=True)).astype(x.dtype)
        return run(x, expert, shares, self.gate_up[...], self.down[...]).reshape(shape)


@jax.custom_batching.custom_vmap
def run(
    x: jax.Array, expert: jax.Array, shares: jax.Array, gate_up: jax.Array, down: jax.Array
) -> jax.Array:
    """float[T, D], the sum of the chosen experts' outputs of each token.

    Args:
      x: float[T, D]; expert: int[T, A], which experts; shares: float[T, A], their weights.
      gate_up: float[X, D, 2, M]; down: float[X, M, D].

    A vmapped axis over tokens is folded into T: all tokens share the experts' blocks.
    """
    (t, active), count = expert.shape, len(down)
    # About as many tokens as an expert gets: a power of two, so that few shapes are compiled.
    size = min(MAX_BLOCK, max(8, 1 << (t * active // count).bit_length()))
    chosen = expert.reshape(-1)  # [T·A]
    # How many of the tokens up to each one an expert has.
    upto = jnp.cumsum(chosen[:, None] == jnp.arange(count), axis=0, dtype=jnp.int32)  # [T·A, X]
    blocks_of = -(-upto[-1] // size)  # [X]
    last_block = jnp.cumsum(blocks_of)
    rank = jnp.take_along_axis(upto, chosen[:, None], axis=1)[:, 0] - 1
    slot = (last_block - blocks_of)[chosen] * size + rank  # [T·A]
    most = min(t * active, t * active // size + count)  # blocks
    # Empty slots take a row of zeros.
    rows = jnp.full(most * size, t).at[slot].set(jnp.arange(t * active) // active)
    rows, padded = rows.reshape(most, size), jnp.concatenate([x, jnp.zeros_like(x[:1])])

    def block(i, out):
        owner = (last_block <= i).sum()
        h = jnp.einsum("td,dcm->tcm", padded[rows[i]], gate_up[owner])  # [size, 2, M]
        y = (jax.nn.silu(h[:, 0]) * h[:, 1]) @ down[owner]  # [size, D]
        return jax.lax.dynamic_update_slice(out, y, (i * size, 0))

    out = jax.lax.fori_loop(0, last_block[-1], block, jnp.zeros((most * size, x.shape[1]), x.dtype))
    return jnp.einsum("tad,ta->td", out[slot].reshape(t, active, -1), shares)


@run.def_vmap
def _fold(size, batched, x, expert, shares, gate_up, down):
    """The vmapped axis of size `size` as more tokens."""
    if any(batched[3:]):
        raise NotImplementedError("experts that differ along a vmapped axis")
    x, expert, shares = (
        a if is_batched else jnp.broadcast_to(a, (size, *a.shape))
        for a, is_batched in zip((x, expert, shares), batched)
    )
    flat = (a.reshape(-1, a.shape[-1]) for a in (x, expert, shares))
    return run(*flat, gate_up, down).reshape(x.shape), True
