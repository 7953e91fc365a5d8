"""Losses of networks with several outputs."""

from __future__ import annotations

import dataclasses
import json
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
         beta: float | None = None, pos_weight: typing.Any = None) -> Loss:
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
    class_weights : sequence of float or 'balanced', optional
        Of cross_entropy: one for each class.
    label_smoothing : float
        Of cross_entropy of labels: the part of each label that all classes share alike.
    beta : float, optional
        Of smooth_l1: where the parabola around 0 ends, by default 1.
    pos_weight : sequence of float, optional
        Of bce of numbers: one for each label.

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
    return Loss(name, float(weight), target, class_weights, float(label_smoothing), beta,
                pos_weight)


def _fail(text: str) -> typing.NoReturn:
    from . import _accrue
    raise _accrue.Error(text)


def _balanced(labels: typing.Any) -> list[float]:
    """The class weights by which all classes count alike, and a sample 1 on average."""
    import numpy
    y = numpy.asarray(labels).reshape(-1)
    counts = numpy.bincount(y[y >= 0])
    there = counts > 0
    weights = numpy.where(there, counts.sum() / (there.sum() * numpy.maximum(counts, 1)), 1.0)
    return [float(weight) for weight in weights]


def _options(output: str, one: typing.Any, data: typing.Mapping) -> dict[str, typing.Any]:
    if not isinstance(one, Loss):
        if not isinstance(one, str):
            _fail(f"the loss of '{output}' is {one!r}: expected accrue.loss(...), or its kind")
        one = loss(one)
    found: dict[str, typing.Any] = {}
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if value is None or (isinstance(value, float) and value == field.default):
            continue
        if field.name == "class_weights" and isinstance(value, str):
            if value != "balanced":
                _fail(f"class_weights of '{output}' is {value!r}: expected numbers, or 'balanced'")
            value = _balanced(data[one.target or output])
        elif field.name in ("class_weights", "pos_weight"):
            value = [float(x) for x in value]
        found[field.name] = value
    return found


def _text_of(losses: typing.Any, data: typing.Mapping) -> str:
    """The setting `loss` of a dictionary of losses by outputs."""
    if not isinstance(losses, typing.Mapping):
        _fail("loss is of one output, but the data is arrays by name: expected a dictionary of "
              "losses by the names of outputs")
    if not losses:
        _fail("loss is empty: expected a loss for an output or more")
    return json.dumps({output: _options(output, one, data) for output, one in losses.items()})
