#!/usr/bin/env bash
# Every check, cheapest first. Stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "licences and advisories"
scripts/deny.sh

step "tests"
scripts/test-tools.sh
cargo test --workspace --quiet

step "what threads share, through its interleavings"
scripts/concurrency.sh

step "the Python package"
scripts/python.sh

step "the hardware"
scripts/rtl.sh quick

step "the main job, as a new user runs it"
scripts/run.sh

step "the papers' numbers"
cargo run --release --quiet -p millstream-papers -- --check

echo
echo "all checks passed"
