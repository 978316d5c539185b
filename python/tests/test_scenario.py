"""Scenarios and results: the command's numbers and errors, and Arrow without copies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

import millstream
from millstream import Scenario, ScenarioError

Command = Callable[..., "subprocess.CompletedProcess[str]"]
CBR = {"kind": "cbr", "bytes": 1000, "rate": "4 Mbps"}


def endless() -> Scenario:
    """A scenario that runs for long unless it is stopped."""
    return Scenario("1 Gbps", duration="100000000 s").stream("a", source=CBR)


@pytest.mark.parametrize("example", ["classes", "compare", "minbw", "uplink"])
def test_a_run_says_what_the_command_says(
    example: str, root: Path, tmp_path: Path, command: Command
) -> None:
    path = root / "examples" / example / "scenario.toml"
    ran = command("run", path, "--summary", tmp_path / "s.json", "--report", tmp_path / "r.html")
    assert ran.returncode == 0, ran.stderr
    result = Scenario.from_file(path).run(series=True)
    assert str(result) + "\n" == ran.stdout
    assert result.summary_json == (tmp_path / "s.json").read_text()
    result.write_report(tmp_path / "python.html")
    assert (tmp_path / "python.html").read_bytes() == (tmp_path / "r.html").read_bytes()
    assert "".join(f"note: {note}\n" for note in result.notes) in ran.stderr
    assert Scenario.from_file(path).check() == json.loads(command("check", path, "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((10e6, "fifo"), 'link = 10000000.0; must be a rate such as "100 Mbit/s"'),
        (("1 Mbit/s", "dwsc"), "discipline = 'dwsc'; must be one of"),
    ],
)
def test_a_wrong_argument_is_named_at_construction(arguments: tuple[Any, str], says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        Scenario(*arguments)
    assert says in str(refused.value)


def test_a_seed_is_the_commands_seed(root: Path, command: Command) -> None:
    path = root / "examples/classes/scenario.toml"
    scenario = Scenario.from_file(path)
    ran = command("run", path, "--seed", "7", "--json")
    assert scenario.run(seed=7).summary == json.loads(ran.stdout)
    assert scenario.run(seed=7).seed == 7
    assert scenario.run().summary != scenario.run(seed=7).summary
    assert scenario.seed == 1


def test_the_matches_of_a_stream_are_tables() -> None:
    match = [{"protocol": "udp", "source_port": 5060}, {"mark": "0x100/0xff00"}]
    built = Scenario("10 Mbps", "fifo", duration="1 ms").stream("a", match_=match, source=CBR)
    tables = [{"protocol": "udp", "source-port": 5060}, {"mark": "0x100/0xff00"}]
    assert built.to_dict()["stream"][0]["match"] == tables
    assert Scenario.from_text(built.text).to_dict()["stream"][0]["match"] == tables


def test_a_dict_and_a_text_give_equal_scenarios() -> None:
    built = (
        Scenario("10 Mbps", "wf2q+", name="one", duration="100 ms", seed=3)
        .class_("office", "drr", weight=2)
        .stream("a", class_="office", max_rate="1 Mbps", burst="3 KB", source=CBR)
        .stream("b", queue=5, source={"kind": "pareto", "bytes": 500, "rate": "20 Mbps"})
    )
    table = built.to_dict()
    assert table["stream"][0]["max-rate"] == "1 Mbps"
    summary = built.run().summary
    assert summary["scenario"] == "one"
    assert Scenario.from_dict(table).run().summary == summary
    assert Scenario.from_text(built.text).run().summary == summary
    assert pickle.loads(pickle.dumps(built)).run().summary == summary


def test_replace_changes_a_copy() -> None:
    base = Scenario("10 Mbps", duration="50 ms").stream("a", source=CBR).stream("b", source=CBR)
    other = base.replace(
        {
            "scheduler.discipline": "wfq",
            "stream.*.queue": 3,
            "stream.b.weight": 5,
            "stream.a.source.rate": "9 Mbps",
        }
    ).to_dict()
    assert [stream["queue"] for stream in other["stream"]] == [3, 3]
    assert other["stream"][1]["weight"] == 5
    assert other["stream"][0]["source"]["rate"] == "9 Mbps"
    assert other["stream"][1]["source"]["rate"] == "4 Mbps"
    assert base.to_dict()["scheduler"]["discipline"] == "fifo"
    with pytest.raises(KeyError, match="there is no stream called 'c'"):
        base.replace({"stream.c.weight": 1})
    with pytest.raises(KeyError, match="a place begins with"):
        base.replace({"weight": 1})


WRONG = {
    "typing": '[link]\nrate = "10 Mbps"\n[scheduler]\ndiscipline = "dwsc"\n',
    "several": (
        '[link]\nrate = "10 Mbps"\n[scheduler]\ndiscipline = "edf"\n'
        '[[stream]]\nname = "größe"\nsource = { kind = "cbr", bytes = 9 }\n'
        '[[stream]]\nname = "größe"\nsource = { kind = "cbr", byte = 9, rate = "1 Mbps" }\n'
    ),
    "syntax": "[link\n",
    "input": (
        '[link]\nrate = "10 Mbps"\n[scheduler]\ndiscipline = "fifo"\n'
        '[[stream]]\nname = "a"\nsource = { kind = "trace", file = "none.csv" }\n'
    ),
    "order": (
        '[link]\nrate = "10 Mbps"\n[scheduler]\ndiscipline = "fifo"\n'
        '[[stream]]\nname = "a"\nsource = { kind = "trace", file = "back.csv" }\n'
    ),
}


@pytest.mark.parametrize("name", [*WRONG, "missing"])
def test_errors_are_the_commands_errors(name: str, tmp_path: Path, command: Command) -> None:
    path = tmp_path / f"{name}.toml"
    if name in WRONG:
        path.write_text(WRONG[name])
    (tmp_path / "back.csv").write_text("time_ns,stream,bytes\n5,a,100\n4,a,100\n")
    ran = command("run", path)
    assert ran.returncode == 2
    kind = millstream.TrafficError if name in ("input", "order") else millstream.ScenarioError
    with pytest.raises(kind) as raised:
        Scenario.from_file(path).run()
    assert str(raised.value).rstrip() == ran.stderr.rstrip()
    assert isinstance(raised.value, millstream.MillstreamError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (kind, str(raised.value))


def test_errors_of_a_dict_are_shown_as_toml() -> None:
    table = {"link": {"rate": "fast"}, "scheduler": {"discipline": "fifo"}}
    with pytest.raises(millstream.ScenarioError) as raised:
        Scenario.from_dict(table, name="mine")
    assert "mine:2:8" in str(raised.value) and 'rate = "fast"' in str(raised.value)


def test_arrow_pandas_and_polars_share_the_departures(root: Path, tmp_path: Path) -> None:
    result = Scenario.from_file(root / "examples/classes/scenario.toml").run(departures=True)
    table = result.departures
    assert table.num_rows == sum(
        row["sent"] + row["dropped_late"] + row["dropped_full"] for row in result.summary["streams"]
    )
    # Two readers get the same buffers, so neither is a copy.
    native = result._native.departures
    again, reader = pa.table(native), pa.RecordBatchReader.from_stream(native)
    addresses = [
        [
            buffer.address
            for column in some.columns
            for buffer in column.chunk(0).buffers()
            if buffer
        ]
        for some in (table, again, reader.read_all())
    ]
    assert addresses[0] == addresses[1] == addresses[2]
    numbers = table["time_ns"].chunk(0).to_numpy(zero_copy_only=True)
    assert numbers.ctypes.data == table["time_ns"].chunk(0).buffers()[1].address

    assert result.to_pandas()["sent"].tolist() == result.to_polars()["sent"].to_list()
    assert result.to_polars().columns == result.streams.column_names
    frame = table.to_pandas()
    assert isinstance(frame.stream.dtype, pd.CategoricalDtype)
    assert frame.bytes.sum() == pl.DataFrame(table)["bytes"].sum()
    assert pl.DataFrame(native).height == table.num_rows, "without pyarrow between"
    with (
        pa.OSFile(str(tmp_path / "d.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as to,
    ):
        to.write_table(table)
    assert pa.ipc.open_file(str(tmp_path / "d.arrow")).read_all() == table


def test_many_departures_come_in_several_batches() -> None:
    source = {"kind": "backlog", "packets": 300_000, "bytes": 64}
    result = Scenario("1 Gbps").stream("a", source=source).run(departures=True)
    packets = result.departures["packet"]
    assert packets.num_chunks == 3
    assert packets.to_pylist() == list(range(300_000))
    assert result.departures["deadline_ns"].null_count == 300_000


def test_idle_streams_have_null_delays_and_names_are_escaped() -> None:
    none = {**CBR, "start": "1 s"}
    scenario = Scenario("1 Mbps", duration="10 ms").stream("<b>&", source=none)
    result = scenario.run()
    row = result.streams.to_pylist()[0]
    assert (row["sent"], row["delay_p99_ns"], row["jitter_max_ns"]) == (0, None, None)
    page = result._repr_html_()
    assert "&lt;b&gt;&amp;" in page and "<b>" not in page and "–" in page
    with pytest.raises(ValueError, match=r"run\(departures=True\)"):
        _ = result.departures
    with pytest.raises(ValueError, match=r"run\(series=True\)"):
        result.write_report("never.html")


def test_notebooks_show_the_streams_of_a_scenario() -> None:
    scenario = Scenario("1 Mbps", "wfq", name="a & b", duration="10 ms")
    assert repr(scenario) == "<millstream.Scenario 'a & b': 0 streams, wfq>"
    scenario.stream("<b>", weight=2, source=CBR)
    assert repr(scenario) == "<millstream.Scenario 'a & b': 1 stream, wfq>"
    page = scenario._repr_html_()
    for part in ("a &amp; b: wfq, link 1 Mbps", "<th>weight</th>", "&lt;b&gt;", "kind = cbr"):
        assert part in page
    hostile = Scenario("1 Mbps", duration="10 ms").stream("a\x1b\u202e", source=CBR)
    for page in (hostile._repr_html_(), hostile.run()._repr_html_()):
        assert r"a\u{1b}\u{202e}" in page and "\x1b" not in page and "\u202e" not in page
    for number in range(41):
        scenario.stream(str(number), source=CBR)
    assert "and 2 more streams" in scenario._repr_html_()


def test_a_seed_out_of_range_is_named() -> None:
    with pytest.raises(OverflowError, match="seed = -1; must be an integer from 0 to"):
        Scenario("1 Mbps", duration="10 ms").stream("a", source=CBR).run(seed=-1)


def test_a_run_releases_the_gil(tmp_path: Path) -> None:
    # The run waits for a pipe that only this thread writes: it deadlocks if the run holds the GIL.
    # In a process of its own, so that a failure cannot hang the tests.
    script = """
