"""What a run needs, counted before any weights are read: rows, tokens, memory, time."""

import math
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data.errors import UserError
from cctv.data.schema import SIDES, Scene
from cctv.data.video import VideoDecodeError
from cctv.decoding import sharding
from cctv.decoding.engine import PREFIX, QUESTIONS, SUFFIX, bucket, common_prefix, multiple
from cctv.models import weights
from cctv.models.base import Prompt
from cctv.models.decoder import BLOCK, MAX_BLOCKS, DecoderConfig
from cctv.runs import predict
from cctv.runs.prepare import Plan

ASSUMED_USE = 0.4  # share of the measured matmul rate that a run reaches


class Model(NamedTuple):
    """What a model and the methods cost: scalars of weights that a device holds, and of a visual
    token's features; streams of a scene; rows of streams that are copied when an answer takes more
    than a token."""

    decoder: DecoderConfig
    parameters: int
    feature: int
    streams: int
    copies: int
    max_new_tokens: int


class Load(NamedTuple):
    """The largest video of a run: tokens that its questions share, the longest rest of a prompt,
    the most questions of a video, visual tokens, and its volume in pixels."""

    prefix: int
    suffix: int
    questions: int
    visual: int
    pixels: int


class Memory(NamedTuple):
    """Bytes on the device."""

    weights: int
    caches: int
    features: int
    logits: int
    activations: int


