#!/usr/bin/env bash
# All checks, in the order in which they are cheap; the first failure ends the run. This is what CI runs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
export QT_QPA_PLATFORM=offscreen
export PYTHONFAULTHANDLER=1

step() {
  local title="$1" start=$SECONDS
  shift
  say "$title"
  note "\$ $*"
  if ! "$@"; then
    printf '\nFAILED: %s\n' "$title" >&2
    exit 1
  fi
  note "ok, $((SECONDS - start)) s"
}

py=.venv/bin/python
scripts/setup.sh dev || die "set-up failed"

step "Lint" $py -m ruff check .
step "Format" $py -m ruff format --check .
step "Types" $py -m mypy
step "Import contracts" .venv/bin/lint-imports --no-logo
step "Tests" $py -m pytest

scripts/setup.sh core || die "set-up failed"
core=.venv-core/bin/python
step "Qt and matplotlib are absent here" $core scripts/assert_absent.py PySide6 shiboken6 matplotlib
step "Tests of the core and the command line without Qt" \
  $core -m pytest tests/core tests/cli tests/test_imports.py \
  -m "not oracle and not real and not wheel and not bench and not gui"

step "The built wheel, in an environment of its own" $py -m pytest tests/test_wheel.py -m wheel

printf '\nAll checks passed in %d min %d s.\n' $((SECONDS / 60)) $((SECONDS % 60))
