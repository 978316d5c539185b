#!/usr/bin/env bash
# Every check, cheapest first. Stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is kept for compiling again doubles what a build takes, and is of no use to one from the
# beginning.
export CARGO_INCREMENTAL=0
# A linker that finds no room says "Bus error".
needed=8
free=$(df --output=avail -B1G . | tail -1)
if [ ! -d target/debug ] && [ "$free" -lt "$needed" ]; then
    echo "error: ${free// /} GB are free for $PWD/target; what the tests build takes $needed GB" >&2
    exit 1
fi

step() {
    # What goes on beside the others is told of as soon as it has failed.
    if [ -n "$hardware" ] && ! kill -0 "$hardware" 2>/dev/null; then hardware_ended; fi
    printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"
}

# The core's checks take one processor for most of their time: they go on beside the others.
set -m
hardware=
hardware_ended() {
    local status=0
    wait "$hardware" || status=$?
    hardware=
    cat target/rtl.log
    [ "$status" = 0 ] || exit "$status"
}
end() { [ -z "$hardware" ] || kill -- "-$hardware" 2>/dev/null || true; }
trap end EXIT

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings
# The command as `make run` builds it.
cargo clippy --package millstream-cli --no-default-features --quiet -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "licences"
(source scripts/python-env.sh && python scripts/licences.py)

step "tests"
scripts/test-tools.sh
source scripts/rtl-tools.sh
(rtl_tools "$PWD" rtl/requirements.txt)
mkdir -p target
scripts/rtl.sh quick >target/rtl.log 2>&1 &
hardware=$!
# Criterion's benchmarks are checked by the lints.
cargo test --workspace --exclude millstream-benches --quiet
export MILLSTREAM=$PWD/target/debug/millstream

step "how exposed the units are"
scripts/exposure.sh

step "what threads share, through its interleavings"
scripts/concurrency.sh

step "the Python package"
PROFILE=dev scripts/python.sh

step "the hardware, which went on meanwhile"
[ -z "$hardware" ] || hardware_ended
scripts/rtl-cards.sh quick

step "the main job, as a new user runs it"
scripts/run.sh

echo
echo "all checks passed"
