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
    # A failure of a lane ends the run at the next step.
    local name
    for name in "${!lanes[@]}"; do
        kill -0 "${lanes[$name]}" 2>/dev/null || join_lane "$name"
    done
    printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"
}

# Lanes run beside the steps: many tests wait for clocks and networks, and the hardware's checks use
# one processor for most of their time.
set -m
declare -A lanes=()
# start_lane NAME COMMAND...: its output goes to a file, and is shown at the lane's end.
start_lane() {
    mkdir -p target
    "${@:2}" >"target/lane-$1.log" 2>&1 &
    lanes[$1]=$!
}
join_lane() {
    local status=0
    [ -n "${lanes[$1]:-}" ] || return 0
    wait "${lanes[$1]}" || status=$?
    unset "lanes[$1]"
    cat "target/lane-$1.log"
    [ "$status" = 0 ] || exit "$status"
}
end() {
    local pid
    for pid in "${lanes[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
}
trap end EXIT

downloads() {
    scripts/test-tools.sh
    (
        source scripts/rtl-tools.sh
        rtl_tools "$PWD" rtl/requirements.txt rtl/cards/requirements.txt
    )
    source scripts/python-env.sh
    python scripts/licences.py
}
start_lane downloads downloads

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings
# The command as `make run` builds it.
cargo clippy --package millstream-cli --no-default-features --quiet -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "licences, and what the tests need"
join_lane downloads

step "building the tests"
# Criterion's benchmarks are checked by the lints.
tests=(cargo test --workspace --exclude millstream-benches --quiet)
"${tests[@]}" --no-run
# The scripts below use what was built instead of building it again with other features.
debug=$PWD/target/debug
export MILLSTREAM=$debug/millstream MAKE_TRACES=$debug/make-traces
export MILLSTREAM_HW=$debug/deps/libmillstream_hw.so

parts() {
    local part
    for part in "$@"; do
        printf '\n== beside: %s (%d s so far)\n' "$part" "$SECONDS"
        # shellcheck disable=SC2086 # A command and its argument.
        $part
    done
    printf '\n== beside: done (%d s so far)\n' "$SECONDS"
}
start_lane hardware parts "scripts/rtl.sh quick" "scripts/rtl-cards.sh quick"
PROFILE=dev start_lane python parts scripts/python.sh scripts/concurrency.sh

step "tests"
"${tests[@]}"

step "how exposed the units are"
scripts/exposure.sh

step "the main job, as a new user runs it"
scripts/run.sh

step "the Python package, the hardware and what threads share, which went on meanwhile"
join_lane python
join_lane hardware

echo
echo "all checks passed"
