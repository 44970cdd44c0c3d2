#!/usr/bin/env bash
# scripts/program.sh NAME PURPOSE PACKAGE ...: installs a program for the tests where it is missing and Debian's packages
# can be installed, from the first package that can be had; says so otherwise.
set -u
name=$1 purpose=$2
shift 2
# Debian keeps the programs of PostgreSQL's server out of PATH.
command -v "$name" >/dev/null 2>&1 && exit 0
compgen -G "/usr/lib/postgresql/*/bin/$name" >/dev/null && exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install() { DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y "$1" >/dev/null 2>&1; }
if command -v apt-get >/dev/null 2>&1; then
  echo "Installing $name for $purpose …" >&2
  for package in "$@"; do
    install "$package" && exit 0
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1
    install "$package" && exit 0
  done
fi
echo "shuffledp: $name is missing and could not be installed, so $purpose will fail." >&2
