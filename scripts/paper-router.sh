#!/usr/bin/env bash
# The Router paper's experiments with the live router: sources, one router on a processor of its own, between
# network namespaces. Writes papers/router/measured and draws its page anew. As root.
#
# Usage: paper-router.sh [SECONDS]: how long a point is measured, 4 by default; of many rounds, a part of that.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-tools.sh
cargo build --release --quiet -p millstream-cli -p millstream-papers
target=${CARGO_TARGET_DIR:-target}/release
mkdir -p papers/router/measured
MILLSTREAM=$target/millstream python3 papers/router/live.py papers/router/measured/live.txt "$@"
"$target/millstream-papers" --redraw router
