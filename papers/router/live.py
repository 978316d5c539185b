#!/usr/bin/env python3
"""The Router paper's experiments on the live router: `make paper-router`.

Usage: papers/router/live.py FILE.md [SECONDS]. Needs root, iproute2, curl and
target/release/millstream, or MILLSTREAM. Three sources send packets of 60 bytes by veth pairs from
network namespaces of their own. The router runs alone on the last core; senders share the others.
Where packets must be expensive enough to overload the router, each path has an extension that
counts down. section4.py has the experiments that need devices like the paper's. Tables go to
FILE.md, the points of Figures 7 to 9 to costs.csv beside it.
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
from network import SOURCES, STATUS, Network, Seen, Sender, kpps, preferred, table

#: Turns of the loop for each packet, so that the router's core is the bottleneck.
TURNS = 3_000
#: Offered load relative to the router's capacity; and the range in which the rate must be flat.
PARTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.3)
MOST = 3.0
#: Share of the offered load at which the router keeps up.
KEPT_UP = 0.9
Row = list[str]
#: By title, a table and its summary lines.
Parts = dict[str, tuple[str, list[Row]]]


def file(
    paths: list[str], batch: int, output: str = "", reading: str = "polled", **more: bool
) -> str:
    """Returns a router's file whose path number n takes the packets of source n.

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


def sent_at(network: Network, rates: list[float], seconds: float) -> Seen:
    """Measures while sources send at these rates a second; 0 is full speed."""

    def start() -> list[Sender]:
        places = itertools.cycle(network.others)
        every = enumerate(zip(network.sources, places, rates, strict=False))
        return [
            overload.sender(source, place, network.mac(f"in{at}"), rate)
            for at, (source, place, rate) in every
        ]

    return network.measure(start, network.far, seconds)


