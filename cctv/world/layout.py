"""The road: a junction of two roads with two lanes a direction, its signals, its surroundings.

Metres; x east, y north; traffic drives on the right. A lane is followed by s, the distance along
its direction from the middle of the junction (negative on the way in).
"""

from dataclasses import dataclass

from cctv.world.draw import Draw

ROAD_HALF = 7.0  # half width of a road, so also of the junction box
STOP_LINE = -9.7  # s of the stop lines; the crossing lies between them and the junction
LANE_OFFSETS = (1.75, 5.25)  # of the inner and the outer lane, to the right of the middle line
DIRECTIONS = ((1, 0), (0, 1), (-1, 0), (0, -1))
YAWS = (0.0, 1.5707963267948966, 3.141592653589793, -1.5707963267948966)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One lane, straight through the junction: `arm` indexes DIRECTIONS, `rank` LANE_OFFSETS."""

    arm: int
    rank: int

    @property
    def road(self) -> int:
        """0 for the east-west road, 1 for the north-south road."""
        return self.arm % 2

    @property
    def direction(self) -> tuple[int, int]:
        """Unit vector of travel."""
        return DIRECTIONS[self.arm]

    @property
    def yaw(self) -> float:
        """Heading in radians."""
        return YAWS[self.arm]

    @property
    def origin(self) -> tuple[float, float]:
        """The point s = 0."""
        dx, dy = self.direction
        return dy * LANE_OFFSETS[self.rank], -dx * LANE_OFFSETS[self.rank]


LANES = tuple(Lane(arm=arm, rank=rank) for arm in range(4) for rank in range(2))


@dataclass(frozen=True, kw_only=True)
class Building:
    """A box on a block corner: centre, half sizes and height in metres, grey level."""

    x: float
    y: float
    half_x: float
    half_y: float
    height: float
    colour: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What never moves. The road `green_road` has green for the whole clip, the other red."""

    green_road: int
    buildings: tuple[Building, ...]


def draw_layout(draw: Draw, green_road: int) -> Layout:
    """A junction with buildings on its four blocks."""
    buildings = []
    for sx in (1, -1):
        for sy in (1, -1):
            for near_x, near_y in ((24, 24), (48, 24), (24, 48)):
                half_x, half_y = draw.uniform(5, 9), draw.uniform(5, 9)
                base = draw.uniform(120, 190)
                tint = [int(base + draw.uniform(-18, 18)) for _ in range(3)]
                x, y = sx * (near_x + half_x), sy * (near_y + half_y)
                height = draw.uniform(5, 14)
                buildings.append(
                    Building(
                        x=x, y=y, half_x=half_x, half_y=half_y, height=height, colour=tuple(tint)
                    )
                )
    return Layout(green_road=green_road, buildings=tuple(buildings))
