#!/usr/bin/env bash
# Runs fuzz targets (default: all) for SECONDS_EACH seconds each (default 300) on a nightly
# toolchain.
# Usage: scripts/fuzz.sh [TARGET...]
#
# Then prints how many inputs of each target passed its first parser. Fails if a target found a bug,
# if less than 30 % of its inputs passed, or if the planted bug of the target `canary` is not found.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-300}
least_share=30
canary_seconds=60
if ! command -v cargo-fuzz >/dev/null; then
    cargo install cargo-fuzz --locked --quiet --root target/tools
    export PATH="$PWD/target/tools/bin:$PATH"
fi
depths="$PWD/target/fuzz-depths"
mkdir -p "$depths"

# Debug assertions report integer overflow. Seeds and mutators are in crates/millstream-fuzz.
fuzz() {
    local target=$1 time=$2
    rm -f "$depths/$target"
    mkdir -p "fuzz/corpus/$target"
    MILLSTREAM_FUZZ_DEPTH="$depths/$target" \
        cargo +nightly fuzz run --release --debug-assertions "$target" -- \
        -max_total_time="$time" -timeout=60 -rss_limit_mb=4096 -max_len=40000 -print_final_stats=1
}

targets=("$@")
[[ $# -gt 0 ]] || mapfile -t targets < <(cargo fuzz list | grep -vx canary)
failed=()

echo "== canary, a planted bug"
rm -rf fuzz/corpus/canary
if fuzz canary "$canary_seconds" >target/fuzz-canary.log 2>&1; then
    failed+=("canary: the planted bug was not found in $canary_seconds s")
elif ! grep -q "the planted bug" target/fuzz-canary.log; then
    tail -20 target/fuzz-canary.log
    failed+=("canary: it did not run")
else
    echo "found"
fi
rm -rf fuzz/artifacts/canary

for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    fuzz "$target" "$seconds" || failed+=("$target: a bug; the input is in fuzz/artifacts/$target")
done

printf '\n%-18s %12s %20s %8s\n' target inputs "passed first parser" share
for target in "${targets[@]}"; do
    inputs=0 passed=0
    [[ ! -f $depths/$target ]] || read -r inputs passed <"$depths/$target"
    share=$((inputs > 0 ? 100 * passed / inputs : 0))
    printf '%-18s %12d %20d %6d %%\n' "$target" "$inputs" "$passed" "$share"
    ((share >= least_share)) || failed+=("$target: $share % of inputs passed, not $least_share %")
done
for why in "${failed[@]}"; do
    echo "error: $why" >&2
done
[[ ${#failed[@]} -eq 0 ]]
