"""Sections 4.2, 4.4 and 4.5 of the Router paper on the live router.

TAP devices that hold 32 packets replace the paper's devices. Extensions replace its functions: they
count for the given time of a packet, less the router's own time, which is measured first. A
microsecond of the paper lasts `TIME_SCALE` microseconds here. Rounds alternate. Results are
medians of ratios, otherwise the median round.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from devices import Flow, pace, with_devices
from network import SINKS, Network, Rates, kpps, table
from paced import VALUES

Row = list[str]
Case = tuple[Any, ...]
#: The result of an experiment: a table and its summary lines.
Result = tuple[str, list[Row]]
#: Duration of one of the paper's microseconds here, µs.
TIME_SCALE = 1.5
#: Maximum rate of the paper's sources and links, packets per second.
LINE = 140_000 / TIME_SCALE
#: Reservation of best effort in section 4.5, packets per second: about the remainder.
BEST_EFFORT = 117_000 / TIME_SCALE
#: A rate above the maximum of a source here, packets per second.
FLOOD = 1e6
#: Cost of a packet in the paper's router without its function, by Table 2, µs.
ROUTER_US = 3.38
#: Margin of reservations over the measured costs.
MARGIN = 1.15
ROUNDS = 3
#: Number of rounds where differences of one percent matter.
MANY_ROUNDS = 5
SIMPLE = 'batch = 16\nslice = "1 s"\ngather = "0 us"'
SINGLE = 'batch = 1\nslice = "1 s"\ngather = "0 us"'
BOUNDED = f'batch = 16\nslice = "{int(30 * TIME_SCALE)} us"\ngather = "0 us"'
QUEUE = "queue = 128"


@dataclass
class Costs:
    """Costs of the router for a packet, ns."""

    input: float
    #: The function of an extension that counts to one.
    forward: float
    #: Each further turn of the extension.
    turn: float
    output: float
    #: Cycles per second of the core.
    cycles: int

    def turns(self, function_ns: float) -> int:
        """Returns the turns of a function that takes this time."""
        return max(1, round((function_ns - self.forward) / self.turn))

    def function(self, paper_us: float) -> float:
        """Returns the cost of a function at the paper's ratio of function to router, ns."""
        return (paper_us + ROUTER_US) * 1e3 * TIME_SCALE - self.input - self.output

    def turns_like(self, paper_us: float) -> int:
        """Returns the turns of that function."""
        return self.turns(self.function(paper_us))


def cycles(part: float) -> str:
    """Formats a reservation of this number of cycles per second."""
    return f"{max(1, int(part / 1e3))} Kcps"


def rounds(
    measure: Callable[..., Rates], cases: Iterable[Case], many: int
) -> dict[Case, list[Rates]]:
    """Measures each case in alternating rounds; the case holds the arguments of `measure`."""
    cases = list(cases)
    seen: dict[Case, list[Rates]] = {case: [] for case in cases}
    for _ in range(many):
        for case in cases:
            seen[case].append(measure(*case))
    return seen


