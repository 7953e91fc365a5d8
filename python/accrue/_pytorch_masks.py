"""Keys that the masks of PyTorch's attention hide (docs/pytorch.md)."""

from __future__ import annotations

import math
import typing

import torch

from . import _accrue as a
from ._accrue import Value

_Node = torch.fx.Node
_SAME = {"expand", "alias", "clone", "contiguous", "detach"}
_VIEWS = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze"}


class Seen(typing.NamedTuple):
    """The keys that queries see by `masks`, [c N, 1, 1, S] each, and if it is causal none after their own."""

    is_causal: bool
    masks: tuple[_Node, ...]

    def key_mask(self, t: typing.Any) -> Value | None:
        """The masks as one of numbers [c N, S], of which 0 hides a key."""
        if not self.masks:
            return None
        if self.masks not in t.masks:
            found = None
            for node in self.masks:
                value = t.values[node.name]
                value = value if _is_truth(node) else a.equal(value, 0.0)
                found = value if found is None else a.logical_and(found, value)
            t.masks[self.masks] = found.reshape([found.shape[0], found.shape[3]])
        return t.masks[self.masks]


def mask_of(node: _Node) -> typing.Any:
    """The mask of a call of attention, or None."""
    return node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")


def seen_of(t: typing.Any, node: _Node) -> Seen | None:
    """The keys that queries see in a call of attention; None if its mask says more than that."""
    is_causal = bool(node.args[5] if len(node.args) > 5 else node.kwargs.get("is_causal", False))
    mask = mask_of(node)
    if mask is None:
        return Seen(is_causal, ())
    parts = _parts(t, mask)
    query, key = ([t.size(size) for size in node.args[i].meta["val"].shape] for i in (0, 1))
    if parts is None or len(query) != 4 or not all(isinstance(size, int) for size in (query[2], key[2])):
        return None
    T, S = query[2], key[2]
    whole = torch.ones(T, S, dtype=torch.bool)
    masks = []
    for each in parts:
        if isinstance(each, torch.Tensor):
            if each.numel() != math.prod(each.shape[-2:]):
                return None
            whole = whole & each.reshape(each.shape[-2:])
            continue
        shape = tuple(t.size(size) for size in each.meta["val"].shape)
        if shape != (query[0], 1, 1, S) or getattr(t.values.get(each.name), "_is_whole", False):
            return None
        masks.append(each)
    if not bool(whole.all()):
        if T != S or not torch.equal(whole, whole.new_ones(T, S).tril()):
            return None
        is_causal = True
    return Seen(is_causal, tuple(dict.fromkeys(masks)))


def only_hides(t: typing.Any, x: typing.Any) -> bool:
    """True if all numbers of a node are 0, or minus infinity, which hides what it is added to."""
    if isinstance(x, (bool, int, float)):
        return x in (0, -math.inf)
    if not isinstance(x, _Node):
        return False
    known = _constant(t, x)
    if known is not None:
        return bool(((known == 0) | (known == -math.inf)).all())
    if x.op != "call_function":
        return False
    name, _, kind = str(x.target).removeprefix("aten.").partition(".")
    if name in _SAME | _VIEWS | {"_to_copy", "to"}:
        return only_hides(t, x.args[0])
    if name == "where":
        return only_hides(t, x.args[1]) and only_hides(t, x.args[2])
    if name == "masked_fill":
        return only_hides(t, x.args[0]) and only_hides(t, x.args[2])
    if name == "add":
        return kind == "Tensor" and not x.kwargs and all(only_hides(t, each) for each in x.args[:2])
    if name in ("zeros", "zeros_like", "new_zeros"):
        return True
    places = {"full": 1, "full_like": 1, "new_full": 2}
    return name in places and only_hides(t, x.args[places[name]])


def _name_of(node: _Node) -> str:
    return str(node.target).removeprefix("aten.").partition(".")[0] if node.op == "call_function" else ""


def _before_views(t: typing.Any, node: _Node) -> _Node:
    """The node that this one is again after views, as heads become samples and heads; itself if there is none."""
    shape = [t.size(size) for size in node.meta["val"].shape]
    found = node
    while _name_of(found) in _VIEWS:
        found = found.args[0]
    return found if [t.size(size) for size in found.meta["val"].shape] == shape else node


def _is_truth(node: _Node) -> bool:
    return node.meta["val"].dtype == torch.bool


def _constant(t: typing.Any, node: _Node) -> torch.Tensor | None:
    known = t.values.get(node.name)
    known = getattr(known, "tensor", known)  # of numbers that are the same for each sample
    return known if isinstance(known, torch.Tensor) else None


def _parts(t: typing.Any, node: _Node) -> list[typing.Any] | None:
    """The masks that this one joins, tensors of truth values and nodes; None if it does more than hide."""
    if not isinstance(node, _Node):
        return None
    is_truth, known = _is_truth(node), _constant(t, node)
    if known is not None:
        return [known] if is_truth else [known == 0] if only_hides(t, node) else None
    node = _before_views(t, node)
    name = _name_of(node)
    if name in _SAME:
        return _parts(t, node.args[0])
    if name in ({"logical_and", "bitwise_and", "__and__"} if is_truth else {"add"}) and len(node.args) == 2 and (
            not node.kwargs):
        parts = [_parts(t, each) for each in node.args]
        return None if None in parts else parts[0] + parts[1]
    return [node] if is_truth or only_hides(t, node) else None
