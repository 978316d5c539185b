"""The end-system card with a host on its bus, compared with the engine."""

import os
import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotbext.axi import (
    AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSource,
)

from card import Registers, Schedule
from core import contract
from reference import DWCS, EDF, STATIC

N = int(os.environ["STREAMS"])
DEPTH, BANKS = int(os.environ["DEPTH"]), int(os.environ["BANKS"])
ENABLE = 1


class Host:
    """Queues in the host's memory, the bus to the card, and observers of the card."""

    def __init__(self, dut):
        self.dut = dut
        dut.rst_ni.value = 0
        dut.pull_ready_i.value = 0
        cocotb.start_soon(Clock(dut.clk_i, 10, unit="ns").start())
        reset = {"reset": dut.rst_ni, "reset_active_level": False}
        axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk_i, **reset)
        self.words = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk_i, **reset)
        self.registers = Registers(axil, "msr_end_system")
        self.schedule = None
        # Arrivals offered to be pulled, and each stream's packets in order.
        self.to_pull = [deque() for _ in range(N)]
        self.packets = [deque() for _ in range(N)]
        self.numbers = [0] * N
        self.expected = deque()
        self.bursts = 0
        self.read = []
        self.settings = 0
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._answer_pulls())

    async def start(self, loads, mode=DWCS, lowest_denominator=False, rtas99=False):
        self.dut.rst_ni.value = 0
        for _ in range(3):
            await RisingEdge(self.dut.clk_i)
        self.dut.rst_ni.value = 1
        self.settings = mode << 8 | lowest_denominator << 4 | rtas99 << 5
        await self.registers.write("CONTROL", self.settings)
        for stream, load in enumerate(loads):
            await self.registers.load(stream, load, rtas99)
        self.schedule = Schedule(mode, loads, lowest_denominator, rtas99)

    async def enable(self):
        self.settings |= ENABLE
        await self.registers.write("CONTROL", self.settings)

    def _packet(self, stream):
        self.numbers[stream] += 1
        return stream, self.numbers[stream] - 1

    async def push(self, stream, arrival):
        self.packets[stream].append((arrival, self._packet(stream)))
        await self.registers.write("PUSH", stream | arrival << 16)

    async def offer(self, stream, arrivals):
        for arrival in arrivals:
            self.to_pull[stream].append(arrival)
            self.packets[stream].append((arrival, self._packet(stream)))
        await self.registers.write("PULL", stream | len(arrivals) << 16)

    async def _answer_pulls(self):
        dut = self.dut
        dice = random.Random(3)
        while True:
            await RisingEdge(dut.clk_i)
            ready = dice.random() < 0.4
            dut.pull_ready_i.value = int(ready)
            await ReadOnly()
            if not ready or not int(dut.rst_ni.value) or not int(dut.pull_valid_o.value):
                continue
            stream, count = int(dut.pull_stream_o.value), int(dut.pull_count_o.value)
            burst = [self.to_pull[stream].popleft() for _ in range(count)]
            self.bursts += 1
            data = b"".join(arrival.to_bytes(2, "little") for arrival in burst)
            await RisingEdge(dut.clk_i)
            dut.pull_ready_i.value = 0
            self.words.send_nowait(AxiStreamFrame(data + b"\xEE\xEE" * (count % 2)))

    async def _watch(self):
        """Feeds the engine with the arrivals written to SRAM; it decides when the card does."""
        dut = self.dut
        coming = deque()
        while True:
            await RisingEdge(dut.clk_i)
            await Timer(9, "ns")
            await ReadOnly()
            if self.schedule is None or not int(dut.rst_ni.value):
                continue
            if int(dut.started_o.value):
                now = int(dut.now_o.value)
                due = [entry for entry in coming if entry[1] <= now]
                coming = deque(entry for entry in coming if entry[1] > now)
                for entry in due:
                    self.schedule.admit(*entry)
                dropped = list(self.schedule.dropped)
                want = self.schedule.decide(now)
                for stream in range(N):
                    for _ in range(self.schedule.dropped[stream] - dropped[stream]):
                        self.expected.append((stream, True))
                if want:
                    self.expected.append((want[0], False))
            written = int(dut.written_o.value)
            for bank in range(BANKS):
                if written >> bank & 1:
                    # Outputs of the other banks are unused and may be undefined.
                    at = 6 * bank
                    stream = int(dut.written_stream_o.value[at + 5:at])
                    arrival = int(dut.written_time_o.value[16 * bank + 15:16 * bank])
                    want, packet = self.packets[stream].popleft()
                    assert arrival == want, f"stream {stream}: {arrival} written, {want} came"
                    coming.append((stream, arrival, packet))

    async def winners(self, count):
        """Reads a number of winners: each stream's next packet, sent or dropped."""
        read = []
        while len(read) < count:
            word = await self.registers.read("WINNER")
            if word >> 7 & 1:
                read.append((word & 63, bool(word >> 6 & 1)))
        return read

    async def read_on(self):
        """Reads winners continuously."""
        while True:
            self.read += await self.winners(1)

    async def finish(self):
        """Checks that every packet leaves once, in its stream's order, as in the engine."""
        while len(self.read) < sum(self.numbers):
            await RisingEdge(self.dut.clk_i)
        read = self.read
        assert not (await self.registers.read("WINNER")) >> 7 & 1, "more left than came"
        # Drops are reported between decisions, by stream; only services have a total order.
        sent = [stream for stream, dropped in read if not dropped]
        assert sent == [stream for stream, dropped in self.expected if not dropped]
        for stream in range(N):
            mine = [dropped for number, dropped in read if number == stream]
            assert mine == [dropped for number, dropped in self.expected if number == stream]


