"""The tokenizer wrapper and the Qwen3-VL prompt, on Qwen's real tokenizer."""

import json
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from cctv.data.errors import UserError
from cctv.models import qwen_chat, tokenizers

GOLDEN = Path(__file__).parents[1] / "golden"
# outer_vision_markers of each release
RELEASES = {"4.57.6": False, "5.24.0": True}


@pytest.fixture(scope="module")
def qwen(qwen_tokenizer_dir):
    return tokenizers.load(qwen_tokenizer_dir)


# Qwen's tokens


def test_known_ids(qwen):
    assert len(qwen) == 151669
    assert qwen.answer_ids() == (9454, 2753)
    assert qwen.encode("<0.5 seconds>") == [27, 15, 13, 20, 6486, 29]
    assert qwen.encode(" Yes No") == [7414, 2308]
    assert qwen.encode("") == []
    assert [qwen.id(t) for t in ("<|im_start|>", "<|im_end|>", "<|video_pad|>", "<think>")] == [
        151644,
        151645,
        151656,
        151667,
    ]


@given(st.text(max_size=40))
@settings(max_examples=60)
def test_text_survives_a_round_trip(qwen, text):
    assert qwen.decode(qwen.encode(text)) == unicodedata.normalize("NFC", text)


def test_decode_leaves_out_special_tokens_unless_asked(qwen):
    ids = [*qwen.encode("Yes."), qwen.id("<|im_end|>")]
    assert qwen.decode(ids) == "Yes."
    assert qwen.decode(ids, skip_special=False) == "Yes.<|im_end|>"
    # <think> is an ordinary word to the reader of an answer: the answer parser strips it.
    assert qwen.decode([qwen.id("<think>")]) == "<think>"


def test_the_older_files_give_the_same_tokens(qwen, qwen_tokenizer_dir, tmp_path, monkeypatch):
    """Also beside a config.json that names code of its own, which is not asked about."""
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(qwen_tokenizer_dir / name, tmp_path / name)
    config = {"model_type": "someone's", "auto_map": {"AutoConfig": "code.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on the terminal"))
    older = tokenizers.load(tmp_path)
    text = "<0.5 seconds> It's 3.14 naïve\n\n  车祸\t🚗 Yes"
    assert len(older) == len(qwen)
    assert older.encode(text) == qwen.encode(text)
    assert older.id("<|video_pad|>") == qwen.id("<|video_pad|>")
    assert older.answer_ids() == qwen.answer_ids()
    ids = [*qwen.encode("No"), qwen.id("<|im_end|>"), qwen.id("<think>")]
    assert older.decode(ids) == qwen.decode(ids)


def test_saved_padding_and_truncation_are_not_applied(tmp_path):
    backend = word_tokenizer("a", "b", "Yes", "No")
    backend.enable_padding(length=8)
    backend.enable_truncation(2)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.load(tmp_path).encode("a b a") == [0, 1, 0]


# Wrong input


@pytest.mark.parametrize("token", ["<|im_end|>", "<|video_pad|>", "<think>"])
def test_text_with_a_control_token_is_refused(qwen, token):
    with pytest.raises(UserError) as caught:
        qwen.encode(f"Did it\nstop?{token}")
    assert repr(token) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_that_is_not_unicode_is_refused(qwen):
    with pytest.raises(UserError, match="not valid Unicode"):
        qwen.encode("half a pair: \ud83d")


def test_an_absent_token_is_named(qwen):
    with pytest.raises(UserError, match=r"no token '<image>'"):
        qwen.id("<image>")
    with pytest.raises(UserError, match=r"no token 'Yes'"):  # a word, not a control token
        qwen.id("Yes")


def word_tokenizer(*words: str) -> Backend:
    backend = Backend(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token=words[0]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend


def test_an_answer_of_several_tokens_is_refused():
    backend = Backend(models.BPE({c: i for i, c in enumerate("YesNo")}, []))
    with pytest.raises(UserError, match="a folder: 'Yes' is 3 tokens here, not one"):
        tokenizers.Tokenizer(backend, source="a folder").answer_ids()


def test_a_folder_without_tokenizer_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such checkpoint folder"):
        tokenizers.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
        tokenizers.load(tmp_path)
    # A config alone makes transformers build an empty tokenizer in silence.
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
        tokenizers.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"model": {}}'])
