#!/usr/bin/env bash
# Everything that must hold before a change goes in.
#
#   scripts/test.sh             all steps; those marked * only while the time budget lasts
#   scripts/test.sh STEP ...    these steps alone
#
# Steps: setup (packages), layering, format, build, unit (tests without label `slow`),
#        fuzz (60 seconds each), asan* (address and undefined behaviour), tsan* (threads).
# DEEPINFER_TEST_MINUTES is the budget, 38 minutes by default. A step that it cuts is reported as skipped, never as passed.
set -euo pipefail
cd "$(dirname "$0")/.."

required=(setup layering format build unit fuzz)
when_time_allows=(asan tsan)
budget_seconds=$((${DEEPINFER_TEST_MINUTES:-38} * 60))
jobs=$(nproc)

# The tests whose code runs threads of its own; the others have nothing to show to the thread sanitizer.
threaded_tests='^(base|kernels|model|engine|cli)'

setup() { scripts/setup-debian.sh && scripts/test-venv.sh >/dev/null; }
layering() { python3 scripts/check_layering.py && python3 tests/check_layering_test.py; }
format() { scripts/format.sh --check; }
build() {
  mkdir -p build
  echo "build: output in build/ci.log"
  if ! { cmake --preset ci && cmake --build --preset ci -j "$jobs"; } >build/ci.log 2>&1; then
    grep -E -A 12 'FAILED|error:|CMake Error' build/ci.log | head -n 80 >&2
    return 1
  fi
}
unit() {
  local report=$PWD/build/ci/junit.xml
  ctest --preset ci -j "$jobs" --output-junit "$report" && scripts/support_matrix.py "$report" --check
}

# Builds and runs the quick tests that match a pattern under a sanitizer.
sanitize() {
  local preset=$1 pattern=$2
  local log=build/$preset.log
  mkdir -p build
  cmake --preset "$preset" >"$log" 2>&1 || { tail -n 40 "$log" >&2; return 1; }
  local tests
  mapfile -t tests < <(ctest --preset "$preset" -N -R "$pattern" | sed -n 's/^ *Test *#[0-9]*: \([a-z0-9_]*_test\)$/\1/p')
  [ ${#tests[@]} != 0 ] || { echo "$preset: error: no test matches $pattern" >&2; return 1; }
  cmake --build --preset "$preset" -j "$jobs" --target "${tests[@]}" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; return 1; }
  ctest --preset "$preset" -j "$jobs" -R "^($(IFS='|' && echo "${tests[*]}"))\$"
}
asan() { sanitize asan .; }
tsan() { sanitize tsan "$threaded_tests"; }
fuzz() { scripts/fuzz.sh --seconds 60; }

known=" ${required[*]} ${when_time_allows[*]} "
if [ $# -gt 0 ]; then
  for step in "$@"; do
    case "$step" in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
    [[ "$known" == *" $step "* ]] || { echo "test: unknown step $step; steps:$known" >&2; exit 2; }
  done
  for step in "$@"; do "$step"; done
  exit 0
fi

summary=()
failed=0
child=
trap '[ -z "$child" ] || kill "$child"; exit 130' INT TERM
run_step() {
  local step=$1 limit=$2
  local begin=$SECONDS status=0
  echo "== $step"
  timeout --kill-after=10 "$limit" "$0" "$step" &  # a process group of its own, ended as a whole
  child=$!
  wait "$child" || status=$?
  local took="$((SECONDS - begin)) s"
  case "$status" in
    0) summary+=("passed   $step ($took)") ;;
    124) if [[ " ${required[*]} " == *" $step "* ]]; then
           summary+=("FAILED   $step (still running after $took)"); failed=1
         else
           summary+=("skipped  $step (cut after $took by the time budget)")
         fi ;;
    *) summary+=("FAILED   $step ($took)"); failed=1 ;;
  esac
  return $status
}

for step in "${required[@]}"; do
  # Nothing after the build can run without it; a wrong line break, on the other hand, hides no test.
  run_step "$step" 5400 || { [ "$step" = format ] || [ "$step" = layering ] || [ "$step" = unit ] || [ "$step" = fuzz ] || break; }
done
if [ $failed = 0 ]; then
  for step in "${when_time_allows[@]}"; do
    left=$((budget_seconds - SECONDS))
    if [ $left -lt 120 ]; then
      summary+=("skipped  $step (the time budget is spent)")
      continue
    fi
    run_step "$step" "$left" || true
  done
fi

echo "== summary after $SECONDS s"
printf '%s\n' "${summary[@]}"
exit $failed
