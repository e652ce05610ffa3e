#!/usr/bin/env bash
# Runs clang-tidy-19 (.clang-tidy) on C++ sources; every finding is an error.
#
#   scripts/lint.sh [FILE.cc ...]     default: the sources changed since the last commit
#   scripts/lint.sh --all             every source of the repository
set -euo pipefail
cd "$(dirname "$0")/.."

files=()
case "${1:-}" in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --all) mapfile -t files < <(git ls-files -- 'src/*.cc' 'tests/*.cc' ':!tests/fuzz') ;;
  -*) echo "lint: unknown option $1" >&2; exit 2 ;;
  "")
    mapfile -t files < <({
      git diff --name-only --diff-filter=d HEAD -- 'src/*.cc' 'tests/*.cc'
      git ls-files --others --exclude-standard -- 'src/*.cc' 'tests/*.cc'
    } | sort -u)
    ;;
  *) files=("$@") ;;
esac
if [ ${#files[@]} = 0 ]; then
  echo "lint: nothing to do"
  exit 0
fi
command -v clang-tidy-19 >/dev/null || {
  echo "lint: error: clang-tidy-19 is missing; try: scripts/setup-debian.sh" >&2
  exit 1
}

build=build/ci
cmake --preset ci >/dev/null  # for compile_commands.json
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p $build --quiet \
  --extra-arg=-Wno-unknown-warning-option
echo "lint: ${#files[@]} files"
