#!/usr/bin/env python3
"""The Router paper's experiments on the live router: `make paper-router`.

Usage: papers/router/live.py FOLDER [SECONDS [EXPERIMENT]...]. Needs root, iproute2, curl and
target/release/millstream, or MILLSTREAM. Three sources send packets of 60 bytes by veth pairs from
network namespaces of their own. The router runs alone on the last core; senders share the others.
Where packets must be expensive enough to overload the router, each path has an extension that
counts down. section4.py has the experiments that need devices like the paper's.

Writes to FOLDER, for each experiment: its table, NAME.txt; its quantities by round, in live.csv;
and for `batching` the points of Figures 7 to 9, costs.csv. Nothing here knows the paper's or the
model's numbers: `millstream-papers` compares. The model's are printed beside the live ones from
model.csv, which `millstream-papers` writes.
"""

import csv
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import overload
import section4
from devices import UNLIMITED
from modules import FUEL_A_TURN, counting
from network import (
    SOURCES,
    STATUS,
    Network,
    Rates,
    Sender,
    kpps,
    median_cells,
    preferred,
    table,
)
from section4 import ROUNDS, Result

#: Turns of the loop for each packet, so that the router's core is the bottleneck.
TURNS = 3_000
#: Offered loads relative to the router's capacity.
PARTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.3)
#: The loads whose rates are compared: just beyond the capacity, and the highest.
OVERLOADED, HIGHEST = 1.5, 3.3
#: Loads of A in Figure 6, relative to the capacity.
A_PARTS = (0.2, 0.4, 0.6, 1.0, 3.0)
#: The share of its duration that a measurement of these experiments takes.
SHORT = 3
#: Values of a quantity by round, by its name.
HEAD = ("quantity", "round", "value")


