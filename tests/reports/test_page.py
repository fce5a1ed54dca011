"""report.md and report.html: all is there, nothing untrusted is markup, nothing is fetched."""

import os
import random
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from cctv.metrics.evaluate import evaluate
from cctv.metrics.quadruples import CELLS
from cctv.reports import page

CATEGORIES = ("event", "causal", "spatial")
GOLD = (1, 0, 0, 0)
SYSTEMS = (("base", 0.0), ("c_tcd", 1.0))
VOID = {"meta", "img", "br", "input", "link", "line"}


class Page(HTMLParser):
    """The tree, flattened: (tag, attributes, text inside) of every element; checks the nesting."""

    def __init__(self, text):
        super().__init__()
        self.all, self._open = [], []
        self.feed(text)
        self.close()
        assert not self._open, "unclosed tags"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        self.all.append([tag, dict(attrs), ""])
        if tag not in VOID:
            self._open.append(self.all[-1])

    def handle_startendtag(self, tag, attrs):
        self.all.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def find(self, tag, **wanted):
        return [
            (attrs, text)
            for name, attrs, text in self.all
            if name == tag and all(attrs.get(k.replace("_", "-")) == v for k, v in wanted.items())
        ]


def make_scenes(n=3, pairs=2):
    return [
        {"scene_id": f"s{i}", "view": "roadside", "anomaly_type": "t_bone", "source": "made"}
        | {"videos": {"positive": f"v/{i} +#?.mp4", "negative": f"v/{i}-.mp4"}}
        | {"strips": {"positive": f"figures/{i}.jpg", "negative": None}}
        | {
            "pairs": [
                {"pair_id": f"s{i}-{k}", "category": CATEGORIES[(i + k) % 3]}
                | {"positive": f"Is {i}-{k} so?", "negative": f"Is {i}-{k} not so?"}
                for k in range(pairs if isinstance(pairs, int) else pairs[i])
            ]
        }
        for i in range(n)
    ]


def make_rows(scenes, systems=SYSTEMS, seed=0):
    rng = random.Random(seed)
    rows = []
    for scene in scenes:
        for pair in scene["pairs"]:
            for method, alpha in systems:
                for video, question in CELLS:
                    margin = rng.gauss(0, 2)
                    row = {"scene_id": scene["scene_id"], "pair_id": pair["pair_id"]}
                    row |= {"video": video, "question": question, "model": "m/1", "run": ""}
                    row |= {"method": method, "alpha": alpha, "status": "ok", "margin": margin}
                    rows.append(row | {"label": int(margin > 0)})
                    rows[-1]["answer"] = "Yes" if margin > 0 else "No"
    return rows


def questions_of(scenes):
    return {s["scene_id"]: [(p["pair_id"], p["category"]) for p in s["pairs"]] for s in scenes}


def write(folder, scenes=None, rows=None, **options):
    scenes = make_scenes() if scenes is None else scenes
    rows = make_rows(scenes) if rows is None else rows
    given = {"title": "A run", "notes": ["It is untrained."], "settings": {}} | options
    page.write_report(
        folder,
        evaluation=evaluate(rows, questions_of(scenes), replicates=20),
        rows=rows,
        scenes=scenes,
        **given,
    )
    return (folder / "report.html").read_text()


def lines_of(html):
    """[(attributes, texts of the cells, classes of the cells)] of every answer line."""
    found, parser = [], Page(html)
    for tag, attrs, text in parser.all:
        if tag == "tr":
            found.append((attrs, [], []))
        elif tag == "td" and found:
            found[-1][1].append(" ".join(text.split()))
            found[-1][2].append(attrs.get("class"))
    return [line for line in found if "data-s" in line[0]]


def test_every_pair_system_answer_and_margin(tmp_path):
    scenes = make_scenes()
    rows = make_rows(scenes)
    html = write(tmp_path, scenes, rows)
    lines = lines_of(html)
    assert len(lines) == 3 * 2 * 2
    for n, (attrs, texts, classes) in enumerate(lines):
        four = rows[4 * n : 4 * n + 4]
        assert attrs["data-s"] == str(n % 2)
        for row, gold, text, kind in zip(four, GOLD, texts, classes):
            assert kind == ("right" if row["label"] == gold else "wrong")
            margin = f"{row['margin']:+.2f}".replace("-", "−")
            assert text == f"{'✓' if kind == 'right' else '✗'} {row['answer']} {margin}"
            assert f"margin {row['margin']!r}" in html
        right = [row["label"] for row in four] == list(GOLD)
        assert attrs["data-v"] == classes[4] == ("right" if right else "wrong")
        assert texts[4] == ("✓ right" if right else "✗ wrong")
    parser = Page(html)
    assert [a["id"] for a, _ in parser.find("details", **{"class": "scene"})] == ["s0", "s1", "s2"]
    text = parser.find("body")[0][1]
    for scene in scenes:
        for pair in scene["pairs"]:
            assert pair["positive"] in text
            assert pair["negative"] in text
    assert [a.get("data-c") for a, _ in parser.find("tbody") if "data-c" in a] == [
        pair["category"] for scene in scenes for pair in scene["pairs"]
    ]
    assert "It is untrained." in text


