#!/usr/bin/env bash
# Makes the Python environment of the tests that compare with other people's implementations, in build/test-venv, and prints
# its interpreter. Versions are exact; nothing of it is needed to build or run deepinfer.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=(tokenizers==0.23.3 deepseek-recipe==0.2.0)
venv=build/test-venv
stamp=$venv/.requirements

if [ "$(cat "$stamp" 2>/dev/null)" != "${requirements[*]}" ]; then
  rm -rf "$venv"
  mkdir -p build
  python3 -m venv "$venv" >&2
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${requirements[@]}" >&2; then
    echo "test-venv: error: could not install ${requirements[*]} (pip's message is above)" >&2
    exit 1
  fi
  echo "${requirements[*]}" >"$stamp"
fi
echo "$PWD/$venv/bin/python"
