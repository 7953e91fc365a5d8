"""Networks of ONNX files: each node becomes a call of ours, and what it holds in weight slots is trained.

docs/pytorch.md describes it.
"""

from __future__ import annotations

import functools
import os
import typing
import warnings

from . import _accrue
from ._accrue import Error
from ._origins import Origin
from ._results import Weights

#: Sizes of one sample.
Sizes = typing.Sequence[int]


class FromOnnx(Origin):
    """A file as a network of values; takes the file's place as `model` everywhere.

    A file of one input of numbers and one output takes data (x, y); another takes arrays by their names.
    """

    _kind = "file"
    _one_output = 'model=accrue.from_onnx(path, outputs="{}")'

    def __init__(self, path: str, file: typing.Any, network: typing.Any):
        self.path = path
        self._network = network
        self._last = {name: file.giver(name) for name in network.outputs}  # the op, and what comes before it
        self.network = network.layer
        self.frozen = ()
        self._is_wide = network.is_wide
        kinds = {name: kind for name, kind, _ in file.inputs}
        taken = network.inputs
        self.inputs: list[str] = [name for name, _ in taken]  #: their names
        self.outputs: list[str] = network.outputs  #: their names
        self.constants: list[str] = network.constants  #: constants of floating numbers, which `train` may name
        self.notes: list[str] = network.notes  #: sentences for the user
        self.calls: int = network.calls  #: of the network
        self.shapes: dict[str, tuple[int, ...]] = {name: shape for name, shape, _ in network.weights}
        self._binary = frozenset(network.truths).union(name for name in self.inputs if kinds.get(name) == "bool")
        self.by_name = len(self.inputs) > 1 or len(self.outputs) > 1 or any(whole for _, whole in taken)

    def options(self, options: dict[str, typing.Any]) -> dict[str, typing.Any]:
        if not any(not is_buffer for _, _, is_buffer in self._network.weights):
            named = f", or from_onnx(path, train=[...]) of {', '.join(self.constants)}" if self.constants else ""
            raise Error(f"{self.path} has no weights to train: expected initializers in the weight slots of nodes, such "
                        f"as a Conv's{named}")
        self._say_last(options.get("loss"))
        return super().options(options)

    def _say_last(self, loss: typing.Any) -> None:
        """Warns of answers that a loss of logits would take for logits."""
        for output, (op, before) in self._last.items():
            own = loss.get(output) if isinstance(loss, dict) else loss
            kind = str(getattr(own, "loss", own) or "cross-entropy").replace("_", "-")
            if (op, kind) in (("Softmax", "cross-entropy"), ("Sigmoid", "bce")):
                warnings.warn(f"{self.path}: the output '{output}' is a {op}, and losses of classes take logits: expected "
                              f"accrue.from_onnx(path, outputs=\"{before}\"), which ends before it", UserWarning,
                              stacklevel=2)

    @functools.cached_property
    def weights(self) -> Weights:
        """The file's values, by its names."""
        return Weights(self._network.values())

    def save(self, path: str | os.PathLike[str], weights: typing.Any = None) -> None:
        """Writes the file with these weights in it, and all else as it is: Result.weights, or a safetensors file."""
        if weights is None:
            weights = self.weights
        elif isinstance(weights, (str, os.PathLike)):
            weights = Weights.load(weights)
        self._network.save(os.fspath(path), dict(weights))

    def state_dict(self, weights: typing.Any = None, steps: int = 0) -> typing.NoReturn:
        raise Error("the network is an ONNX file's, and no torch.nn.Module: expected result.weights, which "
                    "accrue.from_onnx(path).save(path, weights) writes into the file")


def from_onnx(path: str | os.PathLike[str], *, train: typing.Sequence[str] | str = (),
              samples: Sizes | typing.Mapping[str, Sizes] | None = None,
              outputs: typing.Sequence[str] | str | None = None) -> FromOnnx:
    """Describes an ONNX file as a network.

    Parameters
    ----------
    path : str or path
        The file, whose values are where a training begins.
    train : str or sequence of str
        The names of constants of floating numbers to be trained beside the weights.
    samples : sequence of int or dict of them, optional
        The sizes of one sample where the file leaves them free, by inputs if there are several.
    outputs : str or sequence of str, optional
        The names of the outputs to keep.

    Returns
    -------
    FromOnnx
        It takes the file's place as `model` everywhere; `weights` has the file's values, and
        `save(path, weights)` writes the file with others.

    Raises
    ------
    Error
        For nodes that cannot be trained. It names them.

    Examples
    --------
    >>> accrue.export(accrue.train("mlp-small", "digits", steps=1).weights, "net.onnx")
    >>> accrue.from_onnx("net.onnx").outputs
    ['logits']
    """
    file = _accrue._OnnxFile(os.fspath(path))
    if samples is None:
        samples = {}
    elif not isinstance(samples, typing.Mapping):
        if len(file.inputs) != 1:
            names = ", ".join(name for name, _, _ in file.inputs)
            raise Error(f"samples is {tuple(samples)}: expected sizes by the names of the inputs, {names}")
        samples = {file.inputs[0][0]: samples}
    return _described(os.fspath(path), file, _names(train), samples, _names(outputs))


def _described(path: str, file: typing.Any, train: list[str], samples: typing.Mapping[str, Sizes],
               outputs: list[str]) -> FromOnnx:
    network = file.network(train, {name: [int(size) for size in sizes] for name, sizes in samples.items()}, outputs)
    found = FromOnnx(path, file, network)
    for note in found.notes:
        warnings.warn(f"{path}: {note}", UserWarning, stacklevel=3)
    return found


def _names(given: typing.Sequence[str] | str | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def read(path: str | os.PathLike[str], x: typing.Any) -> FromOnnx:
    """The network of a file on x, the samples of a caller's data."""
    file = _accrue._OnnxFile(os.fspath(path))
    samples = {}
    if x is not None and not isinstance(x, (str, os.PathLike)):
        names = [name for name, _, _ in file.inputs]
        if not isinstance(x, dict):
            x = dict(zip(names, x if isinstance(x, (tuple, list)) and len(names) > 1 else [x]))
        samples = {name: _sizes(x[name]) for name, _, sizes in file.inputs
                   if name in x and not all(isinstance(size, int) for size in sizes[1:])}
    return _described(os.fspath(path), file, [], samples, [])


def described_inputs(path: str | os.PathLike[str]) -> list[tuple[str, str, tuple[int | str, ...]]]:
    """The name, type and sizes of each input of a file; a size that is free is a text."""
    return _accrue._OnnxFile(os.fspath(path)).inputs


def _sizes(x: typing.Any) -> tuple[int, ...]:
    """The sizes of one sample of x [N, ...]."""
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        import numpy as np

        x = np.asarray(x)
    shape = tuple(x.shape)
    is_gray = str(x.dtype).removeprefix("torch.") == "uint8" and len(shape) == 3  # images, as accrue takes them
    return (1, *shape[1:]) if is_gray else shape[1:]
