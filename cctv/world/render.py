"""Draws a world: any instant at any size, as a picture or as a buffer of ids.

Painter's algorithm: the ground, shadows and light on it, then everything that stands on it from far
to near. Under a camera that stands still, the ground is painted once.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache, partial

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
    ground_of = _ground if shot.ego is None else _ground.__wrapped__  # kept where it can recur
    image = ground_of(layout, camera, look, size).copy()
    brush = Brush(image=image, camera=camera, size=size, look=look)
    actors = _actors(shot, time)
    effects.on_the_ground(brush, [(i.actor, i.pose) for i in actors], shot.world, time)
    _paint(brush, [*_props(layout), *actors])
    if shot.ego is not None:
        effects.bonnet(brush, models.RGB[shot.world.actor(shot.ego).colour])
    look.finish(image, time)
    return image


def id_buffer(
    shot: Shot,
    time: float,
    size: tuple[int, int],
    *,
    only: int | None = None,
    among: Collection[int] | None = None,
) -> Array:
    """uint8[H, W]: 1 + id of the actor or obstacle seen in each pixel, 0 elsewhere.

    With `only`, as if that one were alone in the world. With `among`, right for the pixels of these
    ids: what can't cover them is left out, which is faster.
    """
    image = np.zeros((size[1], size[0]), np.uint8)
    brush = Brush(image=image, camera=shot.camera_at(time), size=size, look=shot.look, flat=0)
    items = [*_props(shot.world.layout, plain=True), *_actors(shot, time)]
    _paint(brush, [i for i in items if only is None or i.id == only], among)
    if shot.ego is not None:
        brush.flat = 0
        effects.bonnet(brush, (0, 0, 0))
    return image


def forget() -> None:
    """Drops what is kept from frame to frame, so that speeds can be measured."""
    for kept in (_ground, _props, scenery.props, ground.polygons):
        kept.cache_clear()


@dataclass(kw_only=True)
class _Item:
    """Something to paint: an actor in its pose, or a prop (pose 0).

    `feet` float[4, 2] are its corners on the ground, `block` float[8, 3] those of a box around it.
    """

    id: int | None
    solid: Solid
    pose: Array
    feet: Array
    block: Array
    actor: Actor | None = None


@lru_cache(maxsize=8)
def _props(layout: Layout, *, plain: bool = False) -> list[_Item]:
    return [
        _Item(id=p.id, solid=p.solid, pose=np.zeros(3), feet=p.footprint, block=p.block)
        for p in scenery.props(layout, plain=plain)
    ]


def _actors(shot: Shot, time: float) -> list[_Item]:
    out, at = [], np.array([time])
    for actor in shot.world.actors:
        if actor.id == shot.ego:
            continue
        pose, size = actor.poses(at)[0], actor.size
        tip = round(actor.fallen(time) * TIPS)
        long, wide = size.lying if tip else (size.length, size.width)
        feet = geometry.corners(pose, long, wide)
        block = np.empty((8, 3))
        block[:4, :2] = block[4:, :2] = feet
        block[:4, 2], block[4:, 2] = 0.0, size.height + 0.3
        way = float(actor.along(np.minimum(at, actor.crash.time if actor.crash else at))[0][0])
        phase = models.phase_of(actor.type, way)
        solid = models.actor(actor.type, actor.colour, actor.braking(time), phase, tip)
        out.append(_Item(id=actor.id, solid=solid, pose=pose, feet=feet, block=block, actor=actor))
    return out


def _bounds(brush: Brush, blocks: Array) -> Array:
    """float[N, 4]: left, top, right, bottom in pixels of boxes float[N, 8, 3]; not a number where
    nothing is in the picture. What reaches behind the camera may be anywhere.
    """
    relative = brush.camera.relative(blocks)
    before = relative[..., 2] > NEAR
    safe = np.where(before[..., None], relative, 1.0)
    pixels = brush.camera.to_pixels(safe, brush.size)
    bounds = np.concatenate([pixels.min(1), pixels.max(1)], -1)
    bounds[~before.all(1)] = (0, 0, *brush.size)
    out = (bounds[:, 2:] < 0).any(1) | (bounds[:, :2] > brush.size).any(1) | ~before.any(1)
    bounds[out] = np.nan
    return bounds


def _paint(brush: Brush, items: list[_Item], among: Collection[int] | None = None) -> None:
    """What is in the picture, from far to near; with `among` only what meets one of these ids."""
    if not items:
        return
    bounds = _bounds(brush, np.array([i.block for i in items]))
    seen = np.flatnonzero(~np.isnan(bounds[:, 0]))
    items, bounds = [items[k] for k in seen], bounds[seen]
    meets = (bounds[:, None, :2] <= bounds[None, :, 2:]).all(-1)
    meets &= meets.T
    if among is not None:
        kept = np.flatnonzero(meets[[i.id in among for i in items]].any(0))
        items, meets = [items[k] for k in kept], meets[np.ix_(kept, kept)]
    if not items:
        return
    eye = np.array(brush.camera.position[:2])
    order = [items[k] for k in far_to_near(np.array([i.feet for i in items]), eye, meets)]
    flats = glows = None
    if brush.flat is not None:
        flats = [0 if i.id is None else 1 + i.id for i in order]
    elif brush.look.traits.lamps:
        glows = [partial(effects.glow, brush, i.solid, i.pose) for i in order]
    solids = [i.solid if flats is None else i.solid.plain for i in order]
    brush.solids(solids, [i.pose for i in order], flats=flats, after=glows)


@lru_cache(maxsize=8)
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
