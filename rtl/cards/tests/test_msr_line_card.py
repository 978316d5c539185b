"""The line card between AXI bus-functional models, compared with the engine."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotbext.axi import (
    AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource,
)

from card import Registers, Schedule
from core import contract
from reference import DWCS, EDF, STATIC

N = int(os.environ["STREAMS"])
BEATS, DEPTH = int(os.environ["BEATS"]), int(os.environ["DEPTH"])
BYTES = 8
ENABLE, HOLD = 1, 2


class Card:
    """The card, its bus-functional models, and its observers."""

    def __init__(self, dut):
        self.dut = dut
        dut.rst_ni.value = 0
        cocotb.start_soon(Clock(dut.clk_i, 10, unit="ns").start())
        reset = {"reset": dut.rst_ni, "reset_active_level": False}
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk_i, **reset)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk_i, **reset)
        axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk_i, **reset)
        self.registers = Registers(axil, "msr_line_card")
        self.schedule = None
        # Packets offered and neither admitted nor dropped, and the expected output.
        self.given = [[] for _ in range(N)]
        self.expected = []
        self.cycles = 0
        self.settings = 0
        cocotb.start_soon(self._watch())

    async def reset(self):
        self.dut.rst_ni.value = 0
        for _ in range(3):
            await RisingEdge(self.dut.clk_i)
        self.given = [[] for _ in range(N)]
        self.expected = []
        self.schedule = None
        self.sink.clear()
        self.source.clear()
        self.dut.rst_ni.value = 1
        await RisingEdge(self.dut.clk_i)

    async def contracts(self, loads, mode=DWCS, lowest_denominator=False, rtas99=False, flags=0):
        self.settings = mode << 8 | lowest_denominator << 4 | rtas99 << 5 | flags
        await self.registers.write("CONTROL", self.settings)
        for stream, load in enumerate(loads):
            await self.registers.load(stream, load, rtas99)
        self.schedule = Schedule(mode, loads, lowest_denominator, rtas99)

    async def enable(self):
        self.settings |= ENABLE
        await self.registers.write("CONTROL", self.settings)

    def send(self, stream, data):
        if stream < N:
            self.given[stream].append(bytes(data))
        self.source.send_nowait(AxiStreamFrame(tdata=data, tdest=stream))

    async def count(self, stream, *names):
        await self.registers.write("SELECT", stream)
        return [await self.registers.read(name) for name in names]

    async def _watch(self):
        """Feeds the engine with the card's admitted packets and compares each decision."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_i)
            # The inputs of this cycle are driven; sample just before its end.
            await Timer(9, "ns")
            await ReadOnly()
            self.cycles += 1
            if self.schedule is None or not int(dut.rst_ni.value):
                continue
            if int(dut.decided_o.value):
                now = int(dut.decided_now_o.value)
                want = self.schedule.decide(now)
                got = int(dut.winner_o.value) if int(dut.winner_valid_o.value) else None
                assert got == (want and want[0]), f"time {now}: {got}, the engine {want}"
                if want:
                    self.expected.append(want)
            if int(dut.admitted_o.value):
                stream = int(dut.admitted_stream_o.value)
                stamp = int(dut.admitted_stamp_o.value)
                self.schedule.admit(stream, stamp, self.given[stream].pop(0))

    async def drain(self):
        """Waits until the card is idle, then compares its whole output."""
        while not self.source.idle():
            await RisingEdge(self.dut.clk_i)
        quiet = 0
        while quiet < 60 + 2 * N:
            await RisingEdge(self.dut.clk_i)
            quiet = 0 if int(self.dut.m_axis_tvalid.value) else quiet + 1
        for want, packet in self.expected:
            frame = self.sink.recv_nowait()
            assert (frame.tdest, bytes(frame.tdata)) == (want, packet)
        assert self.sink.empty(), "more came out than was scheduled"
        assert all(not waiting for waiting in self.schedule.waiting), "packets were left behind"


def packet(dice, stream, number, largest=200):
    length = dice.choice((1, 7, 8, 9, 64, dice.randint(1, largest)))
    return bytes((stream ^ number + 37 * at) & 255 for at in range(length))


def loads_of(dice, mode, drop):
    """Returns contracts with many ties."""
    loads = []
    for _ in range(N):
        y = dice.randrange(12)
        loads.append(contract(
            dice.randint(0, y), y, dice.randint(1, 9), int(drop and dice.random() < 0.5),
            priority=dice.randrange(3) if mode == STATIC else 0,
        ))
    return loads


