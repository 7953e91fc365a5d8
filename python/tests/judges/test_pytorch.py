"""Windows by PyTorch and by accrue, from the same weights and samples, for random networks of
layers and for networks that have a name."""

import functools
import itertools
import json
import re

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import golden_contrastive
import golden_files
import golden_random
import reference_zi2zi
from random_configurations import make_layer, parse
from reference_models import MODELS, SAMPLE_SHAPES, mlp
from torch.nn import functional

pytestmark = pytest.mark.thorough

OWN = {"linear_relu": lambda *n: accrue.Linear(*n, activation="relu"),
       "instance_norm": lambda _: accrue.InstanceNorm2d(),
       "global_avg_pool": accrue.GlobalAvgPool2d, "upsample": accrue.UpsampleNearest}


def network(lines):
    return accrue.Sequential([OWN[name](*numbers) if name in OWN else
                              make_layer(name, numbers, accrue) for name, numbers in parse(lines)])


def state_of(model):
    """Parameters, tied ones once, and running statistics, by accrue's names."""
    names = {*dict(model.named_parameters()), *dict(model.named_buffers())}
    return {re.sub("base_model.model.|.base_layer|.default", "", name): x
            for name, x in model.state_dict().items()
            if name in names and not name.endswith("num_batches_tracked")}


def weights_of(model, dtype=torch.float32):
    return accrue.Weights({name: x.to(dtype).numpy() for name, x in state_of(model).items()})


@pytest.mark.parametrize("number", range(100))
def test_random_networks(number):
    """A window of random networks, within bounds that follow from them."""
    (loss, norm, _, state), c = golden_random.first_measured(
        golden_random.draw_configurations(f"module {number}", 2))
    model, x, y = golden_random.draw_values(c)
    dtype = torch.float64 if c["precision"] == "f64" else torch.float32
    y = y.int() if c["loss"] == "cross_entropy" else y.to(dtype)
    optimizer, steps = dict(c["optimizer"]), []
    result = accrue.train(
        network(c["net"]), (x.to(dtype).numpy(), y.numpy()), init=weights_of(model, dtype),
        optimizer=optimizer.pop("kind"), **optimizer, lr=c["lr"], clip_norm=c["clip_norm"] or None,
        strategy=c["strategy"].replace("_", "-"), recompute=c["recompute"], no_shuffle=True,
        micro_batch=c["micro_batches"][0], effective_batch=sum(c["micro_batches"]),
        precision={"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16"}[c["precision"]],
        loss_scale=str(c["loss_scale"]), on_step=steps.append)
    assert len(steps) == 1
    assert abs(steps[0].loss - loss) <= c["loss_is"][1]
    if c["strategy"] in ("fused", "separate"):
        assert abs(steps[0].grad_norm - norm) <= c["norm_is"][1]
    assert len(result.weights) == len(state)
    for (name, mine), truth, bound in zip(result.weights.items(), state, c["weight_bounds"]):
        assert np.abs(mine - truth.numpy()).max() <= bound, name


def test_windows():
    """Five in a row, each of 24, 24 and 16 samples."""
    torch.manual_seed(1)
    model = mlp(20, 32, 3).double()
    x, y, init, losses = torch.randn(320, 20), torch.arange(320) % 3, weights_of(model), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-2, weight_decay=0.1)
    for samples in zip(x.double().split(64), y.split(64)):
        losses += golden_files.train(model, optimizer,
                                     lambda x, y: functional.cross_entropy(model(x), y), [samples],
                                     1)[1]
    result = accrue.train(network(["linear_relu 20 32", "linear 32 3"]), (x.numpy(), y.numpy()),
                          init=init, effective_batch=64, micro_batch=24, optimizer="adamw", lr=1e-2,
                          eps=1e-2, weight_decay=0.1, no_shuffle=True)
    np.testing.assert_allclose(result.losses, losses, rtol=64 * 2.0**-24)
    # A gradient, a sum of 64 terms of about 1 / 64 each, is off by at most 64 * 2^-24; a step of
    # Adam follows a change of it by lr / eps at most.
    for name, truth in state_of(model).items():
        assert np.abs(result.weights[name] - truth.numpy()).max() <= 5 * 64 * 2.0**-24, name


