"""Writes what transformers' own VideoLLaMA3 processors give, for tests that must not import them.

In the environment that make_qwen3_vl.py describes:

    python tests/qwen_tokenizer.py /tmp/qwen          # in the test environment
    golden/bin/python tests/golden/make_videollama3.py /tmp/qwen

Writes beside this file videollama3.json (sizes, prompts) and videollama3.npz (`NAME_frames`
uint8[F, H, W, 3]; `NAME_patches` uint8[N, C*P*P], the pixel values before / 255, not of `still`;
`NAME_grid`; `NAME_kept` bool[tokens]).

Prompts of the layout "transformers" are token ids of `VideoLlama3Processor`. Those of "original"
are of text in the form of the original's chat_template.json, with a tokenizer of Qwen2.5's added
tokens and `<image>` behind them, as the published one has.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from make_qwen3_vl import QUESTIONS, declare_torchvision_operators

# The checkpoints' video_preprocessor_config.json, not the defaults of the class.
CHECKPOINT = {
    "size": {"shortest_edge": 12544, "longest_edge": 12845056},
    "patch_size": 14,
    "temporal_patch_size": 1,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "use_token_compression": True,
}
# name: (frames, height, width, shortest_edge, longest_edge)
VIDEOS = {
    "same_size": (3, 56, 84, 1568, 12845056),
    "one_frame": (1, 60, 80, 1568, 12845056),
    "shrunk": (2, 100, 120, 1568, 2 * 56 * 84),
    "grown": (2, 30, 44, 12544, 12845056),
    "still": (7, 56, 84, 1568, 12845056),
}
SIDE = 28  # pixels of a token


def sizes(smart_resize) -> list[list[int]]:
    """[frames, height, width, min_pixels, max_pixels, new height, new width]."""
    rng = np.random.default_rng(0)
    cases = []
    for low, high in ((12544, 12845056), (3136, 602112), (12544, 200000)):
        for frames in (1, 2, 3, 8, 16, 37, 128, 180):
            shapes = [(720, 1280), (1080, 1920), (480, 854), (240, 426), (20, 3000), (16, 16)]
            shapes += [tuple(s) for s in rng.integers(8, 2200, (8, 2)).tolist()]
            for height, width in shapes:
                new = smart_resize(
                    height, width, factor=SIDE, min_pixels=low, max_pixels=high // frames
                )
                cases.append([frames, height, width, low, high, *new])
    return cases


def still(frames: np.ndarray) -> np.ndarray:
    """Frames that repeat the first but for changes around the threshold: a token is kept when the
    steps of its 28 * 28 * 3 values sum to 118 or more (0.1 of normalised pixels times 255)."""
    frames[1:] = frames[0]
    block = np.zeros(SIDE * SIDE * 3, np.uint8)
    for number, (first, steps) in enumerate(((2, 117), (3, 118), (4, 500))):
        change = block.copy()
        change[:steps] = 1
        row, column = divmod(number + 1, 3)  # the first token is kept if no other is
        where = np.s_[first:, row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE]
        frames[where] += change.reshape(SIDE, SIDE, 3)
    frames[6, :, 40:] = 255 - frames[6, :, 40:]
    return frames


def pixels(make_processor) -> dict[str, np.ndarray]:
    """Frames and what the reference makes of them, for every entry of VIDEOS."""
    rng = np.random.default_rng(1)
    arrays = {}
    for name, (count, height, width, shortest, longest) in VIDEOS.items():
        ramp = np.linspace(0, 200, width)[None, None, :, None] + np.zeros((count, height, 1, 3))
        frames = (ramp + rng.integers(0, 3, ramp.shape)).astype(np.uint8)
        if name == "still":
            frames = still(frames)
        out = make_processor(size={"shortest_edge": shortest, "longest_edge": longest})(
            videos=[torch.from_numpy(frames).permute(0, 3, 1, 2)],
            do_sample_frames=False,
            return_tensors="pt",
        )
        values = (out["pixel_values_videos"].numpy().astype(np.float64) * 0.5 + 0.5) * 255
        rounded = values.round()
        assert np.abs(values - rounded).max() < 1e-3, "pixels are whole steps before normalising"
        arrays[f"{name}_frames"] = frames
        if name != "still":
            arrays[f"{name}_patches"] = rounded.astype(np.uint8)
        arrays[f"{name}_grid"] = out["video_grid_thw"][0].numpy()
        arrays[f"{name}_kept"] = out["video_compression_mask"].numpy()
    return arrays


PICKS = (
    ([0, 54, 108, 162, 217, 271, 325, 379], 30.0),
    ([0, 10, 20, 30, 40], 24000 / 1001),
    ([0, 1], 2.0),
    ([0, 5000, 17936], 30000 / 1001),
)
SYSTEMS = (None, "You are a helpful assistant.")


def chat(video: str, question: str, system: str | None) -> str:
    head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    return f"{head}<|im_start|>user\n{video}{question}<|im_end|>\n<|im_start|>assistant\n"


def prompts(processor, original, metadata_class) -> list[dict]:
    """Token ids of whole prompts: times, tokens of each frame, question, system, line break."""
    forms = [(question, None, "\n") for question in QUESTIONS]
    forms += [(QUESTIONS[-1], None, ""), (QUESTIONS[1], "You are a helpful assistant.", "\n")]
    cases = []
    for which, (indices, fps) in enumerate(PICKS):
        for question, system, end in forms:
            frames = torch.zeros(len(indices), 3, 112, 112 + 28 * which, dtype=torch.uint8)
            frames[len(indices) // 2 :, :, 30:90] = 9  # several tokens of one frame
            meta = metadata_class(
                total_num_frames=indices[-1] + 1, fps=fps, frames_indices=indices[:]
            )
            out = processor(
                text=[chat(f"<|video_pad|>{end}", question, system)],
                videos=[frames],
                video_metadata=[meta],
                do_sample_frames=False,
                return_tensors="pt",
            )
            kept = out["video_compression_mask"].reshape(len(indices), -1).sum(1).tolist()
            times = [index / fps for index in indices]
            lines = (f"Time {round(t, 1)}s:" + "<image>" * n for t, n in zip(times, kept))
            text = chat(",".join(lines) + end, question, system)
            case = {"times": times, "kept": kept, "question": question, "system": system,
                    "newline": bool(end)}  # fmt: skip
            cases.append(case | {"layout": "transformers", "ids": out["input_ids"][0].tolist()})
            cases.append(case | {"layout": "original", "ids": original(text).input_ids})
    return cases


def with_image_token(source: str, folder: str) -> None:
    """Qwen's tokenizer with the added tokens of the original layout."""
    saved = json.loads((Path(source) / "tokenizer.json").read_text())
    saved["added_tokens"] = [t for t in saved["added_tokens"] if t["id"] < 151665]
    saved["added_tokens"].append(saved["added_tokens"][0] | {"id": 151665, "content": "<image>"})
    (Path(folder) / "tokenizer.json").write_text(json.dumps(saved))


