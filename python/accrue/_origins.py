"""The arguments and results of a network that comes from a module or a file."""

from __future__ import annotations

import typing

from . import _accrue
from ._accrue import Error
from ._losses import Loss
from ._results import Weights


class Origin:
    """A network whose inputs and outputs have names; takes a network's place as `model`."""

    network: _accrue.Network
    weights: Weights
    inputs: list[str]
    outputs: list[str]
    by_name: bool  #: data comes by these names: there are several, or integers
    frozen: typing.Sequence[str]  #: names of parameters that do not learn
    _binary: frozenset[str]  # inputs of whole numbers with which the network calculates
    _is_wide: bool = False  # its weights are float64
    _kind = "network"  # for messages
    _one_output = ""  # how to keep one of several outputs

    def __repr__(self) -> str:
        return repr(self.network)

    @property
    def answer(self) -> str | None:
        """The output that a y without a name is compared with: the only one."""
        return self.outputs[0] if len(self.outputs) == 1 else None

    def options(self, options: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """The arguments of `train` with what the origin decides: its values, and what is frozen."""
        options = dict(options)
        if options.get("init") is None and options.get("resume") is not True:
            options["init"] = self.weights
        if self.frozen:
            given = options.get("freeze")
            given = given.split(",") if isinstance(given, str) else list(given or ())
            options["freeze"] = [*given, *(name for name in self.frozen if name not in given)]
        return self.precise(options)

    def precise(self, options: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """The arguments with the precision of the origin's weights, unless they have one."""
        if self._is_wide and options.get("precision") is None and options.get("config") is None:
            return {**options, "precision": "fp64"}
        return options

    def weights_for(self, x: typing.Any) -> Weights:
        """The origin's values, to answer to x: numbers are seen as they are."""
        is_pixels = str(getattr(x, "dtype", "")).removeprefix("torch.") == "uint8"
        said = {"model": "sequential", "inputs": "as given"}  # as a training says of its weights
        return self.weights if is_pixels else Weights(self.weights, said)

    def samples(self, x: typing.Any) -> typing.Any:
        """x as the network takes it."""
        if not self.by_name or isinstance(x, dict):
            return self._checked(x)
        given = list(x) if isinstance(x, (tuple, list)) and len(self.inputs) > 1 else [x]
        if len(given) != len(self.inputs):
            raise Error(f"x has {len(given)} arrays: expected {', '.join(self.inputs)}")
        return self._checked(dict(zip(self.inputs, given)))

    def _checked(self, arrays: typing.Any) -> typing.Any:
        """Arrays by their names: a network calculates with 0 and 1 alone."""
        for name in self._binary.intersection(arrays if isinstance(arrays, dict) else ()):
            import numpy as np  # here, because a program without arrays need not wait for it

            found = np.asarray(arrays[name])
            if found.dtype.kind == "b":
                arrays = {**arrays, name: found.astype(np.int32)}
            if found.dtype.kind in "iu" and found.size and found.max() > 1:
                raise Error(f"{name} has {found.max()}, and the {self._kind} calculates with {name}, or compares it: "
                            "expected 0 or 1, such as a mask; give others, such as t != 0, as inputs of their own")
        return arrays

    def data(self, data: typing.Any) -> typing.Any:
        """(x, y) as the network takes it."""
        if not self.by_name or not isinstance(data, (tuple, list)) or len(data) != 2:
            return self._checked(data)
        x, y = data
        if isinstance(y, dict):
            return {**self.samples(x), **y}
        self.check_one_output()
        return {**self.samples(x), self.answer: y}

    def loss(self, options: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """The arguments with a loss by the output's name."""
        if self.by_name and isinstance(options.get("loss"), (str, Loss)):
            self.check_one_output()
            return {**options, "loss": {self.answer: options["loss"]}}
        return options

    def check_one_output(self) -> None:
        if self.answer is None:
            raise Error(f"the {self._kind} has the outputs {', '.join(self.outputs)}: expected arrays by these names, "
                        f"or {self._one_output.format(self.outputs[0])}")

    def answers(self, y: typing.Any) -> typing.Any:
        """The network's answers: of one output its array."""
        return y[self.outputs[0]] if isinstance(y, dict) and len(self.outputs) == 1 else y
