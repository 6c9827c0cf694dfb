# One command each: demo, test, test-all, explore, lint, docs, bench, wheels, clean. Needs Python 3.11 with venv, g++, and a package index for pip.

PYTHON ?= python3.11
# Another Python, and another TensorFlow, on which `make test-all` runs a part of the tests; empty for none.
OTHER_PYTHON ?= $(shell for each in python3.13 $(HOME)/.pyenv/versions/3.13*/bin/python3.13; do \
	$$each -c '' 2>/dev/null && { echo $$each; break; }; done)
OTHER_TENSORFLOW ?= 2.20
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find cc -name '*.cc' -o -name '*.h' -o -name '*.lds')
CHECKED := recgraph recgraph_command.py recgraph_doctor.py recgraph_launch.py models data benchmarks examples tests tools setup.py
# An editable install: Python is taken from the tree, the library is compiled again where cc/ has changed.
INSTALL := -m pip install --quiet --no-build-isolation --editable
# What this shell's build has to say goes to where make's own lines go, though pip shows nothing of a build.
SHOWN := RECGRAPH_PROGRESS=/proc/$$$$/fd/1

.PHONY: demo test test-all explore lint docs bench wheels clean

# The main job, end to end: a generated treebank, a TreeLSTM trained on it, its evaluation, pictures in demo/.
demo: $(VENV)/.installed
	$(BIN)/recgraph demo --out demo

# Ten minutes: style, types, and the tests that catch the most per second.
test: lint
	$(BIN)/python -m pytest -n 2 --quick

# What `make test` leaves out, then a part on another Python and another TensorFlow. UNTIL (seconds since 1970) ends it:
# the first ones leave some minutes to the last ones, and each says what it did not run.
UNTIL ?=
until = $(if $(UNTIL),--until=$$(($(UNTIL) - 60 * $(1))))
test-all: test $(VENV)/.installed-docs $(if $(OTHER_PYTHON),.venv-python/.installed) $(if $(OTHER_TENSORFLOW),.venv-tensorflow/.installed)
	$(BIN)/python -m pytest -n 2 --rest $(call until,12)
	$(if $(OTHER_PYTHON),.venv-python/bin/python -m pytest -n 2 --part=2/3 -m "not slow" $(call until,5) $(PYTHONS))
	$(if $(OTHER_TENSORFLOW),.venv-tensorflow/bin/python -m pytest -n 2 --part=3/3 -m "not slow" $(call until,0) $(TENSORFLOWS))

# Everything random with fresh seeds.
MINUTES ?= 60
explore: $(VENV)/.installed-test
	$(BIN)/python -m tests.explore --minutes $(MINUTES)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check $(wildcard $(CHECKED))
	$(BIN)/ruff format --check $(wildcard $(CHECKED))
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	$(BIN)/python tools/documentation.py --out site

bench: $(VENV)/.installed-bench
	$(BIN)/recgraph bench

clean:
	rm -rf build dist demo site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf recgraph/native/*.so recgraph/native/tensorflow_* .venv-*
	rm -f $(VENV)/.installed*
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

wheels:
	$(PYTHON) tools/wheels.py

$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

# The build requirements go in first and into the same environment, so that TensorFlow is unpacked only once.
$(VENV)/.build-tools: pyproject.toml $(VENV)/.created
	@echo 'installing TensorFlow and the build tools into $(VENV)'
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build-requires.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/build-requires.txt
	touch $@

$(VENV)/.installed: $(VENV)/.build-tools setup.py $(NATIVE)
	@echo 'compiling for the TensorFlow in $(VENV)'
	$(SHOWN) $(BIN)/python $(INSTALL) .
	touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(BIN)/python $(INSTALL) '.[$*]'
	touch $@

# What depends on TensorFlow's C++ and on what it does to graphs; and on the interpreter's bytecode, frames and messages.
BOTH := $(addprefix tests/, test_corpus.py coexec/test_loops.py coexec/test_random_programs.py \
	core/test_random_trees.py core/test_python_functions.py core/test_labels.py test_native_loader.py)
TENSORFLOWS := $(BOTH) tests/batch/test_ways.py tests/speculate/test_function.py
# Tests of speculation that take long and depend little on the interpreter.
LONGER := $(addprefix %/test_, injection.py random_programs.py optimizations.py zoo.py changes_between_steps.py parts.py outlining.py ending.py)
PYTHONS := $(sort $(BOTH) tests/cpython $(filter-out $(LONGER),$(wildcard tests/speculate/test_*.py)))

.venv-python/.installed: PYTHON_THERE = $(OTHER_PYTHON)
.venv-python/.installed: TENSORFLOW_THERE = tensorflow>=2.20,<2.22
.venv-tensorflow/.installed: PYTHON_THERE = $(PYTHON)
.venv-tensorflow/.installed: TENSORFLOW_THERE = tensorflow==$(OTHER_TENSORFLOW).*

.venv-%/.installed: setup.py pyproject.toml $(NATIVE)
	$(PYTHON_THERE) -m venv .venv-$*
	@echo 'installing and compiling for $(TENSORFLOW_THERE) on $(PYTHON_THERE)'
	.venv-$*/bin/python -m pip install --quiet 'setuptools>=77' ninja '$(TENSORFLOW_THERE)'
	$(SHOWN) .venv-$*/bin/python $(INSTALL) '.[test]'
	touch $@
