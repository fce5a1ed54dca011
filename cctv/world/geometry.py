"""Oriented boxes in the ground plane: corners, exact contact, distance. All arrays are float64."""

import numpy as np

Array = np.ndarray

# Corners: front left, front right, rear right, rear left; x forward, y left, yaw anticlockwise.
_UNIT = np.array([[0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [-0.5, 0.5]])


def corners(poses: Array, length: float, width: float) -> Array:
    """float[..., 3] poses (x, y in metres, yaw in radians) -> float[..., 4, 2] box corners."""
    poses = np.asarray(poses, np.float64)
    local = _UNIT * (length, width)  # [4, 2]
    cos, sin = np.cos(poses[..., 2:]), np.sin(poses[..., 2:])  # [..., 1]
    x = poses[..., :1] + cos * local[:, 0] - sin * local[:, 1]  # [..., 4]
    y = poses[..., 1:2] + sin * local[:, 0] + cos * local[:, 1]
    return np.stack([x, y], -1)


def overlap(a: Array, b: Array) -> Array:
    """bool[...]: do boxes a and b, float[..., 4, 2] each, touch or overlap (separating axes)."""
    apart = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), bool)
    for box in (a, b):
        for i in (0, 1):  # opposite sides of a rectangle share their normal
            axis = (box[..., i + 1, :] - box[..., i, :])[..., None, :]  # [..., 1, 2]
            pa = (a * axis).sum(-1)  # [..., 4]
            pb = (b * axis).sum(-1)
            apart |= (pa.max(-1) < pb.min(-1)) | (pb.max(-1) < pa.min(-1))
    return ~apart


def gap(a: Array, b: Array) -> Array:
    """float[...]: distance in metres between boxes, 0 where they touch or overlap.

    For two convex shapes apart, the shortest distance has a corner of one of them at an end.
    """
    nearest = np.minimum(_corner_to_edge(a, b), _corner_to_edge(b, a))
    return np.where(overlap(a, b), 0.0, nearest)


def contact_point(a: Array, b: Array, slack: float = 0.05) -> Array:
    """float[2]: centre of the touching area of two boxes, float[4, 2] each.

    The mean of those corners of each box that lie in the other, which is grown by `slack` metres.
    """
    inside = [p for p in a if _holds(b, p, slack)] + [p for p in b if _holds(a, p, slack)]
    return np.mean(inside, axis=0) if inside else (a.mean(0) + b.mean(0)) / 2


def near(a: Array, b: Array, distance: float) -> Array:
    """int[N]: the instants at which circles around the boxes float[T, 4, 2] come this near."""
    apart = a[:, 0] + a[:, 2] - b[:, 0] - b[:, 2]  # [T, 2] twice the way between the centres
    across = [np.sqrt(((box[:, 0] - box[:, 2]) ** 2).sum(-1)) for box in (a, b)]  # [T] diagonals
    reach = across[0] + across[1] + 2 * distance
    return np.flatnonzero((apart * apart).sum(-1) <= reach * reach)


def smallest_gap(a: Array, b: Array) -> float:
    """The smallest distance in metres of two boxes over the instants, float[T, 4, 2] each."""
    a, b = np.broadcast_arrays(a, b)
    apart = a[:, 0] + a[:, 2] - b[:, 0] - b[:, 2]
    across = [np.sqrt(((box[:, 0] - box[:, 2]) ** 2).sum(-1)) for box in (a, b)]
    middle = np.sqrt((apart * apart).sum(-1)) / 2
    # The distance is at least that of the circles around, at most that of the centres.
    can = np.flatnonzero(middle - (across[0] + across[1]) / 2 <= middle.min())
    return float(gap(a[can], b[can]).min())


def contact_normal(a: Array, b: Array) -> Array:
    """float[2]: the unit normal of the face along which two touching boxes part most easily.

    It points from a, float[4, 2], towards b.
    """
    best = None
    for box in (a, b):
        for i in (0, 1):
            axis = box[i] - box[i + 1]
            axis = axis / np.sqrt((axis * axis).sum())
            pa, pb = (a * axis).sum(-1), (b * axis).sum(-1)
            for sign, depth in ((1, pa.max() - pb.min()), (-1, pb.max() - pa.min())):
                if best is None or depth < best[0] - 1e-9:
                    best = depth, sign * axis
    return best[1]


def _corner_to_edge(a: Array, b: Array) -> Array:
    start, end = b, np.roll(b, -1, axis=-2)
    edge = (end - start)[..., None, :, :]  # [..., 1, 4, 2]
    to = a[..., :, None, :] - start[..., None, :, :]  # [..., 4, 4, 2]
    along = np.clip((to * edge).sum(-1) / (edge * edge).sum(-1), 0.0, 1.0)
    rest = to - along[..., None] * edge
    return np.sqrt((rest * rest).sum(-1).min((-1, -2)))


def _holds(box: Array, point: Array, slack: float) -> bool:
    to = point - box.mean(0)
    for i in (0, 1):
        side = box[i + 1] - box[i]
        size = np.sqrt((side * side).sum())
        if abs((to * side).sum()) / size > size / 2 + slack:
            return False
    return True
