#!/usr/bin/env python3
"""Compare the results, files and messages of two builds of accrue: for a change that shall alter nothing.

    scripts/compare_builds.py BEFORE AFTER [--only PART] [--keep DIR]

BEFORE and AFTER are programs. Each case is a few commands, which each program runs in an empty folder. Their exit
statuses, their messages and every file that they write must be the same. In messages, values that differ from run to
run (times, rates, a process's memory) do not count. Files of the Safetensors format are compared by their bytes first,
then by tensors and metadata, to name the difference. MPI's mpiexec is used if it is installed.

Exits with 1 if a case differs, and lists the lines and files that do.
"""

import argparse
import difflib
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

IMAGES = "--data digits --threads 2 --steps 4"
TEXT = "--data grammar --context 32 --threads 2 --steps 3"
GLYPHS = "font train --data strokes --image-size 32 --width 0.0625 --threads 2 --steps 2 --micro-batch 2"

# Name: the commands, with the program's name left out. "mpi N ..." runs N ranks.
TRAININGS = {
    "mlp": [f"train --model mlp {IMAGES} --save w.safetensors"],
    "mlp of a short last window": ["train --model mlp-small --data digits --threads 1 --steps 160 --effective-batch 65 "
                                   "--micro-batch 9 --save w.safetensors"],
    "cnn": [f"train --model cnn {IMAGES} --save w.safetensors --json log.jsonl"],
    "cnn in bf16": [f"train --model cnn {IMAGES} --precision bf16 --save w.safetensors"],
    "cnn in fp16": [f"train --model cnn {IMAGES} --precision fp16 --save w.safetensors"],
    "cnn that is augmented": [f"train --model cnn {IMAGES} --augment flip,rotate,crop,brightness --dropout 0.2 "
                              "--save w.safetensors"],
    "separate": [f"train --model cnn {IMAGES} --strategy separate --on-overflow drop-micro-batch --save w.safetensors"],
    "moments": [f"train --model mlp {IMAGES} --strategy moments --save w.safetensors"],
    "step in backward": [f"train --model mlp {IMAGES} --strategy step-in-backward --accum 1 --save w.safetensors"],
    "bf16 sum": [f"train --model mlp {IMAGES} --strategy bf16-sum --save w.safetensors"],
    "sgd and one cycle": [f"train --model cnn-gn {IMAGES} --optimizer sgd --momentum 0.9 --nesterov --schedule one-cycle "
                          "--clip-norm 1 --save w.safetensors"],
    "lion, average, noise scale": [f"train --model mlp {IMAGES} --optimizer lion --ema 0.9 --noise-scale "
                                   "--save w.safetensors"],
    "batch norm": [f"train --model resnet-bn {IMAGES} --micro-batch 4 --save w.safetensors"],
    "batch norm of the window": [f"train --model cnn-bn {IMAGES} --micro-batch 4 --batch-norm window "
                                 "--save w.safetensors"],
    "batch norm by walks": [f"train --model cnn-bn {IMAGES} --micro-batch 4 --batch-norm window --batch-norm-by walk "
                            "--save w.safetensors"],
    "resnet recomputed": [f"train --model resnet {IMAGES} --micro-batch 4 --recompute sqrt --save w.safetensors"],
    "unet": ["train --model unet --data shapes --threads 2 --steps 2 --micro-batch 2 --accum 2 --loss bce+dice "
             "--save w.safetensors", "eval --model unet --data shapes --init w.safetensors --threads 2"],
    "simclr": [f"train --model cnn-gn {IMAGES} --objective simclr --augment flip,crop=0.5 --save w.safetensors"],
    "frozen, from weights": [f"train --model cnn {IMAGES} --save a.safetensors",
                             f"train --model cnn {IMAGES} --init a.safetensors --freeze backbone --save w.safetensors"],
    "budget": [f"train --model cnn {IMAGES} --effective-batch 64 --micro-batch auto --memory-limit 14MiB "
               "--save w.safetensors"],
    "evaluated on the way": [f"train --model mlp {IMAGES} --eval-every 2 --patience 1 --checkpoint-dir c --keep-best "
                             "--log-dir log --save w.safetensors"],
    "resumed": ["train --model mlp --data digits --threads 2 --steps 3 --checkpoint-dir c --checkpoint-every 2",
                "train --model mlp --data digits --threads 2 --steps 6 --checkpoint-dir c --checkpoint-every 2 --resume "
                "--save w.safetensors"],
    "gpt": [f"train --model gpt-tiny {TEXT} --optimizer adamw --save w.safetensors",
            "text write --weights w.safetensors --prompt The --tokens 20 --threads 1"],
    "llama in pieces": [f"train --model llama-tiny {TEXT} --sequence-piece 16 --micro-batch 1 --save w.safetensors"],
    "llama, padded rows": [f"train --model llama-tiny {TEXT} --documents padded --precision bf16 --save w.safetensors"],
    "lora": [f"train --model llama-tiny {TEXT} --save a.safetensors",
             f"train {TEXT} --base a.safetensors --lora 4 --lora-targets all --save w.safetensors",
             "text merge --weights w.safetensors --out m.safetensors"],
    "lora over 4 bits": [f"train --model llama-tiny {TEXT} --save a.safetensors",
                         f"train {TEXT} --base a.safetensors --base-bits 4 --lora 4 --save w.safetensors"],
    "zi2zi": [f"{GLYPHS} --effective-batch 6 --save w.safetensors"],
    "zi2zi simultaneous": [f"{GLYPHS} --effective-batch 6 --order simultaneous --n-critic 2 --g-steps 1 --norm batch "
                           "--save w.safetensors --checkpoint-dir c"],
    "3 ranks": ["mpi 3 train --model cnn --data digits --steps 4 --threads 1 --micro-batch 5 --effective-batch 32 "
                "--save w.safetensors"],
    "2 ranks, sharded": ["mpi 2 train --model mlp --data digits --steps 4 --threads 1 --shard-optimizer --save w.safetensors"],
}
OTHERS = {
    "help": ["--help", "train --help", "train --help-all", "eval --help-all", "plan --help-all", "predict --help-all",
             "export --help-all", "info --help-all", "report --help", "data --help", "bench --help",
             "bench train --help-all", "bench memory --help-all", "font --help", "font train --help-all",
             "font prepare --help", "font draw --help", "text --help", "text prepare --help", "text write --help",
             "text import --help", "text export --help", "text merge --help", "completion bash", "completion zsh",
             "completion fish"],
    "facts": ["info --model cnn", "info --model gpt2", "info --model zi2zi", "--version"],
    "plans": ["plan --model resnet --memory 24MiB --effective-batch 256 --threads 2",
              "plan --model gpt-tiny --data grammar --memory 64MiB --effective-batch 64 --threads 2",
              "plan --model zi2zi --memory 512MiB --effective-batch 16 --threads 2",
              "plan --model cnn-bn --memory 8MiB --effective-batch 64 --batch-norm window --threads 2",
              "plan --model mlp --memory 1MiB"],
    "answers": [f"train --model cnn {IMAGES} --save w.safetensors",
                "eval --weights w.safetensors --threads 2", "eval --init w.safetensors --model cnn --threads 2",
                "predict --weights w.safetensors --out answers --threads 2",
                "export --weights w.safetensors --out net.onnx", "export --weights w.safetensors --out b.onnx --bytes"],
    "onnx of others": [f"train --model unet --data shapes --threads 2 --steps 1 --micro-batch 2 --accum 1 --save u.safetensors",
                       "export --weights u.safetensors --out u.onnx",
                       f"train --model llama-tiny {TEXT} --save l.safetensors",
                       "export --weights l.safetensors --out l.onnx",
                       "text export --weights l.safetensors --out l"],
    "masks": ["train --model unet --data shapes --threads 2 --steps 1 --micro-batch 2 --accum 1 --save u.safetensors",
              "predict --weights u.safetensors --out masks --overlay --threads 2",
              "predict --weights u.safetensors --data masks --out of-masks --tile 64 --overlap 32 --threads 2",
              "predict --weights u.safetensors --data masks --out masks --threads 2",
              "data check masks --sheet sheet.png", "data check nowhere"],
    "drawings": [f"{GLYPHS} --sample-every 1 --log-dir log --save w.safetensors",
                 "font draw --weights w.safetensors --all --threads 2",
                 "font draw --weights w.safetensors --all --style second", "font draw --weights w.safetensors --text a",
                 "font draw --weights w.safetensors --all --dropout-seed 1", "font score --weights w.safetensors --threads 2",
                 "font score --weights w.safetensors --json scores.json --threads 2",
                 "font score --weights w.safetensors --json - --threads 2",
                 "font export --weights w.safetensors --font nowhere.ttf --chars abc --out f.ttf",
                 "font prepare --source a.ttf --target b.ttf --chars abc --out pairs"],
    "refusals": [
        "train --lerning-rate 1", "train --model resnett", "train --micro-batch 0", "train --accum -1",
        "train --effective-batch 10 --accum 3", "train --data nowhere", "train --init nothing.safetensors",
        "train --precision fp8", "train --strategy moments --optimizer sgd", "train --strategy step-in-backward --accum 2",
        "train --optimizer sgd --beta1 0.5", "train --optimizer adam --momentum 0.5", "train --model mlp --context 5",
        "train --model gpt-tiny --crop 4", "train --model cnn --loss dice", "train --patience 3", "train --resume",
        "train --model mlp --batch-norm window", "train --memory-limit 1", "train --save nowhere/w.safetensors",
        "train --save a.safetensors --json a.safetensors", "train --config nothing.toml", "train --lora 4",
        "train --model cnn --recompute most", "train --objective simclr", "train --on-overflow drop-micro-batch",
        "train --device cuda", "eval", "eval --init nothing.safetensors", "predict --out answers", "export --out a.onnx",
        "plan", "plan --memory much", "font train --model cnn", "font draw", "text write", "text prepare --out c",
        "text prepare --text nowhere --out c", "text import --from nowhere --out w", "report", "nonsense", "train cnn",
        "bench train --model nothing", "train --seed 1 --seed 2", "train --micro-batch",
    ],
}

