# The two main commands: `make up` starts the site, and `make test` runs the tests.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# How many processes run the tests, each with its own database, Valkey and folder. Three processes
# keep two processors busy, because many tests wait for a worker, a browser or a server.
PROCESSES ?= 3
PYTEST := $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --durations 60
POSTGRES := $(BIN)/python -m convergebench_site.with_postgres
# The folder for the seconds of each test, as JUnit's XML.
DURATIONS ?= var/durations
# pip does not compile packages (--no-compile), which would take half of its time: Python compiles
# what it imports. It must be allowed to save the result, or every process would compile again.
unexport PYTHONDONTWRITEBYTECODE
QUIET ?= --quiet
INSTALL := $(BIN)/python -m pip install --no-compile $(QUIET) --disable-pip-version-check
PIP := $(INSTALL) --constraint constraints.txt
# torch has different builds for different machines, each with other packages that it needs.
UNHASHED := torch torchvision triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti \
  nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver \
  nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

# Tools that inspect the environment are installed in an environment of their own.
TOOLS := $(VENV)/tools
TOOL := $(TOOLS)/bin/python -m pip install $(QUIET) --disable-pip-version-check
UV := 0.13.8
CYCLONEDX := 7.5.0
PIP_AUDIT := 2.10.1

# Two checks run at a time, because mypy takes as long as all others together.
CHECKS := check-types check-style check-imports check-templates check-migrations

# The weights of all networks under test, except CLIP's, which are large and come from a hub.
WEIGHTS := dinov2-small lpips-alex imagenet dlib-faces face-parsing text-reader coco-detector neural-eraser esrgan-slim brisque niqe

.PHONY: up cluster containers test test-release check $(CHECKS) bench fuzz audit sbom hashes format clean browser weights

# The site starts when its own packages are installed; the packages for scoring follow.
up: $(VENV)/.site
	@exec $(BIN)/python manage.py up --install $(VENV)/.worker

# All tests run on PostgreSQL, as in production; those that depend on the database also on SQLite.
test: $(VENV)/.dev browser weights
	$(POSTGRES) $(PYTEST) -m "not release" --junitxml $(DURATIONS)/postgresql.xml $(ARGS)
	$(PYTEST) -m "both_databases and not release" --junitxml $(DURATIONS)/sqlite.xml leaderboard convergebench_site $(ARGS)

# Run before a release: tests that take long or need special programs (podman, kubectl, TeX).
test-release: test
	$(POSTGRES) $(PYTEST) -rs -m release --junitxml $(DURATIONS)/release.xml $(ARGS)
	$(MAKE) cluster ARGS="--kills 25"
	$(MAKE) containers ARGS=
	$(MAKE) fuzz ARGS=

# Starts the machines of docs/operating.md as processes; ARGS="--kills 25" kills 25 at random.
cluster: $(VENV)/.dev
	$(BIN)/python -m leaderboard.testing.cluster $(ARGS)

# Starts compose.yaml with images built of Debian's packages, and tests the site (docs/operating.md).
containers: $(VENV)/.dev
	$(BIN)/python -m leaderboard.testing.cluster.containers $(ARGS)

check: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target --keep-going $(CHECKS)

check-types:
	$(BIN)/mypy evaluation leaderboard convergebench_site tools

check-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-imports:
	$(BIN)/lint-imports --no-logo

check-templates:
	$(BIN)/djlint --quiet --check --lint templates

check-migrations:
	$(BIN)/python manage.py makemigrations --check --dry-run

bench: $(VENV)/.dev
	@for name in evaluation.benchmarks.scoring evaluation.benchmarks.experiments leaderboard.benchmarks.worker evaluation.benchmarks.false_alarms leaderboard.benchmarks.pages leaderboard.benchmarks.votes; do \
	  echo "# $$name"; $(BIN)/python -m $$name || exit 1; done

