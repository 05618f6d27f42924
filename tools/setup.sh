#!/usr/bin/env bash
# Installs the Debian packages that are missing, and nothing else. Needs no root when everything is there.
#
#   tools/setup.sh [build] [quickstart] [test] [ci]      for which purposes (default: build)
set -euo pipefail

packages=()
for purpose in "${@:-build}"; do
  case $purpose in
    build) packages+=(g++ cmake ninja-build pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libxxhash-dev libhdf5-dev
                      libopenblas-dev libdnnl-dev libutf8proc-dev mpich libmpich-dev) ;;
    quickstart) packages+=(bible-kjv) ;;
    test) packages+=(catch2 hdf5-tools python3-h5py libboost-context-dev munge slurmctld slurmd slurm-client) ;;
    ci) packages+=(clang-format clang-tidy) ;;
    *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: no apt here, so nothing is installed; what is needed, by its Debian names: ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: everything is installed"
  exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    printf 'setup: packages are missing and installing them needs root. Run this, then try again:\n\n  sudo apt-get install --no-install-recommends %s\n' \
      "${missing[*]}" >&2
    exit 1
  fi
  root=(sudo -n)
fi
echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
  echo "setup: apt-get failed:" >&2
  tail -n 30 "$log" >&2
  exit 1
fi
