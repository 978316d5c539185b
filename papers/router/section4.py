"""Sections 4.2, 4.4 and 4.5 of the Router paper on the live router.

Devices and functions are imitated by TAP devices that hold 32 packets, and by extensions that count
for the given time of a packet, less the router's own time, which is measured first. A microsecond
of the paper lasts `SLOWER` here. Rounds alternate. Results are medians of ratios, otherwise the
median round.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from devices import Flow, pace, with_devices
from network import SINKS, Network, Seen, kpps, table
from paced import VALUES

Row = list[str]
Case = tuple[Any, ...]
#: The result of an experiment: a table and its summary lines.
Made = tuple[str, list[Row]]
#: Microseconds here for one of the paper's.
SLOWER = 1.5
#: Maximum rate of the paper's sources and links, packets a second.
LINE = 140_000 / SLOWER
#: Reservation of best effort in section 4.5, packets a second: about the remainder.
BEST_EFFORT = 117_000 / SLOWER
#: More than a source here can send.
FLOOD = 1e6
#: Cost of a packet in the paper's router without its function, by Table 2, µs.
BESIDE = 3.38
#: Margin of reservations over the measured costs.
MARGIN = 1.15
ROUNDS = 3
#: Where differences of one percent matter.
MANY_ROUNDS = 5
SIMPLE = 'batch = 16\nslice = "1 s"\ngather = "0 us"'
SINGLE = 'batch = 1\nslice = "1 s"\ngather = "0 us"'
BOUNDED = f'batch = 16\nslice = "{int(30 * SLOWER)} us"\ngather = "0 us"'
QUEUE = "queue = 128"


@dataclass
class Costs:
    """Costs of the router for a packet, ns."""

    input: float
    #: The function of an extension that counts to one, and each further turn.
    forward: float
    turn: float
    output: float
    #: The core's time, a second.
    cycles: int

    def turns(self, function_ns: float) -> int:
        """Returns the turns after which a function has taken this time."""
        return max(1, round((function_ns - self.forward) / self.turn))

    def function(self, paper_us: float) -> float:
        """Cost of a function at the paper's ratio of function to router, ns."""
        return (paper_us + BESIDE) * 1e3 * SLOWER - self.input - self.output

    def like(self, paper_us: float) -> int:
        """Returns the turns of that function."""
        return self.turns(self.function(paper_us))


def cycles(part: float) -> str:
    """Formats a reservation of this rate."""
    return f"{max(1, int(part / 1e3))} Kcps"


def rounds(
    measure: Callable[..., Seen], cases: Iterable[Case], many: int
) -> dict[Case, list[Seen]]:
    """Measures each case in alternating rounds; `measure` is given the case."""
    cases = list(cases)
    seen: dict[Case, list[Seen]] = {case: [] for case in cases}
    for _ in range(many):
        for case in cases:
            seen[case].append(measure(*case))
    return seen


