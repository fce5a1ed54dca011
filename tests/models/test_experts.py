"""The sparse MLP against a plain loop over tokens and experts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from cctv.models.decoder import DecoderConfig
from cctv.models.experts import Experts, run

WIDTH, MLP = 8, 6


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


def experts(count, active, *, seed=0):
    """Weights large enough that the router decides."""
    model = Experts(WIDTH, MLP, count=count, active=active, rngs=nnx.Rngs(seed))
    return jax.tree.map(lambda w: 30 * w, model)


def swiglu(x, gate_up, down):
    gate, up = x @ gate_up[:, 0], x @ gate_up[:, 1]
    return (gate / (1 + np.exp(-gate)) * up) @ down


def plain(model, x, active):
    """float64[T, D], token by token."""
    router, gate_up, down = (
        np.asarray(w[...], np.float64) for w in (model.router.kernel, model.gate_up, model.down)
    )
    out = np.zeros(x.shape)
    for i, token in enumerate(np.asarray(x, np.float64)):
        shares = np.exp(token @ router - (token @ router).max())
        chosen = np.argsort(-shares)[:active]
        for e in chosen:
            out[i] += shares[e] / shares[chosen].sum() * swiglu(token, gate_up[e], down[e])
    return out


# Fewer tokens than experts, many blocks an expert, all experts.
@pytest.mark.parametrize(("tokens", "count", "active"), [(5, 16, 3), (300, 4, 2), (33, 5, 5)])
def test_against_a_plain_loop(tokens, count, active):
    model = experts(count, active)
    x = np.random.default_rng(tokens).standard_normal((tokens, WIDTH)).astype(np.float32)
    expected = plain(model, x, active)
    got = np.asarray(jax.jit(lambda m, x: m(x))(model, x))
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


@given(loads=st.lists(st.integers(0, 40), min_size=4, max_size=4).filter(any))
@settings(max_examples=15, deadline=None)
def test_no_token_is_dropped_however_uneven_the_load(loads):
    """Any numbers of tokens an expert, in any order; 41 tokens, so that one program does."""
    rng = np.random.default_rng(sum(loads))
    chosen = rng.permutation(np.repeat(range(4), loads))[:41]
    chosen = np.concatenate([chosen, np.full(41 - len(chosen), chosen[0])])[:, None]
    model = experts(4, 1)
    x = rng.standard_normal((41, WIDTH)).astype(np.float32)
    got = RUN(x, chosen, np.ones((41, 1), np.float32), model.gate_up[...], model.down[...])
    expected = [
        swiglu(x[i], np.asarray(model.gate_up[e]), np.asarray(model.down[e]))
        for i, (e,) in enumerate(chosen)
    ]
    np.testing.assert_allclose(got, expected, atol=1e-4)


RUN = jax.jit(run)


def test_vmapped_and_scanned_as_the_engine_does():
    """Streams and branches are vmapped axes, layers a scan inside of them."""
    model = experts(6, 2)
    layers = jax.tree.map(lambda w: jnp.stack([w, w[::-1]]), model)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5, WIDTH)).astype(np.float32)

    def one(x):
        return jax.lax.scan(lambda h, layer: (layer(h), None), x, layers)[0]

    got = jax.jit(jax.vmap(jax.vmap(one)))(x)
    expected = x.reshape(-1, WIDTH)
    for i in range(2):
        expected = plain(jax.tree.map(lambda w, i=i: w[i], layers), expected, 2)
    np.testing.assert_allclose(got, expected.reshape(x.shape), atol=1e-4 * np.abs(expected).max())


def test_weights_that_differ_along_the_axis_are_refused():
    model = experts(4, 2)
    many = jax.tree.map(lambda w: jnp.stack([w, w]), model)
    with pytest.raises(NotImplementedError, match="differ along a vmapped axis"):
        jax.vmap(lambda m: m(jnp.ones((3, WIDTH))))(many)


def test_a_token_that_is_not_finite_spoils_no_other():
    model = experts(4, 2)
    x = np.random.default_rng(0).standard_normal((9, WIDTH)).astype(np.float32)
    bad = x.copy()
    bad[4] = np.nan
    a, b = (np.asarray(model(v)) for v in (x, bad))
    assert np.isnan(b[4]).all()
    np.testing.assert_allclose(np.delete(a, 4, 0), np.delete(b, 4, 0), atol=1e-6)


@pytest.mark.parametrize("active", [0, 5])
def test_a_config_of_too_many_experts(active):
    with pytest.raises(ValueError, match=f"{active} experts per token must be 1 to 4"):
        DecoderConfig(
            vocab_size=9, width=8, mlp_dim=6, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=8,
            rope_theta=1e4, num_experts=4, experts_per_token=active,
        )  # fmt: skip
