# One command each: demo, test, lint, bench, clean. Needs Python 3.11 with venv, g++, and a package index for pip.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find cc -name '*.cc' -o -name '*.h' -o -name '*.lds')
CHECKED := recgraph recgraph_command.py recgraph_doctor.py models data benchmarks examples tests setup.py
# An editable install: Python is taken from the tree, the library is compiled again where cc/ has changed.
INSTALL := $(BIN)/python -m pip install --no-build-isolation --editable

.PHONY: demo test lint bench clean

# The main job, end to end: a generated treebank, a TreeLSTM trained on it, its evaluation, pictures in demo/.
demo: $(VENV)/.installed
	$(BIN)/recgraph demo --out demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.installed-test
	$(BIN)/ruff check $(wildcard $(CHECKED))
	$(BIN)/ruff format --check $(wildcard $(CHECKED))
	$(BIN)/mypy

bench: $(VENV)/.installed-bench
	$(BIN)/recgraph bench

clean:
	rm -rf build dist demo *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f recgraph/native/*.so recgraph/native/_build_info.py $(VENV)/.installed*
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

# The build requirements go in first and into the same environment, so that TensorFlow is unpacked only once.
$(VENV)/.build-tools: pyproject.toml $(VENV)/.created
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build-requires.txt
	$(BIN)/python -m pip install --requirement $(VENV)/build-requires.txt
	touch $@

$(VENV)/.installed: $(VENV)/.build-tools setup.py $(NATIVE)
	$(INSTALL) .
	touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(INSTALL) '.[$*]'
	touch $@
