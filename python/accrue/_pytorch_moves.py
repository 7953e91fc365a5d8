"""Where PyTorch's calls only move elements: as strides say it, without copies (docs/pytorch.md)."""

from __future__ import annotations

import math
import typing

from . import _accrue as a
from ._accrue import Value

SAMPLES = a.input(1).shape[0]
#: A part of a dimension: its size, None for the samples, and its stride in elements.
Part = tuple[typing.Optional[int], int]


class Layout:
    """The elements of a value that are all or some of `base` [c N, ...], samples first.

    Each dimension has parts, the outer ones first: in [3 N] with the places of a sample outside there are
    (3, stride) and (None, stride).
    """

    def __init__(self, base: Value, dims: list[list[Part]], offset: int = 0):
        self.base, self.offset = base, offset
        self.dims = [_merged(dim) for dim in dims]

    @classmethod
    def of(cls, base: Value) -> Layout:
        """All elements of `base`, in their order."""
        stride = base.shape[0]._times * math.prod(base.shape[1:])
        dims: list[list[Part]] = [[(None, stride), (base.shape[0]._times, math.prod(base.shape[1:]))]]
        for i, size in enumerate(base.shape[1:], 2):
            dims.append([(size, math.prod(base.shape[i:]))])
        return cls(base, dims)

    @property
    def elements(self) -> int:
        """How many elements of `base` a sample has."""
        return self.base.shape[0]._times * math.prod(self.base.shape[1:])

    def parts(self) -> list[Part]:
        return [part for dim in self.dims for part in dim]

    def is_whole(self) -> bool:
        """True if the elements are `base`'s in their order, under another shape."""
        return self.offset == 0 and self._covers(self.parts())

    def has_all(self) -> bool:
        """True if the elements are `base`'s, in any order."""
        return self.offset == 0 and self._covers(sorted(self.parts(), key=_outer_first))

    def _covers(self, parts: list[Part]) -> bool:
        inner = [(self.elements, 1)] if self.elements > 1 else []
        return _merged(parts) == [(None, self.elements), *inner]

    def permuted(self, order: typing.Sequence[int]) -> Layout:
        return Layout(self.base, [self.dims[i] for i in order], self.offset)

    def viewed(self, shape: typing.Iterable) -> Layout | None:
        """The same elements in other sizes; None where parts would lie across dimensions."""
        parts, dims = self.parts(), []
        for size in shape:
            has_samples = isinstance(size, a.Samples)
            left, dim = size._times if has_samples else size, []
            while left > 1 or has_samples:
                extent, stride = parts.pop(0) if parts else (1, 0)
                if extent is None and has_samples:
                    has_samples = False
                    dim.append((extent, stride))
                    continue
                taken = math.gcd(extent or 1, left)
                if taken == 1 or taken != extent and taken != left:
                    return None
                dim.append((taken, stride * (extent // taken)))
                left //= taken
                if taken < extent:
                    parts.insert(0, (extent // taken, stride))
            dims.append(dim)
        return None if parts else Layout(self.base, dims, self.offset)

    def taken(self, dim: int, begin: int, length: int) -> Layout | None:
        """A slice along a dimension."""
        parts = self.dims[dim]
        if len(parts) != 1 or parts[0][0] is None:
            return None
        stride = parts[0][1]
        dims = [*self.dims[:dim], [(length, stride)], *self.dims[dim + 1:]]
        return Layout(self.base, dims, self.offset + begin * stride)

    def made(self, shape: typing.Sequence) -> Value:
        """A copy in this order, of all elements."""
        parts = self.parts()
        inside = sorted(parts, key=_outer_first)
        split = shaped(self.base, [SAMPLES if extent is None else extent for extent, _ in inside])
        return shaped(split.permute([inside.index(part) for part in parts]), shape)

    def times(self, weight: Value, bias: Value | None) -> Layout | None:
        """The layout of linear() of `base`'s rows; None unless the last dimension has rows of all elements."""
        K, O = weight.shape[1], weight.shape[0]
        if self.dims[-1] != [(K, 1)] or K == 1 or not self.has_all():
            return None
        y = a.linear(shaped(self.base, [SAMPLES, self.elements // K, K]), weight, bias)
        return Layout(y, [*([(extent, stride // K * O) for extent, stride in dim] for dim in self.dims[:-1]), [(O, 1)]])

    def heads(self) -> Heads | None:
        """Where heads [c N, H, T, D] lie side by side in rows of `base`; None if they do not."""
        if len(self.dims) != 4:
            return None
        (samples, *more), heads, rows, channels = self.dims
        if samples[0] is not None or len(more) > 1 or len(rows) != 1 or rows[0][0] is None or len(heads) > 1:
            return None
        T, width = rows[0]
        D = channels[0][0] if channels else 1
        H = heads[0][0] if heads else 1
        each = more[0] if more else (1, self.elements)
        fits = channels == ([(D, 1)] if D > 1 else []) and (not heads or heads[0] == (H, D))
        if not fits or each[1] != T * width or each[0] * T * width != self.elements:
            return None
        return Heads(self.base, each[0], T, width, self.offset, H, D) if self.offset + H * D <= width else None


class Heads(typing.NamedTuple):
    """Heads [c N, H, T, D] that lie side by side in the rows of a value, from a column on."""

    base: Value
    c: int
    T: int
    width: int
    first: int
    H: int
    D: int

    def rows(self) -> Value:
        return shaped(self.base, [SAMPLES * self.c, self.T, self.width])

    def columns(self) -> Value:
        """The rows of these heads alone."""
        size = self.H * self.D
        return self.rows() if size == self.width else a.slice(self.rows(), 2, self.first, self.first + size)


def attended(q: Heads, k: Heads, v: Heads, is_causal: bool, scale: float | None, key_mask: Value | None) -> Value:
    """attention_rows() of these heads: [c N, T, H D]."""
    packed = [0, q.H * q.D, (q.H + k.H) * q.D]
    if q.base is k.base is v.base and q.T == k.T and [each.first for each in (q, k, v)] == packed and (
            q.width == packed[2] + k.H * q.D):
        return a.attention_rows(q.rows(), q.H, groups=k.H, is_causal=is_causal, scale=scale, key_mask=key_mask)
    return a.attention_rows(q.columns(), q.H, k.columns(), v.columns(), groups=k.H, is_causal=is_causal, scale=scale,
                            key_mask=key_mask)


def shaped(x: Value, shape: typing.Sequence) -> Value:
    return x if list(x.shape) == list(shape) else x.reshape(list(shape))


def _outer_first(part: Part) -> tuple[bool, int]:
    return part[0] is not None, -part[1]


def _merged(parts: typing.Iterable[Part]) -> list[Part]:
    """The same with as few parts as possible. The samples stay a part of their own."""
    found: list[Part] = []
    for extent, stride in parts:
        if extent == 1:
            continue
        if found and extent is not None and found[-1][0] is not None and found[-1][1] == extent * stride:
            extent *= found.pop()[0]
        found.append((extent, stride))
    return found


# Calls that move, by the names of PyTorch's: the layout of their result, or a list of layouts, of a layout, the
# call's arguments and its result's sizes. They give None where they copy.

Moved = typing.Union[Layout, "list[Layout | None]", None]


def _transposed(x: Layout, args: list, shapes: list) -> Layout:
    order = list(range(len(x.dims)))
    i, j = (d % len(order) for d in args[:2])
    order[i], order[j] = order[j], order[i]
    return x.permuted(order)


def _sliced(x: Layout, args: list, shapes: list) -> Layout | None:
    dim, start, end, step = [*args, *[0, None, None, 1][len(args):]]
    dim %= len(x.dims)
    length = shapes[0][dim]
    if step != 1 or isinstance(length, a.Samples) or len(x.dims[dim]) != 1 or x.dims[dim][0][0] is None:
        return None
    size = x.dims[dim][0][0]
    start = start or 0
    return x.taken(dim, max(0, start + size) if start < 0 else min(start, size), length)


def _selected(x: Layout, args: list, shapes: list) -> Layout | None:
    dim, index = args[0] % len(x.dims), args[1]
    if len(x.dims[dim]) != 1 or x.dims[dim][0][0] is None:
        return None
    part = x.taken(dim, index % x.dims[dim][0][0], 1)
    return None if part is None else part.viewed(shapes[0])


def _cut(x: Layout, args: list, shapes: list) -> list[Layout | None]:
    dim = (args[1] if len(args) > 1 else 0) % len(x.dims)
    parts, begin = [], 0
    for shape in shapes:
        parts.append(None if isinstance(shape[dim], a.Samples) else x.taken(dim, begin, shape[dim]))
        begin = begin if isinstance(shape[dim], a.Samples) else begin + shape[dim]
    return parts


def _unbound(x: Layout, args: list, shapes: list) -> list[Layout | None]:
    dim = args[0] if args else 0
    return [_selected(x, [dim, i], [shape]) for i, shape in enumerate(shapes)]


def _viewed(x: Layout, args: list, shapes: list) -> Layout | None:
    return x.viewed(shapes[0])


MOVES: dict[str, typing.Callable[[Layout, list, list], Moved]] = {
    **{f"aten.{name}": _viewed for name in (
        "view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int",
        "squeeze.dim", "squeeze.dims", "squeeze.default", "unsqueeze.default")},
    **{f"aten.{name}": lambda x, args, shapes: x for name in ("clone.default", "contiguous.default", "alias.default")},
    "aten.permute.default": lambda x, args, shapes: x.permuted([d % len(x.dims) for d in args[0]]),
    "aten.transpose.int": _transposed,
    "aten.t.default": lambda x, args, shapes: x.permuted(range(len(x.dims))[::-1]),
    "aten.slice.Tensor": _sliced,
    "aten.select.int": _selected,
    "aten.unbind.int": _unbound,
    **{f"aten.{name}": _cut for name in (
        "split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split.Tensor",
        "split_copy.Tensor", "chunk.default", "unsafe_chunk.default")},
}
