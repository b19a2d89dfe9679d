#!/usr/bin/env bash
# Runs the tests of the compiled kernels with gcc's sanitizers, which see every access outside of memory and every
# operation that C leaves undefined. The library that is in place is put back afterwards.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

scripts/setup.sh dev || die "set-up failed"
library=ckpt_gui/core/native/kernels.so
[ -f "$library" ] && command -v gcc >/dev/null || die "gcc is needed, and the library that it makes (Linux)"
kept=$(mktemp)
cp -p "$library" "$kept"
trap 'mv -f "$kept" "$library"' EXIT
rm -f "$library"
CC=gcc CFLAGS="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined" .venv/bin/python scripts/native_build.py
[ -f "$library" ] || die "the sanitizers are missing"
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
  .venv/bin/python -m pytest -q tests/core/native tests/core/stats tests/core/test_casts.py
