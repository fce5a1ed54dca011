"""Draws a world: any instant at any size, as a picture or as a buffer of ids.

Painter's algorithm: the ground, shadows and light on it, then everything that stands on it from far
to near. Under a camera that stands still, what never moves is painted once.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from cctv.world import effects, geometry, ground, models, scenery
from cctv.world.camera import Camera, Ride
from cctv.world.layout import Layout
from cctv.world.look import Look
from cctv.world.motion import Actor
from cctv.world.order import far_to_near
from cctv.world.raster import NEAR, Brush
from cctv.world.simulation import World
from cctv.world.solids import TIPS, Solid

Array = np.ndarray

DAY = Look(kind="day", seed=0)


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A world, the camera that films it, and the light and weather."""

    world: World
    camera: Camera | Ride
    look: Look = DAY

    def camera_at(self, time: float) -> Camera:
        """Where the camera is at an instant (s)."""
        return self.camera.at(self.world, time)

    @property
    def ego(self) -> int | None:
        """The id of the car that the camera rides in: it is not seen itself."""
        return self.camera.actor if isinstance(self.camera, Ride) else None


def render(shot: Shot, time: float, size: tuple[int, int]) -> Array:
    """uint8[H, W, 3] RGB picture at a time (s), size (W, H)."""
    camera, layout, look = shot.camera_at(time), shot.world.layout, shot.look
    still = shot.ego is None
    if still:
        image = _background(layout, camera, look, size).copy()
    else:
        image = _ground(layout, camera, look, size)
    brush = Brush(image=image, camera=camera, size=size, look=look)
    items = _items(shot, brush, time)
    effects.on_the_ground(brush, [i.actor for i in items if i.actor], shot.world, time)
    _paint(brush, items, everything=not still, time=time)
    if not still:
        ego = next(a for a in shot.world.actors if a.id == shot.ego)
        effects.bonnet(brush, models.RGB[ego.colour])
    look.finish(image, time)
    return image


def id_buffer(shot: Shot, time: float, size: tuple[int, int], only: int | None = None) -> Array:
    """uint8[H, W]: 1 + id of the actor or obstacle seen in each pixel, 0 elsewhere.

    With `only`, as if that one were alone in the world.
    """
    image = np.zeros((size[1], size[0]), np.uint8)
    brush = Brush(image=image, camera=shot.camera_at(time), size=size, look=shot.look, flat=0)
    items = [i for i in _items(shot, brush, time) if only is None or i.id == only]
    _paint(brush, items, everything=True, time=time)
    if shot.ego is not None:
        effects.bonnet(brush, (0, 0, 0))
    return image


@dataclass(kw_only=True)
class _Item:
    """Something to paint: an actor in its pose, or a prop (pose 0). `bounds` are in pixels."""

    id: int | None
    solid: Solid
    pose: Array
    feet: Array
    bounds: tuple[float, float, float, float]
    actor: Actor | None = None
    lamps: list = field(default_factory=list)


def _items(shot: Shot, brush: Brush, time: float) -> list[_Item]:
    """Everything that stands on the ground and is in the picture."""
    out = []
    for prop in scenery.props(shot.world.layout):
        bounds = _bounds(brush, prop.solid.faces)
        if bounds:
            out.append(
                _Item(
                    id=prop.id,
                    solid=prop.solid,
                    pose=np.zeros(3),
                    feet=prop.footprint,
                    bounds=bounds,
                )
            )
    at = np.array([time])
    for actor in shot.world.actors:
        if actor.id == shot.ego:
            continue
        pose, size = actor.poses(at)[0], actor.size
        tip = round(actor.fallen(time) * TIPS)
        long, wide = size.lying if tip and size.lying else (size.length, size.width)
        feet = geometry.corners(pose, long, wide)
        block = np.concatenate([np.c_[feet, np.full(4, z)] for z in (0.0, size.height + 0.3)])
        bounds = _bounds(brush, block)
        if bounds:
            way = float(actor.along(np.minimum(at, actor.crash.time if actor.crash else at))[0][0])
            phase = models.phase_of(actor.type, way)
            solid = models.actor(actor.type, actor.colour, actor.braking(time), phase, tip)
            out.append(
                _Item(id=actor.id, solid=solid, pose=pose, feet=feet, bounds=bounds, actor=actor)
            )
    return out


