#!/usr/bin/env bash
# Compares the router with the kernel's qdiscs under load, in a virtual machine without KVM.
#
# Usage: scripts/bufferbloat.sh [RATE [SECONDS]]. RATE is in Mbit/s, default 20; SECONDS are of
# each run, default 15. Four connections up and four down, a ping and a voice flow (EF) share a link
# under pfifo and fq_codel below HTB, under CAKE and over the router. Prints a table; writes a data
# file of Flent for each run to target/bufferbloat. MILLSTREAM is the router's program.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
source scripts/setup.sh
rate=${1:-20}
seconds=${2:-15}
scripts/kernel-packages.sh
dir="$PWD/target/kernel"
target=${CARGO_TARGET_DIR:-target}
if [ -z "${MILLSTREAM:-}" ]; then
    cargo build --quiet --release -p millstream-cli
    MILLSTREAM=$target/release/millstream
fi
files=$target/bufferbloat
mkdir -p "$files"
xz -dkc "$dir"/root/usr/lib/modules/*/kernel/net/sched/sch_netem.ko.xz >"$files/sch_netem.ko"
printf 'RATE=%smbit\nDELAY=10ms\nSECONDS_EACH=%s\n' "$rate" "$seconds" >"$files/settings"
{
    printf '[router]\n'
    for port in "m0 10.1.0.1" "m1 10.2.0.1"; do
        printf '[[port]]\nname = "%s"\nkind = "interface"\nrate = "%s Mbit/s"\n' \
            "${port% *}" "$rate"
        printf 'address = "%s/24"\nline-burst = "1 ms"\n' "${port#* }"
    done
    printf '[[path]]\nname = "voice"\nmatch = { dscp = "ef" }\nflows = {}\n'
    printf '[[path]]\nname = "best-effort"\nflows = {}\nweight = 3\n'
} >"$files/router.toml"
iperf3=$(command -v iperf3) || {
    echo "error: iperf3 is not installed; scripts/test-tools.sh installs it" >&2
    exit 1
}
inputs=("$files"/sch_netem.ko "$files"/settings "$files"/router.toml "$MILLSTREAM" "$iperf3")
while read -r library; do
    inputs+=("$library")
done < <(ldd "$MILLSTREAM" "$iperf3" |
    awk '$3 ~ /^\// && !/libc.so|libm.so/ { print $3 }' | sort -u)
scripts/kernel-boot.sh scripts/bufferbloat-vm.sh "${inputs[@]}"
python3 scripts/bufferbloat.py "$dir/result" "$files" "$rate"
