"""The calls of docs/python.md, docs/pytorch.md and docs/onnx.md, for type checkers. It is checked, and not run."""

from collections.abc import Iterator

import accrue
import numpy as np
from numpy.typing import NDArray


def functions(x: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    result = accrue.train("mlp", "digits", micro_batch=16, effective_batch=64)
    print(result, result.losses.mean(), result.steps, result.batches)
    if result.score is not None:
        print(result.score["accuracy"])
    print(result.memory["this run"]["activations"])
    plan = accrue.plan("cnn", (x, y), memory="4GiB")
    accrue.train("cnn", (x, y), **plan.options())
    scores = accrue.evaluate(result.weights, "mlp", "digits")
    print(scores["test"])
    answers = accrue.predict("w.safetensors", x, "mlp")
    print(answers.argmax(axis=1))
    accrue.export(result.weights, "net.onnx")
    accrue.export_onnx(result.weights, "net.onnx")
    print(accrue.info("mlp")["parameters"], accrue.release(), accrue.__version__)
    try:
        accrue.train("mlp", "digits", memory_limit="1MiB")
    except accrue.OutOfMemory as error:
        print(str(error))
    except accrue.Error:
        raise


def data(x: NDArray[np.float32], y: NDArray[np.int32], network: accrue.Layer, texts: list[str]) -> None:
    def samples() -> Iterator[tuple[NDArray[np.float32], int]]:
        yield from zip(x, y.tolist())

    accrue.train(network, (np.load("x.npy", mmap_mode="r"), y), memory_limit="512MiB")
    accrue.train(network, samples, epoch_samples=50_000)
    accrue.train(network, "photos", transform=lambda image: image, workers=2)
    accrue.train(network, (x, y), sample_weight=np.ones(len(x)), class_weight={0: 1.0, 1: 2.5}, label_smoothing=0.1)
    accrue.train(network, (x, y), class_weights=np.ones(10), mean=[0.5], std=0.5)
    accrue.train(network, (x, y), class_weights="balanced", freeze=["0.weight"], classes=["cat", "dog"])
    accrue.train("DIR/config.json", texts, tokenizer="DIR", init="DIR/model.safetensors", context=1024)
    chats = [{"messages": [{"role": "user", "content": "Hello"}]}]
    accrue.train("DIR/config.json", chats, tokenizer=object(), init={"weight": x})
    fonts = accrue.train("zi2zi", (x, x, y), test=(x, x, y), width=0.25, init_scheme="normal", beta1=0.5)
    print(accrue.predict(fonts.weights, (x, y)).shape)
    print(accrue.generate("w.safetensors", "Once upon", max_new_tokens=100, temperature=0.8, top_p=0.95,
                          on_text=lambda text: print(text, end="")))
    print(accrue.embed("pairs.safetensors", ["a text", "another"], workers=2).shape)


def weights(x: NDArray[np.float32]) -> None:
    found = accrue.Weights.load("w.safetensors")
    found.save("other.safetensors")
    both = found.copy() | {"bias": x}
    accrue.train("mlp", "digits", init=both)
    accrue.train("mlp", "digits", init=accrue.Weights({"weight": x}, {"model": "mlp"}))
    for name, array in both.items():
        print(name, array.shape, both.metadata)


def layers(x: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    network = accrue.Sequential(
        accrue.Conv2d(1, 16, 3, padding=1), accrue.GroupNorm(4, 16, activation="relu"), accrue.MaxPool2d(2),
        accrue.Flatten(), accrue.Linear(16 * 14 * 14, 10))
    accrue.train(network, "digits", lr=1e-3)
    accrue.Sequential({"stem": accrue.Conv2d(1, 8, (3, 5), padding="same"), "head": accrue.AdaptiveAvgPool2d((1, 2))})
    accrue.Sequential([accrue.Embedding(10, 4), accrue.LayerNorm([4]), accrue.Dropout(0.1), accrue.GELU()])


def values(x: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    image = accrue.input(3, 32, 32)
    meta = accrue.input((4,), name="meta")
    tokens = accrue.input(16, dtype="int32")
    h = accrue.Conv2d(3, 16, 3, padding=1)(image, name="stem")
    body = accrue.Conv2d(16, 16, 3, padding=1)(accrue.relu(h), name="body") + h
    features = body.adaptive_avg_pool2d(1).flatten(1)
    network = accrue.Network(image, accrue.Linear(16, 10)(features, name="head"))
    N = image.shape[0]
    print(image.reshape(N * 4, -1), image.reshape((N, -1)), image.permute(0, 2, 3, 1), image[:, 0], image[..., 1:])
    print(accrue.softmax(2 * features - 1, -1), accrue.cat([meta, meta], 1), features.sum(1, keepdim=True))
    kinds, boxes = accrue.Linear(4, 3)(meta), accrue.Linear(4, 4)(meta)
    several = accrue.Network({"image": image, "meta": meta}, {"kind": kinds, "box": boxes})
    loss = {"kind": "cross_entropy", "box": accrue.loss("smooth_l1", weight=0.5)}
    arrays = {"image": x, "meta": x, "kind": y, "box": x}
    result = accrue.train(several, arrays, loss=loss, sample_weight={"box": x})
    print(accrue.predict(result.weights, {"image": x, "meta": x}, several)["box"])
    encoded = accrue.TransformerEncoderLayer(16, 4, 64, batch_first=True)(accrue.input(28, 16), name="encoder")
    output, (hidden, cell) = accrue.LSTM(16, 32, bidirectional=True, batch_first=True)(encoded, name="lstm")
    attended, scores = accrue.MultiheadAttention(16, 4, batch_first=True)(encoded, encoded, encoded)
    with accrue.scope("part") as part:
        scale = accrue.parameter((4, 3), "scale", mean=1.0)
        shift = accrue.constant(np.zeros(3, np.float32)) + accrue.buffer(3, "shift")
    print(network, tokens, output, hidden, cell, attended, scores, part, scale, shift)


def course(x: NDArray[np.float32], y: NDArray[np.int32], network: accrue.Layer) -> None:
    def f1(truth: NDArray[np.int32], answers: NDArray[np.float32]) -> float:
        return float((truth == answers.argmax(1)).mean())

    def on_step(step: accrue.Step) -> bool:
        print(step.step, step.loss, step.lr, step.grad_norm, step.terms)
        return step.loss < 10

    def on_epoch(epoch: accrue.Epoch) -> None:
        if epoch.validation is not None:
            print(epoch.validation["loss"])

    result = accrue.train(network, (x, y), validation=(x, y), epochs=20, metrics=[f1], on_step=on_step,
                          on_epoch=[on_epoch], progress=True, keep_best=True, ema=0.9, eval_every="epoch")
    print(result.history["val_loss"], result.history.to_pandas(), result.history.plot())
    if result.best_weights is not None and result.ema_weights is not None:
        print(result.best_weights["0.weight"] - result.ema_weights["0.weight"])
    trainer = accrue.Trainer(network, (x, y), metrics={"f1": f1}, quiet=False)
    again = trainer.run(epochs=2, on_step=on_step)
    print(again.scored, trainer.evaluate((x, y))["accuracy"], trainer.predict(x).shape, trainer.losses[-1])
    trainer.weights = {**trainer.weights, "0.bias": x}
    trainer.save_weights("w.safetensors")
    print(trainer.steps, trainer.total_steps, trainer.is_finished, trainer.history["loss"], trainer.memory)


def files(x: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    accrue.train("net.onnx", (x, y))
    network = accrue.from_onnx("net.onnx", train="constant", samples=(3, 224, 224), outputs=["logits"])
    result = accrue.train(network, (x, y), micro_batch="auto", effective_batch=256, memory_limit="1GiB")
    network.save("tuned.onnx", result.weights)
    print(network.inputs, network.outputs, network.notes, network.weights, accrue.evaluate(network, data=(x, y)))


def estimators(x: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    def perceptron(shape: tuple[int, ...], outputs: int) -> accrue.Layer:
        return accrue.Linear(shape[0], outputs)

    classifier = accrue.Classifier(epochs=50, hidden_layer_sizes=(64, 64), class_weight="balanced")
    print(classifier.fit(x, y).predict_proba(x).shape, classifier.classes_, classifier.weights_)
    print(accrue.Regressor(perceptron).fit(x, y).predict(x))
