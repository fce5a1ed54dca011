"""Whole runs: files, rows, methods, resume, precision, and the same in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cctv.data import preprocess, schema
from cctv.data.errors import UserError
from cctv.data.schema import SIDES
from cctv.decoding import engine
from cctv.decoding.contrast import TCD
from cctv.models import qwen3_vl
from cctv.runs import config, run

ROOT = Path(__file__).parents[2]
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
    assert len(held["tokens_of_example"]) == len(manifest["identity"]["model"]["tokenizer"]) == 64
    (invocation,) = manifest["provenance"]["invocations"]
    assert invocation["video_errors"] == {}
    assert invocation["rows_written"] == len(rows)


def test_rows_obey_the_algebra_of_the_contrast(finished, rows_of):
    """Protocol section 4: the contrast of (v+, q) is the base of (v-, q); cases.md 16: the same
    text on two videos of equal shape is two answers."""
    rows = {key(r): r for r in rows_of(finished)}
    compared = 0
    for (method, _, pair, video, question), row in rows.items():
        if method != "c_tcd":
            continue
        other = "negative" if video == "positive" else "positive"
        own = rows["base", 0.0, pair, video, question]
        contrast = rows["base", 0.0, pair, other, question]
        assert own["n_prompt_tokens"] == contrast["n_prompt_tokens"]
        assert own["video_digest"] != contrast["video_digest"]
        own, contrast = own["margin"], contrast["margin"]
        assert abs(own - contrast) > 1e-3
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
        patches, grid = preprocess.patches_of(clip.frames, encoder.processor), clip.grid
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


def test_sharing_the_base_segment_changes_nothing(finished, make_config, tmp_path, rows_of):
    """The videos of the built-in world are equal up to the branch: that part is read once."""
    assert run.evaluate(make_config(share_base_segment=True), tmp_path) == 0
    expected = {key(r): r for r in rows_of(finished)}
    for row in rows_of(tmp_path):
        assert abs(row["margin"] - expected[key(row)]["margin"]) < 1e-3
        assert row["answer"] == expected[key(row)]["answer"] or abs(row["margin"]) < 1e-3
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    shared = manifest["provenance"]["invocations"][0]["shared"]
    assert 0 < shared["groups_encoded"] < shared["groups"]
    assert 0 < shared["prefix_tokens_shared"] < shared["prefix_tokens"]


def test_the_same_command_again_changes_nothing(finished, make_config, tmp_path, rows_of):
    workdir = shutil.copytree(finished, tmp_path / "run")
    before = {n: (workdir / n).read_bytes() for n in ("metrics.json", "report.html")}
    count = len(rows_of(workdir))
    assert run.evaluate(make_config(), workdir) == 0
    assert {n: (workdir / n).read_bytes() for n in before} == before
    assert len(rows_of(workdir)) == count


@pytest.mark.parametrize("kept", [1, 17, 70])
def test_rows_lost_within_a_scene_come_back_bit_by_bit(finished, make_config, tmp_path, kept):
    """A kill while rows are written: what is missing is computed with all that went with it."""
    workdir = shutil.copytree(finished, tmp_path / "run")
    (shard,) = workdir.glob("predictions-*.jsonl")
    lines = shard.read_text().splitlines(keepends=True)
    assert kept < len(lines) // 2 + 20
    shard.write_text("".join(lines[:kept]) + lines[kept][:40])
    assert run.evaluate(make_config(), workdir) == 0
    assert sorted(shard.read_text().splitlines(keepends=True)) == sorted(lines)
    assert (workdir / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()


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


def test_tcd_that_drops_frames(make_config, tmp_path, rows_of):
    """The contrast's prompt is shorter and its positions its own: as a run on those frames. Two
    are the first and the last, by TCD as by the processor."""
    change = dict(tcd__num_frames=2, tcd__mode="drop", methods=("tcd",), limit=1)
    run.evaluate(make_config(**change), tmp_path / "tcd")
    plain = dict(video__num_frames=2, methods=("base",), limit=1)
    rows = {key(r)[2:]: r for r in rows_of(tmp_path / "tcd")}
    first = next(iter(rows.values()))
    kept = TCD(num_frames=2).kept(len(first["frame_indices"]))
    run.evaluate(make_config(**plain), tmp_path / "plain")
    found = rows_of(tmp_path / "plain")
    assert len(found) == len(rows)
    for row in found:
        tcd = rows[key(row)[2:]]
        assert row["frame_indices"] == [tcd["frame_indices"][i] for i in kept]
        assert abs(tcd["margin_contrast"] - row["margin"]) < 1e-4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"share_base_segment": True}, "share_base_segment"),
        ({"beta": 0.1}, "beta"),
        ({"prompt": "{question}"}, "prompt"),
        ({"video__max_frames": 4}, "max_frames"),
        ({"video__max_pixels": 65536}, "max_pixels"),
        ({"model__dtype": "bfloat16"}, "dtype"),
        ({"model__outer_vision_markers": True}, "outer_vision_markers"),
        ({"run": "other"}, "run"),
    ],
)
def test_another_run_is_refused(finished, make_config, tmp_path, change, field):
    """cases.md 16, 22."""
    workdir = shutil.copytree(finished, tmp_path / "run")
    with pytest.raises(UserError, match=field):
        run.evaluate(make_config(**change), workdir)


def test_batch_does_not_change_answers(finished, make_config, tmp_path, rows_of):
    """cases.md 13."""
    run.evaluate(make_config(batch=8, vision_batch=3, limit=1), tmp_path / "run")
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


def test_limit_and_back(make_config, finished, tmp_path, rows_of):
    run.evaluate(make_config(limit=1), tmp_path)
    assert len({r["scene_id"] for r in rows_of(tmp_path)}) == 1
    run.evaluate(make_config(), tmp_path)
    assert (tmp_path / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()
    run.evaluate(make_config(limit=1), tmp_path)  # rows beyond the limit stay on disk
    assert json.loads((tmp_path / "metrics.json").read_text())["systems"][0]["n_scenes"] == 1


def test_a_second_call_and_a_fresh_process_give_the_same(
    finished, make_config, tmp_path, rows_of, cache
):
    """cases.md 15: bitwise, the shapes being the same."""
    assert run.evaluate(make_config(), tmp_path / "second") == 0
    command = [sys.executable, "-m", "cctv.main", f"--workdir={tmp_path / 'fresh'}"]
    command += ["--config.data.world.scenes=2", "--config.data.world.size=(160, 90)"]
    command += ["--config.data.world.seed=10"]
    command += ["--config.batch=16", "--config.bootstrap.replicates=200"]
    env = os.environ | {"CCTV_CACHE": str(cache), "JAX_PLATFORMS": "cpu"}
    subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True)
    first = rows_of(finished)
    assert first == rows_of(tmp_path / "second") == rows_of(tmp_path / "fresh")


def test_bfloat16_is_near_float32(finished, make_config, tmp_path, rows_of, made):
    """From a float32 and from a bfloat16 file, bit by bit the same; against float32 the margins of
    this model, made sharp on purpose, move by at most 0.8, half of them by less than 0.3."""
    from ml_dtypes import bfloat16
    from safetensors.numpy import load_file, save_file

    data, source = made
    folder = shutil.copytree(source, tmp_path / "tiny-half")
    tensors = load_file(source / "model.safetensors")
    save_file({k: v.astype(bfloat16) for k, v in tensors.items()}, folder / "model.safetensors")
    kw = dict(model__dtype="bfloat16", methods=("base",), limit=1)
    assert run.evaluate(make_config(**kw), tmp_path / "run") == 0
    kw |= dict(data__path=str(data), model__path=str(folder), model__name="tiny")
    assert run.evaluate(make_config(**kw), tmp_path / "half") == 0
    found = {key(r): r["margin"] for r in rows_of(tmp_path / "run")}
    assert found == {key(r): r["margin"] for r in rows_of(tmp_path / "half")}
    expected = {key(r): r["margin"] for r in rows_of(finished)}
    ours, theirs = ([margins[k] for k in found] for margins in (found, expected))
    moved = np.abs(np.subtract(ours, theirs))
    assert np.std(theirs) > 0.5
    assert np.median(moved) < 0.3
    assert 0 < moved.max() < 0.8
    assert np.corrcoef(ours, theirs)[0, 1] > 0.9
