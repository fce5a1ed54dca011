"""The event log of a scene: what happened, as JSON. It is enough to run both worlds again."""

import functools
import types
import typing
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cctv.world.layout import Layout
from cctv.world.motion import Actor
from cctv.world.sight import enough, sample_times
from cctv.world.simulation import World

if TYPE_CHECKING:  # a scene is accepted only if its log can be asked about
    from cctv.world.scene import Scene

VERSION = 2  # of the log's form
GENERATOR = "cctv.world 2"  # changes whenever a seed gives another scene
PATH_STEP = 0.1  # seconds between logged poses
SIDES = ("front", "rear", "left", "right")
WIDE = (16, 9)  # the shape of the picture in which places are logged
EYE_LEVEL = 0.8  # metres above the road of the points whose place in the picture is logged


def event_log(scene: "Scene") -> dict[str, Any]:
    """Everything about a scene that questions, checks and readers need."""
    pair, cast = scene.pair, scene.pair.cast
    positive, negative = pair.positive, pair.negative
    involved, least = positive.contact.pair, scene.difficulty.min_pixels
    return {
        "version": VERSION,
        "generator": GENERATOR,
        "seed": scene.seed,
        "index": scene.index,
        "kind": cast.kind,
        "view": scene.view,
        "difficulty": to_json(scene.difficulty),
        "duration": cast.duration,
        "layout": to_json(positive.layout),
        "camera": {"type": type(scene.camera).__name__.lower(), **to_json(scene.camera)},
        "look": to_json(scene.look),
        "ego": cast.ego,
        "named": list(cast.named),
        "actors": [_actor_to_json(a, involved) for a in positive.actors],
        "branch": cast.branch,
        "contact": _contact(scene),
        "cause": pair.cause,
        "intervention": {**to_json(pair.intervention), "actor": pair.intervention.actor},
        "min_gap": {
            "stated": scene.difficulty.min_gap,
            "negative": round(negative.min_gap(*involved), 3),
        },
        "visibility": {
            "enough": {str(a.id): enough(a.type, least) for a in positive.actors},
            "times": [round(float(t), 4) for t in sample_times(cast.duration)],
            "positive": {str(i): list(n) for i, n in scene.seen[0].items()},
            "negative": {str(i): list(n) for i, n in scene.seen[1].items()},
        },
        "picture": _picture(scene),
        "paths": {"step": PATH_STEP, "positive": _paths(positive), "negative": _paths(negative)},
    }


def actors_from_log(log: dict[str, Any]) -> tuple[Layout, tuple[Actor, ...]]:
    """The layout and the plans of a log, ready for `simulation.simulate`."""
    names = {f.name for f in fields(Actor)}
    plans = [{k: v for k, v in a.items() if k in names} for a in log["actors"]]
    return from_json(Layout, log["layout"]), tuple(from_json(Actor, plan) for plan in plans)


def to_json(value: Any) -> Any:
    """A dataclass of plain values, tuples and other such dataclasses as dicts and lists."""
    if is_dataclass(value):
        value = asdict(value)
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    return value


_PLAIN = {float, int, str, bool}
_hints = functools.cache(typing.get_type_hints)


def from_json(hint: Any, value: Any) -> Any:
    """The inverse of `to_json` for a type hint: a dataclass, a tuple of one, or such or None."""
    if hint in _PLAIN:
        return value
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else from_json(inner[0], value)
    if origin is tuple:
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(from_json(h, v) for h, v in zip(each, value, strict=True))
    if is_dataclass(hint):
        hints = _hints(hint)
        return hint(**{k: from_json(hints[k], v) for k, v in value.items()})
    return value


def _actor_to_json(actor: Actor, involved: tuple[int, int]) -> dict[str, Any]:
    plan = to_json(actor)
    del plan["crash"]  # it follows from the contact
    size = {"length": actor.size.length, "width": actor.size.width}
    return {**plan, **size, "role": "involved" if actor.id in involved else "bystander"}


def _contact(scene: "Scene") -> dict[str, Any]:
    """When, where and how the two touch.

    Each party has the side of its box that is touched and the zone along it. The contact's own side
    and zone are those of the one that is `struck`.
    """
    world = scene.pair.positive
    contact, size = world.contact, scene.contact_pixels
    parties = []
    for id_ in contact.pair:
        kind, pose, length, width = _party(world, id_)
        sides = ("left", "right") if scene.pair.cast.kind == "sideswipe" else SIDES
        side, zone = _touched(pose, (length, width), contact.point, sides)
        pixels = {"pixels": list(size[id_])} if id_ in size else {}
        parties.append({"id": id_, "kind": kind, "side": side, "zone": zone, **pixels})
    striker = scene.pair.cast.striker
    (struck,) = [p for p in parties if p["id"] != striker]
    return {
        "time": contact.time,
        "pair": list(contact.pair),
        "point": [round(v, 3) for v in contact.point],
        "image": list(scene.contact_image),
        "striker": striker,
        "struck": struck["id"],
        "side": struck["side"],
        "zone": struck["zone"],
        "parties": parties,
    }


def _party(world: World, id_: int) -> tuple[str, np.ndarray, float, float]:
    """Type, pose at the contact, length and width of an actor or an obstacle."""
    for a in world.actors:
        if a.id == id_:
            pose = a.poses(np.array([world.contact.time]))[0]
            return a.type, pose, a.size.length, a.size.width
    o = world.layout.obstacle(id_)
    return o.kind, np.array([o.x, o.y, o.yaw]), o.length, o.width


def _touched(
    pose: np.ndarray, size: tuple[float, float], point: tuple[float, float], sides: tuple[str, ...]
) -> tuple[str, str]:
    """That of the sides of a box which is nearest to a point, and the third of its length."""
    dx, dy = point[0] - pose[0], point[1] - pose[1]
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    ahead, left = dx * cos + dy * sin, dy * cos - dx * sin
    inner = {
        "front": size[0] / 2 - ahead,
        "rear": size[0] / 2 + ahead,
        "left": size[1] / 2 - left,
        "right": size[1] / 2 + left,
    }
    zone = "front" if ahead > size[0] / 6 else "rear" if ahead < -size[0] / 6 else "middle"
    return min(sides, key=inner.get), zone


def _picture(scene: "Scene") -> list[dict[str, list[float]]]:
    """Where every actor is in the accident's picture at the contact, and 1 and 2 seconds before it.

    Actor id -> u and v, shares of a 16:9 picture from the top left, and metres in front of the
    camera, of the point EYE_LEVEL above its middle. The ego and what is not in front are left out.
    """
    world, out = scene.pair.positive, []
    for before in (0, 1, 2):
        time = world.contact.time - before
        camera, places = scene.positive.camera_at(time), {}
        for actor in world.actors:
            x, y, _ = actor.poses(np.array([time]))[0]
            point = camera.relative(np.array([x, y, EYE_LEVEL]))
            if actor.id != scene.pair.cast.ego and point[2] >= 1.0:
                u, v = camera.to_pixels(point, WIDE) / WIDE
                places[str(actor.id)] = [round(float(x), 4) for x in (u, v, point[2])]
        out.append(places)
    return out


def _paths(world: World) -> dict[str, list[list[float]]]:
    """Actor id -> poses [x, y, yaw] every PATH_STEP seconds from 0 to the duration."""
    times = np.arange(round(world.duration / PATH_STEP) + 1) * PATH_STEP
    return {
        str(a.id): [[round(float(v), 3) + 0.0 for v in pose] for pose in a.poses(times)]
        for a in world.actors
    }
