"""scikit-learn learns the same tables."""

import csv
import subprocess
import sys

import accrue
import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.thorough

BATCHES = {"micro_batch": 4, "effective_batch": 16}


def write(path, names, rows, answers):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([*names, "answer"])
        lines.writerows([*map(repr, map(float, row)), answer] for row, answer in zip(rows, answers))


def tables(folder, bunch, answers, **options):
    """The parts (x, y) for training and for the test, which also lie in the folder."""
    x, y, u, v = train_test_split(bunch.data, answers, test_size=0.25, random_state=0, **options)
    parts = (x, u), (y, v)
    for name, (rows, right) in zip(("train", "test"), parts):
        write(folder / f"{name}.csv", bunch.feature_names, rows, right)
    return parts


def answered(folder, weights, out):
    subprocess.run([sys.executable, "-m", "accrue", "predict", "--weights", weights, "--data",
                    folder / "test.csv", "--out", out], check=True)
    with (out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_classes(tmp_path, name):
    bunch = getattr(datasets, f"load_{name}")()
    words = bunch.target_names[bunch.target]
    folder = tmp_path / "data"
    folder.mkdir()
    train, test = tables(folder, bunch, words, stratify=words)
    judge = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*train)
    ran = accrue.train(data=folder, target="answer", epochs=60, lr=0.003, **BATCHES)
    weights = tmp_path / "weights.safetensors"
    ran.weights.save(weights)
    told = [row["class"] for row in answered(folder, weights, tmp_path / "out")]
    assert np.mean(np.array(told) == test[1]) > judge.score(*test) - 0.03


def test_numbers(tmp_path):
    bunch = datasets.load_diabetes()
    folder = tmp_path / "data"
    folder.mkdir()
    train, test = tables(folder, bunch, bunch.target)
    judge = make_pipeline(StandardScaler(), LinearRegression()).fit(*train)
    ran = accrue.train("table-linear", folder, target="answer", epochs=60, lr=0.01, **BATCHES)
    weights = tmp_path / "weights.safetensors"
    ran.weights.save(weights)
    told = [float(row["answer"]) for row in answered(folder, weights, tmp_path / "out")]
    off = np.sqrt(np.mean((np.array(told) - judge.predict(test[0])) ** 2))
    assert off < 0.1 * np.std(test[1])
