"""The whole run, phase by phase: data, model, decode, write, score, report."""

import contextlib
import fcntl
import math
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from ml_collections import ConfigDict
from tqdm import tqdm

from cctv.data import facts, schema
from cctv.data.errors import UserError
from cctv.data.pool import DecodePool
from cctv.data.schema import SIDES, Scene
from cctv.data.video import VideoDecodeError
from cctv.decoding import sharding
from cctv.decoding.engine import Engine
from cctv.metrics import evaluate as statistics
from cctv.models import weights
from cctv.reports import page, tables
from cctv.runs import builtin, estimate, manifest, predict, prepare, rows, strips
from cctv.runs import config as configs
from cctv.runs.prepare import Plan


class Clock:
    """Seconds by phase."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0) + time.perf_counter() - start


def evaluate(
    config: ConfigDict, workdir: Path, *, dry_run: bool = False, alphas: Sequence[float] = ()
) -> int:
    """Runs a config in a workdir, or goes on with what is there. Returns the exit status.

    `alphas` runs every contrastive method at each of these α instead of config.alpha; they share
    all passes through the model but the choice of tokens.

    1 when a cell gave non-finite logits, or a video that was sound at first could not be read in
    the end (and config.allow_missing is off), else 0. Raises UserError or OSError, one line, for
    what a user can mend; what was done by then is on disk.
    """
    configs.check(config, alphas=alphas)
    alphas = alphas or (config.alpha,)
    clock = Clock()
    _set_up_jax(config)
    plan = prepare.prepare(config, clock, alphas=alphas)
    if dry_run:
        return estimate.dry_run(plan)
    with clock("digest"):
        identity = plan.identity()
    with _locked(workdir):
        found = manifest.resume(workdir, identity)
        old = rows.merge(workdir) if list(workdir.glob("predictions-*.jsonl")) else []
        _same_videos(old, plan)
        done = rows.done_keys(old)
        todo = [s for s in plan.scenes if _missing(plan, s, done)]
        if todo:  # before anything says that this workdir is of this run
            print(estimate.check_memory(plan), file=sys.stderr)
        rows.write_json(workdir / "config.json", config.to_dict())
        invocation = _begin(plan)
        found["provenance"]["invocations"].append(invocation)
        manifest.write(workdir, found)
        _say_plan(plan, done)
        late = 0
        try:
            if todo:
                with _out_of_memory(config):
                    late = _decode(plan, workdir, todo, done, clock=clock, invocation=invocation)
        finally:
            _note(invocation, clock)
            manifest.write(workdir, found)
        broken = _report(plan, workdir, clock, found)
        _note(invocation, clock)
        manifest.write(workdir, found)
    return 1 if broken or (late and not config.allow_missing) else 0


def _set_up_jax(config: ConfigDict) -> None:
    jax.config.update("jax_compilation_cache_dir", str(builtin.cache_folder() / "jax"))
    if config.model.dtype == "float32":
        # GPUs would multiply float32 in TF32, TPUs in bfloat16 passes.
        jax.config.update("jax_default_matmul_precision", "highest")
    chosen = jax.config.jax_platforms  # whoever asked for the CPU knows
    if not chosen and jax.default_backend() == "cpu" and shutil.which("nvidia-smi"):
        print(
            "warning: a GPU is there, but jax runs on the CPU: pip install '.[cuda]'",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[None]:
    """Creates the workdir and keeps a second process out of it."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock = open(workdir / ".lock", "w")  # noqa: SIM115 - held until the end of the run
    except OSError as error:
        raise OSError(error.errno, f"can't write {workdir}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{workdir}: another run is writing here") from None
        yield


def _same_videos(done: Sequence[Mapping], plan: Plan) -> None:
    """UserError when a video is another one than when its rows were written."""
    scenes = {s.scene_id: s for s in plan.dataset.scenes}
    for (scene_id, side), digest in strips.digests(done).items():
        path = plan.dataset.video_path(scenes[scene_id], side) if scene_id in scenes else None
        if path and path.is_file() and schema.video_digest(path) != digest:
            raise UserError(f"{path}: changed since its rows were written; choose another workdir")


