"""Draws places: a straight road, a curve, junctions with and without lights, a T-junction."""

import math
from dataclasses import replace

import numpy as np

from cctv.world.draw import Draw
from cctv.world.layout import (
    CROSSING_WIDTH,
    FIRST_OBSTACLE,
    LANE_WIDTH,
    Lane,
    Layout,
    Obstacle,
    Path,
    Road,
    Signal,
    rounded,
)

Array = np.ndarray

FAR = 130.0  # metres of road on either side of the middle
ZEBRA = 0.4 + CROSSING_WIDTH / 2  # from a junction's edge to the middle of a zebra crossing
STOP = ZEBRA + CROSSING_WIDTH / 2 + 0.6  # and to the stop line
LEFT_RADIUS, RIGHT_RADIUS = 6.0, 4.5  # of turns at a junction
CURVE_RADIUS, CURVE_ANGLE = (38.0, 60.0), (0.9, 1.35)  # metres, radians
QUARTER = math.pi / 2


def draw_layout(draw: Draw, type_: str) -> Layout:
    """A place of one of layout.TYPES, its middle at the origin."""
    if type_ in ("straight", "curve"):
        roads, lanes, signals, priority = *_one_road(draw, type_), (), 0
    else:
        priority = draw.choice((0, 1)) if type_ == "signals" else 0
        counts = (2, 2) if type_ == "signals" else (2, 1)
        away = draw.choice((1, 3)) if type_ == "tee" else None
        roads, lanes, signals = _junction(type_, priority, counts, away)
    return Layout(
        type=type_,
        roads=roads,
        lanes=lanes,
        signals=signals,
        obstacles=_obstacles(draw, roads),
        priority=priority,
    )


def _one_road(draw: Draw, type_: str) -> tuple[tuple[Road, ...], tuple[Lane, ...]]:
    """Two lanes a direction and a zebra crossing near the middle."""
    if type_ == "straight":
        path = Path(start=(-FAR, 0.0, 0.0), pieces=((2 * FAR, 0.0),))
    else:
        angle = draw.uniform(*CURVE_ANGLE) * draw.choice((1, -1))
        arc = draw.uniform(*CURVE_RADIUS) * abs(angle)
        back = Path(start=(0.0, 0.0, math.pi), pieces=((arc / 2, -angle / 2), (FAR, 0.0)))
        x, y, _ = back.at(np.array(back.length))
        pieces = ((FAR, 0.0), (arc, angle), (FAR, 0.0))
        path = Path(start=rounded((x, y, -angle / 2)), pieces=pieces)
    zebra = path.length / 2 + draw.uniform(-8, 8)
    before = CROSSING_WIDTH / 2 + 0.6
    road = Road(
        path=path,
        half_width=2 * LANE_WIDTH,
        lanes_each_way=2,
        span=(0.0, path.length),
        marked=((0.0, zebra - before), (zebra + before, path.length)),
        stops=((zebra - before, 1), (zebra + before, -1)),
        crossings=(zebra,),
    )
    lanes = []
    for direction, line in ((1, path), (-1, path.reversed())):
        for rank in (0, 1):
            id_ = len(lanes)
            lanes.append(
                Lane(
                    id=id_,
                    path=line.beside(-(rank + 0.5) * LANE_WIDTH),
                    road=0,
                    direction=direction,
                    rank=rank,
                    left=id_ - 1 if rank else None,
                    right=None if rank else id_ + 1,
                    oncoming=None if rank else 2 - id_,
                )
            )
    return (road,), tuple(lanes)


