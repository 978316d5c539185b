"""Drives a core under test: its clock, its queues, its registers by name."""

import os
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer

from reference import Load

HEAD = [("valid", 1), ("id", 6), ("deadline", 16), ("x", 8), ("y", 8), ("arrival", 16)]
COUNT = [("missed", 16), ("violations", 16), ("serviced", 16)]


def _fields(value, layout):
    """Unpacks a packed struct by field names; its first field is the highest."""
    named = {}
    for name, width in reversed(layout):
        named[name] = value & ((1 << width) - 1)
        value >>= width
    return named


def growth(load, rtas99):
    """Returns the increment of y' at a violation."""
    if not rtas99:
        return 1
    return load.y if load.x == 0 else -(-(load.y - load.x) // load.x)


def contract(x=0, y=0, period=1, drop=0, deadline=None, priority=0):
    """Returns a contract; `deadline` is the first packet's."""
    first = deadline is not None
    return Load(deadline or 0, period, priority, 1, x, y, drop, int(first))


SETTLING = int(os.environ.get("SETTLING", "1"))


class Core:
    """Drives msr_core after every rising edge and keeps the queues."""

    def __init__(self, dut):
        self.dut = dut
        self.streams = len(dut.packet_valid_i)
        self.queues = [deque() for _ in range(self.streams)]
        self.rtas99 = False

    async def start(self, mode=0, lowest_denominator=False, rtas99=False):
        dut = self.dut
        self.rtas99 = rtas99
        dut.cfg_i.value = mode << 2 | lowest_denominator << 1 | rtas99
        dut.load_valid_i.value = 0
        dut.load_id_i.value = 0
        dut.load_i.value = 0
        dut.packet_valid_i.value = 0
        dut.packet_stamp_i.value = 0
        dut.decide_i.value = 0
        dut.step_i.value = 1
        dut.rst_ni.value = 0
        cocotb.start_soon(Clock(dut.clk_i, 10, unit="ns").start())
        await RisingEdge(dut.clk_i)
        await Timer(1, "ns")
        dut.rst_ni.value = 1

    def offer(self, stream, stamp):
        """Enqueues a packet; its stream's front is visible at once."""
        self.queues[stream].append(stamp & 0xFFFF)
        self._show()

    def _show(self):
        valid = stamps = 0
        for i, queue in enumerate(self.queues):
            if queue:
                valid |= 1 << i
                stamps |= queue[0] << (16 * i)
        self.dut.packet_valid_i.value = valid
        self.dut.packet_stamp_i.value = stamps

    async def settled(self):
        """Waits until the combinational outputs have settled in this cycle."""
        await Timer(5, "ns")
        await ReadOnly()

    async def cycle(self):
        """Completes the cycle: takes packets, returns the values before the edge."""
        await self.settled()
        dut = self.dut
        seen = {
            name: int(getattr(dut, f"{name}_o").value)
            for name in ("ready", "decided", "winner_valid", "winner", "packet_take", "dropped",
                         "load_ready", "now")
        }
        await RisingEdge(dut.clk_i)
        await Timer(1, "ns")
        for i, queue in enumerate(self.queues):
            if seen["packet_take"] >> i & 1:
                queue.popleft()
        self._show()
        return seen

    async def settle(self):
        """Lets idle streams take the offered packets."""
        for _ in range(SETTLING):
            await self.cycle()

    async def load(self, stream, load):
        fields = [
            (load.x, 8), (load.y, 8), (growth(load, self.rtas99), 8), (load.period, 16),
            (load.drop, 1), (load.deadline & 0xFFFF if load.first else load.priority, 16),
            (load.first, 1),
        ]
        bits = 0
        for value, width in fields:
            bits = bits << width | value
        self.dut.load_i.value = bits
        self.dut.load_id_i.value = stream
        self.dut.load_valid_i.value = 1
        while not (await self.cycle())["load_ready"]:
            pass
        self.dut.load_valid_i.value = 0

    async def decide(self):
        """Makes a decision: returns its winner (or None) and its cycles; one more has passed."""
        self.dut.decide_i.value = 1
        while not (await self.cycle())["ready"]:
            pass
        self.dut.decide_i.value = 0
        cycles = 1
        while not (seen := await self.cycle())["decided"]:
            cycles += 1
            assert cycles < 100, "no decision"
        return seen["winner"] if seen["winner_valid"] else None, cycles

    def head(self, stream):
        value = int(self.dut.heads_o.value) >> (55 * stream) & ((1 << 55) - 1)
        return _fields(value, HEAD)

    def count(self, stream):
        value = int(self.dut.counts_o.value) >> (48 * stream) & ((1 << 48) - 1)
        return _fields(value, COUNT)
