#!/usr/bin/env bash
# Measures the costs of forwarding functions (Table 1), and runs the Router paper's experiments with
# the live router on a core of its own, between network namespaces. Writes papers/router/measured
# and the page. Needs root.
#
# Usage: paper-router.sh [SECONDS [EXPERIMENT]...]. SECONDS is the duration of a measured point, 4
# by default; experiments with many rounds use a fraction of it. EXPERIMENT is one of live.py's;
# all by default.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-tools.sh
cargo build --release --quiet -p millstream-cli -p millstream-papers
target=${CARGO_TARGET_DIR:-target}/release
mkdir -p papers/router/measured
"$target/millstream-papers" --router-costs
MILLSTREAM=$target/millstream python3 papers/router/live.py papers/router/measured "$@"
"$target/millstream-papers" --only router
