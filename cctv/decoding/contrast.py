"""The decoding methods: small frozen dataclasses whose `fuse` is a pure function of logits.

A method runs K branches of the same text: branch 0 sees the video itself, branch 1 the contrast.
z_t = (1+α) z_ori − α z_con (paper, section 5, equation 16); α = 0 is plain decoding.
"""

import math
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
class VCD:
    """Visual contrastive decoding (arXiv 2311.16922): the contrast is the video under noise.

    x_t = √ᾱ_t x_0 + √(1−ᾱ_t) ε on the normalised pixels at t = `noise_step` of the 1,000 steps of
    VCD's own code. `beta` as in `contrast`.
    """

    noise_step: int = 500
    beta: float = 0.0

    name: ClassVar[str] = "vcd"
    branches: ClassVar[int] = 2

    def __post_init__(self):
        if not 0 <= self.noise_step < NOISE_STEPS:
            raise ValueError(f"vcd.noise_step={self.noise_step} must be 0 to {NOISE_STEPS - 1}")
        _check_beta(self.beta)

    def fuse(self, z: jax.Array, *, alpha: jax.Array, yes: int, no: int) -> Fused:
        """See `contrast`."""
        return contrast(z, alpha=alpha, beta=self.beta, yes=yes, no=no)


@dataclass(frozen=True, kw_only=True)
class TCD:
    """Temporal contrastive decoding: the contrast is the video with most of its time removed.

    `num_frames` n frames are kept (None: a quarter), evenly spread. mode "repeat": every slot shows
    the kept frame that its place falls to and keeps its own time stamp, so prompts stay as long;
    "drop": the video is the kept frames alone. No reference code was released; this is ours.
    """

    num_frames: int | None = None
    mode: str = "repeat"
    beta: float = 0.0

    name: ClassVar[str] = "tcd"
    branches: ClassVar[int] = 2

    def __post_init__(self):
        if self.num_frames is not None and self.num_frames < 1:
            raise ValueError(f"tcd.num_frames={self.num_frames} must be at least 1")
        if self.mode not in TCD_MODES:
            raise ValueError(f"tcd.mode={self.mode!r} must be one of {TCD_MODES}")
        _check_beta(self.beta)

    def kept(self, total: int) -> list[int]:
        """Which of `total` frames are kept: round(linspace(0, F-1, n))."""
        n = min(self.num_frames or max(1, total // 4), total)
        return [round(i * (total - 1) / max(n - 1, 1)) for i in range(n)]

    def fuse(self, z: jax.Array, *, alpha: jax.Array, yes: int, no: int) -> Fused:
        """See `contrast`."""
        return contrast(z, alpha=alpha, beta=self.beta, yes=yes, no=no)


@dataclass(frozen=True, kw_only=True)
class CTCD:
    """C-TCD (the paper): the contrast is the scene's other video. `beta` as in `contrast`."""

    beta: float = 0.0

    name: ClassVar[str] = "c_tcd"
    branches: ClassVar[int] = 2

    def __post_init__(self):
        _check_beta(self.beta)

    def fuse(self, z: jax.Array, *, alpha: jax.Array, yes: int, no: int) -> Fused:
        """See `contrast`."""
        return contrast(z, alpha=alpha, beta=self.beta, yes=yes, no=no)


Method = Base | VCD | TCD | CTCD
NOISE_STEPS = 1000
TCD_MODES = ("repeat", "drop")


def _check_beta(beta: float) -> None:
    if not 0 <= beta <= 1:
        raise ValueError(f"beta={beta} must lie between 0 (off) and 1")


def noise_scales(step: int) -> tuple[float, float]:
    """(√ᾱ, √(1−ᾱ)) at a step of VCD's schedule: β on a sigmoid ramp from 1e-5 to 5e-3."""
    alpha_bar = 1.0
    for i in range(step + 1):
        ramp = -6 + 12 * i / (NOISE_STEPS - 1)
        beta = (5e-3 - 1e-5) / (1 + math.exp(-ramp)) + 1e-5
        alpha_bar *= 1 - beta
    return math.sqrt(alpha_bar), math.sqrt(1 - alpha_bar)


def contrast(z: jax.Array, *, alpha: jax.Array, beta: float, yes: int, no: int) -> Fused:
    """Equation 16 on z: float32[2, B, vocabulary], original and contrast; alpha: a scalar α ≥ 0.

    `beta` in (0, 1] is VCD's adaptive plausibility constraint (arXiv 2311.16922, section 3.3):
    tokens with z_ori < log β + max z_ori can't win; 0 turns it off, as equation 16 has none.
    """
    original, other = z
    fused = (1 + alpha) * original - alpha * other
    margin = fused[:, yes] - fused[:, no]
    masked = jnp.zeros(original.shape, bool)
    if beta:
        masked = original < jnp.log(beta) + original.max(axis=-1, keepdims=True)
        # Masked after the subtraction: −inf − −inf would be NaN.
        fused = jnp.where(masked, -jnp.inf, fused)
    exact_to = alpha_exact_to(original, other, yes=yes, no=no, masked=masked)
    return Fused(fused, margin, other[:, yes] - other[:, no], exact_to, masked.any(axis=-1))


def alpha_exact_to(
    original: jax.Array, other: jax.Array, *, yes: int, no: int, masked: jax.Array | None = None
) -> jax.Array:
    """The largest α up to which the sign of the fused margin is the answer, float32[B].

    The score of token v is the line z_v + α d_v with d = z_ori − z_con. A third token is above
    Yes on one half line of α and above No on another; it wins first at the lower end of their
    intersection. inf when no token ever wins; 0 when one wins already at α = 0. Ties go to Yes/No.
    masked: bool[B, vocabulary], tokens that can't win; with Yes or No among them it is 0.
    """
    slope = original - other
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
    answers = jnp.array([yes, no])
    if masked is not None:
        wins_from = jnp.where(masked, jnp.inf, wins_from)
    first = wins_from.at[:, answers].set(jnp.inf).min(axis=-1)
    return first if masked is None else jnp.where(masked[:, answers].any(axis=-1), 0, first)
