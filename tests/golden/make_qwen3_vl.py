"""Writes what transformers' own Qwen3-VL processors give, for tests that must not import them.

transformers' video processors need torchvision, and a torchvision beside a CPU torch breaks every
other import of transformers. So the reference runs in an environment of its own, once a release:

    python tests/qwen_tokenizer.py /tmp/qwen          # in the test environment
    python3 -m venv golden && golden/bin/pip install torch==2.13.0 transformers==5.24.0 pillow
    golden/bin/pip install --no-deps torchvision==0.28.0
    golden/bin/python tests/golden/make_qwen3_vl.py /tmp/qwen
    # and again with transformers==4.57.6

Writes qwen3_vl-VERSION.json (sampling, sizes, time stamps, prompts) beside this file and, with
5.24.0, qwen3_vl.npz (`NAME_frames` uint8[F, H, W, 3]; `NAME_patches` uint8[N, C*T*P*P], the pixel
values before / 255; `NAME_grid`). Another release is checked to give the same pixels. 4.57.6
refuses a side under 32 pixels: such a size is null in its file.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

# The checkpoints' video_preprocessor_config.json, not the defaults of the class.
CHECKPOINT = {
    "size": {"shortest_edge": 4096, "longest_edge": 25165824},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
RATES = (10, 15, 24000 / 1001, 24, 25, 30000 / 1001, 30, 60, 0.7, 7.3)
TOTALS = (1, 2, 3, 4, 5, 7, 8, 29, 30, 31, 100, 149, 150, 299, 300, 380, 1000, 17937)
# name: (frames, height, width, longest_edge or None)
VIDEOS = {
    "same_size": (2, 32, 64, None),
    "odd_frames": (5, 48, 80, None),
    "three_frames": (3, 70, 40, None),
    "one_frame": (1, 60, 100, None),
    "tall": (4, 90, 44, None),
    "small": (2, 17, 40, None),
    "shrunk": (4, 100, 120, 4 * 64 * 64),
    "much_shrunk": (2, 200, 130, 2 * 64 * 64),
}
QUESTIONS = (
    "Did the two cars collide?",
    "You are given a traffic video and a question. Answer based only on the video with exactly one"
    " word: Yes or No. Question: Was the red car's door open at 0.5 s?",
    " leading space, trailing newline\n",
    "\n\nnewlines first: naïve café, 车祸, 🚗\t3.14",
)


def declare_torchvision_operators() -> None:
    """Lets a torchvision whose compiled part does not load be imported: its Python part is enough.

    On import torchvision registers shape rules for its own operators, which fails if nobody has
    declared them. Only their names matter here, none is ever called.
    """
    library = torch.library.Library("torchvision", "DEF")
    names = ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d"]
    for name in ["nms", "qnms", *names, *(f"_{n}_backward" for n in names)]:
        library.define(f"{name}(Tensor a) -> Tensor")
    globals()["_library"] = library  # the declarations live as long as the object


def sampling(processor, metadata_class) -> list[dict]:
    """Frame numbers for many lengths and rates, and for a fixed number of frames."""
    cases = []
    for total in TOTALS:
        meta = metadata_class(total_num_frames=total, fps=30)
        for fps in RATES:
            meta.fps = fps
            indices = processor.sample_frames(metadata=meta)
            cases.append({"total": total, "fps": fps, "indices": indices.tolist()})
        for n in (1, 2, 8, 16):
            if n <= total:
                indices = np.linspace(0, total - 1, n).round().astype(int)
                asked = processor_without_rate(processor, meta, n)
                assert np.array_equal(asked, indices)
                cases.append({"total": total, "num_frames": n, "indices": asked.tolist()})
    # Long ones keep their first and last few numbers and a sum: the file stays small.
    return [shorten(case) for case in cases]


def processor_without_rate(processor, meta, n: int) -> np.ndarray:
    """The reference refuses a number of frames while it has a default rate."""
    rate, processor.fps = processor.fps, None
    try:
        return processor.sample_frames(metadata=meta, num_frames=n)
    finally:
        processor.fps = rate


def shorten(case: dict) -> dict:
    indices = case["indices"]
    if len(indices) > 40:
        case["indices"] = {
            "length": len(indices),
            "head": indices[:10],
            "tail": indices[-10:],
            "weighted": sum(i * v for i, v in enumerate(indices)),
        }
    return case


def sizes(smart_resize) -> list[list[int]]:
    """[frames, height, width, min_pixels, max_pixels, new height, new width], null if refused."""
    rng = np.random.default_rng(0)
    cases = []
    for low, high in ((4096, 25165824), (131072, 786432), (200000, 300000)):
        for frames in (2, 3, 4, 5, 6, 7, 16, 17, 64, 300, 768):
            shapes = [(720, 1280), (1080, 1920), (480, 854), (240, 426), (20, 3000), (16, 16)]
            shapes += [tuple(s) for s in rng.integers(8, 2200, (12, 2)).tolist()]
            for height, width in shapes:
                try:
                    new = smart_resize(
                        num_frames=frames,
                        height=height,
                        width=width,
                        temporal_factor=2,
                        factor=32,
                        min_pixels=low,
                        max_pixels=high,
                    )
                except ValueError:
                    assert min(height, width) < 32
                    new = (None, None)
                cases.append([frames, height, width, low, high, *new])
    return cases


def pixels(make_processor) -> dict[str, np.ndarray]:
    """Frames and what the reference makes of them, for every entry of VIDEOS."""
    rng = np.random.default_rng(1)
    arrays = {}
    for name, (count, height, width, longest) in VIDEOS.items():
        ramp = np.linspace(0, 200, width)[None, None, :, None] + np.zeros((count, height, 1, 3))
        frames = (ramp + rng.integers(0, 56, ramp.shape)).astype(np.uint8)
        frames[:, : height // 2] = rng.integers(0, 256, frames[:, : height // 2].shape)
        # The reference refuses one frame: it gets the pair that one frame stands for.
        given = np.repeat(frames, 2, axis=0) if count == 1 else frames
        size = dict(CHECKPOINT["size"])
        if longest:
            size["longest_edge"] = longest
        try:
            out = make_processor(size=size)(
                videos=[torch.from_numpy(given).permute(0, 3, 1, 2)],
                do_sample_frames=False,
                return_tensors="pt",
            )
        except ValueError:
            assert min(height, width) < 32
            continue
        values = (out["pixel_values_videos"].numpy().astype(np.float64) * 0.5 + 0.5) * 255
        rounded = values.round()
        assert np.abs(values - rounded).max() < 1e-3, "pixels are whole steps before normalising"
        arrays[f"{name}_frames"] = frames
        arrays[f"{name}_patches"] = rounded.astype(np.uint8)
        arrays[f"{name}_grid"] = out["video_grid_thw"][0].numpy()
    return arrays


def prompts(processor, metadata_class) -> list[dict]:
    """Token ids of whole prompts: frame numbers, rate, size, question, system prompt."""
    cases = []
    picks = (
        ([0, 54, 108, 162, 217, 271, 325, 379], 30.0, 380),
        ([0, 10, 20, 30, 40], 24000 / 1001, 41),
        ([0, 1], 2.0, 2),
        ([0, 5000, 17936], 30000 / 1001, 17937),
    )
    for which, (indices, fps, total) in enumerate(picks):
        for question in QUESTIONS:
            for system in (None, "You are a helpful assistant."):
                head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
                text = (
                    f"{head}<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>{question}"
                    "<|im_end|>\n<|im_start|>assistant\n"
                )
                height, width = ((64, 96), (64, 64))[which % 2]
                frames = torch.zeros(len(indices), 3, height, width, dtype=torch.uint8)
                meta = metadata_class(total_num_frames=total, fps=fps, frames_indices=indices[:])
                out = processor(
                    text=[text],
                    videos=[frames],
                    video_metadata=[meta],
                    do_sample_frames=False,
                    return_tensors="pt",
                )
                case = {
                    "indices": indices,
                    "fps": fps,
                    "grid": out["video_grid_thw"][0].tolist(),
                    "time_stamps": processor._calculate_timestamps(indices[:], fps, 2),
                    "question": question,
                    "system": system,
                    "ids": out["input_ids"][0].tolist(),
                }
                cases.append(case)
    return cases


def main(tokenizer_folder: str) -> None:
    declare_torchvision_operators()
    import transformers
    from transformers import AutoTokenizer, Qwen3VLProcessor, Qwen3VLVideoProcessor
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize
    from transformers.video_utils import VideoMetadata

    if transformers.__version__ < "5":
        from transformers import Qwen2VLImageProcessorFast as ImageProcessor
    else:
        from transformers import Qwen2VLImageProcessor as ImageProcessor

    def make_processor(**changes):
        return Qwen3VLVideoProcessor(**{**CHECKPOINT, **changes})

    video_processor = make_processor()
    processor = Qwen3VLProcessor(
        image_processor=ImageProcessor(patch_size=16),
        tokenizer=AutoTokenizer.from_pretrained(tokenizer_folder),
        video_processor=video_processor,
    )
    tables = {
        "transformers": transformers.__version__,
        "sampling": sampling(video_processor, VideoMetadata),
        "sizes": sizes(smart_resize),
        "prompts": prompts(processor, VideoMetadata),
    }
    stem = Path(__file__).with_name(f"qwen3_vl-{transformers.__version__}")
    # One case a line, so that a change of release reads as a diff.
    with open(f"{stem}.json", "w", encoding="utf-8") as file:
        parts = []
        for key, value in tables.items():
            if isinstance(value, list):
                lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
                parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
            else:
                parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
        file.write("{\n" + ",\n".join(parts) + "\n}\n")
    arrays, archive = pixels(make_processor), stem.with_name("qwen3_vl.npz")
    if transformers.__version__ == "5.24.0":
        np.savez_compressed(archive, **arrays)
    saved = np.load(archive)
    for name, array in arrays.items():
        assert np.array_equal(saved[name], array), f"{name} is not as in 5.24.0"
    print(f"{transformers.__version__}: {len(arrays) // 3} of {len(VIDEOS)} videos as in 5.24.0")


if __name__ == "__main__":
    main(sys.argv[1])
