"""Gives the module's functions their signatures, which help, inspect and notebooks read."""

from __future__ import annotations

import functools
import inspect
import re
import typing

from . import _accrue, _names

_Any = typing.TypeVar("_Any")


def _signature(definition: str, defaults: typing.Sequence) -> inspect.Signature:
    r"""The signature of a line such as "def train(model: str | None = \0, ...) -> Result", \0 being a default."""
    names: dict[str, typing.Any] = {"_defaults": defaults}
    definition = re.sub(r"\\(\d+)", r"_defaults[\1]", definition)
    # Annotations stay text: nothing evaluates them.
    exec(f"from __future__ import annotations\n{definition}: ...", names)
    return inspect.signature(names[definition[4:definition.index("(")]])


def _described(function: typing.Any) -> tuple[inspect.Signature, str]:
    definition, doc, *defaults = function.__nb_signature__[0]
    return _signature(definition, defaults[0] if defaults else ()), doc


def doc_of(function: typing.Any) -> str:
    """A docstring without the signature that nanobind writes before it."""
    return _described(function)[1]


def function(of: _Any, by: typing.Any = None) -> _Any:
    """A function of the module with its signature. `by` is called in its place, if it is given."""
    signature, doc = _described(of)
    by = by or of

    places = [name for name, each in signature.parameters.items() if each.kind == each.POSITIONAL_OR_KEYWORD]
    takes_data = "weights" in places or "data" in places

    def call(*args, **options):
        _names.check(of.__name__, options, signature.parameters)
        if takes_data:
            _names.check_places(of.__name__, args, places)
        return by(*args, **options)

    functools.update_wrapper(call, of, ("__name__", "__qualname__"), ())
    call.__module__, call.__doc__ = "accrue", doc
    call.__signature__ = signature
    del call.__wrapped__
    return call


def _add_to(type_: type) -> None:
    signature, _ = _described(type_.__init__)
    parameters = list(signature.parameters.values())[1:]  # without self
    type_.__signature__ = signature.replace(parameters=parameters, return_annotation=type_)


for _type in (_accrue.Trainer, _accrue.Network, _accrue.scope):
    _add_to(_type)
