"""What can be guessed about scenes of the built-in world without watching: the measures.

Accuracies are percent, of a logistic regression under cross-validation over scenes.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cctv.data import video
from cctv.world.accident import CONTACT_WINDOW
from cctv.world.render import Shot, render

SIZE, FPS = (128, 80), 5.0
FOLDS = 5
# The most that a feature may tell of a video alone, in percent.
LIMITS = {
    "motion energy": 60.0,
    "file size": 60.0,
    "duration": 55.0,
    "frame count": 55.0,
    "brightness": 55.0,
}
VIDEO_FEATURES = {
    "motion energy": ("energy",),
    "motion energy over time": tuple(f"energy {k}" for k in range(6)),
    "file size": ("file size",),
    "duration": ("duration",),
    "frame count": ("frame count",),
    "brightness": ("brightness",),
}


def of_questions(records: list[dict[str, Any]], *, words: int = 1) -> dict[str, float]:
    """Accuracy of q+ against q- from runs of up to `words` words.

    One classifier for all questions, and one for those of each category and of each view. (The kind
    of the accident is part of the answer, so none for each kind.)
    """
    texts, labels, groups, marks = [], [], [], []
    for g, record in enumerate(records):
        for q in record["questions"]:
            texts += [q["positive"], q["negative"]]
            labels += [1, 0]
            groups += [g, g]
            marks += [(q["category"], record["view"])] * 2
    labels, groups = np.array(labels), np.array(groups)
    out = {"all": _accuracy(texts, labels, groups, words)}
    for mark in sorted({m for pair in marks for m in pair}):
        pick = [k for k, pair in enumerate(marks) if mark in pair]
        out[mark] = _accuracy([texts[k] for k in pick], labels[pick], groups[pick], words)
    return out


def leaning_words(records: list[dict[str, Any]], most: int = 12) -> list[tuple[str, int, int]]:
    """The words that lean most towards q+ or q-: (word, in how many q+, in how many q-)."""
    counts = Counter(), Counter()
    for record in records:
        for q in record["questions"]:
            for count, key in zip(counts, ("positive", "negative")):
                count.update(set(_WORDS.build_analyzer()(q[key])))
    rows = [(w, counts[0][w], counts[1][w]) for w in counts[0] | counts[1]]
    return sorted(rows, key=lambda r: -abs(r[1] - r[2]) / np.sqrt(r[1] + r[2]))[:most]


def video_row(
    shot: Shot, duration: float, path: Path, *, size: tuple[int, int] = SIZE, fps: float = FPS
) -> dict[str, float]:
    """The numbers of one video, which is written to `path` on the way."""
    frames = np.stack([render(shot, k / fps, size) for k in range(round(duration * fps))])
    video.write(path, frames, fps=fps)
    info = video.probe(path)
    change = np.abs(np.diff(frames.astype(np.int16), axis=0)).mean((1, 2, 3))
    parts = np.array_split(change, 6)
    return {
        "energy": float(change.mean()),
        **{f"energy {k}": float(part.mean()) for k, part in enumerate(parts)},
        "file size": float(path.stat().st_size),
        "duration": float(info.times[-1]),
        "frame count": float(info.num_frames),
        "brightness": float(frames.mean()),
    }


def of_videos(rows: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, Any]:
    """Accuracy of v+ against v- from each feature of (v+, v-) rows, one by one and in pairs."""
    labels = np.tile([1, 0], len(rows))
    groups = np.repeat(np.arange(len(rows)), 2)
    out = {}
    for name, columns in VIDEO_FEATURES.items():
        x = np.array([[row[c] for c in columns] for pair in rows for row in pair])
        score = _scores(
            make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear")),
            x,
            labels,
            groups,
        )
        ahead = score[0::2] - score[1::2]
        # A tie is a coin toss: videos that are alike can't be told apart.
        paired = np.mean((ahead > 0) + 0.5 * (ahead == 0))
        right = np.where(score == 0, 0.5, (score > 0) == labels)
        out[name] = {"single": 100 * float(right.mean()), "paired": 100 * float(paired)}
    return out


def contact_times(records: list[dict[str, Any]]) -> dict[str, float]:
    """Kolmogorov-Smirnov test of the contact's share of the clip against a uniform one."""
    share = [r["metadata"]["contact"]["time"] / r["metadata"]["duration"] for r in records]
    low, high = CONTACT_WINDOW
    result = stats.kstest(share, stats.uniform(low, high - low).cdf)
    return {"statistic": float(result.statistic), "p": float(result.pvalue)}


_WORDS = CountVectorizer(token_pattern=r"[\w-]+(?:\.\d)?")


def _accuracy(texts: list[str], labels: np.ndarray, groups: np.ndarray, words: int) -> float:
    vectorizer = CountVectorizer(
        token_pattern=_WORDS.token_pattern, ngram_range=(1, words), binary=True
    )
    model = make_pipeline(vectorizer, LogisticRegression(solver="liblinear"))
    score = _scores(model, np.array(texts, object), labels, groups)
    # Two questions with the same words have the same score: that is half right, not right twice.
    return 100 * float(np.where(score == 0, 0.5, (score > 0) == labels).mean())


def _scores(model: Any, x: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Decision values of each item by the classifier that was fitted without its scene's fold."""
    out = np.zeros(len(labels))
    for train, test in GroupKFold(FOLDS, shuffle=True, random_state=0).split(x, groups=groups):
        out[test] = model.fit(x[train], labels[train]).decision_function(x[test])
    return out
