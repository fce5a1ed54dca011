"""Light and weather: colours of a scene at dusk or in fog, rain, snow, and the camera's noise.

Everything is a function of (look, time, size) in integers or plain sums and products, so that both
videos of a scene are equal before the branch, and equal on every machine.
"""

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

Array = np.ndarray
Colour = tuple[int, int, int]

LOOKS = ("day", "dusk", "rain", "snow", "fog")
_MICRO = 1_000_000  # times are keyed in microseconds


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a kind of look does.

    `light` multiplies the colours of what doesn't shine, by `shade` where the sun doesn't reach.
    `reach` is the distance in metres at which half of a thing's colour is lost in the haze.
    `shadow` is how dark shadows are, `noise` the strength of the sensor's (standard deviation about
    0.8 of 255 each), `lamps` whether
    lights are seen to shine, `pools` how much light head lamps throw on the road.
    """

    light: tuple[float, float, float]
    shade: float
    sky: tuple[Colour, Colour]  # at the top and at the horizon
    haze: Colour
    reach: float
    grass: Colour = (98, 128, 78)
    asphalt: Colour = (92, 93, 97)
    pavement: Colour = (160, 157, 150)
    mark: Colour = (216, 216, 212)
    centre: Colour = (214, 176, 60)
    shadow: float = 0.0
    noise: int = 2
    lamps: bool = False
    pools: int = 0


TRAITS = {
    "day": Traits(
        light=(1.0, 1.0, 1.0),
        shade=0.72,
        sky=((112, 160, 216), (196, 214, 230)),
        haze=(196, 210, 224),
        reach=420.0,
        shadow=0.42,
    ),
    "dusk": Traits(
        light=(0.78, 0.73, 0.80),
        shade=0.82,
        sky=((58, 64, 108), (206, 140, 108)),
        haze=(108, 88, 104),
        reach=260.0,
        grass=(70, 88, 64),
        asphalt=(74, 75, 82),
        pavement=(118, 114, 116),
        noise=3,
        lamps=True,
        pools=36,
    ),
    "rain": Traits(
        light=(0.80, 0.83, 0.87),
        shade=0.86,
        sky=((118, 126, 136), (158, 164, 170)),
        haze=(150, 156, 162),
        reach=150.0,
        grass=(76, 104, 68),
        asphalt=(62, 65, 72),
        pavement=(122, 122, 122),
        shadow=0.16,
        lamps=True,
    ),
    "snow": Traits(
        light=(0.92, 0.93, 0.96),
        shade=0.86,
        sky=((186, 192, 200), (214, 218, 222)),
        haze=(210, 214, 219),
        reach=170.0,
        grass=(230, 233, 238),
        asphalt=(122, 125, 131),
        pavement=(204, 207, 212),
        mark=(226, 228, 230),
        centre=(222, 196, 110),
        shadow=0.14,
    ),
    "fog": Traits(
        light=(0.92, 0.93, 0.94),
        shade=0.9,
        sky=((190, 194, 198), (198, 201, 204)),
        haze=(198, 201, 204),
        reach=75.0,
        shadow=0.08,
        noise=3,
        lamps=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """One of LOOKS; `seed` places its drops, flakes and noise."""

    kind: str
    seed: int

    @property
    def traits(self) -> Traits:
        """Its colours and strengths."""
        return TRAITS[self.kind]

    def shade(self, colours: Array, sun: Array, lit: Array, depths: Array) -> Array:
        """int[N, 3]: colours int[N, 3] of faces seen at `depths` (m) that the `sun` (0 to 1) meets.

        Faces that are `lit` shine by themselves, also through the haze.
        """
        traits = self.traits
        light = (traits.shade + (1 - traits.shade) * sun)[:, None] * traits.light
        shaded = colours * np.where(lit[:, None], 1.0, light)
        left = _left(depths, traits.reach)
        left = np.where(lit, (1 + 3 * left) / 4, left)[:, None]
        return np.round(shaded * left + np.array(traits.haze) * (1 - left)).astype(int)

    def paint_sky(self, image: Array, horizon: int) -> None:
        """Paints the rows above the horizon."""
        rows = min(max(horizon, 0), len(image))
        if rows:
            top, low = (np.array(c) for c in self.traits.sky)
            share = ((np.arange(rows) + len(image) - rows) / len(image))[:, None]
            image[:rows] = np.round(top + (low - top) * share).astype(np.uint8)[:, None]

    def veil(self, image: Array, horizon: int, depths: Array) -> None:
        """Haze over the painted ground: `depths` (m) of the rows from the horizon on."""
        left = np.round(_left(depths, self.traits.reach) * 256).astype(np.uint16)[:, None, None]
        haze = np.array(self.traits.haze, np.uint16) * (256 - left)  # [rows, 1, 3]
        ground = image[horizon:]
        ground[:] = (ground * left + (haze + 128)) >> 8

    def finish(self, image: Array, time: float) -> None:
        """Drops or flakes, then sensor noise, over a whole picture."""
        if self.kind == "rain":
            self._streaks(image, time)
        elif self.kind == "snow":
            self._flakes(image, time)
        self._noise(image, time)

    def _streaks(self, image: Array, time: float) -> None:
        height, width = image.shape[:2]
        unit = height / 180
        x, y, speed, size = _particles(self.seed, 110)
        fall = (y + time * (2.2 + speed)) % 1.0  # share of the height
        length = (7 + 9 * size) * unit
        x0, y0 = x * (width + 20 * unit) - 10 * unit, fall * (height + length) - length
        ends = np.stack([x0, y0, x0 - 0.12 * length, y0 + length], -1).reshape(-1, 2, 2)
        mask = np.zeros((height, width), np.uint8)
        thick = max(1, round(unit))
        cv2.polylines(mask, list(_fixed(ends)), False, 255, thick, cv2.LINE_AA, 4)
        where = np.nonzero(mask)
        share = mask[where].astype(np.int32)[:, None] * 85 >> 8  # at most 85 of 256
        pixels = image[where].astype(np.int32)
        image[where] = pixels + ((np.array([206, 212, 220]) - pixels) * share >> 8)

    def _flakes(self, image: Array, time: float) -> None:
        height, width = image.shape[:2]
        unit = height / 180
        x, y, speed, size = _particles(self.seed, 150)
        near = 0.4 + 0.6 * size * size
        sway = np.abs((time * (0.3 + 0.4 * speed) + y) % 2.0 - 1.0) - 0.5
        px = ((x + 0.05 * sway * near) % 1.0) * width
        py = ((y + time * near * (0.28 + 0.2 * speed)) % 1.0) * height
        radii = near * 1.5 * unit
        middles = np.stack([px, py], -1)
        seen = radii >= 0.5  # in pixels: smaller ones would still fill whole pixels
        for (u, v), r in zip(_fixed(middles[seen]).tolist(), _fixed(radii[seen]).tolist()):
            cv2.circle(image, (u, v), r, (248, 249, 252), -1, cv2.LINE_AA, 4)

    def _noise(self, image: Array, time: float) -> None:
        height, width = image.shape[:2]
        key = np.random.SeedSequence([self.seed, round(time * _MICRO)])
        raw = np.random.PCG64(key).random_raw(-(-height * width // 8)).astype("<u8")
        grain = _grain(self.traits.noise)[raw.view(np.uint8)[: height * width]]
        grain = grain.reshape(height, width)
        for low, op in ((grain, cv2.add), (-grain, cv2.subtract)):
            op(image, cv2.merge([np.maximum(low, 0).astype(np.uint8)] * 3), dst=image)


def _left(depths: Array, reach: float) -> Array:
    """What is left of a colour at a distance. No exponential: machines differ in its last bits."""
    share = depths / reach
    return 1 / (1 + share * share)


def _fixed(pixels: Array) -> Array:
    return np.round(pixels * 16).astype(np.int32)


@lru_cache(maxsize=64)
def _particles(seed: int, count: int) -> Array:
    """float[4, count] in [0, 1): place across and down, speed and size of each."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 7]))).random(
        (4, count)
    )


@lru_cache(maxsize=8)
def _grain(strength: int) -> Array:
    """int8[256]: the noise that each byte stands for, a triangle around 0."""
    byte = np.arange(256)
    return (((byte & 15) - (byte >> 4)) * strength / 8).round().astype(np.int8)
