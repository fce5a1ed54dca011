"""Writes what the reference makes of videos and prompts of Qwen2.5-VL.

The reference is qwen-vl-utils (sampling) and transformers' processors (sizes, pixels, prompts), in
the environment that make_qwen3_vl.py describes:

    golden/bin/pip install --no-deps torchvision==0.28.0 qwen-vl-utils==0.0.11 av requests packaging
    golden/bin/python tests/golden/make_qwen2_5_vl.py /tmp/qwen
    # and again with transformers==4.57.6

5.24.0 writes qwen2_5_vl.json and qwen2_5_vl.npz (`NAME_frames` uint8[F, H, W, 3]; `NAME_patches`
uint8[N, C*T*P*P], the pixel values before / 255; `NAME_grid`). 4.57.6 is checked to give the same
prompts and writes qwen2_5_vl-4.57.6.json: the rotary positions of its `get_rope_index`.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from make_qwen3_vl import QUESTIONS, RATES, TOTALS, declare_torchvision_operators, shorten

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
SYSTEM = "You are a helpful assistant."
# name: (frames, height, width, shortest_edge, longest_edge)
VIDEOS = {
    "same_size": (2, 56, 56, 4 * 784, 20 * 784),
    "odd_frames": (3, 48, 80, 4 * 784, 20 * 784),
    "enlarged": (2, 17, 40, 4 * 784, 20 * 784),
    "shrunk": (2, 110, 70, 4 * 784, 6 * 784),
}
# (groups, rows, columns) of patches, seconds a group
GRIDS = (
    ((1, 4, 6), 1.0),
    ((4, 4, 6), 1.0),
    ((10, 4, 12), 1.0),
    ((3, 12, 4), 2.0),
    ((5, 2, 2), 1.6),
    ((6, 4, 4), 0.5),
)


def sampling() -> list[dict]:
    """Frame numbers and the resulting rate, from the package's own reader of a made-up video."""
    asked = []

    class Reader:
        def __init__(self, video):
            self.total, self.fps = video

        def __len__(self):
            return self.total

        def get_avg_fps(self):
            return self.fps

        def get_batch(self, indices):
            asked.append(list(indices))
            return SimpleNamespace(asnumpy=lambda: np.zeros((1, 1, 1, 3), np.uint8))

    sys.modules["decord"] = SimpleNamespace(VideoReader=Reader)
    from qwen_vl_utils.vision_process import _read_video_decord

    cases = []
    for total in TOTALS:
        wanted = [{"fps": fps} for fps in RATES]
        wanted += [{"fps": 30.0, "num_frames": n} for n in (2, 7, 8, 16)]
        for case in wanted:
            names = {"nframes": case["num_frames"]} if "num_frames" in case else {}
            try:
                _, rate = _read_video_decord({"video": (total, case["fps"]), **names})
            except ValueError:  # fewer frames than the pair, or than asked for
                assert total < max(2, names.get("nframes", 0) + 1)
                continue
            cases.append(shorten({"total": total, **case, "rate": rate, "indices": asked[-1]}))
    return cases


def sizes(make_processor) -> list[list[int]]:
    """[frames, height, width, shortest_edge, longest_edge, new height, new width]."""
    from transformers.video_processing_utils import BaseVideoProcessor

    size_only = lambda self, image, size, **kw: (size.height, size.width)  # noqa: E731
    own, BaseVideoProcessor.resize = BaseVideoProcessor.resize, size_only
    rng, cases = np.random.default_rng(0), []
    for low, high in ((128 * 784, 768 * 784), (4 * 784, 20 * 784), (100000, 200000)):
        for frames in (2, 4, 16, 300, 302, 420, 768):
            shapes = [(720, 1280), (1080, 1920), (480, 854), (240, 426), (20, 3000), (16, 16)]
            shapes += [tuple(s) for s in rng.integers(8, 2200, (8, 2)).tolist()]
            for height, width in shapes:
                if max(height, width) > 200 * min(height, width):
                    continue
                video = torch.zeros(()).expand(1, frames, 3, height, width)
                limits = {"shortest_edge": low, "longest_edge": high}
                processor = make_processor(size=limits)
                new = processor.resize(
                    video, processor.size, None, factor=28, cap_pixels_per_frame=True
                )
                cases.append([frames, height, width, low, high, *new])
    BaseVideoProcessor.resize = own
    return cases


