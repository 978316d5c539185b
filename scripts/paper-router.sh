#!/usr/bin/env bash
# Runs the Router paper's experiments with the live router on a core of its own, between network
# namespaces. Writes papers/router/measured and the page. Needs root.
#
# Usage: paper-router.sh [SECONDS]. SECONDS is the duration of a measured point, 4 by default.
# Experiments with many rounds use a fraction of it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-tools.sh
cargo build --release --quiet -p millstream-cli -p millstream-papers
target=${CARGO_TARGET_DIR:-target}/release
mkdir -p papers/router/measured
MILLSTREAM=$target/millstream python3 papers/router/live.py papers/router/measured/live.txt "$@"
"$target/millstream-papers" --redraw router
