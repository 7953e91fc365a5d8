#!/usr/bin/env bash
# Installs the packages of Debian or Ubuntu that accrue is built with, if they are missing.
set -euo pipefail

readonly cmake_needed=3.25
readonly required_libraries=(libeigen3-dev libcli11-dev libfmt-dev libjpeg-dev libpcre2-dev
                             libpng-dev libutf8proc-dev nlohmann-json3-dev zlib1g-dev catch2)
# The build also works without these packages, but the program is slower, or lacks charts in
# reports, train --log-dir, font prepare and export, or models' own chat templates.
readonly optional_libraries=(libdnnl-dev libjs-chart.js libprotobuf-dev protobuf-compiler
                             libfreetype-dev potrace python3-jinja2)
# A sans-serif and a brush font for docs/fonts.md: 17 MB to fetch, 34 MB on the disk.
readonly font_packages=(fonts-wqy-zenhei fonts-arphic-ukai)
# A browser, to look at reports' charts: 132 MB to fetch, 444 MB on the disk. Doxygen. Tools that
# find and package an installed accrue (`file` tells which files to strip). Clang, whose libFuzzer
# mutates files. A compiler cache, which lets the builds of a run share equal objects. Open MPI, to
# train as several ranks, and MPICH, to compare with it. Boost's fibers, for the preset simt.
# Python's headers and venv, to build and try the wheel. A debugger, which shows where a test hangs.
readonly test_packages=(chromium-driver python3-selenium doxygen pkg-config dpkg-dev file
                        clang libclang-rt-dev ccache libopenmpi-dev openmpi-bin libmpich-dev mpich
                        libboost-context-dev python3-dev python3-venv gdb)

usage() {
  cat <<END
Usage: scripts/setup.sh [--dry-run] [--tests] [--fonts]
Installs the missing Debian/Ubuntu packages that accrue is built with, as root or through sudo.
  --dry-run  print the steps and do nothing
  --tests    also packages that only tests and the preset simt need: a browser, Doxygen, pkg-config,
             Clang with libFuzzer, clang-format 14, ccache, Open MPI, MPICH, Boost.Context, Python's
             headers and venv, gdb
  --fonts    also two Chinese fonts to try \`accrue font\` with: 17 MB to fetch, 34 MB on the disk
END
}

say() { echo "setup: $*"; }
warn() { echo "setup: warning: $*" >&2; }
fail() { echo "setup: error: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

dry_run=false for_tests=() fonts=()
for argument in "$@"; do
  case $argument in
    --dry-run) dry_run=true ;;
    --tests) for_tests=("${test_packages[@]}") ;;
    --fonts) fonts=("${font_packages[@]}") ;;
    -h | --help) usage; exit ;;
    *) usage >&2; fail "unknown option '$argument'" ;;
  esac
done

cmake_version() { cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p'; }

cmake_is_new_enough() {
  have cmake && printf '%s\n' "$cmake_needed" "$(cmake_version)" | sort --version-sort --check=quiet
}

# not_installed PACKAGE...: prints the packages that are not installed, one a line.
not_installed() {
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016  # dpkg-query expands it
    [[ $(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null) == *'ok installed' ]] ||
      echo "$package"
  done
}

missing_tools() {
  have g++ || echo g++
  cmake_is_new_enough || echo cmake
  have ninja || echo ninja-build
  have python3 || echo python3
}

if ! have apt-get || ! have dpkg-query; then
  fail "this system has no apt-get; install the contents of these Debian packages by other means," \
       "then build with cmake --preset release: g++ cmake (>= $cmake_needed) ninja-build python3" \
       "${required_libraries[*]} (optional: ${optional_libraries[*]} clang-format-14)"
fi

mapfile -t required < <(missing_tools; not_installed "${required_libraries[@]}")
mapfile -t optional < <(
  not_installed "${optional_libraries[@]}" "${for_tests[@]}" "${fonts[@]}"
  [[ ${#for_tests[@]} -eq 0 ]] || have clang-format-14 || have clang-format || echo clang-format-14)

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  as_root=(sudo)
  [[ -t 0 ]] || as_root+=(--non-interactive)
fi
may_install() { [[ ${#as_root[@]} -eq 0 ]] || have sudo; }

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get --quiet --quiet -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# offered PACKAGE...: prints the packages that apt can install, one a line.
offered() {
  LC_ALL=C apt-cache policy "$@" | sed -n '/^[^ ].*:$/h; /^  Candidate: [^(]/{g; s/:$//p}'
}

# Without lists apt knows no package at all; old lists are good enough for optional packages.
apt_lists_wanted() {
  [[ ${#required[@]} -gt 0 ]] || ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null
}

install() {
  say "installing $*"
  apt install --yes --no-install-recommends "$@"
}

install_missing() {
  local package found
  found=$'\n'$(offered "${required[@]}" "${optional[@]}")$'\n'
  for package in "${required[@]}"; do
    [[ $found == *$'\n'"$package"$'\n'* ]] ||
      fail "apt offers no package $package (no network? on Ubuntu: is 'universe' enabled?)"
  done
  local at_hand=()
  for package in "${optional[@]}"; do
    if [[ $found == *$'\n'"$package"$'\n'* ]]; then at_hand+=("$package")
    else warn "apt offers no $package; going on without it"
    fi
  done
  # Installing all at once takes apt half the time. If that fails, the optional packages are
  # installed one by one, because one that cannot be installed must not keep out the others.
  [[ $((${#required[@]} + ${#at_hand[@]})) -gt 0 ]] || return 0
  ! install "${required[@]}" "${at_hand[@]}" || return 0
  if [[ ${#required[@]} -gt 0 ]]; then
    install "${required[@]}" ||
      fail "apt-get could not install ${required[*]} (no network? its own message is above)"
  fi
  for package in "${at_hand[@]}"; do
    install "$package" || warn "apt-get could not install $package; going on without it"
  done
}

if [[ ${#required[@]} -eq 0 && ${#optional[@]} -eq 0 ]]; then
  say "everything is installed"
  exit
fi
if have cmake && ! cmake_is_new_enough; then
  say "cmake $(cmake_version) is too old: $cmake_needed or newer is needed"
fi
if $dry_run; then
  may_install || say "neither root nor sudo: nothing could be installed"
  ! apt_lists_wanted || say "would run ${as_root[*]:+sudo }apt-get update"
  [[ ${#required[@]} -eq 0 ]] || say "would install ${required[*]}"
  [[ ${#optional[@]} -eq 0 ]] || say "would install, or go on without: ${optional[*]}"
  exit
fi
if ! may_install; then
  [[ ${#required[@]} -eq 0 ]] ||
    fail "packages are missing and there is no sudo; as root, run once:" \
         "apt-get install ${required[*]} ${optional[*]}"
  warn "no sudo to install ${optional[*]}; going on without"
  exit 0
fi

if apt_lists_wanted; then
  apt update || warn "apt-get update failed (no network?); going on with the lists at hand"
fi
install_missing
cmake_is_new_enough ||
  fail "cmake $(cmake_version) is too old and apt offers no newer one;" \
       "$cmake_needed or newer is at https://apt.kitware.com and https://cmake.org/download"
say "done"
