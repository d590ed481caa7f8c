# minitxl: everything a reader, a teacher or a developer calls. `make help` lists it.
#
#   PYTHON=python3.12      another Python, 3.11 or newer
#   TORCH_INDEX=URL        another index for torch alone, as PyTorch's own site names it for your
#                          CUDA version or for the CPU

PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
# What is imported is compiled then: to compile all that is installed takes as long as to install it.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# uv takes a quarter of pip's time. It reads none of pip's settings, so where it can't be had or does not find
# what is needed, pip installs all.
INSTALL_COURSE = { $(PIP_INSTALL) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python $(EDITABLE) $(1); } \
	2>/dev/null || $(PIP_INSTALL) $(EDITABLE) $(1)
EDITABLE := --constraint constraints.txt --editable
# In a variable, since in a call of INSTALL_COURSE a comma would end the argument.
FOR_TESTS := '.[test,book,classroom]'
READY := $(VENV)/ready
READY_TEST := $(VENV)/ready-test
READY_BOOK := $(VENV)/ready-book
READY_CLASSROOM := $(VENV)/ready-classroom
# Containers often set PYTHONDONTWRITEBYTECODE: each of a thousand processes would compile what it imports.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := MINITXL_PROFILE=quick OMP_NUM_THREADS=1 $(BIN)/pytest
# Two workers more than processors, for a worker often waits: for a kernel, a browser, another process.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(8, (os.cpu_count() or 1) + 2))' 2>/dev/null)
IN_PARALLEL = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
NBVAL := --nbval-lax --nbval-current-env --nbval-cell-timeout=300 -p no:cacheprovider
TESTS := $(NBVAL) -m 'not every_assignment and not every_notebook' tests notebooks/*.ipynb
LINT := $(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy
NBGRADER_MENUS := @jupyter/nbgrader
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo lab test test-unit test-notebooks test-solutions test-browser test-classroom soak lint figures figures-check notebooks home book assignments mark feedback classroom-check bench gpu gpu-rehearsal parity clean

help:  ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv and install what the course needs, in the tested versions, once

define PYTHON_AND_TORCH
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "minitxl needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing): install one, or name it, as in 'make PYTHON=python3.12 demo'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "minitxl needs Python's venv module, which '$(PYTHON)' lacks: on Debian or Ubuntu, 'apt-get install python3-venv' brings it" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
endef

$(READY): pyproject.toml constraints.txt
	$(PYTHON_AND_TORCH)
	$(call INSTALL_COURSE,.)
	@touch $@

$(READY_BOOK): $(READY)
	$(call INSTALL_COURSE,'.[book]')
	@touch $@

# All that the tests need is installed at once, which is sooner done than in two steps.
# nbgrader's menus in JupyterLab are for teachers: the tests use nbgrader without them.
$(READY_TEST): pyproject.toml constraints.txt
	$(PYTHON_AND_TORCH)
	$(call INSTALL_COURSE,$(FOR_TESTS))
	@test -e $(READY_CLASSROOM) || $(BIN)/jupyter labextension disable --level=sys_prefix $(NBGRADER_MENUS)
	@touch $(READY) $@

$(READY_CLASSROOM): $(READY)
	$(call INSTALL_COURSE,'.[classroom]')
	@$(BIN)/jupyter labextension enable --level=sys_prefix $(NBGRADER_MENUS)
	@touch $@

demo: $(READY)  ## train a vanilla model, one with relative positions and Transformer-XL, and draw the difference
	@$(BIN)/minitxl demo

lab: $(READY)  ## open the course in JupyterLab
	@$(BIN)/jupyter lab --config=notebooks/jupyter_server_config.py --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb

# To collect the tests compiles all that they import, which else each worker would do, at the same time as the
# others. A processor is free for it while mypy works on another. What goes wrong, the tests themselves tell.
# What lint finds stands above the tests, and ends the command in error after them.
test: $(READY_TEST)  ## all tests, as CI runs them
	@{ $(LINT); } & linted=$$!; $(PYTEST) --collect-only $(TESTS) >/dev/null || true; \
		$(PYTEST) $(IN_PARALLEL) $(TESTS); tested=$$?; wait $$linted && exit $$tested

test-unit: $(READY_TEST)  ## tests of the package and of the course
	@$(PYTEST) $(IN_PARALLEL) -m 'not every_notebook' --ignore=tests/browser --ignore=tests/classroom

test-notebooks: $(READY_TEST)  ## run every notebook from top to bottom, in the quick profile
	@$(PYTEST) $(IN_PARALLEL) $(NBVAL) notebooks/*.ipynb

test-solutions: $(READY_TEST)  ## run every notebook with its printed solutions in the blanks
	@$(PYTEST) $(IN_PARALLEL) --dist=load tests/course/test_solutions.py

test-browser: $(READY_TEST)  ## the course in JupyterLab and as a static site, in a headless Chromium
	@$(PYTEST) $(IN_PARALLEL) tests/browser

test-classroom: $(READY_TEST)  ## one assignment through the real nbgrader, from release to grades
	@$(PYTEST) -m 'not every_assignment' tests/classroom

MINUTES ?= 10

soak: $(READY_TEST)  ## try to break the package for MINUTES=10 by random input, kills and servers; SEED=1 repeats
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m soak --minutes $(MINUTES)$(if $(SEED), --seed $(SEED))

lint: $(READY_TEST)  ## format, lint and types
	@$(LINT)

TRAINED := ablation every_system copying memory_and_positions shaw_clipping without_terms short_dependency segment_copying \
	absolute_positions deeper_layers relay_routes later_positions position_repairs far_attention \
	training_parts short_segments equal_bytes

figures: $(READY)  ## rebuild results and figures that are missing or out of date
	@OMP_NUM_THREADS=1 $(MAKE) --no-print-directory --jobs=2 figure-samples $(TRAINED:%=figure-%)
	@$(BIN)/minitxl figures

figure-%: $(READY)
	@$(BIN)/minitxl figures $*

figure-samples: figure-attention_over_memory
figure-attention_over_memory: figure-context

figures-check: $(READY)  ## compute the cheapest experiment of each kind anew: the same conclusions?
	@$(BIN)/minitxl figures --check

notebooks: $(READY)  ## run the notebooks and store their outputs in canonical form
	@$(BIN)/python notebooks/execute.py

home: $(READY)  ## write what follows from the repository's address in pyproject.toml
	@$(BIN)/python notebooks/home.py

book: $(READY_BOOK)  ## the course as a static site, in build/book
	@$(BIN)/sphinx-build -q -W --keep-going -c notebooks/book -b html notebooks build/book
	@echo "open build/book/index.html"

COURSE ?= build/classroom

assignments: $(READY_CLASSROOM)  ## student, solution and instructor versions, in COURSE=FOLDER
	@$(BIN)/python notebooks/assignments/build.py $(COURSE)

mark: $(READY_CLASSROOM)  ## mark what was handed in, in COURSE=FOLDER; NAMES="1 3" marks these assignments
	@$(BIN)/python notebooks/assignments/mark.py $(COURSE) $(NAMES)

feedback: $(READY_CLASSROOM)  ## a page for each student, in COURSE/feedback
	@$(BIN)/python notebooks/assignments/mark.py $(COURSE) $(NAMES) --feedback

classroom-check: $(READY_TEST)  ## every assignment through the real nbgrader
	@$(PYTEST) tests/classroom

$(PEERS)/ready: constraints-peers.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(sed -n '/^torch==/p' constraints-peers.txt)"
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement constraints-peers.txt
	@touch $@

bench: $(READY) $(PEERS)/ready  ## time minitxl and its peers side by side
	@$(BIN)/minitxl bench
	@$(BIN)/minitxl bench training-words training-adaptive evaluation-words evaluation-adaptive

DEVICE ?= cuda
SIZE ?= real

gpu: $(READY_TEST)  ## what needs a GPU, in pieces of ten minutes at most, into runs/gpu; PIECES= names some
	@PYTHONPATH=tests $(BIN)/python -m gpu --device $(DEVICE) --size $(SIZE) $(PIECES)

gpu-rehearsal:  ## a GPU's shapes, types and devices without a GPU, in .venv-cuda with PyTorch for CUDA (gigabytes)
	@test -x .venv-cuda/bin/python || $(PYTHON) -m venv .venv-cuda
	.venv-cuda/bin/python -m pip install --quiet '$(subst ==,===,$(TORCH))'
	.venv-cuda/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@.venv-cuda/bin/pytest tests/gpu/test_fake_device.py

parity: $(READY_TEST) $(PEERS)/ready  ## compute the Hugging Face port's numbers anew, and compare with them
	@$(PEERS)/bin/python tests/pretrained/parity/make_vectors.py
	@$(PEERS)/bin/python tests/pretrained/parity/make_folders.py
	@$(PEERS)/bin/python tests/paper/parity/make_later.py
	@$(BIN)/pytest tests/pretrained/test_parity.py tests/pretrained/test_folders.py tests/paper/test_later_attention.py
	@rm -rf build/parity
	@$(BIN)/python tests/pretrained/test_folders.py build/parity
	@$(PEERS)/bin/python tests/pretrained/parity/make_folders.py build/parity/written

clean:  ## remove what was installed and built
	rm -rf $(VENV) $(PEERS) *.egg-info build .pytest_cache .ruff_cache .mypy_cache .hypothesis
