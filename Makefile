# `make` lists the tasks. The first one sets up .venv; later ones do so only after a change of
# pyproject.toml, requirements.lock or copy.c, so that they work without a network.
# Another Python: make PYTHON=/path/to/python3.12 test. More options for pytest: make test ARGS="-k ledger".

BIN := .venv/bin
RUN := $(BIN)/python -m
INSTALLED := .venv/installed
SIDEBAR := tabletopic_kernel/labextension/package.json
PYTHON ?=
ARGS ?=

# A shell may forbid caches of bytecode; then each of the hundreds of processes of a run compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up down lab check test test-all test-rest test-servers lint docs simulate bench bench-peers drill engines lock clean
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

# Tests with servers mostly wait: two processes, each with servers of its own (tests/conftest.py). None of them
# is in the package, where the examples are.
PAIR := -n 2 --dist loadscope --no-loadscope-reorder -o testpaths=tests

# The three tiers (CONTRIBUTING.md): each test belongs to the first that has it, by its markers.
check := -m "not integration" -q -n auto
story := -m story $(PAIR)
rest := -m "integration and not story and not servers" $(PAIR)
servers := -m servers $(PAIR)

# One tier. How long its tests took is kept and shown (tests/durations.py).
RESULTS := build/ci
TESTS = $(RUN) pytest $($(1)) --junitxml=$(RESULTS)/$(1).xml $(ARGS)

# A failure of one tier must not hide the next one's. pytest ends with 5 where ARGS chose no test of a tier,
# with 2 after Ctrl-C.
define EACH
failed=0; $(foreach tier,$(1),echo "==> pytest, $(tier)"; $(call TESTS,$(tier)); status=$$?; \
	[ $$status -ne 2 ] || exit 2; [ $$status -eq 0 ] || [ $$status -eq 5 ] || failed=1; ) \
	$(RUN) tests.durations $(1:%=$(RESULTS)/%.xml); exit $$failed
endef

check: lint ## lint, and the tests without servers: six minutes
	@$(call EACH,check)

test: $(INSTALLED) $(SIDEBAR) ## the tests of check, and stories: one stack with its host, kills, two notebooks
	@$(call EACH,check story)

test-all: $(INSTALLED) $(SIDEBAR) ## everything: 80 minutes; downloads 1.3 GB the first time
	@$(call EACH,check story rest servers)

test-rest: $(INSTALLED) $(SIDEBAR) ## what test-all has beyond test, but for test-servers
	@$(call EACH,rest)

test-servers: $(INSTALLED) ## production catalogs, object stores and brokers
	@$(call EACH,servers)

lint: $(INSTALLED) ## lint, format, types, import rules
	@echo "==> ruff check" && $(BIN)/ruff check --quiet .
	@echo "==> ruff format --check" && $(BIN)/ruff format --check --quiet .
	@echo "==> mypy" && $(RUN) mypy && $(RUN) mypy --config-file tests/mypy.ini tests
	@echo "==> lint-imports" && $(BIN)/lint-imports --no-logo

docs: $(INSTALLED) ## the pages as a site with search: site/index.html
	@$(RUN) docs.site

simulate: $(INSTALLED) ## seeded histories of faults, for as long as you like; ARGS="--minutes 60", "--seed 4711"
	@$(RUN) tests.simulation $(ARGS)

bench: $(INSTALLED) ## benchmark this machine
	@$(RUN) benchmarks $(ARGS)

bench-peers: $(INSTALLED) ## this product beside plain Spark, Kafka Connect, Flink and a loop; downloads 355 MB the first time
	@$(RUN) benchmarks.peers $(ARGS)

drill: $(INSTALLED) ## inject faults from a seed, then compare every record (ARGS="--minutes 60")
	@$(RUN) tests.drill $(ARGS)

engines: $(INSTALLED) ## ask DuckDB, Spark and PyIceberg seeded questions; ARGS="--seed 7 --minutes 30"
	@$(RUN) tests.engines $(ARGS)

lock: $(INSTALLED) ## regenerate requirements.lock from pyproject.toml; UPGRADE=1 upgrades everything
	@echo "==> requirements.lock"
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --all-extras --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) pyproject.toml -o requirements.lock

clean: ## remove caches and build results; .venv and .tabletopic (your data) stay
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml requirements.lock tabletopic_kernel/clients/kafka/ranges/copy.c
	@PYTHON="$(PYTHON)" .ci/setup

# Setting up builds it; this is for changes of its sources. A page that is open shows it after a reload.
$(SIDEBAR): $(shell find labextension/*.json labextension/yarn.lock labextension/s* -type f 2>/dev/null) | $(INSTALLED)
	@echo "==> sidebar of JupyterLab"
	@$(BIN)/python labextension/hatch_build.py
