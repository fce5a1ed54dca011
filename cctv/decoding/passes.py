"""The compiled passes of the scene engine, over a vmapped axis of streams.

    encode_video   groups of frames         -> features     float[V', 1 + E, D]
    read_prefix    what all questions share -> keys, values [streams, L, 1, P, K, H]
    answer         the rest of each prompt  -> first logits [streams, Q, vocabulary], first tokens
    go_on          where those don't end it -> further tokens; compiled only when it is needed

Axis letters as in `cctv.models`; Q questions of a stream, V streams that a job answers about.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cctv.decoding.contrast import Method
from cctv.models.base import Model
from cctv.models.decoder import Cache, Prefix


class Job(NamedTuple):
    """One method on some streams: numbers of the streams to answer about and of their contrasts."""

    method: Method
    originals: tuple[int, ...]
    contrasts: tuple[int, ...] = ()


class Answers(NamedTuple):
    """What one job answered: V streams, Q questions.

    tokens int32[V, Q, T] generated ids, count int32[V, Q] how many of them are the answer (the stop
    token is not), and float32[V, Q] of the first answer token: margin, margin_contrast, exact_to
    (see `contrast.Fused`); masked, finite bool[V, Q] (every logit of every branch and step).
    """

    tokens: np.ndarray
    count: np.ndarray
    margin: np.ndarray
    margin_contrast: np.ndarray
    exact_to: np.ndarray
    masked: np.ndarray
    finite: np.ndarray


class Tokens(NamedTuple):
    """Padded parts of prompts, int32[…, T] with positions int32[…, T, 3].

    rows: where in the feature table a visual token's feature stands, -1 for text.
    """

    ids: np.ndarray
    positions: np.ndarray
    rows: np.ndarray


class Suffixes(NamedTuple):
    """What is left of each prompt after its stream's prefix, padded on the left to T tokens.

    tokens [streams, Q, T]; pad int32[streams, Q], how many tokens are padding; next_position
    int32[streams, Q], the rotary position of the first generated token.
    """

    tokens: Tokens
    pad: np.ndarray
    next_position: np.ndarray


class Noise(NamedTuple):
    """VCD's noise for some groups: a key of the video, the groups' numbers, the two scales."""

    key: jax.Array
    group: np.ndarray
    scales: np.ndarray


@jax.jit
def encode_video(model: Model, inputs, noise: Noise | None) -> jax.Array:
    """`model.encode_video`, of patches under noise where there is one.

    The noise of a patch is drawn from (seed, video, group, patch), so neither padding nor what else
    is encoded changes it.
    """
    if noise is not None:
        _, patches, size = inputs.patches.shape

        def draw(group, patch):
            key = jax.random.fold_in(jax.random.fold_in(noise.key, group), patch)
            return jax.random.normal(key, (size,))

        draw = jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None))
        keep, add = noise.scales
        noisy = keep * inputs.patches + add * draw(noise.group, jnp.arange(patches))
        inputs = inputs._replace(patches=noisy)
    return model.encode_video(inputs)


def _axes(prefixes: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """vmap axes over streams: a part whose cache has no stream axis is common to all."""
    return tuple(Prefix(0 if p.cache.k.ndim == 6 else None, 0) for p in prefixes)


@jax.jit
def read_prefix(
    model: Model, features: jax.Array, tokens: Tokens, before: tuple[Prefix, ...]
) -> Cache:
    """Keys and values of the tokens [streams, P] of each stream, float[streams, L, 1, P, K, H]."""
    dtype = features.dtype

    def one(tokens: Tokens, before):
        size = tokens.ids.shape[0]
        cache = Cache.zeros(model.decoder_config, batch=1, slots=size, dtype=dtype)
        ids, positions, rows = (a[None] for a in tokens)
        _, cache = model(
            ids, positions=positions, cache=cache, start=0, prefix=before, features=features,
            rows=rows, cache_only=True,
        )  # fmt: skip
        return cache

    return jax.vmap(one, in_axes=(0, _axes(before)))(tokens, before)


class First(NamedTuple):
    """What a job made of the first logits, [V, Q] each: the token, and the rest as in `Answers`."""

    token: jax.Array
    finite: jax.Array
    margin: jax.Array
    margin_contrast: jax.Array
    exact_to: jax.Array
    masked: jax.Array


@functools.partial(jax.jit, static_argnames=("jobs", "yes", "no", "room"))
def answer(
    model: Model,
    features: jax.Array | None,
    prefixes: tuple[Prefix, ...],
    suffixes: Suffixes,
    alphas: jax.Array,
    *,
    jobs: tuple[Job, ...],
    yes: int,
    no: int,
    room: int,
) -> tuple[list[First], Cache]:
    """All questions of all streams in one vmapped pass, then what each job makes of the logits.

    features is None when no suffix has a visual token. Also the suffixes' keys and values,
    float[streams, L, Q, T + room, K, H], with room for that many further tokens.
    """
    dtype = prefixes[0].cache.k.dtype

    def one(tokens: Tokens, pad, prefixes):
        rows, size = tokens.ids.shape
        cache = Cache.zeros(model.decoder_config, batch=rows, slots=size + room, dtype=dtype)
        hidden, cache = model(
            tokens.ids, positions=tokens.positions, cache=cache, start=0, first=pad,
            prefix=prefixes, features=features, rows=None if features is None else tokens.rows,
        )  # fmt: skip
        return model.logits(hidden[:, -1]), cache

    axes = (0, 0, _axes(prefixes))
    z, caches = jax.vmap(one, in_axes=axes)(suffixes.tokens, suffixes.pad, prefixes)
    made = [_fuse(z[_branches(job)], job, alphas[i], yes=yes, no=no) for i, job in enumerate(jobs)]
    return made, caches


def _branches(job: Job) -> np.ndarray:
    """int[K, V], the stream of each branch of each video."""
    return np.array([job.originals, job.contrasts][: job.method.branches])


def _fuse(z: jax.Array, job: Job, alpha: jax.Array, *, yes: int, no: int) -> First:
    """What a method makes of float32[K, V, Q, vocabulary]."""
    flat = z.reshape(z.shape[0], -1, z.shape[-1])
    fused = job.method.fuse(flat, alpha=alpha, yes=yes, no=no)
    token = pick(fused.logits, yes=yes, no=no)
    finite = jnp.isfinite(flat).all(axis=(0, 2))
    return First(*(a.reshape(z.shape[1:3]) for a in (token, finite, *fused[1:])))


class _State(NamedTuple):
    """The token loop's carry, over rows [V, Q]. step: how many tokens were generated; token: the
    last one; caches: those of each branch, leading axes [K, V]."""

    step: jax.Array
    token: jax.Array
    done: jax.Array
    count: jax.Array
    tokens: jax.Array
    finite: jax.Array
    caches: Cache


@functools.partial(jax.jit, static_argnames=("job", "yes", "no", "stop", "max_new_tokens"))
def go_on(
    model: Model,
    prefixes: tuple[Prefix, ...],
    suffixes: Suffixes,
    caches: Cache,
    first: First,
    alpha: jax.Array,
    *,
    job: Job,
    yes: int,
    no: int,
    stop: tuple[int, ...],
    max_new_tokens: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Further tokens of a job whose first tokens are not all Yes, No or a stop token, greedily.

    Both branches of a row are stepped with the same tokens, each on a cache of its own: nothing of
    one leaks into the other, or into another job. Returns tokens, count and finite of `Answers`.
    """
    branches, stops = _branches(job), jnp.asarray(stop, jnp.int32)
    _, q, size = suffixes.tokens.ids.shape

    def step(token, position, pad, cache, prefixes, start):
        """Logits float32[Q, vocabulary] after one token int[Q] of one stream."""
        position = jnp.broadcast_to(position[:, None, None], (q, 1, 3))
        hidden, cache = model(
            token[:, None], positions=position, cache=cache, start=start, first=pad,
            prefix=prefixes,
        )  # fmt: skip
        return model.logits(hidden[:, 0]), cache

    axes = _axes(prefixes)
    step = jax.vmap(step, in_axes=(0, 0, 0, 0, axes, None))  # over V
    step = jax.vmap(step, in_axes=(None, 0, 0, 0, axes, None))  # over K: the same tokens

    def chosen(tree):
        return jax.tree.map(lambda a: jnp.asarray(a)[branches], tree)

    own = tuple(
        chosen(p) if p.cache.k.ndim == 6 else Prefix(p.cache, chosen(p.length)) for p in prefixes
    )
    pad, following = chosen(suffixes.pad), chosen(suffixes.next_position)

    def body(s: _State) -> _State:
        z, moved = step(s.token, following + s.step - 1, pad, s.caches, own, size + s.step - 1)
        token, finite, *_ = _fuse(z, job, alpha, yes=yes, no=no)
        done = s.done | jnp.isin(token, stops)
        return _State(
            step=s.step + 1,
            token=token,
            done=done,
            count=s.count + ~done,
            tokens=s.tokens.at[..., s.step].set(token),
            finite=s.finite & (s.done | finite),
            caches=moved,
        )

    ended = jnp.isin(first.token, stops)
    start = _State(
        step=jnp.int32(1),
        token=first.token,
        done=ended | (first.token == yes) | (first.token == no),
        count=jnp.where(ended, 0, 1),
        tokens=jnp.zeros((*first.token.shape, max_new_tokens), jnp.int32)
        .at[..., 0]
        .set(first.token),
        finite=first.finite,
        caches=chosen(caches),
    )
    end = jax.lax.while_loop(lambda s: (s.step < max_new_tokens) & ~s.done.all(), body, start)
    return end.tokens, end.count, end.finite


def pick(logits: jax.Array, *, yes: int, no: int) -> jax.Array:
    """Greedy token int32[B] of float[B, vocabulary]; a tie between Yes and No is No."""
    token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return jnp.where((token == yes) & (logits[:, yes] == logits[:, no]), no, token)
