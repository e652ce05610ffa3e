#!/usr/bin/env bash
# Installs what deepinfer needs on Debian 12, from the distribution's packages only.
#
#   scripts/setup-debian.sh             what building, running, testing, formatting and linting need
#   scripts/setup-debian.sh --minimal   what building and running need
#   scripts/setup-debian.sh --print     prints the packages that are missing and changes nothing
#
# Works as root or through sudo. Installs only what is missing, so that it needs no network when all is there.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache pkg-config git tar zstd
  libfmt-dev nlohmann-json3-dev libssl-dev libcli11-dev libhwy-dev librandom123-dev
  libsimdjson-dev libpcre2-dev
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev python3 python3-venv
  clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19
)

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf 'try: %s\n' "$2" >&2
  exit 1
}
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }

packages=("${build_packages[@]}" "${test_packages[@]}")
print_only=0
for option in "$@"; do
  case "$option" in
    --minimal) packages=("${build_packages[@]}") ;;
    --print) print_only=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

command -v dpkg-query >/dev/null || fail "this script is for Debian 12; dpkg-query is not here" \
  "install the counterparts of: ${packages[*]}"

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ "$print_only" = 1 ]; then
  [ ${#missing[@]} = 0 ] || printf '%s\n' "${missing[@]}"
  exit 0
fi
if [ ${#missing[@]} = 0 ]; then
  say "all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "root rights are needed to install packages, and sudo is not here" \
    "as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Shows one line for the step and the whole output only when it fails.
run_apt() {
  local step=$1
  shift
  say "$step ..."
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" \
    >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    return 1
  fi
}

run_apt "reading the package lists" update || fail "apt-get update failed (see above)" "check the network and /etc/apt"
if ! run_apt "installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}" \
  install --yes --no-install-recommends "${missing[@]}"; then
  for package in "${missing[@]}"; do
    is_installed "$package" || printf 'setup: not installed: %s\n' "$package" >&2
  done
  fail "apt-get install failed (see above)"
fi
say "done"
