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
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: build ## move a real tree across an emulated 10 Gb/s, 100 ms link and check it
	@$(RUN) -m demo $(ARGS)

.PHONY: test
test: build ## every test: pure, lab and faults, in Rust and Python
	@scripts/system.sh --tests
	RUST_TEST_THREADS=3 cargo test --release --locked --workspace --tests # most wait for a time or for a network
ifdef ARGS
	$(RUN) -m pytest $(ARGS)
else
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest --numprocesses 2 --dist loadfile tests/pure # a core for each process
	$(RUN) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m beside tests/lab
	$(RUN) -m pytest -m 'not beside' tests/lab
endif

.PHONY: lint lint-rust lint-python
lint: build ## formatters, linters and type checks, warnings as errors
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	rustfmt --check --edition 2024 crates/cc/controls/*/model.rs # cargo fmt does not see what a build script includes
	cargo clippy --release --locked --workspace --all-targets -- -D warnings

lint-python:
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(RUN) -m bench.standing --check
	$(RUN) -m mypy
	$(RUN) -m mypy.stubtest howdah._native

BENCHES := bench-link bench-cc bench-peers bench-archive bench-select bench-dynamics bench-profile bench-models bench-bus \
	bench-leases bench-control bench-agents bench-dumbbell bench-lsst bench-hpdc17 bench-ops bench-power bench-faults bench-trust bench-filters bench-between bench-million bench-small bench-blocked bench-first bench-second bench-why bench-before bench-fuzz
.PHONY: bench bench-shared bench-cost $(BENCHES)
bench: $(BENCHES) ## all benches
bench-link: build ## the emulated link against what it must reach
	$(RUN) -m bench.link $(ARGS)
bench-shared: build ## who is there, of recordings: ARGS=FOLDER, against what it must reach
	$(RUN) -m bench.shared $(ARGS)
bench-dumbbell: build ## labs of many hosts against what they must reach, routers beside a pair
	$(RUN) -m bench.dumbbell $(ARGS)
bench-cc: build ## congestion control as programs against what it must reach, beside the LSST paper
	$(RUN) -m bench.cc $(ARGS)
bench-first: build ## the first two seconds of a connection with and without a memory of its path (ARGS="--rtt 100 --rounds 3")
	$(RUN) -m bench.first $(ARGS)
bench-second: build ## copies to a host after a first one, with its login and the memory of its path (ARGS="--rtt 183 --copies 3")
	$(RUN) -m bench.second $(ARGS)
bench-before: build ## competing traffic before the first byte, on paths drawn by a seed, some 12 minutes (ARGS="--paths 2")
	@scripts/system.sh --tests
	$(RUN) -m bench.before $(ARGS)
bench-select: build ## choice and prediction at round trips left out of synthetic sweeps
	$(RUN) -m bench.select $(ARGS)
bench-models: build ## throughput models beside public measurements
	$(RUN) -m bench.models $(ARGS)
bench-hpdc17: build ## the HPDC 2017 measurements in the lab, some two hours, and what the papers say of them
	$(RUN) -m bench.hpdc17 $(ARGS)
bench-power: build ## power cuts at 2,000 places of a disk's log, against what a copy guarantees
	$(RUN) -m bench.power
bench-fuzz: build ## 10^8 inputs for each fuzz target, many hours; it goes on where it was stopped (ARGS="units link")
	$(RUN) -m bench.fuzz $(ARGS)
bench-faults: build ## 1,000 copies to which things happen, by seed, some 60 minutes (ARGS="--only SEED")
	$(RUN) -m bench.faults $(ARGS)
bench-cost: build ## what durability and digests cost, beside an earlier build (ARGS="--before FOLDER")
	$(RUN) -m bench.cost $(ARGS)
bench-between: build ## a copy between two far hosts from a third behind 1 Mb/s, beside a direct one (ARGS="--bytes 500000000")
	$(RUN) -m bench.between $(ARGS)
bench-blocked: build ## copies through firewalls, a jump host and ssh beside scp, and first copies, some 20 minutes (ARGS="--only first")
	@scripts/system.sh --tests
	$(RUN) -m bench.blocked $(ARGS)
bench-million: build ## a million files beside rsync: memory, nothing to do, --delete, some 40 minutes (ARGS="--files 20000")
	@scripts/system.sh --tests
	$(RUN) -m bench.million $(ARGS)
bench-small: build ## a million files of 1 KB over 10 Gb/s and 100 ms beside other file tools, some 20 minutes (ARGS="--files 20000 --rounds 1")
	@scripts/system.sh --peers
	$(RUN) -m bench.small $(ARGS)
bench-why: build ## bottlenecks made on purpose, and whether copies name them, some 30 minutes (ARGS="--only loss")
	@scripts/system.sh --tests
	$(RUN) -m bench.why $(ARGS)
bench-filters: build ## 10,000 random trees and filter rules, copied by howdah and by rsync
	@scripts/system.sh --tests
	$(RUN) -m bench.filters
bench-trust: build ## what a kill sends again, strangers at the data port, all guarantees at speed (ARGS="--only resent")
	@scripts/system.sh --trust
	$(RUN) -m bench.trust $(ARGS)
bench-ops: build ## the OPS paper's experiments on shared paths, some two hours (ARGS="--only table2", "--length whole")
	@scripts/system.sh --ops
	$(RUN) -m bench.ops $(ARGS)
.PHONY: bench-ops-tables
bench-ops-tables: build ## the OPS paper's Tables 2 and 3 beside ours, from the record
	$(RUN) -m bench.ops.tables
bench-leases: build ## shares as leases under faults, in simulations, and mistakes made on purpose found
	$(RUN) -m bench.leases $(ARGS)
bench-control: build ## a controller of 50 agents and 1,000 flows at 100 changes a second, in one process and over NATS
	$(RUN) -m bench.control $(ARGS)
bench-agents: build ## 50 agents in 50 network namespaces over NATS, with real shares, and a controller killed
	$(RUN) -m bench.agents $(ARGS)
bench-lsst: build ## the LSST paper's experiment: PostgreSQL, files and images under a controller (ARGS="--only figure")
	@scripts/system.sh --tests
	$(RUN) -m bench.lsst $(ARGS)
.PHONY: bench-lsst-tables
bench-lsst-tables: build ## the LSST paper's Tables 1 and 2 beside ours, from the records
	$(RUN) -m bench.lsst.tables
bench-peers: build ## howdah cp beside the file tools of Debian
	@scripts/system.sh --peers
	$(RUN) -m bench.peers $(ARGS)
bench-archive: build ## 30,000 runs in the archive, read and made into a profile
	$(RUN) -m bench.archive $(ARGS)
bench-profile: build ## transition RTTs of synthetic profiles found again
	$(RUN) -m bench.profile $(ARGS)
bench-bus: build ## the bus in one process and over NATS: changes, takeovers and what they cost
	$(RUN) -m bench.bus $(ARGS)
bench-dynamics: build ## Lyapunov exponents and verdicts on systems with known answers
	$(RUN) -m bench.dynamics $(ARGS)

.PHONY: fuzz
fuzz: ## each fuzz target under libFuzzer, a minute each (ARGS="--seconds 3600 frames records", --keep)
	@scripts/fuzz.sh $(ARGS)

.PHONY: far-twice
far-twice: ## build the far end that copies bring in two folders, and compare them
	@scripts/far_twice.sh

.PHONY: package
package: $(VENV)/.installed ## the wheel, the far end and the Debian package in target/package, tried in bare roots (as root)
	@scripts/system.sh --package
	@scripts/package.sh $(VENV)

.PHONY: package-here
package-here: build ## the wheel in target/package, tried in a bare root of this host's own packages (as root)
	@scripts/system.sh --tests
	@scripts/package.sh $(VENV) --host

.PHONY: sbom
sbom: build ## the bill of materials, CycloneDX with the digest of each component, in target/howdah.cdx.json
	@$(RUN) scripts/sbom.py target/howdah.cdx.json

.PHONY: audit
audit: ## cargo-deny on deny.toml, with advisories, and pip-audit: needs the network
	@scripts/audit.sh

.PHONY: records
records: build ## write in docs/results.md what has changed since each kept record, and which fuzzed inputs still count
	@$(BIN)/python -m bench.fuzz --page
	$(RUN) -m bench.standing

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
	rm -rf $(VENV) target python/howdah/_native*.so python/howdah/remote/brought
	find . -name __pycache__ -prune -exec rm -rf {} +
