# Every target sets up .venv by itself; each works first, alone and twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint types wheel bench clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/dladmm demo

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow'

test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist .

bench: $(VENV)/ready
	$(BIN)/dladmm bench iteration
	$(BIN)/python benchmarks/digits.py

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
