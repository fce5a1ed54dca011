"""What things look like: boxes with coloured faces, in metres around their own origin."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from cctv.world.layout import LANES, STOP_LINE, Layout
from cctv.world.motion import TYPES

Array = np.ndarray

RGB = {
    "red": (205, 25, 30),
    "orange": (245, 130, 15),
    "yellow": (245, 220, 45),
    "green": (30, 150, 60),
    "blue": (30, 85, 215),
    "purple": (145, 55, 180),
    "white": (243, 243, 243),
    "black": (26, 26, 30),
}
GLASS, TYRE, STEEL = (75, 92, 108), (14, 14, 16), (70, 70, 74)
LAMP, TAIL, TAIL_ON = (255, 252, 220), (125, 10, 14), (255, 60, 50)
SIGNAL = {"red": (255, 40, 30), "green": (50, 245, 110)}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A convex solid and flat marks on its faces: faces float[N, 4, 3], colours int[N, 3].

    Faces turn anticlockwise seen from outside. Lower levels are painted first.
    """

    level: int
    faces: Array
    colours: Array


@dataclass(frozen=True, kw_only=True)
class Solid:
    """Parts joined: faces float[N, 4, 3], outward unit normals float[N, 3], colours int[N, 3].

    Part p has the faces bounds[p] to bounds[p + 1], level levels[p] and middle float[P, 3].
    """

    faces: Array
    normals: Array
    colours: Array
    bounds: tuple[int, ...]
    levels: tuple[int, ...]
    middles: Array


def join(*parts: Part) -> Solid:
    """One solid of several parts."""
    faces = np.concatenate([p.faces for p in parts])
    normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 3] - faces[:, 0])
    return Solid(
        faces=faces,
        normals=normals / np.sqrt((normals * normals).sum(-1, keepdims=True)),
        colours=np.concatenate([p.colours for p in parts]),
        bounds=(0, *np.cumsum([len(p.faces) for p in parts]).tolist()),
        levels=tuple(p.level for p in parts),
        middles=np.stack([p.faces.mean((0, 1)) for p in parts]),
    )


def box(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    taper: float = 1.0,
) -> Array:
    """float[5, 4, 3]: front, left, rear, right and top of a box whose top is `taper` as large."""
    lo = _ring(x, y, z[0], 1.0)
    hi = _ring(x, y, z[1], taper)
    sides = [[lo[i], lo[(i + 1) % 4], hi[(i + 1) % 4], hi[i]] for i in range(4)]
    return np.array([*sides, [hi[0], hi[1], hi[2], hi[3]]])


def _ring(x, y, z, taper):
    cx, cy = sum(x) / 2, sum(y) / 2
    hx, hy = (x[1] - x[0]) / 2 * taper, (y[1] - y[0]) / 2 * taper
    return [
        (cx + hx, cy - hy, z),
        (cx + hx, cy + hy, z),
        (cx - hx, cy + hy, z),
        (cx - hx, cy - hy, z),
    ]


def _part(level: int, *pieces: tuple[Array, tuple[int, int, int]]) -> Part:
    faces = np.concatenate([f for f, _ in pieces])
    colours = np.concatenate([np.tile(c, (len(f), 1)) for f, c in pieces])
    return Part(level=level, faces=faces, colours=colours)


def _marks(length: float, width: float, x: float, braking: bool, z: float):
    """Wheels on the sides, lamps in front, tail lights behind, of a body centred at x."""
    w = width / 2 + 0.02
    front, rear = x + length / 2 + 0.02, x - length / 2 - 0.02
    out = []
    for wheel in (x + length * 0.31, x - length * 0.31):
        out.append(([[wheel + 0.36, w, 0], [wheel - 0.36, w, 0], [wheel - 0.36, w, 0.68],
                     [wheel + 0.36, w, 0.68]], TYRE))  # fmt: skip
        out.append(([[wheel - 0.36, -w, 0], [wheel + 0.36, -w, 0], [wheel + 0.36, -w, 0.68],
                     [wheel - 0.36, -w, 0.68]], TYRE))  # fmt: skip
    for side in (width * 0.36, -width * 0.36):
        a, b = side - width * 0.12, side + width * 0.12
        out.append(([[front, a, z], [front, b, z], [front, b, z + 0.2], [front, a, z + 0.2]], LAMP))
        out.append(([[rear, b, z], [rear, a, z], [rear, a, z + 0.26], [rear, b, z + 0.26]],
                    TAIL_ON if braking else TAIL))  # fmt: skip
    return [(np.array([f], np.float64), c) for f, c in out]


