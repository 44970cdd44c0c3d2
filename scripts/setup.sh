# shellcheck shell=bash
# Sourced by ./run and ./test: makes .venv hold what the repository pins.
#
#   source scripts/setup.sh ROOT LEVEL     LEVEL is run or test; sets `python` to the interpreter of .venv
#
# Two settings, each a name in PATH or an absolute path:
#   SHUFFLEDP_PYTHON the Python to build .venv with (default: the first suitable one in PATH)
#   SHUFFLEDP_PIP    the pip program to install with (default: that Python's own pip)
#
# What stands in .venv beside the packages:
#   .made-for        which folder and Python it was made for; another one means: rebuild
#   .unfinished      an installation started and did not end; rebuild, for pip trusts half-written packages
#   .ready-LEVEL     the stamp, written last: fingerprint of everything that was installed for LEVEL
#   setup.log        what pip said

root=$1
level=$2
venv=$root/.venv
python=$venv/bin/python
# The package that proves claims again, which this one needs: installed from here, as this one is.
verifier=packages/shuffledp-verify

fail() {
  printf 'shuffledp: %s\n' "$1" >&2
  exit 1
}

# fingerprint PYTHON [FILE ...]: one hash of the folder, the kind of Python and the files.
fingerprint() {
  "$1" -I -S -c '
import hashlib, sys
kind = sys.implementation.cache_tag + sys.abiflags
seen = hashlib.sha256(repr((sys.argv[1], kind)).encode())
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        seen.update(hashlib.sha256(file.read()).digest())
print(seen.hexdigest())' "$root" "${@:2}" 2>/dev/null
}

fingerprint_of_level() {
  # The versions are part of what is installed beside the packages.
  local files=("$root/pyproject.toml" "$root/requirements.txt" "$root/src/shuffledp/_core/__init__.py")
  files+=("$root/$verifier/pyproject.toml" "$root/$verifier/src/shuffledp_verify/__init__.py")
  [ "$1" = run ] || files+=("$root/requirements-test.txt")
  fingerprint "${SHUFFLEDP_PYTHON:-$python}" "${files[@]}"
}

same() { # same FILE TEXT: the file holds exactly this text
  [ -r "$1" ] && [ -n "$2" ] && [ "$(<"$1")" = "$2" ]
}

ready() {
  [ -x "$python" ] && [ -r "$venv/.ready-$1" ] && same "$venv/.ready-$1" "$(fingerprint_of_level "$1")"
}

# What stands in .venv can be built on: nothing half-done, made here, for the Python it has and the one asked for.
sound() {
  [ ! -e "$venv/.unfinished" ] && same "$venv/.made-for" "$(fingerprint "$python")" &&
    same "$venv/.made-for" "$(fingerprint "${SHUFFLEDP_PYTHON:-$python}")"
}

# suits PYTHON NEWEST: it is 3.11 … 3.NEWEST and can make environments and fill them (pip --python needs 22.3).
suits() {
  "$1" - "$2" "${SHUFFLEDP_PIP:-}" <<'PYTHON' >/dev/null 2>&1
import sys
assert (3, 11) <= sys.version_info[:2] <= (3, int(sys.argv[1]))
import fcntl, venv
if not sys.argv[2]:
    import pip
    assert tuple(map(int, pip.__version__.split(".")[:2])) >= (22, 3)
PYTHON
}

