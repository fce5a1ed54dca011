"""Labels from answer texts: the protocol's examples, forms that models really write, properties."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctv.metrics.answers import parse_answer

YES = [
    "Yes",
    "yes",
    "YES.",
    " \t\nYes \n",
    "Yes!",
    "Yes?",
    "Yes;",
    "**Yes**",
    "__Yes__",
    "_yes_",
    "*Yes*.",
    "`Yes`",
    "# Yes",
    "> Yes",
    "- Yes",
    "```\nYes\n```",
    '"Yes"',
    "“Yes.”",
    "‘yes’",
    "«Yes»",
    "Ｙｅｓ",
    "ＹＥＳ．",
    "yes。",
    "\u3000Yes",
    "\ufeffYes",
    "\u200bYes",
    "Answer: Yes",
    "**Answer:** Yes",
    "Answer：Ｙｅｓ",
    "answer :\nyes",
    "Final answer: Yes, there is no doubt.",
    "Answer: **Yes**, because there is no doubt",
    '{"answer": "Yes"}',
    "yes, because there is no doubt",
    "Yes\nThere is no other car.",
    "Yes\r\nThere is no other car.",
    "Yes  \nno other car",
    "Yes\u2028no other car",
    "**Yes**\n\nThe car does no turn.",
    "- **Yes**, no doubt",
    "The answer is yes",
    "The answer is **Yes**.",
    "yes yes yes",
    "Not yes",
    "(Yes)",
    "\\boxed{Yes}",
    "<answer>Yes</answer>",
    "Yes<|im_end|>",
    "I know: yes",
    "Yes, nothing else",
    "<think>is it no? no.</think>Yes",
    "<think>\nNo, wait.\n</think>\n\n**Yes.**",
    "<THINK>no</THINK> yes",
    "<think></think>Yes",
    "<think>no</think><think>no</think>yes",
    "the prompt opened the block, no\n</think>\n\nYes",
]
NO = [
    "No",
    "no.",
    "NO!",
    "**No**",
    "Ｎｏ",
    "ＮＯ。",
    "Answer: No",
    "No the car stops",
    "No, yes would be wrong",
    "no\nyes",
    "No: yes is wrong",
    "no no",
    "There was no collision",
    "The answer is no, it stops",
    "<think>yes yes</think>no",
    "No, I know",
    "-no-",
]
NEITHER = [
    "",
    " ",
    "\n",
    "maybe",
    "Yes and no",
    "Yes/No",
    "No/Yes",
    "yes|no",
    "Yes or No",
    "Yes no",
    "I know nothing",
    "none of the above",
    "Yesterday",
    "Nope",
    "nothing",
    "know",
    "not",
    "north",
    "eyes",
    "Yes - no doubt",
    "yesno",
    "no-one was hit",
    "№ 5",
    "nó",
    "no\u0301",
    "n o",
    "Answer:",
    "**",
    "<think>Yes",
    "<think>",
    "<think>no, the car is… Yes",
    "Yes <think> but",
    "<think>yes</think>",
    "<think>Yes</think><think>",
    "The answer is yes, no doubt",
    "!!!!",
    "是",
]


@pytest.mark.parametrize("text", YES)
def test_yes(text):
    assert parse_answer(text) == "yes"


@pytest.mark.parametrize("text", NO)
def test_no(text):
    assert parse_answer(text) == "no"


@pytest.mark.parametrize("text", NEITHER)
def test_unparsed(text):
    assert parse_answer(text) is None


@given(st.text())
def test_any_text_has_a_label_and_case_does_not_matter(text):
    label = parse_answer(text)
    assert label in ("yes", "no", None)
    if text.isascii():
        assert parse_answer(text.upper()) == parse_answer(text.lower()) == label


@given(st.text(alphabet="abdfghijklmpqrtuvwxz ,.!?\n"), st.sampled_from(["yes", "no"]))
def test_one_word_among_others_decides_and_both_do_not(text, word):
    """Without the letters e, o, s, n the filler can't hold either word, nor a label."""
    assert parse_answer(text) is None
    assert parse_answer(f"{text} {word} {text}") == word
    assert parse_answer(f"x {text} yes {text} no {text}") is None


@given(st.text(), st.sampled_from(["yes", "no"]), st.sampled_from([*".,;:!?\n"]))
def test_a_leading_word_before_a_stop_decides_whatever_follows(text, word, stop):
    text = re.sub("(?i)think", "", text)
    assert parse_answer(f"{word.title()}{stop}{text}") == word


@given(st.text(), st.sampled_from(["yes", "no", "maybe"]))
def test_a_closed_think_block_counts_for_nothing(thought, word):
    thought = thought.replace("<", "").replace("＜", "")
    expected = word if word != "maybe" else None
    assert parse_answer(f"<think>{thought}</think>{word}") == expected
    assert parse_answer(f"<think>{thought}{word}") is None
