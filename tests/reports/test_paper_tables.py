"""The paper's tables: every number is that of metrics.json, the best of a group is bold."""

import copy
import csv
import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import paper_rows
import pytest

from cctv.metrics import audit
from cctv.reports import paper_data
from cctv.reports import paper_tables as tables

PAPER = Path(__file__).parents[2] / "experiments/paper_tables"
MAKERS = {
    "table1_main": tables.main_table,
    "table2_sensitivity": tables.sensitivity_table,
    "failure_modes": tables.failure_table,
    "table3_decoding": tables.method_table,
}
ODD = 'a|b_c*d`<e>&f%g$h#i{j}k~l^m\\n"o" ±−–…αβ×’ é 中文'


@pytest.fixture(scope="module")
def world():
    return paper_rows.world()


def read_csv(table):
    return list(csv.DictReader(io.StringIO(tables.as_csv(table))))


def systems_of(world, table):
    """The entry of metrics.json of each row of a table, found by what its CSV says."""
    by_name = {(s["model"], s["method"]): s for s in world.metrics["systems"]}
    return [
        by_name["-".join(filter(None, [r["model"], r.get("size")])), r.get("method", "base")]
        for r in read_csv(table)
    ]


def markdown_rows(table):
    lines = [line for line in tables.as_markdown(table).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return [line for line in cells if any(line[1:])]  # not the names of groups


def latex_rows(table):
    body = tables.as_latex(table).split("\\midrule")[1].split("\\bottomrule")[0]
    lines = [line.removesuffix(" \\\\") for line in body.strip().splitlines()]
    return [line.split(" & ") for line in lines if " & " in line]


@pytest.mark.parametrize("stem", MAKERS)
def test_every_number_is_that_of_metrics_json(world, stem):
    table = MAKERS[stem](world.models)
    assert table.stem == stem
    systems = systems_of(world, table)
    expected = [s for s in world.metrics["systems"]
                if stem == "table3_decoding" or s["method"] == "base"]  # fmt: skip
    if stem == "table3_decoding":
        several = Counter(s["model"] for s in expected)
        expected = [s for s in expected if several[s["model"]] > 1]
    assert Counter(map(id, systems)) == Counter(map(id, expected))
    keys = [key for key, *_ in table.columns]
    n_labels = len(table.labels)
    lines = zip(systems, read_csv(table), markdown_rows(table), latex_rows(table), strict=True)
    for system, record, markdown, latex in lines:
        entries = [system["metrics"][key] for key in keys]
        texts = [(f"{e['mean']:.2f}", f"{e['half_width']:.2f}") for e in entries]
        assert [(record[k], record[f"{k}_half_width"]) for k in keys] == texts
        plain = [cell.replace("**", "") for cell in markdown[n_labels:]]
        assert plain == [f"{mean} ± {half}" for mean, half in texts]
        numbers = [re.findall(r"\d+\.\d+", cell) for cell in latex[n_labels:]]
        assert numbers == [list(pair) for pair in texts]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_columns_are_those_of_the_papers_tables(world, number):
    with open(PAPER / f"table{number}.csv") as file:
        header = next(csv.reader(file))
    make = (tables.main_table, tables.sensitivity_table, tables.method_table)[number - 1]
    own = tables.as_csv(make(world.models)).splitlines()[0].split(",")
    assert [name for name in own if name in header] == header
    more = {name for name in own if name not in header}
    assert more <= {"group", "yes_rate"} | {name for name in own if name.endswith("_half_width")}
    if number == 1:
        assert own == header


def test_csv_is_what_the_audit_reads_and_finds_possible(world, tmp_path):
    paths = []
    for make in (tables.main_table, tables.sensitivity_table):
        table = make(world.models[:4])
        paths.append(tmp_path / f"{table.stem}.csv")
        paths[-1].write_text(tables.as_csv(table))
    rows, _ = audit.read(paths)
    assert len(rows) == 4
    # Of few scenes the mean MCCScore is far from the MCCScore of the means.
    linear = [row._replace(printed=tuple(p for p in row.printed if p[0] != "mcc_score"))
              for row in rows]  # fmt: skip
    assert not [row.name for row in linear if audit.audit(row).why]


def bold_by_plain_loop(table):
    """(row, column) whose printed number is the highest of its group, from the CSV."""
    records, out = read_csv(table), set()
    for c, (key, _, wanted) in enumerate(table.columns):
        for r, record in enumerate(records):
            group = [x[key] for x in records if x["group"] == record["group"] and x[key]]
            best = record[key] and all(float(record[key]) >= float(other) for other in group)
            if wanted and len(group) > 1 and best:
                out.add((r, c))
    return out


def bold_in_text(rows, mark, n_labels):
    return {
        (r, c) for r, row in enumerate(rows) for c, cell in enumerate(row[n_labels:])
        if cell.startswith(mark)
    }  # fmt: skip


@pytest.mark.parametrize("stem", MAKERS)
def test_bold_is_the_best_of_each_group(world, stem):
    table = MAKERS[stem](world.models)
    expected = bold_by_plain_loop(table)
    assert tables.bold_cells(table) == expected
    assert bool(expected) == (stem != "failure_modes")
    assert not any(table.columns[c][0] == "yes_rate" for _, c in expected)
    n = len(table.labels)
    assert bold_in_text(markdown_rows(table), "**", n) == expected
    assert bold_in_text(latex_rows(table), "\\textbf", n) == expected


def with_means(model, group, name, **means):
    """A model whose base entries have other means; None is undefined."""
    base = copy.deepcopy(model.base)
    for key, mean in means.items():
        base["metrics"][key]["mean"] = mean
        if mean is None:
            base["metrics"][key] |= {"value": None, "half_width": None, "low": None, "high": None}
    return tables.Model(group, name, {"base": base})


def test_ties_as_printed_are_all_bold_and_undefined_is_not(world):
    one = world.models[0]
    models = [
        with_means(one, "g", "A", quad_acc=12.341, ba_acc=50.0),
        with_means(one, "g", "B", quad_acc=12.344, ba_acc=None),
        with_means(one, "g", "C", quad_acc=12.334, ba_acc=49.0),
        with_means(one, "alone", "D", quad_acc=99.0, ba_acc=99.0),
    ]
    table = tables.main_table(models)
    keys = [key for key, *_ in table.columns]
    bold = tables.bold_cells(table)
    assert {r for r, c in bold if keys[c] == "quad_acc"} == {0, 1}
    assert {r for r, c in bold if keys[c] == "ba_acc"} == {0}
    undefined = keys.index("ba_acc") + len(table.labels)
    assert markdown_rows(table)[1][undefined] == "–"
    assert latex_rows(table)[1][undefined] == "--"
    assert read_csv(table)[1]["ba_acc"] == read_csv(table)[1]["ba_acc_half_width"] == ""


def test_notes_say_the_strength_the_pairing_the_yes_rate_and_what_is_incomplete(world):
    table = tables.method_table(world.models)
    assert "Contrast strength α = 1." in table.notes
    assert tables.PAIRING in table.notes
    assert any("yes rate" in note for note in table.notes)
    model = next(m for m in world.models if "c_tcd" in m.systems)
    other = copy.deepcopy(model.systems["tcd"]) | {"alpha": 0.5, "n_incomplete": 3}
    changed = model._replace(systems={"base": model.base, "tcd": other})
    notes = tables.method_table([model, changed]).notes
    assert any("TCD 0.5" in note and "C-TCD 1" in note for note in notes)
    assert any(f"{model.name}, TCD: 3 of" in note for note in notes)
    alone = tables.method_table([changed])
    assert tables.PAIRING not in alone.notes


def test_nothing_to_show_is_an_empty_table(world):
    assert not tables.method_table([m for m in world.models if len(m.systems) == 1]).rows
    assert not tables.main_table([]).rows


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Qwen3-VL-2B", ("Qwen3-VL", "2B")),
        ("InternVL3.5 0.5B", ("InternVL3.5", "0.5B")),
        ("Qwen3-VL-30B-A3B", ("Qwen3-VL", "30B-A3B")),
        ("GPT-5-mini", ("GPT-5-mini", "")),
        ("2B", ("2B", "")),
        ("Qwen/Qwen3-VL-2B-Instruct", ("Qwen/Qwen3-VL-2B-Instruct", "")),
    ],
)
def test_the_size_at_the_end_of_a_name_is_a_column(name, parts):
    assert tables.split_size(name) == parts