def _decode(
    plan: Plan, workdir: Path, todo: Sequence[Scene], done: set, *, clock: Clock, invocation: dict
) -> int:
    """Runs the scenes that lack rows; `invocation` notes what is written and what can't be read.

    Returns how many videos could not be read that were sound when they were validated.
    """
    c, late = plan.config, 0
    mesh = sharding.make_mesh(tuple(c.mesh)) if math.prod(c.mesh) > 1 else None
    engine = Engine(
        _load_model(plan, mesh, clock),
        plan.encoder,
        batch=c.batch,
        vision_batch=c.vision_batch,
        max_new_tokens=c.max_new_tokens,
        share_base_segment=c.share_base_segment,
        seed=c.seed,
        mesh=mesh,
    )
    paths = [(plan.video(scene, side),) for scene in todo for side in SIDES]
    finished = len(plan.scenes) - len(todo)
    with (
        rows.RowWriter(rows.shard_path(workdir, 0, 1)) as writer,
        DecodePool(min(c.data.workers, len(paths)), timeout=c.data.timeout) as pool,
        tqdm(total=len(plan.scenes), initial=finished, unit="scene", disable=None) as bar,
    ):
        clips = pool.imap(plan.encoder.load_clip, paths)
        for first in range(0, len(todo), c.mesh[0]):
            scenes = todo[first : first + c.mesh[0]]  # one for each part of the mesh
            with clock("wait for frames"):
                units = [predict.Unit(s, {side: next(clips)[1] for side in SIDES}) for s in scenes]
            for scene, both in units:
                late += _name_errors(plan, scene, both, invocation)
                strips.write(workdir, [v for v in both.values() if not _is_error(v)])
            # All systems, also where only one lacks rows: the same shapes give the same bits.
            with clock("model"):
                made = predict.rows_of(units, plan.systems, engine=engine, prompt=c.prompt)
            with clock("write"):
                new = writer.write(r for r in made if rows.key(r) not in done)
                invocation["rows_written"] += new
            invocation["shared"] = dict(engine.counts)
            bar.update(len(scenes))
    return late


def _load_model(plan: Plan, mesh: Mesh | None, clock: Clock) -> nnx.Module:
    with clock("load model"):
        place = {} if mesh is None else {"place": sharding.placer(mesh, plan.model_config.text)}
        abstract = nnx.eval_shape(
            lambda: plan.family.Model(plan.model_config, rngs=nnx.Rngs(plan.config.seed))
        )
        return weights.load(
            plan.folder,
            abstract,
            plan.family.rules(plan.model_config),
            dtype=jnp.dtype(plan.config.model.dtype),
            tied=plan.family.TIED,
            layout=getattr(plan.model_config, "layout", None),  # of a family with several
            **place,
        )


def _name_errors(plan: Plan, scene: Scene, clips: Mapping[str, Any], invocation: dict) -> int:
    """Notes the videos of a scene that could not be read; prints and counts those that are new."""
    new = 0
    for side, clip in clips.items():
        if _is_error(clip):
            invocation["video_errors"][scene.videos[side]] = clip.reason
            if not _is_error(plan.videos[plan.video(scene, side)]):
                print(f"error: {clip}", file=sys.stderr)
                new += 1
    return new


def _is_error(clip: Any) -> bool:
    return isinstance(clip, VideoDecodeError)


