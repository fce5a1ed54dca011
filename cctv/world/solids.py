"""Convex solids of flat faces, and marks (windows, lamps, wheels) that lie on them. Metres."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

Array = np.ndarray
Range = tuple[float, float]
Colour = tuple[int, int, int]

TIPS = 6  # steps of a fall
_SINES = (0.0, 0.258819, 0.5, 0.707107, 0.866025, 0.965926, 1.0)  # of 0 to 90 degrees
_OCTAGON = tuple(
    (c, s)
    for c, s in (
        (0.924, 0.383), (0.383, 0.924), (-0.383, 0.924), (-0.924, 0.383),
        (-0.924, -0.383), (-0.383, -0.924), (0.383, -0.924), (0.924, -0.383),
    )
)  # fmt: skip
_LIFT = 0.012  # metres that a mark stands off its face


@dataclass(frozen=True, kw_only=True)
class Part:
    """A convex solid and flat marks on its faces: faces float[N, 4, 3], colours int[N, 3].

    Faces turn anticlockwise seen from outside. Lower levels are painted first. `lit`, bool[N], are
    faces that shine by themselves; the first `outline` faces make the outline, the rest lie in it.
    """

    level: int
    faces: Array
    colours: Array
    lit: Array
    outline: int


@dataclass(frozen=True, kw_only=True)
class Solid:
    """Parts joined: faces float[N, 4, 3], outward unit normals float[N, 3], colours int[N, 3].

    Part p has the faces bounds[p] to bounds[p + 1], level levels[p] and middle float[P, 3].
    `outline` bool[N]: without the marks on its faces it looks the same from far away.
    """

    faces: Array
    normals: Array
    colours: Array
    lit: Array
    outline: Array
    bounds: tuple[int, ...]
    levels: tuple[int, ...]
    middles: Array

    @cached_property
    def plain(self) -> "Solid":
        """The same without marks: it covers the same pixels."""
        kept = self.outline
        counts = np.add.reduceat(kept, self.bounds[:-1])
        return replace(
            self,
            faces=self.faces[kept],
            normals=self.normals[kept],
            colours=self.colours[kept],
            lit=self.lit[kept],
            outline=kept[kept],
            bounds=(0, *np.cumsum(counts).tolist()),
        )


def join(*parts: Part) -> Solid:
    """One solid of several parts."""
    faces = np.concatenate([p.faces for p in parts])
    return Solid(
        faces=faces,
        normals=_normals(faces),
        colours=np.concatenate([p.colours for p in parts]),
        lit=np.concatenate([p.lit for p in parts]),
        outline=np.concatenate([np.arange(len(p.faces)) < p.outline for p in parts]),
        bounds=(0, *np.cumsum([len(p.faces) for p in parts]).tolist()),
        levels=tuple(p.level for p in parts),
        middles=np.stack([p.faces.mean((0, 1)) for p in parts]),
    )


def part(
    level: int,
    *pieces: tuple[Array, Colour],
    marks: tuple[tuple[Array, Colour], ...] = (),
    lit: tuple[tuple[Array, Colour], ...] = (),
) -> Part:
    """A part of (faces, colour) pieces, then `marks` on them, then marks that are `lit`."""
    every = [*pieces, *marks, *lit]
    faces = [np.asarray(f, np.float64).reshape(-1, 4, 3) for f, _ in every]
    counts = [len(f) for f in faces]
    unlit = len(pieces) + len(marks)
    return Part(
        level=level,
        faces=np.concatenate(faces),
        colours=np.repeat(np.array([c for _, c in every]), counts, axis=0),
        lit=np.repeat([False] * unlit + [True] * len(lit), counts),
        outline=sum(counts[: len(pieces)]),
    )


def prism(x: Range, y: Range, z: Range, top: tuple[Range, Range] | None = None) -> Array:
    """float[6, 4, 3]: front, left, rear, right, top and bottom of a box.

    With `top` = (x, y), its upper end is that rectangle: a frustum or a leaning column.
    """
    lo, hi = _ring(x, y, z[0]), _ring(*(top or (x, y)), z[1])
    sides = [[lo[i], lo[(i + 1) % 4], hi[(i + 1) % 4], hi[i]] for i in range(4)]
    return np.array([*sides, hi, lo[::-1]], np.float64)


def limb(low: tuple[float, float, float], high: tuple[float, float, float], half: float) -> Array:
    """float[6, 4, 3]: a square column from one point to another above it."""
    ends = [((p[0] - half, p[0] + half), (p[1] - half, p[1] + half)) for p in (low, high)]
    return prism(*ends[0], (low[2], high[2]), ends[1])


def on(face: Array, u: Range, v: Range) -> Array:
    """float[4, 3]: a mark on a face float[4, 3]; u to the right, v upwards, shares of the face."""
    return marks(face, np.array([u]), np.array([v]))[0]


def marks(face: Array, u: Array, v: Array) -> Array:
    """float[K, 4, 3]: marks as of `on`, with their ranges in float[K, 2]."""
    across = u[:, (0, 1, 1, 0), None]  # [K, 4, 1]
    bottom, top = (p + across * (q - p) for p, q in ((face[0], face[1]), (face[3], face[2])))
    return bottom + v[:, (0, 0, 1, 1), None] * (top - bottom) + _LIFT * _normals(face[None])[0]


def wheel(x: float, y: float, radius: float, hub: float | None = None) -> Array:
    """float[4, 4, 3]: an upright disc at (x, y), facing away from y = 0.

    An octagon of four oblongs, which overlap: parts that only met would show seams. Its middle is
    `hub` m high; if not given, it stands on the ground.
    """
    ring = [(x + radius * c, y, (hub or radius) + radius * s) for c, s in _OCTAGON]
    oblongs = [[ring[(k + i) % 8] for i in (0, 1, 4, 5)] for k in range(4)]
    return np.array([o[::-1] if y > 0 else o for o in oblongs])


def tipped(solid: Solid, axis: str, step: int, up: float) -> Solid:
    """The solid on its way from standing (step 0) to lying (step TIPS), then `up` m high.

    It falls towards +x (`axis` "y") or +y ("x"), and its middle stays where it is.
    """
    height = solid.faces[..., 2].max() / 2
    sin, cos = _SINES[step], _SINES[TIPS - step]

    def tip(points, lift, back):
        x, y, z = points[..., 0], points[..., 1], points[..., 2]
        flat = x if axis == "y" else y
        along, high = cos * flat + sin * z - back, cos * z - sin * flat + lift
        return np.stack([along, y, high] if axis == "y" else [x, along, high], -1)

    return Solid(
        faces=tip(solid.faces, up * sin, height * sin),
        normals=tip(solid.normals, 0.0, 0.0),
        colours=solid.colours,
        lit=solid.lit,
        outline=solid.outline,
        bounds=solid.bounds,
        levels=(0,) * len(solid.levels),
        middles=tip(solid.middles, up * sin, height * sin),
    )


def _ring(x: Range, y: Range, z: float) -> list[tuple[float, float, float]]:
    return [(x[1], y[0], z), (x[1], y[1], z), (x[0], y[1], z), (x[0], y[0], z)]


def _normals(faces: Array) -> Array:
    (ax, ay, az), (bx, by, bz) = (np.moveaxis(faces[:, k] - faces[:, 0], -1, 0) for k in (1, 3))
    normals = np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], -1)
    return normals / np.sqrt((normals * normals).sum(-1, keepdims=True))
