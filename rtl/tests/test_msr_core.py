"""The core's protocol, cycle by cycle, and a short comparison with the engine through C.

rtl/bulk has the long comparison. CYCLES is the length of a decision in this configuration; by
default that of BA with 4 streams.
"""

import os
import random

import cocotb

from core import Core, contract
from reference import DWCS, EDF, STATIC, Reference

CYCLES = int(os.environ.get("CYCLES", "3"))


@cocotb.test()
async def a_decision_takes_its_cycles_and_time_moves_by_the_step(dut):
    core = Core(dut)
    await core.start()
    for step in (1, 1, 0, 7, 1):
        now = int(dut.now_o.value)
        dut.step_i.value = step
        winner, cycles = await core.decide()
        assert winner is None, "no stream has a packet"
        assert cycles == CYCLES
        assert int(dut.now_o.value) == now + step


@cocotb.test()
async def held_decide_makes_a_decision_every_so_many_cycles(dut):
    core = Core(dut)
    await core.start()
    dut.decide_i.value = 1
    ends = []
    for cycle in range(10 * CYCLES + 1):
        if (await core.cycle())["decided"]:
            ends.append(cycle)
    assert ends == list(range(CYCLES, 10 * CYCLES + 1, CYCLES))


@cocotb.test()
async def load_waits_for_the_decision_and_goes_before_the_next(dut):
    core = Core(dut)
    await core.start()
    dut.decide_i.value = 1
    await core.cycle()
    dut.load_valid_i.value = 1
    refused = 0
    while not (seen := await core.cycle())["load_ready"]:
        refused += 1
    assert refused == CYCLES - 1
    assert not seen["ready"], "a decision would start in a LOAD cycle"


@cocotb.test()
async def a_stream_that_was_not_loaded_takes_nothing(dut):
    core = Core(dut)
    await core.start()
    core.offer(1, 0)
    await core.settle()
    assert (await core.decide())[0] is None
    assert len(core.queues[1]) == 1
    await core.load(1, contract())
    await core.settle()
    assert (await core.decide())[0] == 1
    assert not core.queues[1]


@cocotb.test()
async def a_packet_offered_while_a_decision_starts_is_in_the_next(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 0, 5))
    await core.load(1, contract(0, 0, 1))
    core.offer(0, 0)
    await core.settle()
    # Stream 1 would win, but arrives too late for this decision.
    core.offer(1, 1)
    assert (await core.decide())[0] == 0
    assert (await core.decide())[0] == 1


@cocotb.test()
async def drop_flag_violation_flag_and_counters_tell_what_happened(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 3, 1, drop=1))
    await core.load(1, contract(0, 5, 1))
    for stream in (0, 1):
        for _ in range(4):
            core.offer(stream, 0)
    await core.settle()
    winner, _ = await core.decide()
    assert winner == 1, "the higher y' of two zero windows"
    assert int(dut.violation_o.value) == 0b01
    assert core.count(0) == {"missed": 1, "violations": 1, "serviced": 0}
    assert core.count(1) == {"missed": 0, "violations": 0, "serviced": 1}
    # One packet of each stream has left; that of stream 0 was dropped.
    assert [len(queue) for queue in core.queues[:2]] == [2, 2]
    head = core.head(0)
    assert (head["x"], head["y"], head["deadline"]) == (0, 4, 2)


@cocotb.test()
async def a_deadline_far_from_now_raises_the_range_flag(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 0, 1, deadline=1 << 14))
    await core.load(1, contract(0, 0, 1, deadline=(1 << 14) + 1))
    core.offer(0, 0)
    core.offer(1, 0)
    await core.settle()
    await core.settle()
    await core.settled()
    assert int(dut.range_o.value) == 0b10


@cocotb.test()
async def a_window_that_is_violated_too_often_stays_at_255_and_still_goes_first(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 3, 1, deadline=1))
    await core.load(1, contract(0, 254, 1, deadline=1))
    for stream in (0, 1, 1):
        core.offer(stream, 0)
    await core.settle()
    dut.step_i.value = 300
    # The higher y' is first; then 300 periods elapse before the next decision. The winner's next
    # head has a deadline of 2.
    assert (await core.decide())[0] == 1
    dut.step_i.value = 1
    for _ in range(310):
        await core.settle()
    await core.settled()
    assert core.count(0) == {"missed": 300, "violations": 300, "serviced": 0}
    assert core.count(1) == {"missed": 299, "violations": 299, "serviced": 1}
    for stream in (0, 1):
        head = core.head(stream)
        assert (head["x"], head["y"], head["deadline"]) == (0, 255, 301)
    # Equal at saturation, where unbounded windows are 303 and 553: earlier arrival, then lower id.
    await core.settle()
    assert (await core.decide())[0] == 0


@cocotb.test()
async def static_mode_serves_the_lowest_priority_number(dut):
    core = Core(dut)
    await core.start(STATIC)
    await core.load(0, contract(priority=3))
    await core.load(1, contract(priority=2))
    for stream in (0, 1, 1):
        core.offer(stream, 0)
    await core.settle()
    assert [(await core.decide())[0] for _ in range(4)] == [1, 1, 0, None]


async def _against_the_engine(dut, seed, mode, decisions):
    dice = random.Random(seed)
    settings = {
        "lowest_denominator": mode == DWCS and dice.random() < 0.5,
        "rtas99": mode == DWCS and dice.random() < 0.3,
    }
    core, reference = Core(dut), Reference(mode, **settings)
    await core.start(mode, **settings)
    palette = []
    for _ in range(3):
        y = dice.randrange(12)
        palette.append((dice.randint(0, y), y, dice.randint(1, 9), int(dice.random() < 0.3)))
    for stream in range(core.streams):
        load = contract(*dice.choice(palette))
        reference.load(load)
        await core.load(stream, load)
    chance = dice.choice((0.2, 0.6, 1.0))
    for now in range(decisions):
        for stream in range(core.streams):
            if dice.random() < chance and reference.attributes(stream).waiting < 4:
                core.offer(stream, now)
                reference.enqueue(now, stream)
        await core.settle()
        reference.charge(now)
        if any(reference.attributes(stream).y > 255 for stream in range(core.streams)):
            return
        for stream in range(core.streams):
            want, head, count = reference.attributes(stream), core.head(stream), core.count(stream)
            where = f"seed {seed}, time {now}, stream {stream}"
            assert head["valid"] == (want.waiting > 0), where
            if mode == DWCS:
                assert (head["x"], head["y"]) == (want.x, want.y), where
            if want.waiting:
                assert head["deadline"] == want.deadline & 0xFFFF, where
                assert head["arrival"] == want.arrival & 0xFFFF, where
            assert count["missed"] == want.missed, where
            assert count["violations"] == want.violations, where
            assert count["serviced"] == want.serviced, where
        expected = reference.decide(now)
        winner, cycles = await core.decide()
        assert (winner, cycles) == (expected, CYCLES), f"seed {seed}, time {now}"


@cocotb.test()
@cocotb.parametrize(mode=[DWCS, EDF], seed=[1, 2, 3])
async def random_traffic_is_served_as_by_the_engine(dut, mode, seed):
    await _against_the_engine(dut, seed, mode, 150)
