"""The number of every window is correct, after a load and after an update.

`fractions_are_ordered_by_a_key` in rtl/bulk shows that the numbers are in the windows' order.
ORDER_KEY_STRIDE (default 1) tests a window in so many.
"""

import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

HOLD, RESTORED, Y_DOWN, BOTH_DOWN = 0b000, 0b100, 0b010, 0b011


def ratio(x, y):
    return x * -(-(1 << 31) // y) >> 15 if y else 0


@cocotb.test()
async def every_window_has_its_number_and_those_that_follow_it(dut):
    for name in ("load_i", "commit_i", "wins_i", "wins_move_i", "loses_move_i", "x_i", "y_i"):
        getattr(dut, name).value = 0
    dut.enable_i.value = 1
    dut.rst_ni.value = 0
    cocotb.start_soon(Clock(dut.clk_i, 10, unit="ns").start())

    async def cycles(count):
        for _ in range(count):
            await RisingEdge(dut.clk_i)
        await Timer(1, "ns")

    def check(x, y, before):
        assert int(dut.ratio_o.value) == ratio(x, y), f"{x}/{y} {before}"
        assert int(dut.zero_o.value) == (x == 0), f"{x}/{y} {before}"

    async def commit(x, y, move, wins):
        # The other outcome differs, so that the right one must be selected.
        dut.wins_i.value = wins
        dut.wins_move_i.value = move if wins else RESTORED
        dut.loses_move_i.value = RESTORED if wins else move
        dut.commit_i.value = 1
        await cycles(1)
        dut.commit_i.value = 0
        dut.x_i.value = x
        dut.y_i.value = y
        await cycles(3)

    stride = int(os.environ.get("ORDER_KEY_STRIDE", "1"))
    await cycles(1)
    dut.rst_ni.value = 1
    for y in range(256):
        # All remainders of x are tested with all of y.
        for x in range(y // stride % stride, y + 1, stride):
            dut.load_i.value = 1
            await cycles(1)
            dut.load_i.value = 0
            dut.x_i.value = x
            dut.y_i.value = y
            await cycles(4)
            check(x, y, "as loaded")
            await cycles(2)
            if x % 2 and y > 1:
                wins = (x + y) % 4 == 0
                await commit(x - 1, y - 1, BOTH_DOWN, wins)
                check(x - 1, y - 1, "after both fell by 1")
                await commit(x, y, RESTORED, not wins)
                check(x, y, "restored")
                if y > x:
                    await commit(x, y - 1, Y_DOWN, wins)
                    check(x, y - 1, "after y' fell by 1")
                    await commit(x, y - 1, HOLD, not wins)
                    check(x, y - 1, "after nothing happened")
