"""The α sweep from rows to alpha.json: nothing is chosen where it is reported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sweep_rows

from cctv.data.errors import UserError
from cctv.metrics import alpha as alphas
from cctv.metrics import evaluate, quadruples
from cctv.reports import figures
from cctv.runs import builtin, choose, rows, run, sweep

ROOT = Path(__file__).parents[1]
FAST = {"replicates": 50}


@pytest.fixture(scope="module")
def world():
    return sweep_rows.World()


@pytest.fixture
def folder(world, tmp_path):
    return world.write(tmp_path / "run")


def swept(folder, **options):
    return sweep.sweep(folder, **{"annotations": str(folder), **FAST, **options})


def analysed(world):
    """What alpha.json would hold, without files and figures."""
    systems = sweep.gather(world.all_rows(), world.questions(), where="x")
    options = {"metric": "quad_acc", "alpha_max": 2.0, "select_on": 0.5, "seed": 0}
    return choose.analyse(systems, **options, **FAST)


@pytest.fixture(scope="module")
def found(world):
    return analysed(world)


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(figures, "alpha_figure", lambda found: None)
    monkeypatch.setattr(figures, "save", lambda figure, stem: [])


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "cctv.sweep", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert "Traceback" not in done.stderr
    return done


def scored(found, questions):
    """metrics.json's numbers of rows, the other way to the same statistics."""
    pairs = {s: [(p, "event") for p in questions[s]] for s in questions}
    (system,) = evaluate.evaluate(found, pairs, replicates=50).metrics["systems"]
    return system


def test_command_writes_alpha_json_and_both_figures(world, folder):
    done = command(folder, f"--annotations={folder}", "--metric=ba_acc", "--select_on=0.4")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("C-TCD α=", "benchmark's own pairing", "yes rate", "a picture, not an estimate"):
        assert words in done.stdout
    found = json.loads((folder / "alpha.json").read_text())
    assert found["metric"] == "ba_acc"
    assert list(found["methods"]) == ["vcd", "tcd", "c_tcd"]
    assert found["bootstrap"] == {"replicates": 2000, "seed": 0, "unit": "scene"}
    for method in found["methods"].values():
        assert method["exact_until"] is None
        assert (method["n_pairs"], method["n_incomplete"]) == (len(world.pairs), 0)
        assert method["n_disagree"] == 0
        assert method["all_scenes"]["label"] == "all scenes: a picture, not an estimate"
        assert 0 <= method["chosen"]["low"] <= method["chosen"]["high"] <= 2
    assert (folder / "figures/alpha.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figures/alpha.pdf").read_bytes().startswith(b"%PDF")


def test_reported_numbers_are_those_of_rows_at_the_chosen_alpha_on_the_other_scenes(world, found):
    report = set(found["split"]["report"])
    questions = {s: p for s, p in world.questions().items() if s in report}
    for name, method in found["methods"].items():
        alpha = method["chosen"]["alpha"]
        here = [r for r in world.rows(name, alpha) if r["scene_id"] in report]
        system = scored(here, questions)
        assert method["reported"]["n_pairs"] == system["n_pairs"]
        for key, entry in system["metrics"].items():
            mine = method["reported"]["metrics"][key]
            for field, value in entry.items():
                both = np.array([mine[field], np.nan if value is None else value], float)
                np.testing.assert_allclose(*both, atol=1e-9)
        base = scored([r for r in world.rows("base", 0.0) if r["scene_id"] in report], questions)
        for key in ("quad_acc", "yes_rate"):
            before = base["metrics"][key]["value"]
            assert method["reported"]["base"][key]["value"] == pytest.approx(before)
            change = method["reported"]["difference"][key]["value"]
            assert change == pytest.approx(system["metrics"][key]["value"] - before)


