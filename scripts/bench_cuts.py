#!/usr/bin/env python3
"""Bytes and seconds of networks of values with each --recompute, as docs/memory.md has them.

Needs the module accrue. Fails unless all give the same weights and take the predicted bytes.
"""

import time

import accrue
import numpy as np


def dense(growth=12, layers=6, blocks=3):
    """DenseNet (Huang et al. 2017), with group norms."""
    def convolved(x, C, out, kernel, name):
        x = accrue.relu(accrue.GroupNorm(4, C)(x, name=f"{name}.norm"))
        return accrue.Conv2d(C, out, kernel, padding=kernel // 2, bias=False)(x, name=f"{name}.conv")

    images, C = accrue.input(3, 32, 32), 24
    x = accrue.Conv2d(3, C, 3, padding=1)(images, name="stem")
    for block in range(blocks):
        if block > 0:
            x = convolved(x, C, C // 2, 1, f"transition{block}").avg_pool2d(2)
            C //= 2
        every = [x]
        for i in range(layers):
            x = every[0] if i == 0 else accrue.cat(every, 1)
            x = convolved(x, C, 4 * growth, 1, f"block{block}.{i}.a")
            every.append(convolved(x, 4 * growth, growth, 3, f"block{block}.{i}.b"))
            C += growth
        x = accrue.cat(every, 1)
    return accrue.Network(images, accrue.Linear(C, 5)(accrue.relu(x).mean((2, 3)), name="head"))


def unet(has_gates, width=16, levels=3):
    def twice(x, C, out, name):
        for i in (0, 1):
            x = accrue.Conv2d(out if i else C, out, 3, padding=1, bias=False)(x, name=f"{name}.{i}")
            x = accrue.relu(accrue.GroupNorm(4, out)(x, name=f"{name}.{i}.norm"))
        return x

    images, skips, C = accrue.input(3, 64, 64), [], 3
    x = images
    for level in range(levels):
        skips.append(twice(x, C, width << level, f"down{level}"))
        x, C = skips[-1].max_pool2d(2), width << level
    x, C = twice(x, C, 2 * C, "deep"), 2 * C
    for level in reversed(range(levels)):
        skip, D = skips[level], width << level
        x = x.interpolate(scale_factor=2, mode="bilinear")
        if has_gates:
            z = accrue.Conv2d(D, D, 1)(skip, name=f"skip{level}")
            z = accrue.relu(z + accrue.Conv2d(C, D, 1)(x, name=f"signal{level}"))
            skip = skip * accrue.sigmoid(accrue.Conv2d(D, 1, 1)(z, name=f"gate{level}"))
        x, C = twice(accrue.cat([skip, x], 1), C + D, D, f"up{level}"), D
    return accrue.Network(images, accrue.Conv2d(C, 3, 1)(x, name="head"))


def lstm(steps=32, features=48):
    rows = accrue.input(steps, 16)
    h = c = accrue.parameter((1, features), "first", std=0.1).expand(rows.shape[0], -1)
    read, recall = accrue.Linear(16, 4 * features), accrue.Linear(features, 4 * features)
    for t in range(steps):
        z = read(rows[:, t], name="read") + recall(h, name="recall")
        i, f, g, o = z.chunk(4, -1)
        c = accrue.sigmoid(f) * c + accrue.sigmoid(i) * accrue.tanh(g)
        h = accrue.sigmoid(o) * accrue.tanh(c)
    return accrue.Network(rows, accrue.Linear(features, 5)(h, name="head"))


def main():
    random = np.random.default_rng(1)
    for name, make, shape, labels in (
            ("dense blocks", dense, (3, 32, 32), ()), ("U-Net", lambda: unet(False), (3, 64, 64), (64, 64)),
            ("U-Net with gates", lambda: unet(True), (3, 64, 64), (64, 64)), ("LSTM", lstm, (32, 16), ())):
        samples = random.normal(size=(8, *shape)).astype("float32"), random.integers(0, 3, (8, *labels))
        first = None
        for recompute in ("none", "sqrt", "all"):
            begin = time.perf_counter()
            run = accrue.train(make(), samples, effective_batch=8, micro_batch=4, threads=1, epochs=2,
                               recompute=recompute)
            first = first or run.weights
            assert all(np.array_equal(run.weights[each], first[each]) for each in first)
            assert run.memory["this run"] == run.memory["predicted"]
            print(f"{name:18} {recompute:5} activations {run.memory['this run']['activations']:10,} B,"
                  f" {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
