# make demo: a whole study on two CPU cores, from a fresh clone. Every target does the set-up that it needs.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 2 --dist loadfile
PIP_ARGS ?=
TORCH := torch==2.13.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.installed

.DELETE_ON_ERROR:
.PHONY: help setup demo test check lint format-check types imports tiny-model wheel clean distclean

help:
	@echo "make setup | demo | test | check | tiny-model | wheel | clean | distclean"

setup: $(STAMP)

# torch first and by itself, so that the build that the configured index offers for this machine is settled before
# anything depends on it.
$(STAMP): requirements.txt requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(PIP_ARGS) $(TORCH) -c requirements.lock
	$(PIP) install $(PIP_ARGS) -r requirements.txt
	$(PIP) install $(PIP_ARGS) --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)
	$(BIN)/autotrainer run --task math --budget 2xCPUx6m

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: lint format-check types imports

lint: $(STAMP)
	$(BIN)/ruff check --output-format concise .

format-check: $(STAMP)
	$(BIN)/ruff format --check --output-format concise .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

tiny-model: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.tiny_model.build autotrainer/models/tiny

wheel: $(STAMP)
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
