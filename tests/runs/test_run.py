"""Whole runs in this process: files, rows, resume, statuses, and every kind of bad input."""

import json
import shutil

import jax
import numpy as np
import pytest

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.data.schema import SIDES
from cctv.decoding import engine
from cctv.decoding.contrast import TCD
from cctv.models import qwen3_vl, tiny, weights
from cctv.runs import builtin, config, run

FILES = ("config.json", "manifest.json", "metrics.json", "report.md", "report.html")


def key(row):
    return (row["method"], row["alpha"], row["pair_id"], row["video"], row["question"])


def test_a_run_leaves_its_files(finished, rows_of):
    assert all((finished / name).stat().st_size for name in FILES)
    rows = rows_of(finished)
    metrics = json.loads((finished / "metrics.json").read_text())
    assert [(s["method"], s["alpha"]) for s in metrics["systems"]] == [("base", 0), ("c_tcd", 1)]
    pairs = metrics["systems"][0]["n_pairs"]
    assert len(rows) == 2 * 4 * pairs == len({key(r) for r in rows})
    assert {r["status"] for r in rows} == {"ok"}
    assert {r["answer"] for r in rows} == {"Yes", "No"}  # or the tests below would show little
    manifest = json.loads((finished / "manifest.json").read_text())
    # cases.md 22: what changes a score is in the manifest.
    held = manifest["identity"]["model"]["input"]
    assert held["processor"]["max_pixels"] == 25165824
    assert held["system_prompt"] is None
    (invocation,) = manifest["provenance"]["invocations"]
    assert invocation["rows_written"] == len(rows)


def test_rows_obey_the_algebra_of_the_contrast(finished, rows_of):
    """Protocol section 4: the contrast of (v+, q) is the base of (v-, q); cases.md 16: the same
    text on the two videos is two answers."""
    rows = {key(r): r for r in rows_of(finished)}
    compared = 0
    for (method, _, pair, video, question), row in rows.items():
        if method != "c_tcd":
            continue
        other = "negative" if video == "positive" else "positive"
        own = rows["base", 0.0, pair, video, question]["margin"]
        contrast = rows["base", 0.0, pair, other, question]["margin"]
        assert own != contrast
        assert abs(row["margin_contrast"] - contrast) < 1e-4
        assert abs(row["margin"] - (2 * own - contrast)) < 3e-4
        assert row["label"] == int(row["margin"] > 0)
        compared += 1
    assert compared == len(rows) / 2


def test_margins_equal_transformers_from_the_mp4(finished, make_config, rows_of, made):
    """From the file to the margin: the same checkpoint folder opened by transformers."""
    import torch
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

    data, folder = made
    theirs = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scene = schema.load(data).scenes[0]
    c = make_config()
    encoder = qwen3_vl.encoder(folder, qwen3_vl.from_hf(folder), video=config.settings(c))
    yes, no = tokenizer("Yes").input_ids[0], tokenizer("No").input_ids[0]
    rows = {key(r): r for r in rows_of(finished)}
    for side in SIDES:
        clip = encoder.load_clip(str(data / scene.videos[side]))
        patches, grid = encoder.processor.patchify(clip.frames)
        pair = scene.questions[0]
        video = "".join(
            f"<{t:.1f} seconds><|vision_start|>{'<|video_pad|>' * (grid[1] * grid[2] // 4)}"
            "<|vision_end|>"
            for t in encoder.processor.time_stamps(clip.times)
        )
        text = c.prompt.replace("{question}", pair.positive)
        ids = tokenizer(
            f"<|im_start|>user\n{video}{text}<|im_end|>\n<|im_start|>assistant\n",
            return_tensors="pt",
        ).input_ids
        pad = tokenizer.convert_tokens_to_ids("<|video_pad|>")
        with torch.no_grad():
            logits = theirs(
                input_ids=ids,
                mm_token_type_ids=(ids == pad).int() * 2,
                pixel_values_videos=torch.tensor(patches.reshape(-1, patches.shape[-1])),
                video_grid_thw=torch.tensor([grid]),
            ).logits[0, -1]
        row = rows["base", 0.0, pair.pair_id, side, "positive"]
        assert row["n_prompt_tokens"] == ids.shape[1]
        assert abs(row["margin"] - float(logits[yes] - logits[no])) < 1e-4


def test_the_same_command_again_changes_nothing(finished, make_config, tmp_path, rows_of):
    workdir = shutil.copytree(finished, tmp_path / "run")
    before = {n: (workdir / n).read_bytes() for n in ("metrics.json", "report.html")}
    count = len(rows_of(workdir))
    assert run.evaluate(make_config(), workdir) == 0
    assert {n: (workdir / n).read_bytes() for n in before} == before
    assert len(rows_of(workdir)) == count


def test_an_alpha_may_be_added(finished, make_config, tmp_path):
    workdir = shutil.copytree(finished, tmp_path / "run")
    assert run.evaluate(make_config(methods=("c_tcd",), alpha=0.5), workdir) == 0
    metrics = json.loads((workdir / "metrics.json").read_text())
    assert [s["alpha"] for s in metrics["systems"]] == [0, 0.5, 1]


