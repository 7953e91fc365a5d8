"""PyTorch's calls that move elements, and fill tensors (docs/pytorch.md)."""

from __future__ import annotations

import math

import numpy as np
import torch

from . import _accrue as a
from ._accrue import Value
from ._pytorch_graph import CALLS, Place, is_samples, sizes
from ._pytorch_rows import check, row, scalar

# Sizes and places

@row("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "squeeze.dim",
      "squeeze.dims", "squeeze.default", "unsqueeze.default")
def _view(t, x, *args):
    return t.reshaped(x)


@row("expand.default")
def _expand(t, x, shape, implicit=False):
    return t.expanded(x)


@row("repeat.default", "tile.default")
def _repeat(t, x, times):
    x = t.value(x)
    t.apart(x, [len(x.shape) - len(times) + i for i, n in enumerate(times) if n != 1 and not is_samples(n)
                and i >= len(times) - len(x.shape)])
    if any(map(is_samples, times)):
        shape = [1] * (len(times) - len(x.shape)) + list(x.shape)
        x = t.reshaped(x, shape)
        check(t, all(shape[i] == 1 for i, n in enumerate(times) if is_samples(n)),
               f"{sizes(shape)} is repeated for each sample along a dimension that has elements: expected size 1")
        x = x.expand([n * size if is_samples(n) else size for n, size in zip(times, shape)])
        times = [1 if is_samples(n) else n for n in times]
    return x if all(n == 1 for n in times) else a.tile(x, list(times))


@row("permute.default")
def _permute(t, x, dims):
    return t.value(x).permute(list(dims))


@row("transpose.int")
def _transpose(t, x, first, second):
    return t.value(x).transpose(first, second)


@row("t.default")
def _t(t, x):
    x = t.value(x)
    return x if len(x.shape) < 2 else x.transpose(0, 1)


@row("movedim.intlist", "movedim.int")
def _movedim(t, x, source, to):
    x = t.value(x)
    rank = len(x.shape)
    source, to = ([each] if isinstance(each, int) else list(each) for each in (source, to))
    order: list = [None] * rank
    for i, j in zip(source, to):
        order[j % rank] = i % rank
    rest = iter(i for i in range(rank) if i not in order)
    return x.permute([next(rest) if i is None else i for i in order])


@row("cat.default", "concat.default")
def _cat(t, xs, dim=0):
    xs = [t.value(x) for x in xs if not (isinstance(x, torch.Tensor) and x.shape == (0,))]
    for x in xs:
        t.apart(x, [dim])
    return a.cat(xs, dim) if len(xs) > 1 else xs[0]


@row("stack.default")
def _stack(t, xs, dim=0):
    return a.stack([t.value(x) for x in xs], dim)


@row("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split.Tensor",
      "split_copy.Tensor")
def _split(t, x, each, dim=0):
    x = t.value(x)
    t.apart(x, [dim])
    return list(a.split(x, each, dim))


@row("chunk.default", "unsafe_chunk.default")
def chunk(t, x, chunks, dim=0):
    x = t.value(x)
    t.apart(x, [dim])
    return list(a.chunk(x, chunks, dim))


@row("unbind.int")
def _unbind(t, x, dim=0):
    x = t.value(x)
    return [_select(t, x, dim, i) for i in range(len(t.node.meta["val"]))]


@row("slice.Tensor")
def _slice(t, x, dim=0, start=None, end=None, step=1):
    if isinstance(x, Place) and tuple(x.shape) == t.shape():
        return x
    x = t.value(x)
    size = x.shape[dim]
    if isinstance(size, int):
        start = max(0, start + size if start < 0 else start) if start else 0
        end = size if end is None or end >= size else end + size if end < 0 else end
        if (start, end, step) == (0, size, 1):
            return x
        return a.slice(x, dim, min(start, size), end, step)
    if _takes_all(size, start, end, step):
        return x
    t.apart(x, [dim])


def _takes_all(size, start, end, step):
    """True for the slice of all samples."""
    return not start and (end is None or end == size or isinstance(end, int) and end > 1 << 40) and step == 1


@row("select.int")
def _select(t, x, dim, index):
    x = t.value(x)
    t.apart(x, [dim])
    index = index + x.shape[dim] if index < 0 else index
    part = t.flag(t.outer.get(id(x), 1), a.slice(x, dim, index, index + 1))
    return t.reshaped(part, [size for i, size in enumerate(x.shape) if i != dim % len(x.shape)])


CALLS["aten.narrow.default"] = lambda t, x, dim, start, length: _slice(t, x, dim, start, start + length)


@row("constant_pad_nd.default")
def _constant_pad(t, x, pad, value=0):
    return _padded(t, x, pad, "constant", value)


