#!/usr/bin/env bash
# Checks the core: lint, cocotb tests, timeline, proofs, area, comparison with the engine.
# rtl-cards.sh checks the cards.
#
# Usage: rtl.sh [quick|long] [static|cocotb|compare]. Quick (default): the configurations marked
# `quick`, proofs for small parameters, a million compared decisions, cocotb by Icarus. Long: all
# configurations and proofs, ten million decisions, area for 4 and 32 streams, cocotb by Verilator,
# too, which compiles each configuration for half a minute.
# `cocotb` runs only the tests by cocotb, `compare` only the comparison with the engine, and
# `static` what needs nothing built from Rust, which includes the models of the comparison.
# scripts/rtl-tools.sh installs the tools. MILLSTREAM_HW and RTL_BULK name a reference model and a
# program of the comparison that are already built.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
usage() {
    echo "usage: rtl.sh [quick|long] [static|cocotb|compare]" >&2
    exit 2
}
mode=${1:-quick}
case $mode in
quick)
    decisions=1000000 area_streams="" configurations=quick level=1 profile=dev
    skipped=$(printf '%s\n' {ba,sorted,wr}{8,16} wr64 groups{2,8} tiles{1,4,5} width8 pairs3 \
        base{1,2,4,5,6,7,13} ahead{2,3,4,5,6} keyed5 keyed{1,4,5}ahead)
    cocotb=("icarus ca2 ba4 wr4 ca4 sorted4 tree8 keyed8 pair3 order_key")
    export ORDER_KEY_STRIDE=8
    ;;
long)
    decisions=10000000 area_streams="4 32" configurations=all level=2 profile=release
    skipped=""
    cocotb=(icarus "verilator ca4 ba8 keyed8 pair3 order_key")
    ;;
*) usage ;;
esac
part=${2:-all}
case $part in
static | cocotb | compare | all) ;;
*) usage ;;
esac
step() { printf '\n== %s\n' "$1"; }

source scripts/rtl-tools.sh
rtl_tools "$root" rtl/requirements.txt

target=${CARGO_TARGET_DIR:-$root/target}
models=$target/rtl-bulk/$configurations
sources=$(python rtl/sources.py rtl/scaling/msr_tiled_core.f | tr '\n' ' ')

# Lints by FuseSoC, from the repository only: no configuration of the user applies.
fusesoc_lint() {
    local core log=$root/target/rtl-fusesoc/log
    mkdir -p target/rtl-fusesoc
    printf '[library.millstream]\nlocation = %s/rtl\nsync-type = local\n' "$root" \
        >target/rtl-fusesoc/fusesoc.conf
    for core in rtl/*.core rtl/scaling/*.core rtl/cards/*.core; do
        core=$(basename "$core" .core)
        (cd target/rtl-fusesoc &&
            fusesoc --config fusesoc.conf run --target lint --work-root "$core" "$core") \
            >"$log" 2>&1 || { cat "$log"; exit 1; }
        echo "$core"
    done
}

# Checks without the reference model.
static_checks() {
    step "lists of sources, and FuseSoC: lint of every core file"
    python rtl/sources.py --check
    fusesoc_lint

    step "the report measures only what has changed, and its files name rows of older sources"
    python rtl/synthesis/test_report.py
    python rtl/synthesis/report.py --check papers/sharestreams/hardware

    step "lint: no warning"
    python rtl/configurations.py "$configurations" | while read -r name parameters; do
        # shellcheck disable=SC2086 # Lists of words.
        verilator --lint-only -Wall --quiet --top-module $parameters $sources
        echo "$name"
    done

    step "yosys: every name is declared"
    # It takes a member of an array of structs, which it does not know, for a new unconnected wire.
    yosys -q -p "read_verilog -sv -noautowire $sources; hierarchy -check; proc; check -assert"

    step "proofs"
    mkdir -p target/rtl-formal
    for proof in rtl/formal/*.sby; do
        name=$(basename "$proof" .sby)
        log=target/rtl-formal/$name.log
        tasks=$(cd rtl/formal && yowasp-sby --dumptasks "$name.sby" | grep -vxF "$skipped" || true)
        # shellcheck disable=SC2086 # A list of words.
        (cd rtl/formal &&
            yowasp-sby -f --prefix "$root/target/rtl-formal/$name" "$name.sby" $tasks) \
            >"$log" 2>&1 || { cat "$log"; exit 1; }
        echo "$name: $(grep -c 'DONE (PASS' "$log") closed"
    done

    [ -z "$area_streams" ] || step "area for ECP5"
    for streams in $area_streams; do
        yosys -q -p "read_verilog -sv -noautowire $sources; chparam -set N $streams msr_core;
            synth_ecp5 -nowidelut -top msr_core; tee -q -o target/rtl-area-$streams.txt stat"
        echo "BA, $streams streams: $(grep -E 'LUT4|TRELLIS_FF|MULT18X18D|CCU2C' \
            "target/rtl-area-$streams.txt" | tr -s ' \n' ' ')"
    done

    step "models for the comparison with the engine"
    compile_models
}

# Makes the models, unless they are up to date. At a higher level, compiling takes longer than a
# million decisions.
compile_models() {
    VERILATOR=verilator python rtl/bulk/models.py "$configurations" "$level" "$models"
}

# Compares the models with the engine.
comparison() {
    step "compared with the engine: $decisions decisions"
    local program=${RTL_BULK:-} coverage=$root/target/rtl-coverage.md
    compile_models
    if [ -z "$program" ]; then
        cargo build --profile "$profile" --quiet -p millstream-rtl-bulk
        program=$target/${profile/dev/debug}/millstream-rtl-bulk
    fi
    "$program" "$models/models.so" "$decisions" 1 "$coverage"
    if [ "$mode" = quick ] && ! cmp "$coverage" rtl/coverage.md; then
        echo "error: run: cp $coverage rtl/coverage.md" >&2
        exit 1
    fi
}

# Tests against the reference model.
cocotb_checks() {
    step "cocotb: the protocol"
    rtl_reference "$target"
    mkdir -p target/rtl-cocotb
    log=target/rtl-cocotb/log
    for run in "${cocotb[@]}"; do
        # shellcheck disable=SC2086 # A list of words.
        python rtl/tests/run.py $run >"$log" 2>&1 || { cat "$log"; exit 1; }
        grep "tests passed" "$log"
    done

    step "Icarus elaborates the tiled core"
    elaborated=$(python - <<'PYTHON'
import sys
sys.path.insert(0, "rtl/tests")
import run
print(*run.sources("icarus", run.lists.TILED))
PYTHON
    )
    # Ignores Icarus' "sorry" notes: it compiles these constructs in a more general form.
    # shellcheck disable=SC2086 # A list of words.
    iverilog -g2012 -s msr_tiled_core -Pmsr_tiled_core.Streams=256 -o target/rtl-cocotb/tiled \
            $elaborated \
        2>"$log" || { cat "$log"; exit 1; }
    grep -v "sorry: constant selects" "$log" && exit 1
    echo "msr_tiled_core"

    step "timeline: Figure 6, and the cycles of a decision for 4 to 32 streams"
    log=target/rtl-cocotb/timeline.log
    python rtl/tests/timeline.py papers/sharestreams --check >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep "cycles a decision" "$log"
}

case $part in all | cocotb) cocotb_checks ;; esac
case $part in all | static) static_checks ;; esac
case $part in all | compare) comparison ;; esac
