"""Simulated annotations and prediction rows, to see the paper's tables and figures made.

    python -m experiments.paper_figures.simulate --out=DIR [--scenes=305] [--models=14] [--seed=0]

Writes DIR/scenes.jsonl (no videos), DIR/predictions.jsonl and DIR/groups.json. No model answered
anything: margins are drawn from a normal model with effects of scene, pair, video and question. The
models are invented; those of the group commercial have no margins, as hosted models don't.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

CELLS = tuple((v, q) for v in ("positive", "negative") for q in ("positive", "negative"))
CATEGORIES = ("event", "key_entity", "spatial", "spatial_temporal", "causal", "counterfactual")
# Anomaly types and sources with their shares.
TYPES = {"rear_end": 26, "t_bone": 22, "sideswipe": 15, "head_on": 10, "pedestrian": 9,
         "run_off_road": 8, "motorcycle_fall": 6, "multi_vehicle_pile_up": 4}  # fmt: skip
SOURCES = {"CCD": 45, "DADA-2000": 25, "roadside-cameras": 20, "web": 10}
ACTORS = ("red car", "white truck", "silver van", "blue bus", "black car", "cyclist", "motorcycle")
TEMPLATES = {
    "event": "Did a {0} collision happen in front of the {1}?",
    "key_entity": "Was the {1} hit by another vehicle?",
    "spatial": "Was the contact with the {1} on the {2} of the picture?",
    "spatial_temporal": "Did the {1} enter the junction from the {2} before the collision began?",
    "causal": "Did they collide because the {1} on the {2} did not stop at the red light in time?",
    "counterfactual": "Would the collision have been avoided had the {1} braked earlier?",
}
METHODS = ("vcd", "tcd", "c_tcd")


class Model(NamedTuple):
    """Means of the margin's parts, and what the model leaves unparsed."""

    name: str
    group: str
    bias: float  # to Yes
    question: float  # q+ over q-
    video: float  # v+ over v-
    unparsed: float = 0.0


MODELS = (
    Model("Alder3.5-2B", "small", -0.6, 0.3, 0.25),
    Model("Birch3-VL-2B", "small", -0.3, 0.5, 0.35),
    Model("VideoCedar3-2B", "small", 0.5, 0.2, 0.2, 0.01),
    Model("Alder3.5-8B", "medium", -0.2, 0.6, 0.4),
    Model("PDogwood-7B", "medium", -1.2, 0.35, 0.2),
    Model("PDogwood-13B", "medium", -0.5, 0.4, 0.25, 0.005),
    Model("Birch3-VL-8B", "medium", -1.1, 0.6, 0.35),
    Model("VideoCedar3-7B", "medium", 0.4, 0.5, 0.2),
    Model("VideoChatElm-7B", "medium", 0.7, 0.05, 0.02, 0.06),
    Model("Fir-4-Multimodal-14B", "medium", 0.3, 0.4, 0.15),
    Model("Ginkgo-2.5-flash", "commercial", -0.3, 0.9, 0.5),
    Model("Ginkgo-2.5-flash-lite", "commercial", -0.1, 1.1, 0.45),
    Model("Hazel-5-nano", "commercial", -1.0, 0.45, 0.2, 0.01),
    Model("Hazel-5-mini-2026-08-07-preview", "commercial", -0.2, 1.1, 0.6),
)


def scenes(count: int, rng: np.random.Generator) -> list[dict]:
    """Lines of scenes.jsonl: 3 to 8 pairs a scene, 5.82 on average as in the benchmark."""

    def pick(shares):
        weights = np.array(list(shares.values()), float)
        return str(rng.choice(list(shares), p=weights / weights.sum()))

    out = []
    for i in range(count):
        name, kind = f"sim{i:04d}", pick(TYPES)
        end = round(float(np.clip(rng.lognormal(1.7, 0.35), 2.5, 20)), 2)
        branch, contact = round(0.4 * end, 2), round(0.6 * end, 2)
        pairs = []
        for k in range(int(np.clip(rng.poisson(5.8), 3, 9))):
            category = CATEGORIES[k] if k < 6 else str(rng.choice(CATEGORIES))
            one, two = rng.choice(ACTORS, 2, replace=False)
            template = TEMPLATES[category]
            other = "head-on" if kind == "rear_end" else "rear-end"
            sides = ("left", "right") if rng.random() < 0.5 else ("right", "left")
            pairs.append(
                {"pair_id": f"{name}-{k:02d}", "category": category}
                | {"positive": template.format(kind.replace("_", "-"), one, sides[0])}
                | {"negative": template.format(other, two, sides[1])}
            )
        out.append(
            {"scene_id": name, "source": pick(SOURCES)}
            | {"view": "roadside" if rng.random() < 0.3 else "driving", "anomaly_type": kind}
            | {"videos": {s: f"videos/{name}_{s[:3]}.mp4" for s in ("positive", "negative")}}
            | {"split_time": branch, "questions": pairs}
            | {"segments": {"base": [0, branch], "contrastive": [branch, end]}
               | {"key_frames": [round(contact - 0.2, 2), round(contact + 0.2, 2)]}}
        )  # fmt: skip
    return out


