"""The folder of tables and figures: what is made, what is said not to be, and wrong input."""

import dataclasses
import json
import re

import numpy as np
import paper_rows
import pytest

from cctv.data import schema, video
from cctv.data.errors import UserError
from cctv.data.schema import CELLS
from cctv.reports import figures, paper_tables
from cctv.runs import groups, moments, paper, paper_curves
from cctv.runs.rows import check
from experiments.paper_figures import simulate

OPEN, HOSTED = simulate.MODELS[1], simulate.MODELS[13]


def write(folder, models=(OPEN, HOSTED), n_scenes=5, keep=lambda row: True):
    """Annotations and rows; the first scene's accident has its video, 4.5 s long."""
    rng = np.random.default_rng(3)
    scenes = simulate.scenes(n_scenes, rng)
    scenes[0] |= {"split_time": 1.0}
    scenes[0]["segments"] |= {"key_frames": [1.9, 2.1]}
    (folder / "videos").mkdir(parents=True)
    frames = np.zeros((9, 36, 64, 3), np.uint8)
    frames[:] = 25 * np.arange(9)[:, None, None, None]
    video.write(folder / scenes[0]["videos"]["positive"], frames, fps=2)
    found = [row for model in models for row in simulate.rows(model, scenes, rng) if keep(row)]
    for name, lines in (("scenes.jsonl", scenes), ("rows.jsonl", found)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return scenes, found


def make(folder, out="out", **options):
    options = {"replicates": 20, "annotations": str(folder)} | options
    return paper.make([str(folder / "rows.jsonl")], out=folder / out, **options)


def save_nothing(_, stem):
    """Empty files: what is drawn is tested beside the figures, and saving takes long."""
    for kind in (".png", ".pdf"):
        stem.with_suffix(kind).write_bytes(b"")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, scenes, rows, lines said) of a run over two models in two groups."""
    folder = tmp_path_factory.mktemp("paper")
    scenes, rows = write(folder)
    given = {"small": [OPEN.name], "commercial": {HOSTED.name: "Hazel"}, "absent": ["Nobody-1B"]}
    (folder / "groups.json").write_text(json.dumps(given))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save", save_nothing)
        lines = make(
            folder,
            groups=str(folder / "groups.json"),
            scenes=[scenes[0]["scene_id"], scenes[3]["scene_id"]],
            command="python -m cctv.paper --x",
        )
    return folder, scenes, rows, lines


def test_the_index_lists_every_file_and_the_settings(made):
    folder, *_ = made
    out = folder / "out"
    text = (out / "README.md").read_text()
    linked = set(re.findall(r"\]\(([^)]+)\)", text))
    there = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert linked == there - {"README.md", "metrics.json", "tables/all.tex"}
    assert "```\npython -m cctv.paper --x\n```" in text
    assert "20 replicates of whole scenes, seed 0" in text
    assert "plug-in values" in text
    stems = {name.split("/")[1].rsplit(".", 1)[0] for name in linked if "figures/" in name}
    assert stems == {
        "figure_03_sources", "figure_05_failures", "figure_06_radar_all", "figure_07_language",
        "figure_11_methods", "figure_12-14_1_small", "figure_12-14_2_commercial",
        "figure_15_1_Birch3-VL-2B", "figure_16-18_1_sim0000", "figure_16-18_2_sim0003",
    }  # fmt: skip
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["bootstrap"] == {"replicates": 20, "seed": 0, "unit": "scene"}
    assert len(metrics["systems"]) == 5


def test_what_can_not_be_made_is_said_once_each(made):
    folder, _, _, lines = made
    assert lines[0] == f"{folder}/groups.json names 'Nobody-1B', of which there are no rows"
    told = [line.removeprefix("not made: ") for line in lines if line.startswith("not made: ")]
    assert told[0] == "figure 15 of Hazel: no complete quadruple has margins"
    assert told[1].startswith("frames of scene sim0000: v-: ")
    assert "v+" not in told[1]
    assert re.match(r"frames of scene sim0003: v\+: .*no such video file; v-: ", told[2])
    assert len(told) == 3
    text = (folder / "out" / "README.md").read_text()
    assert all(f"- {paper_tables.marked(line)}\n" in text for line in told)
    assert lines[-1].startswith("5 tables and 10 figures in ")


def test_tables_show_names_and_groups_of_the_file(made):
    text = (made[0] / "out/tables/table1_main.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in text[1:]] == [
        ["small", "Birch3-VL", "2B"],
        ["commercial", "Hazel", ""],
    ]
    text = (made[0] / "out/tables/table3_decoding.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in text[1:]] == ["base", "vcd", "tcd", "c_tcd"]


def system(model, method="base", alpha=0.0, run=""):
    return {"model": model, "run": run, "method": method, "alpha": alpha}


def test_alpha_of_a_method():
    systems = [system("a"), *(system("a", "tcd", x) for x in (0.0, 0.5, 1.0))]
    systems += [system("a", "vcd", x) for x in (0.0, 0.25, 2.0)]
    (model,), notes = groups.models(systems, groups=None, alpha=None)
    shown = {method: s["alpha"] for method, s in model.systems.items()}
    assert shown == {"base": 0.0, "vcd": 0.25, "tcd": 1.0}
    assert notes == [
        "a, VCD is shown at α = 0.25; also run at 0, 2",
        "a, TCD is shown at α = 1; also run at 0, 0.5",
    ]
    (model,), notes = groups.models(systems, groups=None, alpha=0.5)
    assert {method: s["alpha"] for method, s in model.systems.items()} == {"base": 0.0, "tcd": 0.5}
    assert notes[0] == "a, VCD is not shown; also run at 0, 0.25, 2"
    with pytest.raises(UserError, match=r"--alpha=3: no contrastive method was run at it"):
        groups.models(systems, groups=None, alpha=3.0)


def test_runs_of_a_model_are_models():
    systems = [system("b"), system("a", run="x"), system("a", run="y"), system("c", "tcd", 1.0)]
    models, notes = groups.models(systems, groups=None, alpha=None)
    assert [m.name for m in models] == ["a [x]", "a [y]", "b", "c"]
    assert {m.group for m in models} == {groups.ALL}
    assert notes == ["c has no base run: only methods are shown of it"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object of group: models"),
        ('{"g": "a"}', "group 'g' must be a list of models"),
        ('{"g": [1]}', "group 'g' must be a list of models"),
        ('{"g": {"a": ""}}', "group 'g' must be a list of models"),
        ('{"g": ["a"]}', "model 'b' of the rows is in no group"),
        ('{"g": []}', "model 'a' of the rows is in no group (nor are 1 more)"),
        ('{"g": ["a", "b"], "h": ["a"]}', "model 'a' is in two groups"),
        ('{"g": {"a": "x", "b": "x"}}', "two models are called 'x'"),
    ],
)
def test_wrong_groups_are_one_line(tmp_path, text, words):
    path = tmp_path / "groups.json"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(words)) as error:
        groups.models([system("a"), system("b")], groups=str(path), alpha=None)
    assert str(path) in str(error.value)


def test_groups_that_are_not_there(tmp_path):
    with pytest.raises(OSError, match=r"can't read .*no\.json"):
        groups.models([system("a")], groups=str(tmp_path / "no.json"), alpha=None)


def test_wrong_use_is_one_line(made, tmp_path):
    folder, *_ = made
    with pytest.raises(UserError, match=r"--scenes: 'nowhere' is not annotated"):
        make(folder, scenes=["nowhere"])
    with pytest.raises(UserError, match=r"give --annotations=DIR"):
        make(folder, annotations=None)
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(UserError, match="no prediction rows"):
        make(tmp_path, annotations=str(folder))
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match="no prediction file matches"):
        make(tmp_path, annotations=str(folder))
    (tmp_path / "predictions-00000-of-00001.jsonl").write_text((folder / "rows.jsonl").read_text())
    with pytest.raises(UserError, match=r"no config.json names the data; give --annotations"):
        paper.make([str(tmp_path)], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_not_written(made, tmp_path):
    folder, *_ = made
    for name in ("README.md", "report.html", "config.json"):  # notes, and what a run leaves
        (tmp_path / name).mkdir()
        for file in (name, "metrics.json"):
            (tmp_path / name / file).write_text("mine")
        with pytest.raises(UserError, match="holds something else"):
            make(folder, out=tmp_path / name)
        assert {p.name for p in (tmp_path / name).iterdir()} == {name, "metrics.json"}
        assert (tmp_path / name / "metrics.json").read_text() == "mine"
    with pytest.raises(UserError, match="is a file: --out needs a folder"):
        make(folder, out=folder / "rows.jsonl")
    # A folder of this command, finished or not, is accepted: the next complaint is another.
    (tmp_path / "half" / "tables").mkdir(parents=True)
    for known in (tmp_path / "half", folder / "out"):
        with pytest.raises(UserError, match="'nowhere' is not annotated"):
            make(folder, out=known, scenes=["nowhere"])


def test_only_a_contrastive_method_of_one_scene(tmp_path, monkeypatch):
    """No base run, one scene, two categories: all that needs more is said to be left out."""
    monkeypatch.setattr(figures, "save", save_nothing)
    write(tmp_path, [OPEN], 1, keep=lambda row: row["method"] == "c_tcd")
    lines = make(tmp_path)
    told = "\n".join(lines)
    for words in (
        "Birch3-VL-2B has no base run: only methods are shown of it",
        "not made: Table 1: no model has rows of a base run",
        "not made: Table 2: no model",
        "not made: Failure modes",
        "not made: Table 3: no model has rows of more than one method",
        "not made: figures 5, 6, 12-14: no model has rows of a base run",
        "not made: figure 11: no model has rows of more than one method",
        "not made: figure 15 of Birch3-VL-2B: 1 scenes are too few",
        "1 tables and 3 figures in",
    ):
        assert words in told
    assert "pdflatex" not in (tmp_path / "out/tables/all.tex").read_text()


def test_few_categories_have_no_radar(tmp_path, monkeypatch):
    monkeypatch.setattr(paper._Folder, "figure", lambda *_: None)
    model = paper_rows.world().models[0]
    kept = {c: v for c, v in model.base["by_category"].items() if c in ("event", "causal")}
    folder = paper._Folder(path=tmp_path)
    paper._base_figures(
        folder, [model._replace(systems={"base": model.base | {"by_category": kept}})]
    )
    assert folder.not_made == [
        "figures 6, 12-14: a radar needs three categories with complete quadruples, there are 2 "
        "(causal, event)"
    ]


def test_frames_at_the_moments_and_durations(made):
    folder, scenes, *_ = made
    dataset = schema.load(folder)
    first, second = dataset.scenes[:2]
    one, two = moments.frames(first, dataset)
    assert [frame.title for frame in one.frames] == [
        "first 0.00 s", "branch 1.00 s", "contact (on v+) 2.00 s", "last 4.00 s",
    ]  # fmt: skip
    grey = [float(frame.image.mean()) for frame in one.frames]
    assert grey == pytest.approx([0, 50, 100, 200], abs=4)
    assert (two.frames, "no such video file" in two.note) == ([], True)
    plain = dataclasses.replace(first, split_time=None, segments={})
    spread, _ = moments.frames(plain, dataset)
    assert [f.title for f in spread.frames] == ["0.00 s", "1.50 s", "2.50 s", "4.00 s"]
    late = dataclasses.replace(plain, split_time=99.0)
    assert len(moments.frames(late, dataset)[0].frames) == 4
    assert moments.duration(first, dataset) == scenes[0]["segments"]["contrastive"][1]
    assert moments.duration(plain, dataset) == pytest.approx(4.5)
    assert moments.duration(dataclasses.replace(second, segments={}), dataset) is None


def questions_of(scenes):
    return {s["scene_id"]: [(q["pair_id"], q["category"]) for q in s["questions"]] for s in scenes}


def test_curves_are_the_answers_recomputed_at_each_alpha(made):
    """QuadAcc of C-TCD from base margins by a plain loop at a few α, against what is drawn."""
    _, scenes, rows, _ = made
    mine = [r for r in rows if r["model"] == OPEN.name]
    base = {(r["pair_id"], r["video"], r["question"]): r for r in mine if r["method"] == "base"}
    checked = [check(r) for r in mine]
    for kept, assumed in ((checked, False), ([r for r in checked if r["method"] == "base"], True)):
        drawn = paper_curves.figure(kept, questions_of(scenes), title="M", replicates=5, seed=0)
        assert "all scenes: a picture, not an estimate" in drawn.get_suptitle()
        assert drawn.get_suptitle().startswith("M\n")
        assert (paper_curves.ASSUMED in drawn.get_suptitle()) == assumed
        titles = [axis.get_title() for axis in drawn.axes]
        assert titles == [*figures.PANELS.values(), "yes rate (gold: 25)"]
        axis = drawn.axes[titles.index("QuadAcc")]
        (line,) = [x for x in axis.get_lines() if x.get_color() == figures.COLOURS["c_tcd"]
                   and x.get_drawstyle() == "steps-post" and x.get_linewidth() == 1.5]  # fmt: skip
        x, y = line.get_xdata(), line.get_ydata()
        for alpha in (0.1, 0.4, 0.77, 1.2):
            right = 0
            pairs = {key[0] for key in base}
            for pair in pairs:
                answers = []
                for shown, question in CELLS:
                    other = {"positive": "negative", "negative": "positive"}[shown]
                    m, c = (base[pair, v, question]["margin"] for v in (shown, other))
                    answers.append((1 + alpha) * m - alpha * c > 0)
                right += answers == [True, False, False, False]
            value = y[np.searchsorted(x, alpha, side="right") - 1]
            assert value == pytest.approx(100 * right / len(pairs))


def test_rows_without_margins_have_no_curve(made):
    _, scenes, rows, _ = made
    hosted = [r for r in rows if r["model"] == HOSTED.name]
    with pytest.raises(UserError, match="no complete quadruple has margins"):
        paper_curves.curves(hosted, questions_of(scenes))


def test_scenes_are_chosen_by_a_rule():
    def row(scene, label, video="positive", question="positive"):
        return {"scene_id": scene, "video": video, "question": question, "label": label,
                "status": "ok"}  # fmt: skip

    rows = [row("b", 1), row("a", 1), row("c", 0), row("d", 1), row("d", 1, "negative")]
    assert paper.choose_scenes({"m": rows}) == {
        "a": "most right answers", "c": "fewest right answers", "d": "median of right answers",
    }  # fmt: skip
    assert paper.choose_scenes({"m": rows[:1]}) == {"b": "most right answers"}


def test_a_run_folder_names_its_data(finished, tmp_path, monkeypatch):
    """No --annotations: scenes, videos and rows are the run's."""
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, stem: drawn.append((figure, stem.name)))
    lines = paper.make([str(finished)], out=tmp_path / "out", replicates=5)
    assert not [line for line in lines if "frames" in line]
    sheets = [figure for figure, name in drawn if name.startswith("figure_16-18")]
    assert len(sheets) == 2
    assert [len([a for a in sheet.axes if a.images]) for sheet in sheets] == [8, 8]
    assert f"{len(drawn)} figures in" in lines[-1]


def test_slugs():
    assert paper.slug("Qwen/Qwen3-VL 2.5") == "Qwen-Qwen3-VL-2-5"
    assert paper.slug("../..") == "unnamed"
    assert paper.slug("事故") == "unnamed"
    assert len(paper.slug("x" * 200)) == 60
