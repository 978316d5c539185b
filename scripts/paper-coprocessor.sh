#!/usr/bin/env bash
# Measures the Co-processor paper on this machine: its tables, then the live server with clients
# beside a load, with the scheduler on the host and on a core of its own. Writes
# papers/coprocessor/measured and the page.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p millstream-papers
papers=${CARGO_TARGET_DIR:-target}/release/millstream-papers
"$papers" --coprocessor
cargo bench --quiet --profile release -p millstream-media --bench coprocessor -- \
    "$PWD/papers/coprocessor/measured"
"$papers" --redraw coprocessor