def pixels(make_processor) -> dict[str, np.ndarray]:
    """Frames and what the reference makes of them, for every entry of VIDEOS."""
    rng, arrays = np.random.default_rng(1), {}
    for name, (count, height, width, low, high) in VIDEOS.items():
        ramp = np.linspace(0, 200, width)[None, None, :, None] + np.zeros((count, height, 1, 3))
        frames = (ramp + rng.integers(0, 56, ramp.shape)).astype(np.uint8)
        frames[:, : height // 2] = rng.integers(0, 256, frames[:, : height // 2].shape)
        out = make_processor(size={"shortest_edge": low, "longest_edge": high})(
            videos=[torch.from_numpy(frames).permute(0, 3, 1, 2)],
            do_sample_frames=False,
            return_tensors="pt",
        )
        values = out["pixel_values_videos"].numpy().astype(np.float64)
        values = values.reshape(len(values), 3, -1)
        mean, std = np.array(MEAN)[:, None], np.array(STD)[:, None]
        values = (values * std + mean) * 255
        assert np.abs(values - values.round()).max() < 1e-3, "whole steps before normalising"
        arrays[f"{name}_frames"] = frames
        arrays[f"{name}_patches"] = values.round().astype(np.uint8).reshape(len(values), -1)
        arrays[f"{name}_grid"] = out["video_grid_thw"][0].numpy()
    return arrays


def prompts(processor) -> list[dict]:
    """Token ids of whole prompts."""
    cases = []
    for count, height, width in ((2, 56, 84), (6, 112, 56)):
        for question in QUESTIONS:
            for system in (SYSTEM, None):
                head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
                text = (
                    f"{head}<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>{question}"
                    "<|im_end|>\n<|im_start|>assistant\n"
                )
                video = torch.zeros(count, 3, height, width, dtype=torch.uint8)
                out = processor(
                    text=[text], videos=[video], do_sample_frames=False, return_tensors="pt"
                )
                grid = out["video_grid_thw"][0].tolist()
                ids = out["input_ids"][0].tolist()
                cases.append({"grid": grid, "question": question, "system": system, "ids": ids})
    return cases


def positions() -> list[dict]:
    """Rotary positions of prompts: 3 tokens of text, a video, 4 tokens of text."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel

    config = Qwen2_5_VLConfig(
        vision_config=dict(tokens_per_second=2), vision_start_token_id=1, video_token_id=2
    )
    model, cases = SimpleNamespace(config=config), []
    for (groups, rows, columns), seconds in GRIDS:
        ids = [0, 0, 1] + [2] * (groups * rows * columns // 4) + [3] * 4
        where, delta = Qwen2_5_VLModel.get_rope_index(
            model,
            torch.tensor([ids]),
            video_grid_thw=torch.tensor([[groups, rows, columns]]),
            second_per_grid_ts=torch.tensor([seconds]),
        )
        cases.append(
            {
                "grid": [groups, rows, columns],
                "second_per_grid": seconds,
                "tokens_per_second": 2,
                "positions": where[:, 0].tolist(),
                "next": len(ids) + int(delta),
            }
        )
    return cases


def write(path: Path, tables: dict) -> None:
    """One case a line, so that a change of release reads as a diff."""
    parts = []
    for key, value in tables.items():
        lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
        parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def main(tokenizer_folder: str) -> None:
    declare_torchvision_operators()
    import transformers
    from transformers import AutoTokenizer, Qwen2_5_VLProcessor, Qwen2VLVideoProcessor

    newer = transformers.__version__ >= "5"
    if newer:
        from transformers import Qwen2VLImageProcessor as ImageProcessor
    else:
        from transformers import Qwen2VLImageProcessorFast as ImageProcessor

    def make_processor(**changes):
        cap = {"cap_pixels_per_frame": True} if newer else {}
        return Qwen2VLVideoProcessor(**cap, **changes)

    processor = Qwen2_5_VLProcessor(
        image_processor=ImageProcessor(),
        tokenizer=AutoTokenizer.from_pretrained(tokenizer_folder),
        video_processor=make_processor(size={"shortest_edge": 1, "longest_edge": 10**6}),
    )
    here = Path(__file__).parent
    if newer:
        tables = {"sampling": sampling(), "sizes": sizes(make_processor)}
        write(here / "qwen2_5_vl.json", tables | {"prompts": prompts(processor)})
        np.savez_compressed(here / "qwen2_5_vl.npz", **pixels(make_processor))
    else:
        saved = json.loads((here / "qwen2_5_vl.json").read_text(encoding="utf-8"))
        assert prompts(processor) == saved["prompts"], "prompts are not as in 5.24.0"
        write(here / f"qwen2_5_vl-{transformers.__version__}.json", {"positions": positions()})


if __name__ == "__main__":
    main(sys.argv[1])
