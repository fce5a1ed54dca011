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
