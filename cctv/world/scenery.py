"""What stands beside the road: buildings, trees, poles, traffic lights, as solids in the world."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cctv.world import geometry
from cctv.world.camera import CROWN
from cctv.world.layout import Layout, Obstacle, Signal
from cctv.world.models import STEEL, TYRE
from cctv.world.raster import place
from cctv.world.solids import Array, Solid, join, marks, part, prism

SIGNAL = {"red": (255, 40, 30), "green": (50, 245, 110)}
_BARK, _LEAVES, _PANE = (92, 68, 48), ((58, 104, 52), (74, 124, 62)), (88, 100, 112)
_FLOOR = 3.0  # metres of height


@dataclass(frozen=True, kw_only=True)
class Prop:
    """Something that never moves: its footprint float[4, 2] and solid, both in the world.

    `id` is that of an obstacle, None for a traffic light; `block` float[8, 3] are the corners of a
    box around the solid.
    """

    id: int | None
    footprint: Array
    solid: Solid
    block: Array


@lru_cache(maxsize=8)
def props(layout: Layout, *, plain: bool = False) -> tuple[Prop, ...]:
    """Everything that stands in a layout; `plain`: buildings without windows."""
    make = {"building": _block if plain else _building, "tree": _tree, "pole": _pole}
    return (
        *(
            _prop(o.id, make[o.kind](o), (o.x, o.y, o.yaw), (o.length, o.width))
            for o in layout.obstacles
        ),
        *(_prop(None, _light(s), (s.x, s.y, s.yaw), (0.5, 0.5)) for s in layout.signals),
    )


def _prop(
    id_: int | None, solid: Solid, pose: tuple[float, float, float], size: tuple[float, float]
) -> Prop:
    solid = _moved(solid, np.array(pose))
    low, high = solid.faces.min((0, 1)), solid.faces.max((0, 1))
    block = np.array(
        [[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])]
    )
    return Prop(id=id_, footprint=geometry.corners(np.array(pose), *size), solid=solid, block=block)


def _moved(solid: Solid, pose: Array) -> Solid:
    return Solid(
        faces=place(solid.faces, pose),
        normals=place(solid.normals, (0.0, 0.0, pose[2])),
        colours=solid.colours,
        lit=solid.lit,
        outline=solid.outline,
        bounds=solid.bounds,
        levels=solid.levels,
        middles=place(solid.middles, pose),
    )


def _sides(o: Obstacle) -> tuple[tuple[float, float], tuple[float, float]]:
    return (-o.length / 2, o.length / 2), (-o.width / 2, o.width / 2)


def _block(o: Obstacle) -> Solid:
    return join(part(0, (prism(*_sides(o), (0.0, o.height)), o.colour)))


def _building(o: Obstacle) -> Solid:
    block = prism(*_sides(o), (0.0, o.height))
    floors = max(1, int(o.height / _FLOOR))
    rows = []
    for k, across in enumerate((o.width, o.length, o.width, o.length)):
        count = max(1, int(across / 3.2))
        column, floor = (a.ravel() for a in np.meshgrid(np.arange(count), np.arange(floors)))
        u, v = (
            np.stack([column + 0.22, column + 0.78], -1),
            np.stack([floor + 0.32, floor + 0.78], -1),
        )
        rows.append(marks(block[k], u / count, v / floors))
    roof = tuple(int(c * 0.8) for c in o.colour)
    windows = (np.concatenate(rows), _PANE)
    return join(part(0, (block, o.colour), marks=((block[4], roof), windows)))


def _tree(o: Obstacle) -> Solid:
    x, y = _sides(o)
    low, middle, top = 0.32 * o.height, 0.6 * o.height, o.height
    wide = ((-CROWN, CROWN), (-CROWN, CROWN))
    small = ((-0.5, 0.5), (-0.5, 0.5))
    skirt = prism((-0.7, 0.7), (-0.7, 0.7), (low, middle), wide)
    crown = prism(*wide, (middle, top), small)
    return join(
        part(0, (prism(x, y, (0.0, low)), _BARK)),
        part(1, (skirt, _LEAVES[0]), (crown, _LEAVES[1])),
    )


def _pole(o: Obstacle) -> Solid:
    x, y = _sides(o)
    slim = ((-0.09, 0.09), (-0.09, 0.09))
    lamp = prism((-0.3, 0.3), (-0.3, 0.3), (o.height - 0.22, o.height))
    return join(
        part(0, (prism(x, y, (0.0, 1.0)), o.colour)),
        part(1, (prism(x, y, (1.0, o.height), slim), o.colour)),
        part(2, (lamp, STEEL)),
    )


def _light(signal: Signal) -> Solid:
    """The lit lamp is wider than its case, so that it is seen from all sides."""

    def column(half, low, high):
        return prism((-half, half), (-half, half), (low, high))

    z = 3.55 if signal.state == "red" else 2.8
    lamp = column(0.36, z, z + 0.75)
    parts = [
        part(0, (column(0.08, 0.0, 2.7), STEEL)),
        part(1, (column(0.27, 2.7, 4.4), TYRE)),
        part(2, (lamp, TYRE), lit=((lamp, SIGNAL[signal.state]),)),
    ]
    if signal.state == "green":
        parts.append(part(3, (column(0.27, z + 0.75, 4.4), TYRE)))
    return join(*parts)
