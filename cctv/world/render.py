"""Draws a world: any instant at any size, as a picture or as a buffer of vehicle ids.

Painter's algorithm with whole vehicles in order of depth. Coordinates are rounded to 1/16 pixel
before OpenCV's integer rasteriser sees them, so pictures are the same on every machine.
"""

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from cctv.world import geometry, ground, models
from cctv.world.camera import NEAR, Camera
from cctv.world.layout import Layout
from cctv.world.motion import Actor
from cctv.world.simulation import World

Array = np.ndarray

_SUN = np.array([0.45, -0.30, 0.84])
_UP = np.array([[0.0, 0.0, 1.0]])
_ORIGIN = np.zeros(3)
_LIMIT = 16000  # pixels: coordinates end here, far outside of any picture
_NEAR_GROUND = 2.0  # metres: flat polygons are cut here


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A world and the camera that films it."""

    world: World
    camera: Camera


def render(shot: Shot, time: float, size: tuple[int, int]) -> Array:
    """uint8[H, W, 3] RGB picture at a time (s), size (W, H)."""
    image = _background(shot.world.layout, shot.camera, size).copy()
    brush = _Brush(image=image, camera=shot.camera, size=size, flat=None)
    for actor in shot.world.actors:
        _shadow(brush, actor, time)
    _debris(brush, shot.world, time)
    _vehicles(brush, shot.world, time)
    return image


def id_buffer(shot: Shot, time: float, size: tuple[int, int], only: int | None = None) -> Array:
    """uint8[H, W]: 1 + id of the vehicle seen in each pixel, 0 elsewhere.

    With `only`, as if that vehicle were alone in the world.
    """
    image = np.zeros((size[1], size[0]), np.uint8)
    brush = _Brush(image=image, camera=shot.camera, size=size, flat=0)
    _vehicles(brush, shot.world, time, only)
    return image


@dataclass(kw_only=True)
class _Brush:
    """Where faces go: an image, and `flat`, the value that replaces colours in an id buffer."""

    image: Array
    camera: Camera
    size: tuple[int, int]
    flat: int | None

    def paint(self, faces: Array, normals: Array, colours: Array) -> None:
        """Those of the faces float[N, 4, 3] (world) that turn to the camera, in their order."""
        seen = ((self.camera.position - faces[:, 0]) * normals).sum(-1) > 0
        relative = self.camera.relative(faces)  # [N, 4, 3]
        seen &= relative[..., 2].min(-1) > NEAR
        if not seen.any():
            return
        points = _fixed(self.camera.to_pixels(relative[seen], self.size))
        if self.flat is None:
            light = 0.62 + 0.38 * np.maximum((normals[seen] * _SUN).sum(-1, keepdims=True), 0)
            shades = np.round(colours[seen] * light).astype(int).tolist()
            for quad, shade in zip(points, shades):
                cv2.fillConvexPoly(self.image, quad, shade, cv2.LINE_AA, 4)
        else:
            for quad in points:
                cv2.fillConvexPoly(self.image, quad, self.flat, cv2.LINE_8, 4)

    def solid(self, solid: models.Solid, pose: Array = _ORIGIN) -> None:
        """A vehicle or prop: lower parts first, and of one level the far ones first."""
        eye = np.array(self.camera.position)
        distance = ((_place(solid.middles, pose) - eye) ** 2).sum(-1)
        parts = sorted(range(len(solid.levels)), key=lambda p: (solid.levels[p], -distance[p]))
        order = [k for p in parts for k in range(solid.bounds[p], solid.bounds[p + 1])]
        normals = _place(solid.normals, (0.0, 0.0, pose[2]))
        self.paint(_place(solid.faces, pose)[order], normals[order], solid.colours[order])


def _fixed(pixels: Array) -> Array:
    return np.round(np.clip(pixels, -_LIMIT, _LIMIT) * 16).astype(np.int32)


def _place(points: Array, pose: Array) -> Array:
    """float[..., 3] points turned by a pose's yaw and moved to it."""
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    x = pose[0] + cos * points[..., 0] - sin * points[..., 1]
    y = pose[1] + sin * points[..., 0] + cos * points[..., 1]
    return np.stack([x, y, points[..., 2]], -1)


@lru_cache(maxsize=8)
def _background(layout: Layout, camera: Camera, size: tuple[int, int]) -> Array:
    """uint8[H, W, 3]: ground, buildings and lights, shared by all frames of a scene."""
    image = np.empty((size[1], size[0], 3), np.uint8)
    image[:] = ground.GRASS
    far = camera.relative(camera.position + np.array([*camera.axes[2][:2], 0.0]))
    horizon = round(float(camera.to_pixels(far, size)[1]))
    if horizon > 0:
        image[:horizon] = ground.SKY
    for points, colour in ground.polygons():
        clipped = _clip(camera.relative(points))
        if len(clipped) >= 3:
            points = _fixed(camera.to_pixels(clipped, size))
            cv2.fillConvexPoly(image, points, colour, cv2.LINE_AA, 4)
    brush = _Brush(image=image, camera=camera, size=size, flat=None)
    for prop, _ in _props(layout, camera, size):
        brush.solid(prop.solid)
    image.setflags(write=False)
    return image


@lru_cache(maxsize=8)
def _props(layout: Layout, camera: Camera, size: tuple[int, int]) -> list[tuple[models.Prop, list]]:
    """Buildings and lights, far ones first, each with its bounds in the picture."""

    def distance(prop):
        x0, x1, y0, y1 = prop.footprint
        dx, dy = (x0 + x1) / 2 - camera.position[0], (y0 + y1) / 2 - camera.position[1]
        return dx * dx + dy * dy

    standing = sorted(models.props(layout), key=distance, reverse=True)
    return [(p, _bounds(camera, p.solid.faces, size)) for p in standing]