def all_tables(world):
    odd = [m._replace(name=f"{m.name} {ODD}", group=ODD) for m in world.models[:2]]
    models = [*odd, *world.models[2:]]
    return [make(models) for make in MAKERS.values()] + [
        paper_data.statistics_table(paper_rows.facts(world.scenes))
    ]


def check_latex(text, n_columns):
    """Braces and environments close in order; every line of the table has all columns; nothing that
    pdflatex would stop at."""
    assert text.isascii() or not re.search(r"[^\x00-\xff]", text)
    bare = re.sub(r"\\[&%$#_{}\\]", "", text)
    depth = 0
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    math_free = re.sub(r"\$[^$]*\$", "", bare)
    assert not re.search(r"[#_^~]", re.sub(r"\\label{[^}]*}", "", math_free))
    assert "%" not in math_free.replace("{!}{%", "")
    opened = []
    for kind, name in re.findall(r"\\(begin|end){(\w+\*?)}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    lines = [line for line in re.sub(r"\\[&%]", "", text).splitlines() if line.endswith("\\\\")]
    assert len(lines) > 1
    for line in lines:
        spans = [int(n) for n in re.findall(r"\\multicolumn{(\d+)}", line)]
        assert line.count("&") + 1 + sum(spans) - len(spans) == n_columns


def test_latex_is_sound_whatever_the_names(world):
    for table in all_tables(world):
        n_columns = len(table.labels) + len(table.columns)
        text = tables.as_latex(table)
        check_latex(text, n_columns)
        assert f"\\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}" in text
    assert "U+4E2D" in tables.as_latex(tables.main_table(
        [world.models[0]._replace(name=ODD)]))  # fmt: skip
    document = tables.latex_document([table.stem for table in all_tables(world)])
    for name in ("booktabs", "graphicx", "fontenc", "table1_main.tex", "data_statistics.tex"):
        assert name in document


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no TeX on this machine")
def test_latex_compiles(world, tmp_path):
    found = all_tables(world)
    for table in found:
        (tmp_path / f"{table.stem}.tex").write_text(tables.as_latex(table))
    (tmp_path / "all.tex").write_text(tables.latex_document([table.stem for table in found]))
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull \\hbox" not in done.stdout


def test_markdown_escapes_names(world):
    model = world.models[0]._replace(name="a|b_c*d`<e>")
    line = tables.as_markdown(tables.main_table([model])).splitlines()[4]
    assert line.startswith("| a\\|b\\_c\\*d\\`\\<e> |")


def test_statistics_by_a_plain_count(world):
    scenes = paper_rows.facts(world.scenes)
    scenes[0]["duration"] = None
    table = paper_data.statistics_table(scenes)
    found = {(r.group, r.labels[0]): r.entries for r in table.rows}
    pairs = [pair for s in scenes for pair in s["pairs"]]
    assert found["all", "scenes"][0] == str(len(scenes))
    assert found["all", "question pairs"][0] == str(len(pairs))
    assert found["all", "instances"][0] == str(4 * len(pairs))
    durations = [s["duration"] for s in scenes[1:]]
    mean = sum(durations) / len(durations)
    assert found["all", "clip duration, s: mean"][0] == f"{mean:.2f}"
    assert found["all", "clips of known duration"][0] == str(len(durations))
    lengths = [len(p[side].split()) for p in pairs for side in ("positive", "negative")]
    assert found["all", "words a question: mean"][0] == f"{sum(lengths) / len(lengths):.2f}"
    for title, names in (
        ("scenes by anomaly type", [s["anomaly_type"] for s in scenes]),
        ("scenes by source", [s["source"] for s in scenes]),
        ("scenes by view", [s["view"] for s in scenes]),
        ("question pairs by category", [p["category"] for p in pairs]),
    ):
        counts = {name: entries for (group, name), entries in found.items() if group == title}
        assert {n: int(e[0]) for n, e in counts.items()} == dict(Counter(names))
        shares = {n: float(e[1]) for n, e in counts.items()}
        assert shares == {n: round(100 * c / len(names), 2) for n, c in Counter(names).items()}
