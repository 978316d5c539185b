#!/usr/bin/env python3
"""The Router paper's experiments on the live router: `make paper-router`.

Usage: papers/router/live.py FILE.md [SECONDS]. Needs root, iproute2, curl and
target/release/millstream, or MILLSTREAM. Three sources send packets of 60 bytes by veth pairs from
network namespaces of their own. The router runs alone on the last core; senders share the others.
Where packets must be expensive enough to overload the router, each path has an extension that
counts down. section4.py has the experiments that need devices like the paper's. Writes tables to
FILE.md, and the points of Figures 7 to 9 to costs.csv in the same directory.
"""

import itertools
import sys
import tempfile
from pathlib import Path
from statistics import median

import overload
import section4
from devices import UNLIMITED
from modules import FUEL_A_TURN, counting
from network import SOURCES, STATUS, Network, Rates, Sender, kpps, preferred, table

#: Turns of the loop for each packet, so that the router's core is the bottleneck.
TURNS = 3_000
#: Offered loads relative to the router's capacity.
PARTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.3)
#: Offered load, relative to the capacity, up to which the rate must be flat.
FLAT_UP_TO = 3.0
#: Minimum share of the offered load that the router forwards without overload.
MIN_FORWARDED = 0.9
Row = list[str]
#: Tables and their summary lines, by title.
Parts = dict[str, tuple[str, list[Row]]]


def file(
    paths: list[str], batch: int, output: str = "", reading: str = "polled", **more: bool
) -> str:
    """Returns a router's file in which path n matches the packets of source n.

    `paths` are additional keys of the paths, `output` those of the output; `reading` is the input
    mode. `costly` adds the extension to each path, `reserved` a reservation to each input.
    """
    text = f'[router]\nname = "paper"\nbatch = {batch}\nstatus = "{STATUS}"\ninput = "{reading}"\n'
    for at in range(SOURCES):
        text += f'[[port]]\nname = "in{at}"\nkind = "interface"\nrate = "{UNLIMITED}"\n'
        text += 'input-reservation = "150 Mcps"\n' if more.get("reserved") else ""
    text += f'[[port]]\nname = "out0"\nkind = "interface"\nrate = "{UNLIMITED}"\n{output}\n'
    for at, keys in enumerate(paths):
        text += (
            f'[[path]]\nname = "{"ABC"[at]}"\nmatch = {{ port = "in{at}" }}\nto = "out0"\n{keys}\n'
        )
        module = f'module = "burn.wasm", fuel = {FUEL_A_TURN * TURNS}'
        text += f"extension = {{ {module} }}\n" if more.get("costly") else ""
    route = 'prefix = "10.2.0.0/16"\nport = "out0"\nneighbour = "02:00:00:00:00:09"\n'
    return f"{text}[[route]]\n{route}"


def sent_at(network: Network, rates: list[float], seconds: float) -> Rates:
    """Measures while sources send at these rates, packets per second; 0 is full speed."""

    def start() -> list[Sender]:
        cores = itertools.cycle(network.sender_cores)
        senders = enumerate(zip(network.sources, cores, rates, strict=False))
        return [
            overload.sender(source, core, network.mac(f"in{at}"), rate)
            for at, (source, core, rate) in senders
        ]

    return network.measure(start, network.source_devices, seconds)


