"""Arguments by the names that other libraries have for them: the errors say what they are called here."""

from __future__ import annotations

import functools
import typing

from ._accrue import Error

_SPLIT = "micro_batch, the samples in memory, beside effective_batch, the samples of a step, or accum, their quotient"
_BASE = "base=FILE, with base_bits=4 or 8"
#: What to give in place of an argument.
MEANT = {
    "learning_rate": "lr",
    **dict.fromkeys(("max_epochs", "num_epochs", "num_train_epochs", "n_epochs", "max_iter"), "epochs"),
    **dict.fromkeys(("max_steps", "total_steps", "num_steps"), "steps"),
    **dict.fromkeys(("train_dataset", "train_dataloaders", "training_data", "dataset", "x", "X"), "data, such as (x, y)"),
    **dict.fromkeys(("y", "labels", "targets"), "data=(x, y)"),
    **dict.fromkeys(("validation_data", "eval_dataset", "eval_set", "val_data", "val_dataloaders"), "validation"),
    "validation_split": "validation=(x, y), samples that are not in data",
    **dict.fromkeys(("accumulate_grad_batches", "gradient_accumulation_steps", "accumulation_steps"), _SPLIT),
    **dict.fromkeys(("per_device_train_batch_size", "train_batch_size", "micro_batch_size"), "micro_batch"),
    **dict.fromkeys(("effective_batch_size", "global_batch_size"), "effective_batch"),
    "batch_size": "effective_batch, the samples of a step, beside micro_batch, how many of them are in memory at once",
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "patience=N beside validation"),
    **dict.fromkeys(("restore_best_weights", "load_best_model_at_end", "save_best_only"), "keep_best=True"),
    **dict.fromkeys(("lr_scheduler", "lr_scheduler_type", "scheduler"), "schedule, such as 'cosine'"),
    **dict.fromkeys(("warmup", "warmup_ratio", "num_warmup_steps"), "warmup_steps"),
    **dict.fromkeys(("callbacks", "callback"), "on_step or on_epoch, functions or lists of them"),
    "verbose": "progress for a bar, or quiet=False for the program's lines",
    "disable_tqdm": "progress=False",
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    "shuffle": "no_shuffle=True for data in their order",
    "fp16": "precision='fp16'",
    "bf16": "precision='bf16'",
    **dict.fromkeys(("max_grad_norm", "gradient_clip_val", "clipnorm", "grad_clip"), "clip_norm"),
    "label_smoothing_factor": "label_smoothing",
    **dict.fromkeys(("resume_from_checkpoint", "ckpt_path"), "resume=True beside checkpoint_dir"),
    "gradient_checkpointing": "recompute='all' or 'sqrt'",
    **dict.fromkeys(("num_workers", "dataloader_num_workers"), "workers"),
    **dict.fromkeys(("eval_steps", "val_check_interval"), "eval_every"),
    "save_steps": "checkpoint_every",
    "logging_steps": "log_every",
    "output_dir": "checkpoint_dir, or save=FILE for the weights alone",
    **dict.fromkeys(("accelerator", "devices"), "device, such as 'cuda'"),
    **dict.fromkeys(("criterion", "loss_fn", "loss_function"), "loss"),
    **dict.fromkeys(("compute_metrics", "eval_metric", "metric"), "metrics"),
    **dict.fromkeys(("monitor", "min_delta"), "patience, which watches the loss of validation"),
    **dict.fromkeys(("trainable", "requires_grad"), "freeze, names of weights or 'backbone'"),
    **dict.fromkeys(("checkpoint", "pretrained"), "init"),
    **dict.fromkeys(("lora_r", "lora_rank", "peft_config"), "lora, the rank, beside lora_targets and base"),
    "target_modules": "lora_targets",
    **dict.fromkeys(("load_in_4bit", "load_in_8bit"), _BASE),
    "do_sample": "temperature=0 for the likeliest token, or another temperature",
    **dict.fromkeys(("max_length", "max_tokens"), "max_new_tokens"),
    "max_seq_length": "context",
}
# Their meaning in single functions.
_ELSEWHERE = {
    **{(function, "weights"): "init" for function in ("train", "Trainer")},
    **{(function, "max_length"): "context" for function in ("train", "Trainer", "plan", "evaluate")},
    **{(function, "batch_size"): "micro_batch" for function in ("predict", "evaluate", "embed", "generate")},
    **{(function, name): "data=(x, y)" for function in ("evaluate",) for name in ("x", "X", "y")},
    ("generate", "num_return_sequences"): "seed, one for each text",
}
_TRAIN = "accrue.train(model, (x, y), ...)"
# Attributes by the names that other libraries have for them: of the package, and of its objects.
_OF_PACKAGE = {
    "Dense": "Linear(INPUTS, OUTPUTS)", "Conv2D": "Conv2d", "Conv2DTranspose": "ConvTranspose2d",
    **dict.fromkeys(("MaxPooling2D", "MaxPool2D"), "MaxPool2d"), "AveragePooling2D": "AvgPool2d",
    "GlobalAveragePooling2D": "GlobalAvgPool2d", "BatchNormalization": "BatchNorm2d or BatchNorm1d",
    "LayerNormalization": "LayerNorm", "Activation": "ReLU, GELU, ... or activation= of a layer", "Input": "input",
    "Model": "Network(inputs, outputs)", **dict.fromkeys(("Module", "LightningModule"), "train(module, data), by a "
                                                         "torch.nn.Module as it is"),
    **dict.fromkeys(("fit", "compile"), "train"), "EarlyStopping": "patience=N and keep_best=True of train()",
    "ModelCheckpoint": "checkpoint_dir= or keep_best=True of train()", "TrainingArguments": "the arguments of train()",
    **dict.fromkeys(("load_model", "load", "from_pretrained"), "Weights.load(FILE), or init=FILE of train() beside the network"),
    **dict.fromkeys(("save_model", "save"), "result.save(FILE) of what train() returns"),
    **dict.fromkeys(("LoraConfig", "get_peft_model"), "lora=RANK of train(), beside base=FILE"),
    **dict.fromkeys(("NeuralNetClassifier", "MLPClassifier"), "Classifier"),
    **dict.fromkeys(("NeuralNetRegressor", "MLPRegressor"), "Regressor"),
    **dict.fromkeys(("SentenceTransformer", "encode"), "train() on pairs of texts, and embed()"), "pipeline": "generate",
    "DataLoader": "train(model, loader), by PyTorch's own", "score": "evaluate",
}
_OF_LAYERS = {
    **dict.fromkeys(("fit", "compile"), _TRAIN), "evaluate": "evaluate() of the Result of " + _TRAIN,
    "predict": "predict() of the Result of " + _TRAIN, "summary": "print(layer), or accrue.info(layer)",
    **dict.fromkeys(("save", "save_weights"), "save() of the Result of " + _TRAIN),
    **dict.fromkeys(("load_state_dict", "load_weights"), "init=WEIGHTS of accrue.train()"),
    **dict.fromkeys(("parameters", "state_dict", "weights"), "weights of the Result of " + _TRAIN),
    **dict.fromkeys(("trainable", "requires_grad_"), "freeze= of accrue.train()"),
    **dict.fromkeys(("to", "cuda"), "device= of accrue.train()"), "forward": "the layer itself, which is called on a value",
    **dict.fromkeys(("add", "append", "layers"), "accrue.Sequential(LAYERS)"),
}
_OF_RESULTS = {
    **dict.fromkeys(("callback_metrics", "metrics", "logged_metrics"), "score"), "model": "weights",
    **dict.fromkeys(("encode", "embed"), "accrue.embed(result, texts)"), "generate": "accrue.generate(result, prompt)",
    **dict.fromkeys(("save_weights", "save_model", "save_pretrained"), "save(FILE)"), "export": "accrue.export_onnx(result, FILE)",
    "fit": "accrue.train(..., init=result)", "best_model": "best_weights", "predict_proba": "predict(), which gives logits",
}
_OF_TRAINERS = {
    **dict.fromkeys(("fit", "train"), "run()"), **dict.fromkeys(("validate", "test"), "evaluate(data)"),
    **dict.fromkeys(("callback_metrics", "logged_metrics", "log_history"), "history"),
    **dict.fromkeys(("save_model", "save"), "save_weights(FILE)"), "save_checkpoint": "checkpoint_dir= of Trainer()",
}
_OF_HISTORIES = {"history": "the history itself, a dictionary", "epoch": "history['epoch']"}
_VALUES = {
    "device": {"gpu": "cuda", "mps": "cpu"},
    "precision": {"bf16-mixed": "bf16", "bfloat16": "bf16", "16-mixed": "fp16", "float16": "fp16", "32": "fp32",
                  "float32": "fp32", "64": "fp64", "float64": "fp64"},
    "lora_targets": {"all-linear": "all"},
}


