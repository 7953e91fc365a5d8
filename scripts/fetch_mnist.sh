#!/usr/bin/env bash
# Makes sure that DIR holds the four files of MNIST. Downloads the missing ones, checks their MD5,
# and only then gives them their names.
set -euo pipefail

mirrors=(https://ossci-datasets.s3.amazonaws.com/mnist
         https://storage.googleapis.com/cvdf-datasets/mnist)
readonly -A md5=(
  [train-images-idx3-ubyte]=f68b3c2dcbeaaa9fbdd348bbdeb94873
  [train-labels-idx1-ubyte]=d53e105ee54ea40749a09fcbcd1e9432
  [t10k-images-idx3-ubyte]=9fb629c4189551a2d022fa330f9573f3
  [t10k-labels-idx1-ubyte]=ec29112dd5afa0611ce80d1b7f02629c)

usage() {
  cat <<END
Usage: scripts/fetch_mnist.sh [--mirror URL] DIR
Downloads MNIST (11 MB) into DIR unless it is there. Exits with 1 if that fails.
END
}

say() { echo "mnist: $*" >&2; }

directory=
while [[ $# -gt 0 ]]; do
  case $1 in
    --mirror) mirrors=("${2:?"--mirror needs a URL"}"); shift ;;
    -h | --help) usage; exit ;;
    -*) usage >&2; say "unknown option '$1'"; exit 2 ;;
    *) directory=$1 ;;
  esac
  shift
done
[[ -n $directory ]] || { usage >&2; exit 2; }

download() {
  local url=$1 file=$2
  if command -v curl >/dev/null; then
    curl --fail --silent --location --connect-timeout 5 --max-time 120 --output "$file" "$url"
  elif command -v wget >/dev/null; then
    wget --quiet --tries=1 --connect-timeout=5 --read-timeout=30 --output-document="$file" "$url"
  else
    say "neither curl nor wget is installed"
    exit 1
  fi
}

fetch() {
  local name=$1 file=$directory/$1.gz mirror
  for mirror in "${mirrors[@]}"; do
    download "$mirror/$name.gz" "$partial" || continue
    if echo "${md5[$name]}  $partial" | md5sum --check --status; then
      mv "$partial" "$file"
      return
    fi
    say "$mirror/$name.gz is not the file it should be (its MD5 differs)"
  done
  return 1
}

missing=()
for name in "${!md5[@]}"; do
  [[ -s $directory/$name || -s $directory/$name.gz ]] || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

mkdir -p "$directory"
partial=$directory/.download.$$
trap 'rm -f "$partial"' EXIT
say "downloading to $directory"
for name in "${missing[@]}"; do
  fetch "$name" || { say "no mirror gave $name.gz"; exit 1; }
done
