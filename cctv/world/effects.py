"""Shadows, pools of light, glows, broken glass, and the bonnet before a riding camera."""

import cv2
import numpy as np

from cctv.world import geometry
from cctv.world.motion import Actor
from cctv.world.raster import Brush, fixed_point, place
from cctv.world.simulation import World
from cctv.world.solids import Array, Solid

_CIRCLE = tuple(  # cosines and sines of sixteen directions, spelt out
    (c, s)
    for c, s in (
        (1.0, 0.0), (0.9239, 0.3827), (0.7071, 0.7071), (0.3827, 0.9239),
        (0.0, 1.0), (-0.3827, 0.9239), (-0.7071, 0.7071), (-0.9239, 0.3827),
        (-1.0, 0.0), (-0.9239, -0.3827), (-0.7071, -0.7071), (-0.3827, -0.9239),
        (0.0, -1.0), (0.3827, -0.9239), (0.7071, -0.7071), (0.9239, -0.3827),
    )
)  # fmt: skip
_UP = np.array([[0.0, 0.0, 1.0]])
_GLASS = ((226, 228, 222), (34, 34, 36))
POOL = (0.4, 9.0, 0.7, 2.0)  # metres before the bumper from, to; half widths there


def on_the_ground(
    brush: Brush, actors: list[tuple[Actor, Array]], world: World, time: float
) -> None:
    """Shadows and head light of actors in poses, then what the accident has left on the road."""
    traits = brush.look.traits
    if traits.shadow and actors:
        _darken(brush, _shadows(actors), traits.shadow)
    if traits.pools:
        _pools(brush, actors, time)
    _debris(brush, world, time)


def glow(brush: Brush, solid: Solid, pose: Array) -> None:
    """A halo around each lit face that looks at the camera."""
    if not solid.lit.any():
        return
    faces = place(solid.faces[solid.lit], pose)
    normals = place(solid.normals[solid.lit], (0.0, 0.0, pose[2]))
    middles = faces.mean(1)
    to = brush.camera.position - middles
    facing = (to * normals).sum(-1) / np.sqrt((to * to).sum(-1))
    relative = brush.camera.relative(middles)
    scale = brush.camera.focal * min(brush.size[0], brush.size[1] * 16 / 9)
    for colour, turned, at in zip(solid.colours[solid.lit], facing.tolist(), relative):
        if turned < 0.15 or at[2] < 2:
            continue
        bright = int(colour.max()) > 200
        radius = int(scale * (0.42 if bright else 0.2) / at[2]) + 1
        u, v = brush.camera.to_pixels(at, brush.size)
        _halo(brush.image, int(u), int(v), min(radius, 40), colour, 0.55 * turned)


def bonnet(brush: Brush, rgb: tuple[int, int, int]) -> None:
    """The front of the camera's own car along the lower edge of the picture."""
    width, height = brush.size
    unit = min(width, height * 16 / 9)
    shape = (
        (-0.40, 0.30),
        (-0.34, 0.262),
        (-0.18, 0.246),
        (0.18, 0.246),
        (0.34, 0.262),
        (0.40, 0.30),
    )
    points = np.array(shape) * unit + (width / 2, height / 2)
    points = np.concatenate(
        [points, [[width / 2 + 0.4 * unit, height + 4], [width / 2 - 0.4 * unit, height + 4]]]
    )
    if brush.flat is not None:
        return brush.fill([fixed_point(points)], [])
    light = brush.look.traits.light
    shades = [tuple(int(c * w * k) for c, w in zip(rgb, light)) for k in (0.55, 0.72)]
    inner = (points - (width / 2, height / 2)) * (0.9, 1.0) + (width / 2, height / 2 + 0.012 * unit)
    return brush.fill([fixed_point(points), fixed_point(inner)], shades)


def _shadows(actors: list[tuple[Actor, Array]]) -> list[Array]:
    out = []
    for actor, pose in actors:
        size = actor.size
        lean = 0.1 + 0.12 * size.height
        flat = geometry.corners(
            np.add(pose, (-0.8 * lean, 0.5 * lean, 0.0)), size.length + 0.15, size.width + 0.2
        )
        out.append(np.c_[flat, np.zeros(4)])
    return out


def _darken(brush: Brush, quads: list[Array], dark: float) -> None:
    """Darkens the ground under polygons float[4, 3], once where they overlap."""
    polygons, _, _ = brush.project(np.array(quads))
    mask = np.zeros(brush.image.shape[:2], np.uint8)
    for polygon in polygons:
        cv2.fillConvexPoly(mask, polygon, round(dark * 255), cv2.LINE_AA, 4)
    where = np.nonzero(mask)
    brush.image[where] = (
        brush.image[where].astype(np.uint16) * (256 - mask[where][:, None].astype(np.uint16)) >> 8
    )


def _pools(brush: Brush, actors: list[tuple[Actor, Array]], time: float) -> None:
    near, far, slim, wide = POOL
    quads = []
    for actor, pose in actors:
        if actor.type in ("bicycle", "pedestrian") or actor.fallen(time):
            continue
        front = actor.size.length / 2
        local = [
            (front + near, -slim),
            (front + near, slim),
            (front + far, wide),
            (front + far, -wide),
        ]
        quads.append(place(np.array([(x, y, 0.0) for x, y in local]), pose))
    if not quads:
        return
    polygons, _, _ = brush.project(np.array(quads))
    layer = np.zeros(brush.image.shape[:2], np.uint8)
    for polygon in polygons:
        cv2.fillConvexPoly(layer, polygon, brush.look.traits.pools, cv2.LINE_AA, 4)
    side = max(3, brush.size[0] // 40) | 1
    layer = cv2.blur(layer, (side, side))
    cv2.add(brush.image, cv2.merge([layer, layer, (layer >> 1) + (layer >> 2)]), dst=brush.image)


def _halo(image: Array, u: int, v: int, radius: int, colour: Array, strength: float) -> None:
    """Adds a round spot of light at a pixel."""
    left, top = max(u - radius, 0), max(v - radius, 0)
    right, bottom = min(u + radius + 1, image.shape[1]), min(v + radius + 1, image.shape[0])
    if left >= right or top >= bottom:
        return
    x = (np.arange(left, right) - u)[None, :]
    y = (np.arange(top, bottom) - v)[:, None]
    fall = np.maximum(radius * radius - x * x - y * y, 0)  # int, 0 at the rim
    weight = (fall * fall * round(256 * strength)) // max(radius**4, 1)  # of 256
    spot = image[top:bottom, left:right]
    light = (weight[..., None] * colour) >> 8
    spot[:] = np.minimum(spot + light, 255)


def _debris(brush: Brush, world: World, time: float) -> None:
    """Broken glass around the place of the contact."""
    if world.contact is None or time <= world.contact.time:
        return
    spread = min(1.0, 0.25 + 1.5 * (time - world.contact.time))
    quads, normals, colours = [], [], []
    for k in range(14):
        reach = spread * (0.5 + (k * 5 % 7) * 0.38)
        cos, sin = _CIRCLE[(k * 6 + k // 8) % 16]
        x, y = world.contact.point[0] + reach * cos, world.contact.point[1] + reach * sin
        half = 0.10 + 0.03 * (k % 3)
        quads.append(
            [(x + half, y, 0.02), (x, y + half, 0.02), (x - half, y, 0.02), (x, y - half, 0.02)]
        )
        normals.append(_UP[0])
        colours.append(_GLASS[k % 2])
    lit = np.zeros(len(quads), bool)
    polygons, shades, _ = brush.facing(np.array(quads), np.array(normals), np.array(colours), lit)
    brush.fill(polygons, shades)
