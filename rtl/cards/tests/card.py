"""Helpers of the cards' tests: registers by name, and the reference engine."""

import os
import re
from collections import deque
from pathlib import Path

from core import growth
from reference import Reference

REGISTERS = Path(os.environ["REGISTERS"])


def addresses(name):
    """Returns register addresses by name, from the generated Rust constants."""
    text = (REGISTERS / f"{name}_registers.rs").read_text()
    return {name: int(at, 16) for name, at in re.findall(r"const (\w+): u32 = (0x\w+);", text)}


class Registers:
    """A card's registers over AXI4-Lite."""

    def __init__(self, master, name):
        self.master = master
        self.at = addresses(name)

    async def write(self, name, value):
        await self.master.write_dword(self.at[name], value)

    async def read(self, name):
        return await self.master.read_dword(self.at[name])

    async def load(self, stream, load, rtas99=False):
        window = load.x | load.y << 8 | growth(load, rtas99) << 16 | load.drop << 24
        await self.write("WINDOW", window | load.first << 25)
        deadline = load.deadline if load.first else load.priority
        await self.write("TIME", load.period | deadline << 16)
        await self.write("LOAD", stream)


class Schedule:
    """The engine fed with the card's admitted packets: the expected departures in order."""

    def __init__(self, mode, loads, lowest_denominator=False, rtas99=False):
        self.reference = Reference(mode, lowest_denominator, rtas99)
        for load in loads:
            self.reference.load(load)
        self.streams = len(loads)
        self.waiting = [deque() for _ in loads]
        self.dropped = [0] * len(loads)
        self.coming = deque()
        self.decisions = 0

    def admit(self, stream, stamp, packet):
        """Admits a packet that takes part from the decision of that stamp."""
        self.coming.append((stream, stamp, packet))

    def decide(self, now):
        """Returns the winner's number and packet, or None."""
        self.decisions += 1
        while self.coming and self.coming[0][1] <= now:
            stream, stamp, packet = self.coming.popleft()
            self.reference.enqueue(stamp, stream)
            self.waiting[stream].append(packet)
        winner = self.reference.decide(now)
        for stream in range(self.streams):
            dropped = self.reference.attributes(stream).dropped
            for _ in range(dropped - self.dropped[stream]):
                self.waiting[stream].popleft()
            self.dropped[stream] = dropped
        return None if winner is None else (winner, self.waiting[winner].popleft())
