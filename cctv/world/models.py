"""What actors look like: low-poly solids, in metres around their own origin, x forward."""

import math
from functools import cache

import numpy as np

from cctv.world.motion import TYPES
from cctv.world.solids import (
    Array,
    Colour,
    Part,
    Solid,
    join,
    limb,
    marks,
    on,
    part,
    prism,
    tipped,
    wheel,
)

RGB = {
    "red": (205, 25, 30),
    "orange": (245, 130, 15),
    "yellow": (245, 220, 45),
    "green": (30, 150, 60),
    "blue": (30, 85, 215),
    "purple": (145, 55, 180),
    "white": (243, 243, 243),
    "black": (26, 26, 30),
}
GLASS, TYRE, HUB, STEEL = (66, 82, 98), (14, 14, 16), (150, 150, 154), (70, 70, 74)
LAMP, TAIL, TAIL_ON, PLATE = (255, 252, 220), (115, 10, 14), (255, 60, 50), (225, 225, 220)
SKIN, HAIR, TROUSERS, HELMET, SADDLE = (
    (214, 168, 138),
    (70, 48, 34),
    (58, 60, 76),
    (206, 208, 212),
    (38, 36, 36),
)
# The legs of one stride, from -1 (back) to 1 (in front): a sine in eight steps.
_SWING = (0.0, 0.7071, 1.0, 0.7071, 0.0, -0.7071, -1.0, -0.7071)
PHASES = len(_SWING)
STRIDE = {"pedestrian": 1.5, "bicycle": 4.0}  # metres of one stride, or one turn of the pedals


@cache
def actor(type_: str, colour: str, braking: bool = False, phase: int = 0, tip: int = 0) -> Solid:
    """An actor, origin on the ground under its centre.

    `phase`: one of PHASES moments of a stride; `tip`: of TIPS steps from upright to lying.
    """
    size, rgb = TYPES[type_], RGB[colour]
    if type_ == "pedestrian":
        return tipped(_pedestrian(rgb, _SWING[phase]), "y", tip, 0.24)
    if type_ == "motorcycle":
        return tipped(_motorcycle(size.length, rgb, braking), "x", tip, 0.3)
    if type_ == "bicycle":
        return tipped(_bicycle(size.length, rgb, _SWING[phase]), "x", tip, 0.26)
    make = {"car": _car, "truck": _truck, "bus": _bus}[type_]
    return make(size.length / 2, size.width / 2, size.height, rgb, braking)


def phase_of(type_: str, way: float) -> int:
    """The moment of the stride, 0 to PHASES - 1, after `way` metres."""
    return math.floor(way / STRIDE[type_] * PHASES) % PHASES if type_ in STRIDE else 0


def _wheels(at: tuple[float, ...], half_width: float, radius: float):
    """Pieces: wheels on both sides at these x."""
    where = [(x, side * (half_width + 0.015)) for x in at for side in (1, -1)]
    tyres = np.concatenate([wheel(x, y, radius) for x, y in where])
    return (tyres, TYRE), (_hubs(tyres), HUB)


def _hubs(tyres: Array) -> Array:
    """float[K, 4, 3]: a small square on each disc of float[4 K, 4, 3]."""
    middle = tyres.mean(1, keepdims=True)[::4]
    square = (tyres[::4] + tyres[2::4]) / 2  # two oblongs at right angles make a square
    return middle * (1.0, 1.01, 1.0) + (square - middle) * 0.55


def _lights(front: Array, rear: Array, braking: bool, v: tuple[float, float]):
    """Lit pieces: two lamps on the front face and two tail lights on the rear face."""
    tail = TAIL_ON if braking else TAIL
    sides = ((0.03, 0.22), (0.78, 0.97))
    return tuple((on(front, u, v), LAMP) for u in sides) + tuple(
        (on(rear, u, v), tail) for u in sides
    )


def _panes(face: Array, count: int, v: tuple[float, float], u=(0.05, 0.95)) -> Array:
    """float[count, 4, 3]: a row of windows."""
    step = (u[1] - u[0]) / count
    starts = u[0] + step * np.arange(count)
    return marks(face, np.stack([starts, starts + 0.86 * step], -1), np.array([v] * count))


