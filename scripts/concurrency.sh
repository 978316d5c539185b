#!/usr/bin/env bash
# Runs the loom models of the state that threads share. --stress also runs the tests on real threads
# under ThreadSanitizer (needs a nightly toolchain with rust-src).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
RUSTFLAGS="--cfg loom --cfg crossbeam_loom" CARGO_TARGET_DIR=$target/loom \
    cargo test --release --quiet -p millstream-pipeline --lib
if [[ ${1:-} == --stress ]]; then
    echo "== ThreadSanitizer"
    RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=$target/thread-sanitizer \
        MILLSTREAM_STRESS_PACKETS=${MILLSTREAM_STRESS_PACKETS:-2000000} \
                cargo +nightly test --release --quiet -Zbuild-std \
                --target "$(rustc -vV | sed -n 's/host: //p')" \
                -p millstream-pipeline --test stress --test same_schedule
fi
