"""Runs a scene through a model: vision once a video, then batches of questions, jitted.

One call of `generate` is the prefill and the whole token loop of one batch of rows under one
method. The branches of a method (original and contrast) are one vmapped pass over a leading axis
K; each has its own cache, mask and positions, and both are stepped with the same tokens. Shapes
are bucketed, so that a benchmark compiles a handful of programs.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cctv.decoding.contrast import Method
from cctv.models.base import Encoder, Model, Prompt
from cctv.models.decoder import Cache


class Answers(NamedTuple):
    """What one batch answered, B rows.

    tokens int32[B, T] generated ids, count int32[B] how many of them are the answer (the stop
    token is not), and float32[B] of the first answer token: margin, margin_contrast, exact_to
    (see `contrast.Fused`); masked, finite bool[B] (every logit of every branch and step).
    """

    tokens: np.ndarray
    count: np.ndarray
    margin: np.ndarray
    margin_contrast: np.ndarray
    exact_to: np.ndarray
    masked: np.ndarray
    finite: np.ndarray


class Batch(NamedTuple):
    """K branches of B rows, padded to S tokens. Arrays as in `Prompt`, with axes [K, B, …].

    length int32[K, B] is the number of real tokens; padding stands behind them.
    """

    tokens: np.ndarray
    positions: np.ndarray
    visual: np.ndarray
    length: np.ndarray
    next_position: np.ndarray


def bucket(n: int, *, least: int = 64) -> int:
    """The shape that n is padded to: a multiple of a quarter of its power of two, at most 25 %
    more, and never below `least`."""
    if n <= least:
        return least
    step = max(2 ** ((n - 1).bit_length() - 3), 1)
    return -(-n // step) * step


def pad_batch(
    branches: Sequence[Sequence[Prompt]], offsets: Sequence[Sequence[int]], *, rows: int, size: int
) -> Batch:
    """Stacks K lists of prompts into a batch of `rows` rows of `size` tokens.

    offsets[k][b] is where the visual tokens of that prompt's video begin in the feature table.
    Missing rows repeat the last one; their answers are to be dropped.
    """
    k = len(branches)
    tokens, visual = np.zeros((k, rows, size), np.int32), np.full((k, rows, size), -1, np.int32)
    positions = np.zeros((k, rows, size, 3), np.int32)
    length, following = np.zeros((k, rows), np.int32), np.zeros((k, rows), np.int32)
    for i in range(k):
        for j in range(rows):
            at = min(j, len(branches[i]) - 1)
            p, n = branches[i][at], len(branches[i][at].tokens)
            tokens[i, j, :n], positions[i, j, :n] = p.tokens, p.positions
            visual[i, j, :n] = np.where(p.visual < 0, -1, p.visual + offsets[i][at])
            length[i, j], following[i, j] = n, p.next_position
    return Batch(tokens, positions, visual, length, following)


class Engine:
    """A model with its host-side encoder, compiled on demand.

    `batch` rows run together; `vision_batch` temporal groups are encoded together.
    """

    def __init__(
        self,
        model: Model,
        encoder: Encoder,
        *,
        batch: int = 8,
        vision_batch: int = 8,
        max_new_tokens: int = 16,
    ):
        for name, value in (("batch", batch), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        self.model, self.encoder = model, encoder
        self.batch, self.vision_batch, self.max_new_tokens = batch, vision_batch, max_new_tokens
        self.dtype = jax.tree.leaves(model)[0].dtype
        self._caches: dict[tuple[int, int], Cache] = {}

    def encode_videos(self, clips: Sequence) -> tuple[jax.Array, list[int]]:
        """Features of several videos as one table float[V', 1 + E, D] and where each begins."""
        parts, offsets, total = [], [], 0
        for clip in clips:
            features = self._encode(self.encoder.vision_inputs(clip))
            offsets.append(total)
            total += len(features)
            parts.append(features)
        table = jnp.concatenate(parts)
        return jnp.pad(table, ((0, bucket(total) - total), (0, 0), (0, 0))), offsets

    def _encode(self, inputs) -> jax.Array:
        """float[V, 1 + E, D] of one video, encoded `vision_batch` groups at a time."""
        groups, patches = inputs.mask.shape
        size = bucket(patches)
        out = []
        for first in range(0, groups, self.vision_batch):
            part = [a[first : first + self.vision_batch] for a in inputs]
            n = len(part[0])
            widths = [(0, self.vision_batch - n), (0, size - patches)]
            part = [np.pad(a, widths + [(0, 0)] * (a.ndim - 2)) for a in part]
            features = encode_video(self.model, type(inputs)(*part))  # [G, V, 1 + E, D]
            merged = features.shape[1] * patches // size
            out.append(features[:n, :merged].reshape(-1, *features.shape[2:]))
        return jnp.concatenate(out)

    def answer(
        self,
        branches: Sequence[Sequence[Prompt]],
        offsets: Sequence[Sequence[int]],
        *,
        features: jax.Array,
        method: Method,
        alpha: float,
    ) -> Answers:
        """Answers of at most `batch` rows; branches[k][b] is row b's prompt in branch k.

        The longest prompt of all branches decides the padded size. The result is on the host.
        """
        if len(branches) != method.branches or not 0 < len(branches[0]) <= self.batch:
            raise ValueError(
                f"{method.name} takes {method.branches} branches of 1 to {self.batch} rows, got "
                f"{len(branches)} of {len(branches[0]) if branches else 0}"
            )
        size = bucket(max(len(p.tokens) for branch in branches for p in branch))
        batch = pad_batch(branches, offsets, rows=self.batch, size=size)
        yes, no = self.encoder.answer_ids
        # The cache is handed over and comes back: the next batch of this shape writes into it.
        key = (method.branches, size)
        cache = self._caches.pop(key, None)
        if cache is None:
            self._caches.clear()  # one cache at a time on the device
            cache = Cache.zeros(
                self.model.decoder_config,
                batch=(method.branches, self.batch),
                slots=size + self.max_new_tokens,
                dtype=self.dtype,
            )
        answers, cache = generate(
            self.model, features, batch, cache, jnp.float32(alpha),
            method=method, yes=yes, no=no, stop=tuple(self.encoder.stop_ids),
            max_new_tokens=self.max_new_tokens,
        )  # fmt: skip
        self._caches[key] = cache
        return Answers(*(a[: len(branches[0])] for a in jax.device_get(answers)))


@jax.jit
def encode_video(model: Model, inputs) -> jax.Array:
    """`model.encode_video`, compiled once a shape."""
    return model.encode_video(inputs)


class _State(NamedTuple):
    """The token loop's carry. step: how many tokens were generated; token int32[B], the last."""

    step: jax.Array
    token: jax.Array
    done: jax.Array
    count: jax.Array
    tokens: jax.Array
    finite: jax.Array
    cache: Cache


@functools.partial(
    jax.jit,
    static_argnames=("method", "yes", "no", "stop", "max_new_tokens"),
    donate_argnames="cache",
)
def generate(
    model: Model,
    features: jax.Array,
    batch: Batch,
    cache: Cache,
    alpha: jax.Array,
    *,
    method: Method,
    yes: int,
    no: int,
    stop: tuple[int, ...],
    max_new_tokens: int,
) -> tuple[Answers, Cache]:
    """Prefill of all branches in one vmapped pass, then greedy steps until every row is done.

    features: float[V', 1 + E, D]; cache: float[K, L, B, S + max_new_tokens, KV, H] twice; alpha:
    float32 scalar. A row is done when its first token is exactly Yes or No, or at a stop token.
    """
    k, rows, size = batch.tokens.shape
    slots = jnp.arange(size + max_new_tokens)
    real = slots < jnp.asarray(batch.length)[..., None]  # [K, B, slots]
    causal = slots[None, :] <= slots[:size, None]  # [T, slots]

    def prefill(tokens, positions, visual, real, length, cache):
        hidden, cache = model(
            tokens, positions=positions, visual=visual, features=features,
            mask=causal & real[:, None], cache=cache, start=0,
        )  # fmt: skip
        last = jnp.take_along_axis(hidden, (length - 1)[:, None, None], axis=1)[:, 0]  # [B, D]
        return model.logits(last), cache

    def step(token, position, visible, start, cache):
        hidden, cache = model.step(
            token[:, None], positions=position, mask=visible[:, None], cache=cache, start=start
        )
        return model.logits(hidden[:, 0]), cache

    z, cache = jax.vmap(prefill)(
        batch.tokens, batch.positions, batch.visual, real, batch.length, cache
    )  # [K, B, vocabulary]
    first = method.fuse(z, alpha=alpha, yes=yes, no=no)
    token = pick(first.logits, yes=yes, no=no)
    stops = jnp.asarray(stop, jnp.int32)
    ended = jnp.isin(token, stops)
    state = _State(
        step=jnp.int32(1),
        token=token,
        done=ended | (token == yes) | (token == no),
        count=jnp.where(ended, 0, 1),
        tokens=jnp.zeros((rows, max_new_tokens), jnp.int32).at[:, 0].set(token),
        finite=_finite(z),
        cache=cache,
    )

    def more(s: _State):
        return (s.step < max_new_tokens) & ~s.done.all()

    def body(s: _State) -> _State:
        start = size + s.step - 1  # the slot of the token that is fed now
        visible = real | ((slots >= size) & (slots <= start))
        position = jnp.broadcast_to(
            (batch.next_position + s.step - 1)[..., None, None], (k, rows, 1, 3)
        )
        z, cache = jax.vmap(step, in_axes=(None, 0, 0, None, 0))(
            s.token, position, visible, start, s.cache
        )
        fused = method.fuse(z, alpha=alpha, yes=yes, no=no)
        token = pick(fused.logits, yes=yes, no=no)
        done = s.done | jnp.isin(token, stops)
        return _State(
            step=s.step + 1,
            token=token,
            done=done,
            count=s.count + ~done,
            tokens=s.tokens.at[:, s.step].set(token),
            finite=s.finite & (s.done | _finite(z)),
            cache=cache,
        )

    end = jax.lax.while_loop(more, body, state)
    answers = Answers(
        end.tokens, end.count, first.margin, first.margin_contrast, first.exact_to, first.masked,
        end.finite,
    )  # fmt: skip
    return answers, end.cache


def pick(logits: jax.Array, *, yes: int, no: int) -> jax.Array:
    """Greedy token int32[B] of float[B, vocabulary]; a tie between Yes and No is No."""
    token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return jnp.where((token == yes) & (logits[:, yes] == logits[:, no]), no, token)


def _finite(z: jax.Array) -> jax.Array:
    """bool[B] of float[K, B, vocabulary]."""
    return jnp.isfinite(z).all(axis=(0, 2))
