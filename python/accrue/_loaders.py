"""A torch.utils.data.DataLoader, as the samples that it is made of."""

from __future__ import annotations

import collections.abc
import typing

from ._accrue import Error

# Collators of transformers: they pad samples to one length, and turn them to tensors.
_PADDING = ("DataCollatorWithPadding", "DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq", "DefaultDataCollator",
            "default_data_collator")


def samples_of(loader: typing.Any, options: dict, workers: int | None, collates: bool = True) -> typing.Any:
    """The loader's samples. Its batch size and order become options; what else it says is refused by name.

    Without `collates` they are as its data set has them, where its collate_fn pads texts and nothing more.
    """
    from torch.utils import data

    is_stream = isinstance(loader.dataset, data.IterableDataset)
    batches = loader if loader.batch_size is not None else loader.batch_sampler
    if batches is None and not is_stream:
        raise Error("the DataLoader has batch_size=None: expected the batch_size, or its dataset and effective_batch")
    if not is_stream and type(loader.batch_sampler) is not data.BatchSampler:
        raise Error(f"the DataLoader has the batch_sampler {type(loader.batch_sampler).__name__}: expected batch_size")
    for name, usual in (("worker_init_fn", None), ("timeout", 0), ("generator", None)):
        if getattr(loader, name, usual) != usual:
            hint = "seed=, which decides the order" if name == "generator" else "none"
            raise Error(f"the DataLoader has {name}={getattr(loader, name)!r}: expected {hint}")
    if loader.num_workers and workers is None:
        raise Error(f"the DataLoader has num_workers={loader.num_workers}, processes, but accrue fetches on threads: "
                    f"expected workers={loader.num_workers}, if several threads may use the dataset at once, or workers=1")
    samples = loader.dataset if is_stream else _ordered(loader.dataset, loader.batch_sampler.sampler, options, data)
    if batches is not None:
        _give_size(batches, samples, options, is_stream)
    if loader.collate_fn is data.default_collate or batches is None and not is_stream:
        return samples
    if is_stream:
        if loader.batch_size is None:
            return samples
        raise Error("the DataLoader of a stream has a collate_fn, which makes batches: expected a stream of samples as the "
                    "network takes them, without collate_fn")
    if not collates and _kind(loader.collate_fn) in _PADDING:
        return _records(samples, loader.collate_fn)
    return _Collated(samples, loader.collate_fn)


def _give_size(batches: typing.Any, samples: typing.Any, options: dict, is_stream: bool) -> None:
    size = batches.batch_size
    if options.get("effective_batch") not in (None, size):
        raise Error(f"the DataLoader has batch_size={size}, but effective_batch is {options['effective_batch']}: "
                    "expected one of both")
    options["effective_batch"] = size
    if batches.drop_last and not is_stream and len(samples) % size:
        raise Error(f"the DataLoader has drop_last=True, but an epoch of {len(samples)} samples ends with a "
                    f"window of {len(samples) % size}: expected drop_last=False, or a Subset")


def _ordered(dataset: typing.Any, sampler: typing.Any, options: dict, data: typing.Any) -> typing.Any:
    """The samples that a sampler draws; whether they are shuffled becomes an option."""
    kind = type(sampler)
    is_shuffled = kind in (data.RandomSampler, data.SubsetRandomSampler)
    if not is_shuffled and kind not in (data.SequentialSampler, list, tuple, range):
        hint = "; sample_weight= and class_weights= say how much samples count" if "Weighted" in kind.__name__ else \
            "; accrue's ranks share a data set by themselves" if "Distributed" in kind.__name__ else ""
        raise Error(f"the DataLoader has the sampler {kind.__name__}: expected shuffle=True or False, a SubsetRandomSampler, "
                    f"or a list of indices{hint}")
    if is_shuffled and sampler.generator is not None or kind is data.RandomSampler and (
            sampler.replacement or len(sampler) != len(dataset)):
        raise Error(f"the DataLoader's {kind.__name__} draws with replacement, another number of samples, or from a "
                    "generator: expected shuffle=True, and seed=")
    asked = options.get("no_shuffle")
    if asked is not None and asked == is_shuffled:
        raise Error(f"the DataLoader has shuffle={is_shuffled}, but no_shuffle is {asked}: expected one of both")
    options["no_shuffle"] = not is_shuffled
    if kind is data.SubsetRandomSampler:
        return data.Subset(dataset, list(sampler.indices))
    if kind in (list, tuple, range) or len(sampler) != len(dataset):
        return data.Subset(dataset, list(sampler))
    return dataset