VARYING = [  # (a pattern that differs from run to run, the word that replaces it)
    (re.compile(r"\b\d+(\.\d+)?(e[+-]\d+)? ?(samples|tokens|windows|documents)/s"), "RATE"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|us|minutes|min|h)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? %( of the time)"), "SHARE"),
    (re.compile(r"(process|RSS)[^|\n]*\d+(\.\d+)? [KMGT]?i?B"), "PROCESS"),
    (re.compile(r"\b\d+:\d\d(:\d\d)?\b"), "TIME"),
    (re.compile(r"TIME of training \(TIME with [a-z ]*\)"), "TIME"),
]
PROGRAMS = []  # their paths, which checkpoints and logs contain
UNSTABLE_FILES = re.compile(r"(^|/)(events\.out\.tfevents\.|summary\.json|metrics\.jsonl|run\.json)|\.jsonl$")
UNSTABLE_KEYS = re.compile(r'"([a-z_]*(seconds|_s|ms|time|rate|per_second|rss|date|started|elapsed)[a-z_]*)": ?("[^"]*"|[-\d.e+]+)')


def stable(text, folder):
    text = text.replace(str(folder), "FOLDER")
    for program in PROGRAMS:
        text = text.replace(program, "accrue")
    for pattern, stand_in in VARYING:
        text = pattern.sub(stand_in, text)
    return UNSTABLE_KEYS.sub(r'"\1": VARIES', text)


