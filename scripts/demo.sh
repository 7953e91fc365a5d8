#!/usr/bin/env bash
# From a fresh clone to a trained network: sets up, builds, finds data, trains by accumulation, and
# prints the memory saved and commands to try next. Uses the GPU if there is one and a CUDA compiler
# is installed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/demo.sh [options] [-- options of 'accrue train']
Trains a convolutional network with an effective batch of 256, 16 samples in memory at a time: on
MNIST if it is found or can be downloaded, else on the built-in digits.
  --data-dir DIR  where MNIST is, or is downloaded to (default: data/mnist of this project)
  --digits        take the built-in digits; look for nothing, download nothing
  --epochs N      passes over the training data (default 2 for MNIST, 10 for the digits)
  --steps N       stop after N optimizer steps
  --only images   build the program without language models and fonts, which is sooner done
  --no-setup      install no packages
END
}

data_dir=$root/data/mnist
digits=false setup=true epochs="" steps=() only=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --data-dir) need_value "$@"; data_dir=$2; shift ;;
    --epochs) need_value "$@"; epochs=$2; shift ;;
    --steps) need_value "$@"; steps=(--steps "$2"); shift ;;
    --digits) digits=true ;;
    --only)
      need_value "$@"
      [[ $2 == images ]] || fail "--only is '$2', but the demo trains on images: expected images"
      only=$2
      shift ;;
    --no-setup) setup=false ;;
    -h | --help) usage; exit ;;
    --) shift; break ;;
    *) usage >&2; fail "unknown option '$1'" ;;
  esac
  shift
done

echo "demo: this builds the program, then trains a convolutional network with an effective batch of 256," \
  "of which 16 samples are in memory at a time"
if $setup; then "$root/scripts/setup.sh"; fi
build_for_machine "$only" || fail "the build failed"

if $digits; then
  data=digits
  echo "demo: training on the built-in digits, as asked"
elif "$root/scripts/fetch_mnist.sh" "$data_dir"; then
  data=$data_dir
  echo "demo: training on MNIST from $data_dir"
else
  data=digits
  echo "demo: MNIST is not in $data_dir and cannot be downloaded:" \
    "training on the built-in digits"
fi
if [[ $data == digits ]]; then epochs=${epochs:-10}; else epochs=${epochs:-2}; fi

run=(--model cnn --data "$data" --micro-batch 16 --effective-batch 256)
command=("$program" train "${run[@]}" --lr 5e-3 --schedule cosine --warmup-steps 50
         --epochs "$epochs" "${steps[@]}" "$@")
echo "demo: ${command[*]}"
"${command[@]}"

# The memory that accumulation saves, from the plan, which predicts a run's memory to the byte.
saving() {
  "$program" plan "${run[@]}" --json - 2>/dev/null | python3 -c '
import json, sys

def at_once(plan):
    return plan["micro_batch"] == 256 and (plan["recompute"], plan["strategy"]) == ("none", "fused")

def size(n):
    return f"{n / 2**10:.1f} KiB" if n < 2**20 else f"{n / 2**20:.1f} MiB"

def compare(name, now, whole):
    return f"{name} {size(now)} instead of {size(whole)} ({whole / now:.1f}x less)"

plans = json.load(sys.stdin)
now = plans["yours"]["peak_by_category"]
whole = next(filter(at_once, plans["alternatives"]))["peak_by_category"]
without_data = [sum(peak.values()) - peak["data"] for peak in (now, whole)]
print(compare("activations took", now["activations"], whole["activations"]) + ",",
      compare("all but the data", *without_data))'
}
same="every step was the step of the 256 samples at once"
# With the caller's options the run may differ from the one that `saving` plans.
if [[ $# -eq 0 ]]; then echo "demo: $(saving); $same"; fi
short=${program#"$PWD/"}
cat <<END
demo: what to try next:
  your own photos, in a folder 'photos' with a folder for each class:
    $short train --data photos --image-size 64 --model cnn --augment flip --micro-batch 8 --effective-batch 64 --epochs 10
END
if [[ -n $only ]]; then
  echo "  language models and fonts, too: scripts/demo.sh without --only builds them"
else
  cat <<END
  a language model, in one or two minutes:
    $short train --model gpt-tiny --context 128 --micro-batch 8 --effective-batch 32 --optimizer adamw --lr 3e-3 --schedule cosine --warmup-steps 20 --steps 400
END
fi
cat <<END
  the batch that fits into a memory of your choice:
    $short plan --model resnet --memory 24MiB --effective-batch 256
END
