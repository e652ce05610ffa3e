#!/usr/bin/env bash
# From a fresh Debian 12 to an answer of the demo model: installs what is missing, builds, asks. A few minutes in all.
set -euo pipefail
cd "$(dirname "$0")/.."

prompt=${1:-"What is 17 + 25?"}
scripts/setup-debian.sh --minimal

log=build/quickstart.log
build() {
  cmake --preset release -DDEEPINFER_BUILD_TESTS=OFF >$log 2>&1 || return 1
  local command=(cmake --build --preset release --target deepinfer deepinfer_test_data)
  # On a terminal the build shows its progress in one line; anywhere else its output would only be noise.
  if [ -t 1 ]; then "${command[@]}"; else "${command[@]}" >>$log 2>&1; fi
}
echo "quickstart: building"
mkdir -p build
if ! build; then
  tail -n 40 $log >&2
  echo "quickstart: error: the build failed (log: $log)" >&2
  exit 1
fi

echo "quickstart: build/release/bin/deepinfer generate \"$prompt\""
exec build/release/bin/deepinfer generate "$prompt"