def safetensors_parts(data):
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    parts = {"metadata": json.dumps(header.pop("__metadata__", {}), sort_keys=True)}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        parts[name] = hashlib.sha256(data[8 + size + begin:8 + size + end]).hexdigest() + str(tensor["shape"])
    return parts


def run_case(program, commands, folder):
    """Returns the commands' output and the bytes of the files that they left."""
    said = []
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LC_ALL": "C"}
    for command in commands:
        words, start = command.split(), [program]
        if words[0] == "mpi":
            if not shutil.which("mpiexec"):
                continue
            start = ["mpiexec", "--oversubscribe", "-n", words[1], program]
            words = words[2:]
        result = subprocess.run(start + words, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                                timeout=600, check=False)
        said += [f"$ accrue {command}", *stable(result.stdout, folder).splitlines(), f"exit status {result.returncode}"]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return said, files


def file_differences(name, before, after, folders):
    if before == after:
        return []
    if name.endswith(".safetensors"):
        old, new = safetensors_parts(before), safetensors_parts(after)
        differing = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        return [f"{name}: differs in {', '.join(differing[:5]) or 'the order of its tensors'}"
                + (f" and {len(differing) - 5} more" if len(differing) > 5 else "")]
    if UNSTABLE_FILES.search(name) or name.endswith((".json", ".txt", ".toml", ".csv")):
        old, new = (stable(data.decode("utf-8", "replace"), folder) for data, folder in zip((before, after), folders))
        if old == new or "tfevents" in name:
            return []
    return [f"{name}: {len(before)} and {len(after)} bytes differ"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the folders of the cases here")
    options = parser.parse_args()
    programs = [str(options.before.resolve()), str(options.after.resolve())]
    PROGRAMS.extend(programs)
    cases = {name: commands for name, commands in {**TRAININGS, **OTHERS}.items() if options.only in name}
    work = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="compare-"))
    differing = 0
    for name, commands in cases.items():
        folders = [work / side / name.replace(" ", "-") for side in ("before", "after")]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        (old_said, old_files), (new_said, new_files) = (
            run_case(program, commands, folder) for program, folder in zip(programs, folders))
        lines = [line for line in difflib.unified_diff(old_said, new_said, "before", "after", lineterm="", n=0)]
        for file in sorted({*old_files, *new_files}):
            if file.split("/")[-1].startswith("events.out.tfevents"):
                continue  # its name holds the time
            if file not in old_files or file not in new_files:
                lines.append(f"{file}: only {'after' if file in new_files else 'before'}")
            else:
                lines += file_differences(file, old_files[file], new_files[file], folders)
        statuses = [line.split()[-1] for line in new_said if line.startswith("exit status")]
        print(f"{'DIFFERS' if lines else 'same   '} {name}: {len(commands)} commands (exit {', '.join(sorted(set(statuses)))}), "
              f"{len(new_files)} files", flush=True)
        for line in lines[:40]:
            print("    " + line)
        differing += bool(lines)
    if not options.keep:
        shutil.rmtree(work)
    print(f"{len(cases)} cases, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
