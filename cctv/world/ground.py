"""The painted ground: roads, pavements, lane marks, stop lines, crossings, as flat polygons."""

from functools import cache

import numpy as np

from cctv.world.layout import LANE_OFFSETS, LANES, ROAD_HALF, STOP_LINE

GRASS, SKY = (98, 128, 78), (176, 200, 222)
ASPHALT, PAVEMENT, WHITE, YELLOW = (92, 93, 97), (160, 157, 150), (216, 216, 212), (214, 176, 60)
_FAR = 130.0


@cache
def polygons() -> tuple[tuple[np.ndarray, tuple[int, int, int]], ...]:
    """Pairs of float[4, 3] corners on z = 0 and a colour, in the order they are painted."""
    out = []

    def strip(arm, s, across, colour):
        """A rectangle from s[0] to s[1] along an arm and across[0] to across[1] to its right."""
        (dx, dy) = next(lane for lane in LANES if lane.arm == arm).direction
        quad = [
            (dx * a + dy * b, dy * a - dx * b, 0.0)
            for a, b in ((s[0], across[0]), (s[1], across[0]), (s[1], across[1]), (s[0], across[1]))
        ]
        out.append((np.array(quad), colour))

    wide = ROAD_HALF + 2.2
    for half, colour in ((wide, PAVEMENT), (ROAD_HALF, ASPHALT)):
        for arm in (0, 1):
            for s in np.arange(-_FAR, _FAR, 10):  # short ones, that the near plane cuts cleanly
                strip(arm, (s, s + 10.2), (-half, half), colour)
    between = sum(LANE_OFFSETS) / 2
    for arm in range(4):  # each arm paints its own way in, and the mark right of it
        for s in np.arange(STOP_LINE - 10, -_FAR, -10):
            strip(arm, (s, s + 10), (-0.12, 0.12), YELLOW)
        for s in np.arange(STOP_LINE - 5, -_FAR, -6):
            strip(arm, (s, s + 2.8), (between - 0.09, between + 0.09), WHITE)
            strip(arm, (s, s + 2.8), (-between - 0.09, -between + 0.09), WHITE)
        strip(arm, (STOP_LINE, STOP_LINE + 0.45), (0.2, ROAD_HALF), WHITE)
        for b in np.arange(-ROAD_HALF + 0.4, ROAD_HALF - 0.4, 1.2):
            strip(arm, (STOP_LINE + 0.9, -ROAD_HALF - 0.2), (b, b + 0.55), WHITE)
    return tuple(out)
