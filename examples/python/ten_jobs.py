#!/usr/bin/env python3
"""Ten jobs that every library for training has, each as short as it is in accrue (docs/python.md).

ten_jobs_elsewhere.py has the same jobs in other libraries. Each function is a job, given its data.

Usage: ten_jobs.py [JOB...]
"""

import sys

import accrue
import numpy as np


def arrays(x, y, test):
    """A classifier on arrays, and its answers."""
    network = accrue.Sequential(accrue.Linear(20, 32), accrue.ReLU(), accrue.Linear(32, 3))
    result = accrue.train(network, (x, y), test=test, effective_batch=64, epochs=10, lr=1e-2)
    return result.score["accuracy"], result.predict(test[0]).argmax(axis=1)


def loader(module, train_loader, validation_loader):
    """A torch.nn.Module on a DataLoader, whose batch size is the effective batch, and back to PyTorch."""
    result = accrue.train(module, train_loader, validation=validation_loader, epochs=10, lr=1e-2)
    module.load_state_dict(result.state_dict())
    return result.score["accuracy"]


def accumulation(module, x, y):
    """A module with steps of 64 samples, of which 24 are in memory at once."""
    result = accrue.train(module, (x, y), micro_batch=24, effective_batch=64, epochs=10, optimizer="adamw")
    return result.score["accuracy"]


def early_stopping(network, x, y, validation):
    """Ends when the loss of validation gets no lower for three epochs, and keeps the best weights."""
    result = accrue.train(network, (x, y), validation=validation, epochs=100, lr=1e-2, patience=3, keep_best=True)
    return accrue.evaluate(result.best_weights, network, validation)["accuracy"]


def schedule(network, x, y):
    """A learning rate that rises for ten steps and falls as a cosine, with clipped gradients."""
    result = accrue.train(network, (x, y), epochs=10, optimizer="adamw", lr=1e-2, weight_decay=0.01,
                          schedule="cosine", warmup_steps=10, clip_norm=1.0)
    return result.history["lr"]


def curves(network, x, y, validation, metric):
    """Losses and a metric of your own after every epoch, drawn."""
    result = accrue.train(network, (x, y), validation=validation, epochs=5, metrics=[metric])
    return result.history.plot()


def new_head(network, x, y, saved, path):
    """Saved weights with a new head for other classes, of which the head alone learns; then an ONNX file."""
    result = accrue.train(network, (x, y), init=saved, new_head=True, freeze="backbone", epochs=5, lr=1e-2)
    accrue.export_onnx(result, path)
    return result.score["accuracy"]


def lora(base, texts, tuned):
    """A language model adapted to texts, its own weights in 4 bits; then it writes."""
    result = accrue.train(data=texts, base=base, base_bits=4, lora=8, lora_targets="all", context=64,
                          micro_batch=4, effective_batch=16, optimizer="adamw", lr=4e-3, epochs=2)
    result.save(tuned)
    return accrue.generate(tuned, "Weather in", max_new_tokens=20)


def pairs(anchors, positives):
    """Embeddings of pairs of texts, each compared with all texts of a window of 64."""
    result = accrue.train("gpt-tiny", {"anchor": anchors, "positive": positives}, tokenizer="bytes", layers=1,
                          context=24, micro_batch=16, effective_batch=64, optimizer="adamw", lr=3e-3, epochs=4)
    return accrue.embed(result, anchors) @ accrue.embed(result, positives).T


def grid_search(x, y):
    """The best learning rate by cross-validation, behind a scaler."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), accrue.Classifier(epochs=5))
    return GridSearchCV(pipeline, {"classifier__lr": [1e-4, 1e-2]}, cv=2).fit(x, y).best_params_


def _network(classes=3):
    return accrue.Sequential(accrue.Linear(20, 32), accrue.ReLU(), accrue.Linear(32, classes))


def _module():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))


def run(folder):
    """Each job's name and a call of it on small data, which returns what the job returns."""
    random = np.random.default_rng(0)
    x = random.normal(size=(900, 20)).astype(np.float32)
    y = x[:, :3].argmax(axis=1)
    train, test = (x[:700], y[:700]), (x[700:], y[700:])

    def loaders():
        import torch

        sets = [torch.utils.data.TensorDataset(*map(torch.from_numpy, part)) for part in (train, test)]
        return [torch.utils.data.DataLoader(part, batch_size=64, shuffle=part is sets[0]) for part in sets]

    def mistakes(y, answers):
        return (answers.argmax(axis=1) != y).sum()

    def saved_weights():
        path = f"{folder}/saved.safetensors"
        accrue.train(_network(), train, epochs=5, save=path)
        return path

    def base():
        path = f"{folder}/base.safetensors"
        accrue.train("llama-tiny", reports, tokenizer="bytes", layers=1, context=64, micro_batch=4, effective_batch=16,
                     optimizer="adamw", lr=4e-3, steps=20, save=path)
        return path

    days = ["Monday", "Tuesday", "Friday"]
    reports = [f"Weather in Oslo on {day}: {degrees} degrees." for day in days for degrees in range(60)]
    numbers = [str(1000 + number) for number in range(800)]
    spelled = [" ".join(number) for number in numbers]
    five = (train[0], train[1] + 2 * (train[0][:, 5] > 0))
    return {
        "arrays": lambda: arrays(*train, test),
        "loader": lambda: loader(_module(), *loaders()),
        "accumulation": lambda: accumulation(_module(), *train),
        "early_stopping": lambda: early_stopping(_network(), *train, test),
        "schedule": lambda: schedule(_network(), *train),
        "curves": lambda: curves(_network(), *train, test, mistakes),
        "new_head": lambda: new_head(_network(5), *five, saved_weights(), f"{folder}/new_head.onnx"),
        "lora": lambda: lora(base(), reports, f"{folder}/tuned.safetensors"),
        "pairs": lambda: pairs(numbers, spelled),
        "grid_search": lambda: grid_search(*train),
    }


def main():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        jobs = run(folder)
        for name in sys.argv[1:] or jobs:
            print(f"{name}: {jobs[name]()}")


if __name__ == "__main__":
    main()
