"""A torch.nn.Module or an ONNX file in place of a model, for the module's functions (docs/pytorch.md)."""

from __future__ import annotations

import os
import sys
import typing

from . import _accrue, _listening, _metrics, _names, _origins, _signatures, onnx

if typing.TYPE_CHECKING:
    from . import pytorch


def _is_origin(model: typing.Any) -> bool:
    """True for a torch.nn.Module, for an ONNX file, and for what from_torch() or from_onnx() made of one."""
    if isinstance(model, _origins.Origin) or _is_file(model):
        return True
    torch = sys.modules.get("torch")  # nobody has a module who has not imported it
    return torch is not None and hasattr(torch, "nn") and isinstance(model, torch.nn.Module)


def _is_file(model: typing.Any) -> bool:
    return isinstance(model, (str, os.PathLike)) and os.fspath(model).lower().endswith(".onnx")


def _traced(model: typing.Any, x: typing.Any, options: dict) -> typing.Any:
    if isinstance(model, _origins.Origin):
        return model
    if _is_file(model):
        return onnx.read(model, x)
    from . import pytorch

    return pytorch.traced(model, x, options)


def _first(data: typing.Any) -> typing.Any:
    """The samples of (x, y)."""
    return data[0] if isinstance(data, (tuple, list)) and len(data) == 2 else data


def _learned(origin: typing.Any, data: typing.Any, options: dict) -> tuple:
    """Data and options of a training as the network takes them."""
    options = origin.loss(origin.options(options))
    for name in ("test", "validation"):
        if options.get(name) is not None:
            options[name] = origin.data(options[name])
    return origin.network, origin.data(data), options


def _prepared(model: typing.Any, data: typing.Any, options: dict, must_act: bool = True) -> tuple:
    """Data of any kind as arrays, or as parts in place of arrays (_data.py)."""
    from . import _class_weight, _data

    class_weight, options = _class_weight.taken(options)
    data, options = _data.prepared(model, data, options, must_act)
    if class_weight is not None:
        network = model.network if isinstance(model, _origins.Origin) else model
        options = {**options, "class_weight": _class_weight.as_class_weights(class_weight, network, data, options)}
    return data, options


def _example(data: typing.Any) -> typing.Any:
    """Two samples like x of (x, y), for tracing."""
    x = _first(data)
    if isinstance(x, dict):
        return {name: _example(array) for name, array in x.items()}
    if hasattr(x, "through"):
        return _example(x.first)
    return x.first.repeat(2, axis=0) if hasattr(x, "_accrue_part") else x


def _spelled(options: dict) -> dict:
    """Arguments of a training with a loss by the program's name, and weights in place of a Result."""
    if isinstance(options.get("loss"), str):
        options = {**options, "loss": options["loss"].replace("_", "-")}
    if isinstance(options.get("init"), _accrue_results().Result):
        options = {**options, "init": options["init"].weights}
    return options


def _accrue_results() -> typing.Any:
    from . import _results  # which imports this file

    return _results


def _of_result(weights: typing.Any, model: typing.Any) -> tuple:
    """Weights and their network: a Result knows both, and so does a Trainer."""
    results = _accrue_results()
    if isinstance(weights, (results.Result, Trainer)):
        model = weights._network if model is None else model
        weights = weights.weights
    if isinstance(weights, _accrue.Layer):
        raise _accrue.Error("weights is a network of layers, which has none by itself: expected the Result of its "
                            "training, weights, or their file")
    needs_network = isinstance(weights, results.Weights) and weights.metadata.get("model") == "sequential"
    if model is None and needs_network:
        raise _accrue.Error("weights are of a network of layers, which they do not describe: expected the network as "
                            "model, too, or the Result in place of its weights")
    return weights, model


def train(model: typing.Any = None, data: typing.Any = None, *, on_step: typing.Any = None,
          on_epoch: typing.Any = None, progress: typing.Any = None, **options: typing.Any) -> typing.Any:
    trainer = Trainer(model, data, _is_of_train=True, **options)
    return trainer._run(on_step, on_epoch, None, progress, lets_go=True)


def plan(model: typing.Any = None, data: typing.Any = None, **options: typing.Any) -> typing.Any:
    data, options = _prepared(model, data, _spelled(options))
    if not _is_origin(model):
        return _accrue.plan(model, data, **options)
    network, data, options = _learned(_traced(model, _example(data), options), data, options)
    return _accrue.plan(network, data, **options)


