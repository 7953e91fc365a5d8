#!/usr/bin/env bash
# Prints the manual page: packaging/accrue.1 with the options of every command, from the help of
# PROGRAM.
set -euo pipefail

[[ $# -eq 1 ]] || { echo "Usage: packaging/man_page.sh PROGRAM >accrue.1" >&2; exit 2; }
page=$(dirname "${BASH_SOURCE[0]}")/accrue.1
options() {
  local command
  for command in train eval predict export plan info report 'bench train' 'bench memory' \
    'bench kernels' 'data check' 'font prepare' 'font train' 'font draw' 'font score' 'font export' \
    'text prepare' 'text write' 'text import' 'text export'; do
    # The help is 80 columns wide, so the page must not indent it.
    printf '.SH OPTIONS OF %s\n.in 0\n.EX\n' "${command^^}"
    # shellcheck disable=SC2086  # a command may be two words
    "$1" $command --help-all | tail -n +3 | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    printf '.EE\n'
  done
}
sed '/^\.SH EXIT STATUS/,$d' "$page"
options "$1"
sed -n '/^\.SH EXIT STATUS/,$p' "$page"
