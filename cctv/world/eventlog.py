"""The event log of a scene: what happened, as JSON. It is enough to run both worlds again."""

from typing import Any

import numpy as np

from cctv.world.accident import MIN_GAP, entry_time
from cctv.world.layout import Building, Lane, Layout
from cctv.world.motion import Action, Actor
from cctv.world.scene import Scene
from cctv.world.simulation import World, front_reach

VERSION = 1  # of the log's form
GENERATOR = "cctv.world 1"  # changes whenever a seed gives another scene
PATH_STEP = 0.1  # seconds between logged poses


def event_log(scene: Scene) -> dict[str, Any]:
    """Everything about a scene that questions, checks and readers need; floats are rounded."""
    pair, camera = scene.pair, scene.camera
    positive, negative = pair.positive, pair.negative
    involved = positive.contact.pair
    return {
        "version": VERSION,
        "generator": GENERATOR,
        "seed": scene.seed,
        "index": scene.index,
        "kind": pair.cast.kind,
        "duration": pair.cast.duration,
        "layout": _layout_to_json(positive.layout),
        "camera": {
            "position": list(camera.position),
            "aim": list(camera.aim),
            "focal": camera.focal,
        },
        "actors": [_actor_to_json(a, involved) for a in positive.actors],
        "branch": pair.cast.branch,
        "contact": _contact(scene),
        "cause": pair.cause,
        "intervention": {
            "kind": pair.intervention.kind,
            "actor": pair.intervention.actor,
            "actions": [vars(a) for a in pair.intervention.actions],
        },
        "min_gap": {
            "stated": MIN_GAP,
            "negative": round(negative.min_gap(*involved), 3),
        },
        "seen": {
            name: {str(i): n for i, n in seen.items()}
            for name, seen in zip(("positive", "negative"), scene.seen)
        },
        "paths": {"step": PATH_STEP, "positive": _paths(positive), "negative": _paths(negative)},
    }


def actors_from_log(log: dict[str, Any]) -> tuple[Layout, tuple[Actor, ...]]:
    """The layout and the plans of a log, ready for `simulation.simulate`."""
    layout = Layout(
        green_road=log["layout"]["green_road"],
        buildings=tuple(
            Building(**{**b, "colour": tuple(b["colour"])}) for b in log["layout"]["buildings"]
        ),
    )
    actors = tuple(
        Actor(
            id=a["id"],
            type=a["type"],
            colour=a["colour"],
            lane=Lane(**a["lane"]),
            start=a["start"],
            speed=a["speed"],
            actions=tuple(Action(**action) for action in a["actions"]),
        )
        for a in log["actors"]
    )
    return layout, actors


def _layout_to_json(layout: Layout) -> dict[str, Any]:
    return {
        "type": "junction",
        "green_road": layout.green_road,
        "buildings": [{**vars(b), "colour": list(b.colour)} for b in layout.buildings],
    }


def _actor_to_json(actor: Actor, involved: tuple[int, int]) -> dict[str, Any]:
    entry = entry_time(actor)
    return {
        "id": actor.id,
        "type": actor.type,
        "colour": actor.colour,
        "role": "involved" if actor.id in involved else "bystander",
        "lane": {"arm": actor.lane.arm, "rank": actor.lane.rank},
        "start": actor.start,
        "speed": actor.speed,
        "actions": [vars(a) for a in actor.actions],
        "length": actor.size.length,
        "width": actor.size.width,
        "planned_entry": entry if np.isfinite(entry) else None,
    }


def _contact(scene: Scene) -> dict[str, Any]:
    """When, where and how the two touch; `side` and `zone` are of the vehicle that is struck."""
    world = scene.pair.positive
    contact = world.contact
    a, b = (next(x for x in world.actors if x.id == i) for i in contact.pair)
    striker, struck = (a, b) if front_reach(a, contact) > front_reach(b, contact) else (b, a)
    reach = front_reach(struck, contact)
    x, y, _ = struck.poses(np.array([contact.time]))[0]
    dx, dy = struck.lane.direction
    left = dx * (contact.point[1] - y) - dy * (contact.point[0] - x) > 0
    if reach < -0.98:
        side, zone = "rear", "rear"
    else:
        side = "left" if left else "right"
        zone = "front" if reach > 1 / 3 else "rear" if reach < -1 / 3 else "middle"
    return {
        "time": contact.time,
        "pair": list(contact.pair),
        "point": [round(v, 3) for v in contact.point],
        "image": list(scene.contact_image),
        "striker": striker.id,
        "struck": struck.id,
        "side": side,
        "zone": zone,
    }


def _paths(world: World) -> dict[str, list[list[float]]]:
    """Vehicle id -> poses [x, y, yaw] every PATH_STEP seconds from 0 to the duration."""
    times = np.arange(round(world.duration / PATH_STEP) + 1) * PATH_STEP
    return {
        str(a.id): [[round(float(v), 3) + 0.0 for v in pose] for pose in a.poses(times)]
        for a in world.actors
    }
