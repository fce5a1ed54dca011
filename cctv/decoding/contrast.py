"""The decoding methods: small frozen dataclasses whose `fuse` is a pure function of logits.

A method runs K branches of the same text: branch 0 sees the video itself, branch 1 the contrast.
z_t = (1+α) z_ori − α z_con (paper, section 5, equation 16); α = 0 is plain decoding.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp


class Fused(NamedTuple):
    """logits float32[B, vocabulary] to take the argmax of, and margins of the unmasked logits.

    margin float32[B] = z_yes − z_no after fusion; margin_contrast float32[B], that of branch 1
    alone (NaN for base); exact_to float32[B], see `alpha_exact_to` (NaN for base); masked bool[B],
    whether the plausibility constraint removed a token.
    """

    logits: jax.Array
    margin: jax.Array
    margin_contrast: jax.Array
    exact_to: jax.Array
    masked: jax.Array


@dataclass(frozen=True, kw_only=True)
class Base:
    """Greedy decoding of the video itself."""

    name: ClassVar[str] = "base"
    branches: ClassVar[int] = 1

    def fuse(self, z: jax.Array, *, alpha: jax.Array, yes: int, no: int) -> Fused:
        """z: float32[1, B, vocabulary]; `alpha` is not used."""
        z = z[0]
        nan = jnp.full(z.shape[:1], jnp.nan, z.dtype)
        return Fused(z, z[:, yes] - z[:, no], nan, nan, jnp.zeros(z.shape[:1], bool))


@dataclass(frozen=True, kw_only=True)
class CTCD:
    """C-TCD: the contrast is the scene's other video.

    `beta` in (0, 1] is VCD's adaptive plausibility constraint (arXiv 2311.16922, section 3.3):
    tokens with z_ori < log β + max z_ori can't win; 0 turns it off, as equation 16 has none.
    """

    beta: float = 0.0

    name: ClassVar[str] = "c_tcd"
    branches: ClassVar[int] = 2

    def __post_init__(self):
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta={self.beta} must lie between 0 (off) and 1")

    def fuse(self, z: jax.Array, *, alpha: jax.Array, yes: int, no: int) -> Fused:
        """z: float32[2, B, vocabulary]; alpha: float32 scalar, α ≥ 0."""
        original, contrast = z
        fused = (1 + alpha) * original - alpha * contrast
        margin = fused[:, yes] - fused[:, no]
        margin_contrast = contrast[:, yes] - contrast[:, no]
        exact_to = alpha_exact_to(original, contrast, yes=yes, no=no)
        masked = jnp.zeros(original.shape, bool)
        if self.beta:
            limit = jnp.log(self.beta) + original.max(axis=-1, keepdims=True)
            masked = original < limit
            # Masked after the subtraction: −inf − −inf would be NaN.
            fused = jnp.where(masked, -jnp.inf, fused)
        return Fused(fused, margin, margin_contrast, exact_to, masked.any(axis=-1))


Method = Base | CTCD


def alpha_exact_to(original: jax.Array, contrast: jax.Array, *, yes: int, no: int) -> jax.Array:
    """The largest α up to which Yes or No stays on top of the fused logits, float32[B].

    The score of token v is the line z_v + α d_v with d = z_ori − z_con. A third token is above
    Yes on one half line of α and above No on another; it wins first at the lower end of their
    intersection. inf when no token ever wins; 0 when one wins already at α = 0. Ties go to Yes/No.
    """
    slope = original - contrast
    low, high = jnp.zeros_like(original), jnp.full_like(original, jnp.inf)
    for answer in (yes, no):
        gap = original - original[:, answer, None]  # ahead of the answer at α = 0
        gain = slope - slope[:, answer, None]
        crossing = -gap / jnp.where(gain == 0, 1, gain)
        never = (gain == 0) & (gap <= 0)
        low = jnp.where(gain > 0, jnp.maximum(low, crossing), low)
        high = jnp.where(gain < 0, jnp.minimum(high, crossing), high)
        high = jnp.where(never, -jnp.inf, high)
    wins_from = jnp.where(low < high, low, jnp.inf)  # [B, vocabulary]
    return wins_from.at[:, jnp.array([yes, no])].set(jnp.inf).min(axis=-1)
