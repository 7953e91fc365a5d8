"""Layers with several inputs or results, made of functions of values, with PyTorch's signatures and names of
parameters. They are called on values (accrue.Network), as other layers are."""

from __future__ import annotations

import copy
import math
import typing

from . import _accrue
from ._accrue import Error, Samples, Value

_Any = typing.Any


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise Error(message)


def _without(layer: str, **arguments: _Any) -> None:
    """Refuses what PyTorch's layers take and these do not: a device and a dtype, which a training chooses."""
    for name, value in arguments.items():
        _check(value is None, f"{layer} with {name}={value!r}: expected None, because a training chooses it for all "
                              f"layers ({'device' if name == 'device' else 'precision'}=)")


def _probability(layer: str, dropout: _Any) -> float:
    is_number = isinstance(dropout, (int, float)) and not isinstance(dropout, bool)
    _check(is_number and 0 <= dropout < 1,
           f"{layer} with dropout={dropout!r}: expected a number from 0 to less than 1")
    return float(dropout)


def _text(x: Value) -> str:
    return repr(x)[len("value "):]


def _rows(layer: str, name: str, x: _Any, batch_first: bool, features: int) -> Value:
    """x as [N, T, features]."""
    wanted = f"[N, T, {features}]" if batch_first else f"[T, N, {features}], as batch_first is False"
    _check(isinstance(x, Value), f"[{layer}] {name} is {type(x).__name__}: expected a value of a network {wanted}")
    shape = x.shape
    _check(len(shape) == 3 and shape[-1] == features, f"[{layer}] {name} is {_text(x)}: expected {wanted}")
    _check(isinstance(shape[0 if batch_first else 1], Samples),
           f"[{layer}] {name} is {_text(x)}: expected {wanted}; the samples are in another dimension, which "
           f"batch_first={not batch_first} says")
    return x if batch_first else x.transpose(0, 1)


class Part:
    """A layer that is made of others. Called again, it has the same weights."""

    def __init__(self) -> None:
        self._scope: _accrue.scope | None = None
        self._made: dict[str, _Any] = {}

    def _within(self, name: str) -> _accrue.scope:
        if self._scope is None:
            self._scope = _accrue.scope(name)
        _check(name in ("", self._scope.name),
               f"{self!r} is called as '{name}', and was '{self._scope.name}' before: expected the same name for the "
               f"same weights")
        return self._scope

    def _parameter(self, name: str, *shape: int, **init: float) -> Value:
        if name not in self._made:
            self._made[name] = _accrue.parameter(shape, name, **init)
        return self._made[name]

    def _copy(self) -> Part:
        """Another with the same arguments and weights of its own."""
        made = copy.copy(self)
        made._scope, made._made = None, {}
        for name, each in vars(self).items():
            if isinstance(each, Part):
                setattr(made, name, each._copy())
        return made


def _zeros(*shape: int) -> Value:
    import numpy as np  # here, because a program without arrays need not wait for it

    return _accrue.constant(np.zeros(shape, np.float32))


def _hidden_scores(scores: Value, mask: _Any, name: str, shape: tuple, dims: str) -> Value:
    """scores with a mask: bool, a comparison or int32 hides where it is true, float32 is added.

    An array is a constant.
    """
    is_truth = isinstance(mask, Value) and mask._is_truth
    if not isinstance(mask, Value):
        import numpy as np

        given = np.asarray(mask)
        _check(given.dtype == bool or given.dtype.kind == "f",
               f"[MultiheadAttention] {name} has elements {given.dtype}: expected bool, true where a key is hidden, or "
               f"numbers to add to the scores")
        _check(given.ndim == 2, f"[MultiheadAttention] {name} is an array {list(given.shape)}: expected {dims}, or a "
                                f"value, because a network does not know its number of samples")
        numbers = np.where(given, -np.inf, 0.0) if given.dtype == bool else given.astype(np.float64)
        mask, is_added = _accrue.constant(numbers), True
    else:
        is_added = not mask._is_whole
    sizes = tuple(mask.shape)
    _check(sizes == shape, f"[MultiheadAttention] {name} is {_text(mask)}: expected {dims} = {shape}")
    if len(sizes) == 3:  # [N heads, T, S]
        mask = mask.reshape(scores.shape)
    elif isinstance(sizes[0], Samples):  # [N, S]
        mask = mask.reshape(sizes[0], 1, 1, sizes[1])
    if is_truth:
        return _accrue.where(mask, -math.inf, scores)
    if is_added:
        return scores + mask
    hidden = _accrue.one_hot(mask.reshape(-1), 2)[:, 1].reshape(mask.shape)
    return _accrue.where(hidden, -math.inf, scores)


