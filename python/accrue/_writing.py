"""Texts by a caller's own networks of tokens: generate() without keys and values that are kept."""

from __future__ import annotations

import dataclasses
import os
import typing

from . import _accrue, _listening, _origins, onnx
from ._accrue import Error


@dataclasses.dataclass(frozen=True)
class Asked:
    """The arguments of generate() about what is written."""

    max_new_tokens: int = 200
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 1
    tokenizer: typing.Any = ""
    on_text: typing.Any = None

    def check(self) -> None:
        if isinstance(self.max_new_tokens, bool) or not hasattr(self.max_new_tokens, "__index__") or self.max_new_tokens < 1:
            raise Error(f"max_new_tokens is {self.max_new_tokens!r}: expected 1 or more")
        if self.on_text is not None and not callable(self.on_text):
            raise Error(f"on_text is {self.on_text!r}: expected a function of a text")
        _accrue._check_sampling(self.temperature, self.top_k, self.top_p, self.repetition_penalty)


class _Growing:
    """Tokens that grow by one with each answer, in place of samples to answer to (_chunks.py).

    A row has room for the last token that is read. What stands behind its tokens has no effect on the answers that count,
    if the network looks back alone: the first answers, to two rows that differ there, tell.
    """

    _accrue_chunks = True

    def __init__(self, writer: _Writer, room: int, asked: Asked, name: str, answer: str):
        self.writer, self.tokens, self.begin, self.room = writer, writer.tokens, len(writer.tokens), room
        self.asked, self.name, self.answer = asked, name, answer
        self._goes_on: bool | None = True

    def next(self, micro_batch: int) -> typing.Any:
        import numpy

        del micro_batch
        if not self._goes_on or len(self.tokens) - self.begin >= self.asked.max_new_tokens:
            return None
        is_first = len(self.tokens) == self.begin
        rows = numpy.zeros((2 if is_first else 1, self.room), numpy.int32)
        rows[:, :len(self.tokens)] = self.tokens
        rows[1:, len(self.tokens):] = max(1, *self.tokens)
        return {self.name: rows}

    def take(self, answers: typing.Any) -> None:
        import numpy

        logits = answers[self.answer] if isinstance(answers, dict) else answers
        if logits.ndim != 3 or logits.shape[1] != self.room:
            raise Error(f"the network answers to tokens [N, {self.room}] with [N, {', '.join(map(str, logits.shape[1:]))}]: "
                        f"expected the logits of the next tokens, [N, {self.room}, V]")
        last = len(self.tokens) - 1
        if len(logits) > 1:
            known = logits[:, :last + 1]
            apart = numpy.abs(known[0] - known[1]).max()
            if not apart <= 1e-5 * numpy.abs(known).max():
                raise Error(f"the network's answers depend on later tokens: by {apart:.3g} where the largest is "
                            f"{numpy.abs(known).max():.3g}: expected a network that looks back alone, such as one with a "
                            "causal mask")
        asked = self.asked
        known_tokens = numpy.ascontiguousarray(logits[0, last, :self.writer.vocabulary], numpy.float32)
        token = _accrue._next_token(known_tokens, self.tokens, asked.temperature, asked.top_k, asked.top_p,
                                    asked.repetition_penalty, asked.seed, len(self.tokens) - self.begin)
        self._goes_on = self.writer.take(token)
        if self._goes_on is not None:
            self.tokens.append(token)

    def answers(self) -> list[int]:
        return self.tokens


