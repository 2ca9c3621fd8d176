# `make` lists the tasks. The first one sets up .venv; later ones do so only after a change of
# pyproject.toml or requirements.lock, so that they work without a network.
# Another Python: make PYTHON=/path/to/python3.12 test. More options for pytest: make test ARGS="-k ledger".

BIN := .venv/bin
RUN := $(BIN)/python -m
INSTALLED := .venv/installed
SIDEBAR := tabletopic_kernel/labextension/package.json
PYTHON ?=
ARGS ?=

# A shell may forbid caches of bytecode; then each of the hundreds of processes of a run compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up down lab test test-servers lint check simulate bench drill engines lock clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## the whole path on this machine: topic, table, queries, proof
	@$(BIN)/tabletopic demo

up: $(INSTALLED) ## start a local broker, registry and catalog; they run until make down
	@$(BIN)/tabletopic up --detach
	@echo "tabletopic is $(BIN)/tabletopic here. Notebooks: make lab. Stop: make down"

down: ## stop what make up started; topics and tables stay in .tabletopic
	@if [ -e $(INSTALLED) ]; then $(BIN)/tabletopic down; else echo "Nothing is set up here."; fi

lab: $(INSTALLED) $(SIDEBAR) ## JupyterLab with the sidebar, opened on the notebooks
	@$(RUN) jupyter lab --LabApp.default_url=/lab/tree/notebooks $(ARGS)

# Tests with servers mostly wait: two processes, each with servers of its own (tests/conftest.py).
PAIR := -n 2 --dist loadscope --no-loadscope-reorder

# Where CI keeps each run's durations (tests/durations.py).
REPORT = $(if $(RESULTS),--junitxml=$(RESULTS)/$(1).xml)

# A failure of the first half must not hide the second's. pytest ends with 5 where ARGS chose no test of a kind,
# with 2 after Ctrl-C.
OUTCOME = status=$$?; [ $$status -ne 2 ] || exit 2; [ $$status -eq 0 ] || [ $$status -eq 5 ] || failed=1

test: $(INSTALLED) $(SIDEBAR) ## all tests, including those with real servers
	@failed=0; \
	echo "==> pytest, without servers"; $(RUN) pytest -m "not integration" -q -n auto $(call REPORT,quick) $(ARGS); $(OUTCOME); \
	echo "==> pytest, with servers"; $(RUN) pytest -m "integration and not servers" $(PAIR) $(call REPORT,stack) $(ARGS); $(OUTCOME); \
	exit $$failed

test-servers: $(INSTALLED) ## production catalogs, object stores and brokers; downloads 1.3 GB the first time
	@$(RUN) pytest -m servers $(PAIR) $(call REPORT,servers) $(ARGS)

lint: $(INSTALLED) ## lint, format, types, import rules
	@echo "==> ruff check" && $(BIN)/ruff check --quiet .
	@echo "==> ruff format --check" && $(BIN)/ruff format --check --quiet .
	@echo "==> mypy" && $(RUN) mypy
	@echo "==> lint-imports" && $(BIN)/lint-imports --no-logo

check: lint ## lint, and the tests without servers
	@echo "==> pytest, without servers" && $(RUN) pytest -m "not integration" -q -n auto $(ARGS)

simulate: $(INSTALLED) ## seeded histories of faults, for as long as you like; ARGS="--minutes 60", "--seed 4711"
	@$(RUN) tests.simulation $(ARGS)

bench: $(INSTALLED) ## benchmark this machine
	@$(RUN) benchmarks $(ARGS)

drill: $(INSTALLED) ## inject faults from a seed, then compare every record (ARGS="--minutes 60")
	@$(RUN) tests.drill $(ARGS)

engines: $(INSTALLED) ## ask DuckDB, Spark and PyIceberg seeded questions; ARGS="--seed 7 --minutes 30"
	@$(RUN) tests.engines $(ARGS)

lock: $(INSTALLED) ## regenerate requirements.lock from pyproject.toml; UPGRADE=1 upgrades everything
	@echo "==> requirements.lock"
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --all-extras --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) pyproject.toml -o requirements.lock

clean: ## remove caches and build results; .venv and .tabletopic (your data) stay
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml requirements.lock
	@PYTHON="$(PYTHON)" .ci/setup

# Setting up builds it; this is for changes of its sources. A page that is open shows it after a reload.
$(SIDEBAR): $(shell find labextension/*.json labextension/yarn.lock labextension/s* -type f 2>/dev/null) | $(INSTALLED)
	@echo "==> sidebar of JupyterLab"
	@$(BIN)/python labextension/hatch_build.py
