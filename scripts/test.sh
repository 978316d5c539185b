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
    # A failure of the lane beside ends the run at the next step.
    if [ -n "$lane" ] && ! kill -0 "$lane" 2>/dev/null; then lane_ended; fi
    printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"
}

# Two lanes run the tests: the hardware's checks take one processor for most of their time.
set -m
lane=
lane_ended() {
    local status=0
    wait "$lane" || status=$?
    lane=
    cat target/lane.log
    [ "$status" = 0 ] || exit "$status"
}
end() { [ -z "$lane" ] || kill -- "-$lane" 2>/dev/null || true; }
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

step "what the tests need"
scripts/test-tools.sh
source scripts/rtl-tools.sh
(rtl_tools "$PWD" rtl/requirements.txt)

step "building the tests"
# Criterion's benchmarks are checked by the lints.
tests=(cargo test --workspace --exclude millstream-benches --quiet)
"${tests[@]}" --no-run
# The scripts below use what was built instead of building it again with other features.
debug=$PWD/target/debug
export MILLSTREAM=$debug/millstream MAKE_TRACES=$debug/make-traces
export MILLSTREAM_HW=$debug/deps/libmillstream_hw.so

beside() {
    local part
    for part in "scripts/rtl.sh quick" "scripts/rtl-cards.sh quick" scripts/concurrency.sh; do
        printf '\n== beside: %s (%d s so far)\n' "$part" "$SECONDS"
        # shellcheck disable=SC2086 # A command and its argument.
        $part || return
    done
}
beside >target/lane.log 2>&1 &
lane=$!

step "tests"
"${tests[@]}"

step "how exposed the units are"
scripts/exposure.sh

step "the Python package"
PROFILE=dev scripts/python.sh

step "the main job, as a new user runs it"
scripts/run.sh

step "the hardware and what threads share, which went on meanwhile"
[ -z "$lane" ] || lane_ended

echo
echo "all checks passed"
