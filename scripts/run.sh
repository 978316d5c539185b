#!/usr/bin/env bash
# Schedules recorded packets on an overloaded link, beside their bounds, and writes a report.
#
# MILLSTREAM names a binary that is already built; otherwise the script builds it.
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=examples/guarantee/scenario.toml
if [ -z "${MILLSTREAM:-}" ]; then
    echo "building the command; cargo shows its progress"
    # Leaves out the router, the media server and Parquet: this run does not use them.
    cargo build --release -p millstream-cli --no-default-features
    MILLSTREAM=${CARGO_TARGET_DIR:-target}/release/millstream
fi
mkdir -p out
echo "scheduling $scenario"
"$MILLSTREAM" run "$scenario" --bounds --report out/report.html
echo
echo "report with charts: $(pwd)/out/report.html"
