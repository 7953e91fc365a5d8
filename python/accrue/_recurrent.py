"""Recurrent layers of values, with PyTorch's signatures and names of parameters."""

from __future__ import annotations

import math
import typing

from . import _accrue
from ._accrue import Error, Value
from ._parts import Part, _Any, _check, _probability, _rows, _text, _without, _zeros


class _Recurrent(Part):
    _gates = 1

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: None = None, dtype: None = None) -> None:
        super().__init__()
        layer = type(self).__name__
        _without(layer, device=device, dtype=dtype)
        for what, given in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            _check(isinstance(given, int) and given >= 1, f"{layer} with {what}={given!r}: expected a number from 1")
        _check(proj_size == 0 or self._gates == 4,
               f"{layer} with proj_size={proj_size}: expected 0, because only an LSTM has projections")
        _check(0 <= proj_size < hidden_size,
               f"{layer} with proj_size={proj_size}: expected a number from 0 to less than hidden_size={hidden_size}")
        self.dropout = _probability(layer, dropout)
        _check(dropout == 0 or num_layers > 1,
               f"{layer} with dropout={dropout} and num_layers=1: expected more layers, as dropout is between them")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.bidirectional, self.proj_size = batch_first, bidirectional, proj_size
        self._state_size = proj_size or hidden_size

    def __repr__(self) -> str:
        more = "".join([f", {self.num_layers} layers" if self.num_layers > 1 else "",
                        ", in both directions" if self.bidirectional else "",
                        f", projected to {self.proj_size}" if self.proj_size else ""])
        return f"{type(self).__name__} {self.input_size} -> {self.hidden_size}{more}"

    def _weight(self, name: str, *shape: int) -> Value:
        return self._parameter(name, *shape, bound=1 / math.sqrt(self.hidden_size))

    def _step(self, x: Value, h: Value | None, c: Value | None, hidden: typing.Callable) -> tuple[Value, Value | None]:
        raise NotImplementedError

    def _run(self, x: Value, place: str, is_reversed: bool, state: list[Value] | None
             ) -> tuple[list[Value], Value | None]:
        """One layer in one direction over [N, T, F]: h after each step, in the order of x, and the last c."""
        T, gates = x.shape[1], self._gates * self.hidden_size
        w = self._weight(f"weight_ih_{place}", gates, x.shape[2])
        bias = self._weight(f"bias_ih_{place}", gates) if self.bias else None
        recurrent = self._weight(f"weight_hh_{place}", gates, self._state_size)
        hidden_bias = self._weight(f"bias_hh_{place}", gates) if self.bias else None
        projection = self._weight(f"weight_hr_{place}", self.proj_size, self.hidden_size) if self.proj_size else None
        if state is None and T == 1:  # every weight is in use
            zeros = [_zeros(1, n).expand(x.shape[0], -1) for n in (self._state_size, self.hidden_size)]
            state = zeros[:2 if self._gates == 4 else 1]
        h, c = (state + [None])[:2] if state else (None, None)

        def hidden(h: Value | None) -> Value | None:
            return hidden_bias if h is None else _accrue.linear(h, recurrent, hidden_bias)

        inputs, outputs = _accrue.linear(x, w, bias), [None] * T
        for t in reversed(range(T)) if is_reversed else range(T):
            h, c = self._step(inputs[:, t], h, c, hidden)
            if projection is not None:
                h = _accrue.linear(h, projection)
            outputs[t] = h
        return outputs, c

    def _states(self, hx: _Any, N: _Any) -> list[Value] | None:
        layer = type(self).__name__
        if hx is None:
            return None
        states = list(hx) if self._gates == 4 and isinstance(hx, (tuple, list)) else [hx]
        _check(len(states) == (2 if self._gates == 4 else 1),
               f"[{layer}] hx is {type(hx).__name__}: expected {'(h, c)' if self._gates == 4 else 'h'}")
        n = self.num_layers * (2 if self.bidirectional else 1)
        for what, each, size in zip("hc", states, (self._state_size, self.hidden_size)):
            wanted = (n, N, size)
            _check(isinstance(each, Value) and tuple(each.shape) == wanted,
                   f"[{layer}] {what} of hx is {_text(each) if isinstance(each, Value) else type(each).__name__}: "
                   f"expected a value {wanted}")
        return states

    def _called(self, input: Value, hx: _Any, name: str) -> tuple[Value, list[Value]]:
        x = _rows(type(self).__name__, "input", input, self.batch_first, self.input_size)
        states, lasts, cells = self._states(hx, x.shape[0]), [], []
        directions = (False, True) if self.bidirectional else (False,)
        with self._within(name):
            for layer in range(self.num_layers):
                if layer > 0 and self.dropout > 0:
                    x = _accrue.dropout(x, self.dropout)
                sides = []
                for is_reversed in directions:
                    place = f"l{layer}{'_reverse' if is_reversed else ''}"
                    first = None if states is None else [each[len(lasts)] for each in states]
                    outputs, c = self._run(x, place, is_reversed, first)
                    lasts.append(outputs[0 if is_reversed else -1])
                    cells.append(c)
                    sides.append(_accrue.stack(outputs, 1))
                x = _accrue.cat(sides, -1) if len(sides) > 1 else sides[0]
            last = [_accrue.stack(lasts, 0)]
            if self._gates == 4:
                last.append(_accrue.stack(cells, 0))
            return x if self.batch_first else x.transpose(0, 1), last