find_python() {
  local newest name
  if [ -n "${SHUFFLEDP_PYTHON:-}" ]; then
    suits "$SHUFFLEDP_PYTHON" 99 || return
    command -v "$SHUFFLEDP_PYTHON"
    return
  fi
  # The pinned packages have wheels up to 3.14: a newer Python is the last resort.
  for newest in 14 99; do
    while IFS= read -r name; do
      # In an activated .venv the first one is .venv itself.
      if [[ $name != "$venv"/* ]] && suits "$name" "$newest"; then
        printf '%s\n' "$name"
        return
      fi
    done < <(type -aP python3 python3.14 python3.13 python3.12 python3.11)
  done
  return 1
}

# The lock belongs to the open file 9, so it lives exactly as long as this shell and the pip it started:
# nothing is left over after a kill, and a pip that outlives its shell still keeps others out.
lock() { # lock PYTHON
  local take='import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[1:] else 0))'
  { exec 9>>"$root/.venv.lock"; } 2>/dev/null || return
  "$1" -I -S -c "$take" at-once 2>/dev/null && return
  echo "Waiting for another set-up to finish …" >&2
  "$1" -I -S -c "$take"
}

# Signs of life while pip works; ends by itself if the script is killed.
show_progress() {
  local total=$1 seconds=0 count text
  while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    seconds=$((seconds + 1))
    if grep -q '^Installing collected' "$venv/setup.log"; then
      text="installing"
    else
      count=$(grep -cE '^(Collecting|Requirement already)' "$venv/setup.log")
      text="downloading, package $((count < total ? count : total)) of $total"
    fi
    if [ -t 2 ]; then
      printf '\r\033[K  %s (%d s)' "$text" "$seconds" >&2
    elif [ $((seconds % 5)) -eq 0 ]; then
      printf '  %s (%d s)\n' "$text" "$seconds" >&2
    fi
  done
}

pip_install() { # pip_install PIP-ARGUMENTS ...
  "${pip[@]}" --python "$python" install "$@" </dev/null >>"$venv/setup.log" 2>&1 && return
  stop_progress
  tail -n 20 "$venv/setup.log" >&2
  fail "set-up failed: pip could not install the packages. Its last lines are above; is the network reachable?"
}

progress=
stop_progress() {
  [ -n "$progress" ] || return 0
  kill "$progress" 2>/dev/null
  wait "$progress" 2>/dev/null
  progress=
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

set_up() {
  local base pip stamp_run stamp_test requirements
  unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
  export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0

  base=$(find_python) || fail "needs ${SHUFFLEDP_PYTHON:+SHUFFLEDP_PYTHON to be }Python 3.11 or newer with pip."
  pip=("$base" -m pip)
  [ -z "${SHUFFLEDP_PIP:-}" ] || pip=("$SHUFFLEDP_PIP")
  [ -w "$root" ] || fail "cannot write to $root, where .venv has to be made."
  cd "$root" || fail "cannot enter $root."
  lock "$base" || fail "cannot lock $root/.venv.lock."
  ! ready "$level" || return 0

  trap 'stop_progress' EXIT
  trap 'stop_progress; echo "Set-up interrupted; the next start does it again." >&2; exit 130' INT TERM
  if sound; then
    echo "Updating the set-up …" >&2
    # Stamps that no longer hold must not come true again when a file is changed back.
    ready run || rm -f "$venv/.ready-run"
    rm -f "$venv/.ready-test"
  else
    echo "Setting up (first run only) …" >&2
    rm -f "$venv"/.ready-*
    rm -rf "$venv" || fail "cannot replace $venv; remove it and try again."
    mkdir "$venv" || fail "cannot make $venv."
    touch "$venv/.unfinished"
    "$base" -m venv --without-pip "$venv" >"$venv/setup.log" 2>&1 ||
      { cat "$venv/setup.log" >&2; fail "$base could not make a virtual environment in $venv."; }
    fingerprint "$python" >"$venv/.made-for" || fail "the new $python does not start."
  fi

  touch "$venv/.unfinished"
  stamp_run=$(fingerprint_of_level run)
  stamp_test=$(fingerprint_of_level test)
  requirements="requirements.txt"
  [ "$level" = run ] || requirements="requirements-test.txt"
  : >"$venv/setup.log"
  show_progress "$(grep -c == "$requirements")" 9>&- &
  progress=$!
  pip_install --require-hashes -r "$requirements"
  same "$venv/.ready-run" "$stamp_run" || pip_install --no-deps --no-build-isolation -e "$verifier" -e .
  stop_progress

  rm -f "$venv/.unfinished"
  printf '%s\n' "$stamp_run" >"$venv/.ready-run"
  [ "$level" = run ] || printf '%s\n' "$stamp_test" >"$venv/.ready-test"
}

# A subshell: its folder, traps, lock and settings end with it.
ready "$level" || (set_up) >&2 || exit
