"""Simulates and schedules packet streams that share a link.

A scenario defines the streams, the scheduler and the link; a run simulates it in integer
nanoseconds. The schedule equals that of the ``millstream`` command, packet for packet.
:class:`Scheduler` is the engine itself, for programs with their own packets and clock;
:mod:`millstream.sweep` runs many scenarios.

>>> import millstream
>>> scenario = millstream.Scenario("8 Mbit/s", "edf", duration="1 s")
>>> cbr = {"kind": "cbr", "bytes": 1000, "rate": "2 Mbit/s"}
>>> result = scenario.stream("voice", period="20 ms", source=cbr).run()
>>> result.summary["streams"][0]["sent"]
250
"""

from millstream._millstream import (
    ContractError,
    Departure,
    DepartureColumns,
    Head,
    MillstreamError,
    ScenarioError,
    TrafficError,
    __version__,
    disciplines,
)
from millstream.result import Result
from millstream.scenario import Scenario
from millstream.scheduler import EVENTS, NO_DEADLINE, Counters, Discipline, Misses, Scheduler

__all__ = [
    "EVENTS",
    "NO_DEADLINE",
    "ContractError",
    "Counters",
    "Departure",
    "DepartureColumns",
    "Discipline",
    "Head",
    "MillstreamError",
    "Misses",
    "Result",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "TrafficError",
    "__version__",
    "disciplines",
]
