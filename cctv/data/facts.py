"""What is known of a question pair besides its answers; results are broken down by it."""

from collections.abc import Iterable

from cctv.data.schema import QuestionPair, Scene

Facts = dict[str, str | float | None]  # None where the annotation doesn't say


def facts_of(scenes: Iterable[Scene]) -> dict[tuple[str, str], Facts]:
    """Facts of every pair, by (scene_id, pair_id).

    category, anomaly_type, view, source: texts. contact_position: the middle of the key frames, or
    else the split time, in percent of the clip. question_words: of q+ and q-, their mean.
    clip_seconds: where the base and the contrastive segment end.
    """
    return {(s.scene_id, q.pair_id): _facts(s, q) for s in scenes for q in s.questions}


def _facts(scene: Scene, pair: QuestionPair) -> Facts:
    seconds = clip_seconds(scene)
    return {
        "category": pair.category,
        "anomaly_type": scene.anomaly_type,
        "view": scene.view,
        "source": scene.source,
        "contact_position": _position(scene, seconds),
        "question_words": (len(pair.positive.split()) + len(pair.negative.split())) / 2,
        "clip_seconds": seconds,
    }


def clip_seconds(scene: Scene) -> float | None:
    """Length of a scene's clips. Key frames alone don't tell: a clip goes on after them."""
    ends = [end for name, (_, end) in scene.segments.items() if name != "key_frames"]
    return float(max(ends)) if ends and max(ends) > 0 else None


def _position(scene: Scene, seconds: float | None) -> float | None:
    key_frames = scene.segments.get("key_frames")
    time = scene.split_time if key_frames is None else sum(key_frames) / 2
    # A time outside the clip belongs to no part of it.
    return None if time is None or seconds is None or time > seconds else 100 * time / seconds
