"""The contrastive algebra of the protocol (section 4) on logits alone."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.decoding.contrast import CTCD, Base, alpha_exact_to

YES, NO = 2, 5


def logits(seed, rows=3, size=8):
    return np.random.default_rng(seed).normal(size=(2, rows, size)).astype(np.float32) * 3


def ctcd(z, alpha, beta=0.0):
    return CTCD(beta=beta).fuse(jnp.asarray(z), alpha=jnp.float32(alpha), yes=YES, no=NO)


def plain_loop(original, contrast, alpha):
    return [(1 + alpha) * o - alpha * c for o, c in zip(original, contrast)]


def test_base_is_the_first_branch():
    z = logits(0)[:1]
    out = Base().fuse(jnp.asarray(z), alpha=jnp.float32(3.0), yes=YES, no=NO)
    np.testing.assert_array_equal(out.logits, z[0])
    np.testing.assert_array_equal(out.margin, z[0, :, YES] - z[0, :, NO])
    assert np.isnan(out.margin_contrast).all()
    assert np.isnan(out.exact_to).all()


def test_alpha_zero_is_plain_decoding():
    z = logits(1)
    np.testing.assert_array_equal(ctcd(z, 0.0).logits, z[0])


@given(st.integers(0, 10**6), st.floats(0, 8, width=32))
@settings(deadline=None, max_examples=50)
def test_equation_16_and_its_algebra(seed, alpha):
    z = logits(seed)
    forward, backward = ctcd(z, alpha), ctcd(z[::-1], alpha)
    for row in range(3):
        expected = plain_loop(z[0, row], z[1, row], alpha)
        np.testing.assert_allclose(forward.logits[row], expected, rtol=1e-5, atol=1e-4)
    base = z[:, :, YES] - z[:, :, NO]
    # The sum over v± is invariant, the difference is multiplied by 1 + 2α.
    np.testing.assert_allclose(forward.margin + backward.margin, base.sum(0), atol=2e-3)
    np.testing.assert_allclose(
        forward.margin - backward.margin, (1 + 2 * alpha) * (base[0] - base[1]), atol=2e-3
    )
    np.testing.assert_allclose(forward.margin_contrast, base[1], atol=1e-6)


def test_identical_videos_give_alpha_independent_answers():
    z = np.repeat(logits(3)[:1], 2, axis=0)
    for alpha in (0.5, 4.0):
        np.testing.assert_allclose(ctcd(z, alpha).logits, z[0], atol=1e-5)


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_alpha_exact_to_against_a_grid(seed):
    """Up to the returned α Yes or No is the argmax on a fine grid; just behind it, it is not."""
    original, contrast = logits(seed, rows=4)
    original[:, YES] += 2
    limit = np.asarray(alpha_exact_to(original, contrast, yes=YES, no=NO))
    for row in range(4):
        grid = np.linspace(0, 20, 4001)
        scores = np.outer(1 + grid, original[row]) - np.outer(grid, contrast[row])
        third = ~np.isin(scores.argmax(1), [YES, NO])
        first = grid[third.argmax()] if third.any() else np.inf
        if np.isinf(first):
            assert limit[row] > 19.9
        else:
            assert first - 0.0051 <= limit[row] <= first + 1e-3


def test_alpha_exact_to_edges():
    original = np.zeros((1, 8), np.float32)
    original[0, YES] = 1.0
    assert np.isinf(alpha_exact_to(original, original, yes=YES, no=NO)).all()
    original[0, 0] = 2.0  # a third token leads already
    assert alpha_exact_to(original, original, yes=YES, no=NO)[0] == 0
    original[0, 0] = 1.0  # a tie with Yes, for ever
    assert np.isinf(alpha_exact_to(original, original, yes=YES, no=NO)).all()


def test_plausibility_masks_before_the_argmax_and_keeps_the_margin():
    """cases.md 20: no -inf minus -inf; the margin is that of the unmasked logits."""
    z = logits(4)
    z[0, :, 0] = 30.0
    out, free = ctcd(z, 1.0, beta=0.1), ctcd(z, 1.0)
    assert out.masked.all()
    assert not np.isnan(out.logits).any()
    np.testing.assert_array_equal(out.margin, free.margin)
    assert (np.asarray(out.logits).argmax(-1) == 0).all()
    assert not free.masked.any()


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_alpha_exact_to_under_plausibility(seed):
    """Up to it the answer of the masked logits is the sign of the margin, on a grid of α."""
    z = logits(seed, rows=4)
    z[0, :, YES] += 2
    for alpha in np.linspace(0, 6, 61):
        out = ctcd(z, alpha, beta=0.2)
        exact = np.asarray(out.exact_to) > alpha + 1e-4
        winner = np.where(np.asarray(out.margin) > 0, YES, NO)
        np.testing.assert_array_equal(np.asarray(out.logits).argmax(-1)[exact], winner[exact])


def test_beta_out_of_range():
    with pytest.raises(ValueError, match="beta"):
        CTCD(beta=1.5)
