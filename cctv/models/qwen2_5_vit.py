"""The vision tower of Qwen2.5-VL: most layers attend inside windows, a few across the picture.

Patches come window by window from the host, so a window is a run of neighbours. Windows are of
unequal size at the edges of the picture, so windowed layers cut the run into blocks of the largest
window's size, and a block attends to itself and to both neighbours, where all its windows lie:

    window    0 0 0 0 1 1 2 2 2 2 3 3      blocks of 4: |0 0 0 0|1 1 2 2|2 2 3 3|

    a patch of window 2 in the middle block: its four patches, in that block and in the next
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cctv.data.preprocess import patch_coords
from cctv.models.layers import Linear, RMSNorm, Segment, attend, grid_angles, rotate, stack
from cctv.models.qwen_vit import Merger


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """Sizes of the tower. window_size: pixels of a window's side; full_layers: the layers that
    attend to the whole group of frames."""

    width: int
    mlp_dim: int
    num_layers: int
    num_heads: int
    out_width: int
    full_layers: tuple[int, ...]
    window_size: int = 112
    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    channels: int = 3
    rope_theta: float = 10_000.0

    def __post_init__(self):
        if self.width % self.num_heads or (self.width // self.num_heads) % 4:
            raise ValueError(
                f"vision width {self.width} over {self.num_heads} heads must give a head size "
                "that is a multiple of 4"
            )
        if self.window_size < self.patch_size * self.merge_size:
            raise ValueError(f"a window of {self.window_size} pixels holds no merged patch")

    @property
    def patch_dim(self) -> int:
        return self.channels * self.temporal_patch_size * self.patch_size**2

    @property
    def window_side(self) -> int:
        """Merged patches along a window's side."""
        return self.window_size // self.patch_size // self.merge_size

    @property
    def window_patches(self) -> int:
        """Patches of a whole window."""
        return (self.window_side * self.merge_size) ** 2


class Windows(NamedTuple):
    """Temporal groups, P patches each in the order of `layout`, the tail padded.

    patches float32[G, P, patch_dim]; coords int32[G, P, 2] (row, column); window int32[G, P], the
    number of a patch's window; place int32[G, P], for the first patch of each merged one: where, in
    the tower's order of merged patches, stands the one that the prompt has here; mask bool[G, P],
    True = a real patch.
    """

    patches: np.ndarray
    coords: np.ndarray
    window: np.ndarray
    place: np.ndarray
    mask: np.ndarray


