#!/usr/bin/env python3
"""Shaping thousands of streams with a cap each, by the router and by the kernel's HTB.

Usage: benches/peers/shape.py [SECONDS [ROUNDS [STREAMS]]]. Needs root, tc and the tools of veth.py,
whose network it uses. Packets belong to 4,000 random streams, one UDP port each, at a rate above
the forwarders' capacity. The router, over AF_XDP, has a path with a `max-rate` for each stream. The
kernel has an HTB class for each with that rate and ceiling. Two u32 hash tables, one for each byte
of the port, with one filter per bucket, find the class. Queues are equally long. Rounds alternate
between caps above and below the load. For the best round of each it prints packets received and
forwarded, and CPU time per forwarded packet as in veth.py.
"""

import sys
import tempfile
from pathlib import Path

import veth

#: The first stream's port.
FIRST_PORT = 1024
#: Packets in a queue.
QUEUE = 16
#: Caps, bit/s: never reached, and mostly reached.
CAPS = {"free": 10_000_000, "tight": 120_000, "capped": 24_000}


def router_file(streams: int, cap: int) -> str:
    """Returns the router's file with a path for each stream, as a template of veth.py."""
    head, tail = veth.FILE.split('[[path]]\nname = "all"\n')
    buffers = f"[router]\nbuffers = {2 * QUEUE * streams + 4096}"
    paths = [
        f'[[path]]\nname = "s{k}"\n'
        f'match = {{{{ protocol = "udp", destination-port = {FIRST_PORT + k} }}}}\n'
        f'queue = {QUEUE}\nmax-rate = "{cap} bps"\nburst = "1500 B"\n'
        for k in range(streams)
    ]
    return head.replace("[router]", buffers) + "".join(paths) + tail


def htb(streams: int, cap: int) -> str:
    """Returns the equivalent HTB configuration as lines for tc."""
    device, rate = "dev b1", "100gbit"
    lines = [
        f"qdisc add {device} root handle 1: htb",
        f"class add {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} quantum 1514",
        f"filter add {device} parent 1: prio 1 handle 2: protocol ip u32 divisor 256",
        f"filter add {device} parent 1: prio 1 protocol ip u32 ht 800:: match ip protocol 17 0xff "
        "hashkey mask 0x0000ff00 at 20 link 2:",
    ]
    for k in range(streams):
        port = FIRST_PORT + k
        high, low, table = port >> 8, port & 255, (port >> 8) + 16
        if low == 0 or k == 0:
            lines += [
                f"filter add {device} parent 1: prio 1 handle {table:x}: protocol ip u32 "
                "divisor 256",
                f"filter add {device} parent 1: prio 1 protocol ip u32 ht 2:{high:x}: "
                "match u32 0 0 "
                f"hashkey mask 0x000000ff at 20 link {table:x}:",
            ]
        lines += [
            f"class add {device} parent 1:1 classid 1:{port:x} htb rate {cap}bit ceil {cap}bit "
            "burst 1500 cburst 1500 quantum 1514",
            f"qdisc add {device} parent 1:{port:x} pfifo limit {QUEUE}",
            f"filter add {device} parent 1: prio 1 protocol ip u32 ht {table:x}:{low:x}: "
            f"match u16 {port} 0xffff at 22 flowid 1:{port:x}",
        ]
    return "".join(f"{line}\n" for line in lines)


def measure(
    network: veth.Network, way: str, folder: str, seconds: float, streams: int
) -> list[float]:
    """Returns Mpps offered, Mpps forwarded, ns per packet."""
    first, last = veth.two_cpus()
    way, _, caps = way.partition(" ")
    if way == "xdp":
        file = router_file(streams, CAPS[caps])
        return veth.measure(network, way, folder, seconds, first, last, file, streams)
    lines = Path(folder, "htb")
    lines.write_text(htb(streams, CAPS[caps]))
    network.run(network.router, "tc", "-batch", str(lines))
    try:
        return veth.measure(network, way, folder, seconds, first, last, streams=streams)
    finally:
        network.run(network.router, "tc", "qdisc", "del", "dev", "b1", "root")


def main() -> None:
    """Measures router and kernel and prints a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    streams = int(sys.argv[3]) if len(sys.argv) > 3 else 4000
    rows: dict[str, list[list[float]]] = {
        f"{way} {caps}": [] for caps in CAPS for way in ("xdp", "kernel")
    }
    with tempfile.TemporaryDirectory() as folder:
        veth.build(folder)
        network = veth.Network()
        try:
            for _ in range(rounds):
                for way, of in rows.items():
                    of.append(measure(network, way, folder, seconds, streams))
        finally:
            network.remove()
    veth.show(rows)


if __name__ == "__main__":
    main()
