"""The tables of a report: the paper's columns, undefined values, and what must stand beside."""

import random

from cctv.metrics.evaluate import evaluate
from cctv.metrics.quadruples import CELLS
from cctv.reports import tables

QUESTIONS = {f"s{i}": [("a", "event"), ("b", "causal")] for i in range(30)}


def rows_of(method="base", *, alpha=0.0, scenes=30, always=None, run="", seed=0, model="m_1"):
    rng = random.Random(seed)
    return [
        {"scene_id": f"s{i}", "pair_id": p, "video": video, "question": question}
        | {"model": model, "run": run, "method": method, "alpha": alpha, "status": "ok"}
        | {"label": rng.randint(0, 1) if always is None else always}
        for i in range(scenes)
        for p in "ab"
        for video, question in CELLS
    ]


def sections(rows):
    return tables.sections(*evaluate(rows, QUESTIONS, replicates=40))


def by_title(parts, start):
    (part,) = [part for part in parts if part.title.startswith(start)]
    return part


def test_main_table_has_the_papers_columns_and_the_yes_rate():
    rows = rows_of() + rows_of("c_tcd", alpha=1.0, seed=1)
    metrics = evaluate(rows, QUESTIONS, replicates=40).metrics
    main = sections(rows)[0]
    assert " ".join(main.header) == (
        "system Contr@q+ Reject@q- Overall Contr@v+ Reject@v- Overall "
        "BaAcc MCCScore QuadAcc yes rate"
    )
    assert [row[0] for row in main.rows] == ["m_1 base", "m_1 c_tcd α=1"]
    entry = metrics["systems"][1]["metrics"]["quad_acc"]
    assert main.rows[1][9] == f"{entry['mean']:.2f} ± {entry['half_width']:.2f}"


def test_undefined_is_a_dash_never_zero():
    parts = sections(rows_of(always=0))
    assert (
        by_title(parts, "Sensitivity").rows[0][1:]
        == ["0.00 ± 0.00"] * 2 + ["–"] + ["0.00 ± 0.00"] * 3
    )
    perfect = [
        row | {"label": int(row["video"] == row["question"] == "positive")} for row in rows_of()
    ]
    assert by_title(sections(perfect), "Failure").rows[0][1:] == ["–"] * 5 + ["25.00 ± 0.00"]


def test_notes_name_the_pairing_the_yes_rate_and_a_missing_base():
    def notes(rows):
        return " ".join(by_title(sections(rows), "Notes").lines)

    plain, paired = notes(rows_of()), notes(rows_of() + rows_of("c_tcd", alpha=1.0))
    assert "pairing at test time" in paired
    assert "yes rate" in paired
    assert "no base run" not in paired
    assert "pairing" not in plain
    assert "yes rate" not in plain
    assert "m_1 vcd α=0.5 has no base run beside it" in notes(rows_of("vcd", alpha=0.5))


def test_differences_stand_beside_a_contrastive_system():
    parts = sections(rows_of() + rows_of("c_tcd", alpha=1.0) + rows_of("vcd", alpha=1.0, always=0))
    table = by_title(parts, "Paired differences")
    assert [row[0] for row in table.rows] == ["m_1 vcd α=1 − base", "m_1 c_tcd α=1 − base"]
    assert set(table.rows[1][1:]) == {"+0.00 [+0.00, +0.00]"}
    assert not [part for part in sections(rows_of()) if part.title.startswith("Paired")]


def test_incomplete_quadruples_are_listed_in_full_in_the_report_and_counted_in_the_terminal():
    parts = sections(rows_of(scenes=15))
    listed = by_title(parts, "Incomplete quadruples of m_1 base: 30")
    assert len(listed.lines) == 30
    assert listed.lines[0] == (
        "s15 a: (v+, q+) no row, (v+, q-) no row, (v-, q+) no row, (v-, q-) no row"
    )
    assert by_title(parts, "What was").rows[0][:5] == ["m_1 base", "30", "60", "30", "50.00 %"]
    assert tables.as_markdown(parts).count("no row,") == 30 * 3
    text = tables.as_text(parts)
    assert text.count("no row,") == 20 * 3
    assert "… and 10 more" in text


def test_the_cards_numbers_are_shown_as_the_cards():
    table = by_title(sections(rows_of(always=1)), "As an evaluation card")
    assert table.rows == [["m_1 base", "0.00", "100.00"]]


def test_terminal_columns_are_aligned_also_for_wide_letters():
    table = tables.Table("t", ["system", "x"], [["模型", "1.00"], ["m", "100.00"]])
    assert tables.as_text([table]) == "t\nsystem       x\n模型      1.00\nm       100.00\n"


def test_markdown_escapes_what_a_name_may_hold():
    table = tables.Table("t", ["system", "x"], [["a|b_*<i>", "1"]])
    assert r"| a\|b\_\*\<i> | 1 |" in tables.as_markdown([table]).splitlines()


def test_runs_are_told_apart():
    assert tables.label_of("org/m|first|vcd|0.5") == "org/m [first] vcd α=0.5"
    assert tables.label_of("a|b||base|0.0") == "a|b base"


def test_no_systems_and_all_incomplete_are_tables_too():
    assert "Consistency" in tables.as_text(sections([]))
    broken = [row | {"status": "video_error", "label": None} for row in rows_of()]
    assert set(sections(broken)[0].rows[0][1:]) == {"–"}
