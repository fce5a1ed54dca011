"""Neither words nor gross numbers of a video tell the answers."""

import copy

import pytest

from cctv.world.dataset import record_of
from cctv.world.scene import draw_scene
from experiments.world import measures


def lean(records, key, word):
    """The records in which every question of a side has one more word in half of the scenes."""
    records = copy.deepcopy(records)
    for record in records[::2]:
        for q in record["questions"]:
            q[key] = f"{word} {q[key]}"
    return records


def test_words_of_a_few_scenes(records):
    assert measures.of_questions(records)["all"] < 58
    assert measures.contact_times(records)["p"] > 1e-3


def test_a_leaning_word_is_found(records):
    leaning = lean(records, "positive", "perhaps")
    assert measures.of_questions(leaning)["all"] > 70
    assert measures.leaning_words(leaning)[0][0] == "perhaps"


def test_late_contacts_are_found(records):
    late = copy.deepcopy(records)
    for record in late:
        record["metadata"]["contact"]["time"] = 3.8
    assert measures.contact_times(late)["p"] < 1e-3


def rows_of(scenes, folder, **options):
    path = folder / "video.mp4"
    return [
        tuple(
            measures.video_row(shot, scene.pair.cast.duration, path, **options)
            for shot in (scene.positive, scene.negative)
        )
        for scene in scenes
    ]


def test_numbers_of_a_few_videos(scenes, tmp_path):
    rows = rows_of(scenes[:24], tmp_path, size=(64, 36), fps=1.5)
    found = measures.of_videos(rows)
    for name in ("duration", "frame count"):
        assert found[name] == {"single": 50, "paired": 50}
    for name in ("motion energy", "file size", "brightness"):
        assert found[name]["single"] < 75
    for positive, negative in rows:
        negative["energy"] = positive["energy"] + 1.0  # would be told apart, in pairs
    assert measures.of_videos(rows)["motion energy"]["paired"] == 100


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_two_thousand_scenes(tmp_path):
    records, rows = [], []
    for index in range(2000):
        scene = draw_scene(100, index)
        records.append(record_of(scene))
        rows += rows_of([scene], tmp_path)
    words = measures.of_questions(records)
    assert words["all"] <= 53
    videos = measures.of_videos(rows)
    for name, most in measures.LIMITS.items():
        assert videos[name]["single"] <= most, name
    assert measures.contact_times(records)["p"] > 0.01
