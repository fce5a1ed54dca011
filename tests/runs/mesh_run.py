"""Run by test_mesh on 8 fake devices: a small whole run on the mesh given as arguments."""

import sys
from pathlib import Path

from cctv.runs import run


def main():
    import runpy

    config = runpy.run_path(str(Path(__file__).parents[2] / "configs" / "tiny.py"))["get_config"]()
    workdir, data, model = sys.argv[1:]
    config.data.world.scenes = 3
    config.data.world.size = (160, 90)
    config.bootstrap.replicates = 50
    config.mesh = (int(data), int(model))
    sys.exit(run.evaluate(config, Path(workdir)))


if __name__ == "__main__":
    main()
