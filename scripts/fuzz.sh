#!/usr/bin/env bash
# Runs the libFuzzer programs of preset `fuzz` and prints executions and covered edges of each. Fails on a crash, a hang, a
# leak or excessive memory; the input is then kept in build/fuzz/findings.
#
#   scripts/fuzz.sh [--seconds N] [--jobs N] [NAME ...]     default: 60 seconds each, one job a processor, all programs
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
jobs=$(nproc)
names=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "fuzz: unknown option $1" >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done

build=build/fuzz
findings=$build/findings
if [ ! -e $build/build.ninja ]; then cmake --preset fuzz >/dev/null; fi
cmake --build --preset fuzz --target deepinfer_fuzzers -- -j "$jobs" >$build/build.log 2>&1 || {
  tail -n 40 $build/build.log >&2
  echo "fuzz: error: the build failed" >&2
  exit 1
}
if [ ${#names[@]} = 0 ]; then
  while IFS= read -r path; do names+=("$(basename "$path")"); done \
    < <(find $build/tests/fuzz -maxdepth 1 -type f -name 'fuzz_*' -executable | sort)
fi
if [ ${#names[@]} = 0 ]; then
  echo "fuzz: error: no fuzzers were built" >&2
  exit 1
fi
mkdir -p $findings

# One program: its own growing corpus first, the committed seeds second.
run_one() {
  local name=$1
  local seeds=tests/fuzz/seeds/$name
  [ -d "$seeds" ] || seeds=tests/fuzz/seeds/${name#fuzz_}
  local corpus=$build/corpus/$name
  local log=$build/$name.log
  mkdir -p "$corpus"
  local folders=("$corpus")
  [ -d "$seeds" ] && folders+=("$seeds")
  local status=0
  "$build/tests/fuzz/$name" -max_total_time="$seconds" -print_final_stats=1 -timeout=25 -rss_limit_mb=2560 \
    -artifact_prefix="$findings/$name-" "${folders[@]}" >"$log" 2>&1 || status=$?
  local executions edges
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  printf 'fuzz: %-32s %10s executions %7s edges %5s seeds  %s\n' "$name" "${executions:-?}" "${edges:-?}" \
    "$(find "$seeds" -type f 2>/dev/null | wc -l)" "$([ $status = 0 ] && echo ok || echo "FAILED ($log)")"
  if [ $status != 0 ]; then
    grep -E -m 5 'ERROR:|SUMMARY:|runtime error|Test unit written' "$log" >&2 || tail -n 5 "$log" >&2
  fi
  return $status
}

status=0
running=0
for name in "${names[@]}"; do
  if [ "$running" -ge "$jobs" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  run_one "$name" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || status=1
  running=$((running - 1))
done
exit $status