class _Writer:
    """Hands on what is written, as text if the prompt is one."""

    def __init__(self, prompt: typing.Any, asked: Asked, is_text: bool):
        self._asked, self._tokenizer = asked, None
        self.vocabulary: int | None = None  # tokens beyond it are not drawn
        if is_text:
            self._tokenizer = _tokenizer(asked.tokenizer)
            self.vocabulary = self._tokenizer.size
            self.tokens = [int(token) for token in self._tokenizer.encode(prompt)]
        else:
            self.tokens = _tokens(prompt)
        self._last = self.tokens[-1:]
        self._text = prompt.encode() if is_text else b""

    def take(self, token: int) -> bool | None:
        """Whether the text goes on; None if the token ends it, and is no part of it."""
        piece: typing.Any = token
        if self._tokenizer is not None:
            if token == self._tokenizer.end_of_text:
                return None
            written = len(self._tokenizer.decode(self._last))
            text = self._tokenizer.decode([*self._last, token])[written:]
            self._last = [token]
            self._text += text
            piece = text.decode("utf-8", "replace")
        return self._asked.on_text is None or not _listening._is_false(self._asked.on_text(piece))

    def result(self, tokens: list[int]) -> typing.Any:
        import numpy

        return numpy.array(tokens, numpy.int32) if self._tokenizer is None else self._text.decode("utf-8", "replace")


def _tokenizer(given: typing.Any) -> typing.Any:
    from . import _texts

    if given is None or isinstance(given, str) and not given:
        raise Error("prompt is a text, and a network of the caller's own says no tokenizer: expected tokenizer=, by which "
                    "it has learned, or tokens [L]")
    return _accrue._Tokenizer(os.fspath(_texts._tokenizer(given)))


def _tokens(prompt: typing.Any) -> list[int]:
    import numpy

    tokens = numpy.asarray(prompt)
    if tokens.dtype.kind not in "iu" or tokens.ndim != 1 or not tokens.size:
        raise Error(f"prompt is {tokens.dtype} {list(tokens.shape)}: expected a text, or tokens, integers [L]")
    if tokens.min() < 0:
        raise Error(f"prompt has {tokens.min()}: expected tokens from 0 on")
    return [int(token) for token in tokens]


def _origin_for(model: typing.Any, room: int) -> typing.Any:
    """The network of a module or a file, for rows of at least `room` tokens."""
    import numpy

    rows = numpy.zeros((2, room), numpy.int32)
    if isinstance(model, onnx.FromOnnx):
        return model if _has_room(model.network, room) else onnx.read(model.path, rows)
    if not isinstance(model, _origins.Origin):
        if isinstance(model, (str, os.PathLike)):
            return onnx.read(model, rows)
    elif _has_room(model.network, room):
        return model
    from . import pytorch

    module = getattr(model, "module", model)
    try:
        return pytorch.from_torch(module, rows)
    except Error as error:
        raise Error(f"prompt and max_new_tokens need rows of {room} tokens, for which the module gives no network: "
                    f"{error}") from error


def _has_room(network: typing.Any, room: int) -> bool:
    return (network._rows_of_tokens or 0) >= room


def _rows_of(network: typing.Any, room: int) -> int:
    """The length of the network's rows."""
    rows = network._rows_of_tokens
    if rows is None:
        raise Error(f"the network takes {', '.join(network._inputs)}: expected one of tokens alone, integers [N, T], which "
                    "answers with logits [N, T, V] of the next ones")
    if rows < room:
        raise Error(f"the network takes rows of {rows} tokens, but prompt and max_new_tokens need {room}: expected fewer, or "
                    "a network of longer rows")
    return rows


def written(weights: typing.Any, prompt: typing.Any, model: typing.Any, asked: Asked, options: dict) -> typing.Any:
    """The result of generate(), by a Network, a module or a file."""
    asked.check()
    writer = _Writer(prompt, asked, isinstance(prompt, str))
    room = len(writer.tokens) + asked.max_new_tokens - 1  # nothing is written after the last one
    network, answer = model, None
    if not isinstance(model, _accrue.Network):
        origin = _origin_for(model, room)
        network, options = origin.network, origin.precise(options)
        answer = origin.answer
        if weights is None:
            weights = origin.weights_for(None)
    rows = _rows_of(network, room)
    if answer is None:
        if len(network._outputs) != 1:
            raise Error(f"the network answers with {', '.join(network._outputs)}: expected one output, the logits [N, T, V], "
                        "as from_torch(..., outputs=NAME) keeps it")
        answer = network._outputs[0]
    growing = _Growing(writer, rows, asked, network._inputs[0], answer)
    return writer.result(_accrue.predict(weights, growing, network, **options))
