#!/usr/bin/env bash
# The Co-processor paper on this machine: its tables, then the real server with clients beside a load,
# scheduler in the host and apart from it. Writes papers/coprocessor/measured and draws its page anew.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p millstream-papers
papers=${CARGO_TARGET_DIR:-target}/release/millstream-papers
"$papers" --coprocessor
cargo bench --quiet --profile release -p millstream-media --bench coprocessor -- \
    "$PWD/papers/coprocessor/measured"
"$papers" --redraw coprocessor
