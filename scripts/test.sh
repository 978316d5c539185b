#!/usr/bin/env bash
# Runs every check, cheapest first. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# Incremental artefacts double the build's size and do not speed up a build from scratch. Line
# tables take a sixth of the time; a failed assertion names its line without them.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
# Checks the free space first: on a full disk the linker only reports "Bus error".
needed=8
free=$(df --output=avail -B1G . | tail -1)
if [ ! -d target/debug ] && [ "$free" -lt "$needed" ]; then
    echo "error: $PWD/target needs $needed GB of free space; only ${free// /} GB are free" >&2
    exit 1
fi

step() {
    # A lane that has failed ends the run here.
    local name
    for name in "${!lanes[@]}"; do
        kill -0 "${lanes[$name]}" 2>/dev/null || join_lane "$name"
    done
    printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"
}

# Lanes are background jobs. They use the idle CPU time of the steps: many tests wait for clocks and
# networks, and the hardware's checks mostly use one core.
set -m
declare -A lanes=()
# start_lane NAME COMMAND...: runs COMMAND in the background with its output in a file.
start_lane() {
    mkdir -p target
    "${@:2}" >"target/lane-$1.log" 2>&1 &
    lanes[$1]=$!
}
# join_lane NAME: waits for a lane, prints its output, and exits if it failed.
join_lane() {
    local status=0
    [ -n "${lanes[$1]:-}" ] || return 0
    wait "${lanes[$1]}" || status=$?
    unset "lanes[$1]"
    cat "target/lane-$1.log"
    [ "$status" = 0 ] || exit "$status"
}
end() {
    local pid
    for pid in "${lanes[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
}
trap end EXIT

downloads() {
    scripts/test-tools.sh integrations
    scripts/kernel-packages.sh
    (
        source scripts/rtl-tools.sh
        rtl_tools "$PWD" rtl/requirements.txt rtl/cards/requirements.txt
    )
    source scripts/python-env.sh
    python scripts/licences.py
    touch target/downloaded
}
# The hardware's checks end last, so those that need no build of ours start first.
static() {
    until [ -e target/downloaded ]; do sleep 1; done
    scripts/rtl.sh quick static
    until [ -e target/tests-built ]; do sleep 1; done
    RTL_BULK=$PWD/target/debug/millstream-rtl-bulk scripts/rtl.sh quick compare
}
rm -f target/downloaded target/tests-built
start_lane downloads downloads
start_lane static static

step "format"
cargo fmt --all --check

step "lints, and building the tests"
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-tests.sh RUSTDOC=$PWD/scripts/rustdoc-tests.sh
# The Python module does not link libpython: the interpreter that loads it has the symbols.
export PYO3_BUILD_EXTENSION_MODULE=1
# Benchmarks and the Python module, too.
cargo build --workspace --all-targets --quiet --message-format=json-render-diagnostics \
    >target/built.json
touch target/tests-built

step "licences and test tools"
join_lane downloads

# The scripts below use these programs instead of rebuilding them with other features.
debug=$PWD/target/debug
export MILLSTREAM=$debug/millstream MAKE_TRACES=$debug/make-traces
export MILLSTREAM_HW=$debug/deps/libmillstream_hw.so
export KERNEL_PROBE=$debug/examples/kernel_probe INSTRUCTIONS=$debug/examples/instructions

parts() {
    local part TIMEFORMAT='%R s, of processor time %U + %S s'
    for part in "$@"; do
        printf '\n== background: %s (%d s so far)\n' "$part" "$SECONDS"
        # shellcheck disable=SC2086 # A command and its arguments.
        time $part
    done
    printf '\n== background: done (%d s so far)\n' "$SECONDS"
}
# Prints the name and the path of every test program. Cargo has other features for some of them than
# for all.
test_programs() {
    python3 - <<'PYTHON'
import json
for line in open("target/built.json"):
    target = json.loads(line).get("target", {})
    if target.get("kind") == ["test"]:
        print(target["name"], json.loads(line)["executable"])
PYTHON
}
# The end-to-end tests wait for clocks and networks for half of their time, so they run beside the
# others. Those of the media server have precedence, so that deadlines hold. Those of the router's
# pacing measure times of packets, and one needs the router at once; they run alone.
alone=(pacing:: a_reserved_flow_loses_no_packet)
declare -A apart=()
others=()
while read -r name program; do
    case $name in
    media | route) apart[$name]=$program ;;
    *) others+=(--test "$name") ;;
    esac
done < <(test_programs)
run_apart() { (cd crates/millstream-cli && "${apart[$1]}" --quiet "${@:2}"); }
ns3() {
    PROFILE=dev scripts/c-library.sh "$PWD/target/c"
    if [ "$(id -u)" = 0 ] || dpkg-query -W libns3-dev libgsl-dev >/dev/null 2>&1; then
        integrations/ns3/check.py target/c
    else
        echo "not tested: libns3-dev and libgsl-dev are not installed"
    fi
}
start_lane media parts "run_apart media"
renice -n 10 $$ >/dev/null
start_lane route parts "run_apart route ${alone[*]/#/--skip }"
start_lane hardware parts "scripts/rtl.sh quick cocotb" "scripts/rtl-cards.sh quick"
start_lane kernel parts "scripts/kernel.sh quick"
EXTENSION=$debug/lib_millstream.so start_lane python parts scripts/python.sh
start_lane concurrency parts scripts/concurrency.sh
start_lane instructions parts scripts/instructions.py
# Each of these mostly uses one core.
start_lane documentation parts "cargo test --workspace --quiet --doc" scripts/test-c-library.sh ns3

step "tests"
cargo test --workspace --quiet --lib --bins "${others[@]}"

step "documentation, C library and ns-3"
join_lane documentation

step "the C library in DPDK"
if [ "$(id -u)" = 0 ] || pkg-config --exists libdpdk; then
    integrations/dpdk/run.sh "$PWD/target/c" quick
else
    echo "not tested: libdpdk-dev is not installed"
fi

step "exposure of the systemd units"
scripts/exposure.sh

step "make run, as in the README"
scripts/run.sh

step "background lanes: media server, router, instructions, kernel, Python package, hardware"
join_lane static
join_lane media
join_lane route
join_lane instructions
join_lane kernel
join_lane concurrency
join_lane python
join_lane hardware

step "tests of the router that run alone"
run_apart route "${alone[@]}"

echo
echo "all checks passed"
