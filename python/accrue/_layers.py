"""Layers that can be pickled: they know the call that made them."""

from __future__ import annotations

import copy
import pickle
import typing

from . import _accrue, _signatures


def _kept(value: typing.Any) -> typing.Any:
    return copy.copy(value) if isinstance(value, (list, dict)) else value


def _remembering(name: str, make: typing.Any) -> typing.Any:
    def call(*args: typing.Any, **options: typing.Any) -> typing.Any:
        layer = make(*args, **options)
        # The caller may change a list of layers afterwards.
        layer._made = name, tuple(map(_kept, args)), {key: _kept(value) for key, value in options.items()}
        return layer

    return _signatures.function(make, call)


def remembering() -> dict[str, typing.Any]:
    """The functions of the module that make layers, by name; their layers can be pickled."""
    return {name: _remembering(name, made) for name, made in vars(_accrue).items()
            if name[0].isupper() and hasattr(made, "__nb_signature__") and not isinstance(made, type)}


def _made(name: str, args: tuple, options: dict) -> _accrue.Layer:
    import accrue

    return getattr(accrue, name)(*args, **options)


def _reduce(layer: _accrue.Layer) -> typing.Any:
    if not hasattr(layer, "_made"):
        raise pickle.PicklingError("a Network of values is not pickled: make it anew, and pickle its weights")
    return _made, layer._made


_accrue.Layer.__reduce__ = _reduce  # type: ignore[assignment, method-assign]
