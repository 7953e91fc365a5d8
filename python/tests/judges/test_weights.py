"""Losses in which classes, labels and samples count differently: PyTorch's whole batch in float64,
and windows of accrue that are cut into micro-batches of other sums of weights."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional

pytestmark = pytest.mark.thorough

N, D, K = 24, 6, 4
random = np.random.default_rng(3)
X = random.standard_normal((N, D)).astype(np.float32)
LABELS = random.integers(0, K, N)
NUMBERS = random.standard_normal((N, K)).astype(np.float32)
TRUTHS = random.integers(0, 2, (N, K)).astype(np.float32)
COUNTS = random.uniform(0, 3, N).astype(np.float32)
COUNTS[[2, 3, 11]] = 0
CLASS_WEIGHTS = [0.5, 2, 0.25, 1.5]


def cross_entropy(z, counts, weights=None, smoothing=0.0):
    w = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    y = torch.from_numpy(LABELS)
    losses = functional.cross_entropy(z, y, weight=w, label_smoothing=smoothing, reduction="none")
    return (counts * losses).sum() / (counts * (1 if w is None else w[y])).sum()


def of_numbers(function, y, **more):
    def loss(z, counts):
        losses = function(z, torch.from_numpy(y).double(), reduction="none", **more)
        return (counts * losses.mean(1)).sum() / counts.sum()
    return loss


balanced = [N / (K * n) for n in np.bincount(LABELS)]
CASES = {
    "class weights": (LABELS, {"class_weights": CLASS_WEIGHTS},
                      lambda z, s: cross_entropy(z, s, CLASS_WEIGHTS)),
    "balanced": (LABELS, {"class_weights": "balanced"}, lambda z, s: cross_entropy(z, s, balanced)),
    "smoothing": (LABELS, {"label_smoothing": 0.1},
                  lambda z, s: cross_entropy(z, s, smoothing=0.1)),
    "both": (LABELS, {"class_weights": CLASS_WEIGHTS, "label_smoothing": 0.2},
             lambda z, s: cross_entropy(z, s, CLASS_WEIGHTS, 0.2)),
    "plain": (LABELS, {}, cross_entropy),
    "mse": (NUMBERS, {}, of_numbers(functional.mse_loss, NUMBERS)),
    "l1": (NUMBERS, {"loss": "l1"}, of_numbers(functional.l1_loss, NUMBERS)),
    "smooth l1": (NUMBERS, {"loss": "smooth-l1", "loss_beta": 0.5},
                  of_numbers(functional.smooth_l1_loss, NUMBERS, beta=0.5)),
    "bce": (TRUTHS, {"loss": "bce", "positive_weights": [3, 1, 0.5, 2]},
            of_numbers(functional.binary_cross_entropy_with_logits, TRUTHS,
                       pos_weight=torch.tensor([3, 1, 0.5, 2], dtype=torch.float64)))}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("counts", [None, COUNTS], ids=["alike", "sample_weight"])
def test_windows(name, counts):
    y, options, loss = CASES[name]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Tanh(), torch.nn.Linear(8, K)).double()
    weights = accrue.Weights({n: p.detach().float().numpy() for n, p in model.state_dict().items()})
    for parameter, array in zip(model.parameters(), weights.values()):
        parameter.data = torch.from_numpy(array).double()
    s = torch.from_numpy(np.ones(N, np.float32) if counts is None else counts).double()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9), []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(loss(model(torch.from_numpy(X).double()), s))
        losses[-1].backward()
        optimizer.step()
    for micro in (N, 7, 1):
        network = accrue.Sequential([accrue.Linear(D, 8), accrue.Tanh(), accrue.Linear(8, K)])
        result = accrue.train(network, (X, y), init=weights, optimizer="sgd", momentum=0.9, lr=0.3,
                              no_shuffle=True, micro_batch=micro, effective_batch=N, epochs=3,
                              sample_weight=counts, threads=1, **options)
        # Three steps in float32.
        assert np.abs(result.losses - [x.item() for x in losses]).max() <= 2e-6
        for mine, truth in zip(result.weights.values(), model.parameters()):
            assert np.abs(mine - truth.detach().numpy()).max() <= 2e-6
