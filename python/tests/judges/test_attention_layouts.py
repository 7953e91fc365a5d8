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
