"""onnxruntime, with the files of networks of values, answers what the networks answer for 1, 2 and
5 samples: every op of graphs, wherever the dimension of samples is, and networks of them."""

import accrue
import numpy as np
import pytest

onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.thorough

A = accrue
OF_ANY = """abs neg sign floor ceil round exp expm1 erf sin cos tan atan sinh cosh asinh square
    reciprocal relu gelu sigmoid tanh silu leaky_relu softplus hard_sigmoid hard_swish hardsigmoid
    hardswish elu celu selu mish softsign log_sigmoid logsigmoid threshold shrink pow_scalar
    add_scalar rsub div_scalar rdiv is_nan logical_not dropout""".split()
FROM_ONE_ON = "log log1p sqrt rsqrt acosh".split()
WITHIN_ONE = "asin acos atanh".split()
OF_TWO = """add mul sub div minimum maximum equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor""".split()


def weight(*shape):
    weight.count = getattr(weight, "count", 0) + 1
    return A.parameter(shape, f"w{weight.count}", std=1)


def rows(x):  # [N, 12, 5]
    return x.flatten(1, 2)


def rows_first(x):  # [12, N, 5]
    return rows(x).permute(1, 0, 2)


# They take x [N, 3, 4, 5].
CASES = {
    **{name: lambda x, f=getattr(A, name): f(x) for name in OF_ANY},
    **{name: lambda x, f=getattr(A, name): f(A.abs(x) + 1.5) for name in FROM_ONE_ON},
    **{name: lambda x, f=getattr(A, name): f(A.tanh(x) * 0.9) for name in WITHIN_ONE},
    **{name: lambda x, f=getattr(A, name): f(A.round(x), A.round(x.slice(2, 0, 1)))
       for name in OF_TWO},
    **{f"{name} {dim}": lambda x, f=getattr(A, name), dim=dim: f(x, dim)
       for name in ("softmax", "log_softmax", "cumsum") for dim in (0, 1, 2, -1)},
    **{f"pad {mode} {pads}": lambda x, mode=mode, pads=pads: A.pad(x, pads, mode)
       for mode in ("constant", "reflect", "replicate", "circular")
       for pads in ((1, 2, 2, 0), (0, 0, 2, 3, 1, 2))},
    **{f"adaptive_avg_pool2d {size}": lambda x, size=size: A.adaptive_avg_pool2d(x, size)
       for size in (1, 2, (2, 5), 3, (7, 6))},
    **{f"avg_pool2d {window} {ceil} {counts}":
       lambda x, window=window, ceil=ceil, counts=counts: A.avg_pool2d(x, *window, ceil, counts)
       for window in ((2, 2, 0), (2, 2, 1), (3, 2, 1), (4, 3, 2))
       for ceil in (False, True) for counts in (False, True)},
    **{f"interpolate {mode} {size}": lambda x, mode=mode, size=size: A.interpolate(
        x, size=size, mode=mode)
       for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
       for size in ((7, 9), 2, (4, 5), (164, 205))},
    **{f"interpolate {mode} by {factor}": lambda x, mode=mode, factor=factor: A.interpolate(
        x, scale_factor=factor, mode=mode, align_corners=mode == "bilinear")
       for mode in ("nearest", "bilinear", "bicubic") for factor in (0.5, 1.5, 2.0)},
    **{f"attention {causal}": lambda x, causal=causal: A.scaled_dot_product_attention(
        x, A.sin(x), A.cos(x), causal, 0.3) for causal in (False, True)},
    "log1p near 0": lambda x: A.log1p(x * 1e-4),
    "expm1 near 0": lambda x: A.expm1(x * 1e-4),
    "pow": lambda x: A.pow(A.abs(x), A.abs(x.slice(3, 1, 2))),
    "where": lambda x: A.where(A.greater(x, 0.0), x, x.slice(1, 0, 1)),
    "clamp": lambda x: A.clamp(x, -0.5, 0.25) + A.clamp(x, min=-0.5) + A.clamp(x, max=0.5),
    "clamp of infinity": lambda x: A.is_nan(
        A.clamp(A.reciprocal(A.abs(x * 0.0)), min=0.0) * 0.0),
    "atan2": lambda x: A.atan2(x, x.slice(1, 0, 1) - 0.3),
    "atan2 of zeros": lambda x: A.atan2(A.sign(A.relu(x)) * -1.0, A.relu(A.sin(x)) * -1.0),
    "scalars": lambda x: A.softplus(x, 3.0, 1.0) + A.elu(x, 0.3) + A.celu(x, 0.7) + A.threshold(
        x, 0.25, -3.0) + A.hard_sigmoid(x, 0.3, 0.6) + A.shrink(x, 0.25, 0.125),
    "scale": lambda x: A.scale(x, 3.0),
    "gelu tanh": lambda x: A.gelu(x, "tanh"),
    "stochastic_depth": lambda x: A.stochastic_depth(x, 0.3),
    "swiglu": lambda x: A.swiglu(x, A.sin(x)),
    "scale_add": lambda x: A.scale_add(x, weight(1), A.sin(x)),
    "linear": lambda x: A.linear(x, weight(5, 5), weight(5)),
    "linear of rows first": lambda x: A.linear(rows_first(x), weight(6, 5)).permute(1, 0, 2),
    "layer_norm": lambda x: A.layer_norm(x, 5, weight(5), weight(5)),
    "layer_norm of rows first": lambda x: A.layer_norm(rows_first(x), 5).permute(1, 0, 2),
    "rms_norm": lambda x: A.rms_norm(x, 5, weight(5)),
    "group_norm": lambda x: A.group_norm(A.cat([x, A.sin(x)], 1), 3, weight(6), weight(6)),
    "instance_norm": lambda x: A.instance_norm(x, weight(3), weight(3)),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "matmul of weights": lambda x: A.matmul(weight(2, 4), x) @ weight(5),
    "conv2d": lambda x: A.conv2d(x, weight(4, 3, 3, 2), None, (2, 1), (1, 0)),
    "conv2d in groups": lambda x: A.conv2d(x, weight(6, 1, 3, 3), weight(6), 1, 2, 2, 3),
    "conv_transpose2d": lambda x: A.conv_transpose2d(x, weight(3, 2, 3, 3), None, 2, 1, 1),
    "embedding": lambda x: A.embedding(A.argmax(x, 3), weight(5, 4)),
    "max_pool2d": lambda x: A.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "pixel_shuffle": lambda x: A.pixel_shuffle(x.permute(0, 2, 1, 3), 2),
    "crop": lambda x: A.crop(x, 1, 2, 2, 3),
    "detach": lambda x: (A.exp(x) * A.detach(A.sin(x)) + A.detach(x)).reshape(-1, 60),
    "reshape": lambda x: x.reshape(-1, 6).reshape(x.shape[0], 10, 6),
    "reshape to 3 N": lambda x: A.exp(x.reshape(3 * x.shape[0], 20)).reshape(x.shape[0], 60),
    "reshape to 4 N inside": lambda x: A.exp(x.permute(1, 0, 2, 3).reshape(
        3, 4 * x.shape[0], 5)).reshape(3, x.shape[0], 20).permute(1, 0, 2),
    "reshape with N last": lambda x: A.softmax(x.permute(1, 2, 3, 0).reshape(
        12, 5, x.shape[0]), 1).permute(2, 0, 1),
    "squeeze": lambda x: A.exp(x.unsqueeze(2)).squeeze(2).unsqueeze(-1),
    "cat": lambda x: A.cat([x, A.exp(x.slice(1, 0, 2)), x], 1),
    "cat of samples": lambda x: A.cat([x, A.exp(x)], 0).reshape(
        2, x.shape[0], 60).permute(1, 0, 2),
    "one_hot": lambda x: A.one_hot(A.argmax(x.flatten(1), 1), 7),
    "permute": lambda x: A.exp(x.permute(3, 0, 1, 2)).permute(1, 2, 0, 3),
    "transpose": lambda x: A.exp(x.transpose(-1, 1).transpose(0, 1)).transpose(0, 1),
    "slice": lambda x: A.cat([x.slice(3, 1, -1), x.slice(3, 0, None, 2), x.slice(3, -1, -100, -2),
                              x.slice(3, 3, 0, -1)], 3),
    "slice of samples": lambda x: x + x.slice(0, 0, 1),
    "split": lambda x: A.cat([A.exp(A.split(x, [2, 1, 2], 3)[0]), A.split(x, 2, -1)[2]], 3),
    "split in many": lambda x: A.cat(list(reversed(A.split(x.flatten(1), 6, 1))), 1),
    "chunk": lambda x: A.cat(list(reversed(A.chunk(x, 2, 2))), 2),
    "chunk of samples": lambda x: A.chunk(A.cat([x, A.exp(x)], 0), 2, 0)[1],
    "stack": lambda x: A.stack([x, A.exp(x)], 0).permute(1, 0, 2, 3, 4),
    "pad by a value": lambda x: A.pad(x, (1, -1, 0, 2), "constant", 2.5),
    "pad of indices": lambda x: A.embedding(A.pad(A.argmax(x, 3), (1, 1)), weight(5, 4)),
    "roll": lambda x: A.roll(x, (7, -2), (3, 1)),
    "roll of samples": lambda x: A.roll(x, 3, 0),
    "flip": lambda x: A.flip(x, (0, -1)),
    "expand": lambda x: A.cat([weight(1, 1, 4, 5).expand((x.shape[0], 1, 4, 5)),
                               x.slice(1, 0, 1).expand((-1, 4, -1, -1))], 1),
    "tile": lambda x: A.tile(x, (2, 1, 3)),
    "tile to more": lambda x: A.tile(x, (2, 1, 1, 1, 2)).permute(1, 0, 2, 3, 4),
    "index_select": lambda x: A.index_select(x, -1, A.constant(np.array([4, 0, 0, 2]))),
    "gather": lambda x: A.gather(x, 3, A.argmin(x, 3, True)),
    "argmax": lambda x: A.one_hot(A.argmax(x.flatten(1), -1, True).squeeze(1), 60),
    "argmin": lambda x: A.one_hot(A.argmin(x.flatten(1), 1), 60),
    "var by 0": lambda x: A.var(x, (2, 3), 0),
    "attention in groups": lambda x: A.scaled_dot_product_attention(
        x.permute(0, 2, 1, 3), x.permute(0, 2, 1, 3).slice(1, 0, 2),
        x.permute(0, 2, 1, 3).slice(1, 2, 4), True),
    "attention_rows": lambda x: A.attention_rows(
        rows(x).slice(2, 0, 4), 2, rows(x).slice(1, 3, 10).slice(2, 1, 3), rows(A.sin(x)).slice(1, 3, 10).slice(2, 3, 5),
        1, scale=0.3),
    "attention_rows packed": lambda x: A.attention_rows(A.cat([rows(x), rows(A.sin(x)).slice(2, 0, 3)], 2), 2, groups=1,
                                                        is_causal=True),
    "attention with a key mask": lambda x: A.scaled_dot_product_attention(
        x, A.sin(x), A.cos(x), key_mask=A.greater(A.mean(x, (1, 3)), 0.0)),
    "attention_rows with a key mask": lambda x: A.attention_rows(
        rows(x), 5, A.sin(rows(x)), A.cos(rows(x)), is_causal=True, key_mask=A.greater(A.mean(rows(x), 2), 0.0)),
    "self_attention": lambda x: A.self_attention(x, A.sin(x), A.cos(x)),
    "causal_attention": lambda x: A.causal_attention(
        x.reshape(x.shape[0], 5, 12).slice(1, 3, 5), A.sin(x).reshape(x.shape[0], 5, 12).slice(
            2, 0, 6), A.cos(x).reshape(x.shape[0], 5, 12).slice(2, 6, 12), 4, 2),
}


