"""The host side of every family: frames and questions to the model's input.

What a family does its own way comes as four functions; the rest is the same for all.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cctv.data import preprocess
from cctv.data.preprocess import Clip, VideoProcessor
from cctv.models.base import Prompt
from cctv.models.tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Frames and questions to the model's input, for one checkpoint.

    inputs: a clip -> a NamedTuple of arrays with a leading axis of temporal groups, among them
      `patches` float32[G, P, …], the normalised pixels that VCD puts noise on, and `mask`
      bool[G, P], True = a real patch.
    ids: (text, clip, number of visual tokens of each group) -> token ids of the whole prompt.
    positions: (tokens, visual, clip) -> Prompt, see there.
    kept: a clip -> bool[G, V], which visual tokens of each group the prompt holds; None is all.
    options: the family's own settings of the prompt, for the manifest.
    """

    processor: VideoProcessor
    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    visual_id: int
    inputs: Callable[[Clip], Any]
    ids: Callable[[str, Clip, Sequence[int]], list[int]]
    positions: Callable[[np.ndarray, np.ndarray, Clip], Prompt]
    kept: Callable[[Clip], np.ndarray | None] = lambda clip: None
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def answer_ids(self) -> tuple[int, int]:
        """(yes, no)."""
        return self.tokenizer.answer_ids()

    @property
    def load_clip(self):
        """A picklable function of a path that gives a `Clip`, for worker processes."""
        return functools.partial(preprocess.load_video, processor=self.processor)

    @property
    def measure(self):
        """As `load_clip`, but the `Clip` has no pixels: enough for `prompts`, and quickly made.

        Where a family leaves tokens out by their pixels, such prompts hold all: an upper bound.
        """
        return functools.partial(preprocess.measure, processor=self.processor)

    def settings(self) -> dict:
        """All that decides the model's input beside the video and the question."""
        return {
            "processor": dataclasses.asdict(self.processor),
            **self.options,
            "stop_ids": list(self.stop_ids),
            "tokens_of_example": self._example(),
        }

    def _example(self) -> str:
        """sha256 of the ids of a fixed prompt: another tokenizer or template gives another."""
        count = 2 * self.processor.temporal_patch_size
        height, width = self.processor.smart_resize(count, 56, 112)
        frames = np.zeros((count, height, width, 3), np.uint8)
        clip = Clip(
            frames=frames,
            grid=preprocess.grid_of(frames, self.processor),
            times=np.linspace(0.2, 11.7, count),
            indices=tuple(range(count)),
            digest="",
        )
        text = "Did the red car's driver brake at 3.5 s? Answer Yes or No."
        ids = self.prompts([text], clip)[0].tokens
        return hashlib.sha256(ids.astype(np.int64).tobytes()).hexdigest()

    def vision_inputs(self, clip: Clip) -> Any:
        """Patches and their layout, one entry a temporal group."""
        return self.inputs(clip)

    def group_digests(self, clip: Clip) -> list[bytes]:
        """One a temporal group; equal digests mean equal vision inputs."""
        return preprocess.group_digests(clip, self.processor.temporal_patch_size)

    def keep_frames(self, clip: Clip, kept: Sequence[int], *, mode: str) -> Clip:
        """The clip that TCD contrasts with, see `cctv.decoding.contrast.TCD`."""
        if mode == "repeat":
            return preprocess.show_kept(clip, kept)
        return preprocess.drop_others(clip, kept, self.processor)

    def prompts(self, texts: Sequence[str], clip: Clip) -> list[Prompt]:
        """The chat prompt of one video and each text, and the positions of its tokens."""
        kept = self.kept(clip)  # [G, V]
        if kept is None:
            per_group = preprocess.tokens_per_group(clip.grid, self.processor)
            kept = np.ones((clip.grid[0], per_group), bool)
        numbers, counts = np.flatnonzero(kept), kept.sum(axis=1).tolist()
        out = []
        for text in texts:
            tokens = np.asarray(self.ids(text, clip, counts), np.int32)
            visual = np.full(len(tokens), -1, np.int32)
            visual[tokens == self.visual_id] = numbers
            out.append(self.positions(tokens, visual, clip))
        return out

    def decode(self, ids) -> str:
        """The answer text of generated ids."""
        return self.tokenizer.decode(ids)


def text_positions(tokens: np.ndarray, visual: np.ndarray, clip: Clip) -> Prompt:
    """Plain rotary positions 0, 1, 2, …, the same on each axis."""
    at = np.arange(len(tokens), dtype=np.int32)
    return Prompt(tokens, np.repeat(at[:, None], 3, axis=1), visual, len(tokens))
