#!/usr/bin/env bash
# Checks what the program tells a Linux desktop, with the desktop's own tools; they are installed where that can be done.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

need_packages desktop-file-utils appstream shared-mime-info || die "the tools are missing"
scripts/setup.sh dev || die "set-up failed"
QT_QPA_PLATFORM=offscreen .venv/bin/python -m pytest -q -rs tests/desktop
