"""The scene engine: one prefix a video, every question, every method in one pass.

A *stream* is a video in one form (itself, under VCD's noise, with TCD's frames) with all questions
about it. Vision features are computed once a distinct group of frames, the keys and values of a
stream's prefix once a stream; then all questions of all streams run as batched suffixes against
them (cascade attention). Streams are a vmapped axis, so a scene's two videos, the original and the
contrast of every method, are one pass, and C-TCD is read off the base logits.

Shapes are bucketed: a benchmark compiles a handful of programs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from cctv.decoding import sharding
from cctv.decoding.contrast import noise_scales
from cctv.decoding.passes import (
    Answers,
    Job,
    Noise,
    Suffixes,
    Tokens,
    answer,
    encode_video,
    go_on,
    read_prefix,
)
from cctv.models.base import Encoder, Model, Prompt
from cctv.models.decoder import Prefix

# Shapes are padded: prefixes, features and patches to a bucket of at least this many, questions and
# the tokens of their suffixes to multiples.
PREFIX, QUESTIONS, SUFFIX = 64, 4, 8


class Stream(NamedTuple):
    """One form of one video and the prompts of all questions about it.

    noise_step: VCD's step, None for none. owner: streams of equal owner share the features of equal
    groups of frames.
    """

    clip: object
    prompts: Sequence[Prompt]
    noise_step: int | None = None
    owner: str = ""


def bucket(n: int, *, least: int) -> int:
    """The shape that n is padded to: a multiple of an eighth of its power of two, at most 12.5 %
    more, and never below `least`."""
    if n <= least:
        return least
    step = max(2 ** ((n - 1).bit_length() - 4), 1)
    return -(-n // step) * step


def multiple(n: int, of: int) -> int:
    """The least multiple of `of` that is not below n."""
    return -(-n // of) * of


def common_prefix(prompts: Sequence[Prompt]) -> int:
    """How many leading tokens all prompts share, leaving each at least one."""
    shortest = min(len(p.tokens) for p in prompts) - 1
    head = np.stack([p.tokens[:shortest] for p in prompts])
    differs = (head != head[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else shortest


class Engine:
    """A model with its host-side encoder, compiled on demand.

    At most `batch` questions of each stream run together, and `vision_batch` temporal groups. With
    `share_base_segment` the leading part that a scene's streams have in common is read once. `seed`
    keys VCD's noise. On a `mesh` (see `sharding`) streams and groups are split over its "data"
    axis; the model's weights must have been placed on it.
    """

    def __init__(
        self,
        model: Model,
        encoder: Encoder,
        *,
        batch: int = 32,
        vision_batch: int = 8,
        max_new_tokens: int = 16,
        share_base_segment: bool = False,
        seed: int = 0,
        mesh: Mesh | None = None,
    ):
        for name, value in (
            ("batch", batch),
            ("vision_batch", vision_batch),
            ("max_new_tokens", max_new_tokens),
        ):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        self.model, self.encoder = model, encoder
        self.batch, self.vision_batch, self.max_new_tokens = batch, vision_batch, max_new_tokens
        self.share_base_segment, self.seed, self.mesh = share_base_segment, seed, mesh
        if mesh is not None:
            data = mesh.shape["data"]
            self.vision_batch = multiple(vision_batch, data)
        self.counts = dict.fromkeys(
            ("groups", "groups_encoded", "prefix_tokens", "prefix_tokens_shared"), 0
        )

    def run(
        self, streams: Sequence[Stream], jobs: Sequence[Job], *, alphas: Sequence[float]
    ) -> list[Answers]:
        """The answers of each job, alphas[i] being the α of jobs[i]; arrays are on the host.

        Streams may have different numbers of questions; Q is the largest, and what lies beyond a
        stream's own number is to be dropped.
        """
        _check_jobs(jobs, len(streams))
        if self.mesh is not None:  # each device takes as many streams: the last one stands in
            missing = -len(streams) % self.mesh.shape["data"]
            streams = [*streams, *[streams[-1]] * missing]
        features, table_rows = self.encode(streams)
        split = [common_prefix(s.prompts) for s in streams]
        prefixes = self._read_prefixes(streams, split, table_rows, features)
        questions = max(len(s.prompts) for s in streams)
        parts = []
        for first in range(0, questions, self.batch):
            size = min(self.batch, questions - first)
            suffixes = self._suffixes(streams, split, table_rows, first=first, size=size)
            answers = self._answer(features, prefixes, suffixes, jobs, alphas)
            parts.append([[field[:, :size] for field in job] for job in answers])
        return [
            Answers(*(np.concatenate(field, axis=1) for field in zip(*job))) for job in zip(*parts)
        ]

    def _answer(self, features, prefixes, suffixes, jobs, alphas) -> list[Answers]:
        """One pass over the suffixes, and the token loop of each job that needs one."""
        yes, no = self.encoder.answer_ids
        stop = tuple(self.encoder.stop_ids)
        visual = (suffixes.tokens.rows >= 0).any()
        suffixes = self._split(suffixes)
        made, caches = answer(
            self.model,
            features if visual else None,
            prefixes,
            suffixes,
            np.asarray(alphas, np.float32),
            jobs=tuple(jobs),
            yes=yes,
            no=no,
            room=self.max_new_tokens - 1,
        )
        out = []
        for job, alpha, first in zip(jobs, alphas, made):
            about = jax.device_get(first)
            shape = (*about.token.shape, self.max_new_tokens)
            tokens, count = np.zeros(shape, np.int32), np.ones(shape[:2], np.int32)
            tokens[..., 0], finite = about.token, about.finite
            count[np.isin(about.token, stop)] = 0
            if self.max_new_tokens > 1 and not np.isin(about.token, (yes, no, *stop)).all():
                tokens, count, finite = jax.device_get(
                    go_on(
                        self.model, prefixes, suffixes, caches, first, np.float32(alpha), job=job,
                        yes=yes, no=no, stop=stop, max_new_tokens=self.max_new_tokens,
                    )
                )  # fmt: skip
            out.append(Answers(tokens, count, *about[2:], finite))
        return out

    def encode(self, streams: Sequence[Stream]) -> tuple[jax.Array, list[np.ndarray]]:
        """The feature table float[V', 1 + E, D] of all streams, and of each stream the rows of its
        visual tokens, int32[V]. Groups that look alike are encoded once."""
        parts, starts, total, rows = [], {}, 0, []
        for stream in streams:
            keys = self._group_keys(stream)
            fresh = [g for g, key in enumerate(keys) if key not in starts and keys.index(key) == g]
            inputs = self.encoder.vision_inputs(stream.clip)
            for first in range(0, len(fresh), self.vision_batch):
                chosen = fresh[first : first + self.vision_batch]
                features = self._encode_groups(inputs, chosen, stream)  # [n, V, 1 + E, D]
                for g in chosen:
                    starts[keys[g]] = (total, features.shape[1])
                    total += features.shape[1]
                parts.append(features.reshape(-1, *features.shape[2:]))
            self.counts["groups"] += len(keys)
            self.counts["groups_encoded"] += len(fresh)
            rows.append(
                np.concatenate([np.arange(n) + start for start, n in map(starts.get, keys)])
            )
        table = jnp.concatenate(parts)
        table = jnp.pad(table, ((0, bucket(total, least=PREFIX) - total), (0, 0), (0, 0)))
        return table if self.mesh is None else sharding.everywhere(table, self.mesh), rows

    def _group_keys(self, stream: Stream) -> list[tuple]:
        digests = self.encoder.group_digests(stream.clip)
        if stream.noise_step is None:
            return [(stream.owner, d) for d in digests]
        video = stream.clip.digest
        return [(video, stream.noise_step, g) for g in range(len(digests))]

    def _encode_groups(self, inputs, chosen: list[int], stream: Stream) -> jax.Array:
        """float[n, V, 1 + E, D] of some groups of a video, padded to one shape while encoded."""
        n, patches = len(chosen), inputs.mask.shape[1]
        size = bucket(patches, least=PREFIX)
        widths = [(0, self.vision_batch - n), (0, size - patches)]
        padded = [np.pad(a[chosen], widths + [(0, 0)] * (a.ndim - 2)) for a in inputs]
        noise = None
        if stream.noise_step is not None:
            video = int.from_bytes(bytes.fromhex(stream.clip.digest[:8]))
            key = jax.random.fold_in(jax.random.key(self.seed), np.uint32(video))
            group = np.pad(np.asarray(chosen, np.int32), (0, self.vision_batch - n))
            noise = Noise(key, group, np.asarray(noise_scales(stream.noise_step), np.float32))
        features = encode_video(self.model, self._split(type(inputs)(*padded)), noise)
        return features[:n, : features.shape[1] * patches // size]

    def _read_prefixes(self, streams, split, table_rows, features) -> tuple[Prefix, ...]:
        """Keys and values of what the questions of each stream share: one part of its own and, with
        `share_base_segment`, a part before it that streams have in common."""
        whole = [
            _Part(s.prompts[0], rows, 0, end) for s, rows, end in zip(streams, table_rows, split)
        ]
        shared = np.zeros(len(streams), np.int32)
        if self.share_base_segment:
            shared = _shared_lengths(whole)
        self.counts["prefix_tokens"] += sum(split)
        self.counts["prefix_tokens_shared"] += int(shared.sum() - shared.max())
        prefixes: tuple[Prefix, ...] = ()
        if shared.any():
            leader = whole[int(shared.argmax())]._replace(end=int(shared.max()))
            cache = read_prefix(self.model, features, _pack([leader]), prefixes)
            prefixes = (Prefix(jax.tree.map(lambda a: a[0], cache), shared),)
        own = [part._replace(start=int(n)) for part, n in zip(whole, shared)]
        cache = read_prefix(self.model, features, self._split(_pack(own)), prefixes)
        return (*prefixes, Prefix(cache, np.asarray(split, np.int32) - shared))

    def _suffixes(self, streams, split, table_rows, *, first: int, size: int) -> Suffixes:
        """What follows the prefix in questions first … first+size-1 of each stream, the stream's
        last question standing in for those it lacks. Padded on the left: all end together."""
        count = multiple(size, QUESTIONS)
        parts = [
            _Part(stream.prompts[min(first + i, len(stream.prompts) - 1)], rows, start, None)
            for stream, rows, start in zip(streams, table_rows, split)
            for i in range(count)
        ]
        packed = _pack(parts, left=True)
        shape = (len(streams), count)
        length = packed.ids.shape[-1]
        pad = np.array([length - len(p.prompt.tokens) + p.start for p in parts], np.int32)
        following = np.array([p.prompt.next_position for p in parts], np.int32)
        tokens = Tokens(*(a.reshape(*shape, *a.shape[1:]) for a in packed))
        return Suffixes(tokens, pad.reshape(shape), following.reshape(shape))

    def _split(self, tree):
        """Arrays split over the devices along their leading axis, where there is a mesh."""
        return tree if self.mesh is None else sharding.over_streams(tree, self.mesh)


class _Part(NamedTuple):
    """Tokens start … end-1 of a prompt; `rows` are the table rows of its stream's visual tokens."""

    prompt: Prompt
    rows: np.ndarray
    start: int
    end: int | None

    def table_rows(self) -> np.ndarray:
        """int32 of each token: where its feature stands, -1 for text."""
        visual = self.prompt.visual[self.start : self.end]
        return np.where(visual < 0, -1, self.rows[visual])


def _pack(parts: Sequence[_Part], *, left: bool = False) -> Tokens:
    """Stacks parts of prompts: prefixes padded on the right, suffixes on the left."""
    lengths = [len(p.prompt.tokens[p.start : p.end]) for p in parts]
    size = multiple(max(lengths), SUFFIX) if left else bucket(max(lengths), least=PREFIX)
    ids = np.zeros((len(parts), size), np.int32)
    positions = np.zeros((len(parts), size, 3), np.int32)
    rows = np.full((len(parts), size), -1, np.int32)
    for i, (part, n) in enumerate(zip(parts, lengths)):
        place = slice(size - n, size) if left else slice(0, n)
        ids[i, place] = part.prompt.tokens[part.start : part.end]
        positions[i, place] = part.prompt.positions[part.start : part.end]
        rows[i, place] = part.table_rows()
    return Tokens(ids, positions, rows)


def _shared_lengths(parts: Sequence[_Part]) -> np.ndarray:
    """int32[streams]: how many leading tokens each has in common with the first that has any.

    Tokens are the same when their ids, positions and, for visual ones, features are. Streams that
    share less than the longest common part share nothing.
    """
    whole = [
        np.c_[p.prompt.tokens[: p.end], p.table_rows(), p.prompt.positions[: p.end]] for p in parts
    ]

    def common(a, b) -> int:
        n = min(len(a), len(b))
        differs = (a[:n] != b[:n]).any(axis=1)
        return int(differs.argmax()) if differs.any() else n

    lengths = np.array([[common(a, b) if i != j else 0 for j, b in enumerate(whole)]
                        for i, a in enumerate(whole)])  # fmt: skip
    if not lengths.max():
        return np.zeros(len(parts), np.int32)
    leader, _ = np.unravel_index(lengths.argmax(), lengths.shape)
    longest = lengths.max()
    return np.where(
        (lengths[leader] == longest) | (np.arange(len(parts)) == leader), longest, 0
    ).astype(np.int32)


def _check_jobs(jobs: Sequence[Job], streams: int) -> None:
    for job in jobs:
        expected = len(job.originals) if job.method.branches == 2 else 0
        numbers = (*job.originals, *job.contrasts)
        if not job.originals or len(job.contrasts) != expected or max(numbers) >= streams:
            raise ValueError(f"{job} does not fit {streams} streams")
