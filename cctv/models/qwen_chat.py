"""The prompt of Qwen3-VL as token ids: one time stamp and one vision block a temporal group.

    <|im_start|>user
    <0.2 seconds><|vision_start|><|video_pad|>...<|vision_end|><1.2 seconds>...QUESTION<|im_end|>
    <|im_start|>assistant

Two releases of the reference differ. transformers 4.57 (and vLLM) replaces the whole
`<|vision_start|><|video_pad|><|vision_end|>` of the chat template by the groups; 5.x replaces only
the pad, so that one more pair of vision markers stays around them (`outer_vision_markers=True`).
The default is the former: it is the release the checkpoints came out with.
"""

from collections.abc import Sequence

from cctv.data.errors import UserError
from cctv.models.tokenizers import Tokenizer

START, END = "<|im_start|>", "<|im_end|>"
VISION_START, VIDEO_PAD, VISION_END = "<|vision_start|>", "<|video_pad|>", "<|vision_end|>"


def prompt_ids(
    tokenizer: Tokenizer,
    question: str,
    *,
    time_stamps: Sequence[float],
    tokens_per_group: int,
    outer_vision_markers: bool = False,
    system: str | None = None,
) -> list[int]:
    """Ids of the whole prompt of one video and one question, up to where the answer begins."""
    video = video_ids(
        tokenizer,
        time_stamps=time_stamps,
        tokens_per_group=tokens_per_group,
        outer_vision_markers=outer_vision_markers,
        system=system,
    )
    return video + question_ids(tokenizer, question)


def video_ids(
    tokenizer: Tokenizer,
    *,
    time_stamps: Sequence[float],
    tokens_per_group: int,
    outer_vision_markers: bool = False,
    system: str | None = None,
) -> list[int]:
    """The part of the prompt that all questions about one video share; it ends in a control token.

    time_stamps: seconds, one a temporal group. tokens_per_group: visual tokens of each. Raises
    ValueError without a group or a token, UserError for a control token in `system`.
    """
    if len(time_stamps) < 1 or tokens_per_group < 1:
        raise ValueError(
            f"a video needs at least one group and token, got {len(time_stamps)} groups"
            f" of {tokens_per_group}"
        )
    start, vision_start, video_pad, vision_end = map(
        tokenizer.id, (START, VISION_START, VIDEO_PAD, VISION_END)
    )
    ids = [*system_ids(tokenizer, system), start]
    text = "user\n"
    if outer_vision_markers:
        ids += [*tokenizer.encode(text), vision_start]
        text = ""
    for seconds in time_stamps:
        # Text up to the next control token is encoded as one piece, as the reference does.
        ids += tokenizer.encode(f"{text}<{seconds:.1f} seconds>")
        ids += [vision_start, *[video_pad] * tokens_per_group, vision_end]
        text = ""
    if outer_vision_markers:
        ids.append(vision_end)
    return ids


def system_ids(tokenizer: Tokenizer, system: str | None) -> list[int]:
    """The system's turn, [] for None. UserError for a control token in it."""
    if system is None:
        return []
    start, end = tokenizer.id(START), tokenizer.id(END)
    return [start, *tokenizer.encode(f"system\n{system}"), end, *tokenizer.encode("\n")]


def question_ids(tokenizer: Tokenizer, question: str, *, before: str = "") -> list[int]:
    """The rest of the prompt: the question, the end of the turn and the start of the answer's.

    before: text between the last control token and the question, of one piece with it. Raises
    UserError if the question is empty or contains a control token.
    """
    if not question.strip():
        raise UserError("the question is empty")
    ids = [*tokenizer.encode(before + question), tokenizer.id(END), *tokenizer.encode("\n")]
    return [*ids, tokenizer.id(START), *tokenizer.encode("assistant\n")]