def test_tables_and_plots_hold_the_numbers_of_the_evaluation(tmp_path):
    scenes = make_scenes()
    rows = make_rows(scenes)
    html = write(tmp_path, scenes, rows, settings={"model": {"id": "m/1"}, "prompt": "a|b", "n": 2})
    markdown = (tmp_path / "report.md").read_text()
    assert markdown.startswith("# A run\n\n- It is untrained.\n")
    assert "- model.id: m/1\n- prompt: a\\|b\n- n: 2\n" in markdown
    parser = Page(html)
    text = parser.find("section", id="page:tables")[0][1]
    points = [attrs["x1"] for attrs, _ in parser.find("line", **{"class": "mean"})]
    for system in evaluate(rows, questions_of(scenes), replicates=20).metrics["systems"]:
        for key in ("quad_acc", "contr_q_pos", "ba_acc", "yes_rate"):
            entry = system["metrics"][key]
            assert f"{entry['mean']:.2f} ± {entry['half_width']:.2f}" in markdown
            assert f"{entry['mean']:.2f}± {entry['half_width']:.2f}" in text
            assert f"{entry['mean']}%" in points
            assert parser.find("line", x1=f"{entry['low']}%", x2=f"{entry['high']}%")
    assert len(points) == 10 * len(SYSTEMS)
    settings = parser.find("table", **{"class": "settings"})[0][1].split()
    assert settings == ["model.idm/1", "prompta|b", "n2"]


EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;{{ 7*7 }}"


def test_untrusted_text_is_never_markup(tmp_path):
    scenes = make_scenes(pairs=1)
    scene, pair = scenes[0], scenes[0]["pairs"][0]
    scene |= {"scene_id": EVIL, "view": EVIL, "anomaly_type": EVIL, "source": EVIL}
    scene["videos"] = {"positive": EVIL, "negative": "javascript:alert(1)"}
    pair |= {"pair_id": EVIL, "category": EVIL, "positive": EVIL, "negative": EVIL + "2"}
    rows = make_rows(scenes)
    for row in rows:
        row |= {"model": EVIL, "run": EVIL, "answer": EVIL, "label": None, "status": "unparsed"}
    html = write(
        tmp_path, scenes, rows, title=EVIL, notes=[EVIL], settings={EVIL: {EVIL: [EVIL, EVIL]}}
    )
    parser = Page(html)
    assert len(parser.find("script")) == 1
    assert not parser.find("img")
    assert not [a for _, attrs, _ in parser.all for a in attrs if a.startswith("on")]
    assert parser.find("details", id=EVIL)
    assert parser.find("tbody", data_c=EVIL)
    assert parser.find("h1")[0][1] == EVIL
    assert "49" not in parser.find("h1")[0][1]


def test_links_are_relative_encoded_and_only_to_files_that_are_there(tmp_path):
    workdir = tmp_path / "run"
    names = ["v/0 +#?.mp4", "../data/é%20.mp4", "figures/0.jpg", "javascript:x"]
    for name in names:
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    scenes = make_scenes()
    scenes[0]["videos"]["negative"] = "../data/é%20.mp4"
    scenes[1]["videos"] = {"positive": "javascript:x", "negative": None}
    html = write(workdir, scenes)
    parser = Page(html)
    sources = [attrs["src"] for attrs, _ in parser.find("video")]
    assert [unquote(s) for s in sources] == ["./" + n for n in (*names[:2], names[3])]
    assert {attrs["preload"] for attrs, _ in parser.find("video")} == {"none"}
    (image,) = parser.find("img")
    assert image[0]["src"] == "./figures/0.jpg"
    assert image[0]["loading"] == "lazy"
    for source in sources:
        parts = urlsplit(source)
        assert parts[:2] == parts[3:] == ("", ""), source
    text = parser.find("body")[0][1]
    assert "Frames not found: figures/1.jpg" in text
    assert "No video" in text


def test_missing_videos_are_named(tmp_path):
    html = write(tmp_path)
    parser = Page(html)
    assert not parser.find("video")
    missing = [text for attrs, text in parser.find("p", **{"class": "missing"})]
    assert "Video not found: v/0 +#?.mp4" in missing
    assert "Video not found: v/2-.mp4" in missing


def test_nothing_is_fetched_from_elsewhere(tmp_path):
    html = write(tmp_path)
    assert "//" not in re.sub(r"// .*", "", html)  # without the comments of the script
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|<link|<iframe|<base", html)


