"""Every argument of PyTorch's layers is taken in PyTorch's place, or refused by its name."""

import inspect

import accrue
import pytest

torch = pytest.importorskip("torch")

from torch import nn

pytestmark = pytest.mark.thorough

# The arguments that a layer needs.
NEEDED = {
    "Linear": (3, 4), "Embedding": (5, 3), "Conv2d": (4, 4, 3), "ConvTranspose2d": (4, 4, 3), "GroupNorm": (2, 4),
    "LayerNorm": (4,), "RMSNorm": (4,), "BatchNorm1d": (4,), "BatchNorm2d": (4,), "InstanceNorm2d": (4,),
    "Dropout": (), "MaxPool2d": (2,), "AvgPool2d": (2,), "AdaptiveAvgPool2d": (2,), "Upsample": (4,),
    "PixelShuffle": (2,), "Flatten": (), "ReLU": (), "GELU": (), "Sigmoid": (), "Tanh": (), "SiLU": (), "LeakyReLU": (),
    "MultiheadAttention": (8, 2), "TransformerEncoderLayer": (8, 2), "LSTM": (8, 4), "GRU": (8, 4), "RNN": (8, 4),
    "TransformerEncoder": ("layer", 2)}
# Values other than the defaults; a list stands for several that are tried.
OTHERS = {
    "device": ["cpu"], "dtype": [torch.float64], "bias": [False], "padding_idx": [0, -1], "max_norm": [1.0],
    "norm_type": [1.0], "scale_grad_by_freq": [True], "sparse": [True], "_weight": [torch.zeros(5, 3)],
    "_freeze": [True], "stride": [1, (2, 1)], "padding": [1, (1, 0)], "dilation": [2, (1, 2)], "groups": [2],
    "padding_mode": ["reflect", "circular"], "output_padding": [1], "eps": [1e-3], "affine": [False, True],
    "elementwise_affine": [False], "momentum": [0.3], "track_running_stats": [False, True], "p": [0.1],
    "inplace": [True], "return_indices": [True], "ceil_mode": [True], "count_include_pad": [False],
    "divisor_override": [3], "size": [None, 3, (3, 4)], "scale_factor": [2.0, (2.0, 1.5)], "mode": ["bilinear"],
    "align_corners": [True, False], "recompute_scale_factor": [True, False], "start_dim": [2, 0], "end_dim": [2],
    "approximate": ["tanh"], "negative_slope": [0.2], "output_size": [(2, 3), None, (None, 2)], "dropout": [0.3],
    "add_bias_kv": [True], "add_zero_attn": [True], "kdim": [5], "vdim": [5], "batch_first": [True],
    "dim_feedforward": [16], "activation": ["gelu", "silu"], "layer_norm_eps": [0.1], "norm_first": [True],
    "norm": [None], "enable_nested_tensor": [False], "mask_check": [False], "num_layers": [2], "bidirectional": [True],
    "proj_size": [2], "nonlinearity": ["relu", "silu"]}
OF_ONE = {("Conv2d", "padding"): ["same", "valid"], ("RMSNorm", "eps"): [None],
          ("BatchNorm1d", "momentum"): [None], ("BatchNorm2d", "momentum"): [None]}


def of_pytorch(name):
    layer = getattr(nn, name)
    if name in ("LSTM", "GRU", "RNN"):
        parameters = list(inspect.signature(nn.RNNBase.__init__).parameters.values())[2:]
        if name == "RNN":
            parameters.insert(3, inspect.Parameter("nonlinearity", inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                   default="tanh"))
            parameters = [p for p in parameters if p.name != "proj_size"]
        return parameters
    return [p for p in inspect.signature(layer).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def of_accrue(name):
    return list(inspect.signature(getattr(accrue, name)).parameters.values())


def made(name, **options):
    needed = [accrue.TransformerEncoderLayer(8, 2) if n == "layer" else n for n in NEEDED[name]]
    names = [p.name for p in of_pytorch(name)]
    arguments = {**dict(zip(names, needed)), **options}
    if "scale_factor" in options:
        arguments["size"] = None
    if "padding" in options and options["padding"] == "same":
        arguments["stride"] = 1
    return getattr(accrue, name)(**arguments)


def test_all_layers_are_looked_at():
    both = {name for name in vars(accrue) if name[0].isupper() and inspect.isclass(getattr(nn, name, None))}
    assert both - {"Sequential"} == set(NEEDED)


@pytest.mark.parametrize("name", NEEDED)
def test_order(name):
    ours, theirs = of_accrue(name), of_pytorch(name)
    positional = [p.name for p in theirs if p.kind != p.KEYWORD_ONLY]
    assert [p.name for p in ours if p.kind != p.KEYWORD_ONLY] == positional
    assert {p.name for p in theirs} <= {p.name for p in ours}
    known = {p.name: p.default for p in ours}
    for p in theirs:
        different = known[p.name] != p.default and not callable(p.default)
        assert not different or (name, p.name) in {("RMSNorm", "eps"), ("InstanceNorm2d", "num_features")}, p.name


@pytest.mark.parametrize("name", NEEDED)
def test_arguments(name):
    made(name)
    refused = []
    for p in of_pytorch(name)[len(NEEDED[name]):] + ([of_pytorch(name)[0]] if name == "AdaptiveAvgPool2d" else []):
        assert p.name in OTHERS, f"{name} has an argument {p.name} that this test does not know"
        for value in [p.default, *OTHERS[p.name], *OF_ONE.get((name, p.name), [])]:
            if value is inspect.Parameter.empty or (callable(value) and not isinstance(value, torch.Tensor)):
                continue
            try:
                made(name, **{p.name: value})
            except accrue.Error as error:
                assert p.name in str(error) or p.name.replace("_", " ") in str(error), (p.name, value, str(error))
                refused.append(f"{p.name}={value}")
    print(name, "refuses", refused)
