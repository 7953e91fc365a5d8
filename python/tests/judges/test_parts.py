"""Layers with several inputs or results, by PyTorch's weights: gradients in float64, whole and split."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough
N, T, F = 6, 5, 8
MASK = np.triu(np.ones((T, T), bool), 1)
NUMBERS = np.random.default_rng(5).normal(size=(T, T))


def once(run, layer, x, of):
    return run(x)


def attend(**options):
    return lambda run, layer, x, of: run(x, x, x, **options)


def masked(run, layer, x, of):
    return run(x, x, x, attn_mask=MASK if of is accrue else torch.tensor(MASK), is_causal=True)


def weighed(run, layer, x, of):
    return run(x, x, x, attn_mask=NUMBERS if of is accrue else torch.tensor(NUMBERS), average_attn_weights=False)


def cross(run, layer, x, of):
    """Other keys and values than queries."""
    return run(x[:, 1:4], x, x.flip((1,))[..., :layer.vdim], need_weights=layer.vdim == F)


def reversed_values(run, layer, x, of):
    return run(x, x, x.flip((1,)))


def padded(run, layer, x, of):
    """Numbers that hide keys, by the samples."""
    weights = np.array([[0.0] + [-9.0] * (T - 1)])
    return run(x, x, x, key_padding_mask=x[:, :, 0] * (accrue.constant if of is accrue else torch.tensor)(weights))


def hidden(run, layer, x, of):
    """Without the last keys."""
    is_hidden = np.array([[0, 0, 0, 1, 1]], np.int32)
    mask = accrue.constant(is_hidden) if of is accrue else torch.tensor(is_hidden, dtype=torch.bool)
    return run(x, x, x, mask.expand(x.shape[0], -1))


def causal(run, layer, x, of):
    return run(x, MASK if of is accrue else torch.tensor(MASK))


def stated(run, layer, x, of):
    """Begins with a state that depends on the samples."""
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    h = of.stack([x.mean(1) * (k + 1) for k in range(directions)], 0)
    return run(x, (h[:, :, :layer.proj_size or F], h * 0.5) if isinstance(layer, (nn.LSTM, accrue.LSTM)) else h)


LAYERS = [
    (attend(), "MultiheadAttention", (F, 2), {}), (attend(), "MultiheadAttention", (F, 4, 0.0, False), {}),
    (attend(need_weights=False), "MultiheadAttention", (F, 2), {}), (masked, "MultiheadAttention", (F, 4), {}),
    (weighed, "MultiheadAttention", (F, 2), {}), (cross, "MultiheadAttention", (F, 2), {}),
    (reversed_values, "MultiheadAttention", (F, 2), {}), (cross, "MultiheadAttention", (F, 4), {"vdim": 5}),
    (cross, "MultiheadAttention", (F, 4, 0.0, False), {"vdim": 5}),
    (masked, "MultiheadAttention", (F, 2), {"add_bias_kv": True, "add_zero_attn": True}),
    (padded, "MultiheadAttention", (F, 2), {"add_zero_attn": True}), (padded, "MultiheadAttention", (F, 1), {}),
    (hidden, "MultiheadAttention", (F, 2), {}),
    (once, "TransformerEncoderLayer", (F, 2, 16, 0.0), {}),
    (once, "TransformerEncoderLayer", (F, 4, 12, 0.0, "gelu", 0.1), {"norm_first": True}),
    (causal, "TransformerEncoderLayer", (F, 4, 12, 0.0), {"bias": False}),
    (once, "LSTM", (F, 7), {}), (once, "LSTM", (F, 3, 2, False), {}), (once, "LSTM", (F, 6), {"proj_size": 4}),
    (stated, "LSTM", (F, F, 2), {"bidirectional": True}),
    (stated, "LSTM", (F, F), {"bidirectional": True, "proj_size": 3}),
    (once, "GRU", (F, 7, 2), {}), (once, "GRU", (F, 3), {"bias": False}),
    (once, "GRU", (F, 4), {"bidirectional": True}),
    (stated, "GRU", (F, F, 2), {"bidirectional": True}), (once, "RNN", (F, 7), {}),
    (stated, "RNN", (F, F, 1, "relu"), {}), (once, "RNN", (F, 4, 2), {"nonlinearity": "relu", "bias": False})]


def features_of(call, layer, batch_first, x, of, **named):
    """The features of samples, [N, C], which a layer's results have, called on x [N, T, F]."""
    is_recurrent = isinstance(layer, nn.RNNBase) or hasattr(layer, "hidden_size")

    def run(*inputs, **more):
        """The layer, with samples first."""
        turned = {id(each): each if batch_first else each.transpose(0, 1) for each in inputs[:1 if is_recurrent else 3]
                  if isinstance(each, type(x)) and len(each.shape) == 3}
        made = layer(*(turned.get(id(each), each) for each in inputs), **more, **named)
        first, *others = made if isinstance(made, tuple) else (made,)
        return first if batch_first else first.transpose(0, 1), *others

    output, *others = call(run, layer, x, of)
    features = [output.flatten(1)]
    for other in others:
        states = other if isinstance(other, tuple) else (other,)
        features += [(s.transpose(0, 1) if is_recurrent else s).flatten(1) for s in states if s is not None]
    return of.cat(features, 1)


