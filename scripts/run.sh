#!/usr/bin/env bash
# The main job: real packets over a link that is too small for all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p millstream-cli
mkdir -p out
scenario=examples/uplink/scenario.toml
echo "scheduling $scenario"
"${CARGO_TARGET_DIR:-target}/release/millstream" run "$scenario" --report out/report.html
echo
echo "Who got what, as a page: $(pwd)/out/report.html"
