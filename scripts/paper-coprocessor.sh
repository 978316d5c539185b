#!/usr/bin/env bash
# Repeats the Co-processor paper's measurements on this machine: its tables, then the live server
# with clients under load. The scheduler runs on the host and on its own core. Writes
# papers/coprocessor/measured and the page.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p millstream-papers
papers=${CARGO_TARGET_DIR:-target}/release/millstream-papers
"$papers" --coprocessor
cargo bench --quiet --profile release -p millstream-media --bench coprocessor -- \
    "$PWD/papers/coprocessor/measured"
"$papers" --redraw coprocessor
