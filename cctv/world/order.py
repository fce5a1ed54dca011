"""The order in which things that stand on the ground are painted: the far before the near."""

import numpy as np

Array = np.ndarray


def far_to_near(feet: Array, eye: Array, meets: Array) -> list[int]:
    """An order in which no box covers one that is nearer to the camera.

    `feet` float[N, 4, 2] are the corners of boxes on the ground, `eye` float[2] the camera,
    `meets` bool[N, N] which of them meet in the picture: only these need an order.
    """
    count = len(feet)
    i, j = np.nonzero(np.triu(meets, 1))
    nearer = _nearer(feet, eye, i, j)
    first = np.zeros((count, count), bool)  # [a, b]: b before a
    first[i[nearer], j[nearer]] = first[j[~nearer], i[~nearer]] = True
    distance = ((feet.mean(1) - eye) ** 2).sum(-1)
    left = np.argsort(-distance, kind="stable").tolist()
    waits = first.sum(1)
    order = []
    while left:
        # None is free where boxes cover each other in a circle: then the farthest.
        chosen = next((k for k in left if waits[k] == 0), left[0])
        left.remove(chosen)
        order.append(chosen)
        waits -= first[:, chosen]
    return order


def _nearer(feet: Array, eye: Array, i: Array, j: Array) -> Array:
    """bool[P]: whether box i lies on the camera's side of the line that best parts it from j."""
    edges = np.roll(feet, -1, axis=1) - feet  # [N, 4, 2], clockwise or anticlockwise
    normals = np.stack([edges[..., 1], -edges[..., 0]], -1)
    normals = normals / np.sqrt((normals * normals).sum(-1, keepdims=True))
    outward = ((feet - feet.mean(1, keepdims=True)) * normals).sum(-1, keepdims=True) > 0
    normals = np.where(outward, normals, -normals)
    at = (feet * normals).sum(-1)  # [N, 4] each edge's place along its normal
    seen = (eye * normals).sum(-1) > at  # whether the camera is beyond the edge
    apart, beyond = [], []
    for a, b in ((i, j), (j, i)):
        # How far box b lies beyond each edge of box a.
        x, y = feet[b, None, :, 0], feet[b, None, :, 1]  # [P, 1, corner]
        reach = x * normals[a, :, None, 0] + y * normals[a, :, None, 1]  # [P, edge, corner]
        gaps = reach.min(-1) - at[a]
        best = gaps.argmax(-1)
        apart.append(np.take_along_axis(gaps, best[:, None], -1)[:, 0])
        beyond.append(np.take_along_axis(seen[a], best[:, None], -1)[:, 0])
    # Parted by an edge of i: i is nearer where the camera is not beyond it, else where it is.
    return np.where(apart[0] > apart[1], ~beyond[0], beyond[1])
