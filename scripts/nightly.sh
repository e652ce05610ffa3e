#!/usr/bin/env bash
# What takes longer than a change may wait: every test with its slow ones, all sanitizers in full, ten minutes of each fuzzer.
# Runs all of it even when a part fails; exit 1 then.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
failed=()

run() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    echo "== $name passed ($((SECONDS - begin)) s)"
  else
    echo "== $name FAILED ($((SECONDS - begin)) s)"
    failed+=("$name")
  fi
}
tests_of() {
  local preset=$1
  cmake --preset "$preset" -DDEEPINFER_BUILD_TESTS=ON && cmake --build --preset "$preset" -j "$jobs" &&
    ctest --test-dir "build/$preset" --output-on-failure -j "$jobs"
}

run setup scripts/test.sh setup
run layering scripts/test.sh layering
run format scripts/test.sh format
run lint scripts/lint.sh --all
for preset in release asan ubsan tsan; do
  run "tests $preset" tests_of "$preset"
done
run fuzz scripts/fuzz.sh --seconds 600

if [ ${#failed[@]} != 0 ]; then
  printf 'nightly: failed: %s\n' "${failed[*]}"
  exit 1
fi
echo "nightly: all passed after $SECONDS s"
