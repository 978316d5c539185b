#!/usr/bin/env bash
# Runs scripts/soak.py: a soak test of the router for an hour or SECONDS. Needs root.
# Usage: [SOAK_IO=packet|xdp|auto] [SOAK_CORES=1|2] scripts/soak.sh [SECONDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-tools.sh
cargo build --release --quiet -p millstream-cli
MILLSTREAM=${CARGO_TARGET_DIR:-target}/release/millstream python3 scripts/soak.py "$@"