def evaluate(weights: typing.Any, model: typing.Any = None, data: typing.Any = None,
             **options: typing.Any) -> typing.Any:
    weights, model = _of_result(weights, model)
    data, options = _prepared(model, data, _spelled(options))
    origin, weights = _known(weights, model, _example(data), options)
    if origin is None:
        return _accrue.evaluate(weights, model, data, **options)
    return _accrue.evaluate(weights, origin.network, origin.data(data), **origin.loss(origin.precise(options)))


def predict(weights: typing.Any, x: typing.Any, model: typing.Any = None, *, columns: typing.Any = None,
            transform: typing.Any = None, workers: typing.Any = None, **options: typing.Any) -> typing.Any:
    weights, model = _of_result(weights, model)
    x = _question(x, model if model is not None else weights, columns, transform, workers, must_act=True)
    origin, weights = _known(weights, model, _example(x), options)
    if origin is None:
        return _accrue.predict(weights, x, model, **options)
    answers = _accrue.predict(weights, _samples(origin, x), origin.network, **origin.precise(options))
    return origin.answers(answers)


def embed(weights: typing.Any, texts: typing.Any, model: typing.Any = None, *, columns: typing.Any = None,
          workers: typing.Any = None, tokenizer: typing.Any = "", **options: typing.Any) -> typing.Any:
    from . import _chunks, _texts

    weights, model = _of_language_model(weights, model, "embed")
    if tokenizer is not None and not isinstance(tokenizer, str):
        options["tokenizer"] = _texts._tokenizer(tokenizer)
    elif tokenizer:
        options["tokenizer"] = tokenizer
    asked = []

    def told() -> typing.Any:
        asked.append(_chunks._Asked(columns, are_texts=True, what="texts", workers=workers))
        return asked[0]

    texts = _chunks.of(texts, told, are_texts=True)
    for name, given in (("columns", columns), ("workers", workers)):
        if given is not None and (not asked or name == "workers" and not hasattr(texts, "through")):
            raise _accrue.Error(f"{name} is for texts that are fetched, but texts is a list: expected no {name}")
    return _accrue.embed(weights, texts, model, **options)


def generate(weights: typing.Any, prompt: typing.Any, model: typing.Any = None, *, tokenizer: typing.Any = "",
             on_text: typing.Any = None, **options: typing.Any) -> typing.Any:
    from . import _texts

    weights, model = _of_result(weights, model) if not isinstance(weights, _accrue.Layer) else (weights, model)
    own = weights if model is None and _is_origin(weights) else model
    if isinstance(own, _accrue.Network) or _is_origin(own):
        return _written(None if own is weights else weights, prompt, own, tokenizer, on_text, options)
    weights, model = _of_language_model(weights, model, "generate")
    if tokenizer is not None and not isinstance(tokenizer, str):
        options["tokenizer"] = _texts._tokenizer(tokenizer)
    elif tokenizer:
        options["tokenizer"] = tokenizer
    if callable(on_text):
        told = on_text

        def on_text(piece: typing.Any) -> bool:
            return not _listening._is_false(told(piece))

    return _accrue.generate(weights, prompt, model, on_text=on_text, **options)


def _written(weights: typing.Any, prompt: typing.Any, model: typing.Any, tokenizer: typing.Any, on_text: typing.Any,
             options: dict) -> typing.Any:
    """The result of generate() by a network of the caller's own."""
    import dataclasses

    from . import _writing

    names = {field.name for field in dataclasses.fields(_writing.Asked)}
    about_text = {name: value for name, value in options.items() if name in names and value is not None}
    rest = {name: value for name, value in options.items() if name not in names}
    asked = _writing.Asked(tokenizer=tokenizer, on_text=on_text, **about_text)
    return _writing.written(weights, prompt, model, asked, rest)


def _of_language_model(weights: typing.Any, model: typing.Any, function: str) -> tuple:
    """Weights of a language model, and the model, as _of_result gives them."""
    if not isinstance(weights, _accrue.Layer):
        weights, model = _of_result(weights, model)
    for each in (model, weights):
        if _is_origin(each) or isinstance(each, _accrue.Layer):
            network = " For generate() it may also be a Network or a module that answers to tokens [N, T] with logits [N, T, " \
                "V]." if function == "generate" else ""
            raise _accrue.Error(f"{function}() is of language models that accrue knows, by name, config.json or GGUF file, "
                                f"but the model is {type(each).__name__}, a network of the caller's own: expected "
                                f"accrue.predict(), which gives its answers to tokens, or model='DIR/config.json'.{network}")
    return weights, model


