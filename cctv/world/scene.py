"""One scene of the built-in world: drawn from its seed until everything in it can be seen."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cctv.data.errors import UserError
from cctv.world.accident import KINDS, Pair, Rejected, draw_cast, draw_pair
from cctv.world.camera import Camera, draw_camera
from cctv.world.draw import Draw
from cctv.world.render import Shot, id_buffer

Array = np.ndarray

SIZE = (320, 180)  # at which visibility is measured, whatever size is rendered
SAMPLE = 0.4  # seconds between the instants at which it is measured
MIN_PIXELS = 150  # a vehicle with fewer pixels is not visible at an instant
MIN_SAMPLES = 4  # instants at which a vehicle that a question names must be visible
MIN_CONTACT_PIXELS = 220  # of either involved vehicle at the contact
MIN_CONTACT_SHARE = 0.4  # of the pixels that it would have there alone
MARGIN = 0.1  # the contact lies at least this share of the picture from its border
OFF_CENTRE = 0.07  # and this share from the middle, so that left and right are clear
CAMERAS, ATTEMPTS = 20, 300


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Both worlds, the camera, and what can be seen.

    `seen`: for the positive and the negative video, vehicle id -> instants at which it is visible.
    `contact_image`: the contact in the picture, as shares of a 16:9 picture from the top left.
    """

    seed: int
    index: int
    pair: Pair
    camera: Camera
    seen: tuple[dict[int, int], dict[int, int]]
    contact_image: tuple[float, float]
    rejected: Counter = field(compare=False)

    @property
    def positive(self) -> Shot:
        """The film of the accident."""
        return Shot(world=self.pair.positive, camera=self.camera)

    @property
    def negative(self) -> Shot:
        """The film in which it does not happen."""
        return Shot(world=self.pair.negative, camera=self.camera)


def draw_scene(seed: int, index: int, duration: float = 6.0) -> Scene:
    """The scene `index` of a seed. Draws that fail are counted by reason in `rejected`.

    Raises UserError when ATTEMPTS draws failed, naming the reasons.
    """
    draw = Draw(np.random.SeedSequence([seed, index]))
    cast = draw_cast(draw, KINDS[index % len(KINDS)], duration)  # as many of each in any set
    rejected: Counter = Counter()
    for _ in range(ATTEMPTS):
        try:
            pair = draw_pair(draw, cast)
            camera, image = _aim(draw, pair)
            seen = _seen(pair, camera)
        except Rejected as error:
            rejected[error.reason] += 1
            continue
        return Scene(
            seed=seed,
            index=index,
            pair=pair,
            camera=camera,
            seen=seen,
            contact_image=image,
            rejected=rejected,
        )
    reasons = ", ".join(f"{reason} ({n})" for reason, n in rejected.most_common())
    raise UserError(f"scene {index} of seed {seed}: no valid draw in {ATTEMPTS}: {reasons}")


def sample_times(duration: float) -> Array:
    """float[T]: the instants at which visibility is measured."""
    return np.arange(int(duration / SAMPLE + 1e-9) + 1) * SAMPLE


def pixels(shot: Shot, time: float) -> Array:
    """int[A]: pixels of the vehicle of each id at a time, hidden ones not counted."""
    counts = np.bincount(id_buffer(shot, time, SIZE).ravel(), minlength=256)
    return counts[1 : 1 + len(shot.world.actors)]


def _aim(draw: Draw, pair: Pair) -> tuple[Camera, tuple[float, float]]:
    """A camera that has the contact well inside the picture, clearly left or right, and where."""
    point = pair.positive.contact.point
    for _ in range(CAMERAS):
        camera = draw_camera(draw, point)
        relative = camera.relative(np.array([*point, 0.8]))
        if relative[2] > 5:
            u, v = camera.to_pixels(relative, SIZE) / SIZE
            inside = MARGIN <= u <= 1 - MARGIN and MARGIN <= v <= 1 - MARGIN
            if inside and abs(u - 0.5) >= OFF_CENTRE:
                return camera, (round(float(u), 4), round(float(v), 4))
    raise Rejected("contact not well in the picture")


def _seen(pair: Pair, camera: Camera) -> tuple[dict[int, int], dict[int, int]]:
    positive = Shot(world=pair.positive, camera=camera)
    negative = Shot(world=pair.negative, camera=camera)
    time = pair.positive.contact.time
    visible = pixels(positive, time)
    for id_ in pair.positive.contact.pair:
        alone = np.count_nonzero(id_buffer(positive, time, SIZE, only=id_))
        if visible[id_] < max(MIN_CONTACT_PIXELS, MIN_CONTACT_SHARE * alone):
            raise Rejected("contact hidden or small")
    counts = ({}, {})
    times = sample_times(pair.cast.duration)
    shared = {t: pixels(positive, t) >= MIN_PIXELS for t in times[times <= pair.cast.branch]}
    for shot, count in zip((positive, negative), counts):
        seen = [shared[t] if t in shared else pixels(shot, t) >= MIN_PIXELS for t in times]
        count.update(enumerate(int(n) for n in np.sum(seen, axis=0)))
        if any(count[id_] < MIN_SAMPLES for id_ in (0, 1, 2)):
            raise Rejected("a vehicle to be named is hardly seen")
    return counts
