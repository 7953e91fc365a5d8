# shellcheck shell=bash
# The steps of a script that continues if one fails: runs each for a limited time, counts them, and
# sums up. Steps that do not need each other run side by side. scripts/test.sh sources this file.
# Needs $scratch, a folder for the script alone.

passed=0 failed=0 skipped=0
failures=() skips=() results=() durations=()
heading() { printf '\n=== %s\n' "$1"; }
skip() { heading "SKIPPED: $1"; skipped=$((skipped + 1)); skips+=("$1"); }

# write_cpu FILE: the processor seconds that this shell and its children have taken so far.
write_cpu() {
  times >"$1.times"  # a shell in a pipe would print its own
  awk -F '[ms ]' '{ sum += 60 * ($1 + $4) + $2 + $5 } END { printf "%.0f", sum }' "$1.times" >"$1"
}

# timed COMMAND...: runs it in a shell of its own, whose processor seconds are the command's alone,
# and leaves them in $cpu.
timed() {
  local status=0 file=${scratch:?}/cpu-$BASHPID
  (
    status=0
    "$@" || status=$?
    write_cpu "$file"
    exit "$status"
  ) || status=$?
  cpu=$(cat "$file") || cpu=0
  return "$status"
}

# took NAME SECONDS: notes how long a step took, and its $cpu.
took() {
  durations+=("$(printf '%5d s %5d s of CPU  %s' "$2" "$cpu" "$1")")
  echo "--- ${durations[-1]}"
}

# The seconds that a step may take, several times what it takes on two slow cores. `limit=60 step
# ...` sets another limit for one step.
limit=900
readonly too_late=124  # the status of what was not done in time

# within_limit COMMAND...: after $limit seconds scripts/limit.py shows and ends the processes that
# still run.
within_limit() {
  local status=0 watcher='' watched=0
  if command -v python3 >/dev/null; then  # the first step may install it
    "$(dirname "${BASH_SOURCE[0]}")/limit.py" "$limit" --siblings &
    watcher=$!
  fi
  "$@" </dev/null || status=1
  if [[ -n $watcher ]]; then
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null || watched=$?
    [[ $watched -ne 124 ]] || status=$too_late
  fi
  return "$status"
}

# step NAME COMMAND...: runs one check, in a shell of its own; true if it passed.
step() {
  local name=$1 status=0 start=$SECONDS cpu
  shift
  kill -0 $$ 2>/dev/null || exit  # a lane ends with its script
  heading "$name"
  timed within_limit "$@" || status=$?
  [[ $status -ne $too_late ]] || name+=" (not done after $limit s)"
  if [[ $status -eq 0 ]]; then
    passed=$((passed + 1))
  else
    heading "FAILED: $name"
    failed=$((failed + 1)) failures+=("$name")
  fi
  took "$name" $((SECONDS - start))
  [[ $status -eq 0 ]]
}

# step_if_available NAME SCRIPT OPTIONS...: runs a check unless `SCRIPT --available` says what it
# lacks here.
step_if_available() {
  local missing
  if missing=$("$2" --available); then step "$@"; else skip "$1: $missing"; fi
}

# The lanes that have not been joined: their processes, by name.
declare -A lanes=()

# beside LANE COMMAND...: runs a command, whose steps need nothing of the steps that follow here,
# beside them. `join LANE` waits for it, shows what it printed, and counts its steps.
beside() {
  local lane=$1
  set -m  # with job control the lane gets a group of processes, which stop_lanes can end
  (
    set +m
    run_lane "$@"
  ) </dev/null >"$scratch/$lane.log" 2>&1 &
  set +m
  lanes[$lane]=$!
}

# Writes what the lane has counted as assignments, which add it to what the script has counted.
run_lane() {
  local lane=$1 list
  local -n items
  passed=0 failed=0 skipped=0
  failures=() skips=() results=() durations=()
  "${@:2}"
  {
    for list in passed failed skipped; do echo "$list=\$(($list + ${!list}))"; done
    for list in failures skips results durations; do
      declare -n items=$list
      [[ ${#items[@]} -eq 0 ]] || printf "$list+=(%q)\n" "${items[@]}"
    done
  } >"$scratch/$lane.counts"
}

join() {
  wait "${lanes[$1]}"
  unset "lanes[$1]"
  cat "$scratch/$1.log"
  if [[ -s $scratch/$1.counts ]]; then
    # shellcheck disable=SC1090
    source "$scratch/$1.counts"
  else
    failed=$((failed + 1)) failures+=("$1: ended before its last step")
  fi
}

# For a script that ends early: ends the lanes, and shows what they have printed.
stop_lanes() {
  local lane
  for lane in "${!lanes[@]}"; do
    kill -- "-${lanes[$lane]}" 2>/dev/null
    heading "$lane: stopped"
    cat "$scratch/$lane.log"
  done
}

# Prints the steps' results, and exits with 1 if one failed.
finish() {
  local lane cpu
  for lane in "${!lanes[@]}"; do join "$lane"; done
  write_cpu "$scratch/cpu" && cpu=$(cat "$scratch/cpu")
  heading summary
  printf '%s\n' "${durations[@]}"
  [[ ${#results[@]} -eq 0 ]] || printf '%s\n' "${results[@]}"
  [[ ${#skips[@]} -eq 0 ]] || printf 'skipped: %s\n' "${skips[@]}"
  [[ ${#failures[@]} -eq 0 ]] || printf 'failed: %s\n' "${failures[@]}"
  printf '%d passed, %d failed, %d skipped (%d s, %d s of CPU)\n' \
    "$passed" "$failed" "$skipped" "$SECONDS" "$cpu"
  exit $((failed > 0))
}
