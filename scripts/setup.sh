#!/usr/bin/env bash
# Makes one of the environments of this project; quick if it is there and current.
#   scripts/setup.sh run        .venv: what the program needs
#   scripts/setup.sh dev        .venv: that, the tests' needs, linters and build tools
#   scripts/setup.sh screen     dev, and the system packages of a screen without a monitor
#   scripts/setup.sh core       .venv-core: the core and the command line, without Qt and matplotlib
#   scripts/setup.sh oracles4   .venv-oracles4: dev without linters, with transformers 4, torchtune, peft, gguf
#   scripts/setup.sh oracles5   .venv-oracles5: the same with transformers 5
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

kind="${1:-dev}"
case "$kind" in
  screen)
    need_screen
    kind=dev
    venv=.venv
    ;;
  run | dev) venv=.venv ;;
  core | oracles4 | oracles5) venv=".venv-$kind" ;;
  *) die "unknown environment $kind (run, dev, screen, core, oracles4 or oracles5)" ;;
esac

# Two at once in the same tree (an editor and a terminal) would trip over each other.
if command -v flock >/dev/null; then
  exec 9>.setup.lock
  flock 9
fi

case "$kind" in core) ;; *) need_qt_libraries ;; esac

print="$(fingerprint)"
for stamp in "$venv/.ckpt-gui-$kind" $([ "$kind" = run ] && echo "$venv/.ckpt-gui-dev"); do
  if [ "$(cat "$stamp" 2>/dev/null)" = "$print" ] && [ -x "$venv/bin/python" ]; then
    "$venv/bin/python" scripts/native_build.py
    exit 0
  fi
done

say "Setting up $venv for $kind (the first time downloads PyTorch: some minutes)"
make_venv "$venv"
start=$SECONDS
case "$kind" in
  run) pip_in "$venv" -e . ;;
  dev) pip_in "$venv" -e ".[test,remote,s3,dev]" ;;
  core)
    pip_in "$venv" numpy torch huggingface_hub platformdirs rich pytest hypothesis safetensors hatchling editables
    pip_in "$venv" --no-deps --no-build-isolation -e .
    ;;
  oracles4)
    pip_in "$venv" -e ".[test,oracles]"
    # Its converters and its model need less than it asks for, and it asks for versions that the others cannot have.
    pip_in "$venv" --no-deps litgpt==0.5.11 lightning==2.6.6 lightning-utilities==0.15.3 \
      pytorch-lightning==2.6.6 torchmetrics==1.9.0 jsonargparse==4.53.0
    ;;
  oracles5) pip_in "$venv" -e ".[test,oracles5,gcs]" ;;
esac
echo "$print" >"$venv/.ckpt-gui-$kind"
note "done in $((SECONDS - start)) s"
