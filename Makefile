# Every target sets up .venv by itself; PYTHON names the interpreter that makes it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: solve test lint bench clean

solve: $(READY)
	$(BIN)/python examples/01_solve.py

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/samplers.py

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -e ".[fast,hgs,ortools,dev]"
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
