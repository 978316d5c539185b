#!/usr/bin/env bash
# The main job: real packets on a link with too little bandwidth for all of them.
#
# MILLSTREAM names a binary that is already built.
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=examples/uplink/scenario.toml
if [ -z "${MILLSTREAM:-}" ]; then
    echo "building the command; cargo shows its progress"
    # Without the router, the media server and Parquet files, which the job does not use.
    cargo build --release -p millstream-cli --no-default-features
    MILLSTREAM=${CARGO_TARGET_DIR:-target}/release/millstream
fi
mkdir -p out
echo "scheduling $scenario"
"$MILLSTREAM" run "$scenario" --report out/report.html
echo
echo "the same as a page with charts: $(pwd)/out/report.html"
