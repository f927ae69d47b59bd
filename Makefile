# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= $(shell scripts/python)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.PHONY: help setup dev system libvirt run run-vm clean-run test test-all test-v2 check fix bench wheel

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# What runs podfit; what tests and checks need is added on top, so that neither is installed again for the other.
$(BIN)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[cri]"
	@touch $@

$(BIN)/.dev-ready: $(BIN)/.ready
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[cri,etcd,dev]"
	@touch $@

setup: $(BIN)/.ready ## Make the virtual environment that podfit runs in

dev: $(BIN)/.dev-ready ## Add what tests and checks need

system: ## Install the system packages the tests use (when root; else tests skip)
	@scripts/system-packages

run: setup ## Run everything on this machine, with a demo to watch
	@$(BIN)/podfit demo --data-dir .run

run-vm: setup libvirt ## Run everything with VMs, and one VM pod to try
	@scripts/run-vm $(BIN) .run-vm

clean-run: ## Remove what `make run` and `make run-vm` left: data directories, and pods and VMs that still run
	@for dir in .run .run-vm; do test ! -d $$dir || test ! -x $(BIN)/podfit || $(BIN)/podfit down --data-dir $$dir; done
	rm -rf .run .run-vm

libvirt: setup system ## Add the Python binding of libvirt (where its headers are; else VM tests skip)
	@scripts/libvirt-python $(BIN)

test: dev system libvirt ## Run the test suite
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 1 -m "not slow"

test-all: dev system libvirt ## Run the test suite and the slow campaigns
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 1

test-v2: dev system ## Run the runtime suite on a cgroup v2 kernel in QEMU
	$(BIN)/python -m pytest tests/e2e/test_cgroup_v2_guest.py -rs

check: dev ## Lint, formats, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: dev ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev ## Measure; prints the tables of docs/performance.md
	$(BIN)/python -m bench

wheel: setup ## Build the wheel into dist/
	$(BIN)/pip wheel -q --no-deps -w dist .
