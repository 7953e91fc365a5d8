"""Metrics that are functions of Python, for scores alone."""

from __future__ import annotations

import typing

from . import _accrue


# The names in scores of labels and of numbers.
_TAKEN = ("samples", "loss", "correct", "accuracy", "rmse")


def _named(metrics: typing.Any, of: str = "") -> dict[str, typing.Callable]:
    """Functions by the names that they have in scores; `of` says of which output."""
    what = f"metrics{of}"
    if metrics is None:
        return {}
    if callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, (dict, list, tuple)):
        raise _accrue.Error(f"{what} is {metrics!r}: expected functions of y and the answers, a list or by names in a dict")
    if not isinstance(metrics, dict):
        for metric in metrics:
            if isinstance(metric, str) and metric in _TAKEN:
                raise _accrue.Error(f"{what} has '{metric}', which scores have by themselves: expected no '{metric}'")
        names = [getattr(metric, "__name__", type(metric).__name__) for metric in metrics]
        for name in names:
            if names.count(name) > 1:
                raise _accrue.Error(f"{what} has {names.count(name)} functions with the name '{name}': expected a dict, which "
                                    "names each")
        metrics = dict(zip(names, metrics))
    for name, metric in metrics.items():
        if name in _TAKEN:
            raise _accrue.Error(f"{what} has '{name}', a name that scores have already: expected another name")
        if not callable(metric):
            raise _accrue.Error(f"{what} has '{name}': {metric!r}, expected a function of y and the answers")
    return dict(metrics)


class _Outputs:
    """The outputs of a network that are compared, and the arrays of the data that they are compared with."""

    def __init__(self, data: dict, inputs: typing.Sequence[str], outputs: typing.Sequence[str], loss: typing.Any):
        losses = loss if isinstance(loss, dict) else {name: None for name in outputs if name in data}
        self.targets: dict[str, str] = {name: getattr(one, "target", None) or name for name, one in losses.items()}
        self.targets = {name: target for name, target in self.targets.items() if target in data}
        self.names = list(outputs)
        lacking = [name for name in data if name not in inputs]
        if not self.targets:
            raise _accrue.Error(f"metrics are of y and the answers to x, but data has {', '.join(lacking) or 'none'} to "
                                f"answer with: expected arrays by the names of outputs, {', '.join(outputs)}, or no metrics")

    def split(self, metrics: typing.Any) -> tuple[typing.Any, dict[str, typing.Any]]:
        """Metrics of all outputs together, and by outputs. If there is one output, a function is that output's anyway."""
        if not isinstance(metrics, dict):
            return metrics, {}
        is_one = len(self.targets) == 1
        of_one = {name: each for name, each in metrics.items()
                  if name in self.names and not (is_one and callable(each))}
        for name in of_one:
            if name not in self.targets:
                raise _accrue.Error(f"metrics has '{name}', an output that no array of the data is compared with: expected "
                                    f"some of {', '.join(self.targets)}")
        return {name: each for name, each in metrics.items() if name not in of_one}, of_one


def _all_of(y: typing.Any) -> typing.Any:
    """y as an array, also where it is fetched."""
    import numpy

    if hasattr(y, "_accrue_part"):
        return numpy.stack([y.fetch(index, 0, -1) for index in range(len(y))])  # -1: of a score
    return numpy.asarray(y)


def _judged(y: typing.Any, answers: typing.Any) -> tuple:
    """Labels and answers without the places whose label is -100. Labels at places [N, T] come as [M], answers as [M, C]."""
    import numpy

    answers = numpy.asarray(answers)
    if y.dtype.kind not in "iu":
        return y, answers
    counts = y != -100
    if y.ndim == 2 and answers.ndim == 3:  # places, such as tokens
        return y[counts], answers[counts]
    if counts.all():
        return y, answers
    if y.ndim >= 3:  # pixels, whose answers have their channels first
        answers = numpy.moveaxis(answers, 1, -1)
    return y[counts], answers[counts]


