#!/usr/bin/env bash
# Builds the peers whose systems are installed into a directory (default target/peers).
set -euo pipefail
cd "$(dirname "$0")"
folder=${1:-target/peers}
[[ $folder = /* ]] || folder="../../$folder"
mkdir -p "$folder"
if ! pkg-config --exists libdpdk; then
    echo "rte_sched is not built: DPDK is not installed (apt install libdpdk-dev)" >&2
    exit 0
fi
read -ra include < <(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g')
read -ra libraries < <(pkg-config --libs libdpdk)
"${CC:-cc}" -O3 -march=native -Wall -Wextra -Wpedantic rte_sched.c -o "$folder/rte_sched" \
    "${include[@]}" "${libraries[@]}"
