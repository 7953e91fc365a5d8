#!/usr/bin/env bash
# From a fresh clone to a trained network: sets up, builds, finds data, trains by accumulation; on
# the GPU where there is one and a CUDA compiler.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/demo.sh [options] [-- options of 'accrue train']
Trains a perceptron with an effective batch of 64, 16 samples in memory at a time: on MNIST where
it is found or can be downloaded, else on the built-in digits.
  --data-dir DIR  where MNIST is, or is downloaded to (default: data/mnist of this project)
  --digits        take the built-in digits; look for nothing, download nothing
  --epochs N      passes over the training data (default 3)
  --steps N       stop after so many optimizer steps
  --no-setup      install no packages
END
}

data_dir=$root/data/mnist
digits=false setup=true epochs=3 steps=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --data-dir) need_value "$@"; data_dir=$2; shift ;;
    --epochs) need_value "$@"; epochs=$2; shift ;;
    --steps) need_value "$@"; steps=(--steps "$2"); shift ;;
    --digits) digits=true ;;
    --no-setup) setup=false ;;
    -h | --help) usage; exit ;;
    --) shift; break ;;
    *) usage >&2; fail "unknown option '$1'" ;;
  esac
  shift
done

echo "demo: this builds the program and then trains a perceptron ($epochs passes over the data, effective" \
  "batch 64, of which 16 samples are in memory at a time)"
if $setup; then "$root/scripts/setup.sh"; fi
build_for_machine || fail "the build failed"

if $digits; then
  data=digits
  echo "demo: training on the built-in digits, as asked"
elif "$root/scripts/fetch_mnist.sh" "$data_dir"; then
  data=$data_dir
  echo "demo: training on MNIST from $data_dir"
else
  data=digits
  echo "demo: MNIST is neither in $data_dir nor to be had from here:" \
    "training on the built-in digits"
fi

command=("$program" train --model mlp --data "$data"
         --micro-batch 16 --accum 4 --schedule cosine --epochs "$epochs" "${steps[@]}" "$@")
echo "demo: ${command[*]}"
exec "${command[@]}"
