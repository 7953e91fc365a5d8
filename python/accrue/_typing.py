"""Types in the signatures of the module's functions. Nothing imports them when a program runs."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Union

from . import _accrue, _listening, _origins, _results


class TorchModule(Protocol):
    """A torch.nn.Module, without importing it."""

    training: bool

    def named_parameters(self, prefix: str = ..., recurse: bool = ...) -> Iterator[tuple[str, Any]]: ...


Model: TypeAlias = Union[str, os.PathLike[str], _accrue.Layer, _origins.Origin, TorchModule]
Trained: TypeAlias = Union[
    str, os.PathLike[str], Mapping[str, Any], _results.Result, _accrue.Trainer, _origins.Origin, TorchModule
]
Transform: TypeAlias = Union[Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]
Metric: TypeAlias = Callable[..., Any]
Metrics: TypeAlias = Union[
    Metric, Sequence[Metric], Mapping[str, Union[Metric, Sequence[Metric], Mapping[str, Metric]]]
]
OnStep: TypeAlias = Union[Callable[[_accrue.Step], Any], Sequence[Callable[[_accrue.Step], Any]]]
OnEpoch: TypeAlias = Union[Callable[[_listening.Epoch], Any], Sequence[Callable[[_listening.Epoch], Any]]]


class Trainer(_accrue.Trainer):
    """_modules.Trainer, whose other methods have the stub's signatures."""

    def state_dict(self) -> dict[str, Any]: ...
