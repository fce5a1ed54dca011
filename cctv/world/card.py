"""The card of a data set of the built-in world: what it holds and what was rejected, in counts."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np


def card_of(arguments: dict[str, Any], done: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over scenes; `done` are {"record", "rejected"} each, in the order of the scenes."""
    records = [d["record"] for d in done]
    logs = [r["metadata"] for r in records]
    pairs = [q for r in records for q in r["questions"]]
    rejected: Counter = Counter()
    for d in done:
        rejected.update(d["rejected"])
    return {
        **arguments,
        "pairs": len(pairs),
        "kinds": _count(r["anomaly_type"] for r in records),
        "views": _count(r["view"] for r in records),
        "layouts": _count(log["layout"]["type"] for log in logs),
        "looks": _count(log["look"]["kind"] for log in logs),
        "categories": _count(q["category"] for q in pairs),
        "causes": _count(log["cause"]["kind"] for log in logs),
        "interventions": _count(log["intervention"]["kind"] for log in logs),
        "types": _count(a["type"] for log in logs for a in log["actors"]),
        "durations": _count(f"{log['duration']:g}" for log in logs),
        "actors": _spread([len(log["actors"]) for log in logs]),
        "contact_time": _spread([log["contact"]["time"] for log in logs]),
        "branch_lead": _spread([log["contact"]["time"] - log["branch"] for log in logs]),
        "min_gap": _spread([log["min_gap"]["negative"] for log in logs]),
        "draws": len(done) + sum(rejected.values()),
        "rejected": dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0]))),
    }


def card_text(card: dict[str, Any]) -> str:
    """The card for a person to read on a terminal."""
    return "\n".join(f"{name:<14}{value}" for name, value in _lines(card))


def card_markdown(card: dict[str, Any]) -> str:
    """The card as a page in Markdown."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in _lines(card))
    command = "python -m cctv.world --out=DIR --scenes={scenes} --seed={seed} --size={0}x{1}"
    options = " --fps={fps:g} --duration={duration:g} --difficulty={difficulty}"
    made = (command + options).format(*card["size"], **card)
    return f"# A data set of the built-in world\n\n`{made}`\n\n| | |\n|---|---|\n{rows}\n"


def _lines(card: dict[str, Any]) -> list[tuple[str, str]]:
    width, height = card["size"]
    scenes = card["scenes"]

    def counts(name):
        return ", ".join(f"{k} {n}" for k, n in card[name].items()) or "none"

    def spread(name, unit):
        low, middle, high = (f"{v:g}" for v in card[name])
        return f"{low} to {high}{unit}, median {middle}"

    return [
        ("data set", f"{scenes} scenes, {2 * scenes} videos, {card['pairs']} question pairs"),
        ("videos", f"{card['duration']:g} s, {card['fps']:g} frames/s, {width}x{height}"),
        ("difficulty", card["difficulty"]),
        ("kinds", counts("kinds")),
        ("views", counts("views")),
        ("layouts", counts("layouts")),
        ("weather", counts("looks")),
        ("categories", counts("categories")),
        ("causes", counts("causes")),
        ("changes", counts("interventions")),
        ("actors", f"{counts('types')}; {spread('actors', ' a scene')}"),
        ("durations", ", ".join(f"{k} s {n}" for k, n in card["durations"].items())),
        ("contact", spread("contact_time", " s")),
        ("branch", f"{spread('branch_lead', ' s')} before the contact"),
        ("smallest gap", f"{spread('min_gap', ' m')}, of the two without the accident"),
        ("draws", f"{card['draws']} for {scenes} scenes"),
        ("rejected", counts("rejected")),
    ]


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _spread(values: list[float]) -> list[float]:
    """Least, median, most."""
    return [round(float(v), 4) for v in (min(values), np.median(values), max(values))]