def test_all_methods_in_one_invocation(finished, make_config, tmp_path, rows_of):
    """The four methods share what they can; base and C-TCD are what they are alone; more α than one
    cost no more passes."""
    every = ("vcd", "base", "tcd", "c_tcd")
    config = make_config(methods=every, limit=1)
    assert run.evaluate(config, tmp_path, alphas=(0.5, 1.0)) == 0
    rows = {key(r): r for r in rows_of(tmp_path)}
    assert {(k[0], k[1]) for k in rows} == {
        ("base", 0.0), *((m, a) for m in every if m != "base" for a in (0.5, 1.0))
    }  # fmt: skip
    expected = {key(r): r for r in rows_of(finished)}
    for k, row in rows.items():
        base = rows["base", 0.0, *k[2:]]
        if k in expected:
            assert abs(row["margin"] - expected[k]["margin"]) < 1e-4
        if k[0] != "base":
            fused = (1 + k[1]) * base["margin"] - k[1] * row["margin_contrast"]
            assert abs(row["margin"] - fused) < 1e-4
        if k[0] in ("vcd", "tcd"):
            assert row["margin_contrast"] != base["margin"]
        assert row["frame_indices"] == base["frame_indices"]


@pytest.mark.parametrize("num_frames", [1, 3])
def test_tcd_that_drops_frames(make_config, tmp_path, rows_of, num_frames):
    """The contrast's prompt is shorter and its positions its own: as a run on those frames."""
    change = dict(tcd__num_frames=num_frames, tcd__mode="drop", methods=("tcd",), limit=1)
    run.evaluate(make_config(**change), tmp_path / "tcd")
    plain = dict(video__num_frames=num_frames, methods=("base",), limit=1)
    rows = {key(r)[2:]: r for r in rows_of(tmp_path / "tcd")}
    first = next(iter(rows.values()))
    kept = TCD(num_frames=num_frames).kept(len(first["frame_indices"]))
    run.evaluate(make_config(**plain), tmp_path / "plain")
    same = 0
    for row in rows_of(tmp_path / "plain"):
        frames = [rows[key(row)[2:]]["frame_indices"][i] for i in kept]
        if row["frame_indices"] == frames:
            assert abs(rows[key(row)[2:]]["margin_contrast"] - row["margin"]) < 1e-4
            same += 1
    assert same == len(rows) or num_frames == 3


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"beta": 0.1}, "beta"),
        ({"prompt": "{question}"}, "prompt"),
        ({"video__max_frames": 4}, "max_frames"),
        ({"model__dtype": "bfloat16"}, "dtype"),
        ({"model__outer_vision_markers": True}, "outer_vision_markers"),
        ({"run": "other"}, "run"),
    ],
)
def test_another_run_is_refused(finished, make_config, tmp_path, change, field):
    workdir = shutil.copytree(finished, tmp_path / "run")
    with pytest.raises(UserError, match=field):
        run.evaluate(make_config(**change), workdir)


def test_batch_does_not_change_answers(finished, make_config, tmp_path, rows_of):
    """cases.md 13."""
    run.evaluate(make_config(batch=5, vision_batch=3), tmp_path / "run")
    expected = {key(r): r for r in rows_of(finished)}
    for row in rows_of(tmp_path / "run"):
        assert row["answer"] == expected[key(row)]["answer"]
        assert abs(row["margin"] - expected[key(row)]["margin"]) < 1e-4


