"""Metrics that are functions of Python, for scores alone."""

from __future__ import annotations

import typing

from . import _accrue


# The names in scores of labels and of numbers.
_TAKEN = ("samples", "loss", "correct", "accuracy", "rmse")


def _named(metrics: typing.Any) -> dict[str, typing.Callable]:
    if metrics is None:
        return {}
    if callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, (dict, list, tuple)):
        raise _accrue.Error(f"metrics is {metrics!r}: expected functions of y and the answers, a list or by names in a "
                            "dict")
    if not isinstance(metrics, dict):
        for metric in metrics:
            if isinstance(metric, str) and metric in _TAKEN:
                raise _accrue.Error(f"metrics has '{metric}', which scores have by themselves: expected no '{metric}'")
        names = [getattr(metric, "__name__", type(metric).__name__) for metric in metrics]
        for name in names:
            if names.count(name) > 1:
                raise _accrue.Error(f"metrics has {names.count(name)} functions with the name '{name}': expected a "
                                    "dict, which names each")
        metrics = dict(zip(names, metrics))
    for name, metric in metrics.items():
        if name in _TAKEN:
            raise _accrue.Error(f"metrics has '{name}', a name that scores have already: expected another name")
        if not callable(metric):
            raise _accrue.Error(f"metrics has '{name}': {metric!r}, expected a function of y and the answers")
    return dict(metrics)


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
                 inputs: typing.Any = None):
        self._metrics = _named(metrics)
        if not self._metrics:
            return
        self._target: str | None = None
        if isinstance(data, dict) and inputs is not None:
            targets = [name for name in data if name not in inputs]
            if len(targets) != 1:
                raise _accrue.Error(f"metrics are of y and the answers to x, but data has {', '.join(targets) or 'none'} to "
                                    "answer with: expected one of them, or no metrics")
            self._target = targets[0]
        elif not (isinstance(data, (tuple, list)) and len(data) == 2) or _says_learned(data[1]):
            raise _accrue.Error("metrics are of y and the answers to x: expected data=(x, y), or no metrics")
        self._validation = validation if validation is not None else test if test is not None else data
        self._scored = test if test is not None else self._validation

    def of_validation(self, predict: typing.Any) -> typing.Any:
        """A function that adds the metrics to a score of validation, or None if there are none."""
        if not self._metrics:
            return None
        return lambda score: self._add(score, predict, self._validation)

    def add_to(self, score: dict, predict: typing.Any, data: typing.Any = None) -> None:
        """Adds the metrics on `data`, by default on what a training scores at its end."""
        if self._metrics:
            self._add(score, predict, self._scored if data is None else data)

    def _of(self, data: typing.Any, predict: typing.Any) -> tuple:
        if self._target is None:
            x, y = data
            return _judged(_all_of(y), predict(x))
        answers = predict({name: array for name, array in data.items() if name != self._target})
        if isinstance(answers, dict):
            answers = answers.get(self._target, next(iter(answers.values())))
        return _judged(_all_of(data[self._target]), answers)

    def _add(self, score: dict, predict: typing.Any, data: typing.Any) -> None:
        y, answers = self._of(data, predict)
        for name, metric in self._metrics.items():
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
