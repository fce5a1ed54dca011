"""Draws one accident and its counterfactual: the plans of all actors, the branch, one change.

What an actor looks like, which part it plays, from which side the blow comes and when are drawn
once a scene and kept while everything else is drawn again: so rejection can't make the involved
actors look different from the others, one side more frequent, or the contact times uneven.
"""

from dataclasses import dataclass

from cctv.world import layout as layouts
from cctv.world.draw import Draw
from cctv.world.motion import COLOURS
from cctv.world.simulation import Change, World

KINDS = ("t_bone", "rear_end", "head_on", "sideswipe", "pedestrian", "run_off_road")
CONTACT_WINDOW = (0.42, 0.66)  # of the duration
VEHICLES = ("car", "car", "car", "truck", "bus", "motorcycle", "bicycle")  # as likely as listed
OTHERS = (*VEHICLES, "pedestrian", "pedestrian")  # actors that are never asked about
JUNCTIONS = ("signals", "junction", "tee")
# Half of the vehicles that leave the road are too fast for a bend, the others lose control.
OFF_ROAD = ("curve", "straight", "curve", "signals", "curve", "junction", "curve", "tee")
FIRST_BRANCH = 0.4  # seconds
GRID = 50  # branches are on this many instants a second: ones that every frame rate may have


class Rejected(Exception):
    """A draw that is not a valid scene; `reason` is counted."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Difficulty:
    """How hard a scene is: seconds from the branch to the contact, metres between the parties of
    the counterfactual, actors that are not involved, metres to a pole camera, and the pixels (of
    320x180) that a car needs at an instant to count as seen."""

    name: str
    branch_lead: tuple[float, float]
    min_gap: float
    distractors: tuple[int, int]
    distance: tuple[float, float]
    min_pixels: int


EASY = Difficulty(
    name="easy",
    branch_lead=(1.6, 2.2),
    min_gap=1.0,
    distractors=(1, 2),
    distance=(18.0, 26.0),
    min_pixels=150,
)
MEDIUM = Difficulty(
    name="medium",
    branch_lead=(1.2, 2.0),
    min_gap=0.8,
    distractors=(2, 4),
    distance=(22.0, 32.0),
    min_pixels=110,
)
HARD = Difficulty(
    name="hard",
    branch_lead=(1.0, 1.5),
    min_gap=0.5,
    distractors=(3, 5),
    distance=(28.0, 42.0),
    min_pixels=60,
)
DIFFICULTIES = {d.name: d for d in (EASY, MEDIUM, HARD)}


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What a scene is drawn around: its kind and place, its actors' looks and parts, its times.

    `looks` are (type, colour) by id. The first `involved` ids collide (the only one of a vehicle
    that runs off the road hits an obstacle), the next one is the bystander, who is asked about.
    `from_left` is the side of a T-bone collision that is hit, where the pedestrian or the vehicle
    that changes lanes comes from, or the side on which a vehicle leaves the road.
    """

    kind: str
    place: str  # a layout type
    view: str  # "roadside", "driving"
    looks: tuple[tuple[str, str], ...]
    involved: int
    striker: int  # the one whose front hits the other, where that is one of them
    guilty: int  # the one that caused it; the striker of a rear-end collision
    from_left: bool
    cause: str
    obstacle: str  # kind of the obstacle that a vehicle runs into
    image_left: bool  # whether a pole camera has the contact in the left half of the picture
    ego: int | None  # the actor that carries the camera
    contact_time: float
    branch: float
    duration: float

    @property
    def bystander(self) -> int:
        """The actor that is not involved and that questions name."""
        return self.involved

    @property
    def named(self) -> tuple[int, ...]:
        """The actors that questions may name: all must be seen. The camera's own car is not."""
        return tuple(i for i in range(self.involved + 1) if i != self.ego)


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """The one change: `kind` is brake, yield (let pass, then go on), keep_lane or wait."""

    kind: str
    change: Change

    @property
    def actor(self) -> int:
        """Who does it."""
        return self.change.actor


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both worlds of a scene. `cause` is {"kind": cast.cause, "actor": id, "other": id or None}."""

    cast: Cast
    cause: dict
    intervention: Intervention
    positive: World
    negative: World


def part(index: int) -> tuple[str, str, str]:
    """Kind, view and place of a scene: as many of each in any run of scenes."""
    kind, round_ = KINDS[index % len(KINDS)], index // len(KINDS)
    places = {"t_bone": JUNCTIONS, "run_off_road": OFF_ROAD}.get(kind, layouts.TYPES)
    view = ("roadside", "driving")[(round_ + index) % 2]
    return kind, view, places[(round_ // 2) % len(places)]


def draw_cast(
    draw: Draw, index: int, duration: float = 6.0, difficulty: Difficulty = MEDIUM
) -> Cast:
    """Looks (all colours different), parts, contact and branch times of the scene of an index."""
    kind, view, place = part(index)
    involved = 1 if kind == "run_off_road" else 2
    types = [draw.choice(VEHICLES) for _ in range(involved)]
    striker = draw.choice(range(involved))
    other = involved - 1 - striker
    guilty, bystander = draw.choice((striker, other)), draw.choice(VEHICLES)
    cause = _cause(draw, kind, place)
    if kind == "rear_end":
        guilty = striker
    if kind in ("head_on", "sideswipe"):
        striker, other = guilty, 1 - guilty
    if kind == "pedestrian":
        types[other] = "pedestrian"
        guilty = other if cause == "stepped_out" else striker
        bystander = draw.choice((bystander, "pedestrian"))
    ego_inside, ego = draw.coin(), None
    low, high = difficulty.distractors
    count = low + int(draw.uniform(0, 0.9999) * (high - low + 1))
    types += [bystander, *(draw.choice(OTHERS) for _ in range(count - 1))]
    if view == "driving":
        # From the struck vehicle the one that drives into its side or rear is not seen.
        either = kind in ("head_on", "sideswipe")
        ego = len(types) if not ego_inside else draw.choice((0, 1)) if either else striker
        types[ego : ego + 1] = ["car"]
    contact = round(draw.uniform(*CONTACT_WINDOW) * duration, 4)
    lead = draw.uniform(*difficulty.branch_lead)
    return Cast(
        kind=kind,
        place=place,
        view=view,
        looks=tuple(zip(types, draw.shuffled(COLOURS))),
        involved=involved,
        striker=striker,
        guilty=guilty,
        from_left=draw.coin(),
        cause=cause,
        obstacle=draw.choice(("tree", "pole", "building")),
        image_left=draw.coin(),
        ego=ego,
        contact_time=contact,
        branch=round(max(contact - lead, FIRST_BRANCH) * GRID) / GRID,
        duration=duration,
    )


def _cause(draw: Draw, kind: str, place: str) -> str:
    if kind == "t_bone":
        return "red_light" if place == "signals" else "no_yield"
    if kind == "pedestrian":
        return draw.choice(("stepped_out", "ran_over"))
    if kind == "run_off_road":
        return "too_fast" if place == "curve" else "lost_control"
    return {"rear_end": "no_braking", "head_on": "wrong_lane", "sideswipe": "lane_change"}[kind]
