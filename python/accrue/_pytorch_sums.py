"""PyTorch's calls that sum, and products (docs/pytorch.md)."""

from __future__ import annotations

import math

import numpy as np

from . import _accrue as a
from ._pytorch_graph import CALLS, Spread, sizes
from ._pytorch_rows import check, row
from ._pytorch_numbers import add, mul

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


@row("prod.dim_int", "prod.default")
def _prod(t, x, dim=None, keepdim=False, dtype=None):
    """A product of halves, so that a zero among the elements has its gradient."""
    x = t.value(x)
    for each in [dim] if isinstance(dim, int) else range(len(x.shape)):
        t.apart(x, [each])
        while x.shape[each] > 1:
            half = x.shape[each] // 2
            y = a.mul(a.slice(x, each, 0, half, 1), a.slice(x, each, half, 2 * half, 1))
            odd = x.shape[each] % 2
            x = a.cat([y, a.slice(x, each, 2 * half, 2 * half + 1, 1)], each) if odd else y
    return t.reshaped(x)


@row("max.dim", "min.dim")
def _largest(t, x, dim, keepdim=False):
    x = t.value(x)
    t.apart(x, [dim])
    index = (a.argmax if "max" in str(t.node.target) else a.argmin)(x, dim, True)
    found = a.gather(x, dim, index)
    shape = t.shape()
    return [t.reshaped(found, shape), t.reshaped(index, shape)]


@row("argmax.default", "argmin.default")
def _argmax(t, x, dim=None, keepdim=False):
    x = t.value(x)
    check(t, dim is not None, "no dim: expected one")
    t.apart(x, [dim])
    return (a.argmax if "max" in str(t.node.target) else a.argmin)(x, dim, keepdim)


@row("var.correction", "var.dim", "std.correction", "std.dim", "var_mean.correction")
def _var(t, x, dim=None, unbiased=None, keepdim=False, *, correction=None):
    x = t.value(x)
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    t.apart(x, _dims(x, dim))
    y = a.var(x, _dims(x, dim), float(correction), keepdim)
    if "std" in str(t.node.target):
        return a.sqrt(y)
    return [y, a.mean(x, _dims(x, dim), keepdim)] if "mean" in str(t.node.target) else y


@row("linalg_vector_norm.default")
def _norm(t, x, order=2, dim=None, keepdim=False, dtype=None):
    x = t.value(x)
    dims = _dims(x, dim)
    t.apart(x, dims)
    if order == 1:
        return a.sum(a.abs(x), dims, keepdim)
    if order == math.inf:
        return _amax(a.abs(x), dims, keepdim)
    check(t, order == 2, f"ord={order}: expected 1, 2 or inf")
    squares = a.sum(a.square(x), dims, keepdim)
    is_zero = a.equal(squares, 0.0)  # there the gradient is 0, as PyTorch's
    return a.sub(a.sqrt(a.add(squares, is_zero)), is_zero)


@row("cumsum.default")
def _cumsum(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.cumsum(x, dim)


@row("softmax.int", "_softmax.default")
def _softmax(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.softmax(x, dim)


@row("log_softmax.int", "_log_softmax.default")
def _log_softmax(t, x, dim, dtype=None):
    x = t.value(x)
    t.apart(x, [dim])
    return a.log_softmax(x, dim)


# Products

@row("linear.default")
def _linear(t, x, weight, bias=None):
    x = t.value(x)
    check(t, len(weight.shape) == 2, f"weight {sizes(weight.shape)}: expected [out, in]")
    weight, bias = t.value(weight), bias if bias is None else t.value(bias)
    layout = t.layout(x)
    if layout is not None and not layout.is_whole():
        # The rows are taken in the order in which they lie, if nothing needs them in this one.
        y = layout.times(weight, bias)
        if y is not None and t.is_moved_back(t.node, y):
            return t.lies(y.made([*x.shape[:-1], weight.shape[0]]), y)
    return a.linear(x, weight, bias)


@row("matmul.default", "mm.default", "bmm.default")
def _matmul(t, x, y):
    x, y = t.value(x), t.value(y)
    one_row, one_column = len(x.shape) == 1, len(y.shape) == 1
    x = t.reshaped(x, [1, *x.shape]) if one_row else x
    y = t.reshaped(y, [*y.shape, 1]) if one_column else y
    t.apart(x, [-1])
    t.apart(y, [-2])
    z = a.matmul(x, y)
    return t.reshaped(z) if one_row or one_column else z


@row("addmm.default", "baddbmm.default")
def _addmm(t, bias, x, y, beta=1, alpha=1):
    return add(t, mul(t, _matmul(t, x, y), alpha) if alpha != 1 else _matmul(t, x, y), bias, beta)


@row("embedding.default")
def _embedding(t, weight, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    check(t, not scale_grad_by_freq, "scale_grad_by_freq=True: expected False")
    table = t.value(weight)
    if isinstance(index, Spread):
        found = _embedding(t, weight, index.tensor, padding_idx)
        shape = t.shape()
        return t.reshaped(found, [1] * (len(shape) - len(found.shape)) + list(found.shape)).expand(shape)
    return a.embedding(t.value(index, whole=True), table, padding_idx if padding_idx >= 0 else None)
