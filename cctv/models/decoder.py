"""One llama-like decoder for every family: a few config fields tell Qwen2, Qwen3, Llama apart.

Layers are stacked and scanned, so that compile time does not grow with depth. The cache is an
argument and a result; nothing here remembers a call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.models.experts import Experts
from cctv.models.layers import (
    Embed,
    Linear,
    RMSNorm,
    Segment,
    attend,
    rotary_frequencies,
    rotate,
    stack,
)

BLOCK = 256  # queries that attend together in a long causal input, at least
MAX_BLOCKS = 8  # how many blocks are compiled; longer inputs have longer blocks


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes of a decoder. `mrope_section` is the number of frequencies of (time, row, column).

    With `num_experts` every MLP is sparse: a token runs through `experts_per_token` of that many,
    each `mlp_dim` wide.
    """

    vocab_size: int
    width: int
    mlp_dim: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float = 1e-6
    qk_norm: bool = False
    qkv_bias: bool = False
    tie_embeddings: bool = False
    mrope_section: tuple[int, ...] | None = None
    mrope_interleaved: bool = False
    num_experts: int = 0
    experts_per_token: int = 0

    def __post_init__(self):
        if self.num_experts and not 1 <= self.experts_per_token <= self.num_experts:
            raise ValueError(
                f"{self.experts_per_token} experts per token must be 1 to {self.num_experts}"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} heads can't share {self.num_kv_heads} kv heads")
        if self.mrope_section and sum(self.mrope_section) != self.head_dim // 2:
            raise ValueError(
                f"mrope_section {self.mrope_section} must sum to head_dim/2 = {self.head_dim // 2}"
            )

    @property
    def active_mlp_dim(self) -> int:
        """Width of what one token runs through."""
        return self.mlp_dim * (self.experts_per_token or 1)

    @property
    def idle_parameters(self) -> int:
        """Scalars of the experts that one token does not run through."""
        idle = self.num_experts - self.experts_per_token
        return self.num_layers * idle * 3 * self.width * self.mlp_dim

    def rotary_axis(self) -> np.ndarray:
        """int[H/2]: which position axis (0 time, 1 row, 2 column) turns each frequency.

        Sections (3, 2, 2): interleaved (Qwen3-VL) T H W T H W T, chunked (Qwen2-VL) T T T H H W W.
        """
        axis = np.zeros(self.head_dim // 2, np.int32)
        if self.mrope_section is None:
            return axis
        if not self.mrope_interleaved:
            return np.repeat(np.arange(3, dtype=np.int32), self.mrope_section)
        for i in (1, 2):
            axis[i : 3 * self.mrope_section[i] : 3] = i
        return axis


class Cache(NamedTuple):
    """Keys and values of every layer, float[L, B, S, K, H] each. S counts slots, not positions."""

    k: jax.Array
    v: jax.Array

    @classmethod
    def zeros(cls, config: DecoderConfig, *, batch: int, slots: int, dtype):
        """An empty cache."""
        shape = (config.num_layers, batch, slots, config.num_kv_heads, config.head_dim)
        return cls(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))


class Prefix(NamedTuple):
    """A cache of batch 1 that all rows of a call share, and how many of its slots are filled."""

    cache: Cache
    length: jax.Array


class Block(nnx.Module):
    """Pre-norm attention and SwiGLU, dense or sparse."""

    def __init__(self, c: DecoderConfig, *, rngs: nnx.Rngs):
        self.config = c
        n, k = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
        self.attn_norm = RMSNorm(c.width, eps=c.norm_eps)
        self.q = Linear(c.width, n, bias=c.qkv_bias, rngs=rngs)
        self.k = Linear(c.width, k, bias=c.qkv_bias, rngs=rngs)
        self.v = Linear(c.width, k, bias=c.qkv_bias, rngs=rngs)
        self.o = Linear(n, c.width, bias=False, rngs=rngs)
        self.q_norm = RMSNorm(c.head_dim, eps=c.norm_eps) if c.qk_norm else None
        self.k_norm = RMSNorm(c.head_dim, eps=c.norm_eps) if c.qk_norm else None
        self.mlp_norm = RMSNorm(c.width, eps=c.norm_eps)
        if c.num_experts:
            self.experts = Experts(
                c.width, c.mlp_dim, count=c.num_experts, active=c.experts_per_token, rngs=rngs
            )
            return
        self.gate = Linear(c.width, c.mlp_dim, bias=False, rngs=rngs)
        self.up = Linear(c.width, c.mlp_dim, bias=False, rngs=rngs)
        self.down = Linear(c.mlp_dim, c.width, bias=False, rngs=rngs)

    def qkv(self, x: jax.Array, angles: jax.Array):
        """Queries [B, T, N, H], keys and values [B, T, K, H], rotated."""
        c, (b, t, _) = self.config, x.shape
        y = self.attn_norm(x)
        q = self.q(y).reshape(b, t, c.num_heads, c.head_dim)  # [B, T, N, H]
        k = self.k(y).reshape(b, t, c.num_kv_heads, c.head_dim)  # [B, T, K, H]
        v = self.v(y).reshape(b, t, c.num_kv_heads, c.head_dim)  # [B, T, K, H]
        if c.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return rotate(q, angles), rotate(k, angles), v

    def finish(self, x: jax.Array, heads: jax.Array) -> jax.Array:
        """Residual of the attention output [B, T, N, H], then the MLP."""
        x = x + self.o(heads.reshape(*heads.shape[:2], -1))
        y = self.mlp_norm(x)
        if self.config.num_experts:
            return x + self.experts(y)
        return x + self.down(jax.nn.silu(self.gate(y)) * self.up(y))