def margins(model: Model, data: list[dict], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Margins float32[N, 4] of the base run and of the contrast branch of each method."""
    scene = np.repeat(np.arange(len(data)), [len(s["questions"]) for s in data])
    category = np.array([CATEGORIES.index(q["category"]) for s in data for q in s["questions"]])
    ease = rng.normal(1, 0.25, len(CATEGORIES))[category]
    n = len(scene)
    q, v = np.array([1, -1, 1, -1]), np.array([1, 1, -1, -1])
    base = model.bias + np.outer(ease, model.question * q + model.video * v)
    base += 0.4 * rng.normal(size=len(data))[scene][:, None] + 0.6 * rng.normal(size=(n, 1))
    base += 0.4 * rng.normal(size=(n, 2))[:, [0, 1, 0, 1]] + 0.4 * rng.normal(size=(n, 4))
    blurred = model.bias + 0.7 * (base - model.bias) + 0.4 * rng.normal(size=(n, 4))
    still = base - 0.4 * model.video * v + 0.4 * rng.normal(size=(n, 4))
    found = {"base": base, "vcd": blurred, "tcd": still, "c_tcd": base[:, [2, 3, 0, 1]]}
    return {name: values.astype(np.float32) for name, values in found.items()}


def rows(
    model: Model, data: list[dict], rng: np.random.Generator, *, alpha: float = 1.0
) -> Iterator[dict]:
    """The prediction rows of a model; open models have every method, hosted ones no margins."""
    drawn = margins(model, data, rng)
    n = len(drawn["base"])
    lost = rng.random((n, 4)) < model.unparsed
    hosted = model.group == "commercial"
    ends = np.where(rng.random((n, 4)) < 0.01, rng.uniform(1.3, 2.5, (n, 4)), np.inf)
    places = [(s["scene_id"], q["pair_id"]) for s in data for q in s["questions"]]
    for method in ("base",) if hosted else ("base", *METHODS):
        a = 0.0 if method == "base" else alpha
        fused = (1 + a) * drawn["base"] - a * drawn[method] if a else drawn["base"]
        for i, (scene_id, pair_id) in enumerate(places):
            for j, (video, question) in enumerate(CELLS):
                row = {"scene_id": scene_id, "pair_id": pair_id, "video": video}
                row |= {"question": question, "model": model.name, "run": "", "method": method}
                row |= {"alpha": a, "answer": "Yes" if fused[i, j] > 0 else "No"}
                if lost[i, j]:
                    row["answer"] = "The video is unclear."
                if not hosted:
                    row["margin"] = float(fused[i, j])
                    if a:
                        end = ends[i, j]
                        row["margin_contrast"] = float(drawn[method][i, j])
                        row["alpha_exact_to"] = None if np.isinf(end) else float(end)
                yield row


def write(folder: Path, *, scenes_: int, models: int, seed: int) -> Path:
    """Writes the three files; one model is Birch3-VL-2B alone. Equal arguments, equal bytes."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    data = scenes(scenes_, rng)
    (folder / "scenes.jsonl").write_text("".join(json.dumps(s) + "\n" for s in data))
    chosen = MODELS[1:2] if models == 1 else MODELS[:models]
    with open(folder / "predictions.jsonl", "w") as file:
        for model in chosen:
            file.writelines(json.dumps(row) + "\n" for row in rows(model, data, rng))
    groups: dict[str, list[str]] = {}
    for model in chosen:
        groups.setdefault(f"simulated, {model.group}", []).append(model.name)
    (folder / "groups.json").write_text(json.dumps(groups, indent=1) + "\n")
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scenes", type=int, default=305)
    parser.add_argument("--models", type=int, default=len(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.out, scenes_=given.scenes, models=given.models, seed=given.seed)
