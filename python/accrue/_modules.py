"""A torch.nn.Module in place of a model, for the module's functions (docs/pytorch.md)."""

from __future__ import annotations

import functools
import sys
import typing

from . import _accrue


def _is_module(model: typing.Any) -> bool:
    """True for a torch.nn.Module, or for what from_torch() made of one. Nobody has one who has not imported torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    if isinstance(model, torch.nn.Module):
        return True
    pytorch = sys.modules.get("accrue.pytorch")
    return pytorch is not None and isinstance(model, pytorch.FromTorch)


def _traced(model: typing.Any, x: typing.Any, options: dict) -> typing.Any:
    from . import pytorch

    return pytorch.traced(model, x, options)


def _first(data: typing.Any) -> typing.Any:
    """The samples of (x, y)."""
    return data[0] if isinstance(data, (tuple, list)) and len(data) == 2 else data


def _with_origin(result: typing.Any, origin: typing.Any) -> typing.Any:
    result._origin = origin
    return result


def train(model: typing.Any = None, data: typing.Any = None, **options: typing.Any) -> typing.Any:
    if not _is_module(model):
        return _accrue.train(model, data, **options)
    origin = _traced(model, _first(data), options)
    return _with_origin(_accrue.train(origin.network, data, **origin.options(options, init=True)), origin)


def plan(model: typing.Any = None, data: typing.Any = None, **options: typing.Any) -> typing.Any:
    if not _is_module(model):
        return _accrue.plan(model, data, **options)
    origin = _traced(model, _first(data), options)
    return _accrue.plan(origin.network, data, **origin.options(options, init=True))


def evaluate(weights: typing.Any, model: typing.Any = None, data: typing.Any = None, **options: typing.Any) -> typing.Any:
    weights, model, options = _known(weights, model, _first(data), options)
    return _accrue.evaluate(weights, model, data, **options)


def predict(weights: typing.Any, x: typing.Any, model: typing.Any = None, **options: typing.Any) -> typing.Any:
    weights, model, options = _known(weights, model, x, options)
    return _accrue.predict(weights, x, model, **options)


def _known(weights: typing.Any, model: typing.Any, x: typing.Any, options: dict) -> tuple:
    """Weights, a network and options. The weights may be the module itself: then they are its own."""
    if _is_module(model):
        origin = _traced(model, x, options)
    elif model is None and _is_module(weights):
        origin = _traced(weights, x, options)
        weights = origin.weights_for(x)
    else:
        return weights, model, options
    return weights, origin.network, origin.precise(options)


class Trainer(_accrue.Trainer):
    def __init__(self, model: typing.Any = None, data: typing.Any = None, **options: typing.Any):
        self._origin = None
        if _is_module(model):
            self._origin = _traced(model, _first(data), options)
            model, options = self._origin.network, self._origin.options(options, init=True)
        super().__init__(model, data, **options)

    def run(self, on_step: typing.Any = None) -> typing.Any:
        return _with_origin(super().run(on_step), self._origin)

    def state_dict(self) -> dict:
        """The weights as they are now, as Result.state_dict() has them."""
        return state_dict(self._origin, self.weights, self.steps)


def state_dict(origin: typing.Any, weights: typing.Any, steps: int) -> dict:
    if origin is None:
        raise _accrue.Error("the network is no torch.nn.Module: expected the weights, arrays by PyTorch's names")
    return origin.state_dict(weights, steps)


def from_torch(module: typing.Any, x: typing.Any, *, training: bool = True, outputs: typing.Any = None) -> typing.Any:
    from . import pytorch

    return pytorch.from_torch(module, x, training=training, outputs=outputs)


for _function in (Trainer.__init__, Trainer.run):
    functools.update_wrapper(_function, getattr(_accrue.Trainer, _function.__name__), ("__doc__",), ())
    del _function.__wrapped__
Trainer.__doc__ = _accrue.Trainer.__doc__
Trainer.__module__ = "accrue"