def _junction(
    type_: str, priority: int, counts: tuple[int, int], away: int | None
) -> tuple[tuple[Road, ...], tuple[Lane, ...], tuple[Signal, ...]]:
    """Two roads that cross, or meet: then `away` is the heading in which road 1 leaves road 0.

    Headings are quarters from east; `counts` are the roads' lanes a direction.
    """
    halves = [n * LANE_WIDTH for n in counts]
    # Headings of the traffic that comes in, and of that which goes out.
    goes_in = [k for k in range(4) if away is None or k % 2 == 0 or k == (away + 2) % 4]
    goes_out = [k for k in range(4) if away is None or k % 2 == 0 or k == away]
    stopping = [k for k in goes_in if type_ == "signals" or k % 2 != priority]
    headings = (0, 1 if away is None else away)  # of the roads' paths
    roads = []
    for r, heading in enumerate(headings):
        one_way = r == 1 and away is not None
        x, y = _turned((0.0 if one_way else -FAR, 0.0), heading)
        path = Path(start=(x, y, heading * QUARTER), pieces=((FAR if one_way else 2 * FAR, 0.0),))
        middle = 0.0 if one_way else FAR
        edge, stops, zebras = halves[1 - r], [], []
        if not one_way:
            zebras.append(middle - edge - ZEBRA)
            if heading in stopping:
                stops.append((middle - edge - STOP, 1))
        zebras.append(middle + edge + ZEBRA)
        if (heading + 2) % 4 in stopping:
            stops.append((middle + edge + STOP, -1))
        marked = [(middle + edge + STOP, path.length)]
        if not one_way:
            marked.insert(0, (0.0, middle - edge - STOP))
        roads.append(
            Road(
                path=path,
                half_width=halves[r],
                lanes_each_way=counts[r],
                span=(0.0, path.length),
                marked=tuple(marked),
                stops=tuple(stops),
                crossings=tuple(zebras),
            )
        )
    lanes: list[Lane] = []
    for k in goes_in:
        direction = 1 if k in headings else -1
        _add_lanes(lanes, k, direction, halves, counts, k in stopping, goes_out)
    for lane in list(lanes):
        if lane.turn == "straight":
            lanes[lane.id] = _with_neighbours(lane, lanes)
    signals = []
    if type_ == "signals":
        for k in goes_in:
            r = k % 2
            x, y = _turned((-halves[1 - r] - STOP, -halves[r] - 1.0), k)
            state = "green" if r == priority else "red"
            signals.append(Signal(x=x, y=y, yaw=k * QUARTER, state=state, road=r))
    return tuple(roads), tuple(lanes), tuple(signals)


def _turned(point: tuple[float, float], heading: int) -> tuple[float, float]:
    """A point given in the frame of a heading (x ahead, y to its left), in world coordinates."""
    x, y = point
    return ((x, y), (-y, x), (-x, -y), (y, -x))[heading % 4]


def _add_lanes(
    lanes: list[Lane],
    k: int,
    direction: int,
    halves: list[float],
    counts: tuple[int, int],
    stops: bool,
    goes_out: list[int],
) -> None:
    """Adds the lanes that come in with heading k: straight on, left from the innermost and right
    from the outermost one. `goes_out` are the headings in which one can leave."""
    r = k % 2
    edge = halves[1 - r]
    common = {
        "road": r,
        "direction": direction,
        "stop": FAR - edge - STOP if stops else None,
    }

    def add(rank, turn, pieces, leaves):
        right = (rank + 0.5) * LANE_WIDTH
        start = (*_turned((-FAR, -right), k), k * QUARTER)
        path = Path(start=start, pieces=pieces)
        lanes.append(
            Lane(
                id=len(lanes),
                path=path,
                rank=rank,
                turn=turn,
                junction=(FAR - edge, leaves),
                **common,
            )
        )

    if k in goes_out:
        for rank in range(counts[r]):
            add(rank, "straight", ((2 * FAR, 0.0),), FAR + edge)
    for turn, sign, radius in (("left", 1, LEFT_RADIUS), ("right", -1, RIGHT_RADIUS)):
        if (k + sign) % 4 not in goes_out:
            continue
        # Inner lane to inner lane, or outer to outer, and from a single lane always to the outer
        # one; both lines meet `across` beyond the middle.
        rank = 0 if turn == "left" else counts[r] - 1
        target = 0 if turn == "left" and counts[r] > 1 else counts[1 - r] - 1
        across = sign * (target + 0.5) * LANE_WIDTH
        arc = radius * QUARTER
        before = FAR + across - radius
        pieces = ((before, 0.0), (arc, sign * QUARTER), (FAR, 0.0))
        right = (rank + 0.5) * LANE_WIDTH
        leaves = before + arc + max(0.0, halves[r] + sign * right - radius)
        add(rank, turn, pieces, leaves)