def over(name, dims, keepdim):
    def reduced(x):
        y = getattr(A, name)(x, dims, keepdim=keepdim)
        return y if keepdim is False and dims in (1, -1) else x * y
    return reduced


for reduction in ("sum", "mean", "amax", "amin", "var"):
    for dims, keepdim in ((None, False), (1, False), ((1, 3), True), (-1, False), ((0, 2), True)):
        CASES[f"{reduction} {dims}"] = over(reduction, dims, keepdim)


def vision_transformer(x, heads_inside):
    """4 patches and a class token, with heads as [N, H, T, D / H], or as in PyTorch's
    MultiheadAttention, [T, N H, D / H]."""
    D, H, T, N = 8, 2, 5, x.shape[0]
    patches = A.conv2d(x.slice(3, 0, 4), weight(D, 3, 2, 2), weight(D), 2).flatten(2)
    t = A.cat([weight(1, 1, D).expand((N, 1, D)), patches.transpose(1, 2)], 1) + weight(1, T, D)
    t = t if heads_inside else t.transpose(0, 1)
    for _ in range(2):
        qkv = A.linear(A.layer_norm(t, D, weight(D), weight(D)), weight(3 * D, D), weight(3 * D))
        if heads_inside:
            parts = A.split(qkv.reshape(N, T, 3, H, D // H).permute(2, 0, 3, 1, 4), 1, 0)
            q, k, v = (part.squeeze(0) for part in parts)
            y = (A.softmax(q @ k.transpose(2, 3) * 0.5, -1) @ v).transpose(1, 2).reshape(N, T, D)
        else:
            q, k, v = (part.reshape(T, N * H, D // H).transpose(0, 1)
                       for part in A.chunk(qkv, 3, 2))
            y = (A.softmax(q @ k.transpose(1, 2) * 0.5, -1) @ v).transpose(0, 1).reshape(T, N, D)
        t = t + A.linear(y, weight(D, D))
        h = A.Sequential([A.Linear(D, 16), A.GELU(), A.Linear(16, D)])(
            A.LayerNorm(D)(t))
        t = t + h
    return (t if heads_inside else t.transpose(0, 1)).slice(1, 0, 1).squeeze(1)


def recurrent(x, samples_first):
    steps = A.split(rows(x) if samples_first else rows_first(x), 1, 1 if samples_first else 0)
    w, u, b = weight(6, 5), weight(6, 6), weight(6)
    h, all_of_them = A.constant(np.zeros((1, 6), np.float32)).expand((x.shape[0], 6)), []
    for step in steps:
        h = A.tanh(A.linear(step.squeeze(1 if samples_first else 0), w, b) + A.linear(h, u))
        all_of_them.append(h)
    return A.stack(all_of_them, 1)


def unet(x):
    def double(x, inputs, outputs):
        for channels in (inputs, outputs):
            x = A.Conv2d(channels, outputs, 3, padding=1)(x)
            x = A.relu(A.GroupNorm(2, outputs)(x))
        return x

    fine = double(A.pad(x, (1, 2, 2, 2), "reflect"), 3, 4)
    coarse = double(fine.max_pool2d(2), 4, 8)
    up = A.interpolate(double(coarse.max_pool2d(2), 8, 8), scale_factor=2.0, mode="bilinear")
    gate = A.sigmoid(A.Conv2d(8, 1, 1)(A.relu(up + coarse)))
    up = A.interpolate(double(A.cat([coarse * gate, up], 1), 16, 4), size=8, mode="bilinear",
                       align_corners=True)
    return double(A.cat([fine, up], 1), 8, 4)


def squeezed(x):
    y = A.Conv2d(3, 8, 3, padding=1)(x)
    for _ in range(2):
        h = A.Conv2d(8, 8, 3, padding=1)(A.relu(A.BatchNorm2d(8)(y)))
        s = A.Linear(2, 8)(A.relu(A.Linear(8, 2)(h.mean((2, 3)))))
        y = y + h * A.sigmoid(s).unsqueeze(-1).unsqueeze(-1)
    return y.mean((2, 3))


def mobile(x):
    y = A.hardswish(A.BatchNorm2d(12)(A.Conv2d(3, 12, 1)(x)))
    y = A.hardswish(A.BatchNorm2d(12)(A.conv2d(y, weight(12, 1, 5, 5), None, 1, 2, 1, 12)))
    s = A.relu(A.Conv2d(12, 4, 1)(y.adaptive_avg_pool2d(1)))
    return x + A.Conv2d(12, 3, 1)(y * A.hardsigmoid(A.Conv2d(4, 12, 1)(s)))


CASES |= {
    "vision transformer": lambda x: vision_transformer(x, True),
    "vision transformer of rows first": lambda x: vision_transformer(x, False),
    "recurrent": lambda x: recurrent(x, True),
    "recurrent of rows first": lambda x: recurrent(x, False),
    "unet": unet, "squeezed": squeezed, "mobile": mobile,
}


@pytest.mark.parametrize("name", CASES)
def test_answers(name, tmp_path):
    x = accrue.input(3, 4, 5)
    y = CASES[name](x)
    network = accrue.Network(x, accrue.Linear(int(np.prod(y.shape[1:])), 3)(y.flatten(1)))
    samples = np.random.default_rng(1).normal(size=(6, 3, 4, 5)).astype(np.float32)
    weights = accrue.train(network, (samples, np.arange(6) % 3), steps=0, effective_batch=2,
                           micro_batch=2).weights
    path = tmp_path / "network.onnx"
    accrue.export(weights, path, network)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    only, = session.get_inputs()
    for n in (1, 2, 5):
        wanted = accrue.predict(weights, samples[:n], network)
        answer, = session.run(None, {only.name: samples[:n]})
        assert answer.shape == wanted.shape
        # A variance over a single sample is NaN.
        np.testing.assert_array_equal(np.isnan(answer), np.isnan(wanted))
        apart = np.nanmax(np.abs(answer - wanted), initial=0)
        assert apart <= 5e-6 * np.nanmax(np.abs(wanted), initial=0)  # both compute in float32
