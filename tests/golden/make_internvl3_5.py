"""Writes what transformers' own InternVL processors give, for tests that must not import them.

In the environment that make_qwen3_vl.py describes:

    python tests/qwen_tokenizer.py /tmp/qwen          # in the test environment
    golden/bin/python tests/golden/make_internvl3_5.py /tmp/qwen

Writes beside this file internvl3_5.npz (`NAME_frames` uint8[F, H, W, 3]; `NAME_tiles`
uint8[F, S, S, 3], the pixel values before normalising) and internvl3_5.json (token ids of whole
prompts). Those of the form "transformers" are of `InternVLProcessor`; those of "original" are of
text as the original chat code puts it together, with a line break at the end of every frame's line.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from make_qwen3_vl import QUESTIONS, declare_torchvision_operators

sys.path.insert(0, str(Path(__file__).parents[1]))
from qwen_tokenizer import extend

# The checkpoints' values, not the defaults of the class.
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# The tokens that InternVL3.5 has behind Qwen3's: ids 151669 to 151677; <video> is of the processor.
ADDED = [
    *("<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>", "<ref>", "</ref>", "<box>"),
    *("</box>", "<video>"),
]
# name: (frames, height, width, side of a tile)
VIDEOS = {
    "same_size": (2, 56, 56, 56),
    "wide": (3, 60, 100, 56),
    "tall": (1, 90, 44, 56),
    "grown": (2, 20, 30, 84),
}
SYSTEMS = (
    None,
    # what the original code always sends
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。",
    "You are a helpful assistant.",
)


def pixels(make_processor) -> dict[str, np.ndarray]:
    """Frames and what the reference makes of them, for every entry of VIDEOS."""
    rng = np.random.default_rng(1)
    arrays = {}
    for name, (count, height, width, side) in VIDEOS.items():
        ramp = np.linspace(0, 200, width)[None, None, :, None] + np.zeros((count, height, 1, 3))
        frames = (ramp + rng.integers(0, 56, ramp.shape)).astype(np.uint8)
        frames[:, : height // 2] = rng.integers(0, 256, frames[:, : height // 2].shape)
        out = make_processor(size={"height": side, "width": side})(
            videos=[torch.from_numpy(frames).permute(0, 3, 1, 2)],
            do_sample_frames=False,
            return_tensors="pt",
        )
        values = out["pixel_values_videos"][0].permute(0, 2, 3, 1).numpy().astype(np.float64)
        values = (values * STD + MEAN) * 255
        rounded = values.round()
        assert np.abs(values - rounded).max() < 1e-3, "pixels are whole steps before normalising"
        arrays[f"{name}_frames"] = frames
        arrays[f"{name}_tiles"] = rounded.astype(np.uint8)
    return arrays


def chat(video: str, question: str, system: str | None) -> str:
    head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    return f"{head}<|im_start|>user\n{video}{question}<|im_end|>\n<|im_start|>assistant\n"


def prompts(make_processor) -> list[dict]:
    """Frames, tokens of each, question and system prompt of some prompts, in both forms."""
    cases = []
    for count, tokens in ((1, 4), (3, 4), (12, 2), (2, 256)):
        processor = make_processor(tokens)
        frames = torch.zeros(count, 3, 56, 56, dtype=torch.uint8)
        for question in QUESTIONS:
            for system in SYSTEMS:
                case = {"frames": count, "tokens": tokens, "question": question, "system": system}
                # The checkpoints' chat template puts a line break after the video.
                text = chat("<video>\n", question, system)
                out = processor(text=[text], videos=[frames], return_tensors="pt")
                ids = out["input_ids"][0].tolist()
                cases.append(case | {"form": "transformers", "ids": ids})
                image = f"<img>{'<IMG_CONTEXT>' * tokens}</img>"
                lines = "".join(f"Frame{i + 1}: {image}\n" for i in range(count))
                ids = processor.tokenizer(chat(lines, question, system)).input_ids
                cases.append(case | {"form": "original", "ids": ids})
            if tokens == 256:
                break
    return cases


def main(tokenizer_folder: str) -> None:
    declare_torchvision_operators()
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLProcessor,
        InternVLVideoProcessor,
        PreTrainedTokenizerFast,
    )

    with tempfile.TemporaryDirectory() as folder:
        extend(Path(tokenizer_folder), Path(folder), ADDED)
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json",
            extra_special_tokens={
                "start_image_token": "<img>",
                "end_image_token": "</img>",
                "context_image_token": "<IMG_CONTEXT>",
                "video_token": "<video>",
            },
        )

    def video_processor(size):
        return InternVLVideoProcessor(size=size, image_mean=MEAN, image_std=STD)

    def make_processor(tokens):
        return InternVLProcessor(
            image_processor=GotOcr2ImageProcessor(),
            tokenizer=tokenizer,
            video_processor=video_processor({"height": 56, "width": 56}),
            image_seq_length=tokens,
        )

    stem = Path(__file__).with_name("internvl3_5")
    found = prompts(make_processor)
    with open(stem.with_suffix(".json"), "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in found)
        file.write('{"prompts": [\n' + lines + "\n]}\n")
    np.savez_compressed(stem.with_suffix(".npz"), **pixels(video_processor))
    print(f"{len(found)} prompts, {len(VIDEOS)} videos")


if __name__ == "__main__":
    main(sys.argv[1])
