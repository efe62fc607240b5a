# The two that a newcomer needs: `make demo` and `make test`. Both set up .venv by themselves.

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
STAMP := $(VENV)/.installed
# Tried in this order; the first that runs and is 3.11 or newer is taken.
CANDIDATES := $(if $(OOMCTL_PYTHON),$(OOMCTL_PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)
# -qq: pip's errors are shown, its warnings (an unreachable extra index, a newer pip) are not.
PIP_INSTALL := $(PYTHON) -m pip install -qq --disable-pip-version-check
# The real vLLM: one that OOMCTL_ENGINE names, else the lock file's, installed at the first call.
ENGINE = $${OOMCTL_ENGINE:-$$($(PYTHON) -m tests.engine.install)}
# One file's tests stay in one process: they share fixtures such as a built wheel. One process more than there are cores, for
# a third of the tests wait for other processes; in the files' own order, for the largest first would leave the slow to the end.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv demo test test-fast test-engine test-experiment test-fleet test-failures engine check format format-check lint types imports sql bench bench-command bench-compare bench-agent bench-capacity bench-fleet bench-live bench-recorder bench-snapshot accuracy accuracy-ledger docs audit fuzz clean wheel check-wheel zipapp soak

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## triage the example incident and print the verdict
	@$(PYTHON) -m oomctl triage examples/vllm-graph-capture.log

test: $(STAMP) ## all tests that need no engine (minutes)
	@$(PYTHON) -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-fast: $(STAMP) ## the tests not marked slow (seconds)
	@$(PYTHON) -m pytest -m "not slow" $(PYTEST_ARGS)

test-engine: $(STAMP) ## the tests on a real vLLM (minutes; the first call installs it)
	@engine="$(ENGINE)" && OOMCTL_ENGINE="$$engine" $(PYTHON) -m pytest tests/engine -m "not slow" $(PYTEST_ARGS)

test-failures: $(STAMP) ## what takes long on it: real failures triaged without a log, a worker seen from outside, loads replayed
	@engine="$(ENGINE)" && OOMCTL_ENGINE="$$engine" $(PYTHON) -m pytest tests/engine -m "slow and not experiment" -rs $(PYTEST_ARGS)

test-experiment: $(STAMP) ## whole capacity experiments on it (an hour; aiperf's load, where that is installed)
	@engine="$(ENGINE)" && OOMCTL_ENGINE="$$engine" $(PYTHON) -m pytest tests/engine -m experiment -rs $(PYTEST_ARGS)

test-fleet: $(STAMP) ## fleets on Ray, an S3 server, Spark and ClickHouse, all of this machine (minutes; the first call installs them; Java 17)
	@$(PYTHON) -c "import chdb, moto, pyspark, ray" 2>/dev/null || $(PIP_INSTALL) -e ".[fleet-test]"
	@OOMCTL_FLEET=1 TZ=UTC $(PYTHON) -m pytest tests/fleet -m fleet $(PYTEST_ARGS)

check: format-check lint types imports sql audit docs test ## everything a change must pass

format: $(STAMP) ## rewrite the code as the formatter wants it
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

format-check: $(STAMP)
	@$(BIN)/ruff format --check .

lint: $(STAMP)
	@$(BIN)/ruff check .

types: $(STAMP)
	@$(PYTHON) -m mypy

imports: $(STAMP)
	@$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

sql: $(STAMP)
	@$(PYTHON) -m tests.sql_headers

audit: $(STAMP)
	@$(PYTHON) -m tests.audit

bench: $(STAMP) ## every benchmark, one table against the limits, and JSON in benchmarks/results (half an hour)
	@$(PYTHON) -m benchmarks

bench-compare: $(STAMP) ## what changed between two of these: make bench-compare A=old.json B=new.json
	@$(PYTHON) -m benchmarks.compare "$(A)" "$(B)"

bench-command: $(STAMP) ## what the command costs, as ratios, against its limits
	@$(PYTHON) -m benchmarks.command

bench-live: $(STAMP) ## what the collectors beside a worker cost, against their limits
	@$(PYTHON) -m benchmarks.live --day

bench-recorder: $(STAMP) ## what the recorder costs beside a busy worker, against its limits
	@$(PYTHON) -m benchmarks.recorder

bench-agent: $(STAMP) ## what the agent costs a real engine, against its limits
	@engine="$(ENGINE)" && model=$$(mktemp -d) && "$$engine/bin/python" tests/engine/make_model.py $$model && missed=0; \
	for part in record scheduler step throughput; do \
	    PYTHONPATH=src:. "$$engine/bin/python" -m benchmarks.agent $$model $$part 2>/dev/null || missed=1; \
	done; rm -rf $$model; exit $$missed

bench-snapshot: $(STAMP) ## what allocator snapshots of a million events cost, as ratios to pickle.load
	@$(PYTHON) -m benchmarks.snapshot

fuzz: $(STAMP) ## every reader against mutated inputs (20 minutes; see CONTRIBUTING for coverage)
	@$(PYTHON) -m tests.fuzz

soak: $(STAMP) ## bad days on purpose: a real engine, its recorder, and faults all around (ten minutes)
	@engine="$(ENGINE)" && $(PYTHON) -m tests.soak "$$engine"

bench-capacity: $(STAMP) ## what a replay and an admission decision cost, and how the policies do (needs the shared data)
	@$(PYTHON) -m benchmarks.capacity

# Without isolation: the build's own requirements are in .venv.
wheel: $(STAMP) ## build the wheel into build/wheel
	@rm -rf build/wheel build/lib
	@$(PYTHON) -m build --wheel --no-isolation --outdir build/wheel . >/dev/null

check-wheel: wheel ## install it as a stranger would, without an extra, and use it (minutes, 700 MB for a while)
	@$(PYTHON) -m tests.installed wheel build/wheel/*.whl

# shiv unpacks it at its first run; -E, for the recorder packs in a process of its own.
zipapp: wheel ## one file for a bare node with this Python: build/oomctl.pyz (minutes)
	@test -x $(BIN)/shiv || $(PIP_INSTALL) -e ".[zipapp]"
	@$(BIN)/shiv -E -c oomctl -p "/usr/bin/env python3" --preamble deploy/zipapp_preamble.py --compressed \
	    -o build/oomctl.pyz build/wheel/*.whl >/dev/null
	@$(PYTHON) -m tests.installed zipapp build/oomctl.pyz

bench-fleet: $(STAMP) ## ten thousand worker-hours with planted incidents, local and on Ray (installs Ray; half an hour and more)
	@$(PYTHON) -c "import ray" 2>/dev/null || $(PIP_INSTALL) -e ".[ray]"
	@$(PYTHON) -m benchmarks.fleet

accuracy: $(STAMP) ## how often a stated confidence is right
	@$(PYTHON) -m benchmarks.accuracy

accuracy-ledger: $(STAMP) ## how near the ledger comes to what engines printed (needs the shared data)
	@$(PYTHON) -m benchmarks.ledger

docs: $(STAMP) ## build the site into build/site; a broken link fails
	@$(BIN)/mkdocs build --strict --quiet

venv: $(STAMP) ## make .venv and install into it; every other target does so by itself

# A stamp, so that a second call costs nothing; a changed pyproject.toml or setup.py installs again.
$(STAMP): pyproject.toml setup.py | $(PYTHON)
	@echo "oomctl: installing into $(VENV) (once)" >&2
	@$(PIP_INSTALL) -e ".[dev]"
	@touch $@

engine: $(STAMP) ## install the real vLLM into the user's cache, and say where; test-engine does so by itself
	@$(PYTHON) -m tests.engine.install

# A dangling link to a Python that has gone counts as missing, and the folder is made anew.
$(PYTHON):
	@for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        found="$$candidate"; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "oomctl: error: no Python 3.11 or newer (tried: $(CANDIDATES))" >&2; \
	    echo "hint: install one, or name it: make OOMCTL_PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	fi; \
	if ! "$$found" -m venv --clear $(VENV); then \
	    rm -rf $(VENV); \
	    echo "oomctl: error: $$found cannot make a virtual environment" >&2; \
	    echo "hint: on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	    exit 1; \
	fi

clean: ## remove caches and build output; .venv stays
	@rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
