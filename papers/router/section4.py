"""Sections 4.2, 4.4 and 4.5 of the Router paper on the live router.

TAP devices that hold 32 packets replace the paper's devices. Extensions replace its functions: they
count for the given time of a packet, less the router's own time, which is measured first. A
microsecond of the paper lasts `TIME_SCALE` microseconds here. Rounds alternate; each gives one
value of a quantity. Tables show medians, or the median round.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from devices import Flow, pace, with_devices
from network import SINKS, Network, Rates, kpps, table
from paced import VALUES

Case = tuple[Any, ...]
#: Values of a quantity, one a round, by its name in live.csv.
Samples = dict[str, list[float]]
#: The result of an experiment: a table and its samples.
Result = tuple[str, Samples]
#: Duration of one of the paper's microseconds here, µs.
TIME_SCALE = 2.0
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
#: The least number of rounds whose range holds the median with a probability of 95 %.
ROUNDS = 6
#: Number of rounds that measure the router's own costs.
COST_ROUNDS = 3
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

    seen = rounds(measure, itertools.product(routers.values(), (1, 1 + many)), COST_ROUNDS)
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
    seen = rounds(measure, dict.fromkeys(itertools.chain(*ways.values())), ROUNDS)
    rows, samples = [], {}
    for name, times in flows.items():
        balanced, *others = (seen[case] for case in ways[times])
        row = [name, f"1:{times}", kpps(median(one.per_cpu_second for one in balanced))]
        for way, some in zip(("without throttle", "input with the rest"), others, strict=True):
            ratios = [
                one.per_cpu_second / other.per_cpu_second
                for one, other in zip(some, balanced, strict=True)
            ]
            samples[f"table3 {name} {way}"] = ratios
            lost = median(one.dropped[0] / max(1.0, one.forwarded) for one in some)
            row += [f"{median(ratios):.2f}", f"{lost:.2f}"]
        offered = median(sum(one.offered) / max(1.0, one.forwarded) for one in balanced)
        rows.append([*row, f"{offered:.1f}"])
    heads = ["flow", "input : function and output", "balanced (Kpps)"]
    heads += [
        "1:10 / balanced",
        "dropped per sent packet",
        "1:10, input with the remainder / balanced",
    ]
    heads += ["dropped per sent packet", "offered / balanced"]
    return table(heads, rows), samples


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
    seen = rounds(measure, [(sleep,) for sleep in sleeps.values()], ROUNDS)
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
    heads = [
        "sleep of inputs",
        "forwarded (Kpps)",
        "CPU time of idle inputs",
        "offered / forwarded",
    ]
    ratios = [
        one.per_cpu_second / other.per_cpu_second for other, one in zip(*seen.values(), strict=True)
    ]
    return table(heads, rows), {"idle ports": ratios}


#: Limits of batches in Figures 7, 8 and 9.
BATCHINGS = {
    "simple batching": SIMPLE,
    "no batching": SINGLE,
    "batches of 30 µs": BOUNDED,
}
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
) -> tuple[str, Samples, str]:
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
    for (batching, cost), some in seen.items():
        best = median_round(some)
        sent = best.sent
        part = [best.forwarded_share(at) for at in range(len(sent))]
        lines.append(",".join([batching, str(cost), *(f"{one:.3f}" for one in part)]))
        rows.append([batching, f"{cost:g}", *(kpps(rate) for rate in sent), kpps(sum(sent))])
        rows[-1] += [f"{100 * one:.0f} %" for one in part]
    heads = [
        "batching",
        "A's function (µs of the paper's)",
        "A (Kpps)",
        "B",
        "C",
        "total",
    ]
    heads += ["A forwarded / offered", "B", "C"]
    samples: Samples = {}
    for figure, batching in zip(("fig7", "fig8", "fig9"), BATCHINGS, strict=True):
        samples[f"{figure} reserved"] = [
            min(
                seen[batching, cost][at].forwarded_share(flow)
                for cost in A_COSTS
                for flow in (1, 2)
            )
            for at in range(ROUNDS)
        ]
    _, single, bounded = BATCHINGS
    samples["fig9 total"] = [
        min(
            seen[bounded, cost][at].forwarded / seen[single, cost][at].forwarded for cost in A_COSTS
        )
        for at in range(ROUNDS)
    ]
    return table(heads, rows), samples, "\n".join(lines) + "\n"


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
            network,
            [flow, best],
            BOUNDED if queue > 1 else SINGLE,
            [pace(LINE)] * 2,
            outputs,
        ) as running:
            return running.measure(seconds)

    cases = [
        (False, False, 128),
        (True, False, 128),
        (False, True, 128),
        (True, True, 128),
        (True, True, 1),
    ]
    seen = rounds(measure, cases, ROUNDS)
    rows = []
    for (varies, one_link, queue), some in seen.items():
        one = median_round(some)
        offered, sent = one.offered, one.sent
        rows.append(
            [
                "4 to 12" if varies else "8",
                "shared" if one_link else "separate",
                str(queue),
            ]
        )
        rows[-1] += [
            kpps(offered[0]),
            kpps(sent[0]),
            f"{100 * one.forwarded_share(0):.0f} %",
        ]
        rows[-1] += [kpps(offered[1]), kpps(median(each.sent[1] for each in some))]
    heads = [
        "function (µs of the paper's)",
        "link",
        "queue length",
        "reserved flow offered (Kpps)",
        "forwarded",
    ]
    heads += ["forwarded / offered", "best effort offered", "forwarded"]
    fixed, varying = (seen[case] for case in cases[:2])
    samples = {
        "data reserved": [
            min(seen[case][at].forwarded_share(0) for case in cases[:4]) for at in range(ROUNDS)
        ],
        "data best effort": [
            one.sent[1] / other.sent[1] for one, other in zip(varying, fixed, strict=True)
        ],
        "data queue of 1": [one.forwarded_share(0) for one in seen[cases[4]]],
    }
    return table(heads, rows), samples
