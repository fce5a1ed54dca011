"""Videos that are missing, broken, changed, or on which the reader hangs, in whole runs."""

import functools
import html
import json
import shutil

import pytest
import slow_reader

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.models.encoder import Encoder
from cctv.runs import run


def same_metrics(*workdirs):
    """Equal but for the rounding of margins: a scene with one video runs in another shape."""

    def leaves(value):
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return [(f"{k}.{path}", leaf) for k, v in items for path, leaf in leaves(v)]
        return [("", value)]

    one, other = (leaves(json.loads((w / "metrics.json").read_text())) for w in workdirs)
    for (path, a), (path_of_other, b) in zip(one, other, strict=True):
        assert path == path_of_other
        assert a == (pytest.approx(b, abs=1e-3) if isinstance(b, float) else b), path


def statuses(rows, scene):
    """{(method, video): status} of a scene; all questions of a video have the same."""
    found = {}
    for row in rows:
        if row["scene_id"] == scene.scene_id:
            found.setdefault((row["method"], row["video"]), set()).add(row["status"])
    assert all(len(states) == 1 for states in found.values())
    return {place: states.pop() for place, states in found.items()}


def test_all_missing_files_are_listed_at_once(own_data, make_config, tmp_path, capsys):
    """cases.md 4."""
    lost = sorted((own_data / "videos").glob("*.mp4"))[:3]
    for path in lost:
        path.unlink()
    with pytest.raises(UserError, match="3 video problems"):
        run.evaluate(make_config(data__path=str(own_data)), tmp_path / "run")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert [str(path) in line for path, line in zip(lost, sorted(lines))] == [True] * 3
    assert not (tmp_path / "run").exists()


def test_all_annotation_problems_are_listed_at_once(own_data, make_config, tmp_path, capsys):
    """cases.md 4."""
    file = own_data / "scenes.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    records[0]["view"] = "from above"
    records[1]["questions"][0]["category"] = "colour"
    records[1]["questions"][1]["positive"] = ""
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(UserError, match=r"3 annotation problems \(listed above\)"):
        run.evaluate(make_config(data__path=str(own_data)), tmp_path / "run")
    err = capsys.readouterr().err
    for place, word in ((1, "from above"), (2, "colour"), (2, "positive is empty")):
        assert any(f"scenes.jsonl:{place}: " in line and word in line for line in err.splitlines())


def test_a_missing_video(own_data, make_config, tmp_path, rows_of, finished, capsys):
    """cases.md 4, 5: listed before a model is loaded; with allow_missing the run goes on, the
    quadruples are incomplete and listed; the video found again, the same command completes."""
    scene = schema.load(own_data).scenes[1]
    lost = own_data / scene.videos["positive"]
    lost.rename(tmp_path / "kept.mp4")
    workdir = tmp_path / "run"
    kw = dict(data__path=str(own_data))
    with pytest.raises(UserError, match="1 video problems"):
        run.evaluate(make_config(**kw), workdir)
    assert lost.name in capsys.readouterr().err
    assert not list(workdir.glob("predictions*"))
    assert run.evaluate(make_config(allow_missing=True, **kw), workdir) == 0
    assert statuses(rows_of(workdir), scene) == {
        ("base", "positive"): "video_missing",
        ("base", "negative"): "ok",
        ("c_tcd", "positive"): "video_missing",
        ("c_tcd", "negative"): "video_missing",
    }
    systems = json.loads((workdir / "metrics.json").read_text())["systems"]
    complete = len(schema.load(own_data).scenes[0].questions)
    expected = 100 * complete / (complete + len(scene.questions))
    assert [s["coverage"] for s in systems] == pytest.approx([expected] * 2)
    assert scene.questions[0].pair_id in (workdir / "report.md").read_text()
    (tmp_path / "kept.mp4").rename(lost)
    assert run.evaluate(make_config(**kw), workdir) == 0
    same_metrics(workdir, finished)


@pytest.mark.parametrize("damage", ["empty", "truncated", "text"])
def test_a_video_that_does_not_decode(own_data, make_config, tmp_path, rows_of, damage, capsys):
    """cases.md 3: the questions of that video are marked together, the others finish."""
    scene = schema.load(own_data).scenes[1]
    path = own_data / scene.videos["positive"]
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "truncated": data[: len(data) // 3], "text": b"hello"}[damage])
    kw = dict(data__path=str(own_data))
    with pytest.raises(UserError, match="video problems"):
        run.evaluate(make_config(**kw), tmp_path / "run")
    assert path.name in capsys.readouterr().err
    assert run.evaluate(make_config(allow_missing=True, **kw), tmp_path / "run") == 0
    assert statuses(rows_of(tmp_path / "run"), scene) == {
        ("base", "positive"): "video_error",
        ("base", "negative"): "ok",
        ("c_tcd", "positive"): "video_error",
        ("c_tcd", "negative"): "video_error",
    }
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    errors = manifest["provenance"]["invocations"][-1]["video_errors"]
    assert list(errors) == [scene.videos["positive"]]
    report = html.unescape((tmp_path / "run" / "report.html").read_text())
    assert errors[scene.videos["positive"]] in report


def test_a_video_that_changed_is_refused(own_data, make_config, tmp_path):
    """cases.md 16."""
    kw = dict(data__path=str(own_data), limit=1)
    run.evaluate(make_config(**kw), tmp_path / "run")
    scene = schema.load(own_data).scenes[0]
    shutil.copy(own_data / scene.videos["negative"], own_data / scene.videos["positive"])
    with pytest.raises(UserError, match="changed since"):
        run.evaluate(make_config(**kw), tmp_path / "run")


def test_a_file_on_which_the_reader_hangs(
    own_data, make_config, tmp_path, rows_of, capsys, monkeypatch, finished
):
    """cases.md 1: sound when it was validated, the video gives no answer during the run. It is
    named, the others finish; exit status 1 unless the config allows it; later the same command
    completes."""
    scene = schema.load(own_data).scenes[1]
    name = scene.videos["positive"]

    def load_clip(self):
        return functools.partial(slow_reader.load, processor=self.processor, hangs_on=name)

    monkeypatch.setattr(Encoder, "load_clip", property(load_clip))
    kw = dict(data__path=str(own_data), data__timeout=2.0)
    workdir = tmp_path / "run"
    assert run.evaluate(make_config(**kw), workdir) == 1
    (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
    assert line.startswith(f"error: {own_data / name}: no answer within 2 s")
    assert set(statuses(rows_of(workdir), scene).values()) == {"video_error", "ok"}
    first = schema.load(own_data).scenes[0]
    assert set(statuses(rows_of(workdir), first).values()) == {"ok"}
    manifest = json.loads((workdir / "manifest.json").read_text())
    assert "no answer" in manifest["provenance"]["invocations"][-1]["video_errors"][name]
    assert f"{name} could not be read: no answer" in (workdir / "report.html").read_text()
    assert run.evaluate(make_config(allow_missing=True, **kw), workdir) == 0
    assert "no answer" in capsys.readouterr().err
    monkeypatch.undo()
    assert run.evaluate(make_config(**kw), workdir) == 0
    same_metrics(workdir, finished)