def file(
    paths: list[str],
    batch: int,
    output: str = "",
    reading: str = "polled",
    **more: bool,
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


def capacity(network: Network, seconds: float) -> Rates:
    """Measures the capacity of the polling router: the median of some runs at full speed."""
    (network.folder / "burn.wasm").write_bytes(counting(TURNS))
    with network.running(file([""] * SOURCES, 16, costly=True)):
        runs = [sent_at(network, [0.0] * SOURCES, seconds / SHORT) for _ in range(3)]
    return sorted(runs, key=lambda run: run.per_cpu_second)[1]


def measure_overload(network: Network, seconds: float, reading: str) -> Result:
    """Measures Figure 5 up to three times the polling router's capacity."""
    rate = capacity(network, seconds).per_cpu_second / SOURCES
    with network.running(file([""] * SOURCES, 16, reading=reading, costly=True)):
        by_load = section4.rounds(
            lambda part: sent_at(network, [part * rate] * SOURCES, seconds / SHORT),
            [(part,) for part in PARTS],
            ROUNDS,
        )
    rows = []
    for runs in by_load.values():
        offered, forwarded, cpu_share, per_cpu_second = median_cells(
            [[sum(run.offered), run.forwarded, run.cpu_share, run.per_cpu_second] for run in runs]
        )
        rows.append([kpps(offered), kpps(forwarded), f"{100 * cpu_share:.0f} %"])
        rows[-1].append(kpps(per_cpu_second))
    heads = ["offered (Kpps)", "forwarded (Kpps)", "the router's share of its core"]
    pairs = zip(by_load[HIGHEST,], by_load[OVERLOADED,], strict=True)
    ratios = [one.per_cpu_second / other.per_cpu_second for one, other in pairs]
    loads = [sum(run.offered) / run.forwarded for run in by_load[HIGHEST,]]
    return (
        table([*heads, "forwarded per CPU second (Kpps)"], rows),
        {
            f"overload {reading}": ratios,
            f"overload {reading}: offered / forwarded": loads,
        },
    )


def measure_polled(network: Network, seconds: float) -> Result:
    """Measures Figure 5 with polling."""
    return measure_overload(network, seconds, "polled")


def measure_interrupt(network: Network, seconds: float) -> Result:
    """Measures Figure 5 with interrupts."""
    return measure_overload(network, seconds, "interrupt")


def measure_shares(network: Network, seconds: float) -> Result:
    """Measures three overloaded functions with reservations of 1:2:3."""
    part = capacity(network, seconds).cycles // 18 // 1_000_000
    # Senders alternate on their core every few ms, and queues must cover this time. A saturated
    # output would share by its own discipline.
    keys = [f'reservation = "{part * weight} Mcps"\nqueue = 4096' for weight in (1, 2, 3)]
    output = f'output-reservation = "{6 * part} Mcps"'
    with network.running(file(keys, 16, output, costly=True, reserved=True)):
        runs = [sent_at(network, [0.0] * SOURCES, seconds / SHORT) for _ in range(ROUNDS)]
    rows, worst = [], [0.0] * ROUNDS
    for at, weight in enumerate((1, 2, 3)):
        shares = [run.busy[at] / sum(run.busy) for run in runs]
        errors = [100 * abs(share * 6 / weight - 1) for share in shares]
        worst = [max(pair) for pair in zip(worst, errors, strict=True)]
        rates = [kpps(median(run.offered[at] for run in runs))]
        rates.append(kpps(median(run.sent[at] for run in runs)))
        rows.append(["ABC"[at], *rates, f"{weight / 6:.3f}", f"{median(shares):.3f}"])
    heads = ["function", "offered (Kpps)", "forwarded (Kpps)", "reserved", "used"]
    return table(heads, rows), {"shares": worst}


def measure_reserved(network: Network, seconds: float) -> Result:
    """Measures Figure 6: B and C have reservations, and A offers an increasing load."""
    full = capacity(network, seconds)
    rate = full.per_cpu_second / 5
    cost = f'cost = "{int(1.1 * full.cpu_per_sent_packet)} ns"\nreservation = "{int(rate)} pps"'
    with network.running(file(["", cost, cost], 16, costly=True, reserved=True)):
        by_load = section4.rounds(
            lambda part: sent_at(
                network,
                [part * full.per_cpu_second, rate * 0.98, rate * 0.98],
                seconds / SHORT,
            ),
            [(part,) for part in A_PARTS],
            ROUNDS,
        )
    rows = []
    for runs in by_load.values():
        cells = median_cells(
            [
                [cell for pair in zip(run.offered, run.sent, strict=True) for cell in pair]
                for run in runs
            ]
        )
        dropped = median_cells([run.dropped for run in runs])
        rows.append([*map(kpps, cells), " / ".join(f"{one:.0f}" for one in dropped)])
    heads = [f"{name} {what}" for name in "ABC" for what in ("offered", "forwarded")]
    kept = [
        min(
            runs[at].sent[flow] / max(1.0, runs[at].offered[flow])
            for runs in by_load.values()
            for flow in (1, 2)
        )
        for at in range(ROUNDS)
    ]
    return table([*heads, "dropped, A / B / C (packets/s)"], rows), {"fig6 reserved": kept}


def measure_batches(network: Network, seconds: float) -> Result:
    """Measures Table 2: the gain of batching."""

    def measure(batch: int) -> Rates:
        with network.running(file([""] * SOURCES, batch)):
            return sent_at(network, [0.0] * SOURCES, seconds / SHORT)

    seen = section4.rounds(measure, [(batch,) for batch in (1, 4, 16, 32)], ROUNDS)
    rows = []
    for (batch,), runs in seen.items():
        rate, cost = median_cells([[run.forwarded, run.cpu_per_sent_packet] for run in runs])
        rows.append([str(batch), kpps(rate), f"{cost:.0f}"])
    pairs = zip(seen[16,], seen[1,], strict=True)
    ratios = [one.cpu_per_sent_packet / other.cpu_per_sent_packet for one, other in pairs]
    heads = ["batch", "forwarded (Kpps)", "CPU time per packet (ns)"]
    return table(heads, rows), {"table2 batch of 1": ratios}


def measure_best_effort(network: Network, seconds: float) -> Result:
    """Measures Table 3."""
    (simple,) = section4.costs(network, {"": section4.SIMPLE}, seconds / 5).values()
    return section4.best_effort(network, simple, seconds / 5)


def measure_idle_ports(network: Network, seconds: float) -> Result:
    """Measures the end of section 4.2."""
    (simple,) = section4.costs(network, {"": section4.SIMPLE}, seconds / 5).values()
    return section4.idle_ports(network, simple, seconds / 5)


def measure_batching(network: Network, seconds: float) -> Result:
    """Measures Figures 7 to 9; writes their points to the folder of the network."""
    every = section4.costs(network, section4.BATCHINGS, seconds / 5)
    rows, samples, points = section4.link_and_processor(network, every, seconds / 5)
    (network.folder / "costs.csv").write_text(points)
    return rows, samples


def measure_data(network: Network, seconds: float) -> Result:
    """Measures section 4.5."""
    (bounded,) = section4.costs(network, {"": section4.BOUNDED}, seconds / 5).values()
    return section4.data_dependent(network, bounded, seconds / 5)


#: The experiments by name.
EXPERIMENTS: dict[str, Callable[[Network, float], Result]] = {
    "overload": measure_polled,
    "interrupts": measure_interrupt,
    "shares": measure_shares,
    "reserved": measure_reserved,
    "batches": measure_batches,
    "best-effort": measure_best_effort,
    "idle-ports": measure_idle_ports,
    "batching": measure_batching,
    "data": measure_data,
}


def read(path: Path) -> dict[str, list[str]]:
    """Returns the values of each quantity of a file, in order; empty without the file."""
    values: dict[str, list[str]] = {}
    if path.exists():
        with path.open() as lines:
            for row in csv.DictReader(lines):
                values.setdefault(row["quantity"], []).append(row["value"])
    return values


def write(name: str, result: Result, network: Network, folder: Path) -> None:
    """Writes the files of one experiment; replaces its quantities in live.csv."""
    rows, samples = result
    (folder / f"{name}.txt").write_text(rows)
    points = network.folder / "costs.csv"
    if points.exists():
        (folder / "costs.csv").write_text(points.read_text())
    values = read(folder / "live.csv")
    values |= {
        quantity: [f"{value:.4f}" for value in rounds] for quantity, rounds in samples.items()
    }
    values[f"{name}: steal time, percent at most"] = [f"{100 * max(network.steal):.2f}"]
    values[f"{name}: waiting for the core, percent"] = [f"{100 * median(network.waiting):.2f}"]
    with (folder / "live.csv").open("w", newline="") as lines:
        out = csv.writer(lines, lineterminator="\n")
        out.writerow(HEAD)
        for quantity in sorted(values):
            for at, value in enumerate(values[quantity], 1):
                out.writerow([quantity, at, value])
    model = read(folder.parent / "model.csv")
    for quantity, rounds in samples.items():
        (simulated,) = model.get(quantity, ["none"])
        print(
            f"{quantity}: measured {median(rounds):.3f}, simulated {simulated}",
            flush=True,
        )


def main() -> None:
    """Measures and writes."""
    folder = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    cores = os.sched_getaffinity(0)
    for name in sys.argv[3:] or EXPERIMENTS:
        # A network takes the router's core from this process.
        os.sched_setaffinity(0, cores)
        with preferred(), tempfile.TemporaryDirectory() as scratch:
            network = Network(Path(scratch))
            try:
                network.make()
                write(name, EXPERIMENTS[name](network, seconds), network, folder)
            finally:
                network.remove()


if __name__ == "__main__":
    main()
