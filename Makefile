# dpstream: `make demo` and `make test` work on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: fingerprints demo test test-slow coverage mutation fuzz lint types imports docs bench wheel clean

$(VENV)/.runtime: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[report]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime  ## stream real flights into a private model, a ledger and a report
	$(BIN)/python examples/flights/demo.py --out demo-out

test: $(VENV)/.dev  ## everything a change must pass, quick statistics included
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: $(VENV)/.dev  ## long statistical, crash and soak runs
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

CORE := --cov=dpstream.privacy --cov=dpstream.mechanisms --cov=dpstream.randomness --cov-branch
coverage: $(VENV)/.dev  ## every line and branch of the packages that promise privacy, or it fails
	$(BIN)/python -m pytest -n $(WORKERS) $(wildcard $(shell cat tests/core_packages.txt)) \
		$(CORE) --cov-report=term-missing:skip-covered --cov-fail-under=100

mutation: $(VENV)/.dev  ## every small fault of those packages, against their tests; hours, can be continued
	$(BIN)/python tests/mutation/run_mutation.py --workers $(WORKERS)

FUZZ_CASES ?= 20000
$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	touch $@

fuzz: $(VENV)/.fuzz  ## FUZZ_CASES=N hostile inputs by atheris and hypothesis; the promise is kept at 1000000
	$(BIN)/python tests/fuzz/run_fuzz.py --count $(FUZZ_CASES)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/pyright

imports: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## build the documentation, warnings are errors
	$(BIN)/mkdocs build --strict --quiet --site-dir site

bench: $(VENV)/.runtime  ## speed, as ratios to floors of this machine
	$(BIN)/dpstream bench

wheel: $(VENV)/.dev
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist site demo-out fuzz-out mutation-out .pytest_cache .ruff_cache

fingerprints: $(VENV)/.dev  ## after a module with a proof changed and its proof was read again
	$(BIN)/python -m dpstream.catalogue.fingerprint
