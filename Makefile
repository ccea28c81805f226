# Two commands do everything, set-up included: `make hunt` and `make test`. The rest is for those who change lathunt.

# rustup's cargo is found also before the first new login.
export PATH := $(PATH):$(HOME)/.cargo/bin

PREFIX ?= /usr/local
DESTDIR ?=
# How long `make hunt` measures, and anything else for it: make hunt DURATION=10s HUNT_ARGS="--deadline 100us".
DURATION ?= 60s
HUNT_ARGS ?=
BINARY := target/release/lathunt

.PHONY: help setup build hunt test lab lab-potential bench fuzz mutants torture kills many-runs dist deb check install uninstall

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup:
	@scripts/setup

build: setup ## Build the release binary (target/release/lathunt)
	cargo build --release --locked --package lathunt --package lathunt-tracer --package lathunt-runtime

hunt: build ## Measure this machine for 60 s under load, explain the worst, give a verdict and a report
	@# 2 (deadline exceeded) and 3 (inconclusive) are verdicts, which are printed; make would call them errors.
	$(BINARY) hunt -D $(DURATION) $(HUNT_ARGS) || case $$? in 2 | 3) ;; *) exit 1 ;; esac

test: ## All tests, also those that need root and the PREEMPT_RT lab; says what was skipped
	@scripts/setup test
	@scripts/test

lab: ## Only the lab: our binary under Debian's PREEMPT_RT kernel in QEMU
	@scripts/setup test
	@lab/prepare >/dev/null
	@lab/prepare arm64-6.12 >/dev/null || true # its tests say why they are skipped
	cargo test --locked --package lathunt --test lab -- --include-ignored --show-output

lab-potential: ## Potential latencies on a kernel with their tracepoints, which is built first: ten minutes, once
	@scripts/setup kernel
	@lab/build-traced-kernel
	LATHUNT_LAB="$$(lab/prepare traced | tail -n 1)" cargo test --locked --package lathunt --features traced-kernel --test lab_potential -- --include-ignored --show-output

mutants: ## Weaken 20 lines that lead to a verdict, one after the other: does a test fail?
	@scripts/mutants

fuzz: ## Feed decoders and parsers what coverage-guided mutation makes, a minute each (SECONDS=600; TARGET=ctf: one of them)
	@scripts/fuzz $(or $(SECONDS),60) $(TARGET)

kills: ## kill -9 each long-running command 400 times: nothing is left; an hour (KILLED=NAME: one command)
	@scripts/setup test
	LATHUNT_KILLS=400 LATHUNT_REQUIRE=1 $(if $(KILLED),LATHUNT_KILLED=$(KILLED)) cargo test --locked --package lathunt --test killed -- --ignored --nocapture --exact kills_at_random_moments_leave_nothing

dist: ## Static binaries and tarballs for x86-64 and aarch64, in target/dist (DIST_ARGS=--twice: proves that two builds are equal)
	@scripts/dist $(DIST_ARGS)

deb: dist ## Debian packages of these binaries, for amd64 and arm64, in target/dist
	@scripts/deb

many-runs: ## Ask 1,000 run files with DuckDB (from PyPI) and check the answers: docs/howto/many-runs.md
	@scripts/many-runs

bench: ## Cost and speed, as ratios to the peers measured in the same run
	@scripts/setup test
	cargo bench --locked --workspace

torture: ## Preempt threads of lathunt-runtime ten million times and compare all registers: 20 minutes
	LATHUNT_TORTURE=10000000 cargo test --release --locked --package lathunt-runtime --test torture

check: ## What must be clean before a commit: format, lints, docs, sizes, links, aarch64
	@scripts/setup test
	@scripts/check

# Debian's own cyclictest is not shadowed unless asked: see docs/decisions/0003-install-layout.md.
install: ## Install binary, links, manual pages, and headers and libraries of tracer and runtime (PREFIX, DESTDIR; CYCLICTEST=yes puts the drop-in into bin, CAPABILITIES=yes lets users measure without root)
	@test -x $(BINARY) -a -e target/release/liblathunt_tracer.so -a -e target/release/liblathunt_runtime.so || { echo "make install: run 'make build' first (as yourself, not as root)" >&2; exit 1; }
	@scripts/install "$(DESTDIR)" "$(PREFIX)" "$(CYCLICTEST)" "$(CAPABILITIES)"

uninstall: ## Remove what install put there
	@scripts/install --remove "$(DESTDIR)" "$(PREFIX)"
