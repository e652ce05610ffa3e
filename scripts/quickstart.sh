#!/usr/bin/env bash
# From a fresh Debian 12 to an answer of the demo model: installs what is missing, builds, asks. A few minutes in all.
set -euo pipefail
cd "$(dirname "$0")/.."

prompt=${1:-"What is 17 + 25?"}
scripts/setup-debian.sh --minimal

echo "quickstart: building (the compiler's output is in build/quickstart.log)"
mkdir -p build
if ! { cmake --preset release -DDEEPINFER_BUILD_TESTS=OFF && cmake --build --preset release --target deepinfer deepinfer_test_data; } \
  >build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "quickstart: error: the build failed; all of its output is in build/quickstart.log" >&2
  exit 1
fi

echo "quickstart: build/release/bin/deepinfer generate \"$prompt\""
exec build/release/bin/deepinfer generate "$prompt"
