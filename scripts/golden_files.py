"""Functions for the makers of golden files: values that every version of PyTorch draws alike,
training whose results are recorded, and comparisons."""

import pathlib

import torch

torch.set_num_threads(1)  # the tensors are too small for more
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"


def uniform(generator, bound, *shape):
    """Uniform in (-bound, bound), float64 whose values float32 holds exactly."""
    count = torch.Size(shape).numel()
    values = torch.tensor([generator.uniform(-bound, bound) for _ in range(count)])
    return values.float().double().reshape(shape)


def trained_of(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def fill(model, values_of):
    """Gives values to each parameter that is trained."""
    with torch.no_grad():
        for p in trained_of(model).values():
            p.copy_(values_of(p))


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def train(model, optimizer, loss_of, micro_batches, steps):
    """Takes steps on one window, whose loss is the sum of loss_of(*micro_batch). Returns the first
    gradient by name, and loss and gradient norm of each step."""
    first_gradient, losses, norms = None, [], []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for micro_batch in micro_batches:
            loss = loss_of(*micro_batch)
            loss.backward()
            total += loss.item()
        gradient = {name: p.grad.clone() for name, p in trained_of(model).items()}
        first_gradient = first_gradient or gradient
        losses.append(total)
        norms.append(flat(gradient.values()).norm().item())
        optimizer.step()
    losses, norms = (torch.tensor(each, dtype=torch.float64) for each in (losses, norms))
    return first_gradient, losses, norms


def initial(model, prefix="init."):
    return {prefix + name: p.detach().float() for name, p in trained_of(model).items()}


def record(case, model, *training):
    """The tensors that a file holds for train(model, *training)."""
    gradient, losses, norms = train(model, *training)
    return {**{f"grad.{case}.{name}": g for name, g in gradient.items()},
            **{f"final.{case}.{name}": p.detach() for name, p in trained_of(model).items()},
            f"loss.{case}": losses, f"grad_norm.{case}": norms}


def relative_error(actual, truth):
    """The largest difference, relative to the largest value of each tensor; NaN if there is one."""
    least = torch.finfo(torch.float64).tiny  # for a tensor of zeros
    return torch.stack([(actual[name].double() - value.double()).abs().max() /
                        value.double().abs().max().clamp(min=least)
                        for name, value in truth.items()]).max().item()
