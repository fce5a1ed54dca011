"""The whole run, phase by phase: data, model, decode, write, score, report."""

import contextlib
import fcntl
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from ml_collections import ConfigDict
from tqdm import tqdm

from cctv import models
from cctv.data import schema, validate
from cctv.data.errors import UserError
from cctv.data.pool import DecodePool
from cctv.data.schema import SIDES, Dataset, Scene
from cctv.data.video import VideoDecodeError
from cctv.decoding.engine import Engine
from cctv.metrics import evaluate as statistics
from cctv.models import hub, weights
from cctv.reports import page, tables
from cctv.runs import builtin, estimate, manifest, predict, rows, strips
from cctv.runs import config as configs


class Plan(NamedTuple):
    """What a config asks for, resolved: nothing heavy is loaded yet."""

    config: ConfigDict
    dataset: Dataset
    scenes: Sequence[Scene]
    folder: Path
    family: Any
    model_config: Any
    encoder: Any
    systems: list[predict.System]

    def identity(self) -> dict[str, Any]:
        """What makes this run itself (see `manifest`)."""
        c = self.config
        return {
            "model": {
                "id": self.systems[0].model,
                "family": c.model.family,
                "weights": weights.digest(self.folder),
                "dtype": c.model.dtype,
                "input": self.encoder.settings(),
            },
            "run": c.run,
            "prompt": c.prompt,
            "max_new_tokens": c.max_new_tokens,
            "data": self.dataset.digest,
            "seed": c.seed,
            "methods": configs.method_settings(c),
        }


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

    1 when a cell gave non-finite logits, else 0. Raises UserError or OSError, one line, for what a
    user can mend; what was done by then is on disk.
    """
    configs.check(config)
    clock = Clock()
    _set_up_jax(config)
    plan = prepare(config, clock, alphas=alphas or (config.alpha,))
    if dry_run:
        return _dry_run(plan)
    with clock("digest"):
        identity = plan.identity()
    with _locked(workdir):
        found = manifest.resume(workdir, identity)
        rows.write_json(workdir / "config.json", config.to_dict())
        manifest.write(workdir, found)
        done = rows.merge(workdir) if list(workdir.glob("predictions-*.jsonl")) else []
        _same_videos(done, plan)
        invocation = {"started": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            written = _decode(plan, workdir, rows.done_keys(done), clock)
        finally:
            invocation |= {"seconds": {k: round(v, 3) for k, v in clock.seconds.items()}}
            invocation |= _provenance(plan)
            found["provenance"]["invocations"].append(invocation)
            manifest.write(workdir, found)
        invocation["rows_written"] = written
        status = _report(plan, workdir, clock, found)
        invocation["seconds"] = {k: round(v, 3) for k, v in clock.seconds.items()}
        invocation["peak_memory_gb"] = _peak_memory()
        manifest.write(workdir, found)
    return status


def prepare(config: ConfigDict, clock: Clock, *, alphas: Sequence[float]) -> Plan:
    """Data and checkpoint found and checked; videos validated before a model is loaded."""
    with clock("make built-in data"):
        data = Path(config.data.path) if config.data.path else _builtin_data(config)
    dataset = schema.load(data)
    scenes = dataset.scenes[: config.limit]
    folder = hub.resolve(config.model.path) if config.model.path else builtin.checkpoint(data)
    family = models.get(config.model.family)
    model_config = family.from_hf(folder)
    encoder = family.encoder(
        folder,
        model_config,
        video=configs.settings(config),
        outer_vision_markers=config.model.outer_vision_markers,
        system_prompt=config.model.system_prompt,
    )
    weights.weight_files(folder)
    name = configs.model_name(config, folder)
    systems = [
        predict.System(
            method=configs.method_of(m, config), alpha=float(alpha), model=name, run=config.run
        )
        for m in config.methods
        for alpha in ((0.0,) if m == "base" else alphas)
    ]
    for scene in scenes:
        for question in predict.questions(scene):
            encoder.tokenizer.encode(question)  # a control token in a question is an error now
    with clock("validate"):
        _validate(dataset, scenes, config)
    return Plan(config, dataset, scenes, folder, family, model_config, encoder, systems)


def _builtin_data(config: ConfigDict) -> Path:
    world = config.data.world
    return builtin.dataset(
        scenes=world.scenes, seed=world.seed, size=tuple(world.size), workers=config.data.workers
    )


def _validate(dataset: Dataset, scenes: Sequence[Scene], config: ConfigDict) -> None:
    """Prints every problem; UserError when there is an error and the config does not allow it."""
    paths = {(s.scene_id, side): str(dataset.video_path(s, side)) for s in scenes for side in SIDES}
    checked = validate.check_videos(
        paths.values(), workers=config.data.workers, timeout=config.data.timeout
    )
    errors = [v for v in checked.values() if isinstance(v, VideoDecodeError)]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    for scene in scenes:
        videos = {side: checked[paths[scene.scene_id, side]] for side in SIDES}
        for problem in validate.scene_warnings(scene, videos, where=str(dataset.root)):
            print(problem, file=sys.stderr)
    if errors and not config.allow_missing:
        raise UserError(
            f"{dataset.root}: {len(errors)} video problems (listed above); mend them or set "
            "--config.allow_missing, which leaves those quadruples incomplete"
        )


def _set_up_jax(config: ConfigDict) -> None:
    jax.config.update("jax_compilation_cache_dir", str(builtin.cache_folder() / "jax"))
    if config.model.dtype == "float32":
        # GPUs would multiply float32 in TF32, TPUs in bfloat16 passes.
        jax.config.update("jax_default_matmul_precision", "highest")
    if jax.default_backend() == "cpu" and shutil.which("nvidia-smi"):
        warnings.warn(
            "a GPU is there, but jax runs on the CPU: pip install '.[cuda]'", stacklevel=2
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


def _decode(plan: Plan, workdir: Path, done: set, clock: Clock) -> int:
    """Runs every scene that lacks rows; the number of rows written."""
    todo = [s for s in plan.scenes if _missing(plan, s, done)]
    finished = len(plan.scenes) - len(todo)
    _say_plan(plan, done)
    if not todo:
        return 0
    with clock("load model"):
        abstract = nnx.eval_shape(
            lambda: plan.family.Model(plan.model_config, rngs=nnx.Rngs(plan.config.seed))
        )
        model = weights.load(
            plan.folder,
            abstract,
            plan.family.rules(plan.model_config),
            dtype=jnp.dtype(plan.config.model.dtype),
            tied=plan.family.TIED,
        )
    c, written = plan.config, 0
    engine = Engine(
        model,
        plan.encoder,
        batch=c.batch,
        vision_batch=c.vision_batch,
        max_new_tokens=c.max_new_tokens,
        share_base_segment=c.share_base_segment,
        seed=c.seed,
    )
    paths = [(str(plan.dataset.video_path(s, side)),) for s in todo for side in SIDES]
    with (
        rows.RowWriter(rows.shard_path(workdir, 0, 1)) as writer,
        DecodePool(c.data.workers, timeout=c.data.timeout) as pool,
        tqdm(total=len(plan.scenes), initial=finished, unit="scene", disable=None) as bar,
    ):
        clips = pool.imap(plan.encoder.load_clip, paths)
        for scene in todo:
            with clock("wait for frames"):
                both = {side: next(clips)[1] for side in SIDES}
            strips.write(workdir, [v for v in both.values() if not isinstance(v, VideoDecodeError)])
            systems = [s for s in plan.systems if _missing_of(s, scene, done)]
            try:
                with clock("model"):
                    unit = predict.Unit(scene, both)
                    made = predict.rows_of([unit], systems, engine=engine, prompt=c.prompt)
            except jax.errors.JaxRuntimeError as error:
                raise predict.out_of_memory(
                    error, batch=c.batch, vision_batch=c.vision_batch
                ) from None
            with clock("write"):
                written += writer.write(r for r in made if rows.key(r) not in done)
            bar.update()
    return written


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


def _missing_of(system: predict.System, scene: Scene, done: set) -> bool:
    return any(
        rows.key(cell) not in done for side in SIDES for cell in system.cells(scene, video=side)
    )


def _missing(plan: Plan, scene: Scene, done: set) -> bool:
    return any(_missing_of(system, scene, done) for system in plan.systems)


def _provenance(plan: Plan) -> dict[str, Any]:
    c = plan.config
    return {
        "batch": c.batch,
        "vision_batch": c.vision_batch,
        "scenes": len(plan.scenes),
        "peak_memory_gb": _peak_memory(),
        **manifest.environment(),
    }


def _peak_memory() -> float:
    """Peak resident memory of this process and of its largest worker, 1e9 bytes."""
    usage = (resource.getrusage(who).ru_maxrss for who in _PROCESSES)
    return round(sum(usage) * 1024 / 1e9, 3)


_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _report(plan: Plan, workdir: Path, clock: Clock, found: Mapping) -> int:
    """metrics.json, report.md, report.html, and the tables on the terminal."""
    chosen = {s.scene_id for s in plan.scenes}
    everything = rows.merge(workdir)
    kept = [r for r in everything if r["scene_id"] in chosen]
    if len(kept) < len(everything):
        print(f"{len(everything) - len(kept)} rows of scenes beyond config.limit are left out")
    b = plan.config.bootstrap
    with clock("score"):
        result = statistics.evaluate(
            kept,
            {s.scene_id: [(q.pair_id, q.category) for q in s.questions] for s in plan.scenes},
            replicates=b.replicates,
            seed=b.seed,
        )
        rows.write_json(workdir / "metrics.json", result.metrics)
    notes, videos = _notes(plan), strips.digests(kept)
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
    print("\n".join([*notes, "", tables.as_text(tables.sections(*result))]))
    print(f"results in {workdir}: report.html, report.md, metrics.json, predictions-*.jsonl")
    broken = sum(r["status"] == "not_finite" for r in kept)
    if broken:
        print(
            f"cctv: {broken} cells gave non-finite logits (status not_finite); "
            "try --config.model.dtype=float32 in another workdir",
            file=sys.stderr,
        )
    return 1 if broken else 0


def _notes(plan: Plan) -> list[str]:
    untrained = "The model is untrained (random weights): its numbers say nothing about video."
    return [] if plan.config.model.path else [untrained]


def _dry_run(plan: Plan) -> int:
    """Prints what would run; loads no weights, decodes no frame."""
    sizes = []
    for scene in plan.scenes:
        texts = [plan.config.prompt.replace("{question}", q) for q in predict.questions(scene)]
        for side in SIDES:
            path = plan.dataset.video_path(scene, side)
            if path.is_file():
                sizes.append(estimate.Prompts(*plan.encoder.measure(path, texts)))
    pairs = sum(len(s.questions) for s in plan.scenes)
    print(f"data: {plan.dataset.root}: {len(plan.scenes)} scenes, {len(sizes)} readable videos, "
          f"{pairs} question pairs")  # fmt: skip
    for system in plan.systems:
        print(f"method: {system.method.name}, alpha {system.alpha:g}: {4 * pairs} rows")
    print(f"checkpoint: {plan.folder}")
    lines = estimate.lines(
        sizes,
        family=plan.family,
        model_config=plan.model_config,
        systems=plan.systems,
        config=plan.config,
    )
    print("\n".join(lines))
    return 0
