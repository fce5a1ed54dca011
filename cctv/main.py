"""One evaluation: validate the data, run the model, write rows, statistics and a report.

    python -m cctv.main --config=configs/NAME.py[:variant] [--workdir=DIR] [--config.key=value ...]

Without --config it runs configs/tiny.py: scenes of the built-in world and a small untrained model.
The same command on the same workdir goes on where it stopped. --dry_run prints what would run.
"""

import sys
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from cctv import cli

DEFAULT = str(Path(__file__).parents[1] / "configs" / "tiny.py")
# No default here: it would be parsed, overrides and all, before errors can be caught.
CONFIG = config_flags.DEFINE_config_file("config", None, "The run's config (default: tiny).")
WORKDIR = flags.DEFINE_string("workdir", None, "Where results go; by default runs/NAME.")
DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print what would run: loads no weights, writes nothing to the workdir."
)


def main(argv: list[str]) -> int:
    cli.no_more(argv)
    # Decoding workers import this module again: what is heavy must wait until here.
    from cctv.runs import run

    name, _, variant = config_flags.get_config_filename(flags.FLAGS["config"]).partition(":")
    stem = Path(name).stem + (f"-{variant}" if variant else "")
    workdir = Path(WORKDIR.value or Path("runs") / stem)
    return run.evaluate(CONFIG.value, workdir, dry_run=DRY_RUN.value)


if __name__ == "__main__":
    program, *arguments = sys.argv
    if not any(a.lstrip("-").partition("=")[0] == "config" for a in arguments):
        arguments.insert(0, f"--config={DEFAULT}")
    cli.run(main, usage=__doc__, argv=[program, *arguments])
