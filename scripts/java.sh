#!/usr/bin/env bash
# Installs Java for the Spark engine where there is none and Debian's packages can be installed; says so otherwise.
set -u
[ -z "${JAVA_HOME:-}" ] || exit 0
command -v java >/dev/null 2>&1 && exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if command -v apt-get >/dev/null 2>&1; then
  echo "Installing Java for the Spark engine …" >&2
  for package in openjdk-17-jre-headless default-jre-headless; do
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y "$package" >/dev/null 2>&1 && exit 0
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y "$package" >/dev/null 2>&1 && exit 0
  done
fi
echo "shuffledp: Java 17 is missing and could not be installed, so the tests of the Spark engine will fail." >&2