def loads_of(dice, mode, drop):
    loads = []
    for _ in range(N):
        y = dice.randrange(12)
        loads.append(contract(
            dice.randint(0, y), y, dice.randint(1, 9), int(drop and dice.random() < 0.5),
            priority=dice.randrange(3) if mode == STATIC else 0,
        ))
    return loads


@cocotb.test(timeout_time=100, timeout_unit="us")
async def the_paper_s_streams_share_as_they_should(dut):
    host = Host(dut)
    await host.start([contract(x, y, 1) for x, y in ((7, 8), (14, 16), (6, 8), (4, 8))]
                     + [contract(0, 0, 1)] * (N - 4))
    for stream in range(4):
        await host.offer(stream, [0] * 120)
    # The first bursts are in SRAM before the first decision.
    await Timer(3, "us")
    await host.enable()
    read = await host.winners(160)
    counts = [sum(number == stream for number, _ in read) for stream in range(4)]
    assert counts == [20, 20, 40, 80]
    assert host.bursts >= 4


@cocotb.test(timeout_time=500, timeout_unit="us")
@cocotb.parametrize(mode=[DWCS, EDF, STATIC], drop=[False, True], seed=[1, 2])
async def pushed_and_pulled_arrivals_leave_as_by_the_engine(dut, mode, drop, seed):
    dice = random.Random(f"{mode} {drop} {seed} {N}")
    host = Host(dut)
    settings = {} if mode != DWCS else {
        "lowest_denominator": dice.random() < 0.5, "rtas99": dice.random() < 0.3,
    }
    await host.start(loads_of(dice, mode, drop), mode, **settings)
    cocotb.start_soon(host.read_on())
    pushed = [dice.random() < 0.5 for _ in range(N)]
    if dice.random() < 0.7:
        await host.enable()
    times = [0] * N
    for _ in range(6):
        for stream in dice.sample(range(N), N):
            batch = []
            for _ in range(dice.randrange(DEPTH // 2)):
                times[stream] += dice.choice((0, 0, 0, 1, 2, 5))
                batch.append(times[stream])
            if pushed[stream]:
                for arrival in batch[:8]:
                    await host.push(stream, arrival)
                times[stream] = max(batch[:8], default=times[stream])
            elif batch:
                await host.offer(stream, batch)
        await host.enable()
    await host.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def an_arrival_still_to_come_is_not_served_before_its_time(dut):
    host = Host(dut)
    await host.start([contract()] * N)
    await host.push(0, 25)
    await host.enable()
    word = 0
    while not word >> 7 & 1:
        word = await host.registers.read("WINNER")
    assert (word & 63, word >> 16) == (0, 25)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def decisions_wait_while_nobody_reads_the_winners(dut):
    host = Host(dut)
    await host.start([contract()] * N)
    await host.enable()
    capacity = int(os.environ["WINNERS"])
    await host.offer(0, [0] * (capacity + 40))
    await Timer(60 * capacity * 4, "ns")
    level = await host.registers.read("LEVEL")
    assert level & 0xFFFF == capacity
    now = level >> 16
    await Timer(1000, "ns")
    assert (await host.registers.read("LEVEL")) >> 16 == now
    cocotb.start_soon(host.read_on())
    await host.finish()
