"""Rules of the scheduler: gates, credits, invalid arguments, disciplines in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from millstream import ContractError, Head, ScenarioError, Scheduler


def test_a_closed_gate_and_missing_credits_block_a_stream() -> None:
    scheduler = Scheduler("fifo")
    gated = scheduler.add_stream()
    credited = scheduler.add_stream(credits=1)
    scheduler.set_eligible(0, gated, False)
    scheduler.enqueue(0, gated, 100, tag=7)
    scheduler.enqueue(0, credited, 128)
    assert scheduler.dequeue(1) is None
    assert (scheduler.waiting(), scheduler.waiting(gated), len(scheduler)) == (2, 1, 2)
    scheduler.add_credits(2, credited, 1)
    sent = scheduler.dequeue(3)
    assert sent is not None and sent.stream == credited
    scheduler.set_eligible(4, gated, True)
    sent = scheduler.dequeue(5)
    assert sent is not None and (sent.stream, sent.tag, sent.event) == (gated, 7, "sent")
    assert repr(sent).startswith("Departure(time_ns=5, stream=0, packet=0, bytes=100,")


def test_a_rate_cap_counts_whole_cells() -> None:
    # 1,500 bytes of IP behind an Ethernet header are 32 cells of 53 bytes under IPoA (VC-MUX).
    scheduler = Scheduler("fifo", overhead_bytes=-6, framing="atm")
    scheduler.add_stream(max_rate_bps=8_000_000, burst_bytes=32 * 53)
    assert scheduler.enqueue_batch(0, 0, [1514, 1514]) == 2
    assert len(scheduler.dequeue_batch(0)) == 1
    assert scheduler.next_eligible_ns() == 32 * 53 * 1_000
    with pytest.raises(ScenarioError, match="framing"):
        Scheduler("fifo", framing="vdsl")


def test_a_rate_cap_gives_the_next_eligible_time() -> None:
    scheduler = Scheduler("fifo")
    scheduler.add_stream(max_rate_bps=8_000_000, burst_bytes=1000)
    assert scheduler.enqueue_batch(0, 0, [1000, 1000]) == 2
    assert scheduler.next_eligible_ns() is None
    assert len(scheduler.dequeue_batch(0)) == 1
    assert scheduler.next_eligible_ns() == 1_000_000
    assert len(scheduler.dequeue_batch([999_999, 1_000_000])) == 1


def test_a_full_queue_drops_and_counts() -> None:
    scheduler = Scheduler("fifo", events=True)
    scheduler.add_stream(queue=2)
    assert [scheduler.enqueue(0, 0, 64) for _ in range(3)] == [0, 1, None]
    assert scheduler.counters().dropped_full.tolist() == [1]
    assert scheduler.take_drops().packet.tolist() == [2]


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        ({}, "the discipline requires `period`, which the stream does not set"),
        ({"period_ns": 0}, "a request period of 0; it must be at least 1 ns"),
        (
            {"period_ns": 1, "window": (2, 1)},
            "window 2/1 allows more losses than it has packets; x must be at most y",
        ),
        ({"period_ns": 1, "weight": 0}, "weight = 0; must be an integer from 1 to 4294967295"),
        ({"period_ns": 1, "weight": -1}, "weight = -1; must be an integer from 1 to 4294967295"),
        ({"period_ns": 1.5}, "period_ns = 1.5; must be an integer from 0 to 18446744073709551615"),
        ({"period": 40}, "period = 40; must be a text with a unit; period_ns takes a number"),
        ({"period": "40"}, "period: `40` has no unit"),
        ({"period": "1 ms", "period_ns": 1}, "give either period or period_ns"),
        ({"period": "1 ms", "window": "half"}, "window = 'half'; must be \"x/y\" or (x, y)"),
        ({"period_ns": 1, "late": "never"}, "late = `never`; must be `send` or `drop`"),
        ({"period_ns": 1, "max_rate_bps": 5}, "a rate cap needs both"),
    ],
)
def test_an_invalid_contract_is_rejected(contract: dict[str, object], says: str) -> None:
    scheduler = Scheduler("dwcs")
    with pytest.raises(ContractError) as refused:
        scheduler.add_stream(**contract)  # type: ignore[arg-type]
    assert says in str(refused.value)
    assert len(scheduler) == 0


def test_quantities_with_units_are_those_of_scenario_files() -> None:
    departures = []
    for contract in (
        {"period": "40 ms", "window": "1/2", "first_deadline": "1 s"},
        {"period_ns": 40_000_000, "window": (1, 2), "first_deadline_ns": 10**9},
    ):
        scheduler = Scheduler("dwcs")
        stream = scheduler.add_stream(**contract)
        for _ in range(2):
            scheduler.enqueue(5, stream, 100)
        departures.append([scheduler.dequeue(5), scheduler.dequeue(5)])
    deadlines = [[head.deadline_ns for head in heads if head] for heads in departures]
    assert deadlines == [[10**9, 10**9 + 40_000_000]] * 2
    scheduler = Scheduler("fifo")
    scheduler.add_stream(max_rate="8 Mbit/s", burst="1 kB")
    scheduler.enqueue(0, 0, 1000)
    scheduler.enqueue(0, 0, 1000)
    scheduler.dequeue(0)
    assert scheduler.next_eligible_ns() == 1_000_000


def test_unknown_names_are_reported_as_in_scenario_files() -> None:
    with pytest.raises(ScenarioError, match="did you mean `dwcs`"):
        Scheduler("dwsc")
    with pytest.raises(ScenarioError, match="structure `ring` cannot hold `edf`"):
        Scheduler("edf", "ring")
    with pytest.raises(ScenarioError, match=r"unknown field `zero-widow`"):
        Scheduler("dwcs", zero_widow="x")


def test_repr_names_discipline_structure_and_streams() -> None:
    scheduler = Scheduler("edf", "heap")
    scheduler.add_stream(period="1 ms")
    assert repr(scheduler) == "<millstream.Scheduler edf, heap: 1 stream>"


def test_invalid_calls_change_nothing() -> None:
    scheduler = Scheduler("fifo")
    scheduler.add_stream()
    scheduler.enqueue(10, 0, 64)
    with pytest.raises(ValueError, match="time goes back from 10 ns to 9 ns"):
        scheduler.dequeue(9)
    with pytest.raises(ValueError, match="time goes back from 12 ns to 11 ns"):
        scheduler.enqueue_batch([12, 11], 0, 64)
    with pytest.raises(IndexError, match="stream 1 is out of range: there is 1 stream"):
        scheduler.enqueue_batch([10, 10], [0, 1], 64)
    with pytest.raises(ValueError, match="unequal lengths"):
        scheduler.enqueue_batch([10, 10], [0, 0, 0], 64)
    with pytest.raises(TypeError, match="bytes: integers are needed"):
        scheduler.enqueue_batch(10, 0, [1.5])
    with pytest.raises(OverflowError, match="times: values must be"):
        scheduler.enqueue_batch([-1], 0, 64)
    calls: list[tuple[Callable[[], object], str]] = [
        (
            lambda: scheduler.enqueue(10, 0, 2**32),
            "bytes = 4294967296; must be an integer from 0 to",
        ),
        (lambda: scheduler.enqueue(-1, 0, 64), "now_ns = -1; must be an integer from 0 to"),
        (lambda: scheduler.dequeue(2**64), "now_ns = 18446744073709551616; must be"),
        (lambda: scheduler.waiting(-1), "stream = -1; must be an integer from 0 to 4294967295"),
    ]
    for call, said in calls:
        with pytest.raises(OverflowError, match=said):
            call()
    with pytest.raises(TypeError, match=r"bytes = 1.5; must be an integer from 0 to"):
        scheduler.enqueue(10, 0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one instant"):
        scheduler.dequeue_batch([10], 1)
    assert scheduler.waiting() == 1


def test_columns_need_not_be_contiguous_or_of_the_right_type() -> None:
    scheduler = Scheduler("fifo")
    scheduler.add_stream()
    times = np.arange(20)[::2]
    assert scheduler.enqueue_batch(times, 0, np.full(10, 64, dtype=np.int16)) == 10
    assert scheduler.dequeue_batch(20, 4).arrival_ns.tolist() == [0, 2, 4, 6]
    assert scheduler.enqueue_batch([], 0, 64) == 0


class EarliestDeadline:
    """EDF as a prototype: ranks by deadline, then arrival."""

    def __init__(self, periods_ns: list[int]) -> None:
        self.periods_ns = periods_ns
        self.deadline_ns: dict[int, int] = {}
        self.arrived: list[tuple[int, int, int]] = []

    def rank(self, stream: int, head: Head) -> tuple[int, int]:
        first = head.arrival_ns + self.periods_ns[stream]
        return self.deadline_ns.setdefault(stream, first), head.arrival_ns

    def on_arrival(self, stream: int, bytes: int, now_ns: int) -> None:
        self.arrived.append((stream, bytes, now_ns))

    def on_served(self, stream: int, head: Head, now_ns: int) -> None:
        self.deadline_ns[stream] += self.periods_ns[stream]


@pytest.mark.parametrize("structure", ["auto", "heap", "scan"])
def test_a_discipline_in_python_schedules_as_in_rust(structure: str) -> None:
    # Always backlogged, so that the engine's EDF derives deadlines from periods alone.
    random = np.random.default_rng(3)
    periods_ns = [int(period) for period in random.integers(50, 500, 9)]
    prototype = EarliestDeadline(periods_ns)
    python, rust = Scheduler(prototype, structure), Scheduler("edf")
    for period_ns in periods_ns:
        for scheduler in (python, rust):
            scheduler.add_stream(period_ns=period_ns)
    streams = np.tile(np.arange(9), 100)
    for scheduler in (python, rust):
        scheduler.enqueue_batch(0, streams, 64)
    one, other = (s.dequeue_batch(np.arange(500) * 20).stream for s in (python, rust))
    assert one.tolist() == other.tolist()
    assert len(set(one.tolist())) == 9
    assert prototype.arrived[:2] == [(0, 64, 0), (1, 64, 0)]


def test_the_current_call_raises_the_exception_of_a_hook() -> None:
    class Wrong:
        def rank(self, stream: int, head: Head) -> tuple[int, ...]:
            return (1, 2, 3, 4, 5) if head.bytes == 64 else (1 // 0,)

    scheduler = Scheduler(Wrong())
    scheduler.add_stream()
    scheduler.add_stream()
    with pytest.raises(ValueError, match="a rank of 5 integers; at most 4"):
        scheduler.enqueue(0, 0, 64)
    with pytest.raises(ZeroDivisionError):
        scheduler.enqueue_batch(0, 1, [65])
    with pytest.raises(TypeError, match=r"a method rank\(stream, head\)"):
        Scheduler(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not support a discipline in Python"):
        Scheduler(Wrong(), "hilq-exact")


def test_a_hook_cannot_call_its_scheduler() -> None:
    class Nosy:
        scheduler: Scheduler

        def rank(self, stream: int, head: Head) -> int:
            return self.scheduler.waiting()

    nosy = Nosy()
    nosy.scheduler = Scheduler(nosy)
    nosy.scheduler.add_stream()
    with pytest.raises(RuntimeError, match="borrowed"):
        nosy.scheduler.enqueue(0, 0, 64)


def test_schedulers_of_many_threads_do_not_mix() -> None:
    sent: dict[int, int] = {}

    def work(number: int) -> None:
        scheduler = Scheduler("dwcs")
        scheduler.add_stream(period_ns=1000, window=(1, 2))
        for round_ in range(50):
            scheduler.enqueue_batch(round_, 0, np.full(1000, number))
            sent[number] = sent.get(number, 0) + int(scheduler.dequeue_batch(round_).bytes.sum())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sent == {number: 50_000 * number for number in range(4)}
