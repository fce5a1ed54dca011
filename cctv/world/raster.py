"""Puts flat polygons of the world in a picture: cut, projected, shaded, filled.

Coordinates are rounded to 1/16 pixel before OpenCV's integer rasteriser sees them, so pictures are
the same on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from cctv.world.camera import Camera
from cctv.world.look import Look
from cctv.world.solids import Solid

Array = np.ndarray

NEAR = 0.25  # metres before the camera from which things are drawn
GUARD = 6.0  # polygons are cut at so many half widths of the picture from its middle
_SUN = np.array([0.45, -0.30, 0.84])


@dataclass(kw_only=True)
class Brush:
    """Where polygons go: an image, and `flat`, the value that replaces colours in an id buffer."""

    image: Array
    camera: Camera
    size: tuple[int, int]
    look: Look
    flat: int | None = None

    def project(self, points: Array) -> tuple[list[Array], Array, Array]:
        """Polygons float[N, K, 3] (world) -> pixels int32[M, 2] in 1/16 each, indices, depths.

        Those of which nothing is in the picture are left out; `depths` float[N] are of the middles.
        """
        relative = self.camera.relative(points)  # [N, K, 3]
        scale = self.camera.focal * min(self.size[0], self.size[1] * 16 / 9)
        wide, high = self.size[0] / 2 / scale, self.size[1] / 2 / scale
        x, y, z = relative[..., 0], relative[..., 1], relative[..., 2]
        out = (z.max(-1) <= NEAR) | ((np.abs(x) - wide * z).min(-1) > 0) & (
            (x > 0).all(-1) | (x < 0).all(-1)
        )
        out |= ((np.abs(y) - high * z).min(-1) > 0) & ((y > 0).all(-1) | (y < 0).all(-1))
        whole = (z > NEAR).all(-1) & (np.maximum(np.abs(x), np.abs(y)) < GUARD * wide * z).all(-1)
        indices = np.flatnonzero(~out)
        if not len(indices):
            return [], indices, z.mean(-1)
        safe = np.where(whole[indices, None, None], relative[indices], 1.0)
        fixed = fixed_point(self.camera.to_pixels(safe, self.size))
        polygons, kept = [], []
        for k, index in enumerate(indices.tolist()):
            if whole[index]:
                polygons.append(fixed[k])
            else:
                cut = _cut(relative[index], GUARD * wide)
                if len(cut) < 3:
                    continue
                polygons.append(fixed_point(self.camera.to_pixels(cut, self.size)))
            kept.append(index)
        return polygons, np.array(kept, np.intp), z.mean(-1)

    def fill(self, polygons: list[Array], shades: list) -> None:
        """Fills convex polygons in their order, each with its shade."""
        if self.flat is None:
            for polygon, shade in zip(polygons, shades):
                cv2.fillConvexPoly(self.image, polygon, shade, cv2.LINE_AA, 4)
        else:
            for polygon in polygons:
                cv2.fillConvexPoly(self.image, polygon, self.flat, cv2.LINE_8, 4)

    def facing(self, faces: Array, normals: Array, colours: Array, lit: Array):
        """Those of the faces float[N, 4, 3] (world) that turn to the camera and are in the picture.

        Gives polygons in 1/16 pixel, their shades and their indices.
        """
        turned = np.flatnonzero(((self.camera.position - faces[:, 0]) * normals).sum(-1) > 0)
        polygons, kept, depths = self.project(faces[turned])
        index = turned[kept]
        shades: list = []
        if self.flat is None and len(index):
            sun = np.maximum((normals[index] * _SUN).sum(-1), 0)
            shades = self.look.shade(colours[index], sun, lit[index], depths[kept]).tolist()
        return polygons, shades, index

    def solids(
        self,
        solids: list[Solid],
        poses: list[Array],
        *,
        flats: list[int] | None = None,
        after: list[Callable[[], None]] | None = None,
    ) -> None:
        """Actors and things in poses float[3], in their order: of one, lower parts first, then far.

        `flats` are their values in an id buffer, `after` is called after each one's last face.
        """
        poses = np.array(poses)
        parts = np.array([len(s.levels) for s in solids])
        owner = np.repeat(np.arange(len(solids)), parts)
        middles = place(np.concatenate([s.middles for s in solids]), poses[owner])
        distance = ((middles - self.camera.position) ** 2).sum(-1)
        levels = np.concatenate([s.levels for s in solids])
        order = np.lexsort((-distance, levels, owner))
        counts = np.concatenate([np.diff(s.bounds) for s in solids])
        starts = np.cumsum(counts) - counts
        counts = counts[order]
        begins = np.cumsum(counts) - counts
        index = np.arange(counts.sum()) + np.repeat(starts[order] - begins, counts)
        face_owner = np.repeat(owner[order], counts)
        faces, normals, colours, lit = (
            np.concatenate([getattr(s, name) for s in solids])[index]
            for name in ("faces", "normals", "colours", "lit")
        )
        pose = poses[face_owner]
        turn = np.concatenate([np.zeros((len(pose), 2)), pose[:, 2:]], -1)
        faces, normals = place(faces, pose[:, None]), place(normals, turn)
        polygons, shades, kept = self.facing(faces, normals, colours, lit)
        ends = np.searchsorted(face_owner[kept], np.arange(len(solids)), side="right").tolist()
        start = 0
        for k, end in enumerate(ends):
            if flats is not None:
                self.flat = flats[k]
            self.fill(polygons[start:end], shades[start:end])
            if after is not None:
                after[k]()
            start = end


def fixed_point(pixels: Array) -> Array:
    """int32: pixel coordinates in 1/16."""
    return np.round(pixels * 16).astype(np.int32)


def place(points: Array, pose: Array) -> Array:
    """float[..., 3] points turned by the yaw of poses (float[..., 3] or one) and moved to them."""
    pose = np.asarray(pose)
    cos, sin = np.cos(pose[..., 2]), np.sin(pose[..., 2])
    out = np.empty(points.shape)
    out[..., 0] = pose[..., 0] + cos * points[..., 0] - sin * points[..., 1]
    out[..., 1] = pose[..., 1] + sin * points[..., 0] + cos * points[..., 1]
    out[..., 2] = points[..., 2]
    return out


def _cut(polygon: Array, guard: float) -> Array:
    """A polygon float[N, 3] (right, down, forward) cut at NEAR and at |right|, |down| = guard."""
    planes = (
        (0, 0, 1, -NEAR),
        (1, 0, guard, 0),
        (-1, 0, guard, 0),
        (0, 1, guard, 0),
        (0, -1, guard, 0),
    )
    points = [tuple(p) for p in polygon.tolist()]
    for a, b, c, d in planes:
        before, points = points, []
        for p, q in zip(before, before[1:] + before[:1]):
            dp, dq = (a * v[0] + b * v[1] + c * v[2] + d for v in (p, q))
            if dp >= 0:
                points.append(p)
            if (dp >= 0) != (dq >= 0):
                share = dp / (dp - dq)
                points.append(tuple(v + share * (w - v) for v, w in zip(p, q)))
    return np.array(points, np.float64).reshape(-1, 3)
