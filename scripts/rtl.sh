#!/usr/bin/env bash
# The hardware's checks: lint, cocotb tests, timeline, proofs, area, comparison with the engine.
#
# Usage: rtl.sh [quick|long]. Quick (default): the configurations marked so, all proofs but one, a
# million decisions compared. Long: all configurations and proofs, ten million decisions, area for 4
# and 32 streams.
# Tools are installed by scripts/rtl-tools.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
mode=${1:-quick}
case $mode in
quick) decisions=1000000 area_streams="4" configurations=quick ;;
long) decisions=10000000 area_streams="4 32" configurations=all ;;
*) echo "usage: rtl.sh [quick|long]" >&2; exit 2 ;;
esac
step() { printf '\n== %s\n' "$1"; }

source scripts/rtl-tools.sh
rtl_tools "$root" rtl/requirements.txt

target=${CARGO_TARGET_DIR:-$root/target}
sources=$(printf '%s ' rtl/src/msr_pkg.sv $(ls rtl/src/*.sv | grep -v msr_pkg))

step "lint: every configuration, no warning"
python - <<'PYTHON' | while read -r name parameters; do
import tomllib
for row in tomllib.load(open("rtl/configurations.toml", "rb"))["configuration"]:
    print(row["name"], f"-GN={row['streams']} -GWinnerOnly={int(row['winner_only'])}",
          f"-GComputeAhead={int(row['compute_ahead'])} -GSorted={int(row['sorted'])}",
          f"-GTree={int(row.get('tree', False))} -GKeyed={int(row.get('keyed', False))}")
PYTHON
    # shellcheck disable=SC2086 # Lists of words.
    verilator --lint-only -Wall --quiet --top-module msr_core $parameters $sources
    echo "$name"
done

step "cocotb: the protocol, by Verilator and by Icarus"
cargo build --release --quiet -p millstream-hw
export MILLSTREAM_HW=$target/release/libmillstream_hw.so
mkdir -p target/rtl-cocotb
log=target/rtl-cocotb/log
for run in icarus "verilator ca4 ba8 keyed8 order_key"; do
    # shellcheck disable=SC2086 # A list of words.
    python rtl/tests/run.py $run >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep "tests passed" "$log"
done

step "timeline: Figure 6, and the cycles of a decision for 4 to 32 streams"
log=target/rtl-cocotb/timeline.log
python rtl/tests/timeline.py papers/sharestreams --check >"$log" 2>&1 || { cat "$log"; exit 1; }
grep "cycles a decision" "$log"

step "proofs"
mkdir -p target/rtl-formal
for proof in rtl/formal/*.sby; do
    name=$(basename "$proof" .sby)
    log=target/rtl-formal/$name.log
    tasks=$(cd rtl/formal && yowasp-sby --dumptasks "$name.sby")
    # The slowest, minutes on a busy machine.
    [ "$mode" = long ] || tasks=${tasks/sorted16/}
    # shellcheck disable=SC2086 # A list of words.
    (cd rtl/formal && yowasp-sby -f --prefix "$root/target/rtl-formal/$name" "$name.sby" $tasks) \
        >"$log" 2>&1 || { cat "$log"; exit 1; }
    echo "$name: $(grep -c 'DONE (PASS' "$log") closed"
done

step "area for ECP5"
for streams in $area_streams; do
    yosys -q -p "read_verilog -sv $sources; chparam -set N $streams msr_core;
        synth_ecp5 -nowidelut -top msr_core; tee -q -o target/rtl-area-$streams.txt stat"
    echo "BA, $streams streams: $(grep -E 'LUT4|TRELLIS_FF|MULT18X18D|CCU2C' \
        "target/rtl-area-$streams.txt" | tr -s ' \n' ' ')"
done

step "compared with the engine: $decisions decisions"
export VERILATOR=verilator RTL_CONFIGURATIONS=$configurations
export CARGO_TARGET_DIR=$target
cargo test --release --quiet --manifest-path rtl/bulk/Cargo.toml
coverage=$root/target/rtl-coverage.md
cargo run --release --quiet --manifest-path rtl/bulk/Cargo.toml -- "$decisions" 1 "$coverage"
if [ "$mode" = quick ] && ! cmp "$coverage" rtl/coverage.md; then
    echo "error: run: cp $coverage rtl/coverage.md" >&2
    exit 1
fi

CARGO_TARGET_DIR=$target scripts/rtl-cards.sh "$mode"
