"""Samples that come one by one, for the module's threads (python/fetched.h)."""

from __future__ import annotations

import inspect
import threading
import typing

import numpy

from ._accrue import Error

Sample = typing.Tuple[numpy.ndarray, ...]


def _array(value: typing.Any, what: str, hint: str = "") -> numpy.ndarray:
    """A part of a sample as an array in C order. An image of Pillow has its channels first."""
    if hasattr(value, "getbands") and hasattr(value, "convert"):
        pixels = numpy.asarray(value.convert("RGB") if value.mode in ("P", "CMYK", "YCbCr") else value)
        return numpy.ascontiguousarray(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels)
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
    array = numpy.asarray(value)
    if array.dtype.kind not in "fiub":
        raise Error(f"{what} is {type(value).__name__} {str(value)[:60]!r}: expected numbers, arrays or images{hint}")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return numpy.ascontiguousarray(array).reshape(array.shape)


def _described(array: numpy.ndarray) -> str:
    return f"{array.dtype} [{', '.join(map(str, array.shape))}]"


def _as_kind(first: numpy.ndarray) -> numpy.ndarray:
    """The first sample, of which only the kind counts, without labels that count nowhere."""
    if first.dtype.kind != "i":
        return first
    return numpy.where(first < 0 if first.ndim == 0 else first == -100, first.dtype.type(0), first)


