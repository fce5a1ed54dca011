"""The identity decides whether a workdir may be resumed."""

import json

import pytest

from cctv.data.errors import UserError
from cctv.runs import manifest


def identity(**change):
    return {
        "model": {"id": "m", "weights": "aa", "input": {"fps": 2.0, "mean": (0.5, 0.5)}},
        "prompt": "p",
        "seed": 0,
        "methods": {"base": {}},
    } | change


def started(tmp_path, **change):
    manifest.write(tmp_path, manifest.resume(tmp_path, identity(**change)))


def test_an_equal_identity_goes_on(tmp_path):
    started(tmp_path)
    assert manifest.resume(tmp_path, identity())["identity"]["seed"] == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seed": 1}, "seed"),
        ({"prompt": "another"}, "prompt"),
        ({"model": {"id": "m", "weights": "bb", "input": {}}}, "model.input.fps"),
        ({"model": identity()["model"] | {"weights": "bb"}}, "model.weights"),
        ({"model": identity()["model"] | {"input": {"fps": 1.0, "mean": [0.5, 0.5]}}}, "fps"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_field_that_differs_is_named_in_one_line(tmp_path, change, field):
    """cases.md 22: runs with different settings are not mixed."""
    started(tmp_path)
    with pytest.raises(UserError, match=field) as error:
        manifest.resume(tmp_path, identity(**change))
    assert "\n" not in str(error.value)


def test_methods_may_be_added_but_not_changed(tmp_path):
    started(tmp_path, methods={"base": {}})
    more = manifest.resume(tmp_path, identity(methods={"c_tcd": {"beta": 0.0}}))
    assert more["identity"]["methods"] == {"base": {}, "c_tcd": {"beta": 0.0}}
    manifest.write(tmp_path, more)
    with pytest.raises(UserError, match=r"methods\.c_tcd\.beta"):
        manifest.resume(tmp_path, identity(methods={"c_tcd": {"beta": 0.1}}))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"identity": {}}', '{"identity": 3}'])
def test_a_damaged_manifest(tmp_path, text):
    (tmp_path / manifest.NAME).write_text(text)
    with pytest.raises(UserError, match="damaged"):
        manifest.resume(tmp_path, identity())


def test_predictions_without_a_manifest(tmp_path):
    (tmp_path / "predictions-00000-of-00001.jsonl").write_text("")
    with pytest.raises(UserError, match="no manifest"):
        manifest.resume(tmp_path, identity())


def test_a_folder_that_holds_other_results_is_not_written_over(tmp_path):
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(UserError, match=r"has metrics\.json but no manifest"):
        manifest.resume(tmp_path, {})


def test_environment_is_json():
    found = manifest.environment()
    assert found["versions"]["jax"]
    json.dumps(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"methods": {"vcd": {"noise_step": 500}}}, None),  # may have been added
        ({"model": {"id": "other", "weights": "bb"}}, None),  # another name in its rows
        ({"run": "second", "seed": 1}, None),
        ({"model": identity()["model"] | {"weights": "bb"}}, 'model.weights is "aa" in .*/a/'),
        ({"methods": {"base": {"beta": 1}}}, "methods.base.beta is absent"),
        ({"seed": 1}, "seed is 0 in .*/a/manifest.json and 1 in .*/b/manifest.json"),
    ],
)
def test_rows_scored_together(tmp_path, change, words):
    """cases.md 22: of one model and run, run folders must have one identity."""
    for name, differs in (("a", {}), ("b", change)):
        (tmp_path / name).mkdir()
        started(tmp_path / name, **differs)
    files = [tmp_path / name / "predictions-00000-of-00001.jsonl" for name in ("b", "a", "none")]
    if words is None:
        manifest.check_together(files)
        return
    with pytest.raises(UserError, match=words) as error:
        manifest.check_together(files)
    assert "\n" not in str(error.value)


def test_a_damaged_manifest_beside_rows(tmp_path):
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        manifest.check_together([tmp_path / "rows.jsonl"])


def test_the_setting_is_named_rather_than_the_example_it_changed(tmp_path):
    old = {"model": {"input": {"tokens_of_example": "a", "use_token_compression": True}}}
    new = {"model": {"input": {"tokens_of_example": "b", "use_token_compression": False}}}
    manifest.write(tmp_path, manifest.resume(tmp_path, old))
    with pytest.raises(UserError, match="use_token_compression was true and is now false"):
        manifest.resume(tmp_path, new)
