# Shell functions shared by the scripts here. Sourced, not run; bash 3.2 (macOS) is enough.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CONSTRAINTS="$ROOT/constraints-dev.txt"

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# No colours where nobody sees them.
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

has_screen() { [ "$(uname -s)" != Linux ] || [ -n "${DISPLAY:-}" ] || [ -n "${WAYLAND_DISPLAY:-}" ]; }

# ---- system packages -------------------------------------------------------------------------------------------------

# What Qt's platform plugins load at run time and pip cannot bring (Debian and Ubuntu names).
QT_PACKAGES="libegl1 libgl1 libxkbcommon0 libxkbcommon-x11-0 libdbus-1-3 libfontconfig1 libglib2.0-0 libxcb-cursor0
  libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 libxcb-xinerama0
  libxcb-xkb1 fonts-dejavu-core"
# The same as files, for systems without dpkg.
QT_LIBRARIES="libEGL.so.1 libGL.so.1 libxkbcommon.so.0 libxkbcommon-x11.so.0 libdbus-1.so.3 libfontconfig.so.1
  libglib-2.0.so.0 libxcb-cursor.so.0 libxcb-icccm.so.4 libxcb-image.so.0 libxcb-keysyms.so.1 libxcb-randr.so.0
  libxcb-render-util.so.0 libxcb-shape.so.0 libxcb-xinerama.so.0 libxcb-xkb.so.1"

# Since Ubuntu 24.04 some packages carry the ending t64.
is_installed() {
  local name
  for name in "$1" "$1t64"; do
    case "$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null)" in *"ok installed") return 0 ;; esac
  done
  return 1
}

# Prints the way to become root, or fails. Asks for a password only where somebody can type one.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo "$@"
  else
    return 126
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$APT_LOG" 2>&1 ||
    { as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >>"$APT_LOG" 2>&1 &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >>"$APT_LOG" 2>&1; }
}

# Installs what is missing of the given Debian packages; where that cannot be done, names them and goes on.
need_packages() {
  local name missing="" APT_LOG
  for name in "$@"; do is_installed "$name" || missing="$missing $name"; done
  [ -n "$missing" ] || return 0
  say "Installing system packages:$missing"
  APT_LOG="$(mktemp)"
  # shellcheck disable=SC2086
  if apt_install $missing; then
    rm -f "$APT_LOG"
    return 0
  fi
  tail -n 5 "$APT_LOG"
  rm -f "$APT_LOG"
  note "That did not work (it needs root or sudo, and the package archive). Install them by hand:"
  note "  sudo apt-get install$missing"
  note "Going on without them: the window may not open."
  return 1
}

need_qt_libraries() {
  [ "$(uname -s)" = Linux ] || return 0
  if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    need_packages $QT_PACKAGES || true
    return 0
  fi
  local known name missing=""
  known="$( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null)"
  [ -n "$known" ] || return 0
  for name in $QT_LIBRARIES; do
    case "$known" in *"$name"*) ;; *) missing="$missing $name" ;; esac
  done
  [ -z "$missing" ] || note "The window needs these libraries, which this system does not have yet:$missing"
}

# A screen without a monitor, a window manager, and what presses keys from outside.
SCREEN_PACKAGES="xvfb openbox xdotool"

need_screen() {
  if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    need_packages $SCREEN_PACKAGES || true
  fi
}

# ---- Python ----------------------------------------------------------------------------------------------------------

find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python3.10 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

# make_venv DIR: a virtual environment with pip, made anew if a half-made one is there.
make_venv() {
  "$1/bin/python" -m pip --version >/dev/null 2>&1 && return 0
  local python version
  python="$(find_python)" || die "Python 3.10 or newer is needed; none found (set PYTHON=/path/to/python3 to name one)"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null && command -v apt-get >/dev/null; then
    version="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    need_packages "$version" || need_packages python3-venv || true
  fi
  note "$("$python" --version) in $1"
  "$python" -m venv --clear "$1" || die "could not make a virtual environment in $1 (on Debian: apt-get install python3-venv)"
}

# What an environment depends on: if this changes, it is brought up to date.
fingerprint() {
  { cat "$ROOT/pyproject.toml" "$CONSTRAINTS" "$ROOT/scripts/setup.sh" "$ROOT/scripts/hatch_build.py" "$ROOT/scripts/native_build.py"; echo "$ROOT"; } | cksum | tr ' ' '-'
}

# pip_in DIR ARG...: pip of that environment, always with the constraints.
pip_in() {
  local venv="$1"
  shift
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install -q -c "$CONSTRAINTS" "$@"
}