def test_chosen_alpha_is_the_best_of_the_selection_scenes_alone(world, found):
    select = set(found["split"]["select"])
    inside = np.array([scene in select for scene, _ in world.pairs])
    for name, method in found["methods"].items():

        def quad_acc(alpha, name=name):
            cells = (world.fused(name, alpha)[inside] > 0).astype(int)
            return 100 * (cells == [1, 0, 0, 0]).all(1).mean()

        reached = quad_acc(method["chosen"]["alpha"])
        assert method["chosen"]["value"] == pytest.approx(reached)
        assert reached == pytest.approx(max(quad_acc(a) for a in np.linspace(0, 2, 401)))


def test_rows_of_the_report_scenes_do_not_move_the_choice(found):
    report = found["split"]["report"]
    other = sweep_rows.World(seed=0)
    for n, (scene, _) in enumerate(other.pairs):
        if scene in report:
            other.base[n] = -other.base[n]
    again = analysed(other)
    for name, method in found["methods"].items():
        if name != "c_tcd":
            assert again["methods"][name]["chosen"] == method["chosen"]
            assert again["methods"][name]["reported"] != method["reported"]


@pytest.mark.parametrize("select_on", [0.2, 0.5, 0.75])
def test_split_is_disjoint_whole_and_fixed_by_the_seed(select_on):
    scenes = [f"s{i}" for i in range(20)]
    one, two = choose.split(scenes, select_on=select_on, seed=3)
    assert not set(one) & set(two)
    assert sorted(one + two) == sorted(scenes)
    assert len(one) == 20 * select_on
    assert choose.split(scenes, select_on=select_on, seed=3) == (one, two)
    assert choose.split(scenes, select_on=select_on, seed=4) != (one, two)


def test_curves_and_grid_and_quadruples_say_what_the_rows_say(world, found):
    for name, method in found["methods"].items():
        for point in method["all_scenes"]["grid"]:
            system = scored(world.rows(name, point["alpha"]), world.questions())
            for key in ("quad_acc", "ba_acc", "yes_rate", "mcc_score"):
                expected = system["metrics"][key]["value"]
                assert point["low"][key] == pytest.approx(expected)
                assert point["high"][key] == pytest.approx(expected)
        curve = method["all_scenes"]["curves"]["quad_acc"]
        i = np.searchsorted(curve["alpha"], 0.987, side="right") - 1
        right = 100 * np.mean(
            [
                q["right"] is not None and q["right"][0] < 0.987 < q["right"][1]
                for q in method["quadruples"]
            ]
        )
        assert curve["after_low"][i] == pytest.approx(right)
        (decoded,) = [d for d in method["all_scenes"]["decoded"] if d["alpha"] == 1]
        expected = scored(world.rows(name, 1.0), world.questions())["metrics"]["sve"]["value"]
        assert decoded["metrics"]["sve"] == pytest.approx(expected)


