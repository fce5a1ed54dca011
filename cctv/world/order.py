"""The order in which things that stand on the ground are painted: the far before the near."""

import numpy as np

Array = np.ndarray


def far_to_near(feet: Array, eye: Array, meets: Array) -> list[int]:
    """An order in which no box covers one that is nearer to the camera.

    `feet` float[N, 4, 2] are the corners of boxes on the ground, `eye` float[2] the camera,
    `meets` bool[N, N] which of them meet in the picture: only these need an order.
    """
    count = len(feet)
    first = _nearer(feet, eye) & meets & ~np.eye(count, dtype=bool)  # [i, j]: j before i
    distance = ((feet.mean(1) - eye) ** 2).sum(-1)
    left = np.argsort(-distance, kind="stable").tolist()
    waits = first.sum(1)
    order = []
    while left:
        # None is free where boxes cover each other in a circle: then the farthest.
        chosen = next((i for i in left if waits[i] == 0), left[0])
        left.remove(chosen)
        order.append(chosen)
        waits -= first[:, chosen]
    return order


def _nearer(feet: Array, eye: Array) -> Array:
    """bool[N, N]: whether box i lies on the camera's side of the line that best parts it from j."""
    edges = np.roll(feet, -1, axis=1) - feet  # [N, 4, 2], anticlockwise or clockwise alike
    normals = np.stack([edges[..., 1], -edges[..., 0]], -1)
    normals = normals / np.sqrt((normals * normals).sum(-1, keepdims=True))
    middle = feet.mean(1, keepdims=True)
    outward = ((feet - middle) * normals).sum(-1, keepdims=True) > 0
    normals = np.where(outward, normals, -normals)
    at = (feet * normals).sum(-1)  # [N, 4] each edge's place along its normal
    # How far box j lies beyond edge k of box i, and whether the camera does.
    reach = (feet[None, :, None, :, :] * normals[:, None, :, None, :]).sum(-1)  # [i, j, k, corner]
    beyond = reach.min(-1) - at[:, None, :]  # [i, j, k]
    seen = (eye * normals).sum(-1) > at  # [i, k]
    best = beyond.argmax(-1)  # [i, j]
    apart = np.take_along_axis(beyond, best[..., None], -1)[..., 0]
    eye_beyond = np.take_along_axis(
        np.broadcast_to(seen[:, None, :], beyond.shape), best[..., None], -1
    )[..., 0]
    # Parted by an edge of i: i is nearer where the camera is not beyond it. By an edge of j:
    # i is nearer where the camera is.
    mine = apart > apart.T
    return np.where(mine, ~eye_beyond, eye_beyond.T)