def _question(x: typing.Any, model: typing.Any, columns: typing.Any, transform: typing.Any, workers: typing.Any,
              must_act: bool = False) -> typing.Any:
    """x as the module takes it, or samples that are fetched in its place (_chunks.py)."""
    from . import _chunks

    is_named = isinstance(model, _accrue.Network) or _is_origin(model)
    names = model._inputs if isinstance(model, _accrue.Network) else getattr(model, "inputs", None)
    asked = []

    def told() -> typing.Any:
        asked.append(_chunks._Asked(columns, transform, names, is_named, workers=workers, must_act=must_act))
        return asked[0]

    found = _chunks.of(x, told)
    for name, given in (("columns", columns), ("transform", transform), ("workers", workers)):
        if must_act and given is not None and (not asked or name != "columns" and not hasattr(found, "through")):
            raise _accrue.Error(f"{name} is for samples that are fetched, but x is an array: expected no {name}")
    return found


def _samples(origin: typing.Any, x: typing.Any) -> typing.Any:
    """x as the network of an origin takes it, also where it is fetched."""
    return x.through(origin.samples) if hasattr(x, "through") else origin.samples(x)


def export(weights: typing.Any, path: typing.Any, model: typing.Any = None, **options: typing.Any) -> None:
    weights, model = _of_result(weights, model)
    if _is_file(model) or isinstance(model, onnx.FromOnnx):
        if options:
            raise _accrue.Error("the model is an ONNX file, which is written as it is but for its weights: expected "
                                f"no {next(iter(options))}")
        return _traced(model, None, options).save(path, weights)
    _accrue.export(weights, path, _network(model), **options)


def info(model: typing.Any = None, **options: typing.Any) -> typing.Any:
    return _accrue.info(_network(model), **options)


def _network(model: typing.Any) -> typing.Any:
    """The network of an origin; a module alone does not know the sizes of its samples."""
    return _traced(model, None, {}).network if _is_origin(model) else model


def _known(weights: typing.Any, model: typing.Any, x: typing.Any, options: dict) -> tuple:
    """The network of a module or a file, if one is given, and weights. It may be the weights: its own."""
    if _is_origin(model):
        return _traced(model, x, options), weights
    if model is None and _is_origin(weights):
        origin = _traced(weights, x, options)
        return origin, origin.weights_for(x)
    return None, weights


