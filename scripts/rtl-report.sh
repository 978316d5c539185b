#!/usr/bin/env bash
# Measures area and clock of the hardware with open tools and draws the figures. Measures only
# designs whose netlist has changed, or whose seeds are missing.
#
# Usage: rtl-report.sh [DESIGN ...], designs of rtl/synthesis/designs.toml with their size
# (`ca-32`). Without names, all of them. Placing a core of 32 streams takes 10 minutes a seed.
# `rtl-report.sh --mark` measures nothing: it marks the rows whose sources have changed as older.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/rtl-tools.sh
rtl_tools "$PWD" rtl/requirements.txt rtl/synthesis/requirements.txt
folder=papers/sharestreams/hardware
if [ "${1:-}" = --mark ]; then
    python rtl/synthesis/report.py --mark "$folder"
else
    mkdir -p target/rtl-cocotb
    log=target/rtl-cocotb/timeline.log
    python rtl/tests/timeline.py papers/sharestreams >"$log" 2>&1 || { cat "$log"; exit 1; }
    python rtl/synthesis/report.py "$folder" "$@"
fi
# All pages: the page of all claims, and that of structures, use the measurements too.
cargo run --release --quiet -p millstream-papers -- --redraw
