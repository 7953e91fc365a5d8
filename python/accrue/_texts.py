"""A caller's texts, chats and tokens, as language models learn them (docs/python.md, "Texts")."""

from __future__ import annotations

import collections.abc
import json
import os
import pathlib
import shutil
import tempfile
import typing
import weakref

from ._accrue import Error

# The names of records that JSON lines may have (docs/text.md, "Texts").
_TEXTS = {"text", "messages", "conversations", "completion", "instruction", "chosen", "anchor"}
_TOKENS = ("input_ids", "attention_mask", "labels")


class _File(str):
    """The path of a temporary file, which lives as long as this."""

    _accrue_texts = True


def _names(data: typing.Any) -> typing.Iterable[str]:
    """The names of records: of a dictionary of columns, of a list of dictionaries, or of a data set of the hub."""
    if isinstance(data, collections.abc.Mapping):
        return list(data)
    if isinstance(data, list) and data and isinstance(data[0], collections.abc.Mapping):
        return list(data[0])
    return list(getattr(data, "column_names", None) or ())


def are_texts(data: typing.Any) -> bool:
    """True for texts and records of texts in the caller's memory."""
    if isinstance(data, (list, tuple)) and len(data) and all(isinstance(text, str) for text in data):
        return True
    if _are_columns(data):
        return True
    if isinstance(data, collections.abc.Mapping) or not _TEXTS.intersection(_names(data)):
        return isinstance(data, list) and bool(data) and _is_chat(data[0])
    record = data[0]
    return all(isinstance(record[name], (str, list, dict)) for name in _TEXTS.intersection(record))


def _are_columns(data: typing.Any) -> bool:
    """True for lists of texts by the names of records, such as {"anchor": [...], "positive": [...]}."""
    return isinstance(data, collections.abc.Mapping) and bool(_TEXTS.intersection(data)) and all(
        isinstance(column, (list, tuple)) and len(column) and isinstance(column[0], str) for column in data.values())


def _rows(columns: collections.abc.Mapping) -> list[dict]:
    """The records of columns."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise Error(f"the columns of data have different lengths: {found}")
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _is_chat(messages: typing.Any) -> bool:
    return isinstance(messages, list) and bool(messages) and all(
        isinstance(m, dict) and "role" in m and "content" in m for m in messages)


def are_tokens(data: typing.Any) -> bool:
    return "input_ids" in _names(data)


def records_of(data: typing.Any, options: dict, asked: typing.Any) -> typing.Any:
    """Records with tokens, where a PyTorch data set or its loader gives them; other data as they are."""
    from ._data import _is_indexable, _is_of

    is_loader = _is_of(data, "torch", "DataLoader")
    samples = data.dataset if is_loader else data
    if isinstance(samples, (list, collections.abc.Mapping)) and not is_loader or not _is_indexable(samples) or not len(samples):
        return data
    if not (is_loader or _is_of(samples, "torch", "Dataset")) or hasattr(samples, "column_names") and not is_loader:
        return data
    first = samples[0]
    is_record = isinstance(first, collections.abc.Mapping)
    if not (is_record and "input_ids" in first or is_loader and (
            isinstance(first, str) or is_record and _TEXTS.intersection(first))):
        return data
    if is_loader:
        from ._loaders import samples_of

        samples = samples_of(data, options, asked.heed("workers") or 1, collates=False)
    return [samples[index] if isinstance(first, str) else dict(samples[index]) for index in range(len(samples))]


def listed(data: typing.Any, asked: typing.Any, is_of_texts: bool) -> typing.Any:
    """Texts and records of texts as a list, from columns, arrays of texts, data sets and streams; other data as they are."""
    from ._data import _is_indexable, _is_of, _is_of_pandas, _is_plain, _takes_nothing

    if data is None or isinstance(data, (str, os.PathLike, list, tuple, collections.abc.Mapping)):
        return data
    if _is_of(data, "pandas", "DataFrame") or _is_of(data, "datasets", "Dataset"):
        column = asked.columns
        if not isinstance(column, str):
            known = _TEXTS.intersection(map(str, getattr(data, "columns", ())))
            return data.to_dict("records") if known and column is None else data
        names = list(getattr(data, "column_names", None) or data.columns)
        if column not in names:
            raise Error(f"data has no column '{column}': expected columns among {', '.join(map(str, names))}")
        asked.heed("columns")
        return list(data[column])
    if _is_of_pandas(data) or getattr(getattr(data, "dtype", None), "kind", "") in ("U", "O", "T"):
        return [each if isinstance(each, float) else str(each) for each in data] if len(data) and isinstance(
            next(iter(data)), str) else data
    if not is_of_texts or _is_plain(data):
        return data
    if _is_indexable(data):
        return [data[index] for index in range(len(data))]
    if hasattr(data, "__iter__") or callable(data) and _takes_nothing(data):
        return list(data if hasattr(data, "__iter__") else data())
    return data


def texts(data: typing.Any, options: dict) -> tuple[typing.Any, dict]:
    """The path of JSON lines with the texts, and of the tokenizer's files."""
    options = dict(options)
    if options.get("tokenizer") is not None:
        options["tokenizer"] = _tokenizer(options["tokenizer"])
    if data is None or isinstance(data, (str, os.PathLike)):
        return data, options
    return written(data, "data"), options


