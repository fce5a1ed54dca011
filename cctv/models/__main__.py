"""Lists every family and variant: sizes counted from shapes, no weights and no download.

  python -m cctv.models [--json]

Columns: parameters (millions); visual tokens of 16 frames of 640x360 under the family's own frame
sizes; bytes of keys and values a token in bfloat16; gigabytes (1e9) of the weights in bfloat16;
and what the port was tested on.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags
from flax import nnx

from cctv import cli, models
from cctv.data import preprocess
from cctv.models import weights

JSON = flags.DEFINE_bool("json", False, "print a JSON list instead of a table")

FRAMES, HEIGHT, WIDTH = 16, 360, 640
HEADER = ("family", "variant", "parameters", "visual tokens", "KV bytes/token", "GB bf16", "tested")


def describe(family: str, variant: str) -> dict[str, Any]:
    """What the list says of one variant."""
    module = models.get(family)
    config = module.VARIANTS[variant]
    abstract = nnx.eval_shape(lambda: module.Model(config, rngs=nnx.Rngs(0)))
    processor, c = module.processor(config), config.text
    height, width = processor.smart_resize(FRAMES, HEIGHT, WIDTH)
    grid = preprocess.grid_of(np.empty((FRAMES, height, width, 0), np.uint8), processor)
    parameters = weights.parameter_count(abstract)
    return {
        "family": family,
        "variant": variant,
        "parameters": parameters,
        "vision_tokens": grid[0] * preprocess.tokens_per_group(grid, processor),
        "kv_bytes_per_token": 2 * 2 * c.num_layers * c.num_kv_heads * c.head_dim,
        "bf16_gigabytes": round(2 * parameters / 1e9, 3),
        "tested_on": list(models.TESTED_ON[family]),
    }


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The descriptions as aligned columns."""
    lines = [HEADER]
    for d in found:
        lines.append(
            (
                d["family"],
                d["variant"],
                f"{d['parameters'] / 1e6:,.0f} M",
                f"{d['vision_tokens']:,}",
                f"{d['kv_bytes_per_token']:,}",
                f"{d['bf16_gigabytes']:.1f}",
                "; ".join(d["tested_on"]),
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER) - 1)]
    aligned = []
    for line in lines:
        left = [cell.ljust(w) for cell, w in zip(line[:2], widths)]
        right = [cell.rjust(w) for cell, w in zip(line[2:-1], widths[2:])]
        aligned.append("  ".join([*left, *right, line[-1]]))
    return "\n".join(aligned)


def main(argv: list[str]) -> None:
    """Every variant of every family, one a line."""
    cli.no_more(argv)
    found = [describe(f, v) for f in models.MODELS for v in models.get(f).VARIANTS]
    print(json.dumps(found, indent=1) if JSON.value else table(found))


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
