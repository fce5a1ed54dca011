"""scenes.jsonl: what load accepts, and that every annotation problem is found and named."""

import json
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.data.schema import CATEGORIES, CELLS, DataError, load, read_problems


def record(number=1, **changes):
    """A correct line, with keys replaced, or removed where the value is `...`."""
    scene = {
        "scene_id": f"s{number:04d}",
        "source": "CCD",
        "view": "driving",
        "anomaly_type": "rear_end",
        "videos": {
            "positive": f"videos/s{number:04d}_pos.mp4",
            "negative": f"videos/s{number:04d}_neg.mp4",
        },
        "split_time": 3.2,
        "segments": {"base": [0, 3.2], "key_frames": [2.9, 3.4]},
        "questions": [question(number, 0), question(number, 1, category="causal")],
        "metadata": {"anything": [1, {"x": None}]},
    }
    return {k: v for k, v in {**scene, **changes}.items() if v is not ...}


def question(scene=1, number=0, **changes):
    pair = {
        "pair_id": f"s{scene:04d}-{number:02d}",
        "category": "event",
        "positive": "Did the red car hit the van?",
        "negative": "Did the van hit a wall?",
    }
    return {k: v for k, v in {**pair, **changes}.items() if v is not ...}


@pytest.fixture
def folder(tmp_path):
    """A function that writes lines (records, text or bytes) to a new data set folder."""

    def write(*lines):
        parts = []
        for line in lines:
            if isinstance(line, dict):
                line = json.dumps(line)
            parts.append(line if isinstance(line, bytes) else line.encode())
        (tmp_path / "scenes.jsonl").write_bytes(b"\n".join(parts) + b"\n")
        return tmp_path

    return write


def test_the_cells_are_in_the_protocols_order():
    assert CELLS == (
        ("positive", "positive"),
        ("positive", "negative"),
        ("negative", "positive"),
        ("negative", "negative"),
    )
    assert len(set(CATEGORIES)) == 6


def test_load_reads_every_field_from_folder_or_file(folder):
    root = folder(record(1), "", record(2, split_time=..., segments=..., metadata=...))
    for data in (load(root), load(root / "scenes.jsonl"), load(str(root))):
        first, second = data.scenes
        assert first.scene_id == "s0001"
        assert first.split_time == 3.2
        assert first.segments["key_frames"] == (2.9, 3.4)
        assert first.metadata == {"anything": [1, {"x": None}]}
        assert [q.category for q in first.questions] == ["event", "causal"]
        assert (second.split_time, second.segments, second.metadata) == (None, {}, {})
        assert data.video_path(first, "negative") == root / "videos/s0001_neg.mp4"


def test_byte_order_mark_and_windows_line_ends(folder):
    text = "\ufeff" + json.dumps(record(1)) + "\r\n" + json.dumps(record(2)) + "\r"
    assert len(load(folder(text)).scenes) == 2


def test_save_and_load_are_inverse(folder, tmp_path):
    data = load(folder(record(1), record(2, metadata={"é": "ü"}, split_time=...)))
    (tmp_path / "copy").mkdir()
    copy = load(schema.save(tmp_path / "copy", data.scenes))
    assert copy.scenes == data.scenes
    assert copy.digest == data.digest
    assert [p.name for p in (tmp_path / "copy").iterdir()] == ["scenes.jsonl"]


def test_digest_depends_on_content_not_on_key_order_or_place(folder, tmp_path):
    digest = load(folder(record(1))).digest
    assert load(folder(dict(reversed(record(1).items())))).digest == digest
    assert load(folder(record(1, source="DADA"))).digest != digest
    changed = [question(1, 0, negative="Was it a bus?"), question(1, 1, category="causal")]
    assert load(folder(record(1, questions=changed))).digest != digest


def test_video_digest_is_sha256_of_the_bytes(tmp_path):
    (tmp_path / "v").write_bytes(b"abc")
    assert schema.video_digest(tmp_path / "v").startswith("ba7816bf8f01cfea414140de5dae2223")


