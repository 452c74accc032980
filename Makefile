# Two commands do all the set-up on a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint docs clean

demo: $(VENV)/.cli
	$(BIN)/evalign compare src/evalign/datasets/data/mammography.csv.gz --target class --metric f1 --repeats 3 --out demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --durations=40  # two processes with one thread each do not fight for cores

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

docs: $(VENV)/.dev
	for figure in docs/figures/*.py; do $(BIN)/python $$figure || exit 1; done
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site demo

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("evalign needs Python 3.10 or newer" if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[cli]'
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.cli
