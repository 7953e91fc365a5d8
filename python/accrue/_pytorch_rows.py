"""Functions that the rows of PyTorch's calls share (docs/pytorch.md).

A row is a function of the Caller `t` and of PyTorch's arguments.
"""

from __future__ import annotations

import typing

import torch

from ._pytorch_graph import CALLS, Call, Caller


def row(*names: str) -> typing.Callable[[Call], Call]:
    def add(call: Call) -> Call:
        for name in names:
            CALLS[f"aten.{name}"] = call
        return call
    return add


def scalar(x: typing.Any) -> float | None:
    """A number, if it is one for all elements."""
    if isinstance(x, (bool, int, float)):
        return float(x)
    if isinstance(x, torch.Tensor) and x.numel() == 1 and x.dim() <= 1:
        return float(x)
    return None


def check(t: Caller, holds: typing.Any, why: str) -> None:
    if not holds:
        t.refuse(t.node, why)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
