"""PyTorch's calls, a row each, as calls of accrue on values (docs/pytorch.md)."""

from __future__ import annotations

import math
import typing

import numpy as np
import torch

from . import _accrue as a
from ._accrue import Value
from ._pytorch_graph import CALLS, Call, Caller, Empty, Noise, Place, Spread, Uniform, is_samples, sizes

# Rows. `t` is the Caller, the other arguments are PyTorch's.

def _row(*names: str) -> typing.Callable[[Call], Call]:
    def add(call: Call) -> Call:
        for name in names:
            CALLS[f"aten.{name}"] = call
        return call
    return add


def _scalar(x: typing.Any) -> float | None:
    """A number, if it is one for all elements."""
    if isinstance(x, (bool, int, float)):
        return float(x)
    if isinstance(x, torch.Tensor) and x.numel() == 1 and x.dim() <= 1:
        return float(x)
    return None


def _check(t: Caller, holds: typing.Any, why: str) -> None:
    if not holds:
        t.refuse(t.node, why)


# Element by element

_UNARY = ("relu sigmoid tanh silu exp log log1p expm1 sqrt rsqrt reciprocal square abs neg sign floor ceil round erf "
          "sin cos tan asin acos atan sinh cosh asinh acosh atanh hardsigmoid hardswish mish selu softsign")
for _name in _UNARY.split():
    CALLS[f"aten.{_name}.default"] = lambda t, x, f=getattr(a, _name): f(t.value(x))
CALLS["aten.log_sigmoid.default"] = lambda t, x: a.logsigmoid(t.value(x))
CALLS["aten.isnan.default"] = lambda t, x: a.is_nan(t.value(x))
CALLS["aten.relu6.default"] = lambda t, x: a.clamp(t.value(x), 0, 6)
CALLS["aten.gelu.default"] = lambda t, x, approximate="none": a.gelu(t.value(x), approximate)
CALLS["aten.leaky_relu.default"] = lambda t, x, slope=0.01: a.leaky_relu(t.value(x), slope)
CALLS["aten.hardtanh.default"] = lambda t, x, low=-1, high=1: a.clamp(t.value(x), low, high)
CALLS["aten.celu.default"] = lambda t, x, alpha=1.0: a.celu(t.value(x), alpha)
CALLS["aten.softplus.default"] = lambda t, x, beta=1, threshold=20: a.softplus(t.value(x), beta, threshold)
CALLS["aten.threshold.default"] = lambda t, x, least, value: a.threshold(t.value(x), least, value)
CALLS["aten.hardshrink.default"] = lambda t, x, by=0.5: a.shrink(t.value(x), by, 0)
CALLS["aten.softshrink.default"] = lambda t, x, by=0.5: a.shrink(t.value(x), by, by)
CALLS["aten.exp2.default"] = lambda t, x: a.exp(a.scale(t.value(x), math.log(2)))
CALLS["aten.log2.default"] = lambda t, x: a.scale(a.log(t.value(x)), 1 / math.log(2))
CALLS["aten.log10.default"] = lambda t, x: a.scale(a.log(t.value(x)), 1 / math.log(10))


@_row("elu.default")
def _elu(t, x, alpha=1.0, scale=1.0, input_scale=1.0):
    _check(t, scale == 1 and input_scale == 1, f"scale={scale}, input_scale={input_scale}: expected 1")
    return a.elu(t.value(x), alpha)


@_row("clamp.default", "clamp.Tensor", "clip.default")
def _clamp(t, x, low=None, high=None):
    if isinstance(low, (Value, torch.Tensor)) or isinstance(high, (Value, torch.Tensor)):
        y = t.value(x) if low is None else a.maximum(t.value(x), t.value(low))
        return y if high is None else a.minimum(y, t.value(high))
    return a.clamp(t.value(x), None if low is None else float(low), None if high is None else float(high))


CALLS["aten.clamp_min.default"] = lambda t, x, low: _clamp(t, x, low)
CALLS["aten.clamp_max.default"] = lambda t, x, high: _clamp(t, x, None, high)


@_row("prelu.default", "_prelu_kernel.default")
def _prelu(t, x, weight):
    x, weight = t.value(x), t.value(weight)
    if len(weight.shape) == 1 and weight.shape[0] != 1:
        weight = weight.reshape([weight.shape[0]] + [1] * (len(x.shape) - 2))
    elif len(weight.shape) == 1:
        weight = weight.reshape([1] * max(1, len(x.shape)))
    return a.where(a.greater(x, 0.0), x, weight * x)


