"""From one scene's clips and questions to its prediction rows.

The unit of work is one video under one method: its questions in order, cut into batches. What is
computed together is a function of data and config alone, so that a resumed run repeats it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from cctv.data.errors import UserError
from cctv.data.schema import SIDES, QuestionPair, Scene
from cctv.data.video import VideoDecodeError, VideoMissingError
from cctv.decoding.contrast import Method
from cctv.decoding.engine import Answers, Engine
from cctv.metrics.answers import parse_answer
from cctv.runs.rows import Row

LABELS = {"yes": 1, "no": 0, None: None}


@dataclass(frozen=True, kw_only=True)
class System:
    """One method with its α: what a group of rows has in common."""

    method: Method
    alpha: float
    model: str
    run: str

    def cell(self, scene: Scene, pair: QuestionPair, *, video: str, question: str) -> Row:
        """The part of a row that is known before it is run."""
        return {
            "scene_id": scene.scene_id,
            "pair_id": pair.pair_id,
            "video": video,
            "question": question,
            "category": pair.category,
            "model": self.model,
            "run": self.run,
            "method": self.method.name,
            "alpha": self.alpha,
        }

    def cells(self, scene: Scene, *, video: str) -> list[Row]:
        """All rows of one video, in the order they are run."""
        return [
            self.cell(scene, pair, video=video, question=question)
            for pair in scene.questions
            for question in SIDES
        ]


def questions(scene: Scene) -> list[str]:
    """The questions of a scene in the order of `System.cells`."""
    return [getattr(pair, side) for pair in scene.questions for side in SIDES]


def scene_rows(
    scene: Scene,
    clips: Mapping[str, Any],
    systems: list[System],
    *,
    engine: Engine,
    prompt: str,
) -> Iterator[list[Row]]:
    """Yields the rows of a scene batch by batch.

    clips: "positive" and "negative" to what the encoder's `load_clip` gave, or to the
    VideoDecodeError that it ended in. prompt: a text with one {question}.
    """
    good = {side: clip for side, clip in clips.items() if not isinstance(clip, VideoDecodeError)}
    features, offsets = None, {}
    if good:
        features, starts = engine.encode_videos(list(good.values()))
        offsets = dict(zip(good, starts))
    texts = [prompt.replace("{question}", q) for q in questions(scene)]
    prompts = {side: [engine.encoder.prompt(t, clip) for t in texts] for side, clip in good.items()}
    for system in systems:
        for video in SIDES:
            sides = [video, _other(video)][: system.method.branches]
            cells = system.cells(scene, video=video)
            lacking = [clips[side] for side in sides if side not in good]
            if lacking:
                yield [_failed(cell, lacking[0]) for cell in cells]
                continue
            for first in range(0, len(cells), engine.batch):
                part = slice(first, first + engine.batch)
                answers = engine.answer(
                    [prompts[side][part] for side in sides],
                    [[offsets[side]] * len(cells[part]) for side in sides],
                    features=features,
                    method=system.method,
                    alpha=system.alpha,
                )
                yield [
                    _answered(cell, answers, i, engine=engine, clip=good[video], prompt=p)
                    for i, (cell, p) in enumerate(zip(cells[part], prompts[video][part]))
                ]


def _other(video: str) -> str:
    return SIDES[1 - SIDES.index(video)]


def _failed(cell: Row, error: VideoDecodeError) -> Row:
    """A row of a cell that could not be run."""
    status = "video_missing" if isinstance(error, VideoMissingError) else "video_error"
    return {**cell, **_empty(status), "video_digest": None, "frame_indices": [],
            "n_prompt_tokens": 0, "n_answer_tokens": 0}  # fmt: skip


def _empty(status: str) -> Row:
    return {
        "answer": None,
        "label": None,
        "margin": None,
        "margin_contrast": None,
        "alpha_exact_to": None,
        "masked": False,
        "status": status,
    }


def _answered(cell: Row, answers: Answers, i: int, *, engine: Engine, clip, prompt) -> Row:
    """The row of answer i of a batch."""
    said = answers.tokens[i, : answers.count[i]]
    about = {
        "video_digest": clip.digest,
        "frame_indices": list(clip.indices),
        "n_prompt_tokens": len(prompt.tokens),
        "n_answer_tokens": int(answers.count[i]),
    }
    if not answers.finite[i]:
        return {**cell, **_empty("not_finite"), **about}
    text = engine.encoder.decode(said)
    label = LABELS[parse_answer(text)]
    return {
        **cell,
        "answer": text,
        "label": label,
        "margin": float(answers.margin[i]),
        "margin_contrast": _number(answers.margin_contrast[i]),
        "alpha_exact_to": _number(answers.exact_to[i]),
        "masked": bool(answers.masked[i]),
        "status": "unparsed" if label is None else "ok",
        **about,
    }


def _number(value: np.floating) -> float | None:
    """None for "does not apply" (NaN) and "for ever" (inf)."""
    return float(value) if np.isfinite(value) else None


def out_of_memory(error: jax.errors.JaxRuntimeError, *, batch: int, vision_batch: int) -> UserError:
    """The line that says what to set; the error itself when it is something else."""
    if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
        raise error
    return UserError(
        f"out of device memory at config.batch={batch}, config.vision_batch={vision_batch}: set "
        f"--config.batch={max(1, batch // 2)} or a smaller --config.video.max_pixels; "
        "the same command goes on from what is on disk"
    )
