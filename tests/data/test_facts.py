"""Facts of question pairs: what is read from which annotation, and what stays unknown."""

import pytest

from cctv.data import facts
from cctv.data.schema import QuestionPair, Scene


def scene(**more):
    pair = QuestionPair(
        pair_id="p", category="event", positive="Did it hit?", negative="Did  it  stop or turn?"
    )
    given = {"scene_id": "s", "source": "CCD", "view": "driving", "anomaly_type": "t_bone"}
    return Scene(**given, videos={}, questions=(pair,), **more)


def of(**more):
    return facts.facts_of([scene(**more)])["s", "p"]


def test_texts_and_words():
    found = of()
    assert {k: found[k] for k in ("category", "anomaly_type", "view", "source")} == {
        "category": "event",
        "anomaly_type": "t_bone",
        "view": "driving",
        "source": "CCD",
    }
    assert found["question_words"] == 4  # of 3 and 5
    assert found["contact_position"] is None
    assert found["clip_seconds"] is None


@pytest.mark.parametrize(
    ("given", "position", "seconds"),
    [
        ({"segments": {"base": (0, 3.2), "contrastive": (3.2, 8.0), "key_frames": (2.9, 3.5)}},
         40, 8),
        ({"segments": {"base": (0, 3.2), "contrastive": (3.2, 8.0)}, "split_time": 2.0}, 25, 8),
        ({"segments": {"contrastive": (0, 8.0)}, "split_time": 9.0}, None, 8),
        ({"segments": {"contrastive": (0, 8.0)}, "split_time": 0.0}, 0, 8),
        ({"segments": {"key_frames": (2.9, 3.4)}}, None, None),
        ({"segments": {"base": (0, 0)}, "split_time": 0.0}, None, None),
        ({"split_time": 2.0}, None, None),
    ],
)  # fmt: skip
def test_position_and_seconds(given, position, seconds):
    found = of(**given)
    assert found["clip_seconds"] == seconds
    assert found["contact_position"] == (None if position is None else pytest.approx(position))