@_row("add.Tensor", "add.Scalar")
def _add(t, x, y, alpha=1):
    if isinstance(x, Uniform) or isinstance(y, Uniform):
        noise, number = (x, _scalar(y)) if isinstance(x, Uniform) else (y, _scalar(x))
        _check(t, number is not None and alpha == 1, "noise is added to a value: expected a dropout's noise")
        return Uniform(noise.shape, noise.origin, noise.above + number)
    if _scalar(x) is not None:
        return a.add_scalar(_times(t, t.value(y), alpha), _scalar(x))
    if _scalar(y) is not None:
        return a.add_scalar(t.value(x), alpha * _scalar(y))
    return a.add(t.value(x), _times(t, t.value(y), alpha))


def _times(t, x, factor):
    return x if factor == 1 else a.scale(x, float(factor))


@_row("sub.Tensor", "sub.Scalar")
def _sub(t, x, y, alpha=1):
    if _scalar(y) is not None:
        return a.add_scalar(t.value(x), -alpha * _scalar(y))
    if _scalar(x) is not None:
        return a.rsub(_times(t, t.value(y), alpha), _scalar(x))
    return a.sub(t.value(x), _times(t, t.value(y), alpha))


@_row("rsub.Scalar", "rsub.Tensor")
def _rsub(t, x, y, alpha=1):
    return _sub(t, y, x, alpha)


@_row("mul.Tensor", "mul.Scalar")
def _mul(t, x, y):
    for noise, other in ((x, y), (y, x)):
        if isinstance(noise, Noise):
            return _masked(t, other, noise)
    if _scalar(y) is not None:
        return a.scale(t.value(x), _scalar(y))
    if _scalar(x) is not None:
        return a.scale(t.value(y), _scalar(x))
    return a.mul(t.value(x), t.value(y))


def _masked(t, x, noise):
    if _scalar(x) is not None:
        return Noise(noise.shape, noise.keep, noise.origin, noise.factor * _scalar(x))
    if isinstance(x, Noise):
        return a.mul(t.drawn(x), t.drawn(noise))
    x = t.value(x)
    factor = noise.factor * noise.keep
    y = None
    if t.is_alone(noise) and t.outer.get(id(x), 1) == 1 and t.place(x) == 0:
        if tuple(noise.shape) == tuple(x.shape):
            y = t.dropped(x, 1 - noise.keep)
        elif tuple(noise.shape) == (t.samples,) + (1,) * (len(x.shape) - 1) and noise.keep < 1:
            y = a.stochastic_depth(x, round(1 - noise.keep, 12))
    if y is None:
        return a.mul(x, t.drawn(noise))
    return y if math.isclose(factor, 1) else a.scale(y, factor)


@_row("div.Tensor", "div.Scalar")
def _div(t, x, y):
    if isinstance(x, Noise) and _scalar(y) is not None:
        return Noise(x.shape, x.keep, x.origin, x.factor / _scalar(y))
    if _scalar(y) is not None:
        return a.div_scalar(t.value(x), _scalar(y))
    if _scalar(x) is not None:
        return a.rdiv(t.value(y), _scalar(x))
    return a.div(t.value(x), t.value(y))


@_row("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(t, x, y):
    if _scalar(x) is not None:
        return a.exp(a.scale(t.value(y), math.log(_scalar(x))))
    exponent = _scalar(y)
    if exponent is None:
        return a.pow(t.value(x), t.value(y))
    known = {1: lambda v: v, 2: a.square, 0.5: a.sqrt, -1: a.reciprocal, -0.5: a.rsqrt}
    return known.get(exponent, lambda v: a.pow_scalar(v, exponent))(t.value(x))


def _both(call):
    return lambda t, x, y: call(t.number(x), t.number(y))


for _name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor"):
    CALLS[f"aten.{_name}.default"] = _both(getattr(a, _name))
for _name, _ours in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                     ("ge", "greater_equal")):
    for _kind in ("Tensor", "Scalar"):
        CALLS[f"aten.{_name}.{_kind}"] = _both(getattr(a, _ours))
for _name in ("and", "or", "xor"):
    CALLS[f"aten.bitwise_{_name}.Tensor"] = lambda t, x, y, f=getattr(a, f"logical_{_name}"): (
        _check(t, t.node.meta["val"].dtype == torch.bool, "bits of integers: expected truth values"),
        f(t.value(x), t.value(y)))[1]
    CALLS[f"aten.__{_name}__.Tensor"] = CALLS[f"aten.bitwise_{_name}.Tensor"]
CALLS["aten.logical_not.default"] = lambda t, x: a.logical_not(t.value(x))
CALLS["aten.bitwise_not.default"] = lambda t, x: (
    _check(t, t.node.meta["val"].dtype == torch.bool, "bits of integers: expected truth values"),
    a.logical_not(t.value(x)))[1]


