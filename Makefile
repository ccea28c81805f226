# `make hunt` and `make test` need no other command; they include the setup. The other targets are for development.

# Find rustup's cargo even before the next login.
export PATH := $(PATH):$(HOME)/.cargo/bin

PREFIX ?= /usr/local
DESTDIR ?=
# Duration of `make hunt`, and its other options: make hunt DURATION=10s HUNT_ARGS="--deadline 100us".
DURATION ?= 60s
HUNT_ARGS ?=
BINARY := target/release/lathunt
# What `make hunt` builds: docs/decisions/0017-time-to-the-first-report.md.
HUNT := target/quick/lathunt

.PHONY: help setup build hunt test lab lab-all lab-potential bench fuzz mutants torture kills many-runs dist deb test-deb test-fresh check install uninstall

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup:
	@scripts/setup

# What scripts/setup compiles while packages arrive: the same as the target, which then waits for it. A build in another profile
# would go on during the measurement.
build: export LATHUNT_AHEAD := --release --package lathunt --package lathunt-tracer --package lathunt-runtime
hunt: export LATHUNT_AHEAD := --profile quick --package lathunt

build: setup ## Build the release binary (target/release/lathunt)
	cargo build --locked $(LATHUNT_AHEAD)

hunt: setup ## Measure this machine for 60 s under load, explain the worst cases, print a verdict and write a report
	cargo build --locked $(LATHUNT_AHEAD)
	@# Exit codes 2 (deadline exceeded) and 3 (inconclusive) are verdicts, not errors of make.
	$(HUNT) hunt -D $(DURATION) $(HUNT_ARGS) || case $$? in 2 | 3) ;; *) exit 1 ;; esac

test: ## All tests, including those that need root and the PREEMPT_RT lab; lists skipped tests
	@scripts/setup test
	@scripts/test

lab: ## Only the lab tests: the binary on Debian's PREEMPT_RT kernels in QEMU
	@scripts/setup test
	@lab/prepare >/dev/null
	@lab/prepare arm64-6.12 >/dev/null || true # its tests say why they are skipped
	cargo test --locked --package lathunt --test lab -- --include-ignored --show-output

lab-all: ## All lab tests on {x86-64, arm64} x {6.1, 6.12} with PREEMPT_RT; make lab runs one kernel of each architecture
	@scripts/setup test
	@for version in 6.1 6.12; do \
	    export LATHUNT_LAB_KERNELS="amd64-$$version arm64-$$version"; \
	    echo "== the lab on Linux $$version"; \
	    lab/prepare $$LATHUNT_LAB_KERNELS >/dev/null && \
	    cargo test --locked --package lathunt --test lab -- --include-ignored --show-output || exit 1; \
	done

lab-potential: ## Test potential latencies, GPIO and vsock on a kernel with the preemptirq tracepoints, gpio-sim and vsock (built on first use, ten minutes)
	@scripts/setup kernel
	@lab/build-traced-kernel
	LATHUNT_LAB="$$(lab/prepare traced | tail -n 1)" cargo test --locked --package lathunt --features traced-kernel --test lab_potential -- --include-ignored --show-output

mutants: ## Mutation test: weaken 20 lines that lead to a verdict, one at a time; a test must fail for each
	@scripts/mutants

fuzz: ## Coverage-guided fuzzing of decoders and parsers, one minute each (SECONDS=600; TARGET=ctf: only this one)
	@scripts/fuzz $(or $(SECONDS),60) $(TARGET)

kills: ## kill -9 each long-running command 400 times and check that nothing is left; one hour (KILLED=NAME: one command)
	@scripts/setup test
	LATHUNT_KILLS=400 LATHUNT_REQUIRE=1 $(if $(KILLED),LATHUNT_KILLED=$(KILLED)) cargo test --locked --package lathunt --test killed -- --ignored --nocapture --exact kills_at_random_moments_leave_nothing

dist: ## Static binaries and tarballs for x86-64 and aarch64, in target/dist (DIST_ARGS=--twice: check that two builds are identical)
	@scripts/setup dist
	@scripts/dist $(DIST_ARGS)

deb: dist ## Debian packages of the binaries of dist, for amd64 and arm64, in target/dist
	@scripts/deb

test-deb: ## Install, upgrade and purge the packages of make deb in a chroot with Debian 13 (as root; needs debootstrap)
	@scripts/test-deb

test-fresh: ## README's two commands on a fresh Debian 12 and 13, each in a chroot (as root; needs debootstrap; an hour)
	@scripts/test-fresh

many-runs: ## Query 1,000 run files with DuckDB (from PyPI) and check the results: docs/howto/many-runs.md
	@scripts/many-runs

bench: ## Benchmarks: cost and speed, as ratios to comparable tools measured in the same run
	@scripts/setup test
	cargo bench --locked --workspace --no-fail-fast

torture: ## Preempt threads of lathunt-runtime ten million times and compare all registers; 20 minutes
	LATHUNT_TORTURE=10000000 cargo test --release --locked --package lathunt-runtime --test torture

check: ## Checks that must pass before a commit: format, lints, docs, sizes, links, aarch64
	@scripts/setup test
	@scripts/check

# Debian's own cyclictest is not shadowed unless asked: see docs/decisions/0003-install-layout.md.
install: ## Install binary, links, manual pages, and headers and libraries of tracer and runtime (PREFIX, DESTDIR; CYCLICTEST=yes: install the cyclictest replacement in bin; CAPABILITIES=yes: let users measure without root)
	@test -x $(BINARY) -a -e target/release/liblathunt_tracer.so -a -e target/release/liblathunt_runtime.so || { echo "make install: run 'make build' first (as yourself, not as root)" >&2; exit 1; }
	@scripts/install "$(DESTDIR)" "$(PREFIX)" "$(CYCLICTEST)" "$(CAPABILITIES)"

uninstall: ## Remove the installed files
	@scripts/install --remove "$(DESTDIR)" "$(PREFIX)"
