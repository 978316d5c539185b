"""The wrapper with Corundum's transmit-scheduler interface, with a model of a NIC.

The NIC follows the interface's public description: a doorbell follows queued packets; a request
takes the queue's first packet, if any; the status comes at any later time, in any order, with
length 0 if there was no packet.
"""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from core import contract, growth
from reference import DWCS, Reference

N = int(os.environ["STREAMS"])
CONTROLLED = int(os.environ["CONTROLLED"])
PER_QUEUE = 4


class Nic:
    """Queues, doorbells, and replies to requests."""

    def __init__(self, dut, seed=1, latency=(1, 30)):
        self.dut, self.dice, self.latency = dut, random.Random(seed), latency
        for name in ("s_axis_tx_req_status_valid", "s_axis_doorbell_valid",
                     "s_axis_sched_ctrl_valid", "m_axis_tx_req_ready", "enable"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.waiting = [0] * N
        self.sent = []
        self.requests = []
        self.under_way = {}
        self.empty = 0

    async def start(self, loads, enabled=range(N)):
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)
        for queue, load in enumerate(loads):
            window = load.x | load.y << 8 | growth(load, False) << 16 | load.drop << 24
            await self.axil.write_dword(4 * N + 8 * queue, window)
            await self.axil.write_dword(4 * N + 8 * queue + 4, load.period)
        for queue in enabled:
            await self.axil.write_dword(4 * queue, 3)
            if CONTROLLED:
                await self.control(queue, 1)
        self.dut.enable.value = 1
        cocotb.start_soon(self._answer())

    async def control(self, queue, enable):
        self.dut.s_axis_sched_ctrl_queue.value = queue
        self.dut.s_axis_sched_ctrl_enable.value = enable
        self.dut.s_axis_sched_ctrl_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_axis_sched_ctrl_valid.value = 0

    async def ring(self, queue, packets=1):
        self.waiting[queue] += packets
        self.dut.s_axis_doorbell_queue.value = queue
        self.dut.s_axis_doorbell_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_axis_doorbell_valid.value = 0

    async def _answer(self):
        dut = self.dut
        cycle = 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            ready = self.dice.random() < 0.7
            dut.m_axis_tx_req_ready.value = int(ready)
            due = [tag for tag, (_, _, at) in self.under_way.items() if at <= cycle]
            dut.s_axis_tx_req_status_valid.value = int(bool(due))
            if due:
                tag = self.dice.choice(due)
                _, length, _ = self.under_way.pop(tag)
                dut.s_axis_tx_req_status_tag.value = tag
                dut.s_axis_tx_req_status_len.value = length
            await Timer(8, "ns")
            await ReadOnly()
            if not ready or not int(dut.m_axis_tx_req_valid.value):
                continue
            queue, tag = int(dut.m_axis_tx_req_queue.value), int(dut.m_axis_tx_req_tag.value)
            assert tag not in self.under_way, f"tag {tag} is under way"
            mine = sum(number == queue for number, _, _ in self.under_way.values())
            assert mine < PER_QUEUE, f"queue {queue} has {mine} requests under way"
            self.requests.append(queue)
            length = 0
            if self.waiting[queue]:
                self.waiting[queue] -= 1
                self.sent.append(queue)
                length = self.dice.randint(60, 1500)
            else:
                self.empty += 1
            self.under_way[tag] = (queue, length, cycle + self.dice.randint(*self.latency))

    async def drained(self):
        """Waits until the scheduler reports that no queue is backlogged."""
        quiet = 0
        while quiet < 50:
            await RisingEdge(self.dut.clk)
            await ReadOnly()
            quiet = 0 if int(self.dut.active.value) or self.under_way else quiet + 1
        await RisingEdge(self.dut.clk)


PAPER = [contract(x, y, 1) for x, y in ((7, 8), (14, 16), (6, 8), (4, 8))]


@cocotb.test(timeout_time=400, timeout_unit="us")
async def backlogged_queues_are_served_in_the_engine_s_order(dut):
    nic = Nic(dut, latency=(1, 3))
    await nic.start(PAPER)
    dut.enable.value = 0
    for queue in range(4):
        await nic.ring(queue, 400)
    for _ in range(10):
        await RisingEdge(dut.clk)
    dut.enable.value = 1
    while len(nic.sent) < 320:
        await RisingEdge(dut.clk)
    reference = Reference(DWCS)
    for queue, load in enumerate(PAPER):
        reference.load(load)
        reference.enqueue(0, queue)
    expected = []
    for now in range(320):
        winner = reference.decide(now)
        expected.append(winner)
        reference.enqueue(now + 1, winner)
    assert nic.sent[:320] == expected
    assert [expected.count(queue) for queue in range(4)] == [40, 40, 80, 160]


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(seed=[1, 2, 3])
async def every_packet_is_sent_once_whatever_the_doorbells(dut, seed):
    nic = Nic(dut, seed)
    await nic.start([contract(1, 2, 2)] * N)
    rung = 0
    for _ in range(150):
        await nic.ring(nic.dice.randrange(N), packets := nic.dice.choice((1, 1, 1, 2, 5)))
        rung += packets
        for _ in range(nic.dice.choice((0, 0, 1, 10, 40))):
            await RisingEdge(dut.clk)
    await nic.drained()
    assert nic.waiting == [0] * N, "packets were left behind"
    assert len(nic.sent) == rung
    assert not int(dut.active.value)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def a_queue_that_is_not_enabled_waits(dut):
    nic = Nic(dut)
    await nic.start([contract()] * N, enabled=[0])
    await nic.ring(0, 5)
    await nic.ring(1, 5)
    for _ in range(600):
        await RisingEdge(dut.clk)
    assert nic.sent == [0] * 5 and 1 not in nic.requests
    assert await nic.axil.read_dword(4) & 0b1100_0011 == 0b0100_0000
    await nic.axil.write_dword(4, 3)
    if CONTROLLED:
        assert 1 not in nic.requests
        await nic.control(1, 1)
    await nic.drained()
    assert nic.sent == [0] * 5 + [1] * 5


@cocotb.test(timeout_time=400, timeout_unit="us")
async def nothing_is_asked_for_while_the_port_is_off(dut):
    nic = Nic(dut)
    await nic.start([contract()] * N)
    dut.enable.value = 0
    await nic.ring(2, 3)
    for _ in range(200):
        await RisingEdge(dut.clk)
    assert nic.requests == [] and int(dut.active.value)
    dut.enable.value = 1
    await nic.drained()
    assert nic.sent == [2] * 3


@cocotb.test(timeout_time=100, timeout_unit="us")
async def a_doorbell_while_empty_requests_are_under_way_is_not_forgotten(dut):
    nic = Nic(dut, latency=(300, 300))
    await nic.start([contract()] * N)
    await nic.ring(0)
    while not nic.requests:
        await RisingEdge(dut.clk)
    # Empty queues are answered first.
    nic.latency = (90, 90)
    for _ in range(70):
        await RisingEdge(dut.clk)
    assert nic.requests == [0] * PER_QUEUE, "no status has come: no more may be under way"
    await nic.ring(0)
    await nic.drained()
    assert nic.sent == [0, 0]