def _is_of_torch(value: typing.Any) -> bool:
    """True for an object of PyTorch, and for its classes and functions."""
    own = getattr(value, "__module__", None) if hasattr(value, "__name__") else None
    return type(value).__module__.startswith("torch.") or isinstance(own, str) and own.startswith("torch.")


def check_places(function: str, args: tuple, places: typing.Sequence[str]) -> None:
    """Throws Error for more arguments without a name than there are places, as fit(x, y) has them."""
    if len(args) > len(places):
        hint = "; samples and their labels are one argument, (x, y)" if "data" in places else ""
        raise Error(f"{function}() takes {', '.join(places)} without names, but {len(args)} arguments came: expected the others "
                    f"by their names{hint}")


_Function = typing.TypeVar("_Function", bound=typing.Callable[..., typing.Any])


def takes_one_data(function: _Function) -> _Function:
    """A method of data alone, which says so to whoever gives x and y."""
    @functools.wraps(function)
    def call(self: typing.Any, *args: typing.Any, **options: typing.Any) -> typing.Any:
        check_places(function.__name__, args, ["data"])
        return function(self, *args, **options)

    return typing.cast(_Function, call)


def _lacking(what: str, name: str, meant: dict[str, str]) -> AttributeError:
    hint = f"; did you mean {meant[name]}?" if name in meant else ""
    return AttributeError(f"{what} has no attribute {name!r}{hint}")


