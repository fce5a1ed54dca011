"""A slow renderer to compare with: the nearest face that each pixel's ray meets."""

import numpy as np

from cctv.world import models, scenery
from cctv.world.raster import place


def ids(world, camera, size, step, skip=None):
    """uint8[H / step, W / step]: 1 + id of what the rays of every `step`th pixel meet first."""
    faces, owner = [], []
    for actor in world.actors:
        if actor.id != skip:
            solid = models.actor(actor.type, actor.colour)
            faces.append(place(solid.faces, actor.poses(np.zeros(1))[0]))
            owner += [1 + actor.id] * len(solid.faces)
    for prop in scenery.props(world.layout):
        faces.append(prop.solid.faces)
        owner += [0 if prop.id is None else 1 + prop.id] * len(prop.solid.faces)
    faces, owner = np.concatenate(faces), np.array(owner)
    normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 3] - faces[:, 0])
    front = ((camera.position - faces[:, 0]) * normals).sum(-1) > 0
    faces, owner = faces[front], owner[front]
    width, height = size
    scale = camera.focal * min(width, height * 16 / 9)
    out = np.zeros((len(range(0, height, step)), len(range(0, width, step))), np.uint8)
    right, down, forward = camera.axes
    # Two triangles a face, their edges and normals as seen from the camera (Moller and Trumbore).
    corners = np.concatenate([faces[:, (0, 1, 2)], faces[:, (0, 2, 3)]]) - camera.position
    owner = np.tile(owner, 2)
    a, e, f = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    columns = np.arange(0, width, step) - width / 2
    for v in range(0, height, step):
        ray = forward + (right * columns[:, None] + down * (v - height / 2)) / scale  # [U, 3]
        across = np.cross(ray[:, None], f)  # [U, faces, 3]
        det = (across * e).sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            s = -(across * a).sum(-1) / det
            along = np.cross(-a, e)
            t = (ray @ along.T) / det
            depth = (along * f).sum(-1) / det
            hit = (s >= 0) & (t >= 0) & (s + t <= 1) & (depth > 0.25)
        first = np.where(hit, depth, np.inf).argmin(-1)
        out[v // step] = np.where(hit.any(-1), owner[first], 0)
    return out
