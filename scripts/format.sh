#!/usr/bin/env bash
# Formats the C++ files with clang-format-19.
#
#   scripts/format.sh [FILE ...]            rewrites the files (default: those changed since the last commit)
#   scripts/format.sh --all                 rewrites every file of the repository
#   scripts/format.sh --check [FILE ...]    names the files that would change (default: every file); exit 1 when there are any
set -euo pipefail
cd "$(dirname "$0")/.."

check=0
all=0
files=()
for argument in "$@"; do
  case "$argument" in
    --check) check=1; all=1 ;;
    --all) all=1 ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "format: unknown option $argument" >&2; exit 2 ;;
    *) files+=("$argument") ;;
  esac
done
command -v clang-format-19 >/dev/null || {
  echo "format: error: clang-format-19 is missing; try: scripts/setup-debian.sh" >&2
  exit 1
}

patterns=('*.cc' '*.h')
if [ ${#files[@]} = 0 ]; then
  if [ $all = 1 ]; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard -- "${patterns[@]}")
  else
    mapfile -t files < <({
      git diff --name-only --diff-filter=d HEAD -- "${patterns[@]}"
      git ls-files --others --exclude-standard -- "${patterns[@]}"
    } | sort -u)
  fi
fi
if [ ${#files[@]} = 0 ]; then
  echo "format: nothing to do"
  exit 0
fi

if [ $check = 0 ]; then
  clang-format-19 -i "${files[@]}"
  echo "format: ${#files[@]} files"
  exit 0
fi
wrong=0
for file in "${files[@]}"; do
  if ! clang-format-19 --dry-run -Werror "$file" >/dev/null 2>&1; then
    echo "format: $file"
    wrong=$((wrong + 1))
  fi
done
echo "format: ${#files[@]} files, $wrong not formatted"
if [ $wrong != 0 ]; then
  echo "try: scripts/format.sh --all" >&2
  exit 1
fi
