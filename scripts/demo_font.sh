#!/usr/bin/env bash
# From a fresh clone to a network that draws one font in the style of another: installs two of
# Debian's fonts, builds, prepares pairs, trains, scores, and draws characters that were held out.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/demo_font.sh [options] [-- options of 'accrue font train']
Trains zi2zi at 64 pixels and a quarter of its width to draw WenQuanYi Zen Hei as AR PL UKai: 2000
characters, effective batch 4, with 1 sample in memory at a time. On 2 cores it takes about half an
hour.
  --out DIR    where pairs, log, weights and sheets go (default: build/demo_font)
  --strokes    use the built-in strokes instead of fonts
  --epochs N   passes over the training data (default 14)
  --no-setup   install no packages
END
}

out=$root/build/demo_font
strokes=false setup=true epochs=14
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) need_value "$@"; out=$2; shift ;;
    --epochs) need_value "$@"; epochs=$2; shift ;;
    --strokes) strokes=true ;;
    --no-setup) setup=false ;;
    -h | --help) usage; exit ;;
    --) shift; break ;;
    *) usage >&2; fail "unknown option '$1'" ;;
  esac
  shift
done

if $setup; then
  if $strokes; then "$root/scripts/setup.sh"; else "$root/scripts/setup.sh" --fonts; fi
fi
build_for_machine || fail "the build failed"
mkdir -p "$out"
data=strokes
if ! $strokes; then
  data=$out/glyphs
  fonts=/usr/share/fonts/truetype
  [[ -e $data ]] || "$program" font prepare --source "$fonts/wqy/wqy-zenhei.ttc#0" \
    --target "$fonts/arphic/ukai.ttc#0" --chars gb2312 --limit 2000 --size 64 --out "$data"
fi

run() { echo "demo_font: $*"; "$@"; }
run "$program" font train --data "$data" --width 0.25 --micro-batch 1 --effective-batch 4 \
  --epochs "$epochs" --lr 1e-3 --lr-d 5e-5 --schedule cosine --eval-every epoch \
  --log-dir "$out/log" --sample-every 500 --save "$out/generator.safetensors" "$@"
run "$program" font score --weights "$out/generator.safetensors" --data "$data"
run "$program" font draw --weights "$out/generator.safetensors" --data "$data" --all \
  --out "$out/sheet.png"
