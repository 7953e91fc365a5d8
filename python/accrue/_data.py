"""Data as callers have them, as the module takes them: arrays, and parts that are fetched (docs/python.md, "Data")."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import typing

from . import _accrue
from ._accrue import Error
from ._class_weight import names_of

if typing.TYPE_CHECKING:
    from ._fetched import Source, Transform

# More data, in arguments by these names.
_OTHERS = ("test", "validation")
# The arguments that this file takes away; the rest are the program's.
_OWN = ("columns", "transform", "workers", "epoch_samples", "tokenizer")
# A larger memmap is read from its file row by row; a smaller one is an array like others.
_MAPPED_BYTES = 64 << 20


class _Asked:
    """The arguments about data that a caller gives."""

    def __init__(self, model: typing.Any, options: dict):
        self.model = model
        self.columns = options.pop("columns", None)
        given = options.pop("transform", None)
        self.workers = _count(options.pop("workers", None), "workers")
        self.epoch_samples = _count(options.pop("epoch_samples", None), "epoch_samples")
        self.options = options
        self.transform: Transform | None = None
        if given is not None:
            from ._fetched import Transform

            self.transform = Transform(given)
        names = options.get("classes")
        self.classes = None if names is None else len(names_of(names))
        self.heeded: set[str] = set()

    def for_scores(self) -> _Asked:
        """The same arguments for data that are only scored. Their batches and order are not the training's."""
        other = copy.copy(self)
        other.options = {}
        return other

    def heed(self, name: str) -> typing.Any:
        self.heeded.add(name)
        return getattr(self, name)

    def has_names(self) -> bool:
        """True if the network takes arrays by their names."""
        from ._modules import _is_origin

        return isinstance(self.model, _accrue.Network) or _is_origin(self.model)

    def check_heeded(self, kind: str) -> None:
        for name, expected in (("columns", "samples by names"), ("transform", "samples"),
                               ("workers", "samples that are fetched"), ("epoch_samples", "a stream")):
            if getattr(self, name) is not None and name not in self.heeded:
                raise Error(f"{name} is for {expected}, but data is {kind}: expected no {name}")


def _count(value: typing.Any, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise Error(f"{name} is {value!r}: expected a number from 1 on")
    return int(value)


def prepared(model: typing.Any, data: typing.Any, options: dict, must_act: bool = True) -> tuple[typing.Any, dict]:
    """Data and options as the module takes them. Each argument of this file must act, if `must_act`."""
    if all(options.get(name) is None for name in (*_OWN, *_OTHERS)) and _is_plain(data):
        return data, {name: value for name, value in options.items() if name not in _OWN}
    options = dict(options)
    others = {name: options.pop(name) for name in _OTHERS if options.get(name) is not None}
    from . import _texts

    asked = _Asked(model, options)
    if not asked.has_names():
        data = _texts.records_of(data, options, asked)
        others = {name: _texts.records_of(each, {}, asked) for name, each in others.items()}
        is_of_texts = options.get("tokenizer") is not None
        data = _texts.listed(data, asked, is_of_texts)
        others = {name: _texts.listed(each, asked, is_of_texts) for name, each in others.items()}
    if not asked.has_names() and _texts.are_tokens(data):
        data, more = _texts.tokens(data, options)
        for name, each in others.items():
            options[name] = _texts.tokens(each, options)[0] if _texts.are_tokens(each) else each
        asked.check_heeded("tokens")
        return data, {**options, **more}
    if options.get("tokenizer") is not None or not asked.has_names() and _texts.are_texts(data):
        asked.check_heeded("texts")
        data, options = _texts.texts(data, options)
        for name, each in others.items():
            options[name] = _texts.written(each, name)
        return data, options
    options.pop("tokenizer", None)
    if asked.transform is not None and isinstance(data, (str, os.PathLike)):
        data, others["test"] = _folder(data, others.get("test"), options)
    data = _set(data, asked, "data")
    for name, each in others.items():
        if each is not None:
            options[name] = _set(each, asked.for_scores(), name)
    if not must_act:
        return data, options
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, tuple) else ()
    is_fetched = any(hasattr(part, "_accrue_part") for part in parts)
    asked.check_heeded("a name" if _is_name(data) else "samples by their index" if is_fetched else "arrays in memory")
    return data, options


def _is_name(data: typing.Any) -> bool:
    """True for a name or a path, and for no data."""
    return data is None or isinstance(data, (str, os.PathLike))


def _is_plain(data: typing.Any) -> bool:
    """True for names, and for arrays in memory."""
    if _is_name(data):
        return True
    numpy = sys.modules.get("numpy")
    if isinstance(data, dict):
        return all(_is_plain_array(array) for array in data.values())
    if isinstance(data, (tuple, list)):
        return not _are_samples(data) and all(_is_plain_array(array) for array in data)
    return numpy is not None and isinstance(data, numpy.ndarray)


