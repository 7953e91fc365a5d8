"""PyTorch's calls that compute element by element (docs/pytorch.md)."""

from __future__ import annotations

import math

import torch

from . import _accrue as a
from ._accrue import Value
from ._pytorch_graph import CALLS, Empty, Noise, Uniform
from ._pytorch_rows import check, row, scalar, short

# Element by element

_UNARY = ("relu sigmoid tanh silu exp log log1p expm1 sqrt rsqrt reciprocal square abs neg sign ceil round erf "
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


@row("elu.default")
def _elu(t, x, alpha=1.0, scale=1.0, input_scale=1.0):
    check(t, scale == 1 and input_scale == 1, f"scale={scale}, input_scale={input_scale}: expected 1")
    return a.elu(t.value(x), alpha)


@row("clamp.default", "clamp.Tensor", "clip.default")
def _clamp(t, x, low=None, high=None):
    if isinstance(low, (Value, torch.Tensor)) or isinstance(high, (Value, torch.Tensor)):
        y = t.value(x) if low is None else a.maximum(t.value(x), t.value(low))
        return y if high is None else a.minimum(y, t.value(high))
    return a.clamp(t.value(x), None if low is None else float(low), None if high is None else float(high))


CALLS["aten.clamp_min.default"] = lambda t, x, low: _clamp(t, x, low)
CALLS["aten.clamp_max.default"] = lambda t, x, high: _clamp(t, x, None, high)


@row("prelu.default", "_prelu_kernel.default")
def _prelu(t, x, weight):
    x, weight = t.value(x), t.value(weight)
    if len(weight.shape) == 1 and weight.shape[0] != 1:
        weight = weight.reshape([weight.shape[0]] + [1] * (len(x.shape) - 2))
    elif len(weight.shape) == 1:
        weight = weight.reshape([1] * max(1, len(x.shape)))
    return a.where(a.greater(x, 0.0), x, weight * x)


@row("add.Tensor", "add.Scalar")
def add(t, x, y, alpha=1):
    if isinstance(x, Uniform) or isinstance(y, Uniform):
        noise, number = (x, scalar(y)) if isinstance(x, Uniform) else (y, scalar(x))
        check(t, number is not None and alpha == 1, "noise is added to a value: expected a dropout's noise")
        return Uniform(noise.shape, noise.origin, noise.above + number)
    if scalar(x) is not None:
        return a.add_scalar(_times(t, t.value(y), alpha), scalar(x))
    if scalar(y) is not None:
        return a.add_scalar(t.value(x), alpha * scalar(y))
    return a.add(t.value(x), _times(t, t.value(y), alpha))


def _times(t, x, factor):
    return x if factor == 1 else a.scale(x, float(factor))


@row("sub.Tensor", "sub.Scalar")
def _sub(t, x, y, alpha=1):
    if scalar(y) is not None:
        return a.add_scalar(t.value(x), -alpha * scalar(y))
    if scalar(x) is not None:
        return a.rsub(_times(t, t.value(y), alpha), scalar(x))
    return a.sub(t.value(x), _times(t, t.value(y), alpha))


@row("rsub.Scalar", "rsub.Tensor")
def _rsub(t, x, y, alpha=1):
    return _sub(t, y, x, alpha)


@row("mul.Tensor", "mul.Scalar")
def mul(t, x, y):
    for noise, other in ((x, y), (y, x)):
        if isinstance(noise, Noise):
            return _masked(t, other, noise)
    if scalar(y) is not None:
        return a.scale(t.value(x), scalar(y))
    if scalar(x) is not None:
        return a.scale(t.value(y), scalar(x))
    return a.mul(t.value(x), t.value(y))


def _masked(t, x, noise):
    if scalar(x) is not None:
        return Noise(noise.shape, noise.keep, noise.origin, noise.factor * scalar(x))
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


@row("div.Tensor", "div.Scalar")
def _div(t, x, y):
    if isinstance(x, Noise) and scalar(y) is not None:
        return Noise(x.shape, x.keep, x.origin, x.factor / scalar(y))
    if scalar(y) is not None:
        return a.div_scalar(t.value(x), scalar(y))
    if scalar(x) is not None:
        return a.rdiv(t.value(y), scalar(x))
    return a.div(t.value(x), t.value(y))


@row("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(t, x, y):
    if scalar(x) is not None:
        return a.exp(a.scale(t.value(y), math.log(scalar(x))))
    exponent = scalar(y)
    if exponent is None:
        return a.pow(t.value(x), t.value(y))
    known = {1: lambda v: v, 2: a.square, 0.5: a.sqrt, -1: a.reciprocal, -0.5: a.rsqrt}
    return known.get(exponent, lambda v: a.pow_scalar(v, exponent))(t.value(x))


def _whole_part(x):
    return a.mul(a.sign(x), a.floor(a.abs(x)))


CALLS["aten.trunc.default"] = lambda t, x: _whole_part(t.value(x))
CALLS["aten.frac.default"] = lambda t, x: a.sub(t.value(x), _whole_part(t.value(x)))


@row("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
def _remainder(t, x, y):
    """x without the multiple of y below it; the multiple is a constant to differentiation."""
    x, y = t.value(x), t.value(y)
    part = a.floor if "remainder" in str(t.node.target) else _whole_part
    return a.sub(x, a.mul(y, part(a.div(x, y))))


@row("nan_to_num.default")
def _nan_to_num(t, x, nan=None, posinf=None, neginf=None):
    x, limits = t.value(x), torch.finfo(t.translation.dtype)
    y = a.where(a.is_nan(x), t.value(nan or 0.0), x)
    y = a.where(a.equal(y, math.inf), t.value(limits.max if posinf is None else posinf), y)
    return a.where(a.equal(y, -math.inf), t.value(limits.min if neginf is None else neginf), y)


def _both(call):
    return lambda t, x, y: call(t.number(x), t.number(y))


def _compared(call, by):
    """Whole numbers of the data, such as tokens, are looked up in a table of answers, exact in 16 bits, too."""
    def compare(t, x, y):
        rows = t.rows_of(x) if scalar(y) is not None else None
        if rows is None:
            return call(t.number(x), t.number(y))
        table = by(torch.arange(rows), scalar(y)).double().reshape(rows, 1)
        return t.flag(t.outer.get(id(x), 1), a.embedding(x, a.constant(table.numpy())).reshape(x.shape))
    return compare


for _name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor"):
    CALLS[f"aten.{_name}.default"] = _both(getattr(a, _name))
for _name, _ours in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                     ("ge", "greater_equal")):
    for _kind in ("Tensor", "Scalar"):
        CALLS[f"aten.{_name}.{_kind}"] = _compared(getattr(a, _ours), getattr(torch, _name))
for _name in ("and", "or", "xor"):
    CALLS[f"aten.bitwise_{_name}.Tensor"] = lambda t, x, y, f=getattr(a, f"logical_{_name}"): (
        check(t, t.node.meta["val"].dtype == torch.bool, "bits of integers: expected truth values"),
        f(t.value(x), t.value(y)))[1]
    CALLS[f"aten.__{_name}__.Tensor"] = CALLS[f"aten.bitwise_{_name}.Tensor"]
CALLS["aten.logical_not.default"] = lambda t, x: a.logical_not(t.value(x))
CALLS["aten.bitwise_not.default"] = lambda t, x: (
    check(t, t.node.meta["val"].dtype == torch.bool, "bits of integers: expected truth values"),
    a.logical_not(t.value(x)))[1]


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(t, condition, x, y):
    return a.where(t.value(condition), t.value(x), t.value(y))


@row("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(t, x, mask, value):
    return a.where(t.value(mask), t.value(value), t.value(x))


@row("addcmul.default")
def _addcmul(t, x, y, z, value=1):
    return add(t, x, mul(t, y, z), value)


@row("addcdiv.default")
def _addcdiv(t, x, y, z, value=1):
    return add(t, x, _div(t, y, z), value)


@row("lerp.Scalar", "lerp.Tensor")
def _lerp(t, x, y, weight):
    return add(t, x, mul(t, _sub(t, y, x), weight))


@row("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default")
def _same(t, x, *args, **options):
    return x


CALLS["aten.expand_as.default"] = lambda t, x, other: t.expanded(x)
CALLS["aten.view_as.default"] = lambda t, x, other: t.reshaped(x)
CALLS["aten._assert_tensor_metadata.default"] = lambda t, *args, **options: None


@row("detach.default", "detach_.default")
def _detach(t, x):
    return a.detach(x) if isinstance(x, Value) and not x._is_whole else x


@row("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default")
def _cast(t, x, *args, **options):
    was = t.node.args[0].meta["val"].dtype
    to = t.node.meta["val"].dtype
    if was == to or was == torch.bool and to.is_floating_point:
        return x
    if to == torch.bool:
        return _compared(a.not_equal, torch.ne)(t, x, 0.0)
    if not was.is_floating_point and not to.is_floating_point:
        return x
    if to == t.translation.dtype and not was.is_floating_point:
        return t.number(x)
    if was.is_floating_point and to.is_floating_point and to == t.translation.dtype:
        return x
    t.refuse(t.node, f"{short(was)} becomes {short(to)}: expected one type, {short(t.translation.dtype)}, and whole "
             "numbers as indices alone" + ("; module.float() has this type" if to == torch.float32 else ""))


# Noise

@row("empty.memory_format", "empty_like.default", "new_empty.default", "empty_permuted.default",
      "empty_strided.default")
def _empty(t, *args, **options):
    return Empty(t.shape())


@row("bernoulli.p", "bernoulli.default")
def _bernoulli(t, x, p=None, generator=None):
    if p is None:
        check(t, isinstance(x, torch.Tensor) and x.numel() and bool((x == x.flatten()[0]).all()),
               "probabilities that differ: expected one number")
        p = float(x.flatten()[0])
    return Noise(t.shape(), float(p), t.node)


@row("rand.default", "rand_like.default")
def _rand(t, *args, **options):
    return Uniform(t.shape(), t.node)


def _floor(t, x):
    if not isinstance(x, Uniform):
        return a.floor(t.value(x))
    check(t, 0 < x.above < 1, f"noise in [{x.above}, {1 + x.above}): expected a dropout's")
    return Noise(x.shape, x.above, x.origin)


CALLS["aten.floor.default"] = _floor


@row("native_dropout.default", "dropout.default")
def _dropout(t, x, p=0.5, train=True):
    y = t.value(x) if not train or p == 0 else t.dropped(t.value(x), p)
    return y if "native" not in str(t.node.target) else [y, None]