def median_round(some: list[Rates]) -> Rates:
    """Returns the median round by packets forwarded."""
    return sorted(some, key=lambda one: one.forwarded)[len(some) // 2]


def costs(network: Network, routers: dict[str, str], seconds: float) -> dict[str, Costs]:
    """Measures the costs of each of these routers, with a flow that overloads it."""
    many = 4_000

    def measure(router: str, turns: int) -> Rates:
        with with_devices(network, [Flow(FLOOD, turns, path=QUEUE)], router) as running:
            return running.measure(seconds)

    seen = rounds(measure, itertools.product(routers.values(), (1, 1 + many)), ROUNDS)
    ports = 1 + SINKS

    def of(router: str) -> Costs:
        def cpu_per_packet(turns: int, process: int) -> float:
            return median(one.cpu_per_packet(process) for one in seen[router, turns])

        least, most = (cpu_per_packet(turns, ports) for turns in (1, 1 + many))
        read, written = (cpu_per_packet(1 + many, process) for process in (0, ports + 2))
        return Costs(read, least, (most - least) / many, written, seen[router, 1][0].cycles)

    return {name: of(router) for name, router in routers.items()}


def best_effort(network: Network, of: Costs, seconds: float) -> Result:
    """Measures Table 3: one flow at a time through functions with balanced and unbalanced shares.

    An unbalanced share is ten times the input's.
    """

    def measure(times: int, share: int, reading: bool) -> Rates:
        """Measures; function and output have `times` the input's cost, `share` its reservation."""
        function = times * of.input - of.output
        unit = 0.9 * of.cycles / (1 + share)
        flow = Flow(FLOOD, of.turns(function), path=f"{QUEUE}\n")
        flow.path += f'reservation = "{cycles(unit * share * function / (times * of.input))}"'
        flow.port = 'longest-sleep = "0 us"\n'
        flow.port += f'input-reservation = "{cycles(unit)}"' if reading else ""
        output = f'output-reservation = "{cycles(unit * share * of.output / (times * of.input))}"'
        with with_devices(network, [flow], SIMPLE, outputs=[output, ""]) as running:
            return running.measure(seconds)

    flows = {"A": 5, "B": 10, "C": 15}
    # Balanced; unbalanced; unbalanced with an input that has the remainder.
    ways = {
        times: ((times, times, True), (times, 10, True), (times, 10, False))
        for times in flows.values()
    }
    seen = rounds(measure, dict.fromkeys(itertools.chain(*ways.values())), MANY_ROUNDS)
    rows, parts = [], []
    for name, times in flows.items():
        balanced, *others = (seen[case] for case in ways[times])
        row = [name, f"1:{times}", kpps(median(one.per_cpu_second for one in balanced))]
        for some in others:
            parts.append(
                median(
                    one.per_cpu_second / other.per_cpu_second
                    for one, other in zip(some, balanced, strict=True)
                )
            )
            lost = median(one.dropped[0] / max(1.0, one.forwarded) for one in some)
            row += [f"{parts[-1]:.2f}", f"{lost:.2f}"]
        offered = median(sum(one.offered) / max(1.0, one.forwarded) for one in balanced)
        rows.append([*row, f"{offered:.1f}"])
    heads = ["flow", "input : function and output", "balanced (Kpps)"]
    heads += [
        "1:10 / balanced",
        "dropped per sent packet",
        "1:10, input with the remainder / balanced",
    ]
    heads += ["dropped per sent packet", "offered / balanced"]
    what = "Table 3: A, B and C at 1:10 relative to balanced,"
    without, left = (", ".join(f"{part:.2f}" for part in parts[at::2]) for at in (0, 1))
    summary_rows = [[f"{what} without throttle", "1.00, 1.00, 0.92", "1.00, 1.00, 0.98", without]]
    summary_rows += [
        [f"{what} with throttle", "all 1.00", "all 1.00", f"{left} (input has the remainder)"]
    ]
    return table(heads, rows), summary_rows


def idle_ports(network: Network, of: Costs, seconds: float) -> Result:
    """Measures the end of section 4.2: two of three ports are idle; all may read at line rate."""
    times = 6 / 1.6
    function = times * of.input - of.output
    unit = 0.9 * of.cycles / (3 + times)

    def measure(sleep: str) -> Rates:
        port = f'longest-sleep = "{sleep}"\ninput-reservation = "{cycles(unit)}"'
        share = unit * times
        path = f'{QUEUE}\nreservation = "{cycles(share * function / (times * of.input))}"'
        flows = [Flow(rate, of.turns(function), port=port, path=path) for rate in (FLOOD, 0, 0)]
        # Idle inputs have a negligible reservation.
        for idle in flows[1:]:
            idle.path = 'reservation = "1 Mcps"'
        output = f'output-reservation = "{cycles(share * of.output / (times * of.input))}"'
        with with_devices(network, flows, SIMPLE, outputs=[output, ""]) as running:
            return running.measure(seconds)

    sleeps = {"none": "0 us", "estimator, at most 150 µs": "150 us"}
    seen = rounds(measure, [(sleep,) for sleep in sleeps.values()], MANY_ROUNDS)
    rows = []
    for name, every in zip(sleeps, seen.values(), strict=True):
        idle = median(sum(one.used[1:3]) / sum(one.used) for one in every)
        offered = median(sum(one.offered) / max(1.0, one.forwarded) for one in every)
        row = [
            name,
            kpps(median(one.per_cpu_second for one in every)),
            f"{100 * idle:.0f} %",
            f"{offered:.1f}",
        ]
        rows.append(row)
    ratio = median(
        one.per_cpu_second / other.per_cpu_second for other, one in zip(*seen.values(), strict=True)
    )
    heads = [
        "sleep of inputs",
        "forwarded (Kpps)",
        "CPU time of idle inputs",
        "offered / forwarded",
    ]
    summary_row = [
        "section 4.2: two idle ports, rate with estimator relative to without",
        "1.43",
        "1.46",
        f"{ratio:.2f}",
    ]
    return table(heads, rows), [summary_row]


#: Limits of batches in Figures 7, 8 and 9.
BATCHINGS = {"simple batching": SIMPLE, "no batching": SINGLE, "batches of 30 µs": BOUNDED}
#: Costs of A's function in these figures, µs of the paper's.
A_COSTS = (0.3, 3.0, 6.0, 10.0, 20.0, 30.0)


def reserved_flow(of: Costs, rate: float, function_ns: float, **more: Any) -> Flow:
    """Returns a flow that reserves `rate` packets per second at its input and its function."""
    flow = Flow(rate, of.turns(function_ns), **more)
    flow.port = f'input-reservation = "{cycles(MARGIN * rate * of.input * of.cycles / 1e9)}"'
    flow.path += f'\nreservation = "{cycles(MARGIN * rate * function_ns * of.cycles / 1e9)}"'
    return flow


def output_reservation(of: Costs, rate: float) -> str:
    """Returns the reservation of an output for this number of packets per second."""
    return f'output-reservation = "{cycles(MARGIN * rate * of.output * of.cycles / 1e9)}"'


def link_and_processor(
    network: Network, every: dict[str, Costs], seconds: float
) -> tuple[str, list[Row], str]:
    """Measures Figures 7, 8 and 9: B and C have reservations; A's cost increases.

    A shares C's link. The last result has the points of the figures: the forwarded fraction of each
    flow's load.
    """
    promised, offered = 90_000 / TIME_SCALE, 50_000 / TIME_SCALE

    def measure(batching: str, cost_us: float) -> Rates:
        of = every[batching]
        function = of.function(0.3)
        b, c = (
            reserved_flow(of, promised, function, path=f"{QUEUE}\nweight = 90", output=at)
            for at in (0, 1)
        )
        a = reserved_flow(of, offered, 0, path=f"{QUEUE}\nweight = 50", output=1)
        a = replace(a, turns=of.turns_like(cost_us), path=f"{QUEUE}\nweight = 50")
        outputs = [output_reservation(of, promised), output_reservation(of, LINE)]
        with with_devices(
            network, [a, b, c], BATCHINGS[batching], [pace(LINE)] * 2, outputs
        ) as running:
            return running.measure(seconds)

    seen = rounds(measure, itertools.product(BATCHINGS, A_COSTS), ROUNDS)
    rows, lines = [], ["way,cost_us,A,B,C"]
    least: dict[str, list[float]] = {}
    total: dict[str, list[float]] = {}
    for (batching, cost), some in seen.items():
        best = median_round(some)
        sent = best.sent
        part = [best.forwarded_share(at) for at in range(len(sent))]
        lines.append(",".join([batching, str(cost), *(f"{one:.3f}" for one in part)]))
        rows.append([batching, f"{cost:g}", *(kpps(rate) for rate in sent), kpps(sum(sent))])
        rows[-1] += [f"{100 * one:.0f} %" for one in part]
        least.setdefault(batching, []).append(min(part[1:]))
        total.setdefault(batching, []).append(sum(sent))
    heads = ["batching", "A's function (µs of the paper's)", "A (Kpps)", "B", "C", "total"]
    heads += ["A forwarded / offered", "B", "C"]
    simple, none, bounded = (f"at least {100 * min(parts):.0f} %" for parts in least.values())
    more = [one / other for other, one in zip(*list(total.values())[1:], strict=True)]
    share = "share of B's and C's load that is forwarded"
    summary_rows = [
        [
            f"Fig 7: simple batching: {share}",
            "less, at times none",
            "at least 77 %",
            simple,
        ],
        [f"Fig 8: no batching: {share}", "all", "all", none],
        [f"Fig 9: batches of 30 µs: {share}", "all", "all", bounded],
        [
            "Fig 9: total rate relative to Fig 8",
            "higher",
            "higher",
            f"{min(more):.2f} to {max(more):.2f}",
        ],
    ]
    return table(heads, rows), summary_rows, "\n".join(lines) + "\n"


def data_dependent(network: Network, of: Costs, seconds: float) -> Result:
    """Measures section 4.5: a reserved flow with packets of 8 or 4 to 12 µs, and best effort."""
    promised = 50_000 / TIME_SCALE
    mean = of.function(8.0)
    spread = 8_000 * TIME_SCALE / of.turn

    def measure(varies: bool, one_link: bool, queue: int) -> Rates:
        keys = f"queue = {queue}\nweight = "
        flow = reserved_flow(of, promised, mean, path=f"{keys}50")
        if varies:
            by_byte = round(spread / VALUES)
            flow = replace(flow, turns=flow.turns - by_byte * (VALUES - 1) // 2, by_byte=by_byte)
        best = Flow(LINE, of.turns_like(0.3), output=0 if one_link else 1, path=f"{keys}90")
        reading = BEST_EFFORT * of.input * of.cycles / 1e9
        best.port = f'input-reservation = "{cycles(reading)}"'
        outputs = [
            output_reservation(of, LINE if one_link else promised),
            "" if one_link else output_reservation(of, LINE),
        ]
        with with_devices(
            network, [flow, best], BOUNDED if queue > 1 else SINGLE, [pace(LINE)] * 2, outputs
        ) as running:
            return running.measure(seconds)

    cases = [
        (False, False, 128),
        (True, False, 128),
        (False, True, 128),
        (True, True, 128),
        (True, True, 1),
    ]
    seen = rounds(measure, cases, MANY_ROUNDS)
    rows, kept, best = [], [], []
    for (varies, one_link, queue), some in seen.items():
        one = median_round(some)
        offered, sent = one.offered, one.sent
        kept.append(one.forwarded_share(0))
        # Best effort has the remainder, so every disturbance of the router reduces its rate.
        best.append(max(each.sent[1] for each in some))
        rows.append(
            ["4 to 12" if varies else "8", "shared" if one_link else "separate", str(queue)]
        )
        rows[-1] += [kpps(offered[0]), kpps(sent[0]), f"{100 * kept[-1]:.0f} %"]
        rows[-1] += [kpps(offered[1]), kpps(best[-1])]
    heads = [
        "function (µs of the paper's)",
        "link",
        "queue length",
        "reserved flow offered (Kpps)",
        "forwarded",
    ]
    heads += ["forwarded / offered", "best effort offered", "forwarded, best round"]
    lowest = f"at least {100 * min(kept[:4]):.0f} %"
    share = "section 4.5: share of the reserved flow that is forwarded"
    summary_rows = [
        [f"{share}, queues of 128", "all", "all", lowest],
        [
            "section 4.5: best effort with 4 to 12 µs relative to 8 µs",
            "0.94",
            "1.00",
            f"{best[1] / best[0]:.2f}",
        ],
        [
            f"{share}, queues of 1",
            "60 %",
            "all",
            f"{100 * kept[4]:.0f} %",
        ],
    ]
    return table(heads, rows), summary_rows