def trained_beside(model, optimizer, loss_of, micro_batches, tolerance, train, steps=2):
    """Compares steps on one window by PyTorch in float64 and by train(init=, ...) in float32. The
    change of all weights, as a vector, differs by at most `tolerance` of its length, and so do
    running statistics; losses differ by at most a hundredth of `tolerance`."""
    start, seen = {name: x.clone() for name, x in state_of(model).items()}, []
    result = train(init=weights_of(model), epochs=steps, no_shuffle=True, on_step=seen.append)
    _, losses, norms = golden_files.train(model, optimizer, loss_of, micro_batches, steps)
    truth, buffers = state_of(model), dict(model.named_buffers())
    assert set(result.weights) == set(truth)
    np.testing.assert_allclose(result.losses, losses, rtol=tolerance / 100)
    np.testing.assert_allclose([step.grad_norm for step in seen], norms, rtol=tolerance)
    for names in ([n for n in truth if n not in buffers], [n for n in truth if n in buffers]):
        far = sum((torch.tensor(result.weights[n]) - truth[n]).square().sum() for n in names)
        learned = sum((truth[n] - start[n]).square().sum() for n in names)
        assert far <= tolerance**2 * learned


# Now and then an activation in float32 is on the other side of relu's kink, which changes one
# element of a tensor's step. A window's wrong mean would change all elements by a tenth.
KINKS, SMOOTH = 1e-2, 1e-4


@pytest.mark.parametrize("name", sorted({*MODELS} - {"unet", "resnet50", "gpt2"}))
def test_networks_with_names(name):
    torch.manual_seed(1)
    model = MODELS[name]().double()
    x, y = torch.randn(16, *SAMPLE_SHAPES[name]), torch.arange(16) % 10
    trained_beside(
        model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        lambda x, y: functional.cross_entropy(model(x.double()), y) * len(y) / 16,
        list(zip(x.split(6), y.split(6))), KINKS,
        functools.partial(accrue.train, name, (x.numpy(), y.numpy()), optimizer="sgd", lr=0.01,
                          momentum=0.9, micro_batch=6, effective_batch=16))