class LSTM(_Recurrent):
    """A long short-term memory (Hochreiter & Schmidhuber 1997).

    PyTorch's nn.LSTM. At each step of a layer i, f, g, o = chunks of W_ih x + b_ih + W_hh h + b_hh;
    c = sigmoid(f) c + sigmoid(i) tanh(g); h = sigmoid(o) tanh(c), and h = W_hr h with a proj_size.

    Parameters
    ----------
    input_size : int
        The size of an element of the sequence.
    hidden_size : int
        The size of h.
    num_layers : int
        How many layers, one after the other.
    bias : bool
        Whether learned numbers are added.
    batch_first : bool
        Whether values are [N, T, ...] and not [T, N, ...].
    dropout : float
        The probability with which outputs of all layers but the last become 0.
    bidirectional : bool
        Whether another layer each goes from the last element to the first.
    proj_size : int
        The size that h is projected to; 0: it is not.
    device, dtype : None
        A training chooses them for all layers.

    Raises
    ------
    Error
        For sizes that do not fit, and for a device or dtype.

    Notes
    -----
    Its parameters are weight_ih_l0 [4 hidden_size, input_size], weight_hh_l0 [4 hidden_size, H], bias_ih_l0,
    bias_hh_l0 [4 hidden_size], weight_hr_l0 [proj_size, hidden_size], and so on for l1, and with _reverse.

    Examples
    --------
    >>> output, (h, c) = accrue.LSTM(6, 8, bidirectional=True, batch_first=True)(accrue.input(5, 6))
    >>> output, h
    (value [N, 5, 16], value [2, N, 8])
    """

    _gates = 4

    def _step(self, x, h, c, hidden):
        more = hidden(h)
        i, f, g, o = (x if more is None else x + more).chunk(4, -1)
        new = _accrue.sigmoid(i) * _accrue.tanh(g)
        c = new if c is None else _accrue.sigmoid(f) * c + new
        return _accrue.sigmoid(o) * _accrue.tanh(c), c

    def __call__(self, input: Value, hx: tuple[Value, Value] | None = None, *, name: str = ""
                 ) -> tuple[Value, tuple[Value, Value]]:
        """Calls the layer on a value.

        Parameters
        ----------
        input : Value
            [T, N, input_size], or [N, T, input_size] with batch_first=True.
        hx : tuple of Value, optional
            The states h and c before the first step; by default 0.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        tuple
            The output [T, N, H], or [N, T, H], with H for each direction, and (h, c): [layers, N, H] and
            [layers, N, hidden_size] after the last step, for each layer and direction.
        """
        output, last = self._called(input, hx, name)
        return output, tuple(last)


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014).

    PyTorch's nn.GRU. At each step of a layer r = sigmoid(W_ir x + b_ir + W_hr h + b_hr), z alike,
    n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h = (1 - z) n + z h. Parameters are LSTM's, with
    3 hidden_size rows for r, z and n.

    Parameters
    ----------
    input_size : int
        The size of an element of the sequence.
    hidden_size : int
        The size of h.
    num_layers : int
        How many layers, one after the other.
    bias : bool
        Whether learned numbers are added.
    batch_first : bool
        Whether values are [N, T, ...] and not [T, N, ...].
    dropout : float
        The probability with which outputs of all layers but the last become 0.
    bidirectional : bool
        Whether another layer each goes from the last element to the first.
    proj_size : int
        Only 0, as in PyTorch.
    device, dtype : None
        A training chooses them for all layers.

    Raises
    ------
    Error
        For sizes that do not fit, and for a device or dtype.

    Examples
    --------
    >>> output, h = accrue.GRU(6, 8, batch_first=True)(accrue.input(5, 6))
    >>> output, h
    (value [N, 5, 8], value [1, N, 8])
    """

    _gates = 3

    def _step(self, x, h, c, hidden):
        more = hidden(h)
        r, z, n = x.chunk(3, -1)
        if more is not None:
            hr, hz, hn = more.chunk(3, -1)
            n = n + _accrue.sigmoid(r + hr) * hn
            z = z + hz
        z, n = _accrue.sigmoid(z), _accrue.tanh(n)
        return n - z * n if h is None else (h - n) * z + n, None

    def __call__(self, input: Value, hx: Value | None = None, *, name: str = "") -> tuple[Value, Value]:
        """Calls the layer on a value.

        Parameters
        ----------
        input : Value
            [T, N, input_size], or [N, T, input_size] with batch_first=True.
        hx : Value, optional
            The state h before the first step; by default 0.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        tuple
            The output [T, N, H], or [N, T, H], with H for each direction, and h [layers, N, H] after the last step.
        """
        output, last = self._called(input, hx, name)
        return output, last[0]


class RNN(_Recurrent):
    """A recurrent layer without gates (Elman 1990).

    PyTorch's nn.RNN: h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. Parameters are LSTM's, with
    hidden_size rows.

    Parameters
    ----------
    input_size : int
        The size of an element of the sequence.
    hidden_size : int
        The size of h.
    num_layers : int
        How many layers, one after the other.
    nonlinearity : {'tanh', 'relu'}
        The function around the sum.
    bias : bool
        Whether learned numbers are added.
    batch_first : bool
        Whether values are [N, T, ...] and not [T, N, ...].
    dropout : float
        The probability with which outputs of all layers but the last become 0.
    bidirectional : bool
        Whether another layer each goes from the last element to the first.
    device, dtype : None
        A training chooses them for all layers.

    Raises
    ------
    Error
        For sizes that do not fit, and for a device or dtype.

    Examples
    --------
    >>> output, h = accrue.RNN(6, 8, nonlinearity="relu", batch_first=True)(accrue.input(5, 6))
    >>> output, h
    (value [N, 5, 8], value [1, N, 8])
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: None = None, dtype: None = None) -> None:
        _check(nonlinearity in ("tanh", "relu"), f"RNN with nonlinearity={nonlinearity!r}: expected tanh or relu")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device,
                         dtype)
        self.nonlinearity = nonlinearity

    def _step(self, x, h, c, hidden):
        more = hidden(h)
        return getattr(_accrue, self.nonlinearity)(x if more is None else x + more), None

    def __call__(self, input: Value, hx: Value | None = None, *, name: str = "") -> tuple[Value, Value]:
        """Calls the layer on a value.

        Parameters
        ----------
        input : Value
            [T, N, input_size], or [N, T, input_size] with batch_first=True.
        hx : Value, optional
            The state h before the first step; by default 0.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        tuple
            The output [T, N, H], or [N, T, H], with H for each direction, and h [layers, N, H] after the last step.
        """
        output, last = self._called(input, hx, name)
        return output, last[0]