class Decoder(nnx.Module):
    """Token embedding, scanned blocks, final norm and head."""

    def __init__(self, c: DecoderConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.embed = Embed(c.vocab_size, c.width, rngs=rngs)
        self.layers = stack(lambda r: Block(c, rngs=r), c.num_layers, rngs=rngs)
        self.norm = RMSNorm(c.width, eps=c.norm_eps)
        self.head = None if c.tie_embeddings else Embed(c.vocab_size, c.width, rngs=rngs)

    def __call__(
        self,
        x: jax.Array,
        *,
        positions: jax.Array,
        cache: Cache,
        start: jax.Array | int,
        first: jax.Array | None = None,
        prefix: Sequence[Prefix] = (),
        deepstack: jax.Array | None = None,
        cache_only: bool = False,
    ) -> tuple[jax.Array | None, Cache]:
        """Runs T tokens, writing their keys and values to slots start … start+T-1 of the cache.

        The token in slot i sees the whole prefix and the slots from first[b] to i:

            first = 2    slot 0 1 2 3 4        (left padding in slots 0 and 1)
            token in 2        . . x . .
            token in 4        . . x x x

        Args:
          x: float[B, T, D], embedded tokens.
          positions: int[B, T, 3], rotary position on each axis (a plain decoder reads axis 0).
          first: int[B], the first real slot of each row; None is 0.
          prefix: keys and values before all of it, shared by the rows, in any number of parts.
          deepstack: float[E, B, T, D], feature e is added after layer e (arXiv 2406.04334).
          cache_only: the hidden states are not wanted, so the last layer ends at its keys.

        Returns (float[B, T, D] after the final norm or None, the cache).
        """
        c = self.config
        axis = jnp.asarray(c.rotary_axis())
        frequencies = rotary_frequencies(c.head_dim, c.rope_theta)  # [H/2]
        angles = positions.astype(jnp.float32)[..., axis] * frequencies  # [B, T, H/2]

        def store(x, cache, block, i):
            q, k, v = block.qkv(x, angles)
            # Written in place: a cache given to scan as input and output would be held twice.
            k = jax.lax.dynamic_update_slice(cache.k, k[None], (i, 0, start, 0, 0))
            v = jax.lax.dynamic_update_slice(cache.v, v[None], (i, 0, start, 0, 0))
            return q, Cache(k, v)

        def layer(carry, inputs):
            (x, cache), (block, i) = carry, inputs
            q, cache = store(x, cache, block, i)
            before = [_segment(p, i) for p in prefix]
            heads = attend_causally(
                q, cache.k[i], cache.v[i], start=start, first=first, before=before
            )  # [B, T, N, H]
            return (block.finish(x, heads), cache), None

        def blocks(part):
            return jax.tree.map(lambda w: w[part], self.layers)

        unrolled = 0 if deepstack is None else len(deepstack)
        end = c.num_layers - cache_only
        carry = (x, cache)
        for i in range(min(unrolled, end)):
            (x, cache), _ = layer(carry, (blocks(i), i))
            carry = (x + deepstack[i], cache)
        if unrolled < end:
            rest = (blocks(slice(unrolled, end)), jnp.arange(unrolled, end))
            carry, _ = jax.lax.scan(layer, carry, rest)
        x, cache = carry
        if cache_only:
            return None, store(x, cache, blocks(end), end)[1]
        return self.norm(x), cache

    def logits(self, x: jax.Array) -> jax.Array:
        """float32[…, vocabulary] of hidden states float[…, D]."""
        table = (self.embed if self.head is None else self.head).table[...]
        return jnp.einsum("...d,vd->...v", x, table, preferred_element_type=jnp.float32)


def _segment(prefix: Prefix, layer: jax.Array | int) -> Segment:
    """One layer of a prefix."""
    k, v = (a[layer] for a in prefix.cache)  # [1, P, K, H]
    return Segment(k, v, jnp.arange(k.shape[1]) < prefix.length)


def attend_causally(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    start: jax.Array | int,
    first: jax.Array | None = None,
    before: Sequence[Segment] = (),
) -> jax.Array:
    """Attention of the tokens in slots start … start+T-1 to `before` and to their own past.

    q: float[B, T, N, H]; k, v: float[B, S, K, H]; first: int[B], see `Decoder`. Long inputs that
    begin at slot 0 run in blocks of queries, each against the keys up to its end: half of the work,
    and scores of one block at a time in memory.
    """
    t, slots = q.shape[1], jnp.arange(k.shape[1])

    def part(q, k, v, start):
        mask = slots[: k.shape[1]] <= (start + jnp.arange(q.shape[1]))[:, None]  # [T, S]
        if first is not None:
            mask = mask & (slots[: k.shape[1]] >= first[:, None, None])  # [B, T, S]
        return attend(q, *before, Segment(k, v, mask))

    if t <= BLOCK or not (isinstance(start, int) and start == 0):
        return part(q, k, v, start)
    size = -(-t // MAX_BLOCKS // BLOCK) * BLOCK
    ends = [min(i + size, t) for i in range(0, t, size)]
    return jnp.concatenate(
        [part(q[:, i:end], k[:, :end], v[:, :end], i) for i, end in zip(range(0, t, size), ends)],
        axis=1,
    )
