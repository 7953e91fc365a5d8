"""Arguments by the names that other libraries have for them: the errors say what they are called here."""

from __future__ import annotations

import typing

from ._accrue import Error

_SPLIT = "micro_batch, the samples in memory, beside effective_batch, the samples of a step, or accum, their quotient"
_BASE = "base=FILE, with base_bits=4 or 8"
#: What to give in place of an argument.
MEANT = {
    "learning_rate": "lr",
    **dict.fromkeys(("max_epochs", "num_epochs", "num_train_epochs", "n_epochs"), "epochs"),
    **dict.fromkeys(("max_steps", "total_steps", "num_steps"), "steps"),
    **dict.fromkeys(("validation_data", "eval_dataset", "eval_set", "val_data", "val_dataloaders"), "validation"),
    "validation_split": "validation=(x, y), samples that are not in data",
    **dict.fromkeys(("accumulate_grad_batches", "gradient_accumulation_steps", "accumulation_steps"), _SPLIT),
    **dict.fromkeys(("per_device_train_batch_size", "train_batch_size", "micro_batch_size"), "micro_batch"),
    **dict.fromkeys(("effective_batch_size", "global_batch_size"), "effective_batch"),
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
    "criterion": "loss",
    **dict.fromkeys(("lora_r", "lora_rank"), "lora, the rank"),
    "target_modules": "lora_targets",
    **dict.fromkeys(("load_in_4bit", "load_in_8bit"), _BASE),
    "do_sample": "temperature=0 for the likeliest token, or another temperature",
    **dict.fromkeys(("max_length", "max_tokens"), "max_new_tokens"),
}
_VALUES = {
    "device": {"gpu": "cuda", "mps": "cpu"},
    "precision": {"bf16-mixed": "bf16", "bfloat16": "bf16", "16-mixed": "fp16", "float16": "fp16", "32": "fp32",
                  "float32": "fp32", "64": "fp64", "float64": "fp64"},
    "lora_targets": {"all-linear": "all"},
}


def _is_of_torch(value: typing.Any) -> bool:
    return type(value).__module__.startswith("torch.")


def check(function: str, options: dict[str, typing.Any], known: typing.Container[str] = ()) -> None:
    """Throws Error if an argument that `known` lacks, or its value, is another library's."""
    for name, value in options.items():
        if name in MEANT and name not in known:
            raise Error(f"{function}() has no argument {name}; did you mean {MEANT[name]}?")
        if name in ("optimizer", "loss") and _is_of_torch(value):
            name_of = type(value).__name__
            what = "its name, such as 'adamw', beside lr and weight_decay" if name == "optimizer" else \
                "its name, such as 'cross_entropy' or 'mse'"
            raise Error(f"{name} is PyTorch's {name_of}: expected {what}")
        if name == "base" and isinstance(value, dict):
            raise Error("base is weights in memory, but it stays in its file: expected FILE, as weights.save(FILE) "
                        "writes")
        meant = _VALUES[name].get(str(value)) if name in _VALUES else None
        if meant is not None:
            raise Error(f"{name} is {value}: expected '{meant}'")