@pytest.mark.parametrize("masks", ("planes", "classes"))
def test_unet(masks):
    """With classes, a third of the pixels is not judged, and neither are two whole samples."""
    torch.manual_seed(1)
    model, x = MODELS["unet"](0.5), torch.randn(8, 1, 20, 18)
    if masks == "planes":
        y, options, loss_of = torch.rand(8, 20, 18) < 0.3, {}, lambda x, y: (
            functional.binary_cross_entropy_with_logits(model(x.double())[:, 0], y.double()))
    else:
        model.head = torch.nn.Conv2d(8, 3, 1)
        y = torch.tensor([0, 1, 2, 2, 255, 255])[torch.randint(6, (8, 20, 18))]
        y[4:6] = 255
        options, loss_of = {"ignore_mask": 255}, lambda x, y: functional.cross_entropy(
            model(x.double()), y, ignore_index=255)
    trained_beside(
        model.double(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loss_of,
        [(x, y)], KINKS,
        functools.partial(accrue.train, "unet", (x.numpy(), y.numpy()), width=0.5, optimizer="sgd",
                          lr=0.1, momentum=0.9, micro_batch=3, effective_batch=8, **options))


def test_views():
    """SimCLR: the loss tells which views are mirrored, because no others have it."""
    torch.manual_seed(1)
    model, N = MODELS["cnn"]().double(), 5
    pixels = torch.randint(256, (N, 28, 28), dtype=torch.uint8)
    train = functools.partial(
        accrue.train, "cnn", (pixels.numpy(), np.arange(N)), objective="simclr", augment="flip",
        embedding_size=10, mean=0.5, std=0.5, optimizer="sgd", lr=0.1, micro_batch=2,
        effective_batch=N)
    x = (pixels[:, None] / 255 - 0.5) / 0.5
    both = torch.stack([x, x.flip(3)]).double()
    loss = train(init=weights_of(model), steps=1, no_shuffle=True).losses[0]
    with torch.no_grad():
        z = model(both.flatten(0, 1)).unflatten(0, (2, N))
        far, first, second = min(
            (abs(golden_contrastive.nt_xent(z[first, range(N)], z[second, range(N)]) - loss),
             first, second)
            for first in itertools.product((0, 1), repeat=N)
            for second in itertools.product((0, 1), repeat=N) if first <= second)
    assert first != second
    trained_beside(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        lambda a, b: golden_contrastive.nt_xent(model(a), model(b)),
        [(both[first, range(N)], both[second, range(N)])], KINKS, train, steps=1)


@pytest.mark.parametrize("order", ("alternating", "simultaneous"))
def test_zi2zi(order, tmp_path):
    """The weights of both players, read from checkpoints, after three windows."""
    files = pytest.importorskip("safetensors.torch")
    torch.manual_seed(1)
    pixels, seen, step = torch.randint(256, (8, 1, 32, 64), dtype=torch.uint8), [], {"eps": 1e-3}
    styles = torch.arange(2).repeat_interleave(4)

    def train(steps, rate):
        folder = tmp_path / f"of {rate}"
        accrue.train("zi2zi", (*pixels.chunk(2, 3), styles), width=0.0625, embedding=8, g_dropout=0,
                     order=order, no_shuffle=True, micro_batch=3, effective_batch=8, epochs=steps,
                     lr=rate, lr_d=rate / 4, beta1=0.5, **step, checkpoint_dir=folder,
                     on_step=seen.append)
        weights = files.load_file(max(folder.glob("step-*")) / "weights.safetensors")
        return [{name[len(player):]: x for name, x in weights.items() if name.startswith(player)}
                for player in ("generator.", "discriminator.")]

    start = train(1, 1e-30)  # too little to change a weight
    g = reference_zi2zi.Generator(32, 2, ngf=8, embedding=8, attention=False, dropout=0).double()
    d = reference_zi2zi.Discriminator(32, 2, ndf=8).double()
    for player, weights in zip((g, d), start):
        player.load_state_dict({name: weights[name] for name in player.state_dict()})
    players = reference_zi2zi.Players(g, d, lambda name, player: torch.optim.Adam(
        player.parameters(), {"G": 1e-2, "D": 2.5e-3}[name], (0.5, 0.999), **step), order)
    source, target = ((pixels / 255.0).double() * 2 - 1).chunk(2, 3)
    seen.clear()
    ends = train(3, 1e-2)
    for k in range(3):
        players.window(lambda: [(source, target, styles, 1)])
        for name, player in (("discriminator", "D"), ("generator", "G")):
            loss = [report.loss for report in seen if report.player == name][k]
            assert loss == pytest.approx(players.seen[f"{player}.loss"].item(), rel=SMOOTH)
    for player, begin, end in zip((g, d), start, ends):
        far = sum((end[name] - x).square().sum() for name, x in player.named_parameters())
        learned = sum((begin[name] - x).square().sum() for name, x in player.named_parameters())
        assert far <= KINKS**2 * learned


@pytest.mark.parametrize("name, frozen, optimizer", (
    ("resnet18", "half", "sgd"), ("resnet18", "half", "adam"), ("resnet34", "backbone", "adam"),
    ("resnet50", "backbone", "sgd"), ("resnet18-gn", "half", "sgd")))
def test_torchvision(name, frozen, optimizer):
    pytest.importorskip("torchvision")
    import golden_fine_tuning
    import golden_torchvision

    model = golden_fine_tuning.frozen_model(frozen, name)
    x, y = golden_torchvision.make_samples(8)
    make, options = golden_fine_tuning.OPTIMIZERS[optimizer]
    trained_beside(
        model, make(golden_files.trained_of(model).values(), **options),
        lambda x, y: functional.cross_entropy(model(x), y) / 2, list(zip(x.split(4), y.split(4))),
        KINKS, functools.partial(accrue.train, name, (x.float().numpy(), y.numpy()),
                                 freeze=golden_fine_tuning.FROZEN[frozen], optimizer=optimizer,
                                 micro_batch=4, effective_batch=8, **options))


def documents_of(tokens, rows):
    """The documents in rows, and which tokens are to be learned."""
    found = [(row[end - length:end].numpy(), np.arange(length) > prompt)
             for row, documents in zip(tokens, rows)
             for end, (length, prompt) in zip(itertools.accumulate(n for n, _ in documents),
                                              documents) if length > 1]
    return tuple(map(list, zip(*found)))


@pytest.mark.parametrize("adapters", (False, True), ids=("transformers", "peft"))
@pytest.mark.parametrize("name", ("gpt2", "llama"))
def test_language_models(name, adapters, tmp_path):
    pytest.importorskip("transformers")
    import golden_text

    torch.manual_seed(1)
    model, options = dict(golden_text.models())[name], {}
    model.config.to_json_file(tmp_path / "config.json")
    if adapters:
        pytest.importorskip("peft")
        import golden_lora
        model, given = golden_lora.adapted(name, model), golden_lora.OPTIONS[name]
        options = {"lora": 4, "lora_alpha": given["lora_alpha"],
                   "lora_rs": "yes" if "use_rslora" in given else "no",
                   "lora_targets": given["target_modules"]}
    else:
        golden_text.draw(name, model)
    rows = golden_text.rows()
    documents = documents_of(rows[0], golden_text.ROWS)
    trained_beside(
        # With a larger eps Adam does not enlarge rounding.
        model, golden_text.optimizer_of(model, eps=1e-3),
        functools.partial(golden_text.loss_of, model), [rows], SMOOTH,
        functools.partial(accrue.train, tmp_path / "config.json", documents, documents="padded",
                          context=golden_text.T, micro_batch=4, effective_batch=len(documents[0]),
                          optimizer="adamw", lr=0.01, beta2=0.95, eps=1e-3, weight_decay=0.1,
                          **options))
