"""Attention whose heads come from linear layers in many ways: gradients beside PyTorch's in float64."""

import random

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]
# How heads are cut from rows. "packed" linear layers make queries, keys and values at once.
FORMS = ("packed by parts", "packed by parts, from a column on", "packed, keys first", "packed by [3, H, D]",
         "packed by [H, 3, D]", "packed and unbound", "keys and values packed", "apart", "channels outside heads",
         "the same for all")


class Attention(torch.nn.Module):
    def __init__(self, form, draw):
        super().__init__()
        self.form, self.H, self.D, self.T = form, draw.choice((1, 2, 3, 4)), draw.choice((1, 2, 3)), draw.choice((1, 2, 5))
        takes_groups = form in FORMS[:2] or form in FORMS[6:9]
        self.G = draw.choice([G for G in range(1, self.H + 1) if self.H % G == 0]) if takes_groups else self.H
        self.is_causal, self.scale = draw.random() < 0.4, draw.choice((None, 0.7))
        self.has_tokens_first, self.turns = draw.random() < 0.3, draw.random() < 0.2
        H, G, D, has_bias = self.H, self.G, self.D, draw.random() < 0.5
        before = D if form == FORMS[1] else 0
        self.qkv = torch.nn.Linear(4, before + (H + 2 * G) * D, bias=has_bias)
        self.q, self.k, self.v = (torch.nn.Linear(4, heads * D, bias=has_bias) for heads in (H, G, G))
        self.out = torch.nn.Linear(H * D, 3)

    def heads(self, rows, count):
        rows = rows.view(*rows.shape[:2], count, self.D)
        return rows.permute(1, 2, 0, 3) if self.has_tokens_first else rows.transpose(1, 2)

    def parts(self, x):
        H, G, D, form = self.H, self.G, self.D, self.form
        samples, tokens = (1, 0) if self.has_tokens_first else (0, 1)
        if form in FORMS[:2]:
            packed = self.qkv(x)[..., D if form == FORMS[1] else 0:]
            q, k, v = packed.split([H * D, G * D, G * D], -1)
        elif form == "packed, keys first":
            k, q, v = self.qkv(x).chunk(3, -1)
        elif form == "packed by [3, H, D]":
            return self.qkv(x).view(*x.shape[:2], 3, H, D).permute(2, samples, 3, tokens, 4)
        elif form == "packed by [H, 3, D]":
            return self.qkv(x).view(*x.shape[:2], H, 3 * D).permute(samples, 2, tokens, 3).chunk(3, -1)
        elif form == "packed and unbound":
            packed = self.qkv(x).view(*x.shape[:2], 3, H, D).transpose(0, samples)
            return [each.transpose(1, 2) for each in packed.unbind(2)]
        elif form == "keys and values packed":
            q, (k, v) = self.q(x), self.qkv(x)[..., :2 * G * D].chunk(2, -1)
        elif form == "channels outside heads":
            return [layer(x).view(*x.shape[:2], D, heads).permute(samples, 3, tokens, 2)
                    for layer, heads in ((self.q, H), (self.k, G), (self.v, G))]
        elif form == "the same for all":
            return [self.heads(self.q(x), H)] * 3
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        return self.heads(q, H), self.heads(k, G), self.heads(v, G)

    def forward(self, x):
        q, k, v = self.parts(x.transpose(0, 1) if self.has_tokens_first else x)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal, scale=self.scale,
                                           enable_gqa=self.H != self.G)
        y = y.flip(2) if self.turns else y
        return self.out(y.transpose(1, 2).reshape(x.shape[0], self.T, self.H * self.D)).mean(1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_gradients(form, seed):
    draw = random.Random(f"{form} {seed}")
    torch.manual_seed(seed)
    module = Attention(form, draw).double()
    numbers = np.random.default_rng(seed)
    x, y = numbers.normal(size=(6, module.T, 4)), numbers.normal(size=(6, 3))
    # A step of SGD at a rate of 1 takes the gradient away.
    after = accrue.train(module, (x, y), loss="mse", optimizer="sgd", lr=1.0, momentum=0.0, steps=1, effective_batch=6,
                         micro_batch=draw.choice((1, 2, 4, 6)), precision="fp64", threads=1).state_dict()
    F.mse_loss(module(torch.tensor(x)), torch.tensor(y)).backward()
    for name, parameter in module.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        # Sums of a few hundred terms below 10 round by less than 1e-12.
        torch.testing.assert_close(parameter.detach() - after[name], gradient, rtol=0, atol=1e-12, msg=name)


# Ways from a mask [N, T], 1 where a key is there, to the mask of attention. KEYS are masks of keys to accrue, some of
# them causal; the others are computed by products.
KEYS = ("truths", "truths of each query", "truths and a triangle", "a triangle of truths", "minus infinity",
        "minus infinity of each query", "a triangle of minus infinity", "padding of nn.MultiheadAttention", "Conv1D")
OTHERS = ("a band", "a large number", "truths and dropout")


class Masked(torch.nn.Module):
    def __init__(self, kind, H=2, D=3):
        super().__init__()
        self.kind, self.H, self.D = kind, H, D
        self.qkv, self.out = torch.nn.Linear(4, 3 * H * D), torch.nn.Linear(H * D, 3)
        if kind == "Conv1D":
            self.weight = torch.nn.Parameter(torch.randn(4, 3 * H * D))
        if kind == "padding of nn.MultiheadAttention":
            self.attention = torch.nn.MultiheadAttention(4, H, batch_first=True)
            self.out = torch.nn.Linear(4, 3)

    def mask(self, there, T):
        keys, kind = (there > 0)[:, None, None, :], self.kind
        triangle = torch.ones(T, T, dtype=torch.bool).tril()
        if kind == "truths of each query":
            return keys.expand(-1, 1, T, -1)
        if kind == "truths and a triangle":
            return keys & triangle
        if kind == "a triangle of truths":
            return triangle
        if kind == "a band":
            return keys & triangle & torch.ones(T, T, dtype=torch.bool).triu(-1)
        if "infinity" in kind:
            hidden = torch.zeros_like(keys, dtype=there.dtype).masked_fill(~keys, -torch.inf)
            if kind == "a triangle of minus infinity":
                return hidden + torch.full((T, T), -torch.inf, dtype=there.dtype).triu(1)
            return hidden.expand(-1, self.H, T, -1) if "query" in kind else hidden
        if kind == "a large number":
            return (1 - there[:, None, None, :]) * -1e9
        return keys

    def forward(self, x, there):
        N, T, _ = x.shape
        there = there.to(x.dtype)
        if self.kind == "padding of nn.MultiheadAttention":
            return self.out(self.attention(x, x, x, key_padding_mask=there == 0, need_weights=False)[0])
        if self.kind == "Conv1D":  # of transformers' GPT-2
            packed = torch.addmm(self.qkv.bias, x.reshape(-1, 4), self.weight).view(N, T, -1)
        else:
            packed = self.qkv(x)
        q, k, v = (each.view(N, T, self.H, self.D).transpose(1, 2) for each in packed.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, self.mask(there, T), 1e-15 if "dropout" in self.kind else 0.0)
        return self.out(y.transpose(1, 2).reshape(N, T, -1))


@pytest.mark.parametrize("kind", (*KEYS, *OTHERS))
def test_masks(kind):
    torch.manual_seed(1)
    module, T = Masked(kind).double(), 5
    numbers = np.random.default_rng(1)
    x, y = numbers.normal(size=(6, T, 4)), numbers.normal(size=(6, T, 3))
    there = (numbers.random((6, T)) < 0.6).astype(np.int64)
    there[0], there[1] = [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]  # with a triangle, the first queries see nothing
    there[2] = 0 if kind not in ("padding of nn.MultiheadAttention", "a large number") else 1
    there[3:, 1] = 1
    net = accrue.from_torch(module, {"x": x, "there": there})
    calls = repr(net)
    assert ("attention_rows" in calls) == (kind in KEYS)
    assert ("transpose(" in calls or "permute(" in calls) == (kind not in KEYS)
    after = accrue.train(net, ({"x": x, "there": there}, y), loss="mse", optimizer="sgd", lr=1.0, momentum=0.0, steps=1,
                         effective_batch=6, micro_batch=2, precision="fp64", threads=1).state_dict()
    F.mse_loss(module(torch.tensor(x), torch.tensor(there)), torch.tensor(y)).backward()
    for name, parameter in module.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert torch.isfinite(gradient).all()
        torch.testing.assert_close(parameter.detach() - after[name], gradient, rtol=0, atol=1e-12, msg=name)
