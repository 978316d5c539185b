#!/usr/bin/env bash
# Builds the stage and its programs, forwards packets between vdevs, checks the shares, and measures
# the stage beside rte_sched, in turns. No huge pages, no network card.
#
# Usage: integrations/dpdk/run.sh [PREFIX [quick]]. PREFIX has the C library, as
# scripts/c-library.sh installs it; by default this builds it into target/c. `quick` measures
# nothing: the part of `make test`. Needs libdpdk-dev, Python 3 and a C compiler.
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=${1:-$PWD/target/c}
[[ $# -gt 0 ]] || scripts/c-library.sh "$prefix"
folder=$PWD/target/dpdk
mkdir -p "$folder"
read -ra include < <(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g')
read -ra libraries < <(pkg-config --libs libdpdk)
for program in bench forward; do
    "${CC:-cc}" -O3 -march=native -Wall -Wextra -Werror -std=gnu11 -I"$prefix/include" \
        "integrations/dpdk/$program.c" integrations/dpdk/ms_dpdk.c "${include[@]}" \
        -o "$folder/$program" -L"$prefix/lib" -lmillstream "${libraries[@]}"
done
export LD_LIBRARY_PATH=$prefix/lib

# Prints the output of `forward`. Fails unless stream 0 has three times the packets of stream 1, and
# all arrived at port 2 or at the interface, if $1 is "port" or "interface".
check_shares() {
    awk -v outside="$1" '{ print }
        /^stream/ { sent[$2 + 0] = $5 }
        /^port 2:/ { passed = $3 }
        /^received:/ { received = $2 }
        END {
            all = sent[0] + sent[1]
            good = sent[1] > 0 && sent[0] > 2.9 * sent[1] && sent[0] < 3.1 * sent[1]
            if (outside == "port") good = good && passed == all
            if (outside == "interface") good = good && received == all
            if (!good) print "error: the shares are not 3 to 1, or packets are lost"
            exit !good
        }'
}
python3 - "$folder/in.pcap" <<'PYTHON'
"""Writes 1,000-byte UDP packets of two sources in turn."""
import struct
import sys

with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for at in range(64):
        address = bytes([10, 0, 0, at % 2])
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 986, at, 0, 64, 17, 0) + address + address
        frame = bytes(12) + b"\x08\x00" + ip + bytes(966)
        file.write(struct.pack("<IIII", 0, at, len(frame), len(frame)) + frame)
PYTHON
eal=(--no-huge --no-pci -m 512 --no-telemetry "--log-level=error")
capture="--vdev=net_pcap0,rx_pcap=$folder/in.pcap,infinite_rx=1"
echo "10 Mbit/s for two streams with weights 3 and 1, of a capture, to net_null:"
"$folder/forward" "${eal[@]}" "$capture" --vdev=net_null0 -- wf2q+ 10000000 3 1 2 | check_shares ""
echo "through net_ring to net_null:"
"$folder/forward" "${eal[@]}" "$capture" --vdev=net_ring0 --vdev=net_null0 \
    -- wf2q+ 10000000 3 1 2 | check_shares port
echo "to net_af_packet, an interface of a network namespace:"
# shellcheck disable=SC2016 # The inner shell expands its arguments.
unshare --map-root-user --net bash -euc '
    ip link add ms0 type veth peer name ms1
    for interface in ms0 ms1; do
        echo 1 >/proc/sys/net/ipv6/conf/$interface/disable_ipv6 || true
        ip link set $interface up
    done
    "$@"
    ip -json -stats link show ms1 |
        sed -E "s/.*\"rx\":\{[^}]*\"packets\":([0-9]+).*/received: \\1/"
    ' bash "$folder/forward" "${eal[@]}" "$capture" --vdev=net_af_packet0,iface=ms0 \
    -- wf2q+ 10000000 3 1 2 | check_shares interface
echo "between two ports of net_null, without packets' contents:"
"$folder/forward" "${eal[@]}" --vdev=net_null0 --vdev=net_null1 -- drr 10000000 1 1

[[ ${2:-} != quick ]] || exit 0

benches/peers/build.sh "$folder"
echo "ns a packet:"
for streams in 16 1024 4096; do
    for round in 1 2 3; do
        echo "$streams streams, round $round"
        "$folder/rte_sched" "$streams" 2000000
        for discipline in drr dwcs wf2q+; do
            "$folder/bench" "$discipline" "$streams" 2000000
        done
        echo "wf2q+ on a link of 100 Gbit/s"
        "$folder/bench" wf2q+ "$streams" 2000000 100000000000
    done
done
