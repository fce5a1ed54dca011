"""The built-in traffic world: scenes with an exact counterfactual and a known cause.

draw -> layouts, motion -> simulation -> accident (who plays which part), pair (both worlds, from
crossing, lanes, roadside and bystanders) -> scene -> event log -> questions -> checker.
`generate` writes a data set folder; `draw_scene` and `render` give single scenes and frames.
"""

from cctv.world.generate import generate
from cctv.world.render import Shot, render
from cctv.world.scene import Scene, draw_scene

__all__ = ["Scene", "Shot", "draw_scene", "generate", "render"]