def check(network, features, layer, head, call, batch_first, seed=2):
    """A step of both in float64."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(N, T, F)), random.integers(0, 3, N)
    made = head(features_of(call, layer, batch_first, torch.tensor(x), torch))
    loss = functional.cross_entropy(made, torch.tensor(y))
    loss.backward()
    parameters = {f"layer.{n}": p for n, p in layer.named_parameters()}
    parameters |= {f"head.{n}": p for n, p in head.named_parameters()}
    largest = max(p.grad.abs().max() for p in parameters.values())
    init = accrue.Weights({n: p.detach().numpy() for n, p in parameters.items()})
    for micro_batch in (N, 4, 1):
        result = accrue.train(network, (x, y), init=init, precision="fp64", effective_batch=N, no_shuffle=True,
                              micro_batch=micro_batch, optimizer="sgd", momentum=0, lr=1, schedule="constant",
                              weight_decay=0, steps=1)
        assert set(result.weights) == set(parameters)
        for n, p in parameters.items():
            assert np.abs(init[n] - result.weights[n] - p.grad.numpy()).max() <= 1e-10 * largest, n
        assert abs(result.losses[0] - loss.item()) < 1e-6


def both(name, arguments, options, call, batch_first):
    torch.manual_seed(1)
    layer = getattr(nn, name)(*arguments, **options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    x = accrue.input(T, F)
    features = features_of(call, getattr(accrue, name)(*arguments, **options), batch_first, x, accrue, name="layer")
    network = accrue.Network(x, accrue.Linear(features.shape[1], 3)(features, name="head"))
    return network, features, layer, nn.Linear(features.shape[1], 3).double()


@pytest.mark.parametrize("batch_first", (True, False))
@pytest.mark.parametrize("call, name, arguments, options", LAYERS)
def test_gradient(call, name, arguments, options, batch_first):
    check(*both(name, arguments, {**options, "batch_first": batch_first}, call, batch_first), call, batch_first)


@pytest.mark.parametrize("has_norm", (True, False))
def test_encoder(has_norm):
    torch.manual_seed(1)

    def encoder(of):
        layer = of.TransformerEncoderLayer(F, 2, 12, 0.0, batch_first=True, norm_first=True)
        norm = of.LayerNorm(F) if has_norm else None
        return of.TransformerEncoder(layer, 2, norm)

    layer, x = encoder(nn).double(), accrue.input(T, F)
    features = features_of(causal, encoder(accrue), True, x, accrue, name="layer")
    network = accrue.Network(x, accrue.Linear(T * F, 3)(features, name="head"))
    check(network, features, layer, nn.Linear(T * F, 3).double(), causal, True)
