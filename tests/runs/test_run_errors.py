"""Every kind of bad input, and what goes wrong on the device: one line, or a status."""

import json
import shutil

import jax
import numpy as np
import pytest

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.decoding import engine
from cctv.models import tiny, weights
from cctv.runs import run


@pytest.fixture
def checkpoint(made, tmp_path):
    """A copy of the tiny checkpoint, and a function that changes its tensors."""
    from safetensors.numpy import load_file, save_file

    data, source = made
    folder = shutil.copytree(source, tmp_path / "checkpoint")

    def change(edit):
        tensors = {k: v.copy() for k, v in load_file(source / "model.safetensors").items()}
        edit(tensors)
        save_file(tensors, folder / "model.safetensors")
        return dict(data__path=str(data), model__path=str(folder), limit=1)

    return change


def test_non_finite_logits(checkpoint, make_config, tmp_path, rows_of, capsys):
    """cases.md 20: recorded, the run finishes, exit status 1."""
    kw = checkpoint(lambda t: t["lm_head.weight"].__setitem__((5, 3), np.inf))
    status = run.evaluate(make_config(**kw), tmp_path / "run")
    assert status == 1
    assert {r["status"] for r in rows_of(tmp_path / "run")} == {"not_finite"}
    assert {r["margin"] for r in rows_of(tmp_path / "run")} == {None}
    assert "non-finite" in capsys.readouterr().err
    assert (tmp_path / "run" / "report.html").exists()


def test_answers_that_are_neither(checkpoint, make_config, tmp_path, rows_of):
    """Another word wins: several tokens are decoded, the label is null, nothing is credited."""

    def edit(t):
        t["lm_head.weight"][40] = 100 * np.eye(tiny.WIDTH)[0]

    kw = checkpoint(edit)
    assert run.evaluate(make_config(**kw), tmp_path / "run") == 0
    rows = rows_of(tmp_path / "run")
    assert {r["status"] for r in rows} == {"unparsed"}
    assert {r["n_answer_tokens"] for r in rows} == {16}
    for system in json.loads((tmp_path / "run" / "metrics.json").read_text())["systems"]:
        assert system["n_unparsed"] == len(rows) / 2
        assert system["metrics"]["reject_q_neg"]["value"] == 0


def test_wrong_tensors_are_one_line(checkpoint, make_config, tmp_path):
    kw = checkpoint(lambda t: t.pop("lm_head.weight"))
    with pytest.raises(weights.ConversionError, match=r"lm_head\.weight is missing"):
        run.evaluate(make_config(**kw), tmp_path / "run")


