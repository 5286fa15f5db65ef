PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo demo-text test test-slow check-all lint bench docs clean

demo: $(VENV)/.core
	$(BIN)/evenhand demo

demo-text: $(VENV)/.text
	$(BIN)/evenhand demo --text

test: $(VENV)/.test
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

check-all: test test-slow
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
	$(BIN)/python -m evenhand.config.pages --check docs/reference/command-line.md
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

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
