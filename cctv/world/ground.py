"""The painted ground of a layout: flat polygons on z = 0, each with the name of its colour."""

from functools import lru_cache

import numpy as np

from cctv.world.layout import CROSSING_WIDTH, LANE_WIDTH, Layout, Road

Array = np.ndarray

PAVEMENT = 2.2  # metres of pavement on either side of a road
SURFACES = ("grass", "pavement", "asphalt", "centre", "mark")  # fields of look.Traits
_STRAIGHT, _BEND = 12.0, 2.5  # metres of road that one polygon covers
_DASH, _EVERY, _LINE = 3.0, 7.5, 0.14


@lru_cache(maxsize=8)
def polygons(layout: Layout) -> tuple[Array, Array]:
    """float[N, 4, 3] corners in the order they are painted, int[N] indices of SURFACES."""
    quads: list[Array] = []
    names: list[str] = []

    def add(name, strips):
        quads.extend(strips)
        names.extend([name] * len(strips))

    for road in layout.roads:
        add("pavement", _band(road, *road.span, road.half_width + PAVEMENT))
    for road in layout.roads:
        add("asphalt", _band(road, *road.span, road.half_width))
    for road in layout.roads:
        for start, end in road.marked:
            add("centre", _stripe(road, start, end, 0.0))
            for lane in range(1, road.lanes_each_way):
                for side in (1, -1):
                    add("mark", _dashes(road, start, end, side * lane * LANE_WIDTH))
            for side in (1, -1):
                add("mark", _stripe(road, start, end, side * (road.half_width - 0.25)))
        for s, direction in road.stops:
            # Right-hand traffic: who drives along the path is to the right of the middle line.
            sides = (
                (-road.half_width + 0.2, -0.15) if direction > 0 else (0.15, road.half_width - 0.2)
            )
            add("mark", _quads(road, [s - 0.22, s + 0.22], *sides))
        for s in road.crossings:
            ends = [s - CROSSING_WIDTH / 2, s + CROSSING_WIDTH / 2]
            count = int(2 * (road.half_width - 0.3) / 1.1)
            for k in range(count):
                low = -road.half_width + 0.35 + k * (2 * road.half_width - 0.7) / count
                add("mark", _quads(road, ends, low, low + 0.55))
    points = np.array(quads)
    return np.concatenate([points, np.zeros((*points.shape[:2], 1))], -1), np.array(
        [SURFACES.index(n) for n in names]
    )


def _steps(road: Road, start: float, end: float) -> Array:
    """float[K]: s of the ends of the polygons between two s: short ones in bends."""
    cuts = [start]
    while cuts[-1] < end - 1e-6:
        s = cuts[-1]
        bent = np.abs(road.path.curvature(np.array([s, s + _BEND, s + _STRAIGHT]))).max() > 0
        cuts.append(min(s + (_BEND if bent else _STRAIGHT), end))
    return np.array(cuts)


def _quads(road: Road, cuts: list[float] | Array, low: float, high: float) -> Array:
    """float[K - 1, 4, 2]: the road between offsets `low` and `high` (m to the left), cut at s."""
    x, y, yaw = np.moveaxis(road.path.at(np.asarray(cuts, np.float64)), -1, 0)
    sides = [np.stack([x - o * np.sin(yaw), y + o * np.cos(yaw)], -1) for o in (low, high)]
    return np.stack([sides[0][:-1], sides[0][1:], sides[1][1:], sides[1][:-1]], 1)


def _band(road: Road, start: float, end: float, half: float) -> Array:
    quads = _quads(road, _steps(road, start, end), -half, half)
    # They overlap a little: two edges that only meet would show a seam.
    out = quads.copy()
    out[:-1, 1:3] += (quads[:-1, 1:3] - quads[:-1, (0, 3)]) * 0.02
    return out


def _stripe(road: Road, start: float, end: float, offset: float) -> Array:
    return _quads(road, _steps(road, start, end), offset - _LINE / 2, offset + _LINE / 2)


def _dashes(road: Road, start: float, end: float, offset: float) -> Array:
    starts = np.arange(start + 1.0, end - _DASH, _EVERY)
    dashes = [_quads(road, [s, s + _DASH], offset - _LINE / 2, offset + _LINE / 2) for s in starts]
    return np.concatenate(dashes) if dashes else np.zeros((0, 4, 2))
