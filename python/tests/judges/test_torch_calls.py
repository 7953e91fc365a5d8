"""Calls of torch.nn.Modules, one by one, beside PyTorch in float64: answers, gradients, every split."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.thorough
N = 6


def changed(write):
    """x after a change in place."""
    def call(x):
        y = x.clone()
        write(y, x)
        return y
    return call


def put(place, of=lambda x: x.exp()):
    """x[place] = a part of another."""
    def write(y, x):
        y[place] = of(x)[place] if callable(of) else of
    return changed(write)


class Case(nn.Module):
    def __init__(self, call, shape, layers):
        super().__init__()
        self.call, self.layers = call, layers
        self.scale = nn.Parameter(1 + 0.1 * torch.randn(shape))

    def forward(self, x):
        y = self.call(x * self.scale, *self.layers) if self.layers else self.call(x * self.scale)
        return y.flatten(1) if y.dim() > 1 else y.unsqueeze(1)


def attention(is_causal=False, mask=None, scale=None):
    def call(x):
        q, k, v = x.transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale)
    return call


def heads_of(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention_of_packed(x, l):
    q, k, v = l(x).reshape(x.size(0), 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def attention_of_groups(x, l):
    q, k, v = (heads_of(each, n) for each, n in zip(l(x).split([12, 6, 6], 2), (4, 2, 2)))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)


def attention_of_windows(x, l):
    q, k, v = (heads_of(each, 2) for each in l(x.reshape(-1, 2, 6)).chunk(3, 2))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.size(0), 2, 2, 4)


def attention_across(x, to_queries, to_keys):
    k, v = to_keys(x).unflatten(2, (2, 3, 2)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(heads_of(to_queries(x[:, 1:4]), 3), k, v)
    return y + k.mean(-2, keepdim=True)


IMAGE, ROWS, FLAT = (4, 6, 5), (5, 12), (12,)
ELEMENTWISE = ("relu sigmoid tanh exp expm1 abs neg sign floor erf sin cos tan atan sinh cosh asinh square exp2 "
               "relu6 round ceil").split()
POSITIVE = "log sqrt rsqrt reciprocal log2 log10".split()
WITHIN_ONE = "asin acos atanh".split()
CASES = {
    **{name: (getattr(torch, name, None) or getattr(F, name), FLAT) for name in ELEMENTWISE},
    **{name: (lambda x, f=getattr(torch, name): f(x.abs() + 0.5), FLAT) for name in POSITIVE},
    **{name: (lambda x, f=getattr(torch, name): f(0.9 * x.tanh()), FLAT) for name in WITHIN_ONE},
    "acosh": (lambda x: torch.acosh(x.abs() + 1.5), FLAT),
    "log1p": (lambda x: torch.log1p(x * x), FLAT),
    "gelu": (F.gelu, FLAT), "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), FLAT),
    "silu": (F.silu, FLAT), "mish": (F.mish, FLAT), "selu": (F.selu, FLAT), "celu": (lambda x: F.celu(x, 1.5), FLAT),
    "elu": (lambda x: F.elu(x, 0.7), FLAT), "softplus": (lambda x: F.softplus(x, 2, 1), FLAT),
    "softsign": (F.softsign, FLAT), "hardswish": (F.hardswish, FLAT), "logsigmoid": (F.logsigmoid, FLAT),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), FLAT), "hardtanh": (lambda x: F.hardtanh(x, -0.5, 1), FLAT),
    "hardshrink": (F.hardshrink, FLAT), "softshrink": (F.softshrink, FLAT), "tanhshrink": (F.tanhshrink, FLAT),
    "threshold": (lambda x: F.threshold(x, 0.1, 2.0), FLAT), "prelu": (lambda x, l: l(x), IMAGE, lambda: nn.PReLU(4)),
    "prelu_one": (lambda x, l: l(x), FLAT, nn.PReLU), "glu": (lambda x: F.glu(x, 1), FLAT),
    "arithmetic": (lambda x: (2 - x) * 3 / (x * x + 1) + 1 / (2 + x * x) - x ** 3 + (x * x + 1) ** 0.5 + 2 ** x, FLAT),
    "add_alpha": (lambda x: torch.add(x, x.square(), alpha=3) - torch.sub(x, x.exp(), alpha=0.5), FLAT),
    "rsub": (lambda x: torch.rsub(x, 2, alpha=3), FLAT), "pow": (lambda x: (x.abs() + 0.5) ** (x * x), FLAT),
    "addcmul": (lambda x: torch.addcmul(x, x, x, value=0.5), FLAT),
    "addcdiv": (lambda x: torch.addcdiv(x, x, x * x + 1, value=0.5), FLAT),
    "lerp": (lambda x: torch.lerp(x, x.exp(), 0.3), FLAT),
    "remainder": (lambda x: torch.remainder(x, 0.7) + torch.remainder(x, x.exp()) + torch.fmod(x, -0.3), FLAT),
    "trunc": (lambda x: (3 * x).trunc() * x + x.frac(), FLAT),
    "detach": (lambda x: x * x.detach() + (x - x.detach()) * 3 + x.exp().detach().relu() * x, FLAT),
    "straight_through": (lambda x: x + (x.round() - x).detach(), FLAT),
    "compare": (lambda x: torch.where((x > 0) & (x < 1) | ~(x >= -1), x * 2, x.exp()), FLAT),
    "masked_fill": (lambda x: x.masked_fill(x > 0.5, -2.0), FLAT),
    "maximum": (lambda x: torch.maximum(x, x.square()) + torch.minimum(x, 1 - x), FLAT),
    "clamp": (lambda x: x.clamp(-0.5, 0.7) + x.clamp(min=0.1) + torch.clamp_max(x, 0.3), FLAT),
    "clamp_tensor": (lambda x: torch.clamp(x, x.square() - 1, x.square() + 0.1), FLAT),
    "cast": (lambda x: x * (x > 0).to(x.dtype) + x.double(), FLAT),
    "full": (lambda x: torch.cat([x, torch.zeros_like(x[:, :2]), x.new_ones(x.shape[0], 1),
                                  torch.full((x.shape[0], 2), 0.5, dtype=x.dtype)], 1) * 2, FLAT),
    "constants": (lambda x: x * torch.arange(12, dtype=x.dtype) + torch.eye(12, dtype=x.dtype)[3], FLAT),
    "permute": (lambda x: x.permute(0, 3, 1, 2) * 2, IMAGE), "transpose": (lambda x: x.transpose(1, 3) * 2, IMAGE),
    "movedim": (lambda x: x.movedim(1, -1) * 2, IMAGE), "mT": (lambda x: x.mT * 2, IMAGE),
    "first_last": (lambda x: (x.permute(1, 0, 2) * torch.arange(5.0).reshape(5, 1, 1).double()).transpose(0, 1), ROWS),
    "reshape": (lambda x: x.reshape(x.shape[0] * 4, 30).softmax(-1).view(-1, 4, 30), IMAGE),
    "reshape_turns": (lambda x: F.linear(x.transpose(0, 1).reshape(5 * x.shape[0], 12), torch.eye(12).double() * 2)
                      .view(5, x.shape[0], 12).transpose(0, 1), ROWS),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)).flatten(2, 3).unsqueeze(1).squeeze(1).squeeze() * 2, IMAGE),
    "expand": (lambda x: x[:, :1].expand(-1, 4, -1, -1) * x, IMAGE), "repeat": (lambda x: x.repeat(1, 2, 1, 3), IMAGE),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 2), IMAGE),
    "cat": (lambda x: torch.cat([x, x.exp()], 2), IMAGE), "stack": (lambda x: torch.stack([x, x.exp()], 2), IMAGE),
    "hstack": (lambda x: torch.hstack([x, x.exp()]), IMAGE),
    "split": (lambda x: torch.cat([p * i for i, p in enumerate(x.split([1, 3, 2], 2))], 2), IMAGE),
    "split_even": (lambda x: x.split(2, 1)[0] * x.split(2, 1)[1], IMAGE),
    "chunk": (lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], IMAGE),
    "unbind": (lambda x: sum(p * i for i, p in enumerate(x.unbind(3))), IMAGE),
    "slice": (lambda x: x[:, 1:, ::2, -3:-1] * 2, IMAGE), "select": (lambda x: x[:, -1] * x[:, 0], IMAGE),
    "narrow": (lambda x: x.narrow(2, 1, 3) * 2, IMAGE), "roll": (lambda x: x.roll((1, -2), (1, 3)) * x, IMAGE),
    "flip": (lambda x: x.flip(2, 3) * x, IMAGE), "tril": (lambda x: x.tril(1) - x.triu(-1), IMAGE),
    "index": (lambda x: x[:, :, [0, 2, -1]], IMAGE),
    "index_pair": (lambda x: x[:, :, torch.tensor([[0, 1], [2, 3]]), torch.tensor([[4, 0], [1, -1]])] * 2, IMAGE),
    "put_slice": (put((slice(None), slice(None), slice(1, 4))), IMAGE),
    "put_ends": (changed(lambda y, x: (y[:, :1].copy_(x[:, 1:2] ** 2), y[:, :, -2:].zero_(), y[..., 1].fill_(2))),
                 IMAGE),
    "put_every_other": (put((slice(None), slice(None), slice(1, None, 2))), IMAGE),
    "put_select": (put((slice(None), slice(None), -2)), IMAGE),
    "put_into_zeros": (lambda x: torch.zeros_like(x).slice_scatter(x[:, 1:3] * 2, 1, 0, 2) + x, IMAGE),
    "put_mask": (changed(lambda y, x: y.__setitem__(x > 0.5, -2.0)), IMAGE),
    "put_into_parameter": (lambda x, l: F.linear(x, l.weight.clone().slice_scatter(
        torch.zeros(1, 12).double(), 0, 1, 2)), FLAT, lambda: nn.Linear(12, 3, bias=False)),
    "diagonal": (lambda x: torch.cat([x.diagonal(d, 2, 3) for d in (0, 1, -2)], 2) * 2, IMAGE),
    "unfold": (lambda x: x.unfold(2, 3, 2) * x.unfold(2, 3, 1)[:, :, ::3], IMAGE),
    "im2col": (lambda x: F.unfold(x, (3, 2), dilation=(2, 1), padding=(1, 0), stride=(1, 2)), IMAGE),
    "index_select": (lambda x: x.index_select(2, torch.tensor([5, 0, 0])), IMAGE),
    "gather": (lambda x: x.gather(1, x.argmax(1, keepdim=True)), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2) * 2, IMAGE),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2) * 2, IMAGE),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), IMAGE),
    "pad_reflect": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), IMAGE),
    "pad_replicate": (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), IMAGE),
    "pad_negative": (lambda x: F.pad(x, (-1, 0, 0, -2)), IMAGE),
    "sum": (lambda x: x.sum((1, 3)) + x.sum(dim=(1, 3), keepdim=True).squeeze(3).squeeze(1), IMAGE),
    "mean": (lambda x: x.mean(-1) + x.mean([2, 3], keepdim=True).squeeze(-1), IMAGE),
    "amax": (lambda x: x.amax((2, 3)) - x.amin(3).sum(2), IMAGE),
    "max_dim": (lambda x: x.max(2).values - x.min(2, keepdim=True)[0].squeeze(2), IMAGE),
    "var": (lambda x: x.var(1) + x.std(1, keepdim=True).squeeze(1) + x.var(1, correction=0), IMAGE),
    "var_mean": (lambda x: sum(torch.var_mean(x, (2, 3))), IMAGE),
    "norm": (lambda x: x.norm(dim=1) + x.norm(1, dim=1) + F.normalize(x, dim=1).sum(1), IMAGE),
    "prod": (lambda x: x.prod(1) + x[:, :3].prod(2).sum(1, keepdim=True).sum(2, keepdim=True), IMAGE),
    "prod_with_zero": (lambda x: (x.relu() + 0 * x).prod(3), IMAGE),
    "logsumexp": (lambda x: x.logsumexp(1), IMAGE), "cumsum": (lambda x: x.cumsum(1), IMAGE),
    "softmax": (lambda x: x.softmax(1) + F.softmin(x, 3), IMAGE), "log_softmax": (lambda x: x.log_softmax(2), IMAGE),
    "linear": (lambda x, l: l(x), ROWS, lambda: nn.Linear(12, 3)),
    "linear_no_bias": (lambda x, l: l(x), FLAT, lambda: nn.Linear(12, 3, bias=False)),
    "bilinear_by_einsum": (lambda x: torch.einsum("nth,nsh->nts", x, x.exp()), ROWS),
    "einsum": (lambda x, l: torch.einsum("nth,oh->no", x, l.weight), ROWS, lambda: nn.Linear(12, 3, bias=False)),
    "matmul": (lambda x: x @ x.mT @ torch.linspace(0, 1, 5).double(), ROWS),
    "bmm": (lambda x: torch.bmm(x, x.transpose(1, 2)), ROWS),
    "addmm": (lambda x, l: torch.addmm(l.bias, x, l.weight.T, beta=0.5, alpha=2), FLAT, lambda: nn.Linear(12, 3)),
    "baddbmm": (lambda x: torch.baddbmm(x[:, :, :5], x, x.transpose(1, 2), alpha=0.5), ROWS),
    "conv1d": (lambda x, l: l(x), ROWS, lambda: nn.Conv1d(5, 4, 3, 2, 1)),
    "conv1d_same": (lambda x, l: l(x), ROWS, lambda: nn.Conv1d(5, 5, 3, padding="same", dilation=2, groups=5)),
    "conv2d": (lambda x, l: l(x), IMAGE, lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2)),
    "conv2d_reflect": (lambda x, l: l(x), IMAGE, lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect")),
    "conv_transpose1d": (lambda x, l: l(x), ROWS, lambda: nn.ConvTranspose1d(5, 4, 3, 2, 1, 1)),
    "conv_transpose2d": (lambda x, l: l(x), IMAGE, lambda: nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 0), 2)),
    "batch_norm_eval": (lambda x, l: l(x), IMAGE, lambda: nn.BatchNorm2d(4).eval()),
    "layer_norm": (lambda x, l: l(x), ROWS, lambda: nn.LayerNorm(12)),
    "layer_norm_two": (lambda x, l: l(x), IMAGE, lambda: nn.LayerNorm((6, 5))),
    "layer_norm_plain": (lambda x, l: l(x), ROWS, lambda: nn.LayerNorm(12, elementwise_affine=False)),
    "rms_norm": (lambda x, l: l(x), ROWS, lambda: nn.RMSNorm(12)),
    "group_norm": (lambda x, l: l(x), IMAGE, lambda: nn.GroupNorm(2, 4)),
    "group_norm_rows": (lambda x, l: l(x), (4, 12), lambda: nn.GroupNorm(2, 4)),
    "instance_norm": (lambda x, l: l(x), IMAGE, lambda: nn.InstanceNorm2d(4, affine=True)),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), ROWS), "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2), ROWS),
    "avg_pool": (lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), count_include_pad=False), IMAGE),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), IMAGE),
    "adaptive1d": (lambda x: F.adaptive_avg_pool1d(x, 5), ROWS),
    "adaptive_max": (lambda x: F.adaptive_max_pool2d(x, (2, 1)), IMAGE),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest_size": (lambda x: F.interpolate(x, size=(9, 4)), IMAGE),
    "nearest_exact": (lambda x: F.interpolate(x, size=(9, 4), mode="nearest-exact"), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, size=(9, 7), mode="bilinear"), IMAGE),
    "bilinear_aligned": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), IMAGE),
    "attention": (attention(), (5, 2, 12)), "attention_causal": (attention(True, scale=0.3), (5, 2, 12)),
    "attention_mask": (attention(mask=torch.ones(5, 5).tril(1).bool()), (5, 2, 12)),
    "attention_added": (attention(mask=torch.linspace(-1, 1, 25).reshape(5, 5).double()), (5, 2, 12)),
    "attention_rows": (lambda x: F.scaled_dot_product_attention(x, x, x), ROWS),
    "multihead": (lambda x, l: l(x, x, x, need_weights=False)[0], ROWS,
                  lambda: nn.MultiheadAttention(12, 3, batch_first=True)),
    "multihead_weights": (lambda x, l: l(x, x, x)[0], ROWS, lambda: nn.MultiheadAttention(12, 3, batch_first=True)),
    "multihead_first": (lambda x, l: l(*[x.transpose(0, 1)] * 3)[0].transpose(0, 1), ROWS,
                        lambda: nn.MultiheadAttention(12, 3)),
    "transformer": (lambda x, l: l(x), ROWS,
                    lambda: nn.TransformerEncoderLayer(12, 3, 16, dropout=0, batch_first=True)),
    "transformer_first": (lambda x, l: l(x.transpose(0, 1)).transpose(0, 1), ROWS,
                          lambda: nn.TransformerEncoderLayer(12, 3, 16, dropout=0, norm_first=True)),
    "packed_attention": (attention_of_packed, ROWS, lambda: nn.Linear(12, 24)),
    "packed_groups": (attention_of_groups, ROWS, lambda: nn.Linear(12, 24)),
    "packed_windows": (attention_of_windows, (4, 6), lambda: nn.Linear(6, 12)),
    "attention_across": (attention_across, ROWS, lambda: nn.Linear(12, 6), lambda: nn.Linear(12, 12)),
    "moved_linear": (lambda x, l: l(x.transpose(0, 1)).reshape(-1, 2, 3)[:, 1].reshape(5, -1, 3).transpose(0, 1), ROWS,
                     lambda: nn.Linear(12, 6)),
    "moved_back": (lambda x, l: l(x.transpose(0, 1)).unflatten(2, (2, 3)).permute(1, 0, 2, 3), ROWS,
                   lambda: nn.Linear(12, 6)),
    "moved_on": (lambda x, l: F.relu(l(x.permute(1, 0, 2))).transpose(0, 1), ROWS, lambda: nn.Linear(12, 6)),
    "lstm": (lambda x, l: l(x)[0], ROWS, lambda: nn.LSTM(12, 4, batch_first=True)),
    "gru": (lambda x, l: l(x)[0], ROWS, lambda: nn.GRU(12, 4, 2, batch_first=True)),
    "rnn": (lambda x, l: l(x)[0], ROWS, lambda: nn.RNN(12, 4, batch_first=True)),
    "weight_norm": (lambda x, l: l(x), FLAT, lambda: nn.utils.parametrizations.weight_norm(nn.Linear(12, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_call(name):
    call, shape, *layers = CASES[name]
    torch.manual_seed(1)
    module = Case(call, shape, nn.ModuleList(each() for each in layers)).double()
    if name == "batch_norm_eval":
        module.layers[0].running_mean.normal_()
        module.layers[0].running_var.uniform_(0.5, 2)
    random = np.random.default_rng(2)
    x = random.normal(size=(N, *shape))
    answer = module(torch.tensor(x))
    y = random.normal(size=answer.shape)
    F.mse_loss(answer, torch.tensor(y)).backward()
    traced = accrue.from_torch(module, x)
    np.testing.assert_allclose(accrue.predict(traced, x), answer.detach().numpy(), rtol=1e-11, atol=1e-12)
    largest = max(float(p.grad.abs().max()) for p in module.parameters())
    for micro in (N, 4, 1):
        step = accrue.train(traced, (x, y), optimizer="sgd", momentum=0, lr=1, weight_decay=0, schedule="constant",
                            effective_batch=N, micro_batch=micro, threads=1)
        after = step.state_dict()
        for parameter, p in module.named_parameters():
            gradient = (p - after[parameter]).detach().numpy()
            np.testing.assert_allclose(gradient, p.grad.numpy(), rtol=0, atol=1e-11 * max(largest, 1), err_msg=parameter)


@pytest.mark.parametrize("name", ("packed_attention", "packed_groups", "packed_windows", "multihead", "moved_back"))
def test_moved_heads_are_not_copied(name):
    call, shape, *layers = CASES[name]
    module = Case(call, shape, nn.ModuleList(each() for each in layers))
    calls = str(accrue.from_torch(module, np.zeros((N, *shape), np.float32)))
    assert ("attention_rows" in calls) == (name != "moved_back")
    assert not [copy for copy in ("transpose(", "permute(", "slice(", "split(", "chunk(") if copy in calls]
