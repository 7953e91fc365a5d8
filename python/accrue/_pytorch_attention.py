"""PyTorch's attention (docs/pytorch.md)."""

from __future__ import annotations

import math

import torch

from . import _accrue as a
from ._pytorch_graph import Spread
from ._pytorch_masks import mask_of, only_hides, seen_of
from ._pytorch_moves import Layout, attended
from ._pytorch_rows import row


@row("scaled_dot_product_attention.default", "_scaled_dot_product_attention_math.default")
def _attention(t, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, **options):
    q, k, v = (t.value(each) for each in (q, k, v))
    for each in (q, k, v):
        t.apart(each, [-2, -1])
    seen = seen_of(t, t.node) if dropout_p == 0 else None
    if seen is not None and (scale is None or scale > 0):
        y = _attention_of_rows(t, q, k, v, seen, scale)
        if y is not None:
            return y
    if seen is not None and (scale is None or scale > 0 or not seen.masks) and len(q.shape) == 4 and (
            not seen.is_causal or q.shape[-2] == k.shape[-2]) and (
            enable_gqa or q.shape[1] == k.shape[1] == v.shape[1]) and all(t.place(each) == 0 for each in (q, k, v)):
        return a.scaled_dot_product_attention(q, k, v, seen.is_causal, scale, seen.key_mask(t))
    return _attention_by_products(t, q, k, v, mask, dropout_p, is_causal, scale, enable_gqa)


def _attention_by_products(t, q, k, v, mask, dropout_p, is_causal, scale, enable_gqa):
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_repeated_heads(t, each, q.shape[-3] // each.shape[-3]) for each in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = a.matmul(a.scale(q, factor), k.transpose(-2, -1))
    some = None
    if is_causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if mask is not None:
        node = mask_of(t.node)
        is_truth = is_causal or node.meta["val"].dtype == torch.bool
        if is_truth or only_hides(t, node):
            seen, some = _seen_of_some(t, mask, is_truth)
            scores = a.where(seen, scores, t.value(-math.inf))
        else:
            scores = a.add(scores, t.value(mask))
    p = a.softmax(scores, -1)
    if dropout_p:
        p = t.dropped(t.flag(t.outer.get(id(q), 1), p), dropout_p)
    y = a.matmul(p, v)
    return y if some is None else a.mul(y, some)


def _seen_of_some(t, mask, is_truth):
    """The keys that a mask lets see, and 1 for queries that see a key, else 0; None if all do.

    The softmax of a query that sees none would be NaN. It sees all here, and its result is multiplied by 0,
    because PyTorch's is 0.
    """
    if isinstance(mask, Spread):
        mask = mask.tensor
    if isinstance(mask, torch.Tensor):
        seen = mask if is_truth else mask == 0
        some = seen.any(-1, keepdim=True)
        return t.value(seen | ~some), None if bool(some.all()) else t.value(some)
    seen = t.number(mask) if is_truth else a.equal(mask, 0.0)
    some = a.amax(seen, -1, True)
    return a.maximum(seen, a.rsub(some, 1.0)), some


def _attention_of_rows(t, q, k, v, seen, scale):
    """Attention where heads lie side by side in rows, as linear layers give them; None where they do not."""
    layouts = [t.layout(each) for each in (q, k, v)]
    heads = [None if each is None else each.heads() for each in layouts]
    if None in heads:
        return None
    of_q, of_k, of_v = heads
    if (of_k.c, of_k.T, of_k.H, of_k.D) != (of_v.c, of_v.T, of_v.H, of_v.D) or (of_q.c, of_q.D) != (of_k.c, of_k.D) or (
            of_q.H % of_k.H or seen.is_causal and of_q.T != of_k.T):
        return None
    y = attended(of_q, of_k, of_v, seen.is_causal, scale, seen.key_mask(t))
    shape = [y.shape[0], of_q.T, of_q.H, of_q.D]
    return t.lies(y.reshape(shape).transpose(1, 2), Layout.of(y).viewed(shape).permuted([0, 2, 1, 3]))


def _repeated_heads(t, x, times):
    shape = list(x.shape)
    grown = t.reshaped(x, [*shape[:-2], 1, *shape[-2:]]).expand([*shape[:-2], times, *shape[-2:]])
    return t.reshaped(grown, [*shape[:-3], shape[-3] * times, *shape[-2:]])
