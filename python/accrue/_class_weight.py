"""class_weight=, the name by which Keras and scikit-learn know class_weights=."""

from __future__ import annotations

import numbers
import os
import typing

from ._accrue import Error, Layer, _classes_of_folder, input


def taken(options: dict[str, typing.Any]) -> tuple[typing.Any, dict[str, typing.Any]]:
    """class_weight, and the options without it."""
    given = options.get("class_weight")
    options = {name: value for name, value in options.items() if name != "class_weight"}
    if given is not None and options.get("class_weights") is not None:
        raise Error("class_weight and class_weights are two names of the same: expected one of them")
    return given, options


def as_class_weights(given: typing.Any, model: typing.Any, data: typing.Any, options: dict[str, typing.Any]
                     ) -> typing.Any:
    """The value for the program: a dictionary becomes a list, in which classes that it leaves out are 1."""
    if isinstance(given, str):
        if given != "balanced":
            raise Error(f"class_weight is {given!r}: expected 'balanced', or a dictionary such as {{0: 1.0, 1: 2.5}}")
        return given
    names = names_of(options.get("classes"))
    if not names and isinstance(given, typing.Mapping) and any(isinstance(key, str) for key in given):
        names = names_in(data)
    known = _count(model, data, len(names)) if isinstance(given, typing.Mapping) else None
    found = numbers_of(given, "class_weight", names, known)
    return found if known is not None or not isinstance(given, typing.Mapping) else [*found, "rest"]


def numbers_of(given: typing.Any, what: str, names: list[str], known: int | None) -> list:
    """Weights of classes as a list. A dictionary's has `known` numbers, or ends with the last class that it names."""
    if not isinstance(given, typing.Mapping):
        if isinstance(given, bytes) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) != 1:
            raise Error(f"{what} is {given!r}: expected a dictionary, numbers for all classes, or 'balanced'")
        given = list(given)
    if not given:
        raise Error(f"{what} is empty: expected a weight for a class or more")
    for key, weight in given.items() if isinstance(given, typing.Mapping) else enumerate(given):
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool):
            raise Error(f"{what} has {weight!r} for the class {key!r}: expected numbers")
    if isinstance(given, list):
        return [float(weight) for weight in given]
    weights = {_class_of(key, what, names): weight for key, weight in given.items()}
    if len(weights) < len(given):
        raise Error(f"{what} is {given!r}: expected each class once")
    if known is not None and max(weights) >= known:
        raise Error(f"{what} has the class {max(weights)}, but there are {known}: expected classes below")
    return [float(weights.get(k, 1.0)) for k in range(known or max(weights) + 1)]


def names_of(classes: typing.Any) -> list[str]:
    """The names that the argument classes has, or none if it is None."""
    if isinstance(classes, str):
        return classes.split(",")
    if classes is not None and not hasattr(classes, "__iter__"):
        raise Error(f"classes is {classes!r}: expected a list of names")
    return [] if classes is None else [str(name) for name in classes]


def names_in(data: typing.Any) -> list[str]:
    """The names of the classes that a folder of images, a data set, or its labels have, or none."""
    if isinstance(data, (str, os.PathLike)):
        return _classes_of_folder(os.fspath(data)) if os.path.isdir(data) else []
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, (tuple, list)) else (data,)
    found = [names for names in (getattr(part, "class_names", None) for part in parts) if names]
    return list(found[0]) if len(found) == 1 and all(isinstance(name, str) for name in found[0]) else []


def _class_of(key: typing.Any, what: str, names: list[str]) -> int:
    if isinstance(key, str) and key in names:
        return names.index(key)
    if not isinstance(key, numbers.Integral) or isinstance(key, bool) or key < 0:
        some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise Error(f"{what} has the key {key!r}: expected whole numbers from 0, the classes of y, or " +
                    (f"their names {some}" if names else "names that classes= has"))
    return int(key)


def _count(model: typing.Any, data: typing.Any, named: int) -> int | None:
    """How many classes there are, as far as a caller's arrays, names and network tell it."""
    if named:
        return named
    from ._modules import _is_origin

    if not isinstance(data, (tuple, list)) or len(data) != 2 or _is_origin(model):
        return None  # the training knows it
    x, y = data
    outputs = _outputs(model, x)  # the last classes may have no sample
    if outputs is not None or hasattr(y, "_accrue_part"):  # labels that are fetched are not read to count them
        return outputs
    import numpy

    labels = numpy.asarray(y)
    return int(labels.max()) + 1 if labels.size and labels.dtype.kind in "iu" else None


def _outputs(model: typing.Any, x: typing.Any) -> int | None:
    """The classes that a network of layers tells apart: the second size of its answer, or of [N, T, C] the last."""
    if not isinstance(model, Layer):
        return None
    first = getattr(x, "first", x)
    if not hasattr(first, "shape"):
        import numpy

        first = numpy.asarray(first)
    sizes = tuple(first.shape)[1:]
    if len(sizes) == 2 and str(first.dtype).removeprefix("torch.") == "uint8":
        sizes = (1, *sizes)
    try:
        answer = model(input(*sizes)).shape
    except Error:
        return None  # the training says what is wrong
    found = answer[-1] if len(answer) == 3 else answer[1] if len(answer) > 1 else None
    return found if isinstance(found, int) else None
