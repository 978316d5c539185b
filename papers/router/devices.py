"""The live router with devices of 32 packets, like the paper's, and functions of given cost."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modules import FUEL_A_TURN, counting
from network import SINKS, STATUS, Network, Rates, Sender
from overload import ip
from paced import VALUES, VARIED_BYTE

#: Packets that a device holds: the model's receive rings.
RING = 32
#: Outputs at full speed.
UNLIMITED = "100 Gbps"
#: Bits of a packet on a link.
BITS = 60 * 8


@dataclass
class Flow:
    """A flow from its own device through its own path."""

    #: Packets per second.
    rate: float
    #: Turns of its extension, and additional turns per unit of the byte in which packets differ.
    turns: int = 1
    by_byte: int = 0
    #: Number of its output.
    output: int = 0
    #: Additional keys of its input and its path.
    port: str = ""
    path: str = ""


def pace(rate: float) -> str:
    """Returns the speed of a link that carries this number of packets per second."""
    return f"{int(rate * BITS)} bps"


def file(flows: list[Flow], router: str, rates: list[str], outputs: list[str]) -> str:
    """Returns a router's file with these keys of the router, and speeds and keys of the outputs."""
    text = f'[router]\nname = "paper"\nstatus = "{STATUS}"\n{router}\n'
    for at, flow in enumerate(flows):
        text += f'[[port]]\nname = "t{at}"\nkind = "tap"\nrate = "{UNLIMITED}"\n{flow.port}\n'
    for at in range(SINKS):
        text += (
            f'[[port]]\nname = "out{at}"\nkind = "interface"\nrate = "{rates[at]}"\n{outputs[at]}\n'
        )
    for at, flow in enumerate(flows):
        text += f'[[path]]\nname = "{"ABC"[at]}"\nmatch = {{ port = "t{at}" }}\n'
        text += f'to = "out{flow.output}"\n'
        fuel = FUEL_A_TURN * (flow.turns + flow.by_byte * VALUES) + 100
        text += f'{flow.path}\nextension = {{ module = "burn{at}.wasm", fuel = {fuel} }}\n'
    for at in range(SINKS):
        text += f'[[route]]\nprefix = "10.{2 + at}.0.0/16"\nport = "out{at}"\n'
        text += 'neighbour = "02:00:00:00:00:09"\n'
    return text


class RunningFlows:
    """Flows through a running router."""

    def __init__(self, network: Network, flows: list[Flow]) -> None:
        """Stores the flows."""
        self.network, self.flows = network, flows
        self.devices = [(network.router, f"t{at}") for at in range(len(flows))]

    def measure(self, seconds: float) -> Rates:
        """Measures while one process on another core sends all flows."""
        arguments = [str(self.network.sender_cores[0])]
        for at, flow in enumerate(self.flows):
            if flow.rate:
                arguments += [
                    f"t{at}",
                    self.network.mac(f"t{at}"),
                    str(2 + flow.output),
                    str(flow.rate),
                ]
        program = Path(__file__).with_name("paced.py")
        command = [
            "ip",
            "netns",
            "exec",
            self.network.router,
            sys.executable,
            str(program),
            *arguments,
        ]

        def start() -> list[Sender]:
            return [subprocess.Popen(command)]

        return self.network.measure(start, self.devices, seconds)


@contextmanager
def with_devices(
    network: Network,
    flows: list[Flow],
    router: str,
    rates: list[str] | None = None,
    outputs: list[str] | None = None,
) -> Iterator[RunningFlows]:
    """Runs the router with these flows and additional keys."""
    for at, flow in enumerate(flows):
        module = counting(max(1, flow.turns), flow.by_byte, VARIED_BYTE)
        (network.folder / f"burn{at}.wasm").write_bytes(module)
    text = file(flows, router, rates or [UNLIMITED] * SINKS, outputs or [""] * SINKS)
    with network.running(text):
        for at in range(len(flows)):
            ip("-n", network.router, "link", "set", f"t{at}", "txqueuelen", str(RING))
        yield RunningFlows(network, flows)
