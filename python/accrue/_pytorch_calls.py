"""PyTorch's calls, a row each, as calls of accrue on values (docs/pytorch.md)."""

from . import _pytorch_attention, _pytorch_layers, _pytorch_numbers, _pytorch_shapes, _pytorch_sums  # noqa: F401, they add rows
from ._pytorch_graph import CALLS  # noqa: F401
