"""One scene of the built-in world: drawn from its seed until everything in it can be seen."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cctv.data.errors import UserError
from cctv.world import sight
from cctv.world.accident import KINDS, MEDIUM, Difficulty, Pair, Rejected, draw_cast
from cctv.world.camera import Camera, Ride, draw_pole, draw_ride
from cctv.world.draw import Draw
from cctv.world.eventlog import event_log
from cctv.world.layout import FIRST_OBSTACLE
from cctv.world.look import LOOKS, Look
from cctv.world.pair import draw_pair
from cctv.world.questions import Unclear, Written, write_questions
from cctv.world.render import Shot, id_buffer
from cctv.world.sight import MIN_SAMPLES, SIZE, sample_times
from cctv.world.simulation import World

Array = np.ndarray

MIN_CONTACT_SHARE = 0.4  # of the pixels that a party of the contact would have there alone
MARGIN = 0.1  # the contact lies at least this share of the picture from its border
OFF_CENTRE = 0.07  # and this share from the middle in the roadside view: left and right are clear
END_ON = 0.92  # cosine between a pole camera's view and the blow: beyond it one hides the other
RIDE_MARGIN = 0.04  # from the left and right border where the camera rides
CAMERAS, RIDES, ATTEMPTS = 6, 1, 300  # a ride is nearly the same again


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Both worlds, the camera, and what can be seen.

    `seen`: for the positive and the negative video, id of every actor but the camera's own car, and
    of the obstacle that is hit, -> its pixels (of SIZE) at each of `sample_times`.
    `contact_pixels`: for each party of the contact, but not the camera's own car, its pixels then,
    and what they would be if it were alone.
    `contact_image`: the contact in the picture, as shares of a 16:9 picture from the top left.
    `questions` are written while it is drawn: a scene that has no clear ones is drawn again.
    """

    seed: int
    index: int
    difficulty: Difficulty
    pair: Pair
    camera: Camera | Ride
    look: Look
    seen: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]
    contact_pixels: dict[int, tuple[int, int]]
    contact_image: tuple[float, float]
    rejected: Counter = field(compare=False)
    questions: tuple[Written, ...] = ()

    @property
    def view(self) -> str:
        """roadside or driving."""
        return self.pair.cast.view

    @property
    def positive(self) -> Shot:
        """The film of the accident."""
        return Shot(world=self.pair.positive, camera=self.camera, look=self.look)

    @property
    def negative(self) -> Shot:
        """The film in which it does not happen."""
        return Shot(world=self.pair.negative, camera=self.camera, look=self.look)


def draw_scene(
    seed: int, index: int, duration: float = 6.0, difficulty: Difficulty = MEDIUM
) -> Scene:
    """The scene `index` of a seed. Draws that fail are counted by reason in `rejected`.

    Raises UserError when ATTEMPTS draws failed, naming the reasons.
    """
    draw = Draw(np.random.SeedSequence([seed, index]))
    cast = draw_cast(draw, index, duration, difficulty)
    look = Look(kind=look_of(index), seed=int(draw.uniform(0, 0.9999) * 1_000_000))
    rejected: Counter = Counter()
    for _ in range(ATTEMPTS):
        try:
            pair = draw_pair(draw, cast, difficulty)
        except Rejected as error:
            rejected[error.reason] += 1
            continue
        for _ in range(CAMERAS if cast.ego is None else RIDES):
            try:
                camera = _draw_camera(draw, pair, difficulty)
                image = _contact_image(pair, camera)
                films = [Shot(world=w, camera=camera, look=look) for w in worlds(pair)]
                contact_pixels = _contact_pixels(films[0], difficulty)
                seen = _seen(pair, films, difficulty)
            except Rejected as error:
                rejected[error.reason] += 1
                continue
            scene = Scene(
                seed=seed,
                index=index,
                difficulty=difficulty,
                pair=pair,
                camera=camera,
                look=look,
                seen=seen,
                contact_pixels=contact_pixels,
                contact_image=image,
                rejected=rejected,
            )
            try:
                questions = tuple(write_questions(event_log(scene)))
            except Unclear as error:
                rejected[error.reason] += 1
                continue
            return replace(scene, questions=questions)
    reasons = ", ".join(f"{reason} ({n})" for reason, n in rejected.most_common())
    raise UserError(f"scene {index} of seed {seed}: no valid draw in {ATTEMPTS}: {reasons}")


