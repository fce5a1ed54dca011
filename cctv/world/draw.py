"""Random draws that are the same on every machine: everything comes from 53-bit uniforms."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Draw:
    """A stream of draws. Only `Generator.random` is used: its bits are simple and stable."""

    def __init__(self, sequence: np.random.SeedSequence):
        self._rng = np.random.Generator(np.random.PCG64(sequence))

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high], in steps of 0.0001 so that logs can state it exactly."""
        return round(low + (high - low) * float(self._rng.random()), 4)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely."""
        return items[int(self._rng.random() * len(items))]

    def coin(self, probability: float = 0.5) -> bool:
        """True with this probability."""
        return float(self._rng.random()) < probability

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a random order."""
        return [items[i] for i in np.argsort(self._rng.random(len(items)), kind="stable")]
