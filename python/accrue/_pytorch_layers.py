"""PyTorch's calls for convolutions, norms and images (docs/pytorch.md)."""

from __future__ import annotations

import math

import torch

from . import _accrue as a
from ._pytorch_graph import CALLS, sizes
from ._pytorch_rows import check, row
from ._pytorch_shapes import chunk

# Convolutions

_PARAMETER = torch.export.graph_signature.InputKind.PARAMETER
_BUFFER = torch.export.graph_signature.InputKind.BUFFER


def _images(t, x, dims):
    """x [N, C, L] as images of one row."""
    x = t.value(x)
    place = t.place(x)
    check(t, len(x.shape) == dims + 2 and place in (0, None), f"x is {sizes(x.shape)}: expected samples first, and "
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
        check(t, padding == "valid" or all(e % 2 == 0 for e in extents), 'padding="same" of a kernel of even size: '
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


@row("convolution.default")
def _convolution(t, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    return _convolved(t, x, w, b, stride, padding, dilation, groups, len(w.shape) - 2, transposed, output_padding)


# Norms

@row("_native_batch_norm_legit_functional.default", "_native_batch_norm_legit.default", "native_batch_norm.default",
      "_native_batch_norm_legit_no_training.default", "batch_norm.default", "_native_batch_norm_legit.no_stats")
def _batch_norm(t, x, weight=None, bias=None, mean=None, var=None, *rest):
    name = str(t.node.target)
    training = "no_training" not in name and bool(rest[0])
    momentum, eps = rest[0:2] if "no_training" in name else rest[1:3]
    x = t.value(x)
    names = [t.translation.name_of(node, _BUFFER) for node in t.node.args[3:5]]
    check(t, "no_stats" not in name and all(names), "a batch norm without running statistics: expected "
           "track_running_stats=True, because evaluation needs them")
    check(t, t.place(x) == 0, f"x is {sizes(x.shape)}: expected samples first")
    weights = [None if each is None else _fixed(t, node) if training else t.value(each)
               for each, node in zip((weight, bias), t.node.args[1:3])]
    if training:
        known = t.translation.copies[names[0]]
        t.translation.counts[known] = t.translation.counts.get(known, 0) + 1
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


@row("layer_norm.default", "native_layer_norm.default", "rms_norm.default")
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


@row("group_norm.default", "native_group_norm.default")
def _group_norm(t, x, *args):
    x = t.value(x)
    if "native" in str(t.node.target):
        weight, bias, _, _, _, groups, eps = args
    else:
        groups, weight, bias, eps = [*args, *(None, None, 1e-5)[len(args) - 1:]][:4]
    check(t, t.place(x) == 0, f"x is {sizes(x.shape)}: expected samples first")
    shape = list(x.shape)
    images = shape if len(shape) == 4 else [*shape[:2], 1, math.prod(shape[2:])]
    y = a.group_norm(t.reshaped(x, images), groups, *(None if w is None else t.value(w) for w in (weight, bias)), eps)
    y = t.reshaped(y, shape)
    return [y, None, None] if "native" in str(t.node.target) else y


@row("instance_norm.default")
def _instance_norm(t, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn):
    check(t, mean is None, "an instance norm with running statistics: expected track_running_stats=False")
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
        check(t, divisor_override is None, f"divisor_override={divisor_override}: expected None")
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


@row("adaptive_max_pool2d.default")
def _adaptive_max_pool(t, x, size):
    x = t.value(x)
    H, W = x.shape[2:]
    size = _axes(size, 2, 1)
    check(t, H % size[0] == 0 and W % size[1] == 0, f"{H} x {W} pixels in {size[0]} x {size[1]} windows: expected "
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
        check(t, len(set(factors)) == 1, f"scale_factor {factors}: expected one number, or a size")
        return a.interpolate(x, scale_factor=float(factors[0]), mode=mode)
    return resize


for _name, _mode in (("upsample_nearest2d", "nearest"), ("_upsample_nearest_exact2d", "nearest-exact"),
                     ("upsample_bilinear2d", "bilinear"), ("upsample_bicubic2d", "bicubic")):
    CALLS[f"aten.{_name}.vec"] = CALLS[f"aten.{_name}.default"] = _resized(_mode)


@row("pixel_shuffle.default")
def _pixel_shuffle(t, x, factor):
    x = t.value(x)
    return a.pixel_shuffle(x, factor)


@row("glu.default")
def _glu(t, x, dim=-1):
    first, second = chunk(t, x, 2, dim)
    return a.mul(first, a.sigmoid(second))