BAD = {
    "not json": ("{", "not JSON"),
    "not utf-8": (b'{"a": "\xff"}', "not JSON"),
    "nan": ('{"split_time": NaN}', "NaN is not allowed"),
    "key twice": ('{"source": "a", "source": "b"}', "'source' is there twice"),
    "deep": ("[" * 100_000, "not JSON"),
    "long number": ("1" * 5000, "not JSON"),
    "a list": ("[1]", "scene is not an object"),
    "no view": (record(view=...), "scene lacks view"),
    "unknown view": (record(view="drone"), "unknown view 'drone'"),
    "typo": (record(splittime=2), "unknown key 'splittime'"),
    "id type": (record(scene_id=7), "scene_id is not a string: 7"),
    "id empty": (record(scene_id=" "), "scene_id is empty"),
    "id newline": (record(scene_id="a\nb"), "control character"),
    "surrogate": (record(source="\ud800"), "half a surrogate"),
    "category": (record(questions=[question(category="temporal")]), "unknown category 'temporal'"),
    "question key": (record(questions=[question(negativ="x")]), "unknown key 'negativ'"),
    "no q-": (record(questions=[question(negative=...)]), "questions[0] lacks negative"),
    "empty q+": (record(questions=[question(positive="")]), "positive is empty"),
    "equal": (
        record(questions=[question(positive="Was  it red?", negative="was it Red? ")]),
        "are equal",
    ),
    "no questions": (record(questions=[]), "a scene without questions"),
    "questions type": (record(questions={"a": 1}), "questions is not a list"),
    "question type": (record(questions=["a"]), "questions[0] is not an object"),
    "videos type": (record(videos="v.mp4"), "videos is not an object"),
    "one video": (record(videos={"positive": "v.mp4"}), "videos lacks negative"),
    "absolute": (record(videos={"positive": "/v.mp4", "negative": "w"}), "is absolute"),
    "drive": (record(videos={"positive": "C:/v.mp4", "negative": "w"}), "is absolute"),
    "dots": (record(videos={"positive": "a/../../v", "negative": "w"}), "leaves the data set"),
    "inner dots": (record(videos={"positive": "a/../v", "negative": "w"}), "leaves the data set"),
    "backslash": (record(videos={"positive": "a\\v", "negative": "w"}), "backslash"),
    "the folder": (record(videos={"positive": ".", "negative": "w"}), "leaves the data set"),
    "split": (record(split_time="3"), "split_time '3'"),
    "split negative": (record(split_time=-1), "split_time -1"),
    "split true": (record(split_time=True), "split_time True"),
    "split huge": (record(split_time=10**400), "split_time"),
    "segments": (record(segments={"base": [3, 1]}), "segments['base']"),
    "segments type": (record(segments=[1]), "segments is not an object"),
    "metadata": (record(metadata=[1]), "metadata is not an object"),
}


@pytest.mark.parametrize(("line", "message"), BAD.values(), ids=BAD)
def test_each_problem_is_named_with_its_line(folder, line, message):
    root = folder(record(3), line)
    with pytest.raises(DataError) as caught:
        load(root)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{root / 'scenes.jsonl'}:2: ")
    assert "\n" not in text
    assert isinstance(caught.value, UserError)
    assert [s.scene_id for s in read_problems(root).dataset.scenes] == ["s0003"]


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(folder, tmp_path):
    root = folder(record(1))
    (tmp_path / "real").mkdir()
    (tmp_path / "videos").symlink_to("real")
    assert load(root).scenes
    (tmp_path / "videos").unlink()
    os.symlink(tmp_path.parent, tmp_path / "videos")
    with pytest.raises(DataError, match="leaves the data set folder"):
        load(root)


def test_all_problems_are_listed_at_once(folder):
    root = folder(
        record(1),
        record(1, questions=[question(1, 5)]),
        "oops",
        record(2, view="x", questions=[question(1, 0), question(2, 1, category="y")]),
    )
    with pytest.raises(DataError) as caught:
        load(root)
    found = [(p.where.rpartition(":")[2], p.message) for p in caught.value.problems]
    assert [line for line, _ in found] == ["2", "3", "4", "4", "4"]
    assert "duplicate scene_id 's0001', first at" in found[0][1]
    assert "unknown view 'x'" in found[2][1]
    assert "duplicate pair_id 's0001-00'" in found[3][1]
    assert "(and 4 more" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems
    # Paths of faulty scenes are still known, so that their videos can be checked as well.
    assert len(read_problems(root).videos) == 6


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error(tmp_path, content):
    (tmp_path / "scenes.jsonl").write_bytes(content)
    with pytest.raises(DataError, match="empty: expected one scene a line"):
        load(tmp_path)


def test_a_missing_folder_or_file_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "none", tmp_path / "none" / "scenes.jsonl"):
        with pytest.raises(DataError, match="No such file"):
            load(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = st.sampled_from([*record(), "pair_id", "category", "positive", "negative", "base", "x"])


@st.composite
def damaged(draw):
    """A correct record in which up to three places are replaced by any JSON, or removed."""
    scene = record()
    places = [scene, scene["videos"], scene["segments"], *scene["questions"]]
    for _ in range(draw(st.integers(0, 3))):
        place, key = draw(st.sampled_from(places)), draw(KEYS)
        if draw(st.booleans()):
            place[key] = draw(JSON)
        else:
            place.pop(key, None)
    return json.dumps(scene).encode()


@given(st.lists(damaged() | st.binary(max_size=40) | JSON.map(lambda v: json.dumps(v).encode())))
def test_no_input_gives_anything_but_a_data_error(tmp_path_factory, lines):
    root = tmp_path_factory.mktemp("fuzz", numbered=True)
    (root / "scenes.jsonl").write_bytes(b"\n".join(lines))
    try:
        data = load(root)
    except DataError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
        assert all(p.level == "error" for p in error.problems)  # noqa: PT017
    else:
        assert data.digest
        copy = load(schema.save(root, data.scenes))
        assert copy.digest == data.digest