class Metrics:
    """The metrics of a trainer, and the samples of its scores."""

    def __init__(self, metrics: typing.Any, data: typing.Any, validation: typing.Any, test: typing.Any,
                 model: typing.Any = None, loss: typing.Any = None):
        self._of_one: dict[str, dict[str, typing.Callable]] = {}  # by outputs
        self._outputs: _Outputs | None = None
        if metrics is not None and isinstance(data, dict) and hasattr(model, "_inputs"):
            self._outputs = _Outputs(data, model._inputs, model._outputs, loss)
            metrics, of_one = self._outputs.split(metrics)
            self._of_one = {name: _named(each, f" of '{name}'") for name, each in of_one.items()}
        self._metrics = _named(metrics)
        if not self:
            return
        if self._outputs is None and (not (isinstance(data, (tuple, list)) and len(data) == 2) or _says_learned(data[1])):
            raise _accrue.Error("metrics are of y and the answers to x: expected data=(x, y), or no metrics")
        self._validation = validation if validation is not None else test if test is not None else data
        self._scored = test if test is not None else self._validation

    def __bool__(self) -> bool:
        return bool(self._metrics or self._of_one)

    def of_validation(self, predict: typing.Any) -> typing.Any:
        """A function that adds the metrics to a score of validation, or None if there are none."""
        if not self:
            return None
        return lambda score: self._add(score, predict, self._validation)

    def add_to(self, score: dict, predict: typing.Any, data: typing.Any = None) -> None:
        """Adds the metrics on `data`, by default on what a training scores at its end."""
        if self:
            self._add(score, predict, self._scored if data is None else data)

    def _add(self, score: dict, predict: typing.Any, data: typing.Any) -> None:
        if self._outputs is None:
            x, y = data
            self._add_of(score, self._metrics, *_judged(_all_of(y), predict(x)))
            return
        targets = self._outputs.targets
        answers = predict({name: array for name, array in data.items() if name not in targets.values()})
        if not isinstance(answers, dict):
            answers = {next(iter(targets)): answers}
        labels = {target: _all_of(data[target]) for target in targets.values()}
        for output, metrics in self._of_one.items():
            self._add_of(score, metrics, *_judged(labels[targets[output]], answers[output]), f"{output}.")
        if len(targets) == 1:
            output, target = next(iter(targets.items()))
            self._add_of(score, self._metrics, *_judged(labels[target], answers[output]))
        elif self._metrics:  # labels -100 stay, because samples go together
            try:
                self._add_of(score, self._metrics, labels, {output: answers[output] for output in targets})
            except (AttributeError, TypeError, IndexError, KeyError) as error:
                raise _accrue.Error(f"a metric of all outputs gets dictionaries, of labels by {', '.join(labels)} and of answers "
                                    f"by {', '.join(targets)}, and ended with {type(error).__name__}: {error}: expected a "
                                    f"function of these, or metrics={{'{next(iter(targets))}': FUNCTION}} of one output"
                                    ) from error

    def _add_of(self, score: dict, metrics: dict[str, typing.Callable], y: typing.Any, answers: typing.Any,
                before: str = "") -> None:
        for own, metric in metrics.items():
            name = before + own
            if name in score:
                raise _accrue.Error(f"metrics has '{name}', a name that the score has already: expected another name")
            value = metric(y, answers)
            try:
                score[name] = float(value)
            except (TypeError, ValueError):
                raise _accrue.Error(f"the metric '{name}' is {value!r}: expected a number") from None


def _says_learned(y: typing.Any) -> bool:
    """True for arrays of bool that say which tokens are learned, and for lists of such."""
    return getattr(y, "dtype", None) == bool and getattr(y, "ndim", 0) < 3 or isinstance(y, list) and bool(y) and (
        _says_learned(y[0]))
