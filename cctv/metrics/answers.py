"""From the text of an answer to its label: yes, no, or neither."""

import re
import unicodedata

# Full-width ASCII, the ideographic space and the CJK stop and comma. Not NFKC: that also turns the
# numero sign into "No". Zero-width characters go (a byte-order mark before the first word).
_FORMS = {c: c - 0xFEE0 for c in range(0xFF01, 0xFF5F)}
_FORMS |= {0x3000: " ", 0x3002: ".", 0x3001: ",", 0xFF61: ".", 0xFF64: ","}
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF])
_MARKS = dict.fromkeys(map(ord, "*_`~\"'“”„‟‘’‚‛«»‹›"))  # markdown and quotes
_LINE_MARKS = re.compile(r"^[^\S\n]*[>#]+", re.MULTILINE)  # block quotes and headings

_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)
_OPENING = re.compile(r"[\s\-+•]*(?:(?:the\s+)?(?:final\s+)?answer\s*:[\s\-+•]*)?")
_LEADING = re.compile(r"(yes|no)[^\S\n]*(?:$|[.,;:!?\n])")
# A hyphen inside a word belongs to it: "no-one" is not the word "no".
_WORD = re.compile(r"(?<!\w)(?<!\w-)(?:yes|no)(?!\w|-\w)")


def parse_answer(text: str) -> str | None:
    """The label of an answer: "yes", "no", or None where it is neither (unparsed).

    White space, case, full-width forms, markdown, quotes, an "Answer:" label and a closed think
    block are stripped. Then a leading whole word yes/no before the end, `. , ; : ! ?` or a line
    break decides; otherwise the text must contain exactly one of the two words. A think block that
    was cut off is None. Where the prompt itself opened the block, only its end is in the answer.
    """
    text = unicodedata.normalize("NFC", text.translate(_FORMS).translate(_INVISIBLE)).lower()
    text = _THINK.sub("", text)
    if "<think>" in text:
        return None
    text = text.rpartition("</think>")[2].translate(_MARKS)
    text = _LINE_MARKS.sub("", "\n".join(text.splitlines())).strip()
    text = text[_OPENING.match(text).end() :]
    if leading := _LEADING.match(text):
        return leading[1]
    words = set(_WORD.findall(text))
    return words.pop() if len(words) == 1 else None
