#!/usr/bin/env bash
# Compares with the libraries that define the formats. Two environments, since transformers 4 and 5 cannot share one.
#   scripts/test_oracles.sh [PYTEST ARGUMENT ...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
export QT_QPA_PLATFORM=offscreen HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

for kind in oracles4 oracles5; do
  scripts/setup.sh "$kind" || die "set-up failed"
  say "Oracle tests in .venv-$kind"
  # Their warnings about themselves are not ours to fix.
  ".venv-$kind/bin/python" -m pytest tests/oracles -m oracle -W default "$@"
done
