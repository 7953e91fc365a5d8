# shellcheck shell=bash
# The steps of a script that continues if one fails: runs each for a limited time, counts them, and
# sums up. scripts/test.sh sources this file. Needs $scratch, a folder for the script alone.

passed=0 failed=0 skipped=0
failures=() skips=() results=()
heading() { printf '\n=== %s\n' "$1"; }
skip() { heading "SKIPPED: $1"; skipped=$((skipped + 1)); skips+=("$1"); }

# Sets $cpu to the processor seconds that this script and its children have taken so far.
read_cpu() {
  times >"${scratch:?}/times"  # a subshell would print its own times
  cpu=$(awk -F '[ms ]' '{ sum += 60 * ($1 + $4) + $2 + $5 } END { printf "%.0f", sum }' "$scratch/times")
}

# started ... took NAME
durations=()
started() { read_cpu; start=$SECONDS cpu_before=$cpu; }
took() {
  read_cpu
  durations+=("$(printf '%5d s %5d s of CPU  %s' $((SECONDS - start)) $((cpu - cpu_before)) "$1")")
  echo "--- ${durations[-1]}"
}

# The seconds that a step may take, several times what it takes on two slow cores. `limit=60 step
# ...` sets another limit for one step.
limit=900

# step NAME COMMAND...: runs one check; true if it passed. After $limit seconds scripts/limit.py
# shows and ends the processes that still run, and the step has failed.
step() {
  local name=$1 status=0 start cpu_before watcher='' watched=0
  shift
  heading "$name"
  started
  if command -v python3 >/dev/null; then  # the first step may install it
    "$(dirname "${BASH_SOURCE[0]}")/limit.py" "$limit" --siblings &
    watcher=$!
  fi
  "$@" </dev/null || status=1
  if [[ -n $watcher ]]; then
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null || watched=$?
    if [[ $watched -eq 124 ]]; then name+=" (not done after $limit s)" status=1; fi
  fi
  if [[ $status -eq 0 ]]; then
    passed=$((passed + 1))
  else
    heading "FAILED: $name"
    failed=$((failed + 1)) failures+=("$name")
  fi
  took "$name"
  return "$status"
}

# step_if_available NAME SCRIPT OPTIONS...: runs a check unless `SCRIPT --available` says what it
# lacks here.
step_if_available() {
  local missing
  if missing=$("$2" --available); then step "$@"; else skip "$1: $missing"; fi
}

# Prints the steps' results, and exits with 1 if one failed.
finish() {
  heading summary
  read_cpu
  printf '%s\n' "${durations[@]}"
  [[ ${#results[@]} -eq 0 ]] || printf '%s\n' "${results[@]}"
  [[ ${#skips[@]} -eq 0 ]] || printf 'skipped: %s\n' "${skips[@]}"
  [[ ${#failures[@]} -eq 0 ]] || printf 'failed: %s\n' "${failures[@]}"
  printf '%d passed, %d failed, %d skipped (%d s, %d s of CPU)\n' \
    "$passed" "$failed" "$skipped" "$SECONDS" "$cpu"
  exit $((failed > 0))
}