def test_equal_rows_give_equal_files(world, folder, tmp_path):
    swept(folder)
    shuffled = world.all_rows()
    np.random.default_rng(0).shuffle(shuffled)
    other = world.write(tmp_path / "other", shuffled)
    swept(other)
    for name in ("alpha.json", "figures/alpha.png", "figures/alpha.pdf"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()


def test_base_margins_come_back_from_the_fused_ones(world, tmp_path):
    without = [r for r in world.all_rows() if r["method"] != "base"]
    found = sweep.gather(without, world.questions(), where="x")
    np.testing.assert_allclose(found["vcd"].margins.base, world.base, atol=1e-12)
    assert list(found["vcd"].margins.decoded) == [1.0]


def test_masked_unparsed_and_silent_rows_are_never_exact(world):
    questions = world.questions()

    def exact(change, method):
        found = world.all_rows()
        change(next(r for r in found if r["method"] == method))
        margins = sweep.gather(found, questions, where="x")["c_tcd"].margins
        return np.count_nonzero(margins.exact_to == 0), margins.exact_until

    assert exact(lambda row: row, "c_tcd") == (0, np.inf)
    assert exact(lambda row: row.update(masked=True), "c_tcd") == (1, 0)
    assert exact(lambda row: row.pop("alpha_exact_to"), "c_tcd") == (1, 0)
    unparsed = {"status": "unparsed", "label": None, "answer": "Hm"}
    assert exact(lambda row: row.update(unparsed), "base") == (1, 0)


def test_incomplete_pairs_are_left_out_and_counted(world):
    found = world.all_rows()
    row = next(r for r in found if r["method"] == "tcd")
    row.update(status="not_finite", label=None, answer=None, margin=None, margin_contrast=None)
    systems = sweep.gather(found, world.questions(), where="x")
    assert [s.n_incomplete for s in systems.values()] == [0, 1, 0]
    assert (row["scene_id"], row["pair_id"]) not in systems["tcd"].pairs
    assert 1.0 in systems["tcd"].margins.decoded


def write_config(folder, **keys):
    config = {"methods": ["base", "c_tcd"], "limit": None, "data": {"path": "", "workers": 1}}
    (folder / "config.json").write_text(json.dumps(config | keys))


def test_data_come_from_the_runs_config(world, tmp_path, monkeypatch, undrawn):
    data = world.write_annotations(tmp_path / "data")
    folder = world.write(tmp_path / "run")
    (folder / "scenes.jsonl").unlink()
    write_config(folder, data={"path": str(data), "workers": 1})
    assert len(sweep.sweep(folder, **FAST)["split"]["select"]) == 4
    write_config(folder, data={"path": str(data), "workers": 1}, limit=5)
    found = sweep.sweep(folder, **FAST)
    assert found["split"]["select"] + found["split"]["report"] < ["s05"]
    asked = []
    monkeypatch.setattr(builtin, "dataset", lambda **keys: asked.append(keys) or data)
    world_keys = {"scenes": 8, "seed": 0, "size": [160, 90]}
    write_config(folder, data={"path": "", "workers": 1, "world": world_keys})
    sweep.sweep(folder, **FAST)
    assert asked == [{"scenes": 8, "seed": 0, "size": (160, 90), "workers": 1}]


def test_redecode_runs_the_grid_where_rows_are_not_exact(tmp_path, monkeypatch, undrawn):
    n = len(sweep_rows.World().pairs)
    ends = np.full((n, 4), np.inf)
    ends[0, 0], ends[5, 2], ends[7, 3] = 1.1, 1.3, 1.6
    world = sweep_rows.World(ends=ends, methods=("c_tcd",))
    folder = world.write(tmp_path / "run")
    write_config(folder)
    before = swept(folder)["methods"]["c_tcd"]
    assert before["exact_until"] == 1.1
    asked = []

    def evaluate_on(config, workdir, *, alphas):
        asked.append((config.methods, workdir, alphas))
        with rows.RowWriter(rows.shard_path(workdir, 0, 1)) as writer:
            writer.write([r for a in alphas for r in world.rows("c_tcd", a)])
        return 0

    monkeypatch.setattr(run, "evaluate", evaluate_on)
    found = swept(folder, redecode=True, alpha_max=1.6)["methods"]["c_tcd"]
    grid = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.6)
    assert asked == [(("base", "c_tcd"), folder, grid)]
    assert [d["alpha"] for d in found["all_scenes"]["decoded"]] == list(grid)
    for point in found["all_scenes"]["grid"]:
        truth = scored(world.rows("c_tcd", point["alpha"]), world.questions())["metrics"]
        for key in ("quad_acc", "yes_rate", "question_consistency"):
            assert point["low"][key] == pytest.approx(truth[key]["value"])
            assert point["high"][key] == pytest.approx(truth[key]["value"])
    curve = found["all_scenes"]["curves"]["yes_rate"]
    i = np.searchsorted(curve["alpha"], 1.55, side="right") - 1
    assert curve["after_high"][i] - curve["after_low"][i] == pytest.approx(100 * 2 / (4 * n))


def test_redecode_has_nothing_to_do_where_every_row_is_exact(folder, monkeypatch, capsys, undrawn):
    monkeypatch.setattr(run, "evaluate", lambda *a, **k: pytest.fail("the model was run"))
    swept(folder, redecode=True)
    assert "nothing to decode" in capsys.readouterr().err