@_row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(t, condition, x, y):
    return a.where(t.value(condition), t.value(x), t.value(y))


@_row("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(t, x, mask, value):
    return a.where(t.value(mask), t.value(value), t.value(x))


@_row("addcmul.default")
def _addcmul(t, x, y, z, value=1):
    return _add(t, x, _mul(t, y, z), value)


@_row("addcdiv.default")
def _addcdiv(t, x, y, z, value=1):
    return _add(t, x, _div(t, y, z), value)


@_row("lerp.Scalar", "lerp.Tensor")
def _lerp(t, x, y, weight):
    return _add(t, x, _mul(t, _sub(t, y, x), weight))


@_row("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default")
def _same(t, x, *args, **options):
    return x


CALLS["aten.expand_as.default"] = lambda t, x, other: t.expanded(x)
CALLS["aten.view_as.default"] = lambda t, x, other: t.reshaped(x)
CALLS["aten._assert_tensor_metadata.default"] = lambda t, *args, **options: None


@_row("detach.default", "detach_.default")
def _detach(t, x):
    t.refuse(t.node, "a gradient is stopped: expected no detach() of a value that depends on weights or samples")


@_row("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default")
def _cast(t, x, *args, **options):
    was = t.node.args[0].meta["val"].dtype
    to = t.node.meta["val"].dtype
    if was == to or was == torch.bool and to.is_floating_point:
        return x
    if to == torch.bool:
        return a.not_equal(t.number(x), 0.0)
    if not was.is_floating_point and not to.is_floating_point:
        return x
    if to == t.translation.dtype and not was.is_floating_point:
        return t.number(x)
    if was.is_floating_point and to.is_floating_point and to == t.translation.dtype:
        return x
    t.refuse(t.node, f"{_short(was)} becomes {_short(to)}: expected one type, {_short(t.translation.dtype)}, and whole "
             "numbers as indices alone")


def _short(dtype):
    return str(dtype).removeprefix("torch.")


# Noise

@_row("empty.memory_format", "empty_like.default", "new_empty.default", "empty_permuted.default",
      "empty_strided.default")
def _empty(t, *args, **options):
    return Empty(t.shape())


@_row("bernoulli.p", "bernoulli.default")
def _bernoulli(t, x, p=None, generator=None):
    if p is None:
        _check(t, isinstance(x, torch.Tensor) and x.numel() and bool((x == x.flatten()[0]).all()),
               "probabilities that differ: expected one number")
        p = float(x.flatten()[0])
    return Noise(t.shape(), float(p), t.node)


@_row("rand.default", "rand_like.default")
def _rand(t, *args, **options):
    return Uniform(t.shape(), t.node)


def _floor(t, x):
    if not isinstance(x, Uniform):
        return a.floor(t.value(x))
    _check(t, 0 < x.above < 1, f"noise in [{x.above}, {1 + x.above}): expected a dropout's")
    return Noise(x.shape, x.above, x.origin)


CALLS["aten.floor.default"] = _floor


@_row("native_dropout.default", "dropout.default")
def _dropout(t, x, p=0.5, train=True):
    y = t.value(x) if not train or p == 0 else t.dropped(t.value(x), p)
    return y if "native" not in str(t.node.target) else [y, None]


# Sizes and places

@_row("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "squeeze.dim",
      "squeeze.dims", "squeeze.default", "unsqueeze.default")
def _view(t, x, *args):
    return t.reshaped(x)


@_row("expand.default")
def _expand(t, x, shape, implicit=False):
    return t.expanded(x)


@_row("repeat.default", "tile.default")
def _repeat(t, x, times):
    x = t.value(x)
    t.apart(x, [len(x.shape) - len(times) + i for i, n in enumerate(times) if n != 1 and not is_samples(n)
                and i >= len(times) - len(x.shape)])
    if any(map(is_samples, times)):
        shape = [1] * (len(times) - len(x.shape)) + list(x.shape)
        x = t.reshaped(x, shape)
        _check(t, all(shape[i] == 1 for i, n in enumerate(times) if is_samples(n)),
               f"{sizes(shape)} is repeated for each sample along a dimension that has elements: expected size 1")
        x = x.expand([n * size if is_samples(n) else size for n, size in zip(times, shape)])
        times = [1 if is_samples(n) else n for n in times]
    return x if all(n == 1 for n in times) else a.tile(x, list(times))


@_row("permute.default")
def _permute(t, x, dims):
    return t.value(x).permute(list(dims))


@_row("transpose.int")
def _transpose(t, x, first, second):
    return t.value(x).transpose(first, second)


@_row("t.default")
def _t(t, x):
    x = t.value(x)
    return x if len(x.shape) < 2 else x.transpose(0, 1)


@_row("movedim.intlist", "movedim.int")
def _movedim(t, x, source, to):
    x = t.value(x)
    rank = len(x.shape)
    source, to = ([each] if isinstance(each, int) else list(each) for each in (source, to))
    order: list = [None] * rank
    for i, j in zip(source, to):
        order[j % rank] = i % rank
    rest = iter(i for i in range(rank) if i not in order)
    return x.permute([next(rest) if i is None else i for i in order])


@_row("cat.default", "concat.default")
def _cat(t, xs, dim=0):
    xs = [t.value(x) for x in xs if not (isinstance(x, torch.Tensor) and x.shape == (0,))]
    for x in xs:
        t.apart(x, [dim])
    return a.cat(xs, dim) if len(xs) > 1 else xs[0]


@_row("stack.default")
def _stack(t, xs, dim=0):
    return a.stack([t.value(x) for x in xs], dim)


@_row("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split.Tensor",
      "split_copy.Tensor")
def _split(t, x, each, dim=0):
    x = t.value(x)
    t.apart(x, [dim])
    return list(a.split(x, each, dim))


@_row("chunk.default", "unsafe_chunk.default")
def _chunk(t, x, chunks, dim=0):
    x = t.value(x)
    t.apart(x, [dim])
    return list(a.chunk(x, chunks, dim))


@_row("unbind.int")
def _unbind(t, x, dim=0):
    x = t.value(x)
    return [_select(t, x, dim, i) for i in range(len(t.node.meta["val"]))]


@_row("slice.Tensor")
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
    if not start and (end is None or end == size or isinstance(end, int) and end > 1 << 40) and step == 1:
        return x
    t.apart(x, [dim])


@_row("select.int")
def _select(t, x, dim, index):
    x = t.value(x)
    t.apart(x, [dim])
    index = index + x.shape[dim] if index < 0 else index
    part = a.slice(x, dim, index, index + 1)
    return t.reshaped(part, [size for i, size in enumerate(x.shape) if i != dim % len(x.shape)])


CALLS["aten.narrow.default"] = lambda t, x, dim, start, length: _slice(t, x, dim, start, start + length)


@_row("constant_pad_nd.default")
def _constant_pad(t, x, pad, value=0):
    return _padded(t, x, pad, "constant", value)


@_row("pad.default")
def _padded(t, x, pad, mode="constant", value=None):
    x = t.value(x)
    t.apart(x, [-1 - i // 2 for i, n in enumerate(pad) if n])
    return a.pad(x, list(pad), mode, float(value or 0))


for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _rank in (1, 2, 3):
        CALLS[f"aten.{_name}_pad{_rank}d.default"] = lambda t, x, pad, mode=_mode: _padded(t, x, pad, mode)


@_row("roll.default")
def _roll(t, x, shifts, dims=()):
    x = t.value(x)
    _check(t, dims, "roll without dims: expected some")
    t.apart(x, dims)
    return a.roll(x, list(shifts), list(dims))


@_row("flip.default")
def _flip(t, x, dims):
    x = t.value(x)
    t.apart(x, dims)
    return a.flip(x, list(dims))


@_row("index_select.default")
def _index_select(t, x, dim, index):
    x = t.value(x)
    t.apart(x, [dim])
    return a.index_select(x, dim, t.value(index, whole=True))


@_row("gather.default")
def _gather(t, x, dim, index, sparse_grad=False):
    x = t.value(x)
    t.apart(x, [dim])
    return a.gather(x, dim, t.value(index, whole=True))


@_row("index.Tensor", "_unsafe_index.Tensor")
def _index(t, x, indices):
    """x[:, i, j] for constant indices that stand side by side, and x[i] for i of the samples."""
    x = t.value(x)
    if isinstance(indices[0], Place):
        return _index_each(t, x, indices)
    places = [d for d, each in enumerate(indices) if each is not None]
    _check(t, places == list(range(places[0], places[0] + len(places))),
           "indices with a whole dimension between them: expected indices side by side")
    first, last = places[0], places[-1]
    given = [indices[d] for d in places]
    if any(isinstance(each, Value) for each in given):
        _check(t, len(given) == 1 and t.place(x) is None and first == 0 and len(x.shape) == 2,
               "indices that depend on samples: expected one, into rows")
        return a.embedding(given[0], x)
    t.apart(x, places)
    _check(t, all(isinstance(each, torch.Tensor) and not each.dtype.is_floating_point and each.dtype != torch.bool
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
    _check(t, len(indices) == 2 and t.place(x) == 0 and t.outer.get(id(x), 1) == 1 and
           isinstance(indices[1], torch.Tensor) and (indices[1].dim() < len(indices[0].shape) or indices[1].shape[0] == 1),
           "indices of samples among others: expected the samples' own places and one constant index")
    index = indices[1]
    taken = a.index_select(x, 1, t.value(torch.where(index < 0, index + x.shape[1], index).reshape(-1), whole=True))
    return t.reshaped(taken)


@_row("arange.default", "arange.start", "arange.start_step")
def _arange(t, *args, **options):
    _check(t, t.shape() == (t.samples,) and len(args) == 1, "numbers of the samples: expected their places alone")
    return Place(t.shape())


@_row("full.default", "zeros.default", "ones.default", "full_like.default", "zeros_like.default", "ones_like.default",
      "new_zeros.default", "new_ones.default", "new_full.default", "scalar_tensor.default")
def _full(t, *args, **options):
    name = str(t.node.target)
    value = args[1] if "full" in name and "new" not in name else args[2] if "new_full" in name else (
        args[0] if "scalar" in name else float("ones" in name))
    shape = t.shape()
    if not any(map(is_samples, shape)):
        return torch.full(shape, value, dtype=t.node.meta["val"].dtype)
    return a.constant(np.full([1] * len(shape), float(value))).expand(shape)


@_row("tril.default")
def _tril(t, x, diagonal=0):
    return _triangle(t, x, torch.tril, diagonal)


@_row("triu.default")
def _triu(t, x, diagonal=0):
    return _triangle(t, x, torch.triu, diagonal)


def _triangle(t, x, part, diagonal):
    x = t.value(x)
    t.apart(x, [-2, -1])
    return a.mul(x, t.value(part(torch.ones(*x.shape[-2:]), diagonal)))


# Sums

def _dims(x, dim):
    if dim is None or isinstance(dim, (list, tuple)) and not dim:
        return list(range(len(x.shape)))
    return [dim] if isinstance(dim, int) else list(dim)


def _reduced(call):
    def reduce(t, x, dim=None, keepdim=False, dtype=None):
        x = t.value(x)
        t.apart(x, _dims(x, dim))
        return call(x, _dims(x, dim), keepdim)
    return reduce


def _extreme(call):
    """The largest elements share the gradient, as in PyTorch; amax() alone gives it to the first."""
    def extreme(x, dims, keepdim):
        found = a.equal(x, call(x, dims, True))
        shares = a.div(found, a.sum(found, dims, True))
        return a.sum(a.mul(a.where(found, x, a.constant(np.zeros(1))), shares), dims, keepdim)
    return extreme


_amax, _amin = _extreme(a.amax), _extreme(a.amin)
for _name, _ours in (("sum.dim_IntList", a.sum), ("mean.dim", a.mean), ("amax.default", _amax), ("amin.default", _amin)):
    CALLS[f"aten.{_name}"] = _reduced(_ours)
for _name in ("sum", "mean"):
    CALLS[f"aten.{_name}.default"] = lambda t, x, dtype=None, f=_reduced(getattr(a, _name)): f(t, x)


@_row("max.dim", "min.dim")
def _largest(t, x, dim, keepdim=False):
    x = t.value(x)
    t.apart(x, [dim])
    index = (a.argmax if "max" in str(t.node.target) else a.argmin)(x, dim, True)
    found = a.gather(x, dim, index)
    shape = t.shape()
    return [t.reshaped(found, shape), t.reshaped(index, shape)]


@_row("argmax.default", "argmin.default")
def _argmax(t, x, dim=None, keepdim=False):
    x = t.value(x)
    _check(t, dim is not None, "no dim: expected one")
    t.apart(x, [dim])
    return (a.argmax if "max" in str(t.node.target) else a.argmin)(x, dim, keepdim)


@_row("var.correction", "var.dim", "std.correction", "std.dim", "var_mean.correction")
def _var(t, x, dim=None, unbiased=None, keepdim=False, *, correction=None):
    x = t.value(x)
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    t.apart(x, _dims(x, dim))
    y = a.var(x, _dims(x, dim), float(correction), keepdim)
    if "std" in str(t.node.target):
        return a.sqrt(y)
    return [y, a.mean(x, _dims(x, dim), keepdim)] if "mean" in str(t.node.target) else y


@_row("linalg_vector_norm.default")
def _norm(t, x, order=2, dim=None, keepdim=False, dtype=None):
    x = t.value(x)
    dims = _dims(x, dim)
    t.apart(x, dims)
    if order == 1:
        return a.sum(a.abs(x), dims, keepdim)
    if order == math.inf:
        return _amax(a.abs(x), dims, keepdim)
    _check(t, order == 2, f"ord={order}: expected 1, 2 or inf")
    squares = a.sum(a.square(x), dims, keepdim)
    is_zero = a.equal(squares, 0.0)  # there the gradient is 0, as PyTorch's
    return a.sub(a.sqrt(a.add(squares, is_zero)), is_zero)


@_row("cumsum.default")
def _cumsum(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.cumsum(x, dim)


@_row("softmax.int", "_softmax.default")
def _softmax(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.softmax(x, dim)


@_row("log_softmax.int", "_log_softmax.default")
def _log_softmax(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.log_softmax(x, dim)


# Products

@_row("linear.default")
def _linear(t, x, weight, bias=None):
    x = t.value(x)
    _check(t, len(weight.shape) == 2, f"weight {sizes(weight.shape)}: expected [out, in]")
    return a.linear(x, t.value(weight), bias if bias is None else t.value(bias))


@_row("matmul.default", "mm.default", "bmm.default")
def _matmul(t, x, y):
    x, y = t.value(x), t.value(y)
    one_row, one_column = len(x.shape) == 1, len(y.shape) == 1
    x = t.reshaped(x, [1, *x.shape]) if one_row else x
    y = t.reshaped(y, [*y.shape, 1]) if one_column else y
    t.apart(x, [-1])
    t.apart(y, [-2])
    z = a.matmul(x, y)
    return t.reshaped(z) if one_row or one_column else z


@_row("addmm.default", "baddbmm.default")
def _addmm(t, bias, x, y, beta=1, alpha=1):
    return _add(t, _mul(t, _matmul(t, x, y), alpha) if alpha != 1 else _matmul(t, x, y), bias, beta)


@_row("embedding.default")
def _embedding(t, weight, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    _check(t, not scale_grad_by_freq, "scale_grad_by_freq=True: expected False")
    table = t.value(weight)
    if isinstance(index, Spread):
        found = _embedding(t, weight, index.tensor, padding_idx)
        shape = t.shape()
        return t.reshaped(found, [1] * (len(shape) - len(found.shape)) + list(found.shape)).expand(shape)
    return a.embedding(t.value(index, whole=True), table, padding_idx if padding_idx >= 0 else None)


_PARAMETER = torch.export.graph_signature.InputKind.PARAMETER
_BUFFER = torch.export.graph_signature.InputKind.BUFFER


def _images(t, x, dims):
    """x [N, C, L] as images of one row."""
    x = t.value(x)
    place = t.place(x)
    _check(t, len(x.shape) == dims + 2 and place in (0, None), f"x is {sizes(x.shape)}: expected samples first, and "
           f"{dims} dimensions of places")
    return t.reshaped(x, [*x.shape[:-1], 1, x.shape[-1]]) if dims == 1 else x


def _axes(value, dims, first):
    """PyTorch's numbers for the axes; of one axis, `first` for the row's."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return [first, value[-1]] if dims == 1 else value * 2 if len(value) == 1 else value


def _convolved(t, x, weight, bias, stride, padding, dilation, groups, dims, transposed=False, output_padding=0):
    x, weight = _images(t, x, dims), t.value(weight)
    if isinstance(padding, str):
        extents = [(k - 1) * d for k, d in zip(weight.shape[2:], _axes(dilation, 2, 1)[-dims:])]
        _check(t, padding == "valid" or all(e % 2 == 0 for e in extents), 'padding="same" of a kernel of even size: '
               "expected pad() before, or an odd size")
        padding = [0] * dims if padding == "valid" else [e // 2 for e in extents]
    if dims == 1:
        weight = weight.reshape([*weight.shape[:2], 1, weight.shape[2]])
    step, around, apart = _axes(stride, dims, 1), _axes(padding, dims, 0), _axes(dilation, dims, 1)
    bias = None if bias is None else t.value(bias)
    if transposed:
        y = a.conv_transpose2d(x, weight, bias, step, around, _axes(output_padding, dims, 0), groups, apart)
    else:
        y = a.conv2d(x, weight, bias, step, around, apart, groups)
    return t.reshaped(y) if dims == 1 else y


for _dims_of in (1, 2):
    for _kind in ("default", "padding"):
        CALLS[f"aten.conv{_dims_of}d.{_kind}"] = (
            lambda t, x, w, b=None, stride=1, padding=0, dilation=1, groups=1, n=_dims_of:
            _convolved(t, x, w, b, stride, padding, dilation, groups, n))
    CALLS[f"aten.conv_transpose{_dims_of}d.{'input' if _dims_of == 2 else 'default'}"] = (
        lambda t, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, n=_dims_of:
        _convolved(t, x, w, b, stride, padding, dilation, groups, n, True, output_padding))


@_row("convolution.default")
def _convolution(t, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    return _convolved(t, x, w, b, stride, padding, dilation, groups, len(w.shape) - 2, transposed, output_padding)


# Norms

@_row("_native_batch_norm_legit_functional.default", "_native_batch_norm_legit.default", "native_batch_norm.default",
      "_native_batch_norm_legit_no_training.default", "batch_norm.default", "_native_batch_norm_legit.no_stats")
def _batch_norm(t, x, weight=None, bias=None, mean=None, var=None, *rest):
    name = str(t.node.target)
    training = "no_training" not in name and bool(rest[0])
    momentum, eps = rest[0:2] if "no_training" in name else rest[1:3]
    x = t.value(x)
    names = [t.translation.name_of(node, _BUFFER) for node in t.node.args[3:5]]
    _check(t, "no_stats" not in name and all(names), "a batch norm without running statistics: expected "
           "track_running_stats=True, because evaluation needs them")
    _check(t, t.place(x) == 0, f"x is {sizes(x.shape)}: expected samples first")
    weights = [None if each is None else _fixed(t, node) if training else t.value(each)
               for each, node in zip((weight, bias), t.node.args[1:3])]
    if training:
        t.translation.counts[names[0]] = t.translation.counts.get(names[0], 0) + 1
    y = a.batch_norm(x, *map(t.translation.buffer, names), *weights, training=training, momentum=float(momentum),
                     eps=float(eps))
    return y if name.startswith("aten.batch_norm") else [y, None, None, None, None]


def _fixed(t, node):
    """A weight of a batch norm that takes the batch's statistics, as PyTorch's does where it is frozen."""
    name = t.translation.name_of(node, _PARAMETER)
    if name is None or t.translation.parameters[name].requires_grad or len(node.users) > 1:
        return None if node is None else t.value(t.values[node.name])
    t.translation.fixed.add(name)
    return t.value(t.translation.parameters[name])


@_row("layer_norm.default", "native_layer_norm.default", "rms_norm.default")
def _layer_norm(t, x, shape, weight=None, bias=None, eps=1e-5, cudnn=True):
    kind = str(t.node.target).split(".")[1]
    if kind == "rms_norm":
        weight, bias, eps = weight, None, bias
        eps = torch.finfo(t.translation.dtype).eps if eps is None else eps
    x, n = t.value(x), math.prod(shape)
    flat = len(shape) > 1
    rows = t.reshaped(x, [*x.shape[:-len(shape)], n]) if flat else x
    weight, bias = (None if each is None else t.reshaped(each, [n]) for each in (weight, bias))
    if kind == "rms_norm":
        weight = t.value(torch.ones(n)) if weight is None else weight
        y = a.rms_norm(rows, n, weight, eps)
    else:
        y = a.layer_norm(rows, n, weight, bias, eps)
    y = t.reshaped(y, x.shape) if flat else y
    return [y, None, None] if "native" in kind else y


@_row("group_norm.default", "native_group_norm.default")
def _group_norm(t, x, *args):
    x = t.value(x)
    if "native" in str(t.node.target):
        weight, bias, _, _, _, groups, eps = args
    else:
        groups, weight, bias, eps = [*args, *(None, None, 1e-5)[len(args) - 1:]][:4]
    _check(t, t.place(x) == 0, f"x is {sizes(x.shape)}: expected samples first")
    shape = list(x.shape)
    images = shape if len(shape) == 4 else [*shape[:2], 1, math.prod(shape[2:])]
    y = a.group_norm(t.reshaped(x, images), groups, *(None if w is None else t.value(w) for w in (weight, bias)), eps)
    y = t.reshaped(y, shape)
    return [y, None, None] if "native" in str(t.node.target) else y


@_row("instance_norm.default")
def _instance_norm(t, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn):
    _check(t, mean is None, "an instance norm with running statistics: expected track_running_stats=False")
    x = t.value(x)
    shape = list(x.shape)
    images = shape if len(shape) == 4 else [*shape[:2], 1, math.prod(shape[2:])]
    y = a.instance_norm(t.reshaped(x, images), *(None if w is None else t.value(w) for w in (weight, bias)), eps)
    return t.reshaped(y, shape)


# Images

def _pooled(t, x, dims, call):
    y = call(_images(t, x, dims))
    return t.reshaped(y) if dims == 1 else y


def _max_pool(dims, with_indices):
    def pool(t, x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
        y = _pooled(t, x, dims, lambda images: a.max_pool2d(
            images, _axes(kernel, dims, 1), _axes(stride or kernel, dims, 1), _axes(padding, dims, 0),
            _axes(dilation, dims, 1), ceil_mode))
        return [y, None] if with_indices else y
    return pool


def _avg_pool(dims):
    def pool(t, x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        _check(t, divisor_override is None, f"divisor_override={divisor_override}: expected None")
        return _pooled(t, x, dims, lambda images: a.avg_pool2d(
            images, _axes(kernel, dims, 1), _axes(stride or kernel, dims, 1), _axes(padding, dims, 0), ceil_mode,
            count_include_pad))
    return pool


for _dims_of in (1, 2):
    CALLS[f"aten.max_pool{_dims_of}d.default"] = _max_pool(_dims_of, False)
    CALLS[f"aten.max_pool{_dims_of}d_with_indices.default"] = _max_pool(_dims_of, True)
    CALLS[f"aten.avg_pool{_dims_of}d.default"] = _avg_pool(_dims_of)
    for _name in (f"adaptive_avg_pool{_dims_of}d.default", f"_adaptive_avg_pool{_dims_of}d.default"):
        CALLS[f"aten.{_name}"] = lambda t, x, size, n=_dims_of: _pooled(
            t, x, n, lambda images: a.adaptive_avg_pool2d(images, _axes(size, n, 1)))


@_row("adaptive_max_pool2d.default")
def _adaptive_max_pool(t, x, size):
    x = t.value(x)
    H, W = x.shape[2:]
    size = _axes(size, 2, 1)
    _check(t, H % size[0] == 0 and W % size[1] == 0, f"{H} x {W} pixels in {size[0]} x {size[1]} windows: expected "
           "windows of one size")
    each = [H // size[0], W // size[1]]
    return [a.max_pool2d(x, each, each, 0), None]


def _resized(mode):
    def resize(t, x, size=None, *rest):
        align, factors = (rest[0], rest[1:]) if mode in ("bilinear", "bicubic") else (False, rest)
        x = t.value(x)
        if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
            factors = factors[0]
        factors = [f for f in factors if f is not None]
        H, W = t.shape()[2:]
        given = [f * n for f, n in zip(factors, x.shape[2:])]
        if not factors or align or given == [H, W]:
            return a.interpolate(x, size=(H, W), mode=mode, align_corners=bool(align))
        _check(t, len(set(factors)) == 1, f"scale_factor {factors}: expected one number, or a size")
        return a.interpolate(x, scale_factor=float(factors[0]), mode=mode)
    return resize


for _name, _mode in (("upsample_nearest2d", "nearest"), ("_upsample_nearest_exact2d", "nearest-exact"),
                     ("upsample_bilinear2d", "bilinear"), ("upsample_bicubic2d", "bicubic")):
    CALLS[f"aten.{_name}.vec"] = CALLS[f"aten.{_name}.default"] = _resized(_mode)


@_row("pixel_shuffle.default")
def _pixel_shuffle(t, x, factor):
    x = t.value(x)
    return a.pixel_shuffle(x, factor)


@_row("glu.default")
def _glu(t, x, dim=-1):
    first, second = _chunk(t, x, 2, dim)
    return a.mul(first, a.sigmoid(second))


# Attention

@_row("scaled_dot_product_attention.default", "_scaled_dot_product_attention_math.default")
def _attention(t, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, **options):
    q, k, v = (t.value(each) for each in (q, k, v))
    for each in (q, k, v):
        t.apart(each, [-2, -1])
    rank, T, D = len(q.shape), q.shape[-2], q.shape[-1]
    if mask is None and dropout_p == 0 and rank == 4 and (not is_causal or T == k.shape[-2]) and (
            enable_gqa or q.shape[1] == k.shape[1] == v.shape[1]) and all(t.place(each) == 0 for each in (q, k, v)):
        return a.scaled_dot_product_attention(q, k, v, is_causal, scale)
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_repeated_heads(t, each, q.shape[-3] // each.shape[-3]) for each in (k, v))
    factor = 1 / math.sqrt(D) if scale is None else float(scale)
    scores = a.matmul(a.scale(q, factor), k.transpose(-2, -1))
    if is_causal:
        mask = torch.ones(T, k.shape[-2], dtype=torch.bool).tril()
    if mask is not None:
        is_truth = mask.dtype == torch.bool if isinstance(mask, torch.Tensor) else (
            t.node.args[3].meta["val"].dtype == torch.bool if len(t.node.args) > 3
            else t.node.kwargs["attn_mask"].meta["val"].dtype == torch.bool)
        scores = a.where(t.value(mask), scores, t.value(-math.inf)) if is_truth else a.add(scores, t.value(mask))
    p = a.softmax(scores, -1)
    if dropout_p:
        p = t.dropped(t.flag(t.outer.get(id(q), 1), p), dropout_p)
    return a.matmul(p, v)


def _repeated_heads(t, x, times):
    shape = list(x.shape)
    grown = t.reshaped(x, [*shape[:-2], 1, *shape[-2:]]).expand([*shape[:-2], times, *shape[-2:]])
    return t.reshaped(grown, [*shape[:-3], shape[-3] * times, *shape[-2:]])
