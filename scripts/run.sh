#!/usr/bin/env bash
# Opens the window on the bundled sample, or on the path given. Where there is no screen, does the same job on the
# command line and draws the window into a picture.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

sample="${1:-resources/sample/tiny-llama-compiled.pt}"
scripts/setup.sh run || die "set-up failed"
[ -e "$sample" ] || die "no such file: $sample"
export PATH="$ROOT/.venv/bin:$PATH"
texts=resources/i18n/templates.json
if [ ! -e "$texts" ] || [ -n "$(find ckpt_gui scripts -name '*.py' -newer "$texts" -print -quit)" ]; then
  .venv/bin/python scripts/translations.py templates >/dev/null || die "the texts of the program can not be read"
fi

if has_screen; then
  say "Opening $sample"
  exec ckpt-gui "$sample"
fi

# `check` ends with 1 on a file that can be fixed: that is an answer, not a failure.
check() {
  local status=0
  note "\$ ckpt-gui check $1"
  ckpt-gui check "$1" || status=$?
  [ "$status" -le 1 ] || die "ckpt-gui check ended with $status"
}

name="$(basename "${sample%.*}")"
out="$(mktemp -d "${TMPDIR:-/tmp}/ckpt-gui.XXXXXX")"
say "No screen here (neither DISPLAY nor WAYLAND_DISPLAY is set): the same on the command line"

say "1. What is it, and what is wrong with it?"
check "$sample"

say "2. Write it fixed, in the Hugging Face layout"
note "\$ ckpt-gui fix $sample -o $out/$name-hf --to hf"
if ckpt-gui fix "$sample" -o "$out/$name-hf" --to hf; then
  say "3. Is the result clean?"
  check "$out/$name-hf"
  export="$out/$name-hf"
else
  say "3. It was not written; the reason stands above"
  export="none"
fi

say "4. The window, drawn without a screen"
note "\$ QT_QPA_PLATFORM=offscreen ckpt-gui $sample --screenshot $out/window.png"
QT_QPA_PLATFORM=offscreen ckpt-gui "$sample" --screenshot "$out/window.png"

say "Done"
note "Export:   $export"
note "Picture:  $out/window.png"
