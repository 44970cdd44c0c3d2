#!/usr/bin/env bash
# scripts/program.sh [--unpack FOLDER] NAME PURPOSE PACKAGE ...: installs a program for the tests where it is missing and
# Debian's packages can be had, from the first package that has it; says so otherwise. --unpack takes the package's files
# into a folder, whose programs are in PATH already, and installs nothing: a server's package would start it.
set -u
unpack=
[ "$1" != --unpack ] || { unpack=$2 && shift 2; }
name=$1 purpose=$2
shift 2
# Debian keeps the programs of PostgreSQL's server out of PATH.
found() { command -v "$name" >/dev/null 2>&1 || compgen -G "/usr/lib/postgresql/*/bin/$name" >/dev/null; }
found && exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install() {
  if [ -z "$unpack" ]; then
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y "$1" >/dev/null 2>&1
    return
  fi
  local room
  room=$(mktemp -d) || return
  (cd "$room" && apt-get download -qq "$1" && dpkg-deb -x ./*.deb "$unpack") >/dev/null 2>&1
  rm -rf "$room"
  hash -r
  found
}
if command -v apt-get >/dev/null 2>&1; then
  echo "Installing $name for $purpose …" >&2
  for package in "$@"; do
    install "$package" && exit 0
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1
    install "$package" && exit 0
  done
fi
echo "shuffledp: $name is missing and could not be installed, so $purpose will fail." >&2
