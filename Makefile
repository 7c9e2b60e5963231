# The two commands: `make up` (the living site) and `make test` (everything proved).
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes of the tests, each with a database, a Valkey and a folder of its own. Three keep two
# processors busy: many tests wait for a worker, a browser or a server.
PROCESSES ?= 3
PYTEST := $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --durations 60
POSTGRES := $(BIN)/python -m convergebench_site.with_postgres
# The seconds of each test, as JUnit's XML.
DURATIONS ?= var/durations
# Python compiles what it imports; to compile all that is installed takes half of the time.
# Where the environment forbids it to keep that, every process would compile anew.
unexport PYTHONDONTWRITEBYTECODE
QUIET ?= --quiet
INSTALL := $(BIN)/python -m pip install --no-compile $(QUIET) --disable-pip-version-check
PIP := $(INSTALL) --constraint constraints.txt
# Its build differs from machine to machine, and brings along what that build needs.
UNHASHED := torch torchvision triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti \
  nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver \
  nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

# What looks at the environment is not part of it.
TOOLS := $(VENV)/tools
TOOL := $(TOOLS)/bin/python -m pip install $(QUIET) --disable-pip-version-check
UV := 0.13.8
CYCLONEDX := 7.5.0
PIP_AUDIT := 2.10.1

# Two at a time, since mypy takes as long as all others together; each says all that it found.
CHECKS := check-types check-style check-imports check-templates check-migrations

# What the networks under test need: all but CLIP's, which are large and come from a hub.
WEIGHTS := dinov2-small lpips-alex imagenet dlib-faces face-parsing text-reader coco-detector neural-eraser esrgan-slim brisque niqe

.PHONY: up cluster containers test test-release check $(CHECKS) bench fuzz audit sbom hashes format clean browser weights

# The board lives as soon as its own packages are in; those that score come behind it.
up: $(VENV)/.site
	@exec $(BIN)/python manage.py up --install $(VENV)/.worker

# On PostgreSQL as in production; on SQLite what differs between the two.
test: $(VENV)/.dev browser weights
	$(POSTGRES) $(PYTEST) -m "not release" --junitxml $(DURATIONS)/postgresql.xml $(ARGS)
	$(PYTEST) -m "both_databases and not release" --junitxml $(DURATIONS)/sqlite.xml leaderboard convergebench_site $(ARGS)

# What takes long or needs what few machines have (podman, kubectl, TeX), before a release.
test-release: test
	$(POSTGRES) $(PYTEST) -rs -m release --junitxml $(DURATIONS)/release.xml $(ARGS)
	$(MAKE) cluster ARGS="--kills 25"
	$(MAKE) containers ARGS=
	$(MAKE) fuzz ARGS=

# The topology of docs/operating.md as processes of this machine; ARGS="--kills 25" attacks it.
cluster: $(VENV)/.dev
	$(BIN)/python -m leaderboard.testing.cluster $(ARGS)

# compose.yaml in containers whose images are made of Debian's packages, tried whole (docs/operating.md).
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
# Made-up input against all that strangers can send; an hour, or TIME seconds. On SQLite and
# PostgreSQL in turn: they differ in what they take.
fuzz: $(VENV)/.dev
	@end=$$((SECONDS + $${TIME:-3600})); on=; while [ $$SECONDS -lt $$end ]; do \
	  HYPOTHESIS_PROFILE=fuzz $(BIN)/python $$on -m pytest -q -m fuzz $(FUZZED) $(ARGS) || exit 1; \
	  [ "$$on" ] && on= || on="-m convergebench_site.with_postgres $(BIN)/python"; done

# After a change of constraints.txt; `make test` says when it is due.
hashes: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) uv==$(UV)
	@for list in "hashes-site.txt --extra site --extra content" "hashes.txt --extra site --extra worker --extra providers"; do \
	  set -- $$list; file=$$1; shift; \
	  $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --constraint constraints.txt "$$@" $(UNHASHED:%=--no-emit-package %) pyproject.toml --output-file hashes.new || exit 1; \
	  { head -1 $$file; cat hashes.new; } > hashes.both && mv hashes.both $$file && rm hashes.new; \
	done

# What is installed, as a CycloneDX list (sbom.json).
sbom: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) cyclonedx-bom==$(CYCLONEDX)
	$(TOOLS)/bin/cyclonedx-py environment --output-format JSON --output-file sbom.json $(BIN)/python

# Known faults of what is installed; needs a database of them, so the internet.
audit: $(VENV)/.dev $(TOOLS)/bin/python
	$(TOOL) pip-audit==$(PIP_AUDIT)
	@$(TOOLS)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip > audit.txt 2>&1; found=$$?; \
	cat audit.txt; left=$$(grep -c "could not be audited" audit.txt); rm -f audit.txt; \
	if [ $$left -gt 0 ]; then \
	  echo "$$left of $$(grep -c == constraints.txt) packages were NOT audited: the database of known faults does not know them, or cannot be reached from here." >&2; \
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

# pip takes what it was stopped in the midst of for installed; its last file but one is missing there.
FORGET_INTERRUPTED = @for found in $(VENV)/lib/python*/site-packages/*.dist-info; do \
	  [ ! -d "$$found" ] || [ -e "$$found/INSTALLER" ] || rm -rf "$$found"; done

# Stamps: what is installed is installed again only when the lists of packages change.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ConvergeBench needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.site: pyproject.toml constraints.txt hashes-site.txt | $(BIN)/python
	@echo "Installing what the pages need (about 500 MB, a minute the first time) ..."
	$(FORGET_INTERRUPTED)
	$(INSTALL) --no-deps --require-hashes --requirement hashes-site.txt
	@touch $@

$(VENV)/.worker: $(VENV)/.site hashes.txt
	@echo "Installing what scores images (about 1.5 GB, some minutes the first time) ..."
	$(FORGET_INTERRUPTED)
	$(INSTALL) --no-deps --require-hashes --requirement hashes.txt
	$(PIP) --editable '.[site,worker,providers]'
	@touch $@

$(VENV)/.dev: $(VENV)/.worker
	$(PIP) --editable '.[dev]'
	@touch $@

# Debian's Chromium for the browser tests, where it is missing and can be had; they skip without it.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "Chromium is not here and cannot be installed: the browser tests will be skipped"

# About 150 MB, once a machine; the tests that need what cannot be fetched are skipped.
weights: $(VENV)/.dev
	@$(BIN)/convergebench weights $(WEIGHTS) >/dev/null \
	  || echo "Not all weights of networks are here: the tests that need them will be skipped"