def _car(h: float, w: float, height: float, rgb: Colour, braking: bool) -> Solid:
    low = prism((-h + 0.1, h - 0.1), (-w + 0.04, w - 0.04), (0.2, 0.5), ((-h, h), (-w, w)))
    high = prism((-h, h), (-w, w), (0.5, 0.84), ((-h + 0.1, h - 0.25), (-w + 0.07, w - 0.07)))
    cabin = prism(
        (-h * 0.86, h * 0.42),
        (-w * 0.93, w * 0.93),
        (0.84, height),
        ((-h * 0.58, h * 0.04), (-w * 0.74, w * 0.74)),
    )
    dark = [on(low[k], (0.0, 1.0), (0.0, 0.4)) for k in range(4)] + [
        on(low[0], (0.25, 0.75), (0.3, 0.95))
    ]
    tyres, hubs = _wheels((h * 0.63, -h * 0.6), w, 0.34)
    body = part(
        0,
        (low, rgb),
        (high, rgb),
        (np.array(dark), STEEL),
        tyres,
        marks=((on(high[2], (0.36, 0.64), (0.1, 0.6)), PLATE), hubs),
        lit=_lights(high[0], high[2], braking, (0.25, 0.9)),
    )
    glass = [on(cabin[k], (0.07, 0.93), (0.08, 0.9)) for k in (0, 2)]
    sides = np.concatenate([_panes(cabin[k], 2, (0.12, 0.86), (0.1, 0.94)) for k in (1, 3)])
    return join(body, part(1, (cabin, rgb), marks=((np.array(glass), GLASS), (sides, GLASS))))


def _truck(h: float, w: float, height: float, rgb: Colour, braking: bool) -> Solid:
    split = h - 1.8
    deck = prism((-h, split), (-w * 0.92, w * 0.92), (0.45, 0.98))
    foot = prism((split, h), (-w * 0.96, w * 0.96), (0.4, 0.98))
    cab = prism(
        (split, h), (-w * 0.96, w * 0.96), (0.98, 2.35), ((split, h - 0.3), (-w * 0.9, w * 0.9))
    )
    load = prism((-h, split - 0.2), (-w, w), (0.98, height))
    ribs = np.concatenate([_panes(load[k], 4, (0.06, 0.94), (0.03, 0.97)) for k in (1, 3)])
    doors = _panes(load[2], 2, (0.05, 0.95), (0.05, 0.97))
    panel = tuple(int(c * 0.86 + 12) for c in rgb)
    glass = [
        on(cab[0], (0.07, 0.93), (0.3, 0.92)),
        *(on(cab[k], u, (0.38, 0.9)) for k, u in ((1, (0.1, 0.6)), (3, (0.4, 0.9)))),
    ]
    bumper = (on(foot[0], (0.0, 1.0), (0.0, 0.25)), STEEL)
    lights = _lights(foot[0], deck[2], braking, (0.3, 0.8))
    rear, hubs = _wheels((-h * 0.5, -h * 0.78), w, 0.46)
    front, front_hubs = _wheels((h - 0.95,), w, 0.46)
    return join(
        part(0, (deck, STEEL), rear, marks=(hubs,), lit=lights[2:]),
        part(0, (foot, rgb), front, marks=(bumper, front_hubs), lit=lights[:2]),
        part(1, (cab, rgb), marks=((np.array(glass), GLASS),)),
        part(1, (load, rgb), marks=((ribs, panel), (doors, panel))),
    )


def _bus(h: float, w: float, height: float, rgb: Colour, braking: bool) -> Solid:
    shell = prism((-h, h), (-w, w), (0.32, height), ((-h + 0.05, h - 0.12), (-w + 0.05, w - 0.05)))
    panes = np.concatenate([_panes(shell[k], 6, (0.5, 0.84), (0.03, 0.97)) for k in (1, 3)])
    glass = [on(shell[0], (0.05, 0.95), (0.36, 0.84)), on(shell[2], (0.12, 0.88), (0.52, 0.84)),
             on(shell[3], (0.84, 0.95), (0.06, 0.84))]  # fmt: skip
    skirt = [on(shell[k], (0.0, 1.0), (0.0, 0.07)) for k in range(4)]
    hatch = on(shell[4], (0.3, 0.7), (0.25, 0.75))
    sign = (on(shell[0], (0.2, 0.8), (0.88, 0.97)), (235, 190, 90))
    roof = tuple(int(c * 0.8 + 40) for c in rgb)
    tyres, hubs = _wheels((h * 0.58, -h * 0.52), w, 0.48)
    return join(
        part(
            0,
            (shell, rgb),
            (np.array(skirt), STEEL),
            tyres,
            marks=(hubs, (hatch, roof), (panes, GLASS), (np.array(glass), GLASS), sign),
            lit=_lights(shell[0], shell[2], braking, (0.12, 0.24)),
        )
    )


def _two_wheels(half: float, radius: float, thick: float, inner: float) -> list[Part]:
    """Two wheels of a bicycle or motorcycle, each a slim column with a disc on either side.

    `inner` is the share of the radius that spokes and hub take.
    """
    out = []
    for x in (half - radius, radius - half):
        tread = prism((x - 0.3 * radius, x + 0.3 * radius), (-thick, thick), (0, 2 * radius))
        sides = (thick, -thick)
        discs = np.concatenate([wheel(x, y, radius) for y in sides])
        spokes = np.concatenate([wheel(x, y * 1.1, radius * inner, radius) for y in sides])
        out.append(part(0, (tread, TYRE), (discs, TYRE), marks=((spokes, HUB),)))
    return out