def middle(some: list[Seen]) -> Seen:
    """Returns the median round by packets forwarded."""
    return sorted(some, key=lambda one: one.all)[len(some) // 2]


def costs(network: Network, routers: dict[str, str], seconds: float) -> dict[str, Costs]:
    """Measures the costs of each of these routers, with a flow that overloads it."""
    many = 4_000

    def measure(router: str, turns: int) -> Seen:
        with with_devices(network, [Flow(FLOOD, turns, path=QUEUE)], router) as running:
            return running.measure(seconds)

    seen = rounds(measure, itertools.product(routers.values(), (1, 1 + many)), ROUNDS)
    ports = 1 + SINKS

    def of(router: str) -> Costs:
        def a_packet(turns: int, process: int) -> float:
            return median(one.a_packet(process) for one in seen[router, turns])

        least, most = (a_packet(turns, ports) for turns in (1, 1 + many))
        read, written = (a_packet(1 + many, process) for process in (0, ports + 2))
        return Costs(read, least, (most - least) / many, written, seen[router, 1][0].cycles)

    return {name: of(router) for name, router in routers.items()}


def best_effort(network: Network, of: Costs, seconds: float) -> Made:
    """Table 3: one flow at a time through functions with the right share, and ten times the
    input's.
    """

    def measure(times: int, share: int, reading: bool) -> Seen:
        """Function and output cost `times` as much as input and reserve `share` as much."""
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
    # Balanced; unbalanced; and unbalanced with an input that has the remainder.
    ways = {
        times: ((times, times, True), (times, 10, True), (times, 10, False))
        for times in flows.values()
    }
    seen = rounds(measure, dict.fromkeys(itertools.chain(*ways.values())), MANY_ROUNDS)
    rows, parts = [], []
    for name, times in flows.items():
        balanced, *others = (seen[way] for way in ways[times])
        row = [name, f"1:{times}", kpps(median(one.each for one in balanced))]
        for some in others:
            parts.append(
                median(one.each / other.each for one, other in zip(some, balanced, strict=True))
            )
            lost = median(one.dropped[0] / max(1.0, one.all) for one in some)
            row += [f"{parts[-1]:.2f}", f"{lost:.2f}"]
        offered = median(sum(one.offered) / max(1.0, one.all) for one in balanced)
        rows.append([*row, f"{offered:.1f}"])
    heads = ["flow", "input : function and output", "balanced (Kpps)"]
    heads += [
        "1:10, of balanced",
        "dropped for one sent",
        "1:10, reading what is left, of balanced",
    ]
    heads += ["dropped for one sent", "offered, of balanced"]
    what = "Table 3: A, B and C at 1:10, of balanced,"
    without, left = (", ".join(f"{part:.2f}" for part in parts[at::2]) for at in (0, 1))
    gists = [[f"{what} without throttle", "1.00, 1.00, 0.92", "1.00, 1.00, 0.98", without]]
    gists += [
        [f"{what} with throttle", "all 1.00", "all 1.00", f"{left} (reading has what is left)"]
    ]
    return table(heads, rows), gists


def idle_ports(network: Network, of: Costs, seconds: float) -> Made:
    """End of section 4.2: two of three ports are idle, and all may read at line speed."""
    times = 6 / 1.6
    function = times * of.input - of.output
    unit = 0.9 * of.cycles / (3 + times)

    def measure(sleep: str) -> Seen:
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

    sleeps = {"none": "0 us", "by the estimator, 150 µs at most": "150 us"}
    seen = rounds(measure, [(sleep,) for sleep in sleeps.values()], MANY_ROUNDS)
    rows = []
    for name, every in zip(sleeps, seen.values(), strict=True):
        idle = median(sum(one.used[1:3]) / sum(one.used) for one in every)
        offered = median(sum(one.offered) / max(1.0, one.all) for one in every)
        row = [
            name,
            kpps(median(one.each for one in every)),
            f"{100 * idle:.0f} %",
            f"{offered:.1f}",
        ]
        rows.append(row)
    ratio = median(one.each / other.each for other, one in zip(*seen.values(), strict=True))
    heads = [
        "sleep of inputs",
        "forwarded (Kpps)",
        "of the time, in idle inputs",
        "offered, of forwarded",
    ]
    gist = [
        "section 4.2: two idle ports, with estimator against without",
        "1.43",
        "1.46",
        f"{ratio:.2f}",
    ]
    return table(heads, rows), [gist]


#: Figures 7, 8 and 9: the bounds of batches.
WAYS = {"simple batching": SIMPLE, "no batching": SINGLE, "batches of 30 µs": BOUNDED}
#: Cost of A's function in them, µs of the paper's.
A_COSTS = (0.3, 3.0, 6.0, 10.0, 20.0, 30.0)


def promise(of: Costs, rate: float, function_ns: float, **more: Any) -> Flow:
    """A flow that reserves the cost of `rate` packets a second at its input and its function."""
    flow = Flow(rate, of.turns(function_ns), **more)
    flow.port = f'input-reservation = "{cycles(MARGIN * rate * of.input * of.cycles / 1e9)}"'
    flow.path += f'\nreservation = "{cycles(MARGIN * rate * function_ns * of.cycles / 1e9)}"'
    return flow


def leaving(of: Costs, rate: float) -> str:
    """The reservation of an output for this number of packets a second."""
    return f'output-reservation = "{cycles(MARGIN * rate * of.output * of.cycles / 1e9)}"'


def link_and_processor(
    network: Network, every: dict[str, Costs], seconds: float
) -> tuple[str, list[Row], str]:
    """Figures 7, 8 and 9: B and C have reservations, A shares C's link and gets more expensive.

    The last result is for a figure: each flow's fraction of its offered load.
    """
    promised, offered = 90_000 / SLOWER, 50_000 / SLOWER

    def measure(way: str, cost_us: float) -> Seen:
        of = every[way]
        function = of.function(0.3)
        b, c = (
            promise(of, promised, function, path=f"{QUEUE}\nweight = 90", output=at)
            for at in (0, 1)
        )
        a = promise(of, offered, 0, path=f"{QUEUE}\nweight = 50", output=1)
        a = replace(a, turns=of.like(cost_us), path=f"{QUEUE}\nweight = 50")
        outputs = [leaving(of, promised), leaving(of, LINE)]
        with with_devices(network, [a, b, c], WAYS[way], [pace(LINE)] * 2, outputs) as running:
            return running.measure(seconds)

    seen = rounds(measure, itertools.product(WAYS, A_COSTS), ROUNDS)
    rows, lines = [], ["way,cost_us,A,B,C"]
    least: dict[str, list[float]] = {}
    together: dict[str, list[float]] = {}
    for (way, cost), some in seen.items():
        best = middle(some)
        got = best.sent
        part = [best.kept(at) for at in range(len(got))]
        lines.append(",".join([way, str(cost), *(f"{one:.3f}" for one in part)]))
        rows.append([way, f"{cost:g}", *(kpps(one) for one in got), kpps(sum(got))])
        rows[-1] += [f"{100 * one:.0f} %" for one in part]
        least.setdefault(way, []).append(min(part[1:]))
        together.setdefault(way, []).append(sum(got))
    heads = ["way", "A's function (µs of the paper's)", "A (Kpps)", "B", "C", "together"]
    heads += ["of A offered", "of B", "of C"]
    simple, none, bounded = (f"{100 * min(of):.0f} % at least" for of in least.values())
    more = [one / other for other, one in zip(*list(together.values())[1:], strict=True)]
    gists = [
        [
            "Fig 7: simple batching: of theirs B and C get",
            "less, at times nothing",
            "77 % at least",
            simple,
        ],
        ["Fig 8: no batching: B and C get", "all of theirs", "all", none],
        ["Fig 9: batches of 30 µs: B and C get", "all of theirs", "all", bounded],
        ["Fig 9: all together, of Fig 8", "more", "more", f"{min(more):.2f} to {max(more):.2f}"],
    ]
    return table(heads, rows), gists, "\n".join(lines) + "\n"


def data_dependent(network: Network, of: Costs, seconds: float) -> Made:
    """Section 4.5: a reserved flow with packets of 8 µs, or 4 to 12, beside best effort."""
    promised = 50_000 / SLOWER
    mean = of.function(8.0)
    spread = 8_000 * SLOWER / of.turn

    def measure(varies: bool, one_link: bool, queue: int) -> Seen:
        keys = f"queue = {queue}\nweight = "
        flow = promise(of, promised, mean, path=f"{keys}50")
        if varies:
            by_byte = round(spread / VALUES)
            flow = replace(flow, turns=flow.turns - by_byte * (VALUES - 1) // 2, by_byte=by_byte)
        best = Flow(LINE, of.like(0.3), output=0 if one_link else 1, path=f"{keys}90")
        reading = BEST_EFFORT * of.input * of.cycles / 1e9
        best.port = f'input-reservation = "{cycles(reading)}"'
        outputs = [
            leaving(of, LINE if one_link else promised),
            "" if one_link else leaving(of, LINE),
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
        one = middle(some)
        offered, got = one.offered, one.sent
        kept.append(one.kept(0))
        # It has the remainder: every disturbance of the router is its loss.
        best.append(max(each.sent[1] for each in some))
        rows.append(
            ["4 to 12" if varies else "8", "one" if one_link else "each its own", str(queue)]
        )
        rows[-1] += [kpps(offered[0]), kpps(got[0]), f"{100 * kept[-1]:.0f} %"]
        rows[-1] += [kpps(offered[1]), kpps(best[-1])]
    heads = [
        "function (µs of the paper's)",
        "link",
        "queues of",
        "reserved flow offers (Kpps)",
        "gets",
    ]
    heads += ["of it", "best effort offers", "gets, best round"]
    few = f"{100 * min(kept[:4]):.0f} % at least"
    gists = [
        ["section 4.5: the reserved flow gets, queues of 128", "all of its rate", "all", few],
        [
            "section 4.5: best effort beside 4 to 12 µs, of that beside 8 µs",
            "0.94",
            "1.00",
            f"{best[1] / best[0]:.2f}",
        ],
        [
            "section 4.5: the same flow, queues of 1",
            "60 % of its rate",
            "all",
            f"{100 * kept[4]:.0f} %",
        ],
    ]
    return table(heads, rows), gists