def lacking_in_estimator(estimator: str, name: str, known: typing.Container[str]) -> str:
    """The error for an argument that a scikit-learn estimator has not."""
    meant = {**MEANT, "lr_init": "lr", "learning_rate_init": "lr", "batch_size": "effective_batch", "module": "model",
             "solver": "optimizer", "alpha": "weight_decay", "early_stopping": "patience beside validation_fraction",
             **dict.fromkeys(("seed", "random_seed"), "random_state")}.get(name, name)
    own = meant.split(",")[0].split(" ")[0].split("=")[0]
    return f"{estimator}() has no argument {name}; did you mean {meant}?" if own in known and own != name else \
        f"{estimator}() has no argument {name}: expected options={{...}}, with the arguments of accrue.train()"


def lacking_in_package(name: str) -> AttributeError:
    """The error for a name that the package has not."""
    return _lacking("module 'accrue'", name, _OF_PACKAGE)


def explain_attributes(type_: type) -> None:
    """Lets the objects of a type say what other libraries' names of methods are here."""
    meant = {"Layer": _OF_LAYERS, "Result": _OF_RESULTS, "Trainer": _OF_TRAINERS, "History": _OF_HISTORIES}[type_.__name__]

    def lacks(self: typing.Any, name: str) -> typing.NoReturn:
        raise _lacking(f"{type(self).__name__!r} object", name, meant)

    type_.__getattr__ = lacks  # type: ignore[attr-defined]


def check(function: str, options: dict[str, typing.Any], known: typing.Container[str] = ()) -> None:
    """Throws Error if an argument that `known` lacks, or its value, is another library's."""
    for name, value in options.items():
        meant = _ELSEWHERE.get((function, name), MEANT.get(name))
        if meant is not None and name not in known:
            raise Error(f"{function}() has no argument {name}; did you mean {meant}?")
        if name in ("optimizer", "loss") and _is_of_torch(value):
            name_of = getattr(value, "__name__", type(value).__name__)
            what = "its name, such as 'adamw', beside lr and weight_decay" if name == "optimizer" else \
                "its name, such as 'cross_entropy' or 'mse'"
            raise Error(f"{name} is PyTorch's {name_of}: expected {what}")
        if name == "base" and isinstance(value, dict):
            raise Error("base is weights in memory, but it stays in its file: expected FILE, as weights.save(FILE) "
                        "writes")
        meant = _VALUES[name].get(str(value)) if name in _VALUES else None
        if meant is not None:
            raise Error(f"{name} is {value}: expected '{meant}'")
