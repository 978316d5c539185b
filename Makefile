# make run      schedule recorded packets, print the result of each stream, write a report
# make check    quick checks: format, lints and unit tests of changed crates
# make test     every check: format, lints, licences, documentation, tests, conformance
# make bench    cost of a decision, and a run of ten million packets
# make bench-media  the media server and its peers, MediaMTX, live555 and GStreamer, beside a loaded
#               web server; two hours, as root; OPTIONS="--runs 1 ..." for less
# make figures  regenerate the tables and figures of papers/; PAPER=hilq makes those of one paper
# make paper-coprocessor  the Co-processor paper with the live media server beside a loaded web
#               server; an hour, as root
# make paper-router  the Router paper with the live router, between network namespaces; fifteen
#               minutes, as root
# make book     the book as web pages, target/book
# make dist     the release in dist/: Debian package, tarball, image, wheel, crates; as root
# make test-dist  installs it in fresh roots of two Debian releases and runs it; as root
# make fuzz     five minutes of each fuzz target; counts the inputs that pass its first parser
# make soak     advisories, all documentation, ThreadSanitizer, the systemd units, all Pythons,
#               Prometheus, the qdisc in a Linux kernel, the pages in Chromium, random lives of
#               the engine, a part of the mutants, two hours of the router, DPDK beside
#               rte_sched, every player with every codec, a minute of three players, then
#               `make fuzz` (as root)
# make rtl-report area and clock of the hardware by synthesis, place and route, five seeds each;
#               hours, or nothing for designs whose netlist is unchanged
# make rtl-full all hardware configurations and proofs; compares ten million decisions with the
#               engine
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: run check test bench bench-media figures paper-coprocessor paper-router book dist test-dist fuzz soak rtl-full rtl-report traces clean

# Installs missing build dependencies and sets the linker's search path.
SETUP := source scripts/setup.sh

run:
	@$(SETUP) run; scripts/run.sh

check:
	@$(SETUP); scripts/check.sh $(BASE)

test:
	@$(SETUP); scripts/test.sh

bench:
	@$(SETUP); scripts/bench.sh

bench-media:
	@$(SETUP); scripts/bench-media.sh $(OPTIONS)

figures:
	@$(SETUP); cargo run --release --quiet -p millstream-papers -- $(if $(PAPER),--only $(PAPER))

paper-coprocessor:
	@$(SETUP); scripts/paper-coprocessor.sh

paper-router:
	@$(SETUP); scripts/paper-router.sh

book:
	@$(SETUP); cargo run --release --quiet -p millstream-papers -- --redraw; \
		source scripts/python-env.sh; mdbook build docs

dist:
	@$(SETUP); scripts/dist.sh

test-dist:
	@$(SETUP); scripts/test-dist.sh

fuzz:
	@$(SETUP); scripts/fuzz.sh

rtl-full:
	@$(SETUP); scripts/rtl.sh long; scripts/rtl-cards.sh long

rtl-report:
	@$(SETUP); scripts/rtl-report.sh

soak:
	@$(SETUP); scripts/deny.sh; scripts/concurrency.sh --stress; scripts/unit.sh; \
		RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps; \
		cargo clippy --quiet -p millstream-cli --no-default-features -- -D warnings; \
		MILLSTREAM_SCALE=4 scripts/python.sh --long; scripts/python-versions.sh target/wheels/python/*.whl; \
		scripts/monitoring.sh; scripts/kernel.sh; MILLSTREAM=target/debug/millstream scripts/accessibility.py --all; \
		MILLSTREAM_ANNEAL=100 \
			cargo test --quiet --release -p millstream-sim --test sim -- \
			--include-ignored promises fabric_bounds; \
		scripts/promises.py; \
		MILLSTREAM_SCALE=30 cargo test --quiet --release -p millstream --test engine; \
		MILLSTREAM_LIVES=20000 cargo test --quiet -p millstream --test engine random_lives_of; \
		PROPTEST_CASES=20000 cargo test --quiet --release -p millstream --lib bounds; \
		MILLSTREAM_CASES=30000 cargo test --quiet --release -p millstream-bpf --test equal; \
		cargo test --quiet --release -p millstream-papers --test check -- --ignored; \
		for core in engine router media; do scripts/mutants.sh $$core; done; \
		for io in packet xdp; do SOAK_IO=$$io scripts/soak.sh $(SOAK_SECONDS); done; \
		cargo test --quiet -p millstream-cli --test route autorate -- --ignored; \
		scripts/test-tools.sh integrations; scripts/c-library.sh "$$PWD/target/c"; \
		integrations/dpdk/run.sh "$$PWD/target/c"; \
		scripts/test-tools.sh players; MILLSTREAM=target/debug/millstream scripts/players.py; \
		cargo test --quiet -p millstream-cli --test media -- --ignored; \
		scripts/fuzz.sh

traces:
	@$(SETUP); cargo run --release --quiet -p millstream-reference --bin make-traces

clean:
	cargo clean
	rm -rf out
