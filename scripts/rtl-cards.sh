#!/usr/bin/env bash
# Checks the cards; rtl.sh checks the core. Checks generated registers and lint, replays conformance
# traces on the hardware, and compares the cards with the engine from Rust. Then checks the papers'
# figures and runs cocotb tests with Icarus.
#
# Usage: rtl-cards.sh [quick|long]. Long: all configurations, and cocotb tests with Verilator, too,
# which compiles each card for half a minute. MILLSTREAM_HW names a reference
# model that is already built.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
mode=${1:-quick}
target=${CARGO_TARGET_DIR:-$root/target}
source scripts/rtl-tools.sh
rtl_tools "$root" rtl/requirements.txt rtl/cards/requirements.txt
step() { printf '\n== %s\n' "$1"; }

step "cards: generated registers"
fresh=$root/target/rtl-cards/registers
rm -rf "$fresh"
python rtl/cards/registers/registers.py "$fresh"
for file in "$fresh"/*; do
    cmp "$file" "rtl/cards/registers/$(basename "$file")" || {
        echo "error: run: python rtl/cards/registers/registers.py rtl/cards/registers" >&2
        exit 1
    }
done
ls "$fresh"

step "cards: lint, no warning"
sources=$(python rtl/sources.py rtl/cards/msr_cards.f | tr '\n' ' ')
python rtl/cards/tests/run.py list | while read -r top parameters; do
    # shellcheck disable=SC2086 # Lists of words.
    verilator --lint-only -Wall --quiet --top-module "$top" $parameters $sources
    echo "$top $parameters"
done

step "structure = \"rtl\": conformance traces"
export VERILATOR=$VERILATOR_ROOT/bin/verilator MILLSTREAM_CACHE=$root/target/rtl-cache
# All test programs of the workspace: for fewer of them cargo would select other features of their
# dependencies, and compile most of them again.
programs=$(cargo test --quiet --workspace --no-run --message-format json | python -c '
import json, sys
for message in map(json.loads, sys.stdin):
    if message.get("executable") and message["profile"]["test"]:
        print(message["target"]["name"], message["manifest_path"], message["executable"], sep="\t")
')
# run_tests NAME: runs all tests of a program, as cargo does, in the directory of its package.
run_tests() {
    local manifest program
    IFS=$'\t' read -r _ manifest program < <(grep "^$1"$'\t' <<<"$programs")
    (cd "$(dirname "$manifest")" && "$program" --quiet --include-ignored)
}
run_tests rtl

step "cards: driven from Rust against the engine"
run_tests end_system
run_tests line_card

step "cards: the paper's Figures 12 to 14"
"$target/debug/millstream-papers" --cards --check

step "cards: cocotb tests"
rtl_reference "$target"
log=$root/target/rtl-cards/log
simulators=(icarus)
[ "$mode" = quick ] || simulators+=(verilator)
for simulator in "${simulators[@]}"; do
    python rtl/cards/tests/run.py "$simulator" "$mode" >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep "tests passed" "$log"
done