def main(tokenizer_folder: str) -> None:
    declare_torchvision_operators()
    from transformers import (
        AutoTokenizer,
        PreTrainedTokenizerFast,
        VideoLlama3ImageProcessor,
        VideoLlama3Processor,
        VideoLlama3VideoProcessor,
    )
    from transformers.models.video_llama_3.video_processing_video_llama_3 import smart_resize
    from transformers.video_utils import VideoMetadata

    def make_processor(**changes):
        return VideoLlama3VideoProcessor(**{**CHECKPOINT, **changes})

    processor = VideoLlama3Processor(
        image_processor=VideoLlama3ImageProcessor(),
        tokenizer=AutoTokenizer.from_pretrained(tokenizer_folder),
        video_processor=make_processor(),
    )
    with tempfile.TemporaryDirectory() as folder:
        with_image_token(tokenizer_folder, folder)
        original = PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
    tables = {
        "sizes": sizes(smart_resize),
        "prompts": prompts(processor, original, VideoMetadata),
    }
    stem = Path(__file__).with_name("videollama3")
    # One case a line, so that a change of release reads as a diff.
    with open(f"{stem}.json", "w", encoding="utf-8") as file:
        parts = []
        for key, value in tables.items():
            lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        file.write("{\n" + ",\n".join(parts) + "\n}\n")
    np.savez_compressed(f"{stem}.npz", **pixels(make_processor))


if __name__ == "__main__":
    main(sys.argv[1])