def _rider(seat: tuple[float, float], grip: tuple[float, float], rgb: Colour, feet, helmet: Colour):
    """Legs, body, arms and head of a rider; seat and grip are (x, z), feet two such."""
    (x, z), (gx, gz) = seat, grip
    parts = []
    for side, (fx, fz) in zip((1, -1), feet):
        leg = limb((fx, side * 0.17, fz), (x + 0.08, side * 0.13, z + 0.04), 0.085)
        arm = limb((gx, side * 0.26, gz), (x + 0.2, side * 0.23, z + 0.52), 0.06)
        parts += [part(0, (leg, TROUSERS)), part(0, (arm, rgb))]
    chest = ((x - 0.02, x + 0.3), (-0.22, 0.22))
    body = prism((x - 0.16, x + 0.16), (-0.17, 0.17), (z - 0.04, z + 0.58), chest)
    hx, hz = x + 0.2, z + 0.6
    head = prism((hx - 0.13, hx + 0.13), (-0.12, 0.12), (hz, hz + 0.29))
    face = on(head[0], (0.1, 0.9), (0.1, 0.7)), SKIN if helmet == HAIR else GLASS
    return [*parts, part(0, (body, rgb)), part(0, (head, helmet), marks=(face,))]


def _motorcycle(length: float, rgb: Colour, braking: bool) -> Solid:
    half, radius = length / 2, 0.33
    tank = prism((-half * 0.55, half * 0.5), (-0.19, 0.19), (0.42, 0.88),
                 ((-half * 0.8, half * 0.45), (-0.15, 0.15)))  # fmt: skip
    seat = on(tank[4], (0.05, 0.95), (0.3, 1.0))
    fork = prism((half * 0.42, half * 0.62), (-0.17, 0.17), (0.62, 1.08),
                 ((half * 0.34, half * 0.5), (-0.14, 0.14)))  # fmt: skip
    lamp = (on(fork[0], (0.15, 0.85), (0.3, 0.85)), LAMP)
    tail = (on(tank[2], (0.1, 0.9), (0.55, 1.0)), TAIL_ON if braking else TAIL)
    bar = prism((half * 0.3, half * 0.38), (-0.36, 0.36), (1.04, 1.1))
    feet = ((-0.05, 0.34), (-0.05, 0.34))
    return join(
        *_two_wheels(half, radius, 0.09, 0.4),
        part(0, (tank, rgb), marks=((seat, SADDLE),), lit=(tail,)),
        part(0, (fork, rgb), lit=(lamp,)),
        part(0, (bar, STEEL)),
        *_rider((-0.28, 0.84), (half * 0.32, 1.06), rgb, feet, HELMET),
    )


def _bicycle(length: float, rgb: Colour, swing: float) -> Solid:
    half, radius = length / 2, 0.34
    wheels = _two_wheels(half, radius, 0.035, 0.74)
    tube = prism((-0.5, 0.1), (-0.03, 0.03), (0.34, 0.5), ((-0.3, -0.2), (-0.03, 0.03)))
    frame = prism((-0.06, 0.06), (-0.03, 0.03), (0.34, 0.82), ((-0.3, 0.36), (-0.03, 0.03)))
    fork = limb((half - radius, 0.0, 0.36), (half - radius - 0.16, 0.0, 1.02), 0.045)
    bar = prism((half - radius - 0.22, half - radius - 0.15), (-0.28, 0.28), (1.0, 1.05))
    feet = tuple((0.12 * s, 0.3 - 0.13 * s) for s in (swing, -swing))
    return join(
        *wheels,
        part(0, (tube, rgb)),
        part(0, (frame, rgb)),
        part(0, (fork, rgb)),
        part(0, (bar, STEEL)),
        *_rider((-0.24, 0.88), (half - radius - 0.2, 1.03), rgb, feet, HAIR),
    )


def _pedestrian(rgb: Colour, swing: float) -> Solid:
    parts = []
    for side in (1, -1):
        leg = limb((0.3 * swing * side, side * 0.1, 0.0), (0.0, side * 0.1, 0.84), 0.085)
        arm = limb((-0.24 * swing * side, side * 0.3, 0.78), (0.0, side * 0.27, 1.4), 0.065)
        parts += [part(0, (leg, TROUSERS)), part(0, (arm, rgb))]
    coat = prism((-0.15, 0.15), (-0.21, 0.21), (0.72, 1.46), ((-0.12, 0.12), (-0.24, 0.24)))
    head = prism((-0.11, 0.12), (-0.1, 0.1), (1.48, 1.76))
    hair = np.array([head[4], on(head[2], (0.0, 1.0), (0.2, 1.0))])
    return join(*parts, part(0, (coat, rgb)), part(0, (head, SKIN), marks=((hair, HAIR),)))
