"""What a family gives the engine: a prompt and a model of weights (see `encoder` for the host)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import jax
import numpy as np

from cctv.models.decoder import Cache, DecoderConfig, Prefix


class Prompt(NamedTuple):
    """One question about one video, ready to be run. S tokens.

    tokens int32[S]; positions int32[S, 3], the rotary position on each axis; visual int32[S], the
    number of the video's visual token that replaces the embedding, -1 for text (some may be left
    out); next_position, the rotary position of the first generated token.
    """

    tokens: np.ndarray
    positions: np.ndarray
    visual: np.ndarray
    next_position: int


class Encoder(Protocol):
    """What the engine needs of the host side, see `cctv.models.encoder.Encoder`."""

    answer_ids: tuple[int, int]
    stop_ids: tuple[int, ...]

    def vision_inputs(self, clip) -> tuple[np.ndarray, ...]:
        """Arrays with a leading axis of temporal groups, for `Model.encode_video`."""

    def group_digests(self, clip) -> list[bytes]:
        """One a temporal group; equal digests mean equal vision inputs."""


class Model(Protocol):
    """Device side of a family: a frozen pytree of weights with pure methods."""

    decoder_config: DecoderConfig

    def encode_video(self, inputs) -> jax.Array:
        """float[G, V, 1 + E, D]: V visual tokens a group and their E DeepStack features."""

    def __call__(
        self,
        tokens: jax.Array,
        *,
        positions: jax.Array,
        cache: Cache,
        start: jax.Array | int,
        first: jax.Array | None = None,
        prefix: Sequence[Prefix] = (),
        features: jax.Array | None = None,
        rows: jax.Array | None = None,
        cache_only: bool = False,
    ) -> tuple[jax.Array | None, Cache]:
        """Hidden states float[B, T, D] of tokens int[B, T] and the cache with them written.

        features: float[V', 1 + E, D], the table that `rows` int[B, T] points into (-1 = text);
        without them all tokens are text. The rest as in `Decoder.__call__`.
        """

    def logits(self, hidden: jax.Array) -> jax.Array:
        """float32[…, vocabulary]."""
