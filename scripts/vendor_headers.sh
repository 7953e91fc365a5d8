#!/usr/bin/env bash
# Unpacks the Debian packages that accrue is built with into a folder, for a machine on which
# nothing can be installed: copy the folder there and build with -DCMAKE_PREFIX_PATH=DIR/usr.
set -euo pipefail

# libfmt-dev's configuration needs the library from libfmt's package. With version 3 of Catch2,
# catch2 only depends on libcatch2-dev. CLI11, Eigen and nlohmann_json are headers only. oneDNN is
# left out: it is large, and Eigen takes its place. libjpeg-dev only depends on the package of
# libjpeg-turbo.
readonly packages=(libeigen3-dev libcli11-dev libfmt-dev libpcre2-dev libpng-dev
                   libutf8proc-dev nlohmann-json3-dev zlib1g-dev catch2)

usage() {
  cat <<END_OF_USAGE
Usage: scripts/vendor_headers.sh DIR
Downloads and unpacks, without installing, packages that the CUDA build needs: ${packages[*]}
END_OF_USAGE
}

fail() { echo "vendor: error: $*" >&2; exit 1; }

case ${1:-} in
  -h | --help) usage; exit ;;
  '' | -*) usage >&2; exit 2 ;;
esac
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
  fail "needs apt-get and dpkg"
fi
mkdir -p "$1"
directory=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Their names depend on the version: libfmt9 or libfmt10, libcatch2-dev or none.
mapfile -t libraries < <(apt-cache depends libfmt-dev catch2 |
  sed -n 's/^ *Depends: \(libfmt[0-9.]*[a-z0-9]*\|libcatch2-dev\)$/\1/p'
  apt-cache depends --recurse libjpeg-dev | sed -n 's/^ *Depends: \(libjpeg.*-dev\)$/\1/p' | sort -u)
[[ ${#libraries[@]} -gt 0 ]] || fail "apt does not know libfmt-dev; run apt-get update"
(cd "$scratch" && apt-get --quiet --quiet download "${packages[@]}" "${libraries[@]}") ||
  fail "apt-get could not download the packages (no network?)"
for package in "$scratch"/*.deb; do dpkg --extract "$package" "$directory"; done
rm -rf "$directory"/usr/share/{doc,doc-base,lintian,man}
# These links point to libraries that are not here; the static libraries beside them work
# everywhere.
find "$directory" \( -name libz.so -o -name 'libpcre2*.so' -o -name 'libpng*.so' -o -name libutf8proc.so -o -name 'lib*jpeg.so' \) -delete
echo "vendor: $(du --summarize --human-readable "$directory" | cut -f 1) in $directory;" \
  "build with -DCMAKE_PREFIX_PATH=$directory/usr"
