"""The stimulus of Figure 6: loads four streams, then makes back-to-back decisions."""

import cocotb

from core import Core, contract


@cocotb.test()
async def streams_are_loaded_and_decisions_follow_each_other(dut):
    core = Core(dut)
    await core.start()
    # Bandwidths 1:1:2:4, the paper's Figure 12.
    windows = [(7, 8), (14, 16), (6, 8), (4, 8)]
    for stream, (x, y) in enumerate(windows):
        await core.load(stream, contract(x, y, deadline=1))
        for _ in range(10):
            core.offer(stream, 0)
    await core.cycle()
    dut.decide_i.value = 1
    ends = 0
    while ends < 3:
        ends += (await core.cycle())["decided"]
