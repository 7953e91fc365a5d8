"""A torch.utils.data.DataLoader, as the samples that it is made of."""

from __future__ import annotations

import typing

from ._accrue import Error


def samples_of(loader: typing.Any, options: dict, workers: int | None) -> typing.Any:
    """The loader's data set. Its batch size and order become options; what else it says is refused by name."""
    from torch.utils import data

    is_stream = isinstance(loader.dataset, data.IterableDataset)
    if loader.batch_size is None and loader.batch_sampler is None and not is_stream:
        raise Error("the DataLoader has batch_size=None: expected the batch_size, or its dataset and effective_batch")
    if loader.collate_fn is not data.default_collate and loader.batch_size is not None:
        raise Error("the DataLoader has a collate_fn, which makes batches: expected its dataset, whose samples are (x, y) "
                    "of one shape; what collate_fn does to a sample belongs in transform=")
    if not is_stream and type(loader.batch_sampler) is not data.BatchSampler:
        raise Error(f"the DataLoader has the batch_sampler {type(loader.batch_sampler).__name__}: expected batch_size")
    for name, usual in (("worker_init_fn", None), ("timeout", 0), ("generator", None)):
        if getattr(loader, name, usual) != usual:
            hint = "seed=, which decides the order" if name == "generator" else "none"
            raise Error(f"the DataLoader has {name}={getattr(loader, name)!r}: expected {hint}")
    if loader.num_workers and workers is None:
        raise Error(f"the DataLoader has num_workers={loader.num_workers}, processes, but accrue fetches on threads: "
                    f"expected workers={loader.num_workers}, if several threads may use the dataset at once, or workers=1")
    if not is_stream:
        _order(loader, options, data)
    size = loader.batch_size
    if size is None:
        return loader.dataset
    if options.get("effective_batch") not in (None, size):
        raise Error(f"the DataLoader has batch_size={size}, but effective_batch is {options['effective_batch']}: "
                    "expected one of both")
    options["effective_batch"] = size
    if loader.drop_last and not is_stream and len(loader.dataset) % size:
        raise Error(f"the DataLoader has drop_last=True, but an epoch of {len(loader.dataset)} samples ends with a "
                    f"window of {len(loader.dataset) % size}: expected drop_last=False, or a Subset")
    return loader.dataset


def _order(loader: typing.Any, options: dict, data: typing.Any) -> None:
    sampler = loader.sampler
    is_shuffled = type(sampler) is data.RandomSampler
    if type(sampler) not in (data.RandomSampler, data.SequentialSampler):
        raise Error(f"the DataLoader has the sampler {type(sampler).__name__}: expected shuffle=True or False; "
                    "sample_weight= says how much samples count, and a Subset has some of them")
    if is_shuffled and (sampler.replacement or len(sampler) != len(loader.dataset) or sampler.generator is not None):
        raise Error("the DataLoader's RandomSampler draws with replacement, another number of samples, or from a "
                    "generator: expected shuffle=True, and seed=")
    asked = options.get("no_shuffle")
    if asked is not None and asked == is_shuffled:
        raise Error(f"the DataLoader has shuffle={is_shuffled}, but no_shuffle is {asked}: expected one of both")
    options["no_shuffle"] = not is_shuffled
