"""Before any weights are read: data and checkpoint found and checked, every video looked at."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from cctv import models
from cctv.data import schema, validate
from cctv.data.errors import UserError
from cctv.data.schema import SIDES, DataError, Dataset, Scene
from cctv.data.video import VideoDecodeError
from cctv.models import hub, tokenizers, weights
from cctv.runs import builtin, predict
from cctv.runs import config as configs


class Plan(NamedTuple):
    """What a config asks for, resolved: nothing heavy is loaded yet.

    videos: by path as `video` gives it, what the encoder's `measure` found (a clip without pixels)
    or the VideoDecodeError of a file that can't be used.
    """

    config: ConfigDict
    dataset: Dataset
    scenes: Sequence[Scene]
    folder: Path
    family: Any
    model_config: Any
    encoder: Any
    systems: list[predict.System]
    videos: Mapping[str, Any]

    def video(self, scene: Scene, side: str) -> str:
        """The path of a video."""
        return str(self.dataset.video_path(scene, side))

    def identity(self) -> dict[str, Any]:
        """What makes this run itself (see `manifest`)."""
        c = self.config
        return {
            "model": {
                "id": self.systems[0].model,
                "family": c.model.family,
                "weights": weights.digest(self.folder),
                "tokenizer": weights.digest_of(tokenizers.files(self.folder)),
                "dtype": c.model.dtype,
                "input": self.encoder.settings(),
            },
            "run": c.run,
            "prompt": c.prompt,
            "max_new_tokens": c.max_new_tokens,
            "data": self.dataset.digest,
            "seed": c.seed,
            "share_base_segment": c.share_base_segment,  # the same to rounding, no more
            "methods": configs.method_settings(c),
        }


def prepare(config: ConfigDict, clock: Callable, *, alphas: Sequence[float]) -> Plan:
    """Data and checkpoint found and checked; videos validated before a model is loaded.

    Problems and warnings are printed to stderr, all of them; UserError where the run can't go on.
    """
    with clock("make built-in data"):
        data = Path(config.data.path) if config.data.path else _builtin_data(config)
    dataset = _load(data)
    scenes = dataset.scenes[: config.limit]
    folder = hub.resolve(config.model.path) if config.model.path else builtin.checkpoint(data)
    family = models.get(config.model.family)
    model_config = family.from_hf(folder)
    encoder = family.encoder(
        folder,
        model_config,
        video=configs.settings(config),
        **{name: config.model[name] for name in family.OPTIONS},
    )
    for note in encoder.notes:
        print(f"warning: {note}", file=sys.stderr)
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
            try:  # a control token in a question is an error now
                encoder.tokenizer.encode(question)
            except UserError as error:
                raise UserError(f"{dataset.root}: scene {scene.scene_id}: {error}") from None
    with clock("validate"):
        videos = _look_at_videos(dataset, scenes, config, encoder.measure)
    return Plan(
        config, dataset, scenes, folder, family, model_config, encoder, systems, videos
    )  # fmt: skip


def _builtin_data(config: ConfigDict) -> Path:
    world = config.data.world
    return builtin.dataset(
        scenes=world.scenes, seed=world.seed, size=tuple(world.size), workers=config.data.workers
    )


def _load(data: Path) -> Dataset:
    """The data set; every problem of its annotations is printed if there is more than one."""
    try:
        return schema.load(data)
    except DataError as error:
        if len(error.problems) == 1:
            raise
        for problem in error.problems:
            print(problem, file=sys.stderr)
        count = len(error.problems)
        raise UserError(f"{data}: {count} annotation problems (listed above)") from None


def _look_at_videos(
    dataset: Dataset, scenes: Sequence[Scene], config: ConfigDict, measure: Callable
) -> dict[str, Any]:
    """Plan.videos. UserError when a file can't be used and the config does not allow it."""
    paths = {(s.scene_id, side): str(dataset.video_path(s, side)) for s in scenes for side in SIDES}
    found = validate.check_videos(
        paths.values(), workers=config.data.workers, timeout=config.data.timeout, measure=measure
    )
    errors = [v for v in found.values() if isinstance(v, VideoDecodeError)]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    for scene in scenes:
        videos = {side: found[paths[scene.scene_id, side]] for side in SIDES}
        for problem in validate.scene_warnings(scene, videos, where=str(dataset.root)):
            print(problem, file=sys.stderr)
    if errors and not config.allow_missing:
        raise UserError(
            f"{dataset.root}: {len(errors)} video problems (listed above); mend them or set "
            "--config.allow_missing, which leaves those quadruples incomplete"
        )
    return {p: v if isinstance(v, VideoDecodeError) else v.measured for p, v in found.items()}