class Trainer(_accrue.Trainer):
    def __init__(self, model: typing.Any = None, data: typing.Any = None, *, metrics: typing.Any = None,
                 **options: typing.Any):
        _names.check("train" if "_is_of_train" in options else "Trainer", options)
        if isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(".safetensors"):
            raise _accrue.Error(f"model is {os.fspath(model)}, a file of weights: expected init={os.fspath(model)!r}, "
                                "which says the model")
        options = _spelled(options)
        self._given = model, data, {**options, "metrics": metrics}
        self._origin = None
        self._may_show_progress = options.get("quiet") is None
        data, options = _prepared(model, data, options)
        if _is_origin(model):
            self._origin = _traced(model, _example(data), options)
            model, data, options = _learned(self._origin, data, options)
        # Without checkpoints the best weights are kept in memory alone.
        has_checkpoints = options.get("checkpoint_dir") is not None or options.get("config") is not None
        keeps_best = options.get("keep_best") is True and not has_checkpoints
        if keeps_best:
            options = {**options, "keep_best": None}
        self._files = data, options.get("tokenizer")  # of texts, which test and evaluate() are read like
        scored = _metrics.Metrics(metrics, data, options.get("validation"), options.get("test"), model, options.get("loss"))
        super().__init__(model, data, _keeps_best=keeps_best, **options)
        self._metrics = scored

    def run(self, on_step: typing.Any = None, on_epoch: typing.Any = None, *,
            epochs: int | None = None, progress: bool | None = None) -> typing.Any:
        return self._run(on_step, on_epoch, epochs, progress, lets_go=False)

    def _run(self, on_step: typing.Any, on_epoch: typing.Any, epochs: int | None,
             progress: bool | None, lets_go: bool) -> typing.Any:
        told = _listening.listener(on_step, on_epoch, progress, self._may_show_progress,
                                   self._metrics.of_validation(super().predict))
        try:
            result = super().run(told, epochs, lets_go)
        finally:
            told.close()
        if result.score is not None:
            self._metrics.add_to(result.score, super().predict)
        result._origin = self._origin
        result._layers = self._layers
        return result

    @property
    def _layers(self) -> typing.Any:
        return self._given[0] if isinstance(self._given[0], _accrue.Layer) else None

    @property
    def _network(self) -> typing.Any:
        """The `model` of predict() and others, as a Result has it."""
        return self._origin or self._layers

    def __repr__(self) -> str:
        if not hasattr(self, "_metrics"):  # its __init__ has failed
            return "<accrue.Trainer>"
        state = "finished" if self.is_finished else "to run"
        losses = self.losses
        loss = f", loss={losses[-1]:.4g}" if len(losses) else ""
        return f"<accrue.Trainer: steps={self.steps} of {self.total_steps}{loss}, {state}>"

    @_names.takes_one_data
    def evaluate(self, data: typing.Any = None) -> typing.Any:
        if data is not None:
            model, _, options = self._given
            about_samples = {name: options.get(name) for name in ("columns", "transform", "workers", "epoch_samples")}
            data, _ = _prepared(model, data, about_samples, must_act=False)
        if self._origin is not None:
            data = self._origin.data(data)
        score = super().evaluate(data)
        self._metrics.add_to(score, super().predict, data)
        return score

    def predict(self, x: typing.Any) -> typing.Any:
        model, _, options = self._given
        x = _question(x, self._origin or model, options.get("columns"), options.get("transform"), options.get("workers"))
        if self._origin is None:
            return super().predict(x)
        return self._origin.answers(super().predict(_samples(self._origin, x)))

    def __reduce__(self) -> typing.Any:
        """Pickles the arguments, data included, and a checkpoint; losses and history begin anew."""
        import pathlib
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            self._save_state(folder)
            files = {str(path.relative_to(folder)): path.read_bytes()
                     for path in pathlib.Path(folder).rglob("*") if path.is_file()}
        return _restored, (type(self), *self._given, files)

    def state_dict(self) -> dict:
        """Makes PyTorch's tensors of the weights as they are now, as Result.state_dict() does.

        Returns
        -------
        dict of str to torch.Tensor
            What the module's load_state_dict() takes.

        Raises
        ------
        Error
            For a network that is no module's.
        """
        return state_dict(self._origin, self.weights, self.steps)


def _restored(kind: type, model: typing.Any, data: typing.Any, options: dict, files: dict) -> Trainer:
    import pathlib
    import tempfile

    trainer = kind(model, data, **options)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        trainer._restore_state(folder)
    return trainer


def state_dict(origin: typing.Any, weights: typing.Any, steps: int) -> dict:
    if origin is None:
        raise _accrue.Error("the network is no torch.nn.Module: expected the weights, arrays by PyTorch's names")
    return origin.state_dict(weights, steps)


def from_torch(module: typing.Any, x: typing.Any, *, training: bool = True,
               outputs: str | typing.Sequence[str] | None = None) -> pytorch.FromTorch:
    """Describes a torch.nn.Module as a network, by torch.export of a call.

    A module in training mode is taken as it is. One in eval mode, as pretrained ones often come, is put in
    training mode for this.

    Parameters
    ----------
    module : torch.nn.Module
        The module, whose present values are where a training begins. It is not changed.
    x : array_like [N, ...] or dict of them
        Samples, of which the sizes count alone.
    training : bool
        With False a module stays in eval mode, so that its dropouts do nothing and its batch norms use the
        running statistics.
    outputs : str or sequence of str, optional
        The names of the results to keep, if it has several.

    Returns
    -------
    FromTorch
        It takes the module's place as `model` everywhere; `weights` has the module's values, and
        `state_dict(weights)` makes the module's of trained ones.

    Raises
    ------
    Error
        For calls that there are no ops for. It names them.

    Examples
    --------
    >>> import torch
    >>> network = accrue.from_torch(torch.nn.Linear(4, 3), np.zeros((2, 4), np.float32))
    >>> sorted(network.weights)
    ['bias', 'weight']
    """
    from . import pytorch

    return pytorch.from_torch(module, x, training=training, outputs=outputs)


for _function in (Trainer.__init__, Trainer.run, Trainer.evaluate, Trainer.predict):
    _function.__doc__ = _signatures.doc_of(getattr(_accrue.Trainer, _function.__name__))
Trainer.__doc__ = _accrue.Trainer.__doc__
Trainer.__module__ = "accrue"