def written(data: typing.Any, name: str) -> typing.Any:
    """The path of JSON lines with the texts of data, or of test or validation."""
    if isinstance(data, list) and data and isinstance(data[0], str):
        for place, text in enumerate(data):
            if not isinstance(text, str):
                raise Error(f"sample {place} of {name} is {text!r}: expected a text, as sample 0 is")
    if not are_texts(data):
        of = "tokenizer is for texts" if name == "data" else "data is texts"
        raise Error(f"{of}, but {name} is {type(data).__name__}: expected a list of texts, or of chats, "
                    "lists of {'role': ..., 'content': ...}, or records such as {'messages': [...]} or {'anchor': "
                    "..., 'positive': ...}")
    data = _rows(data) if _are_columns(data) else data
    file, path = _temporary(f"{name}.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        for place, item in enumerate(data):
            try:
                out.write(json.dumps(_record(item), ensure_ascii=False, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                raise Error(f"sample {place} of {name} cannot be written as JSON: {error}") from error
    return file


def _record(item: typing.Any) -> dict:
    if isinstance(item, str):
        return {"text": item}
    if _is_chat(item):
        return {"messages": item}
    if not isinstance(item, collections.abc.Mapping):
        raise TypeError(f"it is {type(item).__name__}: expected a text, a chat or a record")
    return {name: value for name, value in item.items() if value is not None}


def _temporary(name: str) -> tuple[_File, pathlib.Path]:
    folder = tempfile.mkdtemp(prefix="accrue-")
    path = pathlib.Path(folder, name)
    file = _File(path)
    weakref.finalize(file, shutil.rmtree, folder, ignore_errors=True)
    return file, path


def _tokenizer(given: typing.Any) -> typing.Any:
    """A path, or the path of a copy of a tokenizer of `tokenizers` or `transformers`."""
    if isinstance(given, (str, os.PathLike)):
        return given
    if hasattr(given, "save_pretrained") and getattr(given, "is_fast", False):
        file, path = _temporary("tokenizer")
        given.save_pretrained(path)
        return file
    if hasattr(given, "save_pretrained"):
        raise Error(f"tokenizer is a {type(given).__name__}, which has no tokenizer.json: expected its fast form")
    if hasattr(given, "save") and hasattr(given, "get_vocab"):
        file, path = _temporary("tokenizer.json")
        given.save(str(path))
        return file
    raise Error(f"tokenizer is {given!r}: expected a path, a tokenizers.Tokenizer or a fast tokenizer of transformers")


def tokens(data: typing.Any, options: dict) -> tuple[typing.Any, dict]:
    """(tokens, learned) of records with input_ids, attention_mask and labels: documents without what fills them up."""
    import numpy

    others = [name for name in _names(data) if name not in _TOKENS]
    if others:
        raise Error(f"data has input_ids and {', '.join(map(str, others))}: expected {', '.join(_TOKENS)} alone")
    has = [name for name in _TOKENS if name in _names(data)]
    if isinstance(data, collections.abc.Mapping):
        columns = [data[name] for name in has]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise Error(f"{', '.join(has)} have {', '.join(map(str, sorted(lengths)))} rows: expected as many")
        records = [dict(zip(has, row)) for row in zip(*columns)]
    else:
        records = [dict(record) for record in data]
    documents, learned, widths = [], [], set()
    for place, record in enumerate(records):
        row = {name: numpy.asarray(value) for name, value in record.items() if value is not None}
        if set(row) != set(has) or any(array.shape != row["input_ids"].shape or array.ndim != 1
                                       for array in row.values()):
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in row.items())
            raise Error(f"sample {place} has {shapes}: expected {', '.join(has)}, each [L]")
        ids = row["input_ids"].astype(numpy.int32)
        for token in row["input_ids"][ids != row["input_ids"]]:
            raise Error(f"sample {place} has {token} in input_ids: expected tokens, integers of 32 bits")
        labels = row.get("labels", ids)
        widths.add(len(ids))
        mask = row.get("attention_mask", numpy.ones_like(ids)).astype(bool)
        kept = numpy.flatnonzero(mask)
        if not kept.size or kept[-1] - kept[0] + 1 != kept.size:
            raise Error(f"sample {place} has an attention_mask with {kept.size} ones, not all side by side: expected one "
                        "run of them, the document")
        is_learned = (labels != -100) & mask
        wrong = numpy.flatnonzero(is_learned & (labels != ids))
        if wrong.size:
            at = wrong[0]
            raise Error(f"sample {place} has the label {labels[at]} at {at}, but the token {ids[at]}: expected labels "
                        "that are input_ids, or -100, not yet shifted by one")
        documents.append(ids[kept])
        learned.append(is_learned[kept])
    if not documents:
        raise Error("data has no samples: expected some")
    options = dict(options)
    if len(widths) == 1 and "attention_mask" in has and options.get("context") is None and widths != {1}:
        options["context"] = widths.pop() - 1  # as rows of one array
        if options.get("documents") is None:
            options["documents"] = "padded"
    if len({len(document) for document in documents}) == 1:
        documents, learned = numpy.stack(documents), numpy.stack(learned)
    if all(numpy.all(row) for row in learned):
        return documents, options
    return (documents, learned), options