def look_of(index: int) -> str:
    """The light and weather of a scene: all alike often, and independent of kind, view, place."""
    round_ = index // len(KINDS)
    return LOOKS[(index + round_ + round_ // 10) % len(LOOKS)]


def worlds(pair: Pair) -> tuple[World, World]:
    """The one with the accident and the one without."""
    return pair.positive, pair.negative


def enough(kind: str, difficulty: Difficulty) -> int:
    """The pixels at which an actor of a type, or an obstacle of a kind, is seen at an instant."""
    return sight.enough(kind, difficulty.min_pixels)


def pixels(shot: Shot, time: float, ids: Sequence[int]) -> Array:
    """int[len(ids)]: pixels of each id at a time, hidden ones not counted."""
    counts = np.bincount(id_buffer(shot, time, SIZE, among=ids).ravel(), minlength=257)
    return counts[1:][list(ids)]


def _draw_camera(draw: Draw, pair: Pair, difficulty: Difficulty) -> Camera | Ride:
    if pair.cast.ego is not None:
        return draw_ride(draw, pair.cast.ego)
    world = pair.positive
    return draw_pole(
        draw,
        world.layout,
        world.contact.point,
        distance=difficulty.distance,
        left=pair.cast.image_left,
    )


def _contact_image(pair: Pair, ride: Camera | Ride) -> tuple[float, float]:
    """Where the contact is in the picture; it has to be well inside."""
    contact, cast = pair.positive.contact, pair.cast
    camera = ride.at(pair.positive, contact.time)
    relative = camera.relative(np.array([*contact.point, 0.8]))
    u, v = (float(x) for x in camera.to_pixels(relative, SIZE) / SIZE)
    if cast.ego is None:
        inside = MARGIN <= u <= 1 - MARGIN and MARGIN <= v <= 1 - MARGIN
        inside &= abs(u - 0.5) >= OFF_CENTRE and (u < 0.5) == cast.image_left
    else:  # at the front of the camera's own car it is at the lower border
        inside = RIDE_MARGIN <= u <= 1 - RIDE_MARGIN
        inside &= cast.ego in contact.pair or v <= 0.95
    if relative[2] < 0.5 or not inside:
        raise Rejected("contact not well in the picture")
    if cast.ego is None and contact.pair[1] < FIRST_OBSTACLE:
        to = np.array(contact.point) - camera.position[:2]
        if abs((to * contact.normal).sum()) > END_ON * np.sqrt((to * to).sum()):
            raise Rejected("one stands before the other at the contact")
    return round(u, 4), round(min(v, 1.0), 4)


def _contact_pixels(shot: Shot, difficulty: Difficulty) -> dict[int, tuple[int, int]]:
    world, out = shot.world, {}
    visible = dict(zip(world.contact.pair, pixels(shot, world.contact.time, world.contact.pair)))
    for id_ in world.contact.pair:
        if id_ == shot.ego:
            continue
        alone = int(np.count_nonzero(id_buffer(shot, world.contact.time, SIZE, only=id_)))
        out[id_] = int(visible[id_]), alone
        least = max(enough(_kind(world, id_), difficulty), MIN_CONTACT_SHARE * alone)
        if visible[id_] < least:
            raise Rejected("contact hidden or small")
    return out


def _kind(world: World, id_: int) -> str:
    if id_ >= FIRST_OBSTACLE:
        return world.layout.obstacle(id_).kind
    return world.actor(id_).type


def _seen(
    pair: Pair, films: list[Shot], difficulty: Difficulty
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Pixels of everybody in both films. Raises Rejected where one to be named is hardly seen."""
    cast, times = pair.cast, sample_times(pair.cast.duration)
    if any(_in_picture(film, i, times) < MIN_SAMPLES for film in films for i in cast.named):
        raise Rejected("an actor to be named is hardly seen")
    counted = [i for i in range(len(cast.looks)) if i != cast.ego]
    counted += [i for i in pair.positive.contact.pair if i >= FIRST_OBSTACLE]
    shared = {t: pixels(films[0], t, counted) for t in times[times <= cast.branch]}
    out = []
    for film in films:
        counts = np.array([shared[t] if t in shared else pixels(film, t, counted) for t in times])
        seen = {i: tuple(int(n) for n in counts[:, k]) for k, i in enumerate(counted)}
        for id_ in cast.named:
            least = enough(cast.looks[id_][0], difficulty)
            if sum(n >= least for n in seen[id_]) < MIN_SAMPLES:
                raise Rejected("an actor to be named is hardly seen")
        out.append(seen)
    return out[0], out[1]


def _in_picture(film: Shot, id_: int, times: Array) -> int:
    """At how many instants the middle of an actor is in the picture: a quick first test."""
    poses, count = film.world.actor(id_).poses(times), 0
    for time, (x, y, _) in zip(times, poses):
        camera = film.camera_at(time)
        relative = camera.relative(np.array([x, y, 0.8]))
        if relative[2] > 1:
            u, v = camera.to_pixels(relative, SIZE) / SIZE
            count += bool(-0.05 < u < 1.05 and -0.1 < v < 1.1)
    return count