def _is_plain_array(array: typing.Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(array) is numpy.ndarray or isinstance(array, (int, float, bool))


def _is_array(data: typing.Any) -> bool:
    """True for what as_array() takes without loading anything."""
    import numpy

    if isinstance(data, numpy.ndarray) or hasattr(data, "__dlpack__") or hasattr(data, "__array_interface__"):
        return True
    try:
        memoryview(data)
    except TypeError:
        return False
    return True


def _is_of(data: typing.Any, module: str, name: str) -> bool:
    """True for an instance of a class of a package, which nobody needs to have imported."""
    return any(t.__module__.split(".")[0] == module and t.__name__ == name for t in type(data).__mro__)


def _is_of_pandas(data: typing.Any) -> bool:
    return _is_of(data, "pandas", "DataFrame") or _is_of(data, "pandas", "Series")


def _are_samples(data: typing.Any) -> bool:
    """True for pairs (x, y), or a list of dictionaries; a list of two arrays is (x, y)."""
    if not isinstance(data, (list, tuple)) or not data:
        return False
    first = data[0]
    if isinstance(first, dict):
        return isinstance(data, list)
    if isinstance(data, list) and all(isinstance(item, tuple) and len(item) == 2 for item in data):
        return not (isinstance(first[0], int) and isinstance(first[1], int))
    if not all(isinstance(item, (list, tuple)) and len(item) == 2 and hasattr(item[0], "__len__")
               and not isinstance(item[0], str) for item in data):
        return False
    return len(data) > 3 or all(isinstance(item[1], (int, float)) or getattr(item[1], "shape", None) == ()
                                for item in data)


def _is_indexable(data: typing.Any) -> bool:
    return hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _set(data: typing.Any, asked: _Asked, what: str) -> typing.Any:
    """One data set: arrays, or parts of a source in place of arrays. Errors call it by its type or its function."""
    found = _found(data, asked, what)
    if found is not data and not isinstance(data, (tuple, dict)):
        name = getattr(data, "__name__", None) or type(data).__name__
        for part in found.values() if isinstance(found, dict) else found if isinstance(found, (tuple, list)) else ():
            if hasattr(part, "_accrue_part"):
                part.given = name
    return found


def _found(data: typing.Any, asked: _Asked, what: str) -> typing.Any:
    if _is_name(data):
        return data
    if _is_of(data, "datasets", "DatasetDict") or _is_of(data, "h5py", "Group"):
        names = list(data)
        parts = f"data['{names[0]}']" if isinstance(data, dict) and names else "(data['x'], data['y'])"
        raise Error(f"{what} is a {type(data).__name__} of {', '.join(map(str, names))}: expected a part of it, such as {parts}")
    if isinstance(data, dict):
        return _arrays_by_name(data, asked)
    if isinstance(data, (tuple, list)) and not _are_samples(data):
        return _arrays(data, asked, what)
    if _is_of(data, "torch", "DataLoader"):
        from ._loaders import samples_of

        data = samples_of(data, asked.options, asked.workers)
    if _is_of(data, "pandas", "DataFrame"):
        return _columns_of_frame(data, asked, what)
    if _is_array(data):
        return data
    if _is_of(data, "datasets", "Dataset"):
        return _columns_of_hub(data, asked, what)
    if _is_indexable(data) and not _is_of(data, "torch", "IterableDataset"):
        return _parts(_mapped(data, asked, what), asked, data)
    if callable(data) or hasattr(data, "__iter__"):
        return _parts(_stream(data, asked, what), asked, data)
    raise Error(f"{what} is {type(data).__name__}: expected a name, (x, y), samples by their index, or a stream")


def _folder(path: typing.Any, test: typing.Any, options: dict) -> tuple:
    from ._folders import folders_of

    data, held_out = folders_of(path)
    if options.get("classes") is None:
        options["classes"] = data.classes
    if test is not None and held_out is not None:
        raise Error(f"test is given, but '{held_out.path}' has the test: expected one of both")
    if isinstance(test, (str, os.PathLike)):
        test, _ = folders_of(test)
    return data, held_out if test is None else test


# Arrays


def _arrays(data: typing.Any, asked: _Asked, what: str) -> typing.Any:
    if asked.transform is not None and len(data) == 2:
        return _transformed(data, asked, what)
    names = ("x", "y") if len(data) == 2 else ("sources", "targets", "styles")
    return tuple(_column(array, names[min(i, len(names) - 1)], asked) for i, array in enumerate(data)) \
        if any(_is_elsewhere(array) for array in data) else data


def _arrays_by_name(data: dict, asked: _Asked) -> dict:
    if asked.transform is not None:
        names, columns = list(data), [_indexed(array) for array in data.values()]
        source = _source(len(columns[0]), lambda i: dict(zip(names, (c[i] for c in columns))), asked, "data", names)
        return dict(zip(names, source.parts()))
    return {name: _column(array, str(name), asked) for name, array in data.items()}


def _is_elsewhere(array: typing.Any) -> bool:
    """True for arrays of pandas, of memmaps, and for those that have their elements elsewhere."""
    import numpy

    if _is_of_pandas(array):
        return True
    if hasattr(array, "toarray") and hasattr(array, "nnz"):
        raise Error(f"an array is sparse, a {type(array).__name__}: expected array.toarray(), or samples by their index that "
                    "are not sparse")
    if isinstance(array, numpy.memmap):
        return array.nbytes > _MAPPED_BYTES and (array.ndim >= 3 or array.dtype.kind not in "iu")
    return (_is_indexable(array) and hasattr(array, "shape") and hasattr(array, "dtype") and not _is_array(array)
            and len(array.shape) > 0)


def _column(array: typing.Any, name: str, asked: _Asked) -> typing.Any:
    if not _is_elsewhere(array):
        return array
    if _is_of_pandas(array):
        return _numbers_of_frame(array, name)
    from ._fetched import Rows

    if len(array.shape) == 1:  # a number for each sample; all of them at once are fewer reads
        return _array_of(array)
    return _known(Rows(array, name, asked.heed("workers") or 1), asked)


def _array_of(array: typing.Any) -> typing.Any:
    import numpy

    return numpy.asarray(array[:])


def _indexed(array: typing.Any) -> typing.Any:
    """An array whose samples have indices."""
    import numpy

    if _is_of_pandas(array):
        return _numbers_of_frame(array, "data")
    return array if _is_indexable(array) and hasattr(array, "shape") else numpy.asarray(array)


def _transformed(data: typing.Any, asked: _Asked, what: str) -> typing.Any:
    x, y = (_indexed(array) for array in data)
    if len(x) != len(y):
        raise Error(f"x of {what} has {len(x)} samples, but y has {len(y)}: expected the same number")
    return _parts(_source(len(x), lambda i: (x[i], y[i]), asked, what), asked, None)


# Samples by their index


def _source(length: int, get: typing.Callable, asked: _Asked, what: str, names: typing.Any = None) -> Source:
    from ._fetched import Source as Fetched

    return Fetched(length, get, what=what, names=names, transform=asked.heed("transform"),
                   workers=asked.heed("workers") or 1, takes_names=asked.has_names())


def _mapped(data: typing.Any, asked: _Asked, what: str) -> Source:
    length = len(data)

    def get(index: int) -> typing.Any:
        if len(data) != length:
            raise Error(f"{what} has {len(data)} samples, but had {length} before: expected a number that stays")
        return data[index]

    choose = _choice(asked)
    return _source(length, lambda index: choose(get(index), index), asked, what, _names(asked))


def _names(asked: _Asked) -> list | None:
    columns = asked.columns
    return list(columns) if isinstance(columns, dict) else None


def _choice(asked: _Asked) -> typing.Callable:
    """Chooses the `columns` of a sample: a pair of names, or names of the network by names of the samples."""
    columns = asked.heed("columns")
    if columns is None:
        return lambda item, index: item
    if isinstance(columns, dict):
        return lambda item, index: _by_name(item, columns, index)
    if isinstance(columns, str) or len(columns) != 2:
        raise Error(f"columns is {columns!r}: expected (x, y), two names, or {{'INPUT': 'COLUMN', ...}}")
    names = dict(zip(("x", "y"), columns))
    return lambda item, index: tuple(_by_name(item, names, index).values())


def _by_name(item: typing.Any, columns: dict, index: int) -> dict:
    if not isinstance(item, dict):
        raise Error(f"sample {index} is {type(item).__name__}, which has no names: expected no columns")
    for column in columns.values():
        if column not in item:
            raise Error(f"sample {index} has no '{column}': expected columns among {', '.join(map(str, item))}")
    return {name: item[column] for name, column in columns.items()}


def _parts(source: Source, asked: _Asked, data: typing.Any) -> typing.Any:
    parts = source.parts()
    if source.names is None:
        own = getattr(data, "classes", None)  # as torchvision's data sets have them
        own = own if isinstance(own, (list, tuple)) else None
        parts[1].known_classes = len(own) if asked.classes is None and own is not None else asked.classes
        parts[1].class_names = own
        return parts
    return dict(zip(source.names, parts))


def _known(rows: typing.Any, asked: _Asked) -> typing.Any:
    rows.known_classes = asked.classes
    return rows


# Streams


def _stream(data: typing.Any, asked: _Asked, what: str) -> Source:
    from ._fetched import Stream

    if isinstance(data, type) or callable(data) and not hasattr(data, "__iter__") and not _takes_nothing(data):
        raise Error(f"{what} is {data!r}: expected a function without arguments that gives samples (x, y)")
    if inspect.isgenerator(data) or hasattr(data, "__next__"):
        raise Error(f"{what} is an iterator, which gives its samples once, but a training passes over them more than "
                    "once: expected the function that makes it, or an iterable")
    length = asked.heed("epoch_samples")
    if length is None and hasattr(data, "__len__"):
        length = len(data)
    if length is None:
        raise Error(f"{what} is a stream, and nobody knows how long an epoch of it is: expected epoch_samples=N")
    if asked.options.get("no_shuffle") is False:
        raise Error(f"{what} is a stream, which has an order of its own: expected no no_shuffle=False")
    asked.options["no_shuffle"] = True

    choose = _choice(asked)

    def opened() -> typing.Iterator:
        items = data() if not hasattr(data, "__iter__") else data
        return (choose(item, index) for index, item in enumerate(items))

    return Stream(length, opened, what=what, names=_names(asked), transform=asked.heed("transform"),
                  takes_names=asked.has_names())


def _takes_nothing(function: typing.Any) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


# Columns of pandas and of Hugging Face


def _numbers_of_frame(frame: typing.Any, name: str) -> typing.Any:
    import numpy

    types = frame.dtypes
    kinds = {str(c): t for c, t in types.items()} if hasattr(types, "items") else {name: types}
    wrong = [f"{c} ({t})" for c, t in kinds.items()
             if not str(t).lower().startswith(("int", "uint", "float", "double", "bool"))]
    if wrong:
        hint = "column.cat.codes numbers categories" if any("category" in each for each in wrong) else \
            "pandas.factorize(column)[0] numbers names"
        raise Error(f"{name} has the columns {', '.join(wrong)}: expected numbers; {hint}")
    own = [getattr(t, "numpy_dtype", t) for t in kinds.values()]  # of those that may have missing elements, too
    if any(hasattr(t, "numpy_dtype") and not isinstance(t, numpy.dtype) for t in kinds.values()):
        lacking = [column for column, is_lacking in frame.isna().any().items() if is_lacking] if frame.ndim == 2 else \
            [name] if frame.isna().any() else []
        if lacking:
            raise Error(f"{name} has missing elements in {', '.join(map(str, lacking))}: expected numbers, such as "
                        "column.fillna(0), or the rows that have all")
    array = frame.to_numpy(dtype=numpy.result_type(*own)) if own else frame.to_numpy()
    if array.dtype.kind in "iub" and array.ndim == 2 and not (name == "y" and array.shape[1] == 1):
        array = array.astype(numpy.float64)  # a row of numbers, as a network sees them
    return numpy.ascontiguousarray(array)


def _columns_of_frame(frame: typing.Any, asked: _Asked, what: str) -> typing.Any:
    columns = asked.heed("columns")
    if columns is None:
        raise Error(f"{what} is a DataFrame: expected columns=(x, y), such as columns=(list(df.columns[:-1]), "
                    f"'{frame.columns[-1]}'), or data=(df[[...]], df[...])")
    if isinstance(columns, dict):
        return _arrays_by_name({name: frame[column] for name, column in columns.items()}, asked)
    x, y = columns
    return _arrays((frame[[x] if isinstance(x, str) else list(x)], frame[y]), asked, what)


def _columns_of_hub(data: typing.Any, asked: _Asked, what: str) -> typing.Any:
    """A datasets.Dataset, of which only the columns that count are read."""
    columns = asked.columns
    wanted = list(columns.values() if isinstance(columns, dict) else columns or data.column_names)
    lacking = [name for name in wanted if name not in data.column_names]
    if lacking:
        raise Error(f"{what} has no column '{lacking[0]}': expected columns among {', '.join(data.column_names)}")
    chosen = data.select_columns(wanted)
    features = chosen.features
    if data.format["type"] is None and not any(type(f).__name__ == "Image" for f in features.values()):
        chosen = chosen.with_format("numpy")
    found = _parts(_mapped(chosen, asked, what), asked, None)
    names = wanted if not isinstance(found, dict) else [columns[n] if isinstance(columns, dict) else n for n in found]
    for name, part in zip(names, found.values() if isinstance(found, dict) else found):
        known = getattr(features[name], "num_classes", None)
        part.class_names = getattr(features[name], "names", None)
        if known is not None and part.known_classes is None:
            part.known_classes = known
    return found
