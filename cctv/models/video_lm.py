"""The model of every family: a vision tower and the shared decoder, joined at the embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from cctv.models.decoder import Cache, Decoder, DecoderConfig, Prefix


class VideoLM(nnx.Module):
    """Weights of both towers. `config` has the parts `vision` and `text`; `tower` makes the vision
    tower, whose call gives float[G, V, 1 + E, D]."""

    def __init__(self, tower: Callable[..., nnx.Module], config: Any, *, rngs: nnx.Rngs):
        self.config = config
        self.vision = tower(config.vision, rngs=rngs)
        self.decoder = Decoder(config.text, rngs=rngs)

    @property
    def decoder_config(self) -> DecoderConfig:
        return self.config.text

    def encode_video(self, inputs: Any) -> jax.Array:
        """float[G, V, 1 + E, D]: V visual tokens a group and their E DeepStack features."""
        return self.vision(inputs)

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
        """See `cctv.models.base.Model`: visual tokens take their feature, text its embedding."""
        x, deepstack = self.decoder.embed(tokens), None  # [B, T, D]
        if rows is not None:
            is_visual = (rows >= 0)[..., None, None]
            taken = jnp.where(is_visual, features[rows], 0).astype(x.dtype)  # [B, T, 1 + E, D]
            x = jnp.where(is_visual[..., 0], taken[:, :, 0], x)
            if taken.shape[2] > 1:
                deepstack = jnp.moveaxis(taken[:, :, 1:], 2, 0)  # [E, B, T, D]
        return self.decoder(
            x,
            positions=positions,
            cache=cache,
            start=start,
            first=first,
            prefix=prefix,
            deepstack=deepstack,
            cache_only=cache_only,
        )

    def logits(self, hidden: jax.Array) -> jax.Array:
        """float32[…, vocabulary]."""
        return self.decoder.logits(hidden)