def _with_neighbours(lane: Lane, lanes: list[Lane]) -> Lane:
    """The lane with the ids of the straight lanes beside it and against it."""

    def find(direction, rank):
        for other in lanes:
            same = (other.road, other.direction, other.rank) == (lane.road, direction, rank)
            if same and other.turn == "straight":
                return other.id
        return None

    return replace(
        lane,
        left=find(lane.direction, lane.rank - 1),
        right=find(lane.direction, lane.rank + 1),
        oncoming=find(-lane.direction, 0) if lane.rank == 0 else None,
    )


def _obstacles(draw: Draw, roads: tuple[Road, ...]) -> tuple[Obstacle, ...]:
    """Poles and trees along the roads and buildings behind them, none on a road."""
    points = [r.path.at(np.arange(r.span[0], r.span[1] + 1, 2.0)) for r in roads]
    out: list[Obstacle] = []

    def free(x, y, reach, apart):
        if any(
            (np.hypot(p[:, 0] - x, p[:, 1] - y)).min() < r.half_width + reach
            for r, p in zip(roads, points)
        ):
            return False
        return all(np.hypot(o.x - x, o.y - y) > apart + max(o.length, o.width) / 2 for o in out)

    def beside(road, s, lateral):
        x, y, yaw = road.path.at(np.array(s))
        return float(x - lateral * np.sin(yaw)), float(y + lateral * np.cos(yaw)), float(yaw)

    def add(kind, x, y, yaw, length, width, height, colour):
        out.append(
            Obstacle(
                id=FIRST_OBSTACLE + len(out),
                kind=kind,
                x=round(x, 4),
                y=round(y, 4),
                yaw=round(yaw, 4),
                length=length,
                width=width,
                height=height,
                colour=colour,
            )
        )

    for road in roads:
        for side in (1, -1):
            s = road.span[0] + 30
            while s < road.span[1] - 30:
                length, width = draw.uniform(10, 18), draw.uniform(9, 14)
                lateral = side * (road.half_width + draw.uniform(12, 18) + width / 2)
                base = draw.uniform(120, 190)
                tint = tuple(int(base + draw.uniform(-18, 18)) for _ in range(3))
                x, y, yaw = beside(road, s + length / 2, lateral)
                if free(x, y, (length + width) / 2 + 3, (length + width) / 2):
                    add("building", x, y, yaw, length, width, draw.uniform(5, 14), tint)
                s += length + draw.uniform(5, 12)
    for kind, step, offset in (("pole", (22, 34), (1.0, 1.6)), ("tree", (12, 28), (3.2, 6.5))):
        for road in roads:
            for side in (1, -1):
                s = road.span[0] + draw.uniform(30, 45)
                while s < road.span[1] - 30:
                    x, y, yaw = beside(road, s, side * (road.half_width + draw.uniform(*offset)))
                    if free(x, y, offset[0] - 0.1, 1.5):
                        add(kind, x, y, 0.0, *SIZES[kind](draw))
                    s += draw.uniform(*step)
    return tuple(out)


SIZES = {
    "pole": lambda draw: (0.3, 0.3, draw.uniform(5, 7), (88, 90, 94)),
    "tree": lambda draw: (0.5, 0.5, draw.uniform(5, 8), (96, 72, 50)),
}