# collate_fn


def _kind(collate: typing.Any) -> str:
    """The name of a collate_fn of transformers, else nothing."""
    kind = collate if hasattr(collate, "__name__") else type(collate)
    return kind.__name__ if str(kind.__module__).startswith("transformers.") else ""


def _check_masks(collate: typing.Any) -> None:
    if _kind(collate) == "DataCollatorForLanguageModeling" and collate.mlm:
        raise Error("the DataLoader's collate_fn is a DataCollatorForLanguageModeling with mlm=True, which draws masks that "
                    "no checkpoint knows: expected transform= with a parameter rng, which draws them")


def _records(samples: typing.Any, collate: typing.Any) -> list:
    """Records with input_ids as such a collator learns them; padding does not matter."""
    import numpy

    _check_masks(collate)
    records = [dict(samples[index]) for index in range(len(samples))]
    if _kind(collate) == "DataCollatorForLanguageModeling":  # its labels are the tokens that do not pad
        for record in records:
            ids = numpy.asarray(record["input_ids"])
            record["labels"] = numpy.where(ids == collate.tokenizer.pad_token_id, -100, ids)
    return [{name: value for name, value in record.items() if name in ("input_ids", "attention_mask", "labels")}
            for record in records]


def _named(batch: typing.Any) -> dict:
    """The arrays of a batch by their names, or places."""
    from ._fetched import _array

    if isinstance(batch, collections.abc.Mapping):
        return {name: _array(value, f"{name} of the batch") for name, value in batch.items()}
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise Error(f"the DataLoader's collate_fn makes {type(batch).__name__}: expected (x, y), or arrays by their names")
    return {place: _array(value, f"{name} of the batch") for place, name, value in zip((0, 1), ("x", "y"), batch)}


class _Collated:
    """Samples as a collate_fn makes them, which does to each the same alone and in a batch."""

    def __init__(self, samples: typing.Any, collate: typing.Callable):
        self.samples, self.collate = samples, collate
        if classes := getattr(samples, "classes", None):
            self.classes = classes
        _check_masks(collate)
        self._check()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> typing.Any:
        arrays = self._alone(self.samples[index])
        return arrays if any(isinstance(name, str) for name in arrays) else tuple(arrays.values())

    def _alone(self, sample: typing.Any) -> dict:
        arrays = _named(self.collate([sample]))
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != 1:
                raise Error(f"the DataLoader's collate_fn makes {name} {list(array.shape)} of one sample: expected [1, ...]")
        return {name: array[0] for name, array in arrays.items()}

    def _check(self) -> None:
        import numpy

        # Neighbours, and samples from everywhere, which differ in their lengths.
        count = len(self.samples)
        some = [self.samples[i] for i in sorted({0, min(1, count - 1), count // 3, 2 * count // 3, count - 1})] if count else []
        if not some:
            return
        alone = [self._alone(sample) for sample in some]
        together, again = _named(self.collate(list(some))), _named(self.collate(list(some)))
        what = "the DataLoader's collate_fn"
        for name in together:
            rows = [arrays.get(name) for arrays in alone]
            if any(row is None or row.shape != together[name].shape[1:] for row in rows):
                raise Error(f"{what} makes samples of a batch alike, which are {list(together[name].shape[1:])} in one and "
                            f"{list(numpy.shape(rows[0]))} alone: expected samples of one shape, such as texts that a "
                            "tokenizer pads by padding='max_length' with max_length")
            if again[name].shape != together[name].shape or not _same(again[name], together[name]):
                raise Error(f"{what} draws at random: expected transform= with a parameter rng, which draws by the sample")
            if not _same(numpy.stack(rows), together[name]):
                raise Error(f"{what} mixes the samples of a batch, which are split into micro-batches here: expected one that "
                            "does the same to each sample alone, or transform=")


def _same(a: typing.Any, b: typing.Any) -> bool:
    import numpy

    return a.dtype == b.dtype and numpy.array_equal(a, b, equal_nan=a.dtype.kind == "f")