def overloaded(
    network: Network, seconds: float, full: Seen | None = None
) -> tuple[str, list[Row], Seen]:
    """Figure 5: forwarded packets up to three times the capacity; table, summary, and capacity.

    Polled; with interrupts if the capacity of polling is given.
    """
    reading = "interrupt" if full else "polled"
    with network.running(file([""] * SOURCES, 16, reading=reading, costly=True)):
        if full is None:
            # The senders at full speed measure the router's capacity.
            every = [sent_at(network, [0.0] * SOURCES, seconds / 2) for _ in range(section4.ROUNDS)]
            full = sorted(every, key=lambda one: one.each)[len(every) // 2]
        most = full.each / SOURCES
        seen = section4.rounds(
            lambda part: sent_at(network, [part * most] * SOURCES, seconds / 3),
            [(part,) for part in PARTS],
            section4.ROUNDS,
        )
    rows, beyond = [], []
    for some in seen.values():
        offered, got, each, worked = (
            median(of)
            for of in zip(
                *((sum(one.offered), one.all, one.each, one.worked) for one in some), strict=True
            )
        )
        rows.append([kpps(offered), kpps(got), f"{100 * worked:.0f} %", "it kept up", ""])
        if got < KEPT_UP * offered:
            beyond.append((each, offered / got))
            rows[-1][3:] = [kpps(each), each]
    peak = max((each for each, _ in beyond), default=1.0)
    rows = [[f"{one / peak:.2f}" if isinstance(one, float) else one for one in row] for row in rows]
    least, most = (
        min(beyond, default=(1.0, 0))[0] / peak,
        max((times for _, times in beyond), default=0.0),
    )
    live = f"{100 * least:.0f} % of the peak at least, up to {most:.1f} times what it forwards"
    gists = [["Fig 5: the rate under overload", "remains flat", "flat", live]]
    if reading == "interrupt":
        gists = [["Fig 5: the same by interrupts", "livelock", "livelock", live]]
    else:
        held = "yes" if least >= 0.95 and most >= MOST else "no"
        goal = "the goal: within 5 % of the peak from once to 3 times what it forwards"
        gists.append([goal, "", "yes", held])
    heads = [
        "offered (Kpps)",
        "forwarded (Kpps)",
        "of its processor the router had",
        "forwarded in a second of that (Kpps)",
        "of the peak",
    ]
    return table(heads, rows), gists, full


def shares(network: Network, full: Seen, seconds: float) -> tuple[str, Row]:
    """Three functions with reservations of 1, 2 and 3 parts, all overloaded."""
    part = full.cycles // 18 // 1_000_000
    # Senders alternate on their core, a few ms each: queues must cover this time. A saturated
    # output shares by its own discipline.
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
    heads = ["function", "offered (Kpps)", "forwarded (Kpps)", "reserved", "got", "error"]
    gist = [
        "the processor's time by reservation",
        "proportional",
        "proportional",
        f"within {worst:.1f} %",
    ]
    return table(heads, rows), gist


def promised(network: Network, full: Seen, seconds: float) -> tuple[str, Row]:
    """Figure 6: B and C have reservations, and A offers an increasing load."""
    rate = full.each / 5
    cost = f'cost = "{int(1.1 * full.cost)} ns"\nreservation = "{int(rate)} pps"'
    rows, kept = [], []
    with network.running(file(["", cost, cost], 16, costly=True, reserved=True)):
        for part in (0.2, 0.4, 0.6, 1.0, MOST):
            seen = sent_at(network, [part * full.each, rate * 0.98, rate * 0.98], seconds)
            kept += [seen.sent[at] / max(1.0, seen.offered[at]) for at in (1, 2)]
            dropped = [f"{seen.dropped[at]:.0f}" for at in range(SOURCES)]
            pairs = zip(seen.offered, seen.sent, strict=True)
            rows.append([*(kpps(of) for pair in pairs for of in pair), " / ".join(dropped)])
    heads = [f"{name} {what}" for name in "ABC" for what in ("offered", "got")]
    live = f"{100 * min(kept):.1f} % at least"
    gist = ["Fig 6: B and C get, whatever A offers", "all of theirs", "all", live]
    return table([*heads, "dropped, A / B / C (packets/s)"], rows), gist


def batches(network: Network, seconds: float) -> tuple[str, Row]:
    """Table 2: the gain of batching."""
    costs = {}
    for batch in (1, 4, 16, 32):
        with network.running(file([""] * SOURCES, batch)):
            costs[batch] = sent_at(network, [0.0] * SOURCES, seconds)
    base = costs[16].cost
    rows = [
        [str(batch), kpps(seen.all), f"{seen.cost:.0f}", f"{base / seen.cost:.2f}"]
        for batch, seen in costs.items()
    ]
    heads = ["batch", "forwarded (Kpps)", "processor a packet (ns)", "rate it allows / that of 16"]
    gist = [
        "Table 2: rate of batches of 1 against 16",
        "0.83",
        "0.83",
        f"{base / costs[1].cost:.2f}",
    ]
    return table(heads, rows), gist


def by_wires(network: Network, seconds: float) -> Parts:
    """The experiments on veth pairs: titles and results."""
    (network.folder / "burn.wasm").write_bytes(counting(TURNS))
    flat, first, full = overloaded(network, seconds)
    interrupts, second, _ = overloaded(network, seconds, full)
    reserved, third = shares(network, full, seconds)
    mixed, fourth = promised(network, full, seconds)
    batched, fifth = batches(network, seconds)
    return {
        "Overload (Figure 5)": (flat, first),
        "Overload, read by interrupts": (interrupts, second),
        "Functions that reserve 1, 2 and 3 parts": (reserved, [third]),
        "Best effort beside two promises (Figure 6; Kpps)": (mixed, [fourth]),
        "Batches (Table 2)": (batched, [fifth]),
    }


def by_devices(network: Network, seconds: float) -> tuple[Parts, str]:
    """The experiments on devices like the paper's, and the points of Figures 7 to 9."""
    of = section4.costs(network, section4.WAYS, seconds)
    simple, _, bounded = of.values()
    costs, gists, points = section4.link_and_processor(network, of, seconds)
    parts = {
        "Shares that are not right (Table 3)": section4.best_effort(network, simple, seconds),
        "Idle ports (section 4.2)": section4.idle_ports(network, simple, seconds),
        "From link-bound to CPU-bound (Figures 7, 8 and 9)": (costs, gists),
        "Packets that cost differently (section 4.5)": section4.data_dependent(
            network, bounded, seconds
        ),
    }
    return parts, points


def write(parts: Parts, points: str, out: Path) -> None:
    """Writes the tables, their summaries, and the points."""
    every = [gist for _, gists in parts.values() for gist in gists]
    text = table(["shape", "the paper", "the model", "live"], every)
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
            parts = by_wires(network, seconds)
            more, points = by_devices(network, seconds / 5)
        finally:
            network.remove()
    write(parts | more, points, out)


if __name__ == "__main__":
    main()