def _bounds(camera: Camera, points: Array, size: tuple[int, int]) -> list[float]:
    """Left, top, right, bottom in pixels of those of the points that are before the camera."""
    relative = camera.relative(points).reshape(-1, 3)
    relative = relative[relative[:, 2] > NEAR]
    if not len(relative):
        return [0.0, 0.0, -1.0, -1.0]
    pixels = camera.to_pixels(relative, size)
    return [*pixels.min(0).tolist(), *pixels.max(0).tolist()]


def _clip(relative: Array) -> Array:
    """A polygon float[N, 3] in camera coordinates, cut at the near plane."""
    out = []
    for a, b in zip(relative, np.roll(relative, -1, axis=0)):
        if a[2] >= _NEAR_GROUND:
            out.append(a)
        if (a[2] >= _NEAR_GROUND) != (b[2] >= _NEAR_GROUND):
            out.append(a + (_NEAR_GROUND - a[2]) / (b[2] - a[2]) * (b - a))
    return np.array(out)


def _shadow(brush: _Brush, actor: Actor, time: float) -> None:
    pose = actor.poses(np.array([time]))[0] + (0.2, 0.15, 0.0)
    flat = geometry.corners(pose, actor.size.length * 1.03, actor.size.width * 1.1)
    relative = brush.camera.relative(np.c_[flat, np.zeros(4)])
    if (relative[:, 2] > NEAR).all():
        points = _fixed(brush.camera.to_pixels(relative, brush.size))
        cv2.fillConvexPoly(brush.image, points, (48, 48, 52), cv2.LINE_AA, 4)


def _debris(brush: _Brush, world: World, time: float) -> None:
    """Splinters that fly from the point of contact and stay on the road."""
    if world.contact is None or time <= world.contact.time:
        return
    spread = min(1.0, 0.25 + 1.5 * (time - world.contact.time))
    for k in range(14):
        reach = spread * (0.5 + (k * 5 % 7) * 0.38)
        x = world.contact.point[0] + reach * np.cos(k * 2.4)
        y = world.contact.point[1] + reach * np.sin(k * 2.4)
        half = 0.10 + 0.03 * (k % 3)
        quad = np.array([[x - half, y, 0.02], [x, y - half, 0.02], [x + half, y, 0.02],
                         [x, y + half, 0.02]])  # fmt: skip
        brush.paint(quad[None], _UP, np.array([[225, 225, 215] if k % 2 else [30, 30, 30]]))


def _vehicles(brush: _Brush, world: World, time: float, only: int | None = None) -> None:
    """All vehicles, far to near, each covered again by the props that stand before it."""
    at = np.array([time])
    items = []
    for actor in world.actors:
        pose = actor.poses(at)[0]
        if (only is None or actor.id == only) and brush.camera.relative([*pose[:2], 1])[2] > 2:
            items.append((actor, pose, geometry.corners(pose, actor.size.length, actor.size.width)))
    standing = _props(world.layout, brush.camera, brush.size)
    ids = brush.flat is not None
    for actor, pose, flat in _far_to_near(items, np.array(brush.camera.position[:2])):
        brush.flat = 1 + actor.id if ids else None
        brush.solid(models.vehicle(actor.type, actor.colour, actor.braking(time)), pose)
        brush.flat = 0 if ids else None
        block = np.concatenate([np.c_[flat, np.full(4, z)] for z in (0.0, actor.size.height)])
        left, top, right, bottom = _bounds(brush.camera, block, brush.size)
        for prop, (x0, y0, x1, y1) in standing:
            meets = x0 <= right and left <= x1 and y0 <= bottom and top <= y1
            if meets and _before(prop.footprint, flat, brush.camera):
                brush.solid(prop.solid)


def _before(footprint: tuple[float, float, float, float], flat: Array, camera: Camera) -> bool:
    """Whether a prop with this footprint stands between the camera and a vehicle's corners."""
    x0, x1, y0, y1 = footprint
    ex, ey, _ = camera.position
    (low_x, low_y), (high_x, high_y) = flat.min(0), flat.max(0)
    for low, high, a, b, eye in ((low_x, high_x, x0, x1, ex), (low_y, high_y, y0, y1, ey)):
        # The vehicle is on one side of a face of the prop and the camera on the other.
        if (low >= b and eye < b) or (high <= a and eye > a):
            return True
    return False


def _far_to_near(items: list, eye: Array) -> list:
    """Vehicles in an order in which none covers one that is nearer to the camera at `eye`."""
    left, out = sorted(items, key=lambda i: -((i[1][:2] - eye) ** 2).sum()), []
    while left:
        free = (i for i in left if not any(_nearer(i[2], j[2], eye) for j in left if j is not i))
        chosen = next(free, left[0])
        left = [i for i in left if i is not chosen]
        out.append(chosen)
    return out


def _nearer(a: Array, b: Array, eye: Array) -> bool:
    """Whether box a lies on the camera's side of the line that best parts it from box b."""
    best, answer = -np.inf, False
    for box, other, mine in ((a, b, True), (b, a, False)):
        for i in range(4):
            normal = box.mean(0) - (box[i] + box[(i + 1) % 4]) / 2
            normal = -normal / np.sqrt((normal * normal).sum())  # outward
            edge = float((box[i] * normal).sum())
            apart = float((other * normal).sum(-1).min()) - edge
            if apart > best:
                beyond = float((eye * normal).sum()) > edge
                best, answer = apart, beyond != mine
    return answer