def memory(model: Model, load: Load, *, batch: int, itemsize: int) -> Memory:
    """What is held at once where most is: when the largest scene is answered.

    Counted from the shapes of `cctv.decoding`; what the compiler adds or saves is not known here,
    nor is the vision tower's own work. On a mesh it is of one device, which has a scene of its own;
    only its share of the weights is counted as split.
    """
    c, rows = model.decoder, model.streams + model.copies
    prefix, suffix = bucket(load.prefix, least=PREFIX), multiple(load.suffix, SUFFIX)
    questions = multiple(min(batch, load.questions), QUESTIONS)
    per_token = 2 * c.num_layers * c.num_kv_heads * c.head_dim * itemsize
    own = questions * (suffix + model.max_new_tokens)
    table = bucket(model.streams * load.visual, least=PREFIX)
    # One block of queries against the whole input in float32, and a layer's widest arrays.
    scores = 4 * c.num_heads * max(BLOCK, prefix // MAX_BLOCKS) * prefix
    layer = max(prefix, questions * suffix) * (2 * c.active_mlp_dim + 4 * c.width) * itemsize
    return Memory(
        weights=model.parameters * itemsize,
        caches=rows * (prefix + own) * per_token,
        features=table * model.feature * itemsize,
        logits=4 * rows * questions * c.vocab_size,
        activations=model.streams * (scores + layer),
    )


def device_memory() -> tuple[str, int]:
    """(name, bytes) of what there is: the device's own limit, else the machine's memory."""
    device = jax.local_devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return device.device_kind, limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(plan: Plan) -> str:
    """One line about the memory that the run needs; UserError when it is more than there is."""
    load = _largest(plan)
    if load is None:
        return "memory: no video can be read"
    model = _model(plan, load)
    itemsize = jnp.dtype(plan.config.model.dtype).itemsize
    need = memory(model, load, batch=plan.config.batch, itemsize=itemsize)
    name, limit = device_memory()
    if sum(need) > limit:
        options = list(_what_fits(plan, model, load, limit=limit, itemsize=itemsize))
        advice = f"this would fit: {' or '.join(options)}" if options else (
            "no setting alone would fit: use a smaller model, smaller videos or another device"
        )  # fmt: skip
        raise UserError(
            f"the run needs about {_gb(sum(need))} of memory and {name} has {_gb(limit)}; {advice}"
        )
    parts = ", ".join(f"{_gb(size)} {part}" for part, size in need._asdict().items())
    return f"memory: about {_gb(sum(need))} of {_gb(limit)} on {name} ({parts})"


def _what_fits(plan: Plan, model: Model, load: Load, *, limit: int, itemsize: int) -> Iterator[str]:
    """Flags that alone make it fit, with the largest value that does."""

    def fits(load: Load = load, batch: int = plan.config.batch, itemsize: int = itemsize) -> bool:
        return sum(memory(model, load, batch=batch, itemsize=itemsize)) <= limit

    most = min(plan.config.batch, load.questions)
    batch = next((b for b in range(most - 1, 0, -1) if fits(batch=b)), None)
    if batch:
        yield f"--config.batch={batch}"
    for percent in range(95, 0, -5):
        visual = load.visual * percent // 100
        pixels = load.pixels * percent // 100
        if "max_pixels" not in plan.config.video:
            break
        smaller = load._replace(visual=visual, prefix=load.prefix - load.visual + visual)
        if pixels >= (plan.config.video.get("min_pixels") or 1) and fits(smaller):
            yield f"--config.video.max_pixels={pixels}"
            break
    if itemsize > 2 and fits(itemsize=2):
        yield "--config.model.dtype=bfloat16"


def _model(plan: Plan, load: Load) -> Model:
    c = plan.config
    abstract = nnx.eval_shape(lambda: plan.family.Model(plan.model_config, rngs=nnx.Rngs(0)))
    clip = next(v for v in plan.videos.values() if not isinstance(v, VideoDecodeError))
    # One group of frames tells the width of a visual token's features.
    shape = clip.frames.shape[1:3]
    group = clip._replace(frames=np.zeros((1, *shape, 3), np.uint8))
    inputs = plan.encoder.vision_inputs(group)
    features = jax.eval_shape(lambda m, x: m.encode_video(x), abstract, inputs)  # [1, V, 1 + E, D]
    return Model(
        decoder=abstract.decoder_config,
        parameters=sharding.scalars_per_device(
            {path: leaf.shape for path, leaf in weights.leaves(abstract).items()},
            config=abstract.decoder_config,
            model=c.mesh[1],
        ),
        feature=math.prod(features.shape[2:]),
        streams=len(SIDES) * _forms(plan),
        copies=len(SIDES) * max(s.method.branches for s in plan.systems),
        max_new_tokens=c.max_new_tokens,
    )


def _forms(plan: Plan) -> int:
    """A video itself, and once more for each method that changes it."""
    return 1 + len({s.method.name for s in plan.systems} & {"vcd", "tcd"})


def _largest(plan: Plan) -> Load | None:
    """None without a video that can be read."""
    found = [
        (math.prod(clip.frames.shape[:3]), i, side)
        for i, scene in enumerate(plan.scenes)
        for side in SIDES
        if not isinstance(clip := plan.videos[plan.video(scene, side)], VideoDecodeError)
    ]
    if not found:
        return None
    pixels, i, side = max(found)
    prompts = prompts_of(plan, plan.scenes[i], side)
    shared = common_prefix(prompts)
    longest = max((q for s in plan.scenes for q in predict.questions(s)), key=len)
    text = plan.config.prompt.replace("{question}", longest)
    clip = plan.videos[plan.video(plan.scenes[i], side)]
    lengths = [len(p.tokens) for p in (*prompts, *plan.encoder.prompts([text], clip))]
    return Load(
        prefix=shared,
        suffix=max(lengths) - shared,
        questions=max(2 * len(s.questions) for s in plan.scenes),
        visual=int((prompts[0].visual >= 0).sum()),
        pixels=pixels,
    )


def prompts_of(plan: Plan, scene: Scene, side: str) -> list[Prompt]:
    """The prompts of all questions about a video that can be read."""
    clip = plan.videos[plan.video(scene, side)]
    texts = [plan.config.prompt.replace("{question}", q) for q in predict.questions(scene)]
    return plan.encoder.prompts(texts, clip)


def dry_run(plan: Plan) -> int:
    """Prints what would run; loads no weights, writes nothing to the workdir."""
    tokens, visual, longest = 0, [], 0
    for scene in plan.scenes:
        for side in SIDES:
            if isinstance(plan.videos[plan.video(scene, side)], VideoDecodeError):
                continue
            prompts = prompts_of(plan, scene, side)
            shared, lengths = common_prefix(prompts), [len(p.tokens) for p in prompts]
            tokens += shared + sum(n - shared for n in lengths)
            visual.append(int((prompts[0].visual >= 0).sum()))
            longest = max(longest, *lengths)
    pairs = sum(len(s.questions) for s in plan.scenes)
    print(f"data: {plan.dataset.root}: {len(plan.scenes)} scenes, {len(visual)} readable videos, "
          f"{pairs} question pairs")  # fmt: skip
    for system in plan.systems:
        print(f"method: {system.method.name}, alpha {system.alpha:g}: {4 * pairs} rows")
    print(f"checkpoint: {plan.folder}")
    abstract = nnx.eval_shape(lambda: plan.family.Model(plan.model_config, rngs=nnx.Rngs(0)))
    parameters, dtype = weights.parameter_count(abstract), plan.config.model.dtype
    print(f"model: {parameters / 1e9:.3f} B parameters, "
          f"{_gb(parameters * jnp.dtype(dtype).itemsize)} in {dtype}")  # fmt: skip
    print(f"prompts: {int(np.median(visual or [0]))} visual tokens a video (median), the longest "
          f"{longest} tokens; {_forms(plan) * tokens} tokens through the model")  # fmt: skip
    used = parameters - abstract.decoder_config.idle_parameters
    flops = 2 * used * tokens * _forms(plan)
    rate = measured_flops(dtype)
    print(f"work: {flops / 1e12:.2f} TFLOP at {rate / 1e9:.0f} GFLOP/s measured on "
          f"{jax.devices()[0].device_kind}: about {_duration(flops / (rate * ASSUMED_USE))} at "
          f"{ASSUMED_USE:.0%} of it, compilation aside")  # fmt: skip
    print(check_memory(plan))
    return 0


def measured_flops(dtype: str) -> float:
    """FLOP a second of a square matmul on the default device, the best of a few."""
    size = 4096 if jax.default_backend() != "cpu" else 1024
    x = jnp.ones((size, size), dtype)
    multiply = jax.jit(lambda a: a @ a)
    multiply(x).block_until_ready()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        multiply(x).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
