PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

PEERS := $(abspath $(VENV))/peers
AXE := 4.14.1

.PHONY: demo demo-text test test-slow peers check-all lint bench docs clean

demo: $(VENV)/.core
	$(BIN)/evenhand demo

demo-text: $(VENV)/.text
	$(BIN)/evenhand demo --text

test: $(VENV)/.test
	$(PYTEST) $(PYTEST_OPTIONS) -m "not slow"

test-slow: $(VENV)/.test $(VENV)/.axe
	$(PYTEST) $(PYTEST_OPTIONS) -m slow

# Real servers, each with its own versions of everything; the tests in tests/peers ask them.
peers: $(patsubst tests/peers/%.txt,$(PEERS)/%/.done,$(wildcard tests/peers/*.txt))

check-all: export EVENHAND_PEERS := $(PEERS)
check-all: export EVENHAND_CHAOS_SEEDS := 5
check-all: peers test test-slow
	$(BIN)/python -m benchmarks.page --check

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

docs: $(VENV)/.test
	$(BIN)/python -m benchmarks.page --check
	$(BIN)/python docs/make_reference.py --check
	$(BIN)/python -m pytest tests/test_docs.py

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.text: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) -e '.[text]'
	@touch $@ $(VENV)/.core

$(VENV)/.test: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.core

$(VENV)/.lint: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) -e '.[test,lint]'
	@touch $@ $(VENV)/.test $(VENV)/.core

# What looks for barriers in reports. Without npm these tests are skipped, or fail with EVENHAND_REQUIRE_ALL.
$(VENV)/.axe: $(VENV)/.venv Makefile
	! command -v npm >/dev/null || npm install --prefix $(VENV)/axe --silent --no-save --no-audit --no-fund axe-core@$(AXE)
	@touch $@

$(PEERS)/%/.done: tests/peers/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
