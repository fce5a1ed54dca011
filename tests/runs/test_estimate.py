"""What a run would need: counted before weights are read, and refused where it can't fit."""

import re

import jax
import pytest

from cctv.data import schema
from cctv.data.errors import UserError
from cctv.models import qwen3_vl, weights
from cctv.models.decoder import DecoderConfig
from cctv.runs import estimate, run

DECODER = DecoderConfig(
    vocab_size=1000, width=64, mlp_dim=128, num_layers=3, num_heads=4, num_kv_heads=2,
    head_dim=16, rope_theta=1e4,
)  # fmt: skip
MODEL = estimate.Model(DECODER, parameters=10_000, feature=128, streams=2, copies=4,
                       max_new_tokens=16)  # fmt: skip
LOAD = estimate.Load(prefix=256, suffix=16, questions=8, visual=128, pixels=128 * 2 * 32 * 32)


def test_memory_is_counted_from_shapes():
    found = estimate.memory(MODEL, LOAD, batch=8, itemsize=2)
    token = 2 * 3 * 2 * 16 * 2  # keys and values, layers, heads, head size, bytes
    assert found.weights == 20_000
    assert found.caches == (2 + 4) * (256 + 8 * (16 + 16)) * token
    assert found.features == 2 * 128 * 128 * 2
    assert found.logits == (2 + 4) * 8 * 1000 * 4
    assert found.activations > 2 * 4 * 4 * 256 * 256


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (dict(batch=4), {"caches", "logits"}),
        (dict(itemsize=4), {"weights", "caches", "features", "activations"}),
        (dict(load=LOAD._replace(visual=256)), {"features"}),
        (dict(load=LOAD._replace(prefix=512)), {"caches", "activations"}),
        (dict(model=MODEL._replace(streams=4)), {"caches", "features", "logits", "activations"}),
    ],
)
def test_what_each_part_depends_on(change, parts):
    settings = dict(model=MODEL, load=LOAD, batch=8, itemsize=2)
    before, after = (
        estimate.memory(s.pop("model"), s.pop("load"), **s) for s in (settings.copy(),
                                                                      settings | change)
    )  # fmt: skip
    differs = {k for k, v in before._asdict().items() if v != getattr(after, k)}
    assert differs == parts


@pytest.fixture
def limit(monkeypatch):
    """Sets the memory of the device."""

    def set_to(size):
        monkeypatch.setattr(estimate, "device_memory", lambda: ("a chip", int(size)))

    return set_to


def needed(make_config, tmp_path, capsys, **change):
    """Bytes that a run says it needs."""
    assert run.evaluate(make_config(**change), tmp_path / "dry", dry_run=True) == 0
    text = capsys.readouterr().out
    return 1e9 * float(re.search(r"memory: about ([\d.]+) GB", text)[1])


def test_too_little_memory_names_what_would_fit(make_config, tmp_path, capsys, limit, monkeypatch):
    change = dict(batch=16, model__dtype="float32")
    monkeypatch.setattr(estimate, "_gb", lambda size: f"{size / 1e9:.6f} GB")
    limit(1e12)
    need = needed(make_config, tmp_path, capsys, **change)
    limit(0.98 * need)
    monkeypatch.setattr(weights, "load", None)  # not reached
    workdir = tmp_path / "run"
    with pytest.raises(UserError, match="a chip has") as error:
        run.evaluate(make_config(**change), workdir)
    text = str(error.value)
    assert "\n" not in text
    batch = int(re.search(r"--config\.batch=(\d+)", text)[1])
    pixels = int(re.search(r"--config\.video\.max_pixels=(\d+)", text)[1])
    assert 1 <= batch < 16
    assert "--config.model.dtype=bfloat16" in text
    assert not (workdir / "manifest.json").exists()  # another dtype may still be chosen
    # What it names fits, and the next larger batch does not.
    fitting = [dict(batch=batch), dict(video__max_pixels=pixels), dict(model__dtype="bfloat16")]
    for flags in fitting:
        assert run.evaluate(make_config(**(change | flags)), workdir, dry_run=True) == 0
    with pytest.raises(UserError, match="a chip has"):
        run.evaluate(make_config(**(change | dict(batch=batch + 1))), workdir, dry_run=True)
    limit(1000)
    with pytest.raises(UserError, match="no setting alone would fit"):
        run.evaluate(make_config(**change), workdir)


def test_device_memory_is_there():
    name, size = estimate.device_memory()
    assert name == jax.devices()[0].device_kind
    assert size > 1e8


def test_a_dry_run_loads_and_writes_nothing(make_config, tmp_path, capsys, monkeypatch):
    def refuse(*args, **kw):
        raise AssertionError("weights were read")

    monkeypatch.setattr(weights, "load", refuse)
    assert run.evaluate(make_config(), tmp_path / "run", dry_run=True) == 0
    out = capsys.readouterr().out
    assert "2 scenes, 4 readable videos" in out
    assert "c_tcd, alpha 1" in out
    assert "GFLOP/s measured" in out
    assert "memory: about" in out
    assert not (tmp_path / "run").exists()


def test_a_dry_run_skips_what_can_not_be_read(own_data, make_config, tmp_path, capsys):
    """One file that is no video, one that is missing."""
    first, second = schema.load(own_data).scenes
    (own_data / first.videos["positive"]).write_bytes(b"hello")
    (own_data / second.videos["negative"]).unlink()
    kw = dict(data__path=str(own_data))
    with pytest.raises(UserError, match="2 video problems"):
        run.evaluate(make_config(**kw), tmp_path / "run", dry_run=True)
    assert run.evaluate(make_config(allow_missing=True, **kw), tmp_path, dry_run=True) == 0
    assert "2 scenes, 2 readable videos" in capsys.readouterr().out


def test_tokens_are_counted_with_the_shared_prefix(finished, make_config, made, capsys, tmp_path):
    """One prefix a video and the questions' own tokens, counted here from the token ids."""
    data, folder = made
    c = make_config()
    encoder = qwen3_vl.encoder(folder, qwen3_vl.from_hf(folder), video={"max_frames": 8})
    total = 0
    for scene in schema.load(data).scenes:
        for side in schema.SIDES:
            clip = encoder.load_clip(str(data / scene.videos[side]))
            ids = [
                encoder.prompts([c.prompt.replace("{question}", text)], clip)[0].tokens.tolist()
                for pair in scene.questions
                for text in (pair.positive, pair.negative)
            ]
            shared = 0
            while len({row[shared] for row in ids}) == 1:
                shared += 1
            total += shared + sum(len(row) - shared for row in ids)
    run.evaluate(make_config(methods=("base", "vcd", "c_tcd")), tmp_path / "run", dry_run=True)
    assert f"{2 * total} tokens through the model" in capsys.readouterr().out
