#!/usr/bin/env bash
# Runs the loom models of wakers and rings, with at most two preemptions. --stress also runs those
# of the pipeline's stages, which need the engine, allows each model all of its preemptions, and
# runs the tests on real threads under ThreadSanitizer, which needs a nightly toolchain with
# rust-src.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
crates=(-p millstream-sync)
if [[ ${1:-} == --stress ]]; then
    crates+=(-p millstream-pipeline)
else
    export LOOM_MAX_PREEMPTIONS=2
fi
# Optimises only what the models run: optimising the rest takes longer than they do.
package=profile.release.package
RUSTFLAGS="--cfg loom --cfg crossbeam_loom" CARGO_TARGET_DIR=$target/loom \
    cargo test --release --config "$package.millstream.opt-level=0" \
        --config "$package.\"*\".opt-level=0" --config "$package.loom.opt-level=3" \
        --config "$package.generator.opt-level=3" --quiet \
        "${crates[@]}" --lib
if [[ ${1:-} == --stress ]]; then
    echo "== ThreadSanitizer"
    export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=$target/thread-sanitizer
    export MILLSTREAM_STRESS_PACKETS=${MILLSTREAM_STRESS_PACKETS:-2000000}
    sanitized=(cargo +nightly test --release --quiet -Zbuild-std
        --target "$(rustc -vV | sed -n 's/host: //p')")
    "${sanitized[@]}" -p millstream-sync --all-features --lib
    "${sanitized[@]}" -p millstream-pipeline --test stress --test same_schedule
fi
