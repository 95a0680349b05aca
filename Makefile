# Every target builds what it needs first, so `make up` and `make test` work on a fresh machine.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests wait as long as they compute: four at a time keep two cores busy.
WORKERS ?= 4
# A mesh is several processes, and most of their start is imports: what one has compiled the next ones read.
unexport PYTHONDONTWRITEBYTECODE
# How long and in which order `make soak` breaks things, and how many histories it tries without processes.
SOAK_MINUTES ?= 20
SOAK_ORDER ?= 1
SOAK_HISTORIES ?= 100000
# For each parser.
FUZZ_MINUTES ?= 10

.PHONY: help up test unit e2e check format bench soak fuzz reproduce docs lock proto crds manifests clean

help: ## List the targets
	@grep -E '^[a-zA-Z.]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv: $(STAMP) ## Build the virtual environment from the lock file

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Outrigger needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "building $(VENV) from requirements.lock: one to three minutes, once"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(STAMP)

up: $(STAMP) ## Run the whole mesh on this machine (Ctrl-C stops it)
	$(BIN)/outrigger up $(ARGS)

test: $(STAMP) ## Run every test: unit, contract, end to end
	@# A test of milliseconds may fail beside two others: what failed is tried once more by itself.
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS) \
	  || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(ARGS)

unit: $(STAMP) ## Run only the tests that need no process, or those that ARGS names
	$(BIN)/python -m pytest $(if $(findstring tests/,$(ARGS)),,tests/unit) $(ARGS)

e2e: $(STAMP) ## Run only the tests against the real Envoy, or those that ARGS names
	$(BIN)/python -m pytest $(if $(findstring tests/,$(ARGS)),,tests/e2e) $(ARGS)

check: $(STAMP) ## Lint, types, import layers, tests mirror sources
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/mirror.py

format: $(STAMP) ## Format and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Measure against the no-op floor (and the rivals that are installed)
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(STAMP) ## Break everything in turn under load for SOAK_MINUTES (20), and check every answer
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --order $(SOAK_ORDER) $(ARGS)
	$(BIN)/python -m tests.soak.histories $(SOAK_HISTORIES)

fuzz: $(STAMP) ## Feed each parser with what nobody would send, for FUZZ_MINUTES (10)
	$(BIN)/python -m tests.soak.fuzz --minutes $(FUZZ_MINUTES) $(ARGS)

reproduce: $(STAMP) ## Measure the tables of three articles again and write docs/reproduction.md
	$(BIN)/python -m tests.reproduce $(ARGS)

docs: $(STAMP) ## Run every example of the README and of docs/
	$(BIN)/python -m pytest tests/e2e/test_docs.py $(ARGS)

lock: $(STAMP) ## Pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade pyproject.toml --extra dev --extra semantic --python-version 3.11 \
	  --no-emit-index-url --no-header --output-file requirements.lock

proto: $(STAMP) ## Regenerate the stubs of the push stream and of the access log
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
	  ext_proc/contract/push.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. ext_proc/agent/access_log.proto

crds: $(STAMP) ## Write the custom resource definitions from the models
	$(BIN)/python -m control_plane.crds k8s/chart/crds

manifests: $(STAMP) ## Render the chart into what `outrigger install` prints
	$(BIN)/python -m tests.harness.chart control_plane/cli/install.yaml

clean: ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