def test_unknown_answers_at_the_chosen_alpha_are_told():
    world = sweep_rows.World(ends=0.0, methods=("vcd",))
    method = analysed(world)["methods"]["vcd"]
    # Only α = 0 and the α of the rows are known: all unparsed there, and nothing is known between.
    assert method["exact_until"] == 0
    assert method["chosen"]["alpha"] == 0
    assert method["reported"]["n_unknown"] == 0
    margins = alphas.Margins(
        base=world.base, contrast=world.contrast["vcd"], exact_to=np.full(world.base.shape, 0.5)
    )
    choice = choose._reported(
        choose.System(world.pairs, margins, 0),
        np.ones(len(world.pairs), bool),
        0.75,
        replicates=10,
        seed=0,
    )
    assert choice["n_unknown"] == world.base.size
    assert choice["metrics"]["quad_acc"]["value"] == 0
    assert choice["base"]["quad_acc"]["value"] == pytest.approx(
        100 * (alphas.labels(margins, 0.0) == quadruples.PATTERNS[27]).all(1).mean()
    )


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["method"] == "base", "no rows of a contrastive method"),
        (lambda r: r["scene_id"] == "s00", "1 scenes are too few"),
    ],
)
def test_rows_that_nothing_can_be_drawn_of(world, tmp_path, change, words):
    folder = world.write(tmp_path / "run", [r for r in world.all_rows() if change(r)])
    with pytest.raises(UserError, match=words) as error:
        swept(folder)
    one_line(error)


def test_rows_of_another_program_have_no_margins(world, tmp_path):
    bare = [
        {k: v for k, v in r.items() if not k.startswith(("margin", "alpha_exact"))}
        for r in world.all_rows()
    ]
    with pytest.raises(UserError, match="need margin and margin_contrast") as error:
        swept(world.write(tmp_path / "run", bare))
    one_line(error)


def test_rows_of_two_runs_and_too_few_complete_scenes(world, tmp_path):
    mixed = [r | {"run": "again"} if r["method"] == "vcd" else r for r in world.all_rows()]
    with pytest.raises(UserError, match="several models or runs") as error:
        swept(world.write(tmp_path / "mixed", mixed))
    one_line(error)
    few = [r for r in world.all_rows() if r["method"] != "tcd" or r["scene_id"] == "s00"]
    with pytest.raises(UserError, match="tcd: too few of its 1 scenes") as error:
        swept(world.write(tmp_path / "few", few))
    one_line(error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "mcc"}, "--metric=mcc must be one of quad_acc, "),
        ({"alpha_max": 0.0}, "--alpha_max"),
        ({"alpha_max": float("inf")}, "--alpha_max"),
        ({"select_on": 1.0}, "--select_on=1.0"),
        ({"select_on": 0.01}, "too few to choose"),
        ({"annotations": "/nowhere"}, "/nowhere"),
        ({"annotations": None}, "give --annotations"),
    ],
)
def test_wrong_options(folder, options, words):
    with pytest.raises(ValueError, match=words) as error:
        swept(folder, **options)
    one_line(error)
    assert not (folder / "alpha.json").exists()


def test_broken_folders(folder, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="not a run folder"):
        swept(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no prediction file"):
        sweep.sweep(tmp_path / "empty", annotations=str(folder), **FAST)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: not JSON"):
        swept(folder)
    (folder / "config.json").unlink()
    ends = np.full(4, 0.5)
    short = sweep_rows.World(ends=ends).write(tmp_path / "short")
    with pytest.raises(UserError, match=r"no config\.json, so the model"):
        swept(short, redecode=True)


@pytest.mark.parametrize("arguments", [["a", "b"], ["/nowhere"], ["/nowhere", "--metrik=x"]])
def test_wrong_use_is_one_line(arguments):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_help_documents_the_keys():
    done = command("--help")
    assert done.returncode == 0
    for words in ("--redecode", "exact_until", "all_scenes", "quadruples"):
        assert words in done.stdout
