# `make demo` and `make test` work on a machine with only git, make and Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes. Without files of bytecode each would compile all that it imports: 3 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test slow lint docs build explorer-assets

setup: $(VENV)/.ready

# With the pip of Python 3.11 this takes half as long again.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/vgcrl train

lint: setup
	$(BIN)/ruff check src tests tools
	$(BIN)/ruff format --check --quiet src tests tools
	$(BIN)/ty check --quiet src

test: lint
	$(BIN)/python -m pytest

# Into site/, without the network; a broken link or a page that nothing leads to is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html (search needs a server: python3 -m http.server -d site)"

build: setup
	$(BIN)/python -m build --quiet

slow: setup
	$(BIN)/python -m pytest -m slow

# What `vgcrl explore` puts into its pages, from pinned npm packages; needs node and npm.
explorer-assets:
	cd tools/explorer-assets && npm install --no-package-lock --no-audit --no-fund --silent && node build.mjs
