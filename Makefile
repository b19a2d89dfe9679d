# Everything here works on a fresh machine: each target first makes the environment that it needs, and is quick when it
# is there already. The work is done by the scripts in scripts/, which can be run on their own.

.DEFAULT_GOAL := help
PY := .venv/bin/python

.PHONY: help setup run test test-screen test-oracles test-real test-desktop test-kernels fuzz bench bundle icons \
  install-desktop uninstall-desktop screenshots sample guide translations families format clean

help:  ## List the targets
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup:  ## Make .venv with everything for development, and install the system libraries Qt needs
	@scripts/setup.sh dev

run:  ## Open the window on the bundled sample, or on FILE=path; without a screen, do the same on the command line
	@scripts/run.sh $(if $(FILE),"$(FILE)")

test:  ## Lint, types, import contracts, all tests, core and command line without Qt, the built wheel
	@scripts/test.sh

test-oracles:  ## Compare with transformers 4 and 5, torchtune, peft and gguf, in venvs of their own
	@scripts/test_oracles.sh

test-screen:  ## Drive the real window on a screen of its own: focus, drag and drop, dark, 200 %, keyboard alone
	@scripts/setup.sh screen
	$(PY) -m pytest -q -m xvfb tests/gui/test_screen.py

test-real:  ## Run on real checkpoints (see tests/real)
	@scripts/setup.sh oracles4
	.venv-oracles4/bin/python tests/real/run.py

test-desktop:  ## Check desktop file, metainfo and MIME types with the desktop's own tools, which are installed for it
	@scripts/test_desktop.sh

test-kernels:  ## Run the tests of the compiled kernels with gcc's sanitizers
	@scripts/test_kernels.sh

fuzz:  ## Open 10,000 mutants of good files (another seed with SEED=2)
	@scripts/setup.sh dev
	$(PY) scripts/fuzz.py $(if $(SEED),--seed $(SEED))

bench:  ## Measure time and memory, with ARGS="--rows open", ARGS=--quick, ARGS=--help
	@scripts/setup.sh dev
	$(PY) -m tests.bench $(ARGS)

bundle:  ## Build the program as one folder that needs no Python, start it, and see that it works (dist/ckpt-gui)
	@scripts/setup.sh dev
	@$(PY) -m PyInstaller --version >/dev/null 2>&1 || $(PY) -m pip install -q -c constraints-dev.txt pyinstaller
	$(PY) scripts/bundle.py

install-desktop:  ## Put icon, menu entry and file types of this checkout where this user's desktop looks for them
	@scripts/setup.sh run
	$(PY) -m ckpt_gui.cli.entry --install-desktop

uninstall-desktop:  ## Take them away again
	@scripts/setup.sh run
	$(PY) -m ckpt_gui.cli.entry --uninstall-desktop

icons:  ## Draw the icons again from resources/icons/ckpt-gui.svg
	@scripts/setup.sh dev
	$(PY) scripts/make_icons.py

screenshots:  ## Draw the pictures in the documentation again
	@scripts/setup.sh dev
	QT_QPA_PLATFORM=offscreen $(PY) scripts/screenshots.py

sample:  ## Make the bundled sample checkpoint again
	@scripts/setup.sh dev
	$(PY) scripts/make_sample.py

guide:  ## Draw the pictures of the user guide again
	@scripts/setup.sh dev
	QT_QPA_PLATFORM=offscreen $(PY) scripts/guide_pictures.py

translations:  ## Bring resources/i18n up to date for translators: make translations LANGUAGES="de fr"
	@scripts/setup.sh dev
	$(PY) scripts/translations.py templates $(LANGUAGES)

families:  ## Put the table of families and layouts into the README again
	@scripts/setup.sh dev
	$(PY) scripts/families_table.py

format:  ## Format the code and fix what the linter can fix
	@scripts/setup.sh dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:  ## Remove the environments, caches and build results
	rm -rf .venv .venv-core .venv-oracles4 .venv-oracles5 build dist out .setup.lock
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find ckpt_gui tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