class MultiheadAttention(Part):
    """Attends to values by queries and keys, with several heads (Vaswani et al. 2017).

    PyTorch's nn.MultiheadAttention: softmax(q k^T / sqrt(D) + mask) v for each of num_heads heads,
    D = embed_dim / num_heads, of projections q, k and v; then another projection.

    Parameters
    ----------
    embed_dim : int
        The size of a query, and of the result.
    num_heads : int
        How many heads, by which embed_dim is divisible.
    dropout : float
        The probability with which weights of attention become 0.
    bias : bool
        Whether projections add learned numbers.
    add_bias_kv : bool
        Whether a learned key and value are added to those of the input.
    add_zero_attn : bool
        Whether a key and value of zeros are added.
    kdim, vdim : int, optional
        The sizes of keys and values; by default embed_dim.
    batch_first : bool
        Whether values are [N, T, ...] and not [T, N, ...].
    device, dtype : None
        A training chooses them for all layers.

    Raises
    ------
    Error
        For sizes that do not fit, and for a device or dtype.

    Notes
    -----
    Its parameters are in_proj_weight [3 embed_dim, embed_dim], or q_proj_weight, k_proj_weight and
    v_proj_weight where kdim or vdim differ; in_proj_bias [3 embed_dim]; out_proj.weight
    [embed_dim, embed_dim]; out_proj.bias; and with add_bias_kv=True bias_k and bias_v
    [1, 1, embed_dim]. A query that sees no key gives NaN.

    Examples
    --------
    >>> x = accrue.input(5, 8)
    >>> y, weights = accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> y, weights
    (value [N, 5, 8], value [N, 5, 5])
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: None = None, dtype: None = None) -> None:
        super().__init__()
        _without("MultiheadAttention", device=device, dtype=dtype)
        _check(embed_dim > 0 and num_heads > 0 and embed_dim % num_heads == 0,
               f"MultiheadAttention with embed_dim={embed_dim} and num_heads={num_heads}: expected a multiple of the "
               f"heads")
        self.embed_dim, self.num_heads, self.bias = embed_dim, num_heads, bias
        self.dropout = _probability("MultiheadAttention", dropout)
        self.add_bias_kv, self.add_zero_attn, self.batch_first = add_bias_kv, add_zero_attn, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim

    def __repr__(self) -> str:
        return f"attention of {self.num_heads} heads, {self.embed_dim}"

    def _projections(self, query: Value, key: Value, value: Value) -> tuple[Value, Value, Value]:
        def projected(x: Value, weight: Value, part: Value | None) -> Value:
            y = _accrue.linear(x, weight)
            return y if part is None else y + part  # a part of a bias is a value, not a parameter

        E = self.embed_dim
        bias = self._parameter("in_proj_bias", 3 * E) if self.bias else None
        if self.kdim != E or self.vdim != E:
            biases = [None] * 3 if bias is None else bias.chunk(3)
            return tuple(projected(x, self._parameter(f"{name}_proj_weight", E, n, bound=math.sqrt(6 / (E + n))), b)
                         for x, name, n, b in zip((query, key, value), "qkv", (E, self.kdim, self.vdim), biases))
        weight = self._parameter("in_proj_weight", 3 * E, E, bound=math.sqrt(6 / (4 * E)))
        if query is key and key is value:
            return tuple(_accrue.linear(query, weight, bias).chunk(3, -1))
        parts = [None] * 3 if bias is None else bias.chunk(3)
        return tuple(projected(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), parts))

    def _with_more_keys(self, name: str, x: Value) -> Value:
        """The keys or the values, and after them those that no input gives."""
        N, _, E = x.shape
        rows = [x]
        if self.add_bias_kv:
            rows.append(self._parameter(f"bias_{name}", 1, 1, E, std=math.sqrt(2 / (2 * E))).expand(N, -1, -1))
        if self.add_zero_attn:
            rows.append(_zeros(1, 1, E).expand(N, -1, -1))
        return _accrue.cat(rows, 1) if len(rows) > 1 else x

    def __call__(self, query: Value, key: Value, value: Value, key_padding_mask: Value | None = None,
                 need_weights: bool = True, attn_mask: _Any = None, average_attn_weights: bool = True,
                 is_causal: bool = False, *, name: str = "") -> tuple[Value, Value | None]:
        """Calls the layer on values.

        Parameters
        ----------
        query, key, value : Value
            Of sizes [T, N, embed_dim], [S, N, kdim] and [S, N, vdim], or [N, T, embed_dim] and so on with
            batch_first=True.
        key_padding_mask : Value, optional
            [N, S], int32 or a comparison, which hides keys where it is 1 or true, or float32, which is added.
        need_weights : bool
            Whether the weights of attention are returned.
        attn_mask : Value or array_like, optional
            [T, S] or [N heads, T, S], likewise; an array is of bool or float.
        average_attn_weights : bool
            Whether the weights are the mean over the heads.
        is_causal : bool
            A hint that attn_mask is causal, which it needs, as in PyTorch.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        tuple of Value
            The output, of query's shape, and the weights [N, T, S], or [N, heads, T, S], or None.
        """
        _check(not is_causal or attn_mask is not None,
               "[MultiheadAttention] is_causal=True without attn_mask: expected both, because is_causal only says what "
               "attn_mask is")
        layer = "MultiheadAttention"
        inputs = [(query, "query", self.embed_dim), (key, "key", self.kdim), (value, "value", self.vdim)]
        rows: dict[int, Value] = {}  # the same tensor stays the same
        q, k, v = (rows.setdefault(id(x), _rows(layer, what, x, self.batch_first, n)) for x, what, n in inputs)
        T, S = q.shape[1], k.shape[1]
        _check(k.shape[:2] == v.shape[:2] and q.shape[0] == k.shape[0],
               f"[MultiheadAttention] query is {_text(query)}, key {_text(key)} and value {_text(value)}: expected as "
               f"many samples of each, and as many keys as values")
        with self._within(name):
            y, p = self._attend(*self._projections(q, k, v), T, S, key_padding_mask, attn_mask, need_weights)
            E = self.embed_dim
            with self._made.setdefault("out_proj", _accrue.scope("out_proj")):
                bias = self._parameter("bias", E) if self.bias else None
                y = _accrue.linear(y, self._parameter("weight", E, E, bound=1 / math.sqrt(E)), bias)
            y = y if self.batch_first else y.transpose(0, 1)
            if need_weights and average_attn_weights:
                p = p.mean(1)
            return y, p if need_weights else None

    def _attend(self, q, k, v, T, S, key_padding_mask, attn_mask, need_weights) -> tuple[Value, Value | None]:
        more = int(self.add_bias_kv) + int(self.add_zero_attn)
        k, v = self._with_more_keys("k", k), self._with_more_keys("v", v)
        N, H, D = q.shape[0], self.num_heads, self.embed_dim // self.num_heads
        q, k, v = (x.reshape(N, x.shape[1], H, D).transpose(1, 2) for x in (q, k, v))
        if key_padding_mask is None and attn_mask is None and not need_weights and self.dropout == 0:
            y, p = _accrue.scaled_dot_product_attention(q, k, v), None
        else:
            scores = (q * D ** -0.5) @ k.transpose(-2, -1)
            seen = scores[..., :S] if more else scores
            if attn_mask is not None:
                is_of_heads = isinstance(attn_mask, Value) and len(attn_mask.shape) == 3
                seen = _hidden_scores(seen, attn_mask, "attn_mask", (H * N, T, S) if is_of_heads else (T, S), "[T, S]")
            if key_padding_mask is not None:
                _check(isinstance(key_padding_mask, Value),
                       "[MultiheadAttention] key_padding_mask is no value: expected a value [N, S], because a network "
                       "does not know its number of samples")
                seen = _hidden_scores(seen, key_padding_mask, "key_padding_mask", (N, S), "[N, S]")
            scores = _accrue.cat([seen, scores[..., S:]], -1) if more else seen
            p = scores.softmax(-1)
            if self.dropout > 0:
                p = _accrue.dropout(p, self.dropout)
            y = p @ v
        return y.transpose(1, 2).reshape(N, T, self.embed_dim), p


class TransformerEncoderLayer(Part):
    """Attends a sequence to itself, and then puts it through two linear layers (Vaswani et al. 2017).

    PyTorch's nn.TransformerEncoderLayer, with residual connections, dropout and LayerNorms:
    x = norm1(x + self_attn(x)); y = norm2(x + linear2(dropout(activation(linear1(x))))); with norm_first=True
    x = x + self_attn(norm1(x)); y = x + linear2(dropout(activation(linear1(norm2(x))))).

    Parameters
    ----------
    d_model : int
        The size of src and of the result.
    nhead : int
        How many heads of attention.
    dim_feedforward : int
        The size between the two linear layers.
    dropout : float
        The probability with which elements become 0.
    activation : {'relu', 'gelu'} or callable
        What is between the linear layers; a function of values.
    layer_norm_eps : float
        Added to the variances of the norms.
    batch_first : bool
        Whether values are [N, T, d_model] and not [T, N, d_model].
    norm_first : bool
        Whether norms come before attention and linear layers.
    bias : bool
        Whether layers add learned numbers.
    device, dtype : None
        A training chooses them for all layers.

    Raises
    ------
    Error
        For sizes that do not fit, and for a device or dtype.

    Examples
    --------
    >>> accrue.TransformerEncoderLayer(8, 2, 16, batch_first=True)(accrue.input(5, 8))
    value [N, 5, 8]
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | typing.Callable[[Value], Value] = "relu", layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: None = None,
                 dtype: None = None) -> None:
        super().__init__()
        _without("TransformerEncoderLayer", device=device, dtype=dtype)
        known = {"relu": _accrue.relu, "gelu": _accrue.gelu}
        _check(callable(activation) or activation in known,
               f"TransformerEncoderLayer with activation={activation!r}: expected relu, gelu or a function of values")
        self.d_model, self.nhead, self.dim_feedforward = d_model, nhead, dim_feedforward
        self.dropout = _probability("TransformerEncoderLayer", dropout)
        self.activation = activation if callable(activation) else known[activation]
        self.batch_first, self.norm_first = batch_first, norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=True)
        self._layers = {"linear1": lambda: _accrue.Linear(d_model, dim_feedforward, bias),
                        "linear2": lambda: _accrue.Linear(dim_feedforward, d_model, bias),
                        "norm1": lambda: _accrue.LayerNorm(d_model, layer_norm_eps, bias=bias),
                        "norm2": lambda: _accrue.LayerNorm(d_model, layer_norm_eps, bias=bias)}
        for make in self._layers.values():
            make()  # to refuse wrong arguments here

    def __repr__(self) -> str:
        return f"transformer encoder layer {self.d_model}, {self.nhead} heads, {self.dim_feedforward}"

    def _layer(self, name: str, x: Value) -> Value:
        if name not in self._made:
            self._made[name] = self._layers[name]()
        return self._made[name](x, name=name)

    def __call__(self, src: Value, src_mask: _Any = None, src_key_padding_mask: Value | None = None,
                 is_causal: bool = False, *, name: str = "") -> Value:
        """Calls the layer on a value.

        Parameters
        ----------
        src : Value
            [T, N, d_model], or [N, T, d_model] with batch_first=True.
        src_mask, src_key_padding_mask : Value, optional
            The masks of MultiheadAttention.
        is_causal : bool
            A hint that src_mask is causal, which it needs.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        Value
            Of src's sizes.
        """
        def dropped(x: Value) -> Value:
            return _accrue.dropout(x, self.dropout) if self.dropout > 0 else x

        def attended(x: Value) -> Value:
            return dropped(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal,
                                          name="self_attn")[0])

        def fed(x: Value) -> Value:
            return dropped(self._layer("linear2", dropped(self.activation(self._layer("linear1", x)))))

        x = _rows("TransformerEncoderLayer", "src", src, self.batch_first, self.d_model)
        with self._within(name):
            if self.norm_first:
                x = x + attended(self._layer("norm1", x))
                x = x + fed(self._layer("norm2", x))
            else:
                x = self._layer("norm1", x + attended(x))
                x = self._layer("norm2", x + fed(x))
            return x if self.batch_first else x.transpose(0, 1)