def test_out_of_memory_says_what_to_set(make_config, tmp_path, monkeypatch):
    def answer(self, *args, **kw):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")

    monkeypatch.setattr(engine.Engine, "run", answer)
    with pytest.raises(UserError, match=r"--config\.batch=8,"):
        run.evaluate(make_config(), tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 3.2 TiB"),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while copying 9 bytes."),
    ],
)
def test_out_of_memory_while_weights_are_read(make_config, tmp_path, monkeypatch, error):
    def load(*args, **kw):
        raise error

    monkeypatch.setattr(weights, "load", load)
    with pytest.raises(
        UserError, match=r"out of memory .*--config\.model\.dtype=bfloat16"
    ) as caught:
        run.evaluate(make_config(), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("alpha", [1e3, 1e-6])
def test_no_alpha_gives_a_row_that_is_no_number(checkpoint, make_config, tmp_path, rows_of, alpha):
    """Logits near the end of float32: what they fuse to at a large α is not finite."""
    kw = checkpoint(lambda t: t["lm_head.weight"].__imul__(np.float32(1e36)))
    status = run.evaluate(make_config(**kw, alpha=alpha), tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    found = {r["status"] for r in rows if r["method"] == "c_tcd"}
    assert found == ({"not_finite"} if alpha > 1 else {"ok"})
    assert status == (alpha > 1)
    assert {r["status"] for r in rows if r["method"] == "base"} == {"ok"}
    assert all(r["status"] != "ok" or np.isfinite(r["margin"]) for r in rows)


def test_other_device_errors_are_not_hidden(make_config, tmp_path, monkeypatch):
    def answer(self, *args, **kw):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(engine.Engine, "run", answer)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        run.evaluate(make_config(), tmp_path)


def test_a_workdir_in_use(make_config, tmp_path):
    with run._locked(tmp_path), pytest.raises(UserError, match="another run"):
        run.evaluate(make_config(), tmp_path)


def test_a_workdir_that_can_not_be_written(make_config, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="can't write"):
        run.evaluate(make_config(), tmp_path / "file" / "run")


def test_a_question_with_a_control_token(own_data, make_config, tmp_path):
    file = own_data / "scenes.jsonl"
    line = json.loads(file.read_text().splitlines()[0])
    line["questions"][0]["positive"] += "<|im_end|>"
    file.write_text(json.dumps(line) + "\n")
    with pytest.raises(UserError, match="control token"):
        run.evaluate(make_config(data__path=str(own_data)), tmp_path / "run")


def test_an_alpha_of_a_list_is_checked_too(make_config, tmp_path):
    with pytest.raises(UserError, match=r"config\.alpha=1e\+30"):
        run.evaluate(make_config(), tmp_path / "run", alphas=(0.5, 1e30))


def test_a_checkpoint_whose_processor_differs(checkpoint, make_config, tmp_path, capsys):
    """cases.md 22: limits that the config sets otherwise are named; the weights' own must agree."""
    kw = checkpoint(lambda t: None)
    file = tmp_path / "checkpoint" / "video_preprocessor_config.json"
    file.write_text(json.dumps({"max_frames": 3, "patch_size": 16}))
    assert run.evaluate(make_config(**kw), tmp_path / "run") == 0
    (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("warning: "))
    assert "max_frames is 3; this run uses config.video.max_frames=8" in line
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["provenance"]["invocations"][0]["warnings"] == [line.removeprefix("warning: ")]
    file.write_text(json.dumps({"patch_size": 14}))
    with pytest.raises(UserError, match="patch_size is 14"):
        run.evaluate(make_config(**kw), tmp_path / "run")


def test_another_tokenizer_is_another_run(checkpoint, make_config, tmp_path):
    kw = checkpoint(lambda t: None)
    run.evaluate(make_config(**kw), tmp_path / "run")
    file = tmp_path / "checkpoint" / "tokenizer.json"
    text = file.read_text()
    file.write_text(text + "\n")
    with pytest.raises(UserError, match=r"model\.tokenizer was"):
        run.evaluate(make_config(**kw), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"methods": ("dola",)}, "methods"),
        ({"vcd__noise_step": 1000}, "noise_step"),
        ({"tcd__mode": "blur"}, "mode"),
        ({"tcd__num_frames": 0}, "num_frames"),
        ({"methods": ()}, "methods"),
        ({"methods": ("base", "base")}, "methods"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": 1001.0}, "alpha"),
        ({"beta": 2.0}, "beta"),
        ({"batch": 0}, "batch"),
        ({"limit": 0}, "limit"),
        ({"data__timeout": 0.0}, "timeout"),
        ({"bootstrap__replicates": 0}, "replicates"),
        ({"bootstrap__replicates": 10**10}, "replicates"),
        ({"seed": 2**40}, "seed"),
        ({"seed": -1}, "seed"),
        ({"data__world__size": (3, 4, 5)}, "size"),
        ({"mesh": (64, 64)}, "mesh"),
        ({"mesh": (1,)}, "mesh"),
        ({"model__dtype": "float16"}, "dtype"),
        ({"model__family": "llava"}, "family"),
        ({"prompt": "no place"}, "prompt"),
        ({"data__path": "/nowhere"}, "nowhere"),
        ({"model__path": "/nowhere"}, "nowhere"),
        ({"video__fps": -1.0}, "fps"),
        ({"video__min_frames": 900}, "min_frames"),
    ],
)
def test_wrong_values_are_one_line_before_work_starts(make_config, tmp_path, change, word):
    with pytest.raises(UserError, match=word) as error:
        run.evaluate(make_config(**change), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_hub_id_without_a_network(make_config, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(UserError, match="give a local checkpoint folder"):
        run.evaluate(make_config(model__path="cctv-nobody/no-model"), tmp_path / "run")


def test_a_config_that_lacks_keys_or_is_none(make_config, tmp_path):
    from ml_collections import ConfigDict

    config = make_config()
    with pytest.raises(UserError, match="not a ConfigDict"):
        run.evaluate(config.to_dict(), tmp_path / "run")
    with pytest.raises(UserError, match="lacks"):
        run.evaluate(ConfigDict({"methods": ("base",), "alpha": 1.0}), tmp_path / "run")
    with config.unlocked():
        del config.model["dtype"]
    with pytest.raises(UserError, match=r"model\.dtype"):
        run.evaluate(config, tmp_path / "run")


def test_links_in_a_circle(own_data, make_config, tmp_path):
    scene = schema.load(own_data).scenes[0]
    path = own_data / scene.videos["positive"]
    path.unlink()
    path.symlink_to(path.name)
    kw = dict(data__path=str(own_data), methods=("base",), limit=1, allow_missing=True)
    assert run.evaluate(make_config(**kw), tmp_path / "run") == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_an_empty_model_path_is_only_for_the_builtin_default(make_config, made, tmp_path):
    config = make_config(data__path=str(made[0]), model__path="")
    with config.unlocked():
        del config.data["world"]
    with pytest.raises(UserError, match=r"model\.path is empty"):
        run.evaluate(config, tmp_path / "run")