def test_interrupted_between_batches_equals_uninterrupted(
    finished, make_config, tmp_path, monkeypatch, rows_of
):
    """Ctrl-C in the middle of a scene; a torn line; then a resumed run."""
    answer, calls = engine.Engine.run, []

    def interrupted(self, *args, **kw):
        calls.append(1)
        if len(calls) == 2:  # in the second scene
            raise KeyboardInterrupt
        return answer(self, *args, **kw)

    monkeypatch.setattr(engine.Engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate(make_config(), tmp_path)
    monkeypatch.undo()
    shard = tmp_path / "predictions-00000-of-00001.jsonl"
    first = {r["scene_id"] for r in rows_of(tmp_path)}
    assert len(first) == 1
    with open(shard, "ab") as file:
        file.write(b'{"scene_id": "torn')
    assert run.evaluate(make_config(), tmp_path) == 0
    for name in ("metrics.json",):
        assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()
    assert sorted(shard.read_text().splitlines()) == sorted(
        (finished / shard.name).read_text().splitlines()
    )


def test_a_missing_video(own_data, make_config, tmp_path, rows_of, finished, capsys):
    """cases.md 4, 5: listed before a model is loaded; with allow_missing the run goes on, the
    quadruples are incomplete and listed; the video found again, the same command completes."""
    scene = schema.load(own_data).scenes[1]
    lost = own_data / scene.videos["negative"]
    lost.rename(tmp_path / "kept.mp4")
    workdir = tmp_path / "run"
    kw = dict(data__path=str(own_data))
    with pytest.raises(UserError, match="1 video problems"):
        run.evaluate(make_config(**kw), workdir)
    assert lost.name in capsys.readouterr().err
    assert not list(workdir.glob("predictions*"))
    assert run.evaluate(make_config(allow_missing=True, **kw), workdir) == 0
    status = {
        (r["method"], r["video"]): r["status"]
        for r in rows_of(workdir)
        if r["scene_id"] == scene.scene_id
    }
    assert status == {
        ("base", "positive"): "ok",
        ("base", "negative"): "video_missing",
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
    assert (workdir / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()


@pytest.mark.parametrize("damage", ["empty", "truncated", "text"])
def test_a_video_that_does_not_decode(own_data, make_config, tmp_path, rows_of, damage, capsys):
    """cases.md 3: the questions of that video are marked together, the others finish."""
    scene = schema.load(own_data).scenes[0]
    path = own_data / scene.videos["positive"]
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "truncated": data[: len(data) // 3], "text": b"hello"}[damage])
    kw = dict(data__path=str(own_data), methods=("base",))
    with pytest.raises(UserError, match="video problems"):
        run.evaluate(make_config(**kw), tmp_path / "run")
    assert path.name in capsys.readouterr().err
    assert run.evaluate(make_config(allow_missing=True, **kw), tmp_path / "run") == 0
    statuses = {(r["scene_id"], r["video"], r["status"]) for r in rows_of(tmp_path / "run")}
    assert len(statuses) == 4
    assert (scene.scene_id, "positive", "video_error") in statuses
    assert sum(s == "ok" for _, _, s in statuses) == 3


def test_a_video_that_changed_is_refused(own_data, make_config, tmp_path):
    kw = dict(data__path=str(own_data), methods=("base",), limit=1)
    run.evaluate(make_config(**kw), tmp_path / "run")
    scene = schema.load(own_data).scenes[0]
    shutil.copy(own_data / scene.videos["negative"], own_data / scene.videos["positive"])
    with pytest.raises(UserError, match="changed since"):
        run.evaluate(make_config(**kw), tmp_path / "run")


def test_limit_and_back(make_config, finished, tmp_path, rows_of):
    run.evaluate(make_config(limit=1), tmp_path)
    assert len({r["scene_id"] for r in rows_of(tmp_path)}) == 1
    run.evaluate(make_config(), tmp_path)
    assert (tmp_path / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()
    run.evaluate(make_config(limit=1), tmp_path)  # rows beyond the limit stay on disk
    assert json.loads((tmp_path / "metrics.json").read_text())["systems"][0]["n_scenes"] == 1


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
        return dict(
            data__path=str(data), model__path=str(folder), methods=("base",), limit=1,
        )  # fmt: skip

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
    (system,) = json.loads((tmp_path / "run" / "metrics.json").read_text())["systems"]
    assert system["n_unparsed"] == len(rows)
    assert system["metrics"]["reject_q_neg"]["value"] == 0


def test_wrong_tensors_are_one_line(checkpoint, make_config, tmp_path):
    kw = checkpoint(lambda t: t.pop("lm_head.weight"))
    with pytest.raises(weights.ConversionError, match=r"lm_head\.weight is missing"):
        run.evaluate(make_config(**kw), tmp_path / "run")


def test_out_of_memory_says_what_to_set(make_config, tmp_path, monkeypatch):
    def answer(self, *args, **kw):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")

    monkeypatch.setattr(engine.Engine, "run", answer)
    with pytest.raises(UserError, match=r"config\.batch=16"):
        run.evaluate(make_config(), tmp_path)


def test_other_device_errors_are_not_hidden(make_config, tmp_path, monkeypatch):
    def answer(self, *args, **kw):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(engine.Engine, "run", answer)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        run.evaluate(make_config(), tmp_path)


def test_a_dry_run_writes_nothing(make_config, tmp_path, capsys):
    assert run.evaluate(make_config(), tmp_path / "run", dry_run=True) == 0
    out = capsys.readouterr().out
    assert "2 scenes, 4 readable videos" in out
    assert "c_tcd, alpha 1" in out
    assert "GFLOP/s measured" in out
    assert not (tmp_path / "run").exists()


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
        ({"beta": 2.0}, "beta"),
        ({"batch": 0}, "batch"),
        ({"limit": 0}, "limit"),
        ({"data__timeout": 0.0}, "timeout"),
        ({"bootstrap__replicates": 0}, "replicates"),
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


def test_the_builtin_checkpoint_is_the_same_every_time(made, tmp_path):
    data, folder = made
    texts = [t for s in schema.load(data).scenes for p in s.questions
             for t in (p.positive, p.negative)]  # fmt: skip
    tiny.create(tmp_path, texts=texts)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    assert builtin.checkpoint(data) == folder