@row("pad.default")
def _padded(t, x, pad, mode="constant", value=None):
    x = t.value(x)
    t.apart(x, [-1 - i // 2 for i, n in enumerate(pad) if n])
    return a.pad(x, list(pad), mode, float(value or 0))


for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _rank in (1, 2, 3):
        CALLS[f"aten.{_name}_pad{_rank}d.default"] = lambda t, x, pad, mode=_mode: _padded(t, x, pad, mode)


@row("roll.default")
def _roll(t, x, shifts, dims=()):
    x = t.value(x)
    check(t, dims, "roll without dims: expected some")
    t.apart(x, dims)
    return a.roll(x, list(shifts), list(dims))


@row("flip.default")
def _flip(t, x, dims):
    x = t.value(x)
    t.apart(x, dims)
    return a.flip(x, list(dims))


@row("slice_scatter.default")
def _slice_scatter(t, x, part, dim=0, start=None, end=None, step=1):
    """x with `part` in the place of a slice of it."""
    x, part = t.value(x), t.value(part)
    size = x.shape[dim]
    if not isinstance(size, int):
        if not _takes_all(size, start, end, step):
            t.apart(x, [dim])
        return part
    start, end, step = slice(start, None if end is None else int(end), step).indices(size)
    if (start, end, step) == (0, size, 1):
        return part
    if step != 1:
        check(t, t.place(part) is not None or t.place(x) is None, "every other element of samples becomes a constant: "
              "expected values of each sample")
        order = list(range(size))
        for i, place in enumerate(range(start, end, step)):
            order[place] = size + i
        return a.index_select(a.cat([x, part], dim), dim, t.value(torch.tensor(order), whole=True))
    around = [a.slice(x, dim, 0, start, 1)] if start > 0 else []
    after = [a.slice(x, dim, max(start, end), size, 1)] if end < size else []
    return a.cat([*around, *([part] if end > start else []), *after], dim)


@row("select_scatter.default")
def _select_scatter(t, x, part, dim, index):
    x = t.value(x)
    t.apart(x, [dim])
    dim, index = dim % len(x.shape), index + x.shape[dim] if index < 0 else index
    shape = list(x.shape)
    part = t.reshaped(t.value(part), [*shape[:dim], 1, *shape[dim + 1:]])
    return _slice_scatter(t, x, part, dim, index, index + 1)


@row("index_put.default", "index_put_.default", "_unsafe_index_put.default")
def _index_put(t, x, indices, values, accumulate=False):
    """x[mask] = number, for a mask of truths."""
    node = t.node.args[1][0] if len(indices) == 1 else None
    mask = indices[0] if len(indices) == 1 else None
    dtype = mask.dtype if isinstance(mask, torch.Tensor) else getattr(node, "meta", {}).get("val", mask).dtype \
        if node is not None else None
    check(t, dtype == torch.bool and not accumulate and scalar(values) is not None,
          "elements are written by their indices: expected x[mask] = number, or torch.where")
    mask, x = t.value(mask), t.value(x)
    mask = t.reshaped(mask, [*mask.shape, *[1] * (len(x.shape) - len(mask.shape))])
    return a.where(mask, t.value(values), x)


@row("copy.default")
def _copy(t, x, values, non_blocking=False):
    return t.expanded(_unsqueezed(t, values))


def _unsqueezed(t, x):
    """x with as many dimensions as the call's result."""
    x = t.value(x)
    missing = len(t.shape()) - len(x.shape)
    return t.reshaped(x, [1] * missing + list(x.shape)) if missing > 0 else x


@row("fill.Scalar", "fill.Tensor", "zero.default")
def _fill(t, x, value=0):
    return t.expanded(_unsqueezed(t, value)) if isinstance(value, Value) else _filled(t, float(value))


def _filled(t, number):
    """The call's result, which is this number everywhere."""
    shape = t.shape()
    if not any(map(is_samples, shape)):
        return torch.full(shape, number, dtype=t.node.meta["val"].dtype)
    return a.constant(np.full([1] * len(shape), float(number))).expand(shape)


@row("diagonal.default", "diagonal_copy.default")
def _diagonal(t, x, offset=0, dim1=0, dim2=1):
    x = t.value(x)
    t.apart(x, [dim1, dim2])
    rank = len(x.shape)
    last = [dim1 % rank, dim2 % rank]
    x = x.permute([i for i in range(rank) if i not in last] + last)
    rows, columns = x.shape[-2:]
    at = torch.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    check(t, len(at), f"the diagonal {offset} of {rows} x {columns}: expected one that has elements")
    flat = t.reshaped(x, [*x.shape[:-2], rows * columns])
    return a.index_select(flat, -1, t.value((at - min(offset, 0)) * columns + at + max(offset, 0), whole=True))


def _windows(t, x, dim, size, step, apart=1):
    """x with a dimension of windows and one of their elements, in place of `dim`."""
    shape, dim = list(x.shape), dim % len(x.shape)
    count = (shape[dim] - (size - 1) * apart - 1) // step + 1
    at = torch.arange(count)[:, None] * step + torch.arange(size) * apart
    taken = a.index_select(x, dim, t.value(at.reshape(-1), whole=True))
    return t.reshaped(taken, [*shape[:dim], count, size, *shape[dim + 1:]])


@row("unfold.default", "unfold_copy.default")
def _unfold(t, x, dim, size, step):
    x = t.value(x)
    t.apart(x, [dim])
    dim = dim % len(x.shape)
    y = _windows(t, x, dim, size, step)
    return y.permute([i for i in range(len(y.shape)) if i != dim + 1] + [dim + 1])


@row("im2col.default")
def _im2col(t, x, kernel, dilation, padding, stride):
    x = t.value(x)
    check(t, len(x.shape) == 4 and t.place(x) == 0, f"x is {sizes(x.shape)}: expected [N, C, H, W]")
    if any(padding):
        x = a.pad(x, [padding[1], padding[1], padding[0], padding[0]], "constant", 0.0)
    y = _windows(t, x, 2, kernel[0], stride[0], dilation[0])
    y = _windows(t, y, 4, kernel[1], stride[1], dilation[1])  # [N, C, rows, k, columns, l]
    return t.reshaped(y.permute([0, 1, 3, 5, 2, 4]))


@row("index_select.default")
def _index_select(t, x, dim, index):
    x = t.value(x)
    t.apart(x, [dim])
    return a.index_select(x, dim, t.value(index, whole=True))


@row("gather.default")
def _gather(t, x, dim, index, sparse_grad=False):
    x = t.value(x)
    t.apart(x, [dim])
    return a.gather(x, dim, t.value(index, whole=True))


@row("index.Tensor", "_unsafe_index.Tensor")
def _index(t, x, indices):
    """x[:, i, j] for constant indices that stand side by side, and x[i] for i of the samples."""
    x = t.value(x)
    if isinstance(indices[0], Place):
        return _index_each(t, x, indices)
    places = [d for d, each in enumerate(indices) if each is not None]
    check(t, places == list(range(places[0], places[0] + len(places))),
           "indices with a whole dimension between them: expected indices side by side")
    first, last = places[0], places[-1]
    given = [indices[d] for d in places]
    if any(isinstance(each, Value) for each in given):
        check(t, len(given) == 1 and t.place(x) is None and first == 0 and len(x.shape) == 2,
               "indices that depend on samples: expected one, into rows")
        return a.embedding(given[0], x)
    t.apart(x, places)
    check(t, all(isinstance(each, torch.Tensor) and not each.dtype.is_floating_point and each.dtype != torch.bool
                  for each in given), "indices that are no constant whole numbers: expected constants")
    shape = list(x.shape)
    extents = shape[first:last + 1]
    given = list(torch.broadcast_tensors(*[torch.where(i < 0, i + n, i) for i, n in zip(given, extents)]))
    flat = given[0]
    for index, extent in zip(given[1:], extents[1:]):
        flat = flat * extent + index
    rows = t.reshaped(x, [*shape[:first], math.prod(extents), *shape[last + 1:]])
    taken = a.index_select(rows, first, t.value(flat.reshape(-1), whole=True))
    return t.reshaped(taken, [*shape[:first], *flat.shape, *shape[last + 1:]])


def _index_each(t, x, indices):
    """x[n, i] of each sample n, for a constant index i that is broadcast with n."""
    if len(indices) == 2 and isinstance(indices[1], Value) and indices[1]._is_whole and t.place(x) == 0:
        own = t.reshaped(indices[1], [t.samples, *[1] * (len(x.shape) - 1)])
        check(t, own.shape[0] == t.samples and t.outer.get(id(x), 1) == 1,
              f"indices {sizes(indices[1].shape)}: expected one for each sample")
        return t.reshaped(a.gather(x, 1, own.expand([t.samples, 1, *x.shape[2:]])))
    check(t, len(indices) == 2 and t.place(x) == 0 and t.outer.get(id(x), 1) == 1 and
           isinstance(indices[1], torch.Tensor) and (indices[1].dim() < len(indices[0].shape) or indices[1].shape[0] == 1),
           "indices of samples among others: expected the samples' own places and one constant index")
    index = indices[1]
    taken = a.index_select(x, 1, t.value(torch.where(index < 0, index + x.shape[1], index).reshape(-1), whole=True))
    return t.reshaped(taken)


@row("arange.default", "arange.start", "arange.start_step")
def _arange(t, *args, **options):
    check(t, t.shape() == (t.samples,) and len(args) == 1, "numbers of the samples: expected their places alone")
    return Place(t.shape())


@row("full.default", "zeros.default", "ones.default", "full_like.default", "zeros_like.default", "ones_like.default",
      "new_zeros.default", "new_ones.default", "new_full.default", "scalar_tensor.default")
def _full(t, *args, **options):
    name = str(t.node.target)
    value = args[1] if "full" in name and "new" not in name else args[2] if "new_full" in name else (
        args[0] if "scalar" in name else float("ones" in name))
    return _filled(t, value)


@row("tril.default")
def _tril(t, x, diagonal=0):
    return _triangle(t, x, torch.tril, diagonal)


@row("triu.default")
def _triu(t, x, diagonal=0):
    return _triangle(t, x, torch.triu, diagonal)


def _triangle(t, x, part, diagonal):
    x = t.value(x)
    t.apart(x, [-2, -1])
    return a.mul(x, t.value(part(torch.ones(*x.shape[-2:]), diagonal)))
