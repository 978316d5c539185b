#!/usr/bin/env bash
# Checks the cards; rtl.sh checks the core. Checks generated registers and lint, replays conformance
# traces on the hardware, and compares the cards with the engine from Rust. Then checks the papers'
# figures and runs cocotb tests with Verilator and Icarus.
#
# Usage: rtl-cards.sh [quick|long]. Long: all configurations. MILLSTREAM_HW names a reference model
# that is already built.
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
# Selects the features of the whole workspace, so that cargo reuses its test build.
tests=(cargo test --quiet --workspace)
"${tests[@]}" --test rtl -- --include-ignored

step "cards: driven from Rust against the engine"
"${tests[@]}" --test end_system --test line_card -- --include-ignored

step "cards: the paper's Figures 12 to 14"
"${tests[@]}" --test check --no-run 2>/dev/null
"$target/debug/millstream-papers" --cards --check

step "cards: cocotb tests"
rtl_reference "$target"
log=$root/target/rtl-cards/log
for simulator in verilator icarus; do
    python rtl/cards/tests/run.py "$simulator" "$mode" >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep "tests passed" "$log"
done