class Transform:
    """A caller's function of a sample: of x; of x and y; or of a dictionary by names. It may take `rng`."""

    def __init__(self, function: typing.Any):
        if not callable(function):
            raise Error(f"transform is {function!r}: expected a function of a sample")
        self.function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        self.takes_rng = any(p.name == "rng" for p in parameters)
        places = [p for p in parameters if p.name != "rng" and p.default is p.empty
                  and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.takes_y = len(places) == 2

    def __call__(self, item: typing.Any, index: int, seed: int, epoch: int) -> typing.Any:
        options = {}
        if self.takes_rng:
            options["rng"] = None if epoch < 0 else numpy.random.default_rng([seed, epoch, index])
        if isinstance(item, dict):
            return self.function(item, **options)
        if self.takes_y:
            return tuple(self.function(*item, **options))
        return (self.function(item[0], **options), *item[1:])


class Source:
    """A caller's samples by their index, from `get`. At most `workers` threads call it at once."""

    def __init__(self, length: int, get: typing.Callable[[int], typing.Any], *, what: str = "data",
                 names: typing.Sequence[str] | None = None, transform: Transform | None = None,
                 workers: int = 1, takes_names: bool = True):
        self.takes_names = takes_names
        self.length, self.get, self.what, self.names = length, get, what, names
        self.transform = transform
        self._turn = threading.BoundedSemaphore(workers)
        self._kept: dict[int, tuple] = {}
        self._first: Sample | None = None
        if length == 0:
            raise Error(f"{what} has no samples: expected some")
        self._first = self.first = self.fetch(0, 0, -1)

    def parts(self) -> tuple[Part, ...]:
        return tuple(Part(self, place) for place in range(len(self.first)))

    def _item(self, index: int, epoch: int) -> typing.Any:
        del epoch
        return self.get(index)

    def _name(self, place: int) -> str:
        if self.names:
            return self.names[place]
        return ("x", "y")[place]

    def _split(self, item: typing.Any, index: int) -> Sample:
        where = f"sample {index} of {self.what}"
        if isinstance(item, dict):
            if not self.takes_names:
                raise Error(f"{where} has the names {', '.join(map(str, item))}: expected columns=(x, y), two of them, "
                            "or a Network whose inputs have their names")
            if self.names is None:
                self.names = list(item)
            lacking = [name for name in self.names if name not in item]
            if lacking:
                raise Error(f"{where} has no '{lacking[0]}': expected {', '.join(self.names)}, as sample 0 has")
            hint = "; columns= names the parts of samples that are read"
            return tuple(_array(item[name], f"{name} of {where}", hint) for name in self.names)
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            parts = f"{len(item)} parts" if isinstance(item, (tuple, list)) else type(item).__name__
            raise Error(f"{where} is {parts}: expected (x, y), or a dictionary by names")
        return tuple(_array(part, f"{name} of {where}") for name, part in zip(("x", "y"), item))

    def fetch(self, index: int, seed: int, epoch: int) -> Sample:
        try:
            with self._turn:
                item = self._item(index, epoch)
                if self.transform:
                    item = self.transform(item, index, seed, epoch)
            arrays = self._split(item, index)
        except Error:
            raise
        except Exception as error:
            raise Error(f"sample {index} of {self.what} cannot be fetched: "
                        f"{type(error).__name__}: {error}") from error
        for place, (array, first) in enumerate(zip(arrays, self._first or ())):
            if array.shape != first.shape or (array.dtype != first.dtype and not self._are_classes(array, first)):
                raise Error(f"{self._name(place)} of sample {index} of {self.what} is {_described(array)}, but "
                            f"{_described(first)} of sample 0: expected samples of one shape and type")
        return arrays

    @staticmethod
    def _are_classes(array: numpy.ndarray, first: numpy.ndarray) -> bool:
        return array.dtype.kind in "iu" and first.dtype.kind in "iu" and array.ndim == 0

    def part(self, place: int, index: int, seed: int, epoch: int) -> numpy.ndarray:
        """The part of a sample. A thread asks for all parts in turn, so one sample is kept for each thread."""
        key, thread = (index, seed, epoch), threading.get_ident()
        had, arrays = self._kept.get(thread, (None, ()))
        if had != key or place == 0:
            arrays = self.fetch(index, seed, epoch)
        if place + 1 < len(arrays):
            self._kept[thread] = key, arrays
        else:
            self._kept.pop(thread, None)
        return arrays[place]


class Stream(Source):
    """The samples of an iterable, in its order. A pass over it is an epoch, and so is a scoring."""

    def __init__(self, length: int, opened: typing.Callable[[], typing.Iterator], **options: typing.Any):
        self.opened = opened
        self._lock = threading.Lock()
        self._passes: dict[str, _Pass] = {}
        super().__init__(length, self._never, **options)

    @staticmethod
    def _never(index: int) -> typing.Any:
        raise AssertionError(index)

    def _item(self, index: int, epoch: int) -> typing.Any:
        kind = "train" if epoch >= 0 else "score" if self._first is not None else "first"
        with self._lock:
            now = self._passes.get(kind)
            if now is None or now.epoch != epoch or now.is_over(index, self.length):
                goes_on = kind == "train" and now is not None and now.taken == self.length
                now = _Pass(epoch, now.iterator if goes_on else self.opened(), self.opened if goes_on else None)
                self._passes[kind] = now
            item = now.item(index, self)
            if kind == "first":
                del self._passes[kind]
            return item


class _Pass:
    def __init__(self, epoch: int, iterator: typing.Iterator, again: typing.Callable | None):
        self.epoch, self.iterator, self.again = epoch, iterator, again
        self.taken = 0
        self.waiting: dict[int, typing.Any] = {}

    def is_over(self, index: int, length: int) -> bool:
        return index not in self.waiting and (index < self.taken or self.taken == length)

    def item(self, index: int, stream: Stream) -> typing.Any:
        while self.taken <= index:
            try:
                item = next(self.iterator)
            except StopIteration:
                if self.taken or self.again is None:
                    raise Error(f"{stream.what} ended after {self.taken} samples, but an epoch has {stream.length}: "
                                "expected as many in each pass, or another epoch_samples") from None
                self.iterator, self.again = self.again(), None  # the pass before ended exactly here
                continue
            self.waiting[self.taken] = item
            self.taken += 1
            if len(self.waiting) > 1024:  # samples before the one at which a training resumes
                del self.waiting[next(iter(self.waiting))]
        return self.waiting.pop(index)


class Part:
    """One part of a source's samples, in place of an array of them all."""

    _accrue_part = True
    file = None

    def __init__(self, source: Source, place: int):
        self.source, self.place = source, place
        self.length = source.length
        self.known_classes: int | None = None
        self.class_names: typing.Sequence[str] | None = None
        self.given: str | None = None  # what errors call the data
        self.counted: tuple[int, bool] | None = None
        self.first = _as_kind(source.first[place])[None]

    def __len__(self) -> int:
        return self.length

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length, *self.first.shape[1:])

    def fetch(self, index: int, seed: int, epoch: int) -> numpy.ndarray:
        return self.source.part(self.place, index, seed, epoch)

    def changed(self, change: typing.Callable[[numpy.ndarray], numpy.ndarray]) -> Changed:
        return Changed(self, change)

    def expect_classes(self, classes: int) -> None:
        if self.known_classes is None:
            self.known_classes = classes

    def _have_ignored(self) -> bool:
        """Whether some labels of at most 64 samples are -100, evenly spaced, or of a stream's first one."""
        if isinstance(self.source, Stream):
            return bool((self.source.first[self.place] == -100).any())
        count = min(self.length, 64)
        ignored = [self.source.fetch(i * self.length // count, 0, -1)[self.place] == -100 for i in range(count)]
        if all(each.all() for each in ignored) and all(
                (self.source.fetch(i, 0, -1)[self.place] == -100).all() for i in range(self.length)):
            raise Error(f"{self.source._name(self.place)} is -100 for each sample: expected some classes")
        return any(each.any() for each in ignored)

    def classes(self) -> tuple[int, bool]:
        """The number of classes, and whether some labels are -100. Fetches all samples if nobody knows."""
        if self.known_classes is not None:
            if self.counted is None:
                self.counted = 0, self._have_ignored()
            return self.known_classes, self.counted[1]
        if self.counted is None:
            most, has_ignored = -1, False
            for index in range(self.length):
                labels = self.source.fetch(index, 0, -1)[self.place]
                judged = labels[labels != -100]
                has_ignored |= judged.size < labels.size
                if judged.size and judged.min() < 0:
                    raise Error(f"{self.source._name(self.place)} of sample {index} is {judged.min()}: "
                                "expected classes from 0 on")
                most = max(most, int(judged.max(initial=-1)))
            if most < 0:
                raise Error(f"{self.source._name(self.place)} is -100 for each sample: expected some classes")
            self.counted = most + 1, has_ignored
        return self.counted


class Changed:
    """A part whose labels are changed, some of them to -100; `change` takes [N, ...]."""

    _accrue_part = True
    file = None

    def __init__(self, part: typing.Any, change: typing.Callable[[numpy.ndarray], numpy.ndarray]):
        self._part, self._change = part, change
        self.length, self.shape = part.length, part.shape
        self.first = _as_kind(change(part.first))

    def __len__(self) -> int:
        return self.length

    def fetch(self, index: int, seed: int, epoch: int) -> numpy.ndarray:
        return self._change(self._part.fetch(index, seed, epoch)[None])[0]

    def classes(self) -> tuple[int, bool]:
        return self._part.classes()[0], True


class Rows:
    """The rows of an array that is not in memory, in place of it. If NumPy has mapped a file, it is read itself."""

    _accrue_part = True

    def __init__(self, array: typing.Any, what: str, workers: int = 1):
        self.array, self.what = array, what
        self.length = len(array)
        if self.length == 0:
            raise Error(f"{what} has no samples: expected some")
        self._turn = threading.BoundedSemaphore(workers)
        self.first = _as_kind(self._row(0))[None]
        self.shape = tuple(array.shape)
        self.known_classes: int | None = None
        self.class_names: typing.Sequence[str] | None = None
        self.given: str | None = None  # what errors call the data
        self.counted: tuple[int, bool] | None = None
        self.file = _file_of(array)

    def __len__(self) -> int:
        return self.length

    def _row(self, index: int) -> numpy.ndarray:
        return _array(self.array[index], f"{self.what} of sample {index}")

    def fetch(self, index: int, seed: int, epoch: int) -> numpy.ndarray:
        del seed, epoch
        try:
            with self._turn:
                row = self._row(index)
        except Error:
            raise
        except Exception as error:
            raise Error(f"sample {index} of {self.what} cannot be fetched: "
                        f"{type(error).__name__}: {error}") from error
        if row.shape != self.first.shape[1:] or row.dtype != self.first.dtype:
            raise Error(f"sample {index} of {self.what} is {_described(row)}, but {_described(self.first[0])} of "
                        "sample 0: expected samples of one shape and type")
        return row

    changed = Part.changed
    expect_classes = Part.expect_classes

    def classes(self) -> tuple[int, bool]:
        if self.counted is None:
            most, has_ignored = -1, False
            for index in range(self.length):
                row = self._row(index)
                most = max(most, int(row.max()))
                has_ignored |= bool((row == -100).any())
            if most < 0:
                raise Error(f"{self.what} is -100 for each sample: expected some classes")
            self.counted = most + 1, has_ignored
        return self.known_classes or self.counted[0], self.counted[1]


def _file_of(array: typing.Any) -> tuple | None:
    """The array, the path of its file and the offset there, if its rows are stored as a training takes them."""
    if not isinstance(array, numpy.memmap) or array.ndim < 1 or getattr(array, "_mmap", None) is None:
        return None
    if array.dtype not in (numpy.float32, numpy.float64, numpy.uint8) or not array.dtype.isnative:
        return None
    if not array[0].flags["C_CONTIGUOUS"] or array.strides[0] < 0:
        return None
    import mmap

    path = array.filename if array.mode != "c" else None  # a copy on write differs from its file
    begin = numpy.frombuffer(array._mmap, numpy.uint8).__array_interface__["data"][0]
    place = array.__array_interface__["data"][0] - begin
    return array, str(path or ""), place + array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