def measure_overload(
    network: Network, seconds: float, full: Rates | None = None
) -> tuple[str, list[Row], Rates]:
    """Measures Figure 5 up to three times the capacity; returns table, summary, and capacity.

    The router polls, or uses interrupts if the capacity of polling is given.
    """
    reading = "interrupt" if full else "polled"
    with network.running(file([""] * SOURCES, 16, reading=reading, costly=True)):
        if full is None:
            # The senders at full speed measure the router's capacity.
            runs = [sent_at(network, [0.0] * SOURCES, seconds / 2) for _ in range(section4.ROUNDS)]
            full = sorted(runs, key=lambda run: run.per_cpu_second)[len(runs) // 2]
        capacity = full.per_cpu_second / SOURCES
        by_load = section4.rounds(
            lambda part: sent_at(network, [part * capacity] * SOURCES, seconds / 3),
            [(part,) for part in PARTS],
            section4.ROUNDS,
        )
    rows, overloads = [], []
    for runs in by_load.values():
        offered, forwarded, per_cpu_second, cpu_share = (
            median(values)
            for values in zip(
                *(
                    (sum(run.offered), run.forwarded, run.per_cpu_second, run.cpu_share)
                    for run in runs
                ),
                strict=True,
            )
        )
        rows.append([kpps(offered), kpps(forwarded), f"{100 * cpu_share:.0f} %", "no overload", ""])
        if forwarded < MIN_FORWARDED * offered:
            overloads.append((per_cpu_second, offered / forwarded))
            rows[-1][3:] = [kpps(per_cpu_second), per_cpu_second]
    peak = max((rate for rate, _ in overloads), default=1.0)
    rows = [
        [f"{cell / peak:.2f}" if isinstance(cell, float) else cell for cell in row] for row in rows
    ]
    lowest, highest_load = (
        min(overloads, default=(1.0, 0))[0] / peak,
        max((load for _, load in overloads), default=0.0),
    )
    live = (
        f"at least {100 * lowest:.0f} % of the peak, up to {highest_load:.1f} times the "
        "forwarded rate"
    )
    summary_rows = [["Fig 5: rate under overload", "remains flat", "flat", live]]
    if reading == "interrupt":
        summary_rows = [
            ["Fig 5: rate under overload with interrupts", "livelock", "livelock", live]
        ]
    else:
        reached = "yes" if lowest >= 0.95 and highest_load >= FLAT_UP_TO else "no"
        goal = "goal: within 5 % of the peak at 1 to 3 times the forwarded rate"
        summary_rows.append([goal, "", "yes", reached])
    heads = [
        "offered (Kpps)",
        "forwarded (Kpps)",
        "the router's share of its core",
        "forwarded per CPU second (Kpps)",
        "relative to the peak",
    ]
    return table(heads, rows), summary_rows, full


def measure_shares(network: Network, full: Rates, seconds: float) -> tuple[str, Row]:
    """Measures three overloaded functions with reservations of 1:2:3."""
    part = full.cycles // 18 // 1_000_000
    # Senders alternate on their core every few ms, and queues must cover this time. A saturated
    # output would share by its own discipline.
    keys = [f'reservation = "{part * weight} Mcps"\nqueue = 4096' for weight in (1, 2, 3)]
    output = f'output-reservation = "{6 * part} Mcps"'
    with network.running(file(keys, 16, output, costly=True, reserved=True)):
        seen = sent_at(network, [0.0] * SOURCES, seconds)
    busy, worst = sum(seen.busy), 0.0
    rows = []
    for at, weight in enumerate((1, 2, 3)):
        share = seen.busy[at] / busy
        error = 100 * (share * 6 / weight - 1)
        worst = max(worst, abs(error))
        rates = [kpps(seen.offered[at]), kpps(seen.sent[at])]
        rows.append(["ABC"[at], *rates, f"{weight / 6:.3f}", f"{share:.3f}", f"{error:+.1f} %"])
    heads = ["function", "offered (Kpps)", "forwarded (Kpps)", "reserved", "used", "error"]
    summary_row = [
        "CPU time by reservation",
        "proportional",
        "proportional",
        f"within {worst:.1f} %",
    ]
    return table(heads, rows), summary_row


def measure_reserved(network: Network, full: Rates, seconds: float) -> tuple[str, Row]:
    """Measures Figure 6: B and C have reservations, and A offers an increasing load."""
    rate = full.per_cpu_second / 5
    cost = f'cost = "{int(1.1 * full.cpu_per_sent_packet)} ns"\nreservation = "{int(rate)} pps"'
    rows, kept = [], []
    with network.running(file(["", cost, cost], 16, costly=True, reserved=True)):
        for part in (0.2, 0.4, 0.6, 1.0, FLAT_UP_TO):
            seen = sent_at(network, [part * full.per_cpu_second, rate * 0.98, rate * 0.98], seconds)
            kept += [seen.sent[at] / max(1.0, seen.offered[at]) for at in (1, 2)]
            dropped = [f"{seen.dropped[at]:.0f}" for at in range(SOURCES)]
            pairs = zip(seen.offered, seen.sent, strict=True)
            rows.append([*(kpps(rate) for pair in pairs for rate in pair), " / ".join(dropped)])
    heads = [f"{name} {what}" for name in "ABC" for what in ("offered", "forwarded")]
    live = f"at least {100 * min(kept):.1f} %"
    what = "Fig 6: share of B's and C's load that is forwarded, at any load of A"
    summary_row = [what, "all", "all", live]
    return table([*heads, "dropped, A / B / C (packets/s)"], rows), summary_row


def measure_batches(network: Network, seconds: float) -> tuple[str, Row]:
    """Measures Table 2: the gain of batching."""
    costs = {}
    for batch in (1, 4, 16, 32):
        with network.running(file([""] * SOURCES, batch)):
            costs[batch] = sent_at(network, [0.0] * SOURCES, seconds)
    base = costs[16].cpu_per_sent_packet
    rows = [
        [
            str(batch),
            kpps(seen.forwarded),
            f"{seen.cpu_per_sent_packet:.0f}",
            f"{base / seen.cpu_per_sent_packet:.2f}",
        ]
        for batch, seen in costs.items()
    ]
    heads = ["batch", "forwarded (Kpps)", "CPU time per packet (ns)", "rate relative to 16"]
    summary_row = [
        "Table 2: rate with batches of 1 relative to 16",
        "0.83",
        "0.83",
        f"{base / costs[1].cpu_per_sent_packet:.2f}",
    ]
    return table(heads, rows), summary_row


def on_veth(network: Network, seconds: float) -> Parts:
    """Measures the experiments on veth pairs; returns titles and results."""
    (network.folder / "burn.wasm").write_bytes(counting(TURNS))
    flat, first, full = measure_overload(network, seconds)
    interrupts, second, _ = measure_overload(network, seconds, full)
    reserved, third = measure_shares(network, full, seconds)
    mixed, fourth = measure_reserved(network, full, seconds)
    batched, fifth = measure_batches(network, seconds)
    return {
        "Overload (Figure 5)": (flat, first),
        "Overload with interrupts": (interrupts, second),
        "Functions with reservations of 1:2:3": (reserved, [third]),
        "Best effort and two reserved flows (Figure 6; Kpps)": (mixed, [fourth]),
        "Batches (Table 2)": (batched, [fifth]),
    }


def on_tap(network: Network, seconds: float) -> tuple[Parts, str]:
    """Measures on devices like the paper's; returns results and the points of Figures 7 to 9."""
    router_costs = section4.costs(network, section4.BATCHINGS, seconds)
    simple, _, bounded = router_costs.values()
    costs, summary_rows, points = section4.link_and_processor(network, router_costs, seconds)
    parts = {
        "Unbalanced shares (Table 3)": section4.best_effort(network, simple, seconds),
        "Idle ports (section 4.2)": section4.idle_ports(network, simple, seconds),
        "From link-bound to CPU-bound (Figures 7, 8 and 9)": (costs, summary_rows),
        "Packets of different cost (section 4.5)": section4.data_dependent(
            network, bounded, seconds
        ),
    }
    return parts, points


def write(parts: Parts, points: str, out: Path) -> None:
    """Writes the tables, their summaries, and the points."""
    summary = [summary_row for _, summary_rows in parts.values() for summary_row in summary_rows]
    text = table(["statement", "the paper", "the model", "live"], summary)
    out.write_text(text + "".join(f"\n### {title}\n\n{rows}" for title, (rows, _) in parts.items()))
    out.with_name("costs.csv").write_text(points)


def main() -> None:
    """Measures and writes."""
    out = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    with preferred(), tempfile.TemporaryDirectory() as folder:
        network = Network(Path(folder))
        try:
            network.make()
            parts = on_veth(network, seconds)
            more, points = on_tap(network, seconds / 5)
        finally:
            network.remove()
    write(parts | more, points, out)


if __name__ == "__main__":
    main()