def layout(rows: int, columns: int, c: VisionConfig) -> tuple[np.ndarray, ...]:
    """Where the patches of a (rows, columns) grid go: (order, coords, window, place), int32[P].

    order: the tower's i-th patch is number order[i] of `preprocess.patchify`. Windows follow each
    other row by row, and so do the merged patches inside one. The rest is as in `Windows`.
    """
    unit = c.merge_size**2
    coords = patch_coords(rows, columns, merge=c.merge_size)  # [P, 2]
    row, column = coords[::unit].T // (c.merge_size * c.window_side)  # of each merged patch
    window = row * (1 + column.max()) + column
    merged = np.argsort(window, kind="stable")
    order = (merged[:, None] * unit + np.arange(unit)).ravel()
    place = np.repeat(np.argsort(merged), unit)
    return tuple(a.astype(np.int32) for a in (order, coords[order], window[order // unit], place))


def windows(patches: np.ndarray, rows: int, columns: int, c: VisionConfig) -> Windows:
    """The `Windows` of one video. patches: float32[G, rows·columns, patch_dim] of `patchify`."""
    order, *rest = layout(rows, columns, c)
    repeated = (np.broadcast_to(a, (len(patches), *a.shape)) for a in rest)
    return Windows(patches[:, order], *repeated, np.ones(patches.shape[:2], bool))


def attend_windows(q, k, v, window: jax.Array, *, size: int) -> jax.Array:
    """Attention inside windows of at most `size` neighbours.

    Args:
      q, k, v: float[G, P, N, H]; window: int[G, P], equal inside a window, -1 nowhere.

    Returns float[G, P, N, H].
    """
    g, p, n, h = q.shape
    blocks = -(-p // size)

    def cut(a, fill):
        """[G, P, ...] -> [G, blocks, size, ...]"""
        widths = [(0, 0), (0, blocks * size - p), *[(0, 0)] * (a.ndim - 2)]
        a = jnp.pad(a, widths, constant_values=fill)
        return a.reshape(g, blocks, size, *a.shape[2:])

    def around(a, fill):
        """[G, P, ...] -> [G·blocks, 3·size, ...], each block between its neighbours"""
        a = jnp.pad(cut(a, fill), [(0, 0), (1, 1), *[(0, 0)] * (a.ndim - 1)], constant_values=fill)
        a = jnp.concatenate([a[:, :-2], a[:, 1:-1], a[:, 2:]], axis=2)
        return a.reshape(g * blocks, 3 * size, *a.shape[3:])

    inside = cut(window, -1).reshape(g * blocks, size)[:, :, None] == around(window, -1)[:, None]
    segment = Segment(around(k, 0), around(v, 0), inside)
    out = attend(cut(q, 0).reshape(g * blocks, size, n, h), segment)
    return out.reshape(g, blocks * size, n, h)[:, :p]


class Block(nnx.Module):
    """Pre-norm attention (fused qkv) and SwiGLU, all with biases."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.norm1 = RMSNorm(c.width, eps=1e-6)
        self.qkv = Linear(c.width, 3 * c.width, rngs=rngs)
        self.proj = Linear(c.width, c.width, rngs=rngs)
        self.norm2 = RMSNorm(c.width, eps=1e-6)
        self.gate = Linear(c.width, c.mlp_dim, rngs=rngs)
        self.up = Linear(c.width, c.mlp_dim, rngs=rngs)
        self.down = Linear(c.mlp_dim, c.width, rngs=rngs)

    def __call__(
        self, x: jax.Array, angles: jax.Array, window: jax.Array, mask: jax.Array, full: jax.Array
    ) -> jax.Array:
        """full: bool[], whether this layer attends to the whole group."""
        qkv = self.qkv(self.norm1(x)).reshape(*x.shape[:2], 3, self.config.num_heads, -1)
        q, k, v = (qkv[:, :, i] for i in range(3))  # [G, P, N, H]
        q, k = (rotate(a, angles, dtype=jnp.float32) for a in (q, k))
        heads = jax.lax.cond(
            full,
            lambda: attend(q, Segment(k, v, mask[:, None])),
            lambda: attend_windows(q, k, v, window, size=self.config.window_patches),
        )
        x = x + self.proj(heads.reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(jax.nn.silu(self.gate(y)) * self.up(y))


class WindowTower(nnx.Module):
    """Patches to visual tokens."""

    def __init__(self, c: VisionConfig, *, rngs: nnx.Rngs):
        self.config = c
        self.patch = Linear(c.patch_dim, c.width, bias=False, rngs=rngs)
        self.layers = stack(lambda r: Block(c, rngs=r), c.num_layers, rngs=rngs)
        self.merger = Merger(c, norm=RMSNorm, rngs=rngs)

    def __call__(self, inputs: Windows) -> jax.Array:
        """float[G, V, 1, out_width] with V = P / merge_size², in the order of the prompt."""
        c = self.config
        x = self.patch(inputs.patches.astype(self.patch.kernel.dtype))  # [G, P, D]
        angles = grid_angles(inputs.coords, c.width // c.num_heads, c.rope_theta)
        window = jnp.where(inputs.mask, inputs.window, -1)
        full = np.isin(np.arange(c.num_layers), c.full_layers)
        x, _ = jax.lax.scan(
            lambda h, layer: (layer[0](h, angles, window, inputs.mask, layer[1]), None),
            x,
            (self.layers, full),
        )
        x = self.merger(x)  # [G, V, D]
        place = inputs.place[:, :: c.merge_size**2]
        return jnp.take_along_axis(x, place[..., None], axis=1)[:, :, None]