import os, sys, threading
from millstream import Scenario, ScenarioError
os.mkfifo("arrivals.csv")
source = {"kind": "trace", "file": "arrivals.csv"}
scenario = Scenario("1 Gbps").stream("a", source=source)
sent = []
thread = threading.Thread(target=lambda: sent.append(scenario.run().summary["streams"][0]["sent"]))
thread.start()
with open("arrivals.csv", "w") as pipe:
    pipe.write("time_ns,stream,bytes\\n")
    for number in range(100_000):
        pipe.write(f"{number},a,64\\n")
thread.join()
assert sent == [100_000], sent
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)


def test_ctrl_c_ends_a_run() -> None:
    # A shell's background jobs start with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            endless().run()
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_is_reported_and_may_end_the_run() -> None:
    times: list[int] = []

    def progress(now_ns: int) -> None:
        times.append(now_ns)
        if len(times) == 3:
            raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        endless().run(progress=progress)
    assert times == sorted(times) and times[0] > 0


def test_the_progress_bar_is_optional(capsys: pytest.CaptureFixture[str]) -> None:
    scenario = Scenario("1 Gbps", duration="2 s").stream("a", source=CBR)
    assert scenario.run(progress=True).summary == scenario.run().summary
    assert "s simulated" in capsys.readouterr().err
