"""Samples to answer to that are fetched, some of them at a time (docs/python.md, "Samples that are fetched")."""

from __future__ import annotations

import os
import sys
import typing

from . import _data
from ._accrue import Error

# As many as wait in a training.
_SAMPLES = 1024
_BYTES = 64 << 20


class Chunks:
    """Samples in place of an array x of them all: the module asks for some, and gives their answers."""

    _accrue_chunks = True

    def __init__(self, items: typing.Iterator, length: int | None, what: str = "x", are_texts: bool = False):
        self._items, self._length, self._what, self._are_texts = items, length, what, are_texts
        self._changes: list[typing.Callable] = []
        self._taken = self._answered = 0
        self._bytes = 1
        self._share = 1  # of the samples that may wait
        self._first_sample: typing.Any = None
        self._answers: list = []
        sample = next(self._items, None)
        if sample is None:
            raise Error(f"{what} has no samples: expected some")
        self._waiting = [self._checked(sample)]

    @property
    def first(self) -> typing.Any:
        """The first sample, as an array of one or a dictionary of such."""
        return self._stacked(self._waiting[:1])

    def through(self, change: typing.Callable) -> Chunks:
        """The same samples, changed before the module gets some."""
        self._changes.append(change)
        return self

    def _checked(self, sample: typing.Any) -> typing.Any:
        from ._fetched import _array, _described

        where = f"sample {self._taken} of {self._what}"
        self._taken += 1
        if self._are_texts and isinstance(sample, str):
            self._bytes = max(self._bytes, len(sample))
            return sample
        arrays = sample if isinstance(sample, dict) else {"": sample}
        arrays = {name: _array(value, f"{name} of {where}" if name else where) for name, value in arrays.items()}
        first = self._first_sample
        if first is None:
            self._first_sample = first = {name: array for name, array in arrays.items()}
        if not self._are_texts:
            self._check_alike(arrays, first, where, _described)
        self._bytes = max(self._bytes, sum(array.nbytes for array in arrays.values()))
        return arrays if isinstance(sample, dict) else arrays[""]

    @staticmethod
    def _check_alike(arrays: dict, first: dict, where: str, described: typing.Callable) -> None:
        if arrays.keys() != first.keys():
            raise Error(f"{where} has {', '.join(map(str, arrays)) or 'no names'}, but sample 0 "
                        f"{', '.join(map(str, first)) or 'no names'}: expected the same in each")
        for name, array in arrays.items():
            if array.shape != first[name].shape or array.dtype != first[name].dtype:
                raise Error(f"{f'{name} of ' if name else ''}{where} is {described(array)}, but "
                            f"{described(first[name])} of sample 0: expected samples of one shape and type")

    def room(self) -> int:
        """How many samples may wait, by the largest one."""
        return max(min(_SAMPLES, _BYTES // self._bytes) // self._share, 1)

    def share(self) -> None:
        """Leaves half of the room for samples that are fetched meanwhile."""
        self._share = 2

    def _stacked(self, samples: list) -> typing.Any:
        import numpy

        if self._are_texts:
            return samples
        if isinstance(samples[0], dict):
            return {name: numpy.stack([sample[name] for sample in samples]) for name in samples[0]}
        return numpy.stack(samples)

    def next(self, micro_batch: int) -> typing.Any:
        """The next samples, whole micro-batches but at the end; None if there are none."""
        micro_batch = max(micro_batch, 1)
        many = max(self.room() // micro_batch, 1) * micro_batch
        samples, self._waiting = self._waiting, []
        while len(samples) < many:
            sample = next(self._items, None)
            if sample is None:
                break
            samples.append(self._checked(sample))
        if not samples:
            return None
        chunk = self._stacked(samples)
        for change in self._changes:
            chunk = change(chunk)
        return chunk

    def take(self, answers: typing.Any) -> None:
        """Keeps the answers to the samples that next() gave."""
        import numpy

        given = answers if isinstance(answers, dict) else {"": answers}
        self._is_named = isinstance(answers, dict)
        count = len(next(iter(given.values())))
        if self._length is None:
            self._answers.append(given)
            return
        if not self._answers:
            self._answers = [{name: numpy.empty((self._length, *y.shape[1:]), y.dtype) for name, y in given.items()}]
        for name, y in given.items():
            self._answers[0][name][self._answered:self._answered + count] = y
        self._answered += count

    def answers(self) -> typing.Any:
        """All answers, in the order of the samples."""
        import numpy

        found = self._answers[0] if self._length is not None else {
            name: numpy.concatenate([part[name] for part in self._answers]) for name in self._answers[0]}
        self._answers = []
        return found if self._is_named else found[""]


class _Asked:
    """A caller's arguments about samples to answer to."""

    def __init__(self, columns: typing.Any = None, transform: typing.Any = None, names: typing.Sequence[str] | None = None,
                 takes_names: bool = False, are_texts: bool = False, what: str = "x", workers: typing.Any = None,
                 must_act: bool = True):
        self.must_act = must_act  # otherwise arguments may be without effect
        self.columns, self.names, self.takes_names = columns, names, takes_names
        self.workers = _data._count(workers, "workers")
        self.are_texts, self.what = are_texts, what
        self.transform = None
        if transform is not None:
            from ._fetched import Transform

            self.transform = Transform(transform)

    def wanted(self) -> list | None:
        """The columns of samples that count."""
        columns = self.columns
        if columns is None:
            return None
        if isinstance(columns, str):
            return [columns]
        if isinstance(columns, dict):
            names = [name for name in columns if self.names is None or name in self.names]
            return [columns[name] for name in names]
        columns = list(columns)
        if len(columns) not in (1, 2) or not isinstance(columns[0], str):
            raise Error(f"columns is {self.columns!r}: expected the name of x, (x, y), or {{'INPUT': 'COLUMN', ...}}")
        return columns if self.transform is not None and self.transform.takes_y else columns[:1]

    def sample(self, item: typing.Any, index: int) -> typing.Any:
        """x of a sample (x, y), or its arrays by the names of the network's inputs."""
        where = f"sample {index} of {self.what}"
        wanted = self.wanted()
        if wanted is not None:
            item = _data._by_name(dict(item) if _is_record(item) else item, dict(zip(wanted, wanted)), index)
            if isinstance(self.columns, dict):
                item = {name: item[column] for name, column in self.columns.items() if column in item}
            else:
                item = tuple(item.values())
        if _is_record(item):
            item = dict(item)
        elif isinstance(item, tuple) or isinstance(item, list) and len(item) == 2 and not isinstance(
                item[0], (int, float, str)):
            if len(item) not in (1, 2):
                raise Error(f"{where} is {len(item)} parts: expected x, (x, y), or a dictionary by names")
            item = tuple(item)
        else:
            item = (item,)
        if self.transform is not None:
            if self.transform.takes_y and len(item) == 1:
                raise Error(f"{where} is x alone, but transform is a function of x and y: expected (x, y), or a "
                            "transform of x")
            item = self.transform(item, index, 0, -1)
        return self._by_name(item, where) if isinstance(item, dict) else item[0]

    def _by_name(self, item: dict, where: str) -> typing.Any:
        if self.are_texts:
            return _text_of(item, where)
        if not self.takes_names:
            raise Error(f"{where} has the names {', '.join(map(str, item))}: expected columns='x', the name of what the "
                        "network sees")
        return item if self.names is None else {name: each for name, each in item.items() if name in self.names}


def _is_record(item: typing.Any) -> bool:
    import collections.abc

    return isinstance(item, collections.abc.Mapping)


def _text_of(item: dict, where: str) -> typing.Any:
    import numpy

    if "input_ids" in item:
        ids = numpy.asarray(item["input_ids"])
        return ids if item.get("attention_mask") is None else ids[numpy.asarray(item["attention_mask"]).astype(bool)]
    if "text" in item or len(item) == 1:
        return item.get("text", next(iter(item.values())))
    raise Error(f"{where} has the names {', '.join(map(str, item))}: expected columns='text', the name of one")


def _fetched(samples: typing.Any, asked: _Asked) -> Chunks:
    length = len(samples)

    def get(index: int) -> typing.Any:
        try:
            return asked.sample(samples[index], index)
        except Error:
            raise
        except Exception as error:
            raise Error(f"sample {index} of {asked.what} cannot be fetched: "
                        f"{type(error).__name__}: {error}") from error

    if asked.workers is None:
        return Chunks(map(get, range(length)), length, asked.what, asked.are_texts)
    found: list[Chunks] = []
    items = _ahead(get, length, asked.workers, lambda: found[0].room() if found else 1)
    found.append(Chunks(items, length, asked.what, asked.are_texts))
    found[0].share()
    return found[0]


def _ahead(get: typing.Callable[[int], typing.Any], length: int, workers: int, room: typing.Callable[[], int]
           ) -> typing.Iterator:
    """get(index) of all indices in their order, by so many threads, which are at most room() samples ahead."""
    import collections
    import concurrent.futures

    threads = concurrent.futures.ThreadPoolExecutor(workers, "accrue-fetch")
    waiting: collections.deque = collections.deque()
    asked = 0
    try:
        for index in range(length):
            while asked < length and asked <= index + room():
                waiting.append(threads.submit(get, asked))
                asked += 1
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _streamed(data: typing.Any, asked: _Asked) -> Chunks:
    if asked.workers is not None and asked.must_act:
        raise Error(f"workers is for samples by their index, but {asked.what} is a stream, which one thread asks: expected no "
                    "workers")
    if not hasattr(data, "__iter__") and not _data._takes_nothing(data):
        raise Error(f"{asked.what} is {data!r}: expected a function without arguments that gives samples")

    def items() -> typing.Iterator:
        index = 0
        try:
            for index, item in enumerate(data if hasattr(data, "__iter__") else data()):
                yield asked.sample(item, index)
        except Error:
            raise
        except Exception as error:
            raise Error(f"{asked.what} ended at sample {index} or after it: {type(error).__name__}: {error}") from error

    return Chunks(items(), None, asked.what, asked.are_texts)


def _of_loader(loader: typing.Any, asked: _Asked) -> typing.Any:
    from ._loaders import samples_of

    options: dict = {}
    what = asked.what
    samples = samples_of(loader, options, 1 if asked.workers is None else asked.workers)
    if options.get("no_shuffle") is False:
        raise Error(f"{what} is a DataLoader with shuffle=True, but answers come in the order of its dataset: expected "
                    "shuffle=False, or the dataset")
    return samples


def _is_plain(x: typing.Any, are_texts: bool) -> bool:
    """True for names, and for arrays and lists of them in memory."""
    if x is None or isinstance(x, (str, bytes, os.PathLike)) or hasattr(x, "_accrue_part"):
        return True
    if isinstance(x, dict):
        return not any(_data._is_elsewhere(array) for array in x.values())
    if isinstance(x, tuple):
        return not any(_data._is_elsewhere(array) for array in x)
    if isinstance(x, list):
        first = x[0] if x else None
        return not (isinstance(first, (tuple, dict)) or hasattr(first, "getbands"))
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(x) is numpy.ndarray:
        return not are_texts or x.dtype.kind in "fiub"
    return _data._is_array(x) and not _data._is_elsewhere(x)


def of(x: typing.Any, asked: typing.Callable[[], _Asked], are_texts: bool = False) -> typing.Any:
    """x as the module takes it: as it is, if it lies in memory; else Chunks, or rows of a mapped file."""
    if _is_plain(x, are_texts):
        return x
    import numpy

    known = asked()
    if isinstance(x, (dict, tuple)):
        return _rows_of_several(x, known)
    if isinstance(x, numpy.memmap) and not are_texts:
        from ._fetched import Rows

        return Rows(x, known.what) if x.dtype.kind == "f" or x.dtype == numpy.uint8 else x
    if _data._is_of(x, "torch", "DataLoader"):
        x = _of_loader(x, known)
    if _data._is_of_pandas(x):
        return _of_frame(x, known)
    if isinstance(x, numpy.ndarray):
        return list(map(str, x))
    if _data._is_of(x, "datasets", "Dataset"):
        return _of_hub(x, known)
    if _data._is_indexable(x) and not isinstance(x, type) and not _data._is_of(x, "torch", "IterableDataset"):
        return _fetched(x, known)
    if isinstance(x, type) or not (callable(x) or hasattr(x, "__iter__")):
        return x  # an error of the module's own
    return _streamed(x, known)


def _rows_of_several(x: typing.Any, asked: _Asked) -> typing.Any:
    """Rows of arrays by names, or of (x, y), of which some are elsewhere."""
    if isinstance(x, tuple):
        return _of_frame(x[0], asked) if _data._is_of_pandas(x[0]) else _fetched(x[0], asked)
    arrays = {name: _data._indexed(array) for name, array in x.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise Error(f"x has {', '.join(f'{n} of {name}' for name, n in lengths.items())}: expected as many of each")

    class Together:
        def __len__(self) -> int:
            return next(iter(lengths.values()))

        def __getitem__(self, index: int) -> dict:
            return {name: array[index] for name, array in arrays.items()}

    return _fetched(Together(), asked)


def _of_frame(frame: typing.Any, asked: _Asked) -> typing.Any:
    columns = asked.columns
    if isinstance(columns, dict):
        return {name: _data._numbers_of_frame(frame[column], column) for name, column in columns.items()
                if asked.names is None or name in asked.names}
    if columns is not None:  # (x, y) as in training, or x alone: a name, or names
        names = columns[0] if isinstance(columns, tuple) and len(columns) == 2 else columns
        frame = frame[[names] if isinstance(names, str) and not asked.are_texts else names]
    if asked.are_texts:
        if hasattr(frame, "columns"):
            raise Error(f"{asked.what} is a DataFrame: expected columns='{frame.columns[0]}', the name of its texts")
        return [str(text) for text in frame]
    return _data._numbers_of_frame(frame, asked.what)


def _of_hub(data: typing.Any, asked: _Asked) -> Chunks:
    wanted = asked.wanted()
    if wanted is None and asked.takes_names and asked.names is not None:
        wanted = [name for name in asked.names if name in data.column_names] or None
    if wanted is not None:
        lacking = [name for name in wanted if name not in data.column_names]
        if lacking:
            raise Error(f"{asked.what} has no column '{lacking[0]}': expected columns among "
                        f"{', '.join(data.column_names)}")
        data = data.select_columns(wanted)
    if not asked.are_texts and data.format["type"] is None and not any(
            type(feature).__name__ == "Image" for feature in data.features.values()):
        data = data.with_format("numpy")
    return _fetched(data, asked)
