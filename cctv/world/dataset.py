"""Turns a scene into one line of scenes.jsonl (protocol: files)."""

import hashlib
import json
from typing import Any

from cctv.world.eventlog import event_log
from cctv.world.scene import Scene

KEY_FRAMES = 0.3  # seconds around the contact


def scene_id(seed: int, index: int) -> str:
    """The id of a scene, unique over seeds."""
    return f"world-{seed}-{index:05d}"


def record_of(scene: Scene) -> dict[str, Any]:
    """The annotation of a scene: paths, times, questions, and the event log as metadata."""
    log = event_log(scene)
    name = scene_id(scene.seed, scene.index)
    branch, contact, duration = log["branch"], log["contact"]["time"], log["duration"]
    pairs = [
        {
            "pair_id": f"{name}-{k:02d}",
            "category": written.category,
            "positive": written.positive,
            "negative": written.negative,
        }
        for k, written in enumerate(scene.questions)
    ]
    return {
        "scene_id": name,
        "source": "cctv-world",
        "view": log["view"],
        "anomaly_type": log["kind"],
        "videos": {
            "positive": f"videos/{name}_pos.mp4",
            "negative": f"videos/{name}_neg.mp4",
        },
        "split_time": branch,
        "segments": {
            "base": [0.0, branch],
            "key_frames": [round(contact - KEY_FRAMES, 4), round(contact + KEY_FRAMES, 4)],
            "contrastive": [branch, duration],
        },
        "questions": pairs,
        "metadata": log,
    }


def digest(record: dict[str, Any]) -> str:
    """SHA-256 of a record in canonical form."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