def pauses(dice, chance):
    while True:
        yield dice.random() < chance


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def registers_are_read_as_written(dut):
    card = Card(dut)
    await card.reset()
    assert await card.registers.read("ID") == 0x5353_0000 | N
    for name, value in (("IDLE", 0xBEEF), ("WINDOW", 0x0301_0A07), ("TIME", 0x1234_5678)):
        await card.registers.write(name, value)
        assert await card.registers.read(name) == value
    await card.registers.master.write(card.registers.at["TIME"] + 1, b"\xAA")
    assert await card.registers.read("TIME") == 0x1234_AA78
    await card.registers.write("ARRIVED", 5)
    assert await card.registers.read("ARRIVED") == 0, "counters are not written"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_link_never_idles_while_packets_wait(dut):
    card = Card(dut)
    await card.reset()
    await card.contracts([contract(1, 2, 1)] * N, flags=HOLD)
    for number in range(DEPTH // 2):
        for stream in range(N):
            card.send(stream, bytes([stream, number]) * 32)
    while not card.source.idle():
        await RisingEdge(dut.clk_i)
    await card.enable()
    await ReadOnly()
    while not int(dut.m_axis_tvalid.value):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
    beats = N * (DEPTH // 2) * 8
    for beat in range(beats):
        assert int(dut.m_axis_tvalid.value), f"idle after {beat} beats of {beats}"
        await RisingEdge(dut.clk_i)
        await ReadOnly()
    await RisingEdge(dut.clk_i)
    await card.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(mode=[DWCS, EDF, STATIC], drop=[False, True], chance=[0.0, 0.6])
async def nothing_is_lost_under_random_back_pressure(dut, mode, drop, chance):
    dice = random.Random(f"{mode} {drop} {chance} {N}")
    card = Card(dut)
    await card.reset()
    loads = loads_of(dice, mode, drop)
    settings = {} if mode != DWCS else {
        "lowest_denominator": dice.random() < 0.5, "rtas99": dice.random() < 0.3,
    }
    await card.contracts(loads, mode, **settings, flags=HOLD)
    await card.enable()
    card.sink.set_pause_generator(pauses(dice, chance))
    card.source.set_pause_generator(pauses(dice, dice.choice((0.0, 0.5))))
    for number in range(40 * N if N <= 8 else 320):
        card.send(dice.randrange(N), packet(dice, 0, number))
    await card.drain()
    assert card.schedule.decisions > 0
    for stream in range(N):
        late, full = await card.count(stream, "DROPPED_LATE", "DROPPED_FULL")
        assert (late, full) == (card.schedule.dropped[stream], 0)
        sent, missed = await card.count(stream, "SENT", "MISSED")
        seen = card.schedule.reference.attributes(stream)
        assert (sent, missed) == (seen.serviced, seen.missed)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def time_moves_on_while_idle_if_asked_to(dut):
    card = Card(dut)
    await card.reset()
    await card.registers.write("IDLE", 10)
    await card.contracts([contract(1, 2, 4, drop=1)] * N)
    await card.enable()
    for _ in range(400):
        await RisingEdge(dut.clk_i)
    now = await card.registers.read("NOW")
    assert 20 <= now <= 40, now
    for stream in range(N):
        card.send(stream, bytes([stream]) * 20)
    await card.drain()
    assert card.schedule.decisions > now


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_finds_no_room_is_counted_and_leaves_the_others_alone(dut):
    card = Card(dut)
    await card.reset()
    await card.contracts([contract()] * N)
    # Stream 0 floods beyond its queue; one packet exceeds its ring, one has an unknown stream.
    for number in range(2 * DEPTH):
        card.send(0, bytes([number]) * 8)
    card.given[0] = card.given[0][:DEPTH + 1]
    for data in (bytes(BEATS * BYTES + 1), bytes(BEATS * BYTES)):
        card.send(1, data)
    card.given[1].pop(0)
    if N < 64:
        card.send(N, b"none")
    while not card.source.idle():
        await RisingEdge(dut.clk_i)
    arrived, full = await card.count(0, "ARRIVED", "DROPPED_FULL")
    # The core holds one packet in addition to the queue.
    assert (arrived, full) == (2 * DEPTH, DEPTH - 1)
    assert await card.count(1, "ARRIVED", "DROPPED_FULL") == [2, 1]
    assert await card.registers.read("UNKNOWN") == int(N < 64)
    await card.enable()
    await card.drain()
    assert len(card.expected) == DEPTH + 2


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_packet_longer_than_its_ring_does_not_block_a_card_that_holds(dut):
    card = Card(dut)
    await card.reset()
    await card.contracts([contract()] * N, flags=HOLD)
    await card.enable()
    card.send(1, bytes(BEATS * BYTES + 8))
    card.given[1].clear()
    card.send(0, b"after it")
    await card.drain()
    assert len(card.expected) == 1
    assert await card.count(1, "DROPPED_FULL") == [1]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_in_flight_leaves_nothing_behind(dut):
    dice = random.Random(7)
    card = Card(dut)
    for round_at in range(4):
        await card.reset()
        loads = loads_of(dice, DWCS, True)
        await card.contracts(loads, flags=HOLD)
        await card.enable()
        card.sink.set_pause_generator(pauses(dice, 0.4))
        for number in range(30):
            card.send(dice.randrange(N), packet(dice, 1, number))
        if round_at < 3:
            for _ in range(dice.randrange(20, 250)):
                await RisingEdge(dut.clk_i)
    await card.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_new_contract_takes_the_place_of_a_waiting_head(dut):
    card = Card(dut)
    await card.reset()
    await card.contracts([contract(1, 2, 3)] * N)
    for number in range(3):
        card.send(0, bytes([number]) * 40)
    while not card.source.idle():
        await RisingEdge(dut.clk_i)
    head, *others = [(0, bytes([number]) * 40) for number in range(3)]
    await card.registers.load(0, contract(0, 4, 1))
    assert await card.count(0, "DROPPED_LATE") == [1]
    card.schedule = None
    await card.enable()
    for want, data in others:
        frame = await card.sink.recv()
        assert (frame.tdest, bytes(frame.tdata)) == (want, data), f"not {head}"
