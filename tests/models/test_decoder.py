"""Attention and the decoder on their own: plain numpy, blocks, shared prefixes, left padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cctv.models import layers
from cctv.models.decoder import BLOCK, Cache, Decoder, DecoderConfig, Prefix, attend_causally
from cctv.models.layers import Segment, attend


@pytest.fixture(scope="module", autouse=True)
def exact_matmuls():
    with jax.default_matmul_precision("highest"):
        yield


def arrays(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def plain(q, k, v, mask):
    """Loops in float64. q [B, T, N, H], k and v [B, S, K, H], mask [B, T, S]."""
    out = np.zeros(q.shape)
    for b, t, n in np.ndindex(q.shape[:3]):
        head = n // (q.shape[2] // k.shape[2])
        scores = k[b, :, head].astype(float) @ q[b, t, n] / np.sqrt(q.shape[3])
        weights = np.where(mask[b, t], np.exp(scores - scores[mask[b, t]].max()), 0)
        out[b, t, n] = weights @ v[b, :, head] / weights.sum()
    return out


def test_attend_against_loops():
    q, k, v = arrays(0, (2, 5, 6, 4), (2, 7, 3, 4), (2, 7, 3, 4))
    mask = np.random.default_rng(1).random((2, 5, 7)) < 0.6
    mask[..., 0] = True
    np.testing.assert_allclose(attend(q, Segment(k, v, mask)), plain(q, k, v, mask), atol=1e-5)


def test_cascade_equals_one_softmax():
    """A shared segment and an own one, merged, against all keys side by side."""
    q, k, v, ks, vs = arrays(2, (3, 4, 4, 8), *[(3, 6, 2, 8)] * 2, *[(1, 9, 2, 8)] * 2)
    own = np.tril(np.ones((4, 6), bool), 2)
    shared = np.arange(9) < 7
    got = attend(q, Segment(ks, vs, shared), Segment(k, v, own))
    both = [np.concatenate([np.repeat(a, 3, 0), b], 1) for a, b in ((ks, k), (vs, v))]
    mask = np.concatenate([np.broadcast_to(shared, (3, 4, 9)), np.broadcast_to(own, (3, 4, 6))], 2)
    np.testing.assert_allclose(got, plain(q, *both, mask), atol=1e-5)


def test_a_row_that_may_attend_nowhere_is_finite():
    q, k, v = arrays(3, (1, 2, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4))
    assert np.isfinite(attend(q, Segment(k, v, np.zeros((1, 2, 3), bool)))).all()


def test_row_by_row_changes_nothing(monkeypatch):
    q, k, v = arrays(4, (3, 8, 4, 8), (3, 9, 2, 8), (3, 9, 2, 8))
    mask = np.tril(np.ones((8, 9), bool), 1)
    expected = attend(q, Segment(k, v, mask))
    monkeypatch.setattr(layers, "_row_by_row", lambda q, segments: True)
    np.testing.assert_allclose(attend(q, Segment(k, v, mask)), expected, atol=1e-6)


@pytest.mark.parametrize("t", [BLOCK + 1, 3 * BLOCK, 2 * BLOCK + 7])
def test_blocks_of_a_long_input(t):
    q, k, v, kp, vp = arrays(5, (1, t, 4, 8), *[(1, t + 3, 2, 8)] * 2, *[(1, 5, 2, 8)] * 2)
    before = [Segment(kp, vp, np.arange(5) < 4)]
    mask = np.arange(t + 3) <= np.arange(t)[:, None]
    expected = attend(q, *before, Segment(k, v, mask))
    got = attend_causally(q, k, v, start=0, before=before)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_scores_of_a_long_input_never_stand_in_memory_whole():
    """720p for some seconds is 7,168 tokens: 16 heads of whole scores would take 3.3 GB."""
    q = jax.ShapeDtypeStruct((1, 7168, 16, 8), jnp.float32)
    k = jax.ShapeDtypeStruct((1, 7168, 8, 8), jnp.float32)
    jaxpr = jax.make_jaxpr(lambda q, k: attend_causally(q, k, k, start=0))(q, k)
    largest = max(v.aval.size for e in jaxpr.eqns for v in e.outvars)
    assert largest <= 16 * 7168 * 7168 / 7
    assert largest > 0


def decoder(**change):
    sizes = dict(vocab_size=50, width=32, mlp_dim=48, num_layers=3, num_heads=4, num_kv_heads=2,
                 head_dim=8, rope_theta=1e4, qk_norm=True)  # fmt: skip
    config = DecoderConfig(**(sizes | change))
    model = Decoder(config, rngs=nnx.Rngs(0))
    return jax.tree.map(lambda w: w + 0.1 * jnp.sin(jnp.arange(w.size)).reshape(w.shape), model)


def whole(model, tokens):
    n = tokens.shape[1]
    positions = jnp.broadcast_to(jnp.arange(n)[None, :, None], (*tokens.shape, 3))
    cache = Cache.zeros(model.config, batch=len(tokens), slots=n, dtype=jnp.float32)
    return model(model.embed(tokens), positions=positions, cache=cache, start=0)


@pytest.mark.parametrize("change", [{}, {"qk_norm": False, "qkv_bias": True}, {"num_layers": 1}])
def test_prefix_and_left_padded_suffixes_equal_one_pass(change):
    """Two questions of different length on one prefix, in two parts, against whole sequences."""
    model = decoder(**change)
    rng = np.random.default_rng(0)
    head, tails = rng.integers(0, 50, 9), [rng.integers(0, 50, 3), rng.integers(0, 50, 5)]
    parts, start = [], 0
    for end, slots in ((4, 6), (9, 8)):  # slots beyond the tokens stay empty
        ids = np.zeros((1, slots), int)
        ids[0, : end - start] = head[start:end]
        positions = np.broadcast_to(start + np.arange(slots)[None, :, None], (1, slots, 3))
        cache = Cache.zeros(model.config, batch=1, slots=slots, dtype=jnp.float32)
        hidden, cache = model(
            model.embed(ids), positions=positions, cache=cache, start=0, prefix=tuple(parts),
            cache_only=True,
        )  # fmt: skip
        assert hidden is None
        parts.append(Prefix(cache, jnp.int32(end - start)))
        start = end
    size = 6
    ids, pad = np.zeros((2, size), int), np.array([size - len(t) for t in tails])
    positions = np.zeros((2, size, 3), int)
    for i, tail in enumerate(tails):
        ids[i, pad[i] :] = tail
        positions[i, pad[i] :] = 9 + np.arange(len(tail))[:, None]
    cache = Cache.zeros(model.config, batch=2, slots=size + 2, dtype=jnp.float32)
    got, _ = model(
        model.embed(ids), positions=positions, cache=cache, start=0, first=pad, prefix=parts
    )
    for i, tail in enumerate(tails):
        expected, _ = whole(model, np.concatenate([head, tail])[None])
        np.testing.assert_allclose(got[i, -1], expected[0, -1], atol=2e-5)


def test_config_faults():
    with pytest.raises(ValueError, match="kv heads"):
        decoder(num_kv_heads=3)
    with pytest.raises(ValueError, match="mrope_section"):
        decoder(mrope_section=(1, 1, 1))


def test_rotary_axes():
    config = dict(mrope_section=(3, 2, 2), head_dim=14)
    interleaved = decoder(**config, mrope_interleaved=True).config.rotary_axis()
    assert interleaved.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert decoder(**config).config.rotary_axis().tolist() == [0, 0, 0, 1, 1, 2, 2]
