"""Results of the functions: dicts and arrays that show themselves as tables."""

from __future__ import annotations

import copy
import dataclasses
import html
import os
import typing

from . import _accrue, _modules, _names
from ._history import History

if typing.TYPE_CHECKING:
    import numpy


def _bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class _Table:
    """Shows itself as a table: the first row is its heading."""

    def _rows(self) -> list[list[str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(
            "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows)

    def _repr_html_(self) -> str:
        heading, *rows = self._rows()

        def line(tag: str, row: list[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

        return ("<table><thead>" + line("th", heading) + "</thead><tbody>" +
                "".join(line("td", row) for row in rows) + "</tbody></table>")


class Score(_Table, dict[str, typing.Any]):
    """A loss and its metrics by name, accuracies in percent. Values that are not finite are NaN.

    Examples
    --------
    >>> score = accrue.train("mlp-small", "digits", steps=2).score
    >>> 0 <= score["accuracy"] <= 100
    True
    """

    def __init__(self, score: typing.Mapping[str, typing.Any] = ()):
        super().__init__((name, float("nan") if value is None else value)
                         for name, value in dict(score).items())

    def _rows(self) -> list[list[str]]:
        return [list(self), [_number(value) for value in self.values()]]


class Scores(_Table, dict[str, Score]):
    """The `Score` of each part of a data set, "training" and "test"."""

    def __init__(self, parts: typing.Mapping[str, typing.Mapping[str, typing.Any]]):
        super().__init__({name: Score(score) for name, score in parts.items()})

    def _rows(self) -> list[list[str]]:
        first = next(iter(self.values()))
        return [["", *first], *([name, *map(_number, s.values())] for name, s in self.items())]


class Memory(_Table, dict[str, dict[str, int]]):
    """Peaks in bytes, by run and category.

    Examples
    --------
    >>> memory = accrue.train("mlp-small", "digits", steps=2).memory
    >>> memory["this run"]["activations"] > 0
    True
    """

    def _rows(self) -> list[list[str]]:
        categories = next(iter(self.values()), {})
        return [["", *self], *([c, *(_bytes(peak[c]) for peak in self.values())]
                               for c in categories)]


class Plan(_Table, dict[str, typing.Any]):
    """A split of the effective batch that fits, "recommended", and "alternatives"; peaks are bytes."""

    def options(self) -> dict[str, typing.Any]:
        """Makes the arguments of train() for the recommended split.

        Returns
        -------
        dict
            Such as effective_batch, micro_batch, recompute and strategy.

        Examples
        --------
        >>> plan = accrue.plan("mlp-small", "digits", effective_batch=64, memory="64MiB")
        >>> accrue.train("mlp-small", "digits", steps=1, **plan.options()).batches
        '64 (64 x 1)'
        """
        best = self["recommended"]
        options = {"micro_batch": best["micro_batch"],
                   "effective_batch": best["micro_batch"] * best["accum"],
                   "strategy": best["strategy"], "recompute": best["recompute"]}
        if best["remainder"]:
            options["effective_batch"] += best["remainder"] - best["micro_batch"]
        if best["sequence_piece"]:
            options["sequence_piece"] = best["sequence_piece"]
        if best["batch_norm_by"] != "keep":
            options["batch_norm_by"] = best["batch_norm_by"]
        return options

    def _rows(self) -> list[list[str]]:
        rows = [["", "micro-batch", "K", "recompute", "strategy", "peak", "fits", "cost"]]
        for a in self["alternatives"]:
            is_best = all(a[key] == value for key, value in self["recommended"].items())
            rows.append(["->" if is_best else "", str(a["micro_batch"]), str(a["accum"]),
                         a["recompute"], a["strategy"], _bytes(a["peak_bytes"]),
                         "yes" if a["fits"] else "no", f"{a['relative_cost']:.2f}"])
        return rows


class Info(_Table, dict[str, typing.Any]):
    """The build, the machine, and a model with its tensors."""

    def _rows(self) -> list[list[str]]:
        about = self["environment"]
        rows = [["accrue", _accrue.__version__]]
        rows += [[name.replace("_", " "), str(value)] for name, value in about.items()]
        rows += [["model", f"{self['model']}: {self['parameters']} parameters"]]
        return rows + [[name, str(shape)] for name, shape in self.get("tensors", {}).items()]


class Weights(_Table, dict[str, "numpy.ndarray"]):
    """Arrays by PyTorch's names, and the metadata of their file.

    They are float32, or float64 of a run with precision="fp64".

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays by name.
    metadata : mapping of str to str
        What is said about them, such as the model.

    Examples
    --------
    >>> weights = accrue.train("mlp-small", "digits", steps=1).weights
    >>> weights.metadata["model"]
    'mlp-small'
    >>> weights.save("w.safetensors")
    >>> sorted(accrue.Weights.load("w.safetensors")) == sorted(weights)
    True
    """

    def __init__(self, arrays: typing.Mapping[str, typing.Any] = (),
                 metadata: typing.Mapping[str, str] = ()):
        super().__init__(arrays)
        self.metadata = dict(metadata)

    def copy(self) -> Weights:
        """Makes a dictionary of the same arrays, with the metadata.

        Returns
        -------
        Weights
            The arrays are not copied.
        """
        return type(self)(self, self.metadata)

    __copy__ = copy

    def __or__(self, other: typing.Any) -> Weights:
        if not isinstance(other, dict):
            return NotImplemented
        return type(self)({**self, **other}, self.metadata)

    def __ror__(self, other: typing.Any) -> Weights:
        if not isinstance(other, dict):
            return NotImplemented
        return type(self)({**other, **self}, self.metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Weights:
        """Reads a safetensors file, without num_batches_tracked and others that are no weights.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Weights
            Its arrays and metadata.

        Raises
        ------
        Error
            For a file that is none, or is damaged.
        """
        return cls(*_accrue._read_weights(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        Error
            For a file that cannot be written.
        """
        _accrue._write_weights(path, dict(self), self.metadata)

    def _rows(self) -> list[list[str]]:
        return [["", "shape", "type"],
                *([name, str(list(a.shape)), str(a.dtype)] for name, a in self.items())]


@dataclasses.dataclass(repr=False)
class Result(_Table):
    """The outcome of a training.

    Attributes
    ----------
    losses : ndarray [windows]
        The loss of each window that this trainer has run, float64; none from before it resumed.
    score : Score or None
        On the data that `scored` names; None before the first step.
    steps : int
        Optimizer steps taken, in all.
    weights : Weights
        Arrays by PyTorch's names.
    memory : Memory
        Peaks in bytes, measured and predicted, by category.
    batches : str
        The effective batch, its micro-batch and their number: "64 (16 x 4)".
    skipped_windows : int
        Windows in `losses` that took no step: something was not finite, or nothing was judged.
    scored : {'test', 'validation', 'training'}
        The data of `score`: the test data, or without these the validation data, or the training data.
    history : History
        Losses, learning rates and scores by window.
    ema_weights : Weights or None
        The moving average of the weights, with ema=.
    best_weights : Weights or None
        With keep_best=True, the weights at the lowest loss that this process scored on the way.

    Examples
    --------
    >>> result = accrue.train("mlp-small", "digits", steps=2, effective_batch=64, micro_batch=16)
    >>> result.steps, result.batches, result.scored
    (2, '64 (16 x 4)', 'test')
    """

    losses: numpy.ndarray
    score: Score | None
    steps: int
    weights: Weights
    memory: Memory
    batches: str
    skipped_windows: int = 0
    scored: str = "test"
    history: History = dataclasses.field(default_factory=History)
    ema_weights: Weights | None = None
    best_weights: Weights | None = None
    _origin: typing.Any = None  # what was made of the module or the file that was trained, if it was one
    _layers: typing.Any = None  # the network of layers that was trained, if it was one

    @property
    def _network(self) -> typing.Any:
        """The `model` of predict() and others; None of a name, and of a network that was not pickled."""
        is_lost = self._origin is not None and vars(self._origin).get("network", self) is None
        return self._layers if self._origin is None or is_lost else self._origin

    def __getstate__(self) -> dict[str, typing.Any]:
        """Networks of modules, files and values are not pickled; state_dict() does not need them."""
        state = dict(vars(self))
        if not hasattr(self._layers, "_made"):
            state["_layers"] = None
        if self._origin is not None:
            origin = copy.copy(self._origin)
            vars(origin).update({name: None for name in ("network", "_network") if name in vars(origin)})
            state["_origin"] = origin
        return state

    def predict(self, x: typing.Any, **options: typing.Any) -> typing.Any:
        """Answers by the trained network.

        Parameters
        ----------
        x : array_like [N, ...] or samples
            As predict() takes it.
        **options
            The options of predict().

        Returns
        -------
        ndarray [N, ...] or dict of them
            What predict() returns.
        """
        return _modules.predict(self, x, **options)

    @_names.takes_one_data
    def evaluate(self, data: typing.Any, **options: typing.Any) -> Score:
        """Scores the trained network.

        Parameters
        ----------
        data : as data of evaluate()
            Arrays (x, y), tokens, texts, samples or a name.
        **options
            The options of evaluate().

        Returns
        -------
        Score
            The loss and its metrics, by name.
        """
        return _modules.evaluate(self, None, data, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights to a safetensors file.

        Parameters
        ----------
        path : str or path
            The file, which is written whole or not at all.
        """
        self.weights.save(path)

    def state_dict(self) -> dict[str, typing.Any]:
        """Makes PyTorch's tensors under the names of the torch.nn.Module that was trained.

        Tied weights come under all their names, buffers too; num_batches_tracked grows by the steps.

        Returns
        -------
        dict of str to torch.Tensor
            What the module's load_state_dict() takes.

        Raises
        ------
        Error
            For a network that is no module's.
        """
        return _modules.state_dict(self._origin, self.weights, self.steps)

    def _rows(self) -> list[list[str]]:
        rows = [["steps", str(self.steps)], ["effective batch", self.batches]]
        if self.skipped_windows:
            rows += [["windows skipped", f"{self.skipped_windows} of {len(self.losses)}"]]
        if len(self.losses):
            rows += [["loss", f"{self.losses[0]:.4g} -> {self.losses[-1]:.4g}"]]
        if self.score:
            rows += [[f"{self.scored} {name}", _number(value)]
                     for name, value in self.score.items()]
        if self.memory:
            rows += [[f"peak memory, {name}", _bytes(peak["total"])]
                     for name, peak in self.memory.items()]
        return rows
