#!/usr/bin/env bash
# Installs and packages a build in a scratch folder, and checks the result: another project finds
# and uses it, by CMake (examples/) and by pkg-config; every installed header compiles in that
# project; and the program runs from the folder in which dpkg unpacks it.
set -euo pipefail

[[ $# -eq 1 ]] || { echo "Usage: scripts/check_install.sh BUILD_FOLDER" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# In the scratch folder nothing can find the source tree by accident.
cd "$scratch"
fail() { echo "check_install: error: $*" >&2; exit 1; }

# expect NAME PATTERN: the output in $scratch/NAME has a line like this.
expect() {
  grep -Eq "$2" "$1" || { cat "$1"; fail "$1: expected a line that matches '$2'"; }
}

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
prefix/bin/accrue train --data digits --model mlp-small --steps 5 >program
expect program '^test accuracy'
if grep -rl --include='*.h' --include='*.cmake' --include='*.pc' "$root" prefix; then
  fail "the files above name the source tree, which their user does not have"
fi

cmake -S "$root/examples" -B examples -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >configured || { cat configured; fail "see above"; }
cmake --build examples --parallel "$(nproc)"
examples/train_digits | tee digits
expect digits '^test accuracy [89][0-9]\.'
# kill_after_checkpoint DIRECTORY COMMAND...: kills the command once its first checkpoint exists.
kill_after_checkpoint() {
  local directory=$1 && shift
  "$@" >killed &
  until ls "$directory"/step-*/checkpoint.json >/dev/null 2>&1 || ! kill -0 $! 2>/dev/null; do
    sleep 0.02
  done
  kill -9 $! || fail "$1 was too quick to be killed"
  wait $! || true
}
kill_after_checkpoint checkpoints examples/train_in_budget 12MiB
examples/train_in_budget 12MiB | tee resumed
expect resumed '^going on from .*checkpoints/step-'
expect resumed '^test accuracy [89][0-9]\.'
! examples/train_in_budget 100KiB 2>too_small || fail "train_in_budget fits in 100 KiB"
expect too_small 'not even one sample fits'
examples/train_gan | tee gan
expect gan '^test Dice 0\.[89]'
kill_after_checkpoint gan-checkpoints examples/train_gan gan-checkpoints
examples/train_gan gan-checkpoints >gan-resumed
diff <(grep ^test gan) <(grep ^test gan-resumed) || fail "train_gan ends otherwise after a crash"
examples/train_table | tee table
expect table '^test accuracy 9[0-9]\.'
examples/train_regression | tee regression
expect regression '^trained: radii off by 0\.[0-9]* pixels'
examples/job | tee job
expect job '^trained: accuracy [89][0-9]\.'
diff <(sed -n 's/^trained: //p' job) <(sed -n 's/^as saved: //p' job) || fail "job scores what it saved otherwise"
examples/accumulate_by_hand | tee by_hand
# 1/K is right for the full windows and wrong for the last; the other columns always agree.
awk 'function same(a, b) { return (a > b ? a - b : b - a) < 1e-5 * a }
     NR > 1 { bad += !same($2, $3) || !same($2, $5) || same($2, $4) != ($1 == 96) }
     END { exit NR != 4 || bad }' by_hand || fail "accumulate_by_hand: the columns above are wrong"
examples/five_networks networks | tee five
[[ $(wc -l <five) -eq 15 ]] || fail "five_networks: expected three lines for each network"
examples/custom_op

mkdir components subproject
cat >components/CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(components LANGUAGES CXX)
set(CMAKE_MODULE_PATH /own)
find_package(accrue COMPONENTS ${COMPONENTS})
if(NOT CMAKE_MODULE_PATH STREQUAL "/own")
  message(FATAL_ERROR "find_package(accrue) leaves CMAKE_MODULE_PATH as ${CMAKE_MODULE_PATH}")
elseif(NOT accrue_FOUND)
  message(FATAL_ERROR "accrue is not found")
endif()
EOF
components() { cmake -S components -B components/build -DCMAKE_PREFIX_PATH="$scratch/prefix" "-DCOMPONENTS=$1" "${@:2}"; }
components 'core;train' >configured || { cat configured; fail "accrue has no core and train"; }
! components cores >configured 2>refused || fail "accrue has cores"
expect refused 'accrue has no component cores: expected one of core,'
expect refused 'accrue is not found'
rm -r components/build
! components core -DCMAKE_DISABLE_FIND_PACKAGE_PCRE2=ON >configured 2>refused || fail "accrue is found without PCRE2"
expect refused 'accrue needs PCRE2'
expect refused 'accrue is not found'

# As a part of another project, accrue builds and installs nothing that the project does not ask
# for.
cat >subproject/CMakeLists.txt <<EOF
cmake_minimum_required(VERSION 3.25)
project(subproject LANGUAGES CXX)
add_subdirectory($root accrue)
EOF
cmake -S subproject -B subproject/build >configured || { cat configured; fail "see above"; }
cmake --build subproject/build -- -n >planned
! grep -E 'accrue/(apps|tests|examples)/' planned || fail "a subproject builds the above"
# It chooses neither the processor nor CUDA, either.
! grep -E '^ACCRUE_(NATIVE|CUDA):BOOL=ON' subproject/build/CMakeCache.txt || fail "a subproject turns on the above"
DESTDIR=$scratch/destination cmake --install subproject/build >installed
! grep -i '^-- installing' installed || fail "a subproject installs the above"

PKG_CONFIG_PATH=$(dirname "$(find "$scratch/prefix" -name accrue.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs accrue)
(cd prefix/include && find accrue -name '*.h' ! -path accrue/eigen.h -printf '#include <%p>\n' | sort) >headers.cpp
g++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only headers.cpp "${flags[@]}"
# One header needs Eigen, and no flag of accrue's names Eigen's folder.
! grep eigen3 <<<"${flags[*]}" || fail "accrue's flags name Eigen's folder"
echo '#include <accrue/eigen.h>' >eigen.cpp
! g++ -std=c++20 -fsyntax-only eigen.cpp "${flags[@]}" 2>refused || fail "accrue/eigen.h compiles without Eigen"
expect refused 'accrue/eigen.h needs Eigen'
read -ra eigen < <(pkg-config --cflags eigen3)
g++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only eigen.cpp "${flags[@]}" "${eigen[@]}"
# A tensor of an unsupported type fails to compile, and the message names the supported types.
echo '#include <accrue/accrue.h>
const auto t = accrue::Tensor::from(std::vector<int64_t>{1, 2}, {2});' >int64.cpp
! g++ -std=c++20 -fsyntax-only int64.cpp "${flags[@]}" 2>refused || fail "a tensor of int64_t compiles"
expect refused 'a tensor holds float, double, .*: convert the elements'
g++ -std=c++20 "$root/examples/train_digits.cpp" "${flags[@]}" -o by_pkg_config
# The program is the same as examples/train_digits, so one run is enough.
./by_pkg_config | tee digits
expect digits '^test accuracy [89][0-9]\.'

cpack --config "$build/CPackConfig.cmake" -B packages >packed 2>&1 || { cat packed; fail "see above"; }
version=$(prefix/bin/accrue --version)
architecture=$(dpkg --print-architecture)
package_has() {
  local package=packages/$1_${version}_$architecture.deb
  dpkg-deb --field "$package" Depends >"$1.depends"
  expect "$1.depends" "$2"
  dpkg-deb --extract "$package" root
}
package_has accrue 'libc6 .*libfmt'
package_has libaccrue-dev 'libfmt-dev'
# potrace has another licence than accrue, so font export runs it only as a process.
! grep potrace ./*.depends || fail "the packages above depend on potrace"
! ldd root/usr/bin/accrue | grep potrace || fail "the program is linked with potrace"
for file in share/man/man1/accrue.1.gz share/bash-completion/completions/accrue \
  share/zsh/vendor-completions/_accrue \
  share/doc/accrue/docs/report.png share/doc/accrue/copyright include/accrue/accrue.h; do
  test -s "root/usr/$file" || fail "the packages have no /usr/$file"
done
zcat root/usr/share/man/man1/accrue.1.gz >manual
expect manual '^.SH OPTIONS OF BENCH TRAIN$'
expect manual '\\-\\-micro\\-batch'
if command -v man >/dev/null; then
  MANWIDTH=80 man -l root/usr/share/man/man1/accrue.1.gz >rendered
  ! grep -E '^.{81}' rendered || fail "the manual page has lines of more than 80 columns, as above"
fi
for command in $(prefix/bin/accrue --help | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p'); do
  expect manual "^\.B $command( |\$)"
done
root/usr/bin/accrue train --data digits --model mlp-small --steps 5 >unpacked
diff <(grep accuracy program) <(grep accuracy unpacked) || fail "the packaged program trains otherwise"
tar -tf "packages/accrue-$version-$(uname -m).tar.gz" >archived
expect archived 'bin/accrue$'

echo "installed to a scratch prefix: the program, $(wc -l <headers.cpp) headers, examples by CMake" \
  "and pkg-config; packaged: $(cd packages && echo ./*.deb ./*.tar.gz)"
