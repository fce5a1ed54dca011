"""From the clips and questions of scenes to their prediction rows.

What is computed together is a function of data and config alone, so that a resumed run repeats it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cctv.data.schema import SIDES, QuestionPair, Scene
from cctv.data.video import VideoDecodeError, VideoMissingError
from cctv.decoding.contrast import CTCD, TCD, VCD, Method
from cctv.decoding.engine import Engine, Stream
from cctv.decoding.passes import Answers, Job
from cctv.metrics.answers import parse_answer
from cctv.models.encoder import Encoder
from cctv.runs.rows import LABELS, Row


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


class Unit(NamedTuple):
    """One scene to run: its clips by side, each what the encoder's `load_clip` gave or the
    VideoDecodeError that it ended in."""

    scene: Scene
    clips: Mapping[str, Any]


def rows_of(
    units: Sequence[Unit],
    systems: Sequence[System],
    *,
    engine: Engine,
    prompt: str,
) -> list[Row]:
    """All rows of some scenes under all systems, from one pass of the engine.

    prompt: a text with one {question}. The two videos of a scene and every form of them that a
    method contrasts with are streams of the pass; C-TCD needs none of its own.
    """
    streams = _Streams(units, engine=engine, prompt=prompt)
    done, rows = [], []
    for system in systems:
        answered, originals, contrasts = [], [], []
        for unit in units:
            for video in SIDES:
                sides = SIDES if system.method.name == "c_tcd" else (video,)
                lacking = [unit.clips[s] for s in (video, *sides) if _is_error(unit.clips[s])]
                if lacking:
                    cells = system.cells(unit.scene, video=video)
                    rows += [_failed(cell, lacking[0]) for cell in cells]
                    continue
                answered.append((unit, video))
                originals.append(streams.number(unit, video))
                if system.method.branches == 2:
                    contrasts.append(streams.contrast(unit, video, system.method))
        if answered:
            job = Job(system.method, tuple(originals), tuple(contrasts))
            done.append((system, job, answered))
    if done:
        alphas = [system.alpha for system, *_ in done]
        results = engine.run(streams.all, [job for _, job, _ in done], alphas=alphas)
        for (system, job, answered), answers in zip(done, results):
            for v, (unit, video) in enumerate(answered):
                stream = streams.all[job.originals[v]]
                for i, cell in enumerate(system.cells(unit.scene, video=video)):
                    at = Answers(*(field[v, i] for field in answers))
                    rows.append(_answered(cell, at, stream, i, encoder=engine.encoder))
    return rows


class _Streams:
    """The streams of some scenes, each made when it is first asked for."""

    def __init__(self, units: Sequence[Unit], *, engine: Engine, prompt: str):
        self._encoder, self._share = engine.encoder, engine.share_base_segment
        self._texts = {
            u.scene.scene_id: [prompt.replace("{question}", q) for q in questions(u.scene)]
            for u in units
        }
        self._numbers: dict[tuple, int] = {}
        self.all: list[Stream] = []

    def number(self, unit: Unit, video: str, method: Method | None = None) -> int:
        """The stream of a video, in the form that a method contrasts with (None: itself)."""
        key = (unit.scene.scene_id, video, method)
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append(self._make(unit, video, method))
        return self._numbers[key]

    def contrast(self, unit: Unit, video: str, method: Method) -> int:
        """The stream that a method contrasts a video with."""
        if isinstance(method, CTCD):
            return self.number(unit, _other(video))
        return self.number(unit, video, method)

    def _make(self, unit: Unit, video: str, method: Method | None) -> Stream:
        clip = unit.clips[video]
        if isinstance(method, TCD):
            kept = method.kept(len(clip.indices))
            clip = self._encoder.keep_frames(clip, kept, mode=method.mode)
        scene = unit.scene.scene_id
        return Stream(
            clip=clip,
            prompts=self._encoder.prompts(self._texts[scene], clip),
            noise_step=method.noise_step if isinstance(method, VCD) else None,
            owner=scene if self._share else f"{scene} {video}",
        )


def _is_error(clip: Any) -> bool:
    return isinstance(clip, VideoDecodeError)


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


def _answered(cell: Row, answer: Answers, stream: Stream, i: int, *, encoder: Encoder) -> Row:
    """The row of question i of a stream; the fields of `answer` are scalars, tokens int32[T]."""
    about = {
        "video_digest": stream.clip.digest,
        "frame_indices": list(stream.clip.indices),
        "n_prompt_tokens": len(stream.prompts[i].tokens),
        "n_answer_tokens": int(answer.count),
    }
    # Finite logits can still fuse to more than a float32 holds.
    if not (answer.finite and np.isfinite(answer.margin)):
        return {**cell, **_empty("not_finite"), **about}
    text = encoder.decode(answer.tokens[: answer.count])
    label = LABELS[parse_answer(text)]
    return {
        **cell,
        "answer": text,
        "label": label,
        "margin": float(answer.margin),
        "margin_contrast": _number(answer.margin_contrast),
        "alpha_exact_to": _number(answer.exact_to),
        "masked": bool(answer.masked),
        "status": "unparsed" if label is None else "ok",
        **about,
    }


def _number(value: np.floating) -> float | None:
    """None for "does not apply" (NaN) and "for ever" (inf)."""
    return float(value) if np.isfinite(value) else None
