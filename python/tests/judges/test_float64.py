"""A window in float64 beside PyTorch's: its gradient within 1e-12, and five steps of Adam."""

import functools

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import golden_files
from reference_models import MODELS, SAMPLE_SHAPES
from test_pytorch import documents_of, state_of
from torch.nn import functional

pytestmark = pytest.mark.thorough

SPLITS = {"whole": 8, "3 + 3 + 2": 3, "singles": 1}
# A step of SGD with this rate is almost all gradient, so that little of it is lost in the weights.
RATE = 2.0**10


def weights_of(model):
    return accrue.Weights({name: x.detach().numpy() for name, x in state_of(model).items()})


def relative_error(mine, truth):
    """The largest difference, of the largest number of all tensors."""
    most = max(float(np.abs(x).max()) for x in truth.values())
    return max(float(np.abs(mine[name] - x).max()) for name, x in truth.items()) / most


def check(model, loss_of, parts, train, batch_norm=False):
    """train(init=, optimizer=, ...) takes steps on the window of `parts`."""
    start = weights_of(model)
    start = accrue.Weights({name: x.copy() for name, x in start.items()})
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    gradient, losses, norms = golden_files.train(
        model, torch.optim.SGD(model.parameters(), lr=0), loss_of, parts, 1)
    with torch.no_grad():
        for name, x in state_of(model).items():
            x.copy_(torch.from_numpy(start[name]))
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-3)
    _, losses, _ = golden_files.train(model, adam, loss_of, parts, 5)
    truth = {name: x.detach().numpy() for name, x in state_of(model).items() if name in trained}
    window = {"batch_norm": "window"} if batch_norm else {}
    for name, micro in SPLITS.items():
        steps = []
        once = train(init=start, precision="fp64", micro_batch=micro, no_shuffle=True,
                     optimizer="sgd", lr=RATE, steps=1, on_step=steps.append, **window).weights
        assert all(x.dtype == np.float64 for x in once.values())
        mine = {n: (start[n] - once[n]) / RATE for n in gradient}
        found = relative_error(mine, {n: g.numpy() for n, g in gradient.items()})
        assert found <= 1e-12, (name, found)
        assert steps[0].grad_norm == pytest.approx(float(norms[0]), rel=1e-12)
        five = train(init=start, precision="fp64", micro_batch=micro, no_shuffle=True,
                     optimizer="adam", lr=1e-3, eps=1e-3, epochs=5, **window)
        np.testing.assert_allclose(five.losses, losses, rtol=1e-12)
        # Adam's step follows a change of a gradient by lr / eps at most.
        found = relative_error(five.weights, truth)
        assert found <= 1e-12, (name, found)
    narrow = train(init=start, micro_batch=8, no_shuffle=True, optimizer="sgd", lr=RATE, steps=1,
                   **window).weights
    assert all(x.dtype == np.float32 for x in narrow.values())
    assert relative_error({n: (start[n] - narrow[n]) / RATE for n in gradient},
                           {n: g.numpy() for n, g in gradient.items()}) > 1e-9


@pytest.mark.parametrize("name", ("mlp", "cnn", "cnn-gn", "cnn-bn", "resnet", "resnet-bn"))
def test_networks_with_names(name):
    torch.manual_seed(1)
    model = MODELS[name]().double()
    x, y = torch.randn(8, *SAMPLE_SHAPES[name], dtype=torch.float64), torch.arange(8) + 2
    check(model, lambda x, y: functional.cross_entropy(model(x), y), [(x, y)],
          functools.partial(accrue.train, name, (x.numpy(), y.numpy()), effective_batch=8),
          batch_norm=name.endswith("-bn"))


def test_resnet18():
    pytest.importorskip("torchvision")
    import torchvision

    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=10).double()
    x, y = torch.randn(8, 3, 32, 32, dtype=torch.float64), torch.arange(8) + 2
    check(model, lambda x, y: functional.cross_entropy(model(x), y), [(x, y)],
          functools.partial(accrue.train, "resnet18", (x.numpy(), y.numpy()), effective_batch=8),
          batch_norm=True)


def test_unet():
    torch.manual_seed(1)
    model, x = MODELS["unet"](0.5).double(), torch.randn(8, 1, 20, 18, dtype=torch.float64)
    y = torch.rand(8, 20, 18) < 0.3
    check(model, lambda x, y: functional.binary_cross_entropy_with_logits(model(x)[:, 0],
                                                                        y.double()), [(x, y)],
          functools.partial(accrue.train, "unet", (x.numpy(), y.numpy()), width=0.5,
                            effective_batch=8))


def test_weights_of_classes():
    """Weights that float32 does not hold."""
    torch.manual_seed(1)
    model, x = MODELS["unet"](0.5), torch.randn(8, 1, 20, 18, dtype=torch.float64)
    model.head = torch.nn.Conv2d(8, 3, 1)
    y, given = torch.randint(3, (8, 20, 18)), [0.1, 0.7, 1.3]
    weights = torch.tensor(given, dtype=torch.float64)
    check(model.double(), lambda x, y: functional.cross_entropy(
        model(x), y, weight=weights, reduction="none").mean(), [(x, y)],
          functools.partial(accrue.train, "unet", (x.numpy(), y.numpy()), width=0.5,
                            effective_batch=8, class_weights=",".join(map(str, given))))


@pytest.mark.parametrize("name", ("gpt2", "llama"))
def test_language_models(name, tmp_path):
    pytest.importorskip("transformers")
    import golden_text

    torch.manual_seed(1)
    model = dict(golden_text.models())[name]
    model.config.to_json_file(tmp_path / "config.json")
    golden_text.draw(name, model)
    rows = golden_text.rows()
    documents = documents_of(rows[0], golden_text.ROWS)
    N = len(documents[0])
    check(model, functools.partial(golden_text.loss_of, model), [rows],
          functools.partial(accrue.train, tmp_path / "config.json", documents, documents="padded",
                            context=golden_text.T, effective_batch=N))


def test_numbers_are_learned_and_answered_without_rounding():
    torch.manual_seed(1)
    x, y = torch.randn(8, 6, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(),
                                torch.nn.Linear(5, 2)).double()
    network = accrue.Sequential([accrue.Linear(6, 5), accrue.Tanh(), accrue.Linear(5, 2)])
    answers = accrue.predict(weights_of(model), x.numpy(), network, precision="fp64")
    assert answers.dtype == np.float64
    assert np.abs(answers - model(x).detach().numpy()).max() <= 1e-15
    check(model, lambda x, y: functional.mse_loss(model(x), y), [(x, y)],
          functools.partial(accrue.train, network, (x.numpy(), y.numpy()), effective_batch=8))
