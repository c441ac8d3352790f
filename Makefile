# `make demo` and `make test` work on a machine with only git, make and Python 3.11 or 3.12.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo test slow lint explorer-assets

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/vgcrl train

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check --quiet src tests
	$(BIN)/ty check --quiet src

test: lint
	$(BIN)/python -m pytest

slow: setup
	$(BIN)/python -m pytest -m slow

# What `vgcrl explore` puts into its pages, from pinned npm packages; needs node and npm.
explorer-assets:
	cd tools/explorer-assets && npm install --no-package-lock --no-audit --no-fund --silent && node build.mjs
