"""The pair core's protocol, cycle by cycle: decisions overlap.

rtl/bulk has the comparison with the engine.
"""

import cocotb

from core import Core, contract

LATENCY = 3


@cocotb.test()
async def held_decide_starts_a_decision_in_every_cycle(dut):
    core = Core(dut)
    await core.start()
    dut.decide_i.value = 1
    ends = [cycle for cycle in range(20) if (await core.cycle())["decided"]]
    assert ends == list(range(LATENCY, 20))
    assert int(dut.now_o.value) == 20 - LATENCY + 1


@cocotb.test()
async def streams_are_served_in_consecutive_cycles(dut):
    core = Core(dut)
    await core.start()
    # Stream 0 has its deadline first, then both alternate: the served stream's is a period later.
    for stream in (0, 1):
        await core.load(stream, contract(0, 2, 2 + stream))
        for _ in range(4):
            core.offer(stream, 0)
    for _ in range(12):
        await core.cycle()
    dut.decide_i.value = 1
    winners = []
    for _ in range(10 + LATENCY):
        seen = await core.cycle()
        if seen["decided"]:
            winners.append(seen["winner"] if seen["winner_valid"] else None)
    # Deadlines 2, 4, 6, 8 and 3, 6, 9, 12; at 6 the one that has waited longer has a higher y'.
    assert winners[:3] == [0, 1, 0]
    assert sorted(winners[:8]) == [0] * 4 + [1] * 4
    assert winners[8:] == [None, None]
    assert [core.count(stream)["serviced"] for stream in (0, 1)] == [4, 4]
    assert not core.queues[0] and not core.queues[1]


@cocotb.test()
async def a_long_step_makes_the_next_decision_wait_for_the_charges(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 9, 1))
    for _ in range(2):
        core.offer(0, 0)
    for _ in range(12):
        await core.cycle()
    dut.step_i.value = 5
    winner, cycles = await core.decide()
    assert (winner, cycles) == (0, LATENCY)
    dut.step_i.value = 1
    assert (await core.decide())[0] == 0
    # Periods ended at 2, 3, 4 and 5 before the decision at 5, which is late for that of 6 only.
    assert core.count(0) == {"missed": 4, "violations": 4, "serviced": 2}


@cocotb.test()
async def a_packet_offered_while_a_decision_starts_is_in_the_next(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 0, 5))
    await core.load(1, contract(0, 0, 1))
    core.offer(0, 0)
    for _ in range(12):
        await core.cycle()
    # Stream 1 would win, but arrives too late for this decision.
    core.offer(1, 1)
    dut.decide_i.value = 1
    ends = []
    for _ in range(2 + LATENCY):
        seen = await core.cycle()
        if seen["decided"]:
            ends.append(seen["winner"])
    assert ends == [0, 1]


@cocotb.test()
async def a_packet_offered_in_the_cycle_of_a_load_is_of_the_new_contract(dut):
    core = Core(dut)
    await core.start()
    await core.load(0, contract(0, 0, 5))
    for _ in range(2):
        core.offer(0, 0)
    for _ in range(12):
        await core.cycle()
    # The head and a packet are in the core, which has room for more. LOAD discards them, and takes
    # none in its cycle.
    assert not core.queues[0]
    core.offer(0, 0)
    await core.load(0, contract(0, 0, 7))
    assert len(core.queues[0]) == 1
    for _ in range(12):
        await core.cycle()
    assert (await core.decide())[0] == 0
    assert (await core.decide())[0] is None
    assert core.count(0)["serviced"] == 1


@cocotb.test()
async def load_waits_for_decisions_on_their_way(dut):
    core = Core(dut)
    await core.start()
    dut.decide_i.value = 1
    await core.cycle()
    dut.load_valid_i.value = 1
    refused = 0
    while not (seen := await core.cycle())["load_ready"]:
        assert not seen["ready"], "a decision would start while a LOAD waits"
        refused += 1
    assert refused == LATENCY - 1
