# Every target sets up .venv by itself; each works first, alone and twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# The releases to install; CONSTRAINTS=/dev/null takes the newest ones instead.
CONSTRAINTS ?= constraints.txt
FRESH := build/fresh
# Tests start many processes, which need not compile the package each.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-slow test-optimised fuzz lint types wheel dist docs gallery sbom audit bench constraints lock clean

# Every file is checked against the locks. torch is fetched first, as which build pip takes is up to its
# settings; the last line brings what a build for GPUs needs besides, which is not locked, or nothing.
$(VENV)/ready: pyproject.toml constraints.txt requirements.lock requirements-torch.lock
	$(PYTHON) -m venv $(VENV)
ifeq ($(CONSTRAINTS),constraints.txt)
	$(PIP) install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(PIP) download --quiet --no-deps --dest build/torch $(shell grep '^torch==' constraints.txt)
	$(PIP) install --quiet --require-hashes --no-deps --no-index --find-links build/torch --requirement requirements-torch.lock
	rm -rf build/torch
	$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
else
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
endif
	touch $@

demo: $(VENV)/ready
	$(BIN)/dladmm demo

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

# A third worker, since many of these wait for processes that they have stopped or slowed down.
test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'slow and not optimised'

# What the other tests compile quickly, compiled as for users: every term and method against NumPy,
# and what README, docs and the gallery show.
test-optimised: $(VENV)/ready
	XLA_FLAGS= $(BIN)/python -m pytest -n 2 --dist worksteal -m 'optimised or not slow' \
	  tests/docs/test_gallery.py tests/docs/test_snippets.py tests/core/test_engines.py

# 10,000 random cases; interrupted, it goes on where it was. CASES=50000 makes more.
CASES ?= 10000
fuzz: $(VENV)/ready
	DLADMM_CACHE=off $(BIN)/python tests/fuzz/long.py --cases $(CASES)

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --no-isolation --wheel --outdir dist .

# What a release uploads: sdist and wheel, as the package index would refuse or take them.
dist: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

# The site in build/site; a warning is an error. Nothing is fetched, neither here nor by a reader.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Runs the examples and writes their pages and pictures, which `make docs` takes as they are.
gallery: $(VENV)/ready
	$(BIN)/python docs/.site/gallery.py

bench: $(VENV)/ready
	$(BIN)/dladmm bench iteration
	$(BIN)/python benchmarks/digits.py

# The newest releases pyproject.toml allows, under the old comments; torch without its build's name.
constraints:
	rm -rf $(FRESH)
	$(PYTHON) -m venv $(FRESH)
	$(FRESH)/bin/python -m pip install --quiet '.[dev]'
	grep '^#' constraints.txt > $(FRESH)/constraints.txt
	$(FRESH)/bin/python -m pip freeze --exclude dladmm > $(FRESH)/freeze.txt
	sed 's/^\(torch==[^+]*\)+.*/\1/' $(FRESH)/freeze.txt >> $(FRESH)/constraints.txt
	mv $(FRESH)/constraints.txt constraints.txt
	rm -rf $(FRESH)
	$(MAKE) lock

# The same releases with the hashes of their files.
lock:
	PYTHON=$(PYTHON) .ci/lock

# What the package brings along, as a CycloneDX file beside the wheel.
sbom:
	rm -rf $(FRESH) build/tools
	$(PYTHON) -m venv $(FRESH)
	$(FRESH)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) .
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet cyclonedx-bom
	mkdir -p dist
	build/tools/bin/cyclonedx-py environment --output-reproducible --mc-type library \
	  --pyproject pyproject.toml --output-file dist/dladmm.cdx.json $(FRESH)/bin/python
	rm -rf $(FRESH) build/tools

# Known vulnerabilities of the pinned releases, as far as a database can be had.
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit safety-db packaging
	build/audit/bin/python .ci/audit.py
	rm -rf build/audit

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
