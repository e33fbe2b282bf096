# The commands of the repository. `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCHMARKS := decide orders balance period reactor observe requirements charge storage limits api approval groups policies probe bus simulator kernel agents conformance pages utility
# Debian packages that tests use, each with a file of it.
PACKAGES := zsh:/usr/bin/zsh mariadb-server:/usr/bin/mariadb-install-db \
	gcc:/usr/bin/gcc pkg-config:/usr/bin/pkg-config libpython3-dev:/usr/include/python3*/Python.h \
	libvirt-dev:/usr/include/libvirt/libvirt.h openssh-server:/usr/sbin/sshd \
	haproxy:/usr/sbin/haproxy nginx-light:/usr/sbin/nginx

# Tests start hundreds of programs. Without their compiled modules each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo check check-beside test pytest compile test-real test-xen pictures deb client packages libvirt soak bench clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## the virtual environment in .venv, with all that development needs

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "merkat needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast,mysql,simulator,cluster,parquet,dev]'
	@touch $@

demo: venv  ## a minute of a cloud that divides itself by price; Ctrl-C ends it
	@# So small a cloud is decided sooner than its code would be compiled.
	@# A group of its own in the terminal: Ctrl-C ends the demo, and make sees it end well.
	@set -m 2>/dev/null; NUMBA_DISABLE_JIT=1 $(BIN)/merkatd demo

check: venv  ## layers, types, lint, names and sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.layout

test: packages libvirt  ## everything; Debian packages that it lacks are installed first
	@# The compiler and the collection of tests use one core, so the checks run beside them.
	@$(MAKE) --no-print-directory --jobs=2 pytest check-beside

pytest: compile
	@# More than there are cores: many tests wait for processes and clocks.
	env -u MAKEFLAGS $(BIN)/python -m pytest --processes $$(($$(nproc) * 5 / 2))

check-beside:
	@# The output comes in one piece, between the lines of the tests.
	@output=$$($(MAKE) --no-print-directory check 2>&1); status=$$?; printf '\n%s\n' "$$output"; exit $$status

compile: venv  ## machine code of the strategies, beside their sources; with gcc and python3-dev
	@$(BIN)/python packaging/compile_functions.py \
	|| printf '\n*** LEFT OUT: machine code ahead of time; numba compiles at run time ***\n\n' >&2

packages:
	@missing=$$(for pair in $(PACKAGES); do ls $${pair#*:} >/dev/null 2>&1 || printf '%s ' $${pair%:*}; done); \
	test -n "$$missing" || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=env; else as='sudo -n env'; fi; \
	{ $$as apt-get -qq update && $$as DEBIAN_FRONTEND=noninteractive \
	  sh packaging/without_services.sh apt-get -qq install -y --no-install-recommends $$missing; } >/dev/null 2>&1 \
	|| printf '\n*** LEFT OUT: the tests that need %s, which could not be installed ***\n\n' "$$missing" >&2

libvirt: venv packages
	@$(BIN)/python -c 'import libvirt' 2>/dev/null \
	|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[kvm]' >/dev/null 2>&1 \
	|| printf '\n*** LEFT OUT: the tests of libvirt, whose Python module could not be built ***\n\n' >&2

test-real: venv  ## real hosts, real guests: root on Debian 12; installs what it lacks
	$(BIN)/python -m tests.real

test-xen: venv  ## a real Xen under software emulation: root on Debian 12; installs what it lacks
	$(BIN)/python -m tests.xen

pictures: venv  ## the pictures of the pages in docs/, from a demo in Chromium
	$(BIN)/python -m tests.real.web.pictures

deb: venv  ## the Debian package, in dist/; on Debian 12 with libvirt-dev, pkg-config, gcc, python3-dev
	packaging/build-deb $(BIN)/python

client: venv  ## the tenants' command merkat as a wheel and as a Debian package, in dist/
	packaging/build-client $(BIN)/python

soak: venv  ## the faults by the hundred, and all tests in their whole length
	MERKAT_SOAK=$${MERKAT_SOAK:-500} $(BIN)/python -m pytest

bench: venv  ## the figures, each beside its limit; exits 1 where one is passed
	@status=0; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/bench_$$name.py || status=1; done; exit $$status

clean:  ## what the commands above made
	rm -rf $(VENV) build dist merkatd/placement/base/machine_code_* *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
