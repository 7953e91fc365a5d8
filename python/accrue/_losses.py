"""Losses of networks with several outputs."""

from __future__ import annotations

import dataclasses
import json
import numbers
import typing

_KINDS = ("cross-entropy", "mse", "l1", "smooth-l1", "bce", "dice", "bce+dice",
          "cross-entropy+dice")


@dataclasses.dataclass(frozen=True)
class Loss:
    """Says a loss of an output; the result of loss()."""

    loss: str
    weight: float = 1.0
    target: str | None = None
    class_weights: typing.Any = None
    label_smoothing: float = 0.0
    beta: float | None = None
    pos_weight: typing.Any = None


def loss(kind: str, *, weight: float = 1.0, target: str | None = None,
         class_weights: typing.Any = None, label_smoothing: float = 0.0,
         beta: float | None = None, pos_weight: typing.Any = None, class_weight: typing.Any = None) -> Loss:
    """Says the loss of one output of a network.

    It goes into ``train(..., loss={"class": accrue.loss(...)})``. Each loss is a mean over what it
    counts in the whole window: samples, their sample_weight and class_weights, but not labels -100.

    Parameters
    ----------
    kind : str
        Of labels "cross_entropy"; of numbers "mse", "l1", "smooth_l1" or "bce", of logits; of masks
        "bce", "cross_entropy", "dice" or a sum such as "bce+dice".
    weight : float
        The factor of this loss in the sum of all.
    target : str, optional
        The array of the data that the output is compared with, by default the one of its name.
    class_weights : sequence of float, dict of them or 'balanced', optional
        Of cross_entropy: one for each class. Classes that a dictionary leaves out count 1. Balanced weights are
        N / (K n[c]), where n[c] of N labels are of class c and K classes have labels; a class without labels counts 1.
    label_smoothing : float
        Of cross_entropy of labels: the part of each label that all classes share alike.
    beta : float, optional
        Of smooth_l1: where the parabola around 0 ends, by default 1.
    pos_weight : sequence of float, optional
        Of bce of numbers: one for each label.
    class_weight : as class_weights, optional
        Another name of class_weights, as Keras and scikit-learn call it.

    Returns
    -------
    Loss
        What train() takes.

    Raises
    ------
    Error
        For a kind that is not known.

    Examples
    --------
    >>> accrue.loss("smooth_l1", weight=0.5).weight
    0.5
    """
    name = str(kind).replace("_", "-")
    if name not in _KINDS:
        _fail(f"loss is {kind!r}: expected {', '.join(_KINDS)}")
    if class_weight is not None and class_weights is not None:
        _fail("class_weight and class_weights are two names of the same: expected one of them")
    if not isinstance(weight, numbers.Real) or isinstance(weight, bool):
        _fail(f"weight is {weight!r}: expected a number, the factor of this loss in the sum; class_weights has one for each "
              "class")
    return Loss(name, float(weight), target, class_weights if class_weight is None else class_weight,
                float(label_smoothing), beta, pos_weight)


def _fail(text: str) -> typing.NoReturn:
    from . import _accrue
    raise _accrue.Error(text)


def _counts(labels: typing.Any) -> typing.Any:
    """How many labels each class has, also where they are fetched."""
    import numpy
    parts = (labels.fetch(index, 0, -1) for index in range(len(labels))) if hasattr(labels, "_accrue_part") else [labels]
    counts = numpy.zeros(0, numpy.int64)
    for part in parts:
        y = numpy.asarray(part).reshape(-1)
        if y.dtype.kind not in "iu":
            return None
        found = numpy.bincount(y[y >= 0], minlength=len(counts))
        found[:len(counts)] += counts
        counts = found
    return counts


def _balanced(labels: typing.Any, classes: int) -> list[float] | None:
    """The weights by which all classes count alike, and a sample 1 on average; None if there are no labels."""
    import numpy
    counts = _counts(labels)
    if counts is None:
        return None
    counts = numpy.pad(counts, (0, max(classes - len(counts), 0)))
    there = counts > 0
    weights = numpy.where(there, counts.sum() / (max(there.sum(), 1) * numpy.maximum(counts, 1)), 1.0)
    return [float(weight) for weight in weights]


def _class_weights(value: typing.Any, output: str, target: str, data: typing.Mapping, classes: int,
                   may_count: bool) -> list[float]:
    """One weight for each of the classes that the output tells apart."""
    from . import _class_weight
    what = f"class_weights of '{output}'"
    if not isinstance(value, str):
        names = _class_weight.names_in(data.get(target))
        return _class_weight.numbers_of(value, what, names, classes or None)
    if value != "balanced":
        _fail(f"{what} is {value!r}: expected numbers, a dictionary of them, or 'balanced'")
    if not may_count:
        _fail(f"{what} is 'balanced', which counts the labels that are trained on: expected a weight for each class, or no "
              "loss, and weights that say theirs")
    found = _balanced(data[target], classes) if target in data else []  # what lacks is told by its name elsewhere
    if found is None:
        _fail(f"{what} is 'balanced', but {target} has no labels: expected integers, classes, or no class_weights")
    return found


def _options(output: str, one: typing.Any, data: typing.Mapping, classes_of: typing.Callable[[str, str], int],
             may_count: bool) -> dict[str, typing.Any]:
    if not isinstance(one, Loss):
        if not isinstance(one, str):
            _fail(f"the loss of '{output}' is {one!r}: expected accrue.loss(...), or its kind")
        one = loss(one)
    found: dict[str, typing.Any] = {}
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if value is None or (isinstance(value, float) and value == field.default):
            continue
        if field.name == "class_weights":
            target = one.target or output
            value = _class_weights(value, output, target, data, classes_of(output, target), may_count)
        elif field.name == "pos_weight":
            value = [float(x) for x in value]
        found[field.name] = value
    return found


def _text_of(losses: typing.Any, data: typing.Mapping, classes_of: typing.Callable[[str, str], int],
             may_count: bool) -> str:
    """The setting `loss` of a dictionary of losses by outputs.

    `classes_of` gives how many classes an output tells apart in an array, or 0. Labels are counted if `may_count`.
    """
    if not isinstance(losses, typing.Mapping):
        _fail("loss is of one output, but the data is arrays by name: expected a dictionary of "
              "losses by the names of outputs")
    if not losses:
        _fail("loss is empty: expected a loss for an output or more")
    return json.dumps({output: _options(output, one, data, classes_of, may_count) for output, one in losses.items()})
