# The two commands: `make up` (the living site) and `make test` (everything proved).
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two processes, each with a database, a Valkey and a folder of its own.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# Python compiles what it imports; to compile all that is installed takes half of the time.
# Where the environment forbids it to keep that, every process would compile anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: up test check bench format clean browser

up: $(VENV)/.worker
	@exec $(BIN)/python manage.py up

test: $(VENV)/.dev browser
	$(PYTEST) $(ARGS)
	$(BIN)/python -m convergebench_site.with_postgres $(PYTEST) -m "database and not browser" leaderboard convergebench_site $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/djlint --quiet --check --lint templates
	$(BIN)/mypy evaluation leaderboard convergebench_site
	$(BIN)/python manage.py makemigrations --check --dry-run

bench: $(VENV)/.dev
	@for name in evaluation.benchmarks.scoring evaluation.benchmarks.ranking evaluation.benchmarks.endpoint_calls evaluation.benchmarks.worker leaderboard.benchmarks.pages; do \
	  echo "# $$name"; $(BIN)/python -m $$name || exit 1; done

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/djlint --quiet --reformat templates

clean:
	rm -rf $(VENV) var .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# Stamps: what is installed is installed again only when the lists of packages change.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ConvergeBench needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.worker: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing (about 1.5 GB, a minute or two the first time) ..."
	$(PIP) --editable '.[worker,providers]'
	@touch $@

$(VENV)/.dev: $(VENV)/.worker
	$(PIP) --editable '.[dev]'
	@touch $@

# Debian's Chromium for the browser tests, where it is missing and can be had; they skip without it.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "Chromium is not here and cannot be installed: the browser tests will be skipped"