def _windows(x: tuple[float, float], width: float, z: tuple[float, float], front: float | None):
    """Glass on both sides from x[0] to x[1] and, where `front` is given, across the front."""
    w, (a, b), (lo, hi) = width / 2 + 0.02, x, z
    out = [
        [[b, w, lo], [a, w, lo], [a, w, hi], [b, w, hi]],
        [[a, -w, lo], [b, -w, lo], [b, -w, hi], [a, -w, hi]],
    ]
    if front is not None:
        f, s = front + 0.02, width * 0.44
        out.append([[f, -s, lo], [f, s, lo], [f, s, hi], [f, -s, hi]])
    return np.array(out), GLASS


@cache
def vehicle(type_: str, colour: str, braking: bool) -> Solid:
    """A vehicle, origin on the ground under its centre, x forward."""
    size, rgb = TYPES[type_], RGB[colour]
    half, side = size.length / 2, (-size.width / 2, size.width / 2)
    marks = _marks(size.length, size.width, 0.0, braking, 0.62)
    if type_ == "bus":
        shell = (box((-half, half), side, (0.3, size.height)), rgb)
        glass = _windows((-half * 0.9, half * 0.82), size.width, (1.5, 2.4), half)
        return join(_part(0, shell, *marks, glass))
    if type_ == "truck":
        deck = (box((-half, half), side, (0.3, 1.0)), rgb)
        cab = (box((half - 1.7, half), side, (1.0, 2.3)), rgb)
        load = (box((-half, half - 2.1), side, (1.0, size.height)), rgb)
        glass = _windows((half - 1.3, half - 0.3), size.width, (1.45, 2.1), half)
        return join(_part(0, deck, *marks), _part(1, cab, glass), _part(1, load))
    body = (box((-half, half), side, (0.25, 0.85)), rgb)
    inner = (side[0] * 0.94, side[1] * 0.94)
    cabin = box((-half * 0.72, half * 0.42), inner, (0.85, size.height), 0.8)
    return join(_part(0, body, *marks), _part(1, (cabin[:4], GLASS), (cabin[4:], rgb)))


@dataclass(frozen=True, kw_only=True)
class Prop:
    """Something that never moves: its footprint (x0, x1, y0, y1) and its faces, in the world."""

    footprint: tuple[float, float, float, float]
    solid: Solid


def props(layout: Layout) -> list[Prop]:
    """Buildings and traffic lights."""
    out = []
    for b in layout.buildings:
        x, y = (b.x - b.half_x, b.x + b.half_x), (b.y - b.half_y, b.y + b.half_y)
        block = join(_part(0, (box(x, y, (0, b.height)), b.colour)))
        out.append(Prop(footprint=(*x, *y), solid=block))
    for arm in range(4):
        lane = next(lane for lane in LANES if lane.arm == arm)
        (dx, dy) = lane.direction
        x, y = dx * STOP_LINE + dy * 8.3, dy * STOP_LINE - dx * 8.3
        lit = "green" if lane.road == layout.green_road else "red"

        def column(half, low, high, x=x, y=y):
            return box((x - half, x + half), (y - half, y + half), (low, high))

        z = 3.5 if lit == "red" else 2.8  # of the lit lamp, which is seen from all sides
        parts = [
            _part(0, (column(0.07, 0, 2.7), STEEL)),
            _part(1, (column(0.22, 2.7, 4.3), (30, 30, 32))),
            _part(2, (column(0.34, z, z + 0.7), SIGNAL[lit])),
        ]
        if lit == "green":
            parts.append(_part(3, (column(0.22, z + 0.7, 4.3), (30, 30, 32))))
        footprint = (x - 0.5, x + 0.5, y - 0.5, y + 0.5)
        out.append(Prop(footprint=footprint, solid=join(*parts)))
    return out