def _bounds(brush: Brush, points: Array) -> tuple[float, float, float, float] | None:
    """Left, top, right, bottom in pixels; None where nothing of it is in the picture.

    What reaches behind the camera may be anywhere.
    """
    relative = brush.camera.relative(points).reshape(-1, 3)
    before = relative[:, 2] > NEAR
    if not before.any():
        return None
    if not before.all():
        return (0.0, 0.0, float(brush.size[0]), float(brush.size[1]))
    pixels = brush.camera.to_pixels(relative, brush.size)
    (left, top), (right, bottom) = pixels.min(0).tolist(), pixels.max(0).tolist()
    if right < 0 or bottom < 0 or left > brush.size[0] or top > brush.size[1]:
        return None
    return left, top, right, bottom


def _paint(brush: Brush, items: list[_Item], *, everything: bool, time: float) -> None:
    """All actors and, of the props, `everything` or those that stand before something new."""
    if not items:
        return
    box = np.array([i.bounds for i in items])
    meets = (box[:, None, :2] <= box[None, :, 2:]).all(-1)
    meets &= meets.T
    eye = np.array(brush.camera.position[:2])
    fresh = np.array([everything or i.actor is not None for i in items])
    ids = brush.flat is not None
    for k in far_to_near(np.array([i.feet for i in items]), eye, meets):
        item = items[k]
        if not fresh[k]:
            continue
        if ids:
            brush.flat = 0 if item.id is None else 1 + item.id
        brush.solid(item.solid, item.pose)
        if not ids:
            effects.glow(brush, item.solid, item.pose, actor=item.actor is not None)
        fresh |= meets[k]  # what is nearer and meets it must be painted again
    if ids:
        brush.flat = 0


@lru_cache(maxsize=8)
def _background(layout: Layout, camera: Camera, look: Look, size: tuple[int, int]) -> Array:
    """uint8[H, W, 3]: ground and props, shared by all frames of a scene."""
    image = _ground(layout, camera, look, size)
    brush = Brush(image=image, camera=camera, size=size, look=look)
    items = [
        _Item(id=p.id, solid=p.solid, pose=np.zeros(3), feet=p.footprint, bounds=bounds)
        for p in scenery.props(layout)
        if (bounds := _bounds(brush, p.solid.faces))
    ]
    _paint(brush, items, everything=True, time=0.0)
    image.setflags(write=False)
    return image


def _ground(layout: Layout, camera: Camera, look: Look, size: tuple[int, int]) -> Array:
    """uint8[H, W, 3]: sky, and the painted ground in the haze."""
    traits = look.traits
    image = np.empty((size[1], size[0], 3), np.uint8)
    palette = np.array([getattr(traits, name) for name in ground.SURFACES])
    palette = np.round(palette * traits.light * 0.94).astype(int)
    image[:] = palette[0]
    rows = (np.arange(size[1]) + 0.5 - size[1] / 2) / (
        camera.focal * min(size[0], size[1] * 16 / 9)
    )
    # The way down per metre of depth in each row; the ground is where it makes the height.
    down = -(camera.axes[2][2] + rows * camera.axes[1][2])
    horizon = int(np.argmax(down > 1e-3)) if (down > 1e-3).any() else size[1]
    brush = Brush(image=image, camera=camera, size=size, look=look)
    points, names = ground.polygons(layout)
    polygons, kept, _ = brush.project(points)
    brush.fill(polygons, palette[names[kept]].tolist())
    if horizon < size[1]:
        look.veil(image, horizon, camera.position[2] / down[horizon:])
    look.paint_sky(image, horizon)
    return image
