# Each target sets up what it needs; `make` alone says what there is.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
RUN := exec env PATH="$(BIN):$$PATH" $(BIN)/python
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md \
	$(shell find crates python -type f -not -name '*.so' -not -name '*.pyc')

.PHONY: help
help: ## print this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: build ## move a real tree across an emulated 10 Gb/s, 100 ms link and check it
	@$(RUN) -m demo $(ARGS)

.PHONY: test
test: build ## every test: pure, lab and faults, in Rust and Python
	@scripts/system.sh --tests
	cargo test --release --locked --workspace
	$(RUN) -m pytest $(ARGS)

.PHONY: lint
lint: build ## formatters, linters and type checks, warnings as errors
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy.stubtest howdah._native

.PHONY: bench bench-link bench-cc bench-peers
bench: bench-link bench-cc bench-peers ## all benches
bench-link: build ## the emulated link against what it must reach
	$(RUN) -m bench.link $(ARGS)
bench-cc: build ## congestion control as programs against what it must reach, beside the LSST paper
	$(RUN) -m bench.cc $(ARGS)
bench-peers: build ## howdah cp beside the file tools of Debian
	@scripts/system.sh --peers
	$(RUN) -m bench.peers $(ARGS)

.PHONY: snapshots
snapshots: build ## accept what the models now do, and draw docs/figures from it
	HOWDAH_SNAPSHOTS=write cargo test --release --locked -p howdah-cc-model --test snapshots
	$(RUN) -m bench.cc_figures

.PHONY: build
build: $(VENV)/.built ## set up everything and build the wheel into .venv

.PHONY: system
system:
	@scripts/system.sh

$(VENV)/.installed: requirements/dev.txt | system
	@scripts/venv.sh $(VENV) $(PYTHON)
	@touch $@

$(VENV)/.built: $(SOURCES) $(VENV)/.installed | system
	@scripts/build.sh $(VENV)
	@touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf $(VENV) target python/howdah/_native*.so
	find . -name __pycache__ -prune -exec rm -rf {} +
