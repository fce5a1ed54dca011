"""Rows with margins of a base run and of contrastive methods, for tests of the sweep."""

import json

import numpy as np

from cctv.metrics.quadruples import CELLS
from cctv.runs import rows


class World:
    """Margins [N, 4] of every branch by pair, and the rows that a model with them would write."""

    def __init__(self, *, scenes=8, seed=0, methods=("vcd", "tcd", "c_tcd"), ends=None):
        rng = np.random.default_rng(seed)
        self.methods = methods
        self.pairs = [
            (f"s{i:02d}", f"s{i:02d}-{k}") for i in range(scenes) for k in range(rng.integers(1, 5))
        ]
        n = len(self.pairs)
        self.base = rng.normal([1, 0, 0, -0.3], 1, (n, 4)).astype(np.float32).astype(float)
        noise = rng.normal(0, 1, (2, n, 4)).astype(np.float32).astype(float)
        self.contrast = {
            "vcd": noise[0],
            "tcd": noise[1],
            "c_tcd": self.base[:, [2, 3, 0, 1]],
        }
        self.ends = np.full((n, 4), np.inf) if ends is None else np.broadcast_to(ends, (n, 4))

    def fused(self, method, alpha):
        if method == "base":
            return self.base
        return (1 + alpha) * self.base - alpha * self.contrast[method]

    def labels(self, method, alpha):
        """The model's answers: beyond its exact range it says neither."""
        labels = [[int(v > 0) for v in four] for four in self.fused(method, alpha).tolist()]
        beyond = (self.ends < alpha) | (self.ends == 0)
        return [[None if b else v for v, b in zip(*both)] for both in zip(labels, beyond.tolist())]

    def rows(self, method, alpha):
        fused, labels = self.fused(method, alpha), self.labels(method, alpha)
        out = []
        for n, (scene_id, pair_id) in enumerate(self.pairs):
            for j, (video, question) in enumerate(CELLS):
                label, end = labels[n][j], float(self.ends[n, j])
                row = {"scene_id": scene_id, "pair_id": pair_id, "video": video}
                row |= {"question": question, "category": "event", "model": "toy", "run": ""}
                row |= {"method": method, "alpha": alpha, "margin": float(fused[n, j])}
                row |= {"answer": {1: "Yes", 0: "No", None: "Hm"}[label], "label": label}
                row |= {"margin_contrast": None, "alpha_exact_to": None, "masked": False}
                if method != "base":
                    row["margin_contrast"] = float(self.contrast[method][n, j])
                    row["alpha_exact_to"] = None if np.isinf(end) else end
                out.append(row | {"status": "unparsed" if label is None else "ok"})
        return out

    def all_rows(self, alpha=1.0):
        return [r for m in ("base", *self.methods)
                for r in self.rows(m, 0.0 if m == "base" else alpha)]  # fmt: skip

    def questions(self):
        out = {}
        for scene_id, pair_id in self.pairs:
            out.setdefault(scene_id, []).append(pair_id)
        return out

    def write_annotations(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for scene_id, pairs in self.questions().items():
            scene = {"scene_id": scene_id, "source": "x", "view": "driving"}
            scene |= {"anomaly_type": "rear_end"}
            scene |= {"videos": {"positive": f"{scene_id}p.mp4", "negative": f"{scene_id}n.mp4"}}
            scene["questions"] = [
                {"pair_id": p, "category": "event", "positive": "A?", "negative": "B?"}
                for p in pairs
            ]
            lines.append(json.dumps(scene) + "\n")
        (folder / "scenes.jsonl").write_text("".join(lines))
        return folder

    def write(self, folder, found=None):
        """A run folder that is its own data set folder too."""
        self.write_annotations(folder)
        with rows.RowWriter(rows.shard_path(folder, 0, 1)) as writer:
            writer.write(self.all_rows() if found is None else found)
        return folder