@contextlib.contextmanager
def _out_of_memory(config: ConfigDict) -> Iterator[None]:
    """Turns running out of memory, on the device or here, into the line that says what to set."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        text = str(error)
        if not (
            isinstance(error, MemoryError)
            or "RESOURCE_EXHAUSTED" in text
            or "Out of memory" in text
        ):
            raise
        raise UserError(
            f"out of memory at config.batch={config.batch}, config.vision_batch="
            f"{config.vision_batch}, config.model.dtype={config.model.dtype}: set "
            f"--config.batch={max(1, config.batch // 2)}, a smaller --config.vision_batch or "
            "--config.video.max_pixels, or "
            "--config.model.dtype=bfloat16; the same command goes on from what is on disk"
        ) from None


def _say_plan(plan: Plan, done: set) -> None:
    """One line before the long part begins."""
    cells = [
        rows.key(cell) in done
        for s in plan.systems
        for scene in plan.scenes
        for side in SIDES
        for cell in s.cells(scene, video=side)
    ]
    methods = ", ".join(
        f"{s.method.name} α={s.alpha:g}" if s.alpha else s.method.name for s in plan.systems
    )
    print(
        f"{plan.systems[0].model} on {len(plan.scenes)} scenes, {methods}: "
        f"{sum(cells)} of {len(cells)} rows are done",
        file=sys.stderr,
        flush=True,
    )


def _missing(plan: Plan, scene: Scene, done: set) -> bool:
    """Whether a scene lacks a row of any system."""
    return any(
        rows.key(cell) not in done
        for system in plan.systems
        for side in SIDES
        for cell in system.cells(scene, video=side)
    )


def _begin(plan: Plan) -> dict[str, Any]:
    """The manifest's entry of this invocation, as it stands before the first row."""
    c = plan.config
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "batch": c.batch,
        "vision_batch": c.vision_batch,
        "scenes": len(plan.scenes),
        "rows_written": 0,
        "video_errors": {},
        "warnings": list(plan.encoder.notes),
        **manifest.environment(),
    }


def _note(invocation: dict, clock: Clock) -> None:
    """Writes down the time and memory taken so far."""
    invocation["seconds"] = {k: round(v, 3) for k, v in clock.seconds.items()}
    invocation["peak_memory_gb"] = _peak_memory()


def _peak_memory() -> float:
    """Peak resident memory of this process and of its largest worker, 1e9 bytes."""
    usage = (resource.getrusage(who).ru_maxrss for who in _PROCESSES)
    return round(sum(usage) * 1024 / 1e9, 3)


_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _report(plan: Plan, workdir: Path, clock: Clock, found: Mapping) -> int:
    """metrics.json, report.md, report.html, and the tables on the terminal; the number of cells
    with non-finite logits."""
    chosen = {s.scene_id for s in plan.scenes}
    everything = rows.merge(workdir)
    kept = [r for r in everything if r["scene_id"] in chosen]
    if len(kept) < len(everything):
        print(f"{len(everything) - len(kept)} rows of scenes beyond config.limit are left out")
    b = plan.config.bootstrap
    with clock("score"):
        result = statistics.evaluate(
            kept,
            schema.pairs_of(plan.scenes),
            facts=facts.facts_of(plan.scenes),
            replicates=b.replicates,
            seed=b.seed,
        )
        rows.write_json(workdir / "metrics.json", result.metrics)
    errors = found["provenance"]["invocations"][-1]["video_errors"]
    notes, videos = _notes(plan, errors), strips.digests(kept)
    with clock("report"):
        page.write_report(
            workdir,
            title=f"cctv: {plan.systems[0].model} on {plan.dataset.root.name}",
            evaluation=result,
            rows=kept,
            scenes=[strips.about(s, plan.dataset, workdir, videos) for s in plan.scenes],
            notes=notes,
            settings=found["identity"],
        )
    print("\n".join([*notes, "", tables.as_text(tables.sections(*result, brief=True))]))
    print(f"results in {workdir}: report.html, report.md, metrics.json, predictions-*.jsonl")
    broken = sum(r["status"] == "not_finite" for r in kept)
    if broken:
        print(
            f"cctv: {broken} cells gave non-finite logits (status not_finite); "
            "try --config.model.dtype=float32 in another workdir",
            file=sys.stderr,
        )
    return broken


def _notes(plan: Plan, errors: Mapping[str, str]) -> list[str]:
    untrained = "The model is untrained (random weights): its numbers say nothing about video."
    unread = [f"{path} could not be read: {reason}" for path, reason in sorted(errors.items())]
    return unread if plan.config.model.path else [untrained, *unread]
