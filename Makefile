# The commands of the repository. `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCHMARKS := decide balance period
# Debian packages that tests use, each with a program of its name.
PACKAGES := zsh

.PHONY: help venv demo check test packages soak bench clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## the virtual environment in .venv, with all that development needs

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "merkat needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast,dev]'
	@touch $@

demo: venv  ## a minute of a cloud that divides itself by price; Ctrl-C ends it
	@# So small a cloud is decided sooner than its code would be compiled.
	@# A group of its own in the terminal: Ctrl-C ends the demo, and make sees it end well.
	@set -m 2>/dev/null; NUMBA_DISABLE_JIT=1 $(BIN)/merkatd demo

check: venv  ## layers, types and lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check packages  ## everything; Debian packages that it lacks are installed first
	$(BIN)/python -m pytest

packages:
	@missing=$$(for name in $(PACKAGES); do command -v $$name >/dev/null || printf '%s ' $$name; done); \
	test -n "$$missing" || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=env; else as='sudo -n env'; fi; \
	{ $$as apt-get -qq update && $$as DEBIAN_FRONTEND=noninteractive \
	  apt-get -qq install -y --no-install-recommends $$missing; } >/dev/null 2>&1 \
	|| printf '\n*** LEFT OUT: the tests that need %s, which could not be installed ***\n\n' "$$missing" >&2

soak: venv  ## the faults by the hundred
	MERKAT_SOAK=$${MERKAT_SOAK:-500} $(BIN)/python -m pytest tests/daemon/test_kill.py tests/daemon/test_faults.py

bench: venv  ## the figures, each beside its limit; exits 1 where one is passed
	@status=0; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || status=1; done; exit $$status

clean:  ## what the commands above made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
