# `make demo` and `make test` set up everything they need on a fresh clone; `make` lists all targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.cli  ## fit an ensemble for F2 on the bundled mammography data in a minute and write it to demo/
	$(BIN)/evalign fit src/evalign/datasets/data/mammography.csv.gz --target class --metric "fbeta(beta=2)" --time-limit 60s --out demo

test: lint  ## run the linters and all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --durations=40  # two processes with one thread each do not compete for cores

lint: $(VENV)/.dev  ## run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	PYTHONPATH=. $(BIN)/lint-imports

docs: $(VENV)/.dev  ## draw the figures and build the documentation in site/
	for figure in docs/figures/*.py; do $(BIN)/python $$figure || exit 1; done
	$(BIN)/mkdocs build --strict

clean:  ## remove the virtual environment and everything that was built
	rm -rf $(VENV) site demo src/evalign/softsets/libnative.so

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("evalign needs Python 3.10 or newer" if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv $(VENV)

KERNEL := hatch_build.py src/evalign/softsets/native.c

$(VENV)/.cli: $(BIN)/python pyproject.toml constraints.txt $(KERNEL)
	$(PIP) --editable '.[cli,catboost]'
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt $(KERNEL)
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.cli