class TransformerEncoder(Part):
    """Puts a sequence through several layers like one, each with weights of its own.

    PyTorch's nn.TransformerEncoder. Parameters are named layers.0. and so on, and norm.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        The layer that all are like.
    num_layers : int
        How many layers.
    norm : Layer, optional
        A layer after the last one.
    enable_nested_tensor, mask_check : bool
        They choose among PyTorch's ways to compute the same, and have no effect.

    Raises
    ------
    Error
        For what is no such layer.

    Examples
    --------
    >>> layer = accrue.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> accrue.TransformerEncoder(layer, 2)(accrue.input(5, 8))
    value [N, 5, 8]
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: _accrue.Layer | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__()
        _check(isinstance(encoder_layer, TransformerEncoderLayer),
               f"TransformerEncoder of {encoder_layer!r}: expected a TransformerEncoderLayer")
        _check(isinstance(num_layers, int) and num_layers >= 1,
               f"TransformerEncoder with num_layers={num_layers!r}: expected a number from 1")
        _check(norm is None or isinstance(norm, _accrue.Layer),
               f"TransformerEncoder with norm={norm!r}: expected a layer, or None")
        for what, given in (("enable_nested_tensor", enable_nested_tensor), ("mask_check", mask_check)):
            _check(isinstance(given, bool), f"TransformerEncoder with {what}={given!r}: expected True or False")
        self.layers, self.norm = [encoder_layer._copy() for _ in range(num_layers)], norm
        self._parts = _accrue.scope("layers")

    def __repr__(self) -> str:
        return f"{len(self.layers)} times {self.layers[0]!r}"

    def _copy(self) -> Part:
        return TransformerEncoder(self.layers[0], len(self.layers), self.norm)

    def __call__(self, src: Value, mask: _Any = None, src_key_padding_mask: Value | None = None,
                 is_causal: bool | None = None, *, name: str = "") -> Value:
        """Calls the layers on a value.

        Parameters
        ----------
        src : Value
            [T, N, d_model], or [N, T, d_model] with batch_first=True of the layer.
        mask, src_key_padding_mask : Value, optional
            The masks of MultiheadAttention.
        is_causal : bool, optional
            A hint that mask is causal, which it needs.
        name : str
            What its parameters' names begin with; by default its number in the network.

        Returns
        -------
        Value
            Of src's sizes.
        """
        with self._within(name):
            with self._parts:
                for i, layer in enumerate(self.layers):
                    src = layer(src, mask, src_key_padding_mask, bool(is_causal), name=str(i))
            return src if self.norm is None else self.norm(src, name="norm")