FUZZED := convergebench_site/tests leaderboard/tests/api/test_api.py leaderboard/tests/exports/test_bundles.py
# Sends generated input to all parsers of untrusted data, for an hour or TIME seconds. SQLite and
# PostgreSQL take turns, because they accept different data.
fuzz: $(VENV)/.dev
	@end=$$((SECONDS + $${TIME:-3600})); on=; while [ $$SECONDS -lt $$end ]; do \
	  HYPOTHESIS_PROFILE=fuzz $(BIN)/python $$on -m pytest -q -m fuzz $(FUZZED) $(ARGS) || exit 1; \
	  [ "$$on" ] && on= || on="-m convergebench_site.with_postgres $(BIN)/python"; done

# Run after a change of constraints.txt; `make test` fails if the hashes are out of date.
hashes: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) uv==$(UV)
	@for list in "hashes-site.txt --extra site --extra content" "hashes.txt --extra site --extra worker --extra providers"; do \
	  set -- $$list; file=$$1; shift; \
	  $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --constraint constraints.txt "$$@" $(UNHASHED:%=--no-emit-package %) pyproject.toml --output-file hashes.new || exit 1; \
	  { head -1 $$file; cat hashes.new; } > hashes.both && mv hashes.both $$file && rm hashes.new; \
	done

# Lists the installed packages in sbom.json (CycloneDX).
sbom: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) cyclonedx-bom==$(CYCLONEDX)
	$(TOOLS)/bin/cyclonedx-py environment --output-format JSON --output-file sbom.json $(BIN)/python

# Checks the pinned packages for known vulnerabilities; needs the internet, for the database.
audit: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) pip-audit==$(PIP_AUDIT)
	@$(TOOLS)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip > audit.txt 2>&1; found=$$?; \
	cat audit.txt; left=$$(grep -c "could not be audited" audit.txt); rm -f audit.txt; \
	if [ $$left -gt 0 ]; then \
	  echo "$$left of $$(grep -c == constraints.txt) packages were NOT audited: the database of vulnerabilities does not know them, or cannot be reached." >&2; \
	  [ $$found != 0 ] || found=3; fi; exit $$found

$(TOOLS)/bin/python: | $(BIN)/python
	$(PYTHON) -m venv $(TOOLS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/djlint --quiet --reformat templates

clean:
	rm -rf $(VENV) var .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# If pip was interrupted, it takes a half-installed package for installed. Such a package has no
# file INSTALLER yet, so it is removed.
FORGET_INTERRUPTED = @for found in $(VENV)/lib/python*/site-packages/*.dist-info; do \
	  [ ! -d "$$found" ] || [ -e "$$found/INSTALLER" ] || rm -rf "$$found"; done

# The files .site, .worker and .dev are stamps: packages are installed again only if a list changes.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ConvergeBench needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.site: pyproject.toml constraints.txt hashes-site.txt | $(BIN)/python
	@echo "Installing the packages of the site (about 500 MB, a minute the first time) ..."
	$(FORGET_INTERRUPTED)
	$(INSTALL) --no-deps --require-hashes --requirement hashes-site.txt
	@touch $@

$(VENV)/.worker: $(VENV)/.site hashes.txt
	@echo "Installing the packages for scoring (about 1.5 GB, some minutes the first time) ..."
	$(FORGET_INTERRUPTED)
	$(INSTALL) --no-deps --require-hashes --requirement hashes.txt
	$(PIP) --editable '.[site,worker,providers]'
	@touch $@

$(VENV)/.dev: $(VENV)/.worker
	$(PIP) --editable '.[dev]'
	@touch $@

# Installs Debian's Chromium for the browser tests if possible; without it they are skipped.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "Chromium is missing and cannot be installed: the browser tests will be skipped"

# Downloads about 150 MB, once for each machine. Tests whose weights are missing are skipped.
weights: $(VENV)/.dev
	@$(BIN)/convergebench weights $(WEIGHTS) >/dev/null \
	  || echo "Some weights of networks are missing: the tests that need them will be skipped"