def test_incomplete_and_unparsed_are_shown(tmp_path):
    scenes = make_scenes(pairs=3)
    rows = make_rows(scenes, SYSTEMS[:1])
    for row, label in zip(rows[:4], GOLD):
        row |= {"label": label, "answer": "Yes" if label else "no."}
    rows[1] |= {"label": None, "answer": "It is " + "very " * 200 + "unclear", "status": "unparsed"}
    rows[6] |= {"label": None, "answer": None, "margin": None, "status": "video_missing"}
    del rows[11]
    html = write(tmp_path, scenes, rows)
    first, second, third, *_ = lines_of(html)
    assert first[0]["data-v"] == "wrong"
    assert first[2][:4] == ["right", "unparsed", "right", "right"]
    assert first[1][1].startswith("? unparsed ")
    assert "It is very very" in first[1][1]
    assert len(first[1][1]) < 100
    assert "no." not in first[1][2], "an answer that says no more than the word is not repeated"
    assert second[0]["data-v"] == third[0]["data-v"] == "incomplete"
    assert second[1][2] == "– video_missing"
    assert third[1][3] == "– no row"
    assert second[2][2] == third[2][3] == "failed"
    assert "base 0/3 right (2 incomplete)" in Page(html).find("details", id="s0")[0][1]
    listed = "s0 s0-1: (v-, q+) video\\_missing"
    assert listed in (tmp_path / "report.md").read_text()
    assert listed.replace("\\", "") in Page(html).find("section", id="page:tables")[0][1]


def test_a_longer_answer_and_the_contrast_are_kept(tmp_path):
    scenes = make_scenes(pairs=1)
    rows = make_rows(scenes, (("c_tcd", 0.5),))
    rows[0] |= {"answer": "Yes, it hit the car", "label": 1, "margin_contrast": -0.25}
    rows[0] |= {"alpha_exact_to": 3.5, "masked": True, "margin": -0.001}
    html = write(tmp_path, scenes, rows)
    line = lines_of(html)[0]
    assert line[1][0] == "✓ Yes −0.00 Yes, it hit the car"
    tips = [attrs.get("title") for attrs, _ in Page(html).find("td")]
    wanted = "margin -0.001; contrast -0.25; exact to α 3.5; masked; answer: Yes, it hit the car"
    assert wanted in tips


def test_several_models_keep_their_names(tmp_path):
    scenes = make_scenes()
    rows = make_rows(scenes)
    others = [row | {"model": "other"} for row in rows]
    options = Page(write(tmp_path, scenes, rows + others)).find("select", name="system")[0][1]
    for name in ("m/1 base", "m/1 c_tcd α=1", "other base", "other c_tcd α=1"):
        assert name in options


def test_equal_input_gives_equal_bytes(tmp_path):
    scenes = make_scenes()
    rows = make_rows(scenes)
    settings = {"b": 1, "a": {"c": None}}
    write(tmp_path, scenes, rows, settings=settings)
    first = [(tmp_path / f"report.{kind}").read_bytes() for kind in ("html", "md")]
    rows = random.Random(5).sample(rows, len(rows))
    write(tmp_path, scenes, rows, settings=settings)
    assert first == [(tmp_path / f"report.{kind}").read_bytes() for kind in ("html", "md")]
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.md"]


def test_text_that_utf8_cannot_hold(tmp_path):
    scenes = make_scenes(pairs=1)
    rows = make_rows(scenes)
    rows[0] |= {"answer": "\ud800 maybe", "label": None, "status": "unparsed"}
    scenes[0]["videos"]["positive"] = "v/\ud800.mp4"
    assert "? maybe" in write(tmp_path, scenes, rows)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(OSError, match=r"can't write .*report\.md"):
        write(tmp_path)
    assert os.listdir(tmp_path) == ["report.md"]


def test_rows_of_a_pair_that_is_not_given(tmp_path):
    scenes = make_scenes()
    rows = make_rows(scenes)
    found = evaluate(rows, questions_of(scenes), replicates=20)
    with pytest.raises(ValueError, match="scene 's1' pair 's1-0'"):
        page.write_report(
            tmp_path,
            title="A run",
            evaluation=found,
            rows=rows,
            scenes=scenes[:1],
            notes=[],
            settings={},
        )


def test_the_whole_benchmark_stays_a_few_megabytes(tmp_path):
    pairs = [6] * 251 + [5] * 54
    scenes = make_scenes(305, pairs=pairs)
    for scene in scenes:
        for pair in scene["pairs"]:
            pair["positive"] = pair["negative"] = "Did the red car enter the junction? " * 4
    rows = make_rows(scenes)
    assert len(rows) == 2 * 7104
    write(tmp_path, scenes, rows)
    assert (tmp_path / "report.html").stat().st_size < 6e6