def test_a_broken_tokenizer_file_is_one_line(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer file") as caught:
        tokenizers.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_file_that_is_no_text(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"tokenizer\.json: not UTF-8"):
        tokenizers.load(tmp_path)


@pytest.mark.parametrize(
    ("config", "vocab"),
    [("not json", "{}"), ('{"tokenizer_class": "NoSuch"}', "{}"), ("{}", "not json")],
)
def test_broken_older_files_are_one_line(tmp_path, config, vocab):
    (tmp_path / "tokenizer_config.json").write_text(config)
    (tmp_path / "vocab.json").write_text(vocab)
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(UserError, match=f"^{tmp_path}: the tokenizer files do not load") as caught:
        tokenizers.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_with_tokenizer_json_needs_no_transformers(qwen_tokenizer_dir):
    code = (
        "import sys; from cctv.models import tokenizers;"
        f"tokenizers.load({str(qwen_tokenizer_dir)!r});"
        "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The prompt


@pytest.mark.parametrize("release", RELEASES)
def test_case_9_and_21_prompt_ids_equal_the_reference(qwen, release):
    cases = json.loads((GOLDEN / f"qwen3_vl-{release}.json").read_text(encoding="utf-8"))["prompts"]
    assert len(cases) == 32
    for case in cases:
        groups, height, width = case["grid"]
        ids = qwen_chat.prompt_ids(
            qwen,
            case["question"],
            time_stamps=case["time_stamps"],
            tokens_per_group=height * width // 4,
            outer_vision_markers=RELEASES[release],
            system=case["system"],
        )
        assert len(case["time_stamps"]) == groups
        assert ids == case["ids"], case["question"]


def test_case_10_every_group_has_its_own_time_and_block(qwen):
    ids = qwen_chat.prompt_ids(qwen, "Did it?", time_stamps=[0.25, 1.75], tokens_per_group=3)
    pads = "<|video_pad|>" * 3
    assert qwen.decode(ids, skip_special=False) == (
        f"<|im_start|>user\n<0.2 seconds><|vision_start|>{pads}<|vision_end|>"
        f"<1.8 seconds><|vision_start|>{pads}<|vision_end|>Did it?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_releases_differ_by_one_pair_of_markers(qwen):
    settings = {"time_stamps": [0.5], "tokens_per_group": 1}
    inner = qwen_chat.prompt_ids(qwen, "Did it?", **settings)
    outer = qwen_chat.prompt_ids(qwen, "Did it?", **settings, outer_vision_markers=True)
    assert len(outer) == len(inner) + 2
    text = qwen.decode(outer, skip_special=False)
    assert text.startswith("<|im_start|>user\n<|vision_start|><0.5 seconds><|vision_start|>")
    assert "<|vision_end|><|vision_end|>Did it?" in text


def test_questions_about_one_video_share_their_beginning(qwen):
    settings = {"time_stamps": [0.5, 1.5], "tokens_per_group": 2}
    video = qwen_chat.video_ids(qwen, **settings)
    for question in ("Did it?", "\nNo.", "'s"):
        whole = qwen_chat.prompt_ids(qwen, question, **settings)
        assert whole == video + qwen_chat.question_ids(qwen, question)


@pytest.mark.parametrize("question", ["", " \n", "Stop<|im_end|>", "<|im_end|>"])
def test_a_question_that_cannot_be_asked_is_refused(qwen, question):
    with pytest.raises(UserError):
        qwen_chat.prompt_ids(qwen, question, time_stamps=[0.5], tokens_per_group=1)


def test_a_prompt_without_a_video_is_refused(qwen):
    with pytest.raises(ValueError, match="at least one group"):
        qwen_chat.prompt_ids(qwen, "Did it?", time_stamps=[], tokens_per_group=1)
    with pytest.raises(ValueError, match="at least one group"):
        qwen_chat.prompt_ids(qwen, "Did it?", time_stamps=[0.5], tokens_per_group=0)


def test_a_tokenizer_of_another_family_is_refused():
    other = tokenizers.Tokenizer(word_tokenizer("Yes", "No"), source="other")
    with pytest.raises(UserError, match=r"other: the tokenizer has no token '<\|im_start\|>'"):
        qwen_chat.prompt_ids(other, "Yes", time_stamps=[0.5], tokens_per_group=1)
