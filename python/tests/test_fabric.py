"""Fabrics: numbers, links and sweeps equal the command's."""

from __future__ import annotations

import concurrent.futures as futures
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import millstream
from millstream import Scenario, sweep

Command = Callable[..., subprocess.CompletedProcess[str]]

SMALL: dict[str, Any] = {
    "scenario": {"duration": "2 ms"},
    "link": {"rate": "1 Gbps"},
    "fabric": {
        "topology": {"kind": "folded-shuffle", "arity": 2, "levels": 2},
        "warm-up": "0.5 ms",
    },
    "scheduler": {"discipline": "wfq"},
    "stream": [
        {
            "name": "calls",
            "weight": 3,
            "source": {"kind": "cbr", "bytes": 200, "interval": "100 us", "load": 0.2},
        },
        {"name": "bulk", "source": {"kind": "poisson", "bytes": 1000, "rate": "900 Mbps"}},
    ],
}

LINK: dict[str, Any] = {
    "scenario": {"duration": "300 ms"},
    "link": {"rate": "10 Mbps"},
    "scheduler": {"discipline": "fifo"},
    "stream": [
        {"name": name, "queue": 50, "source": {"kind": "pareto", "bytes": 700, "rate": "6 Mbps"}}
        for name in ("a", "b")
    ],
}


def small() -> Scenario:
    return Scenario.from_dict(SMALL, name="small")


def test_the_numbers_are_the_commands(tmp_path: Path, command: Command) -> None:
    scenario = small()
    assert scenario.is_fabric
    result = scenario.run(seed=3)
    file = tmp_path / "small.toml"
    file.write_text(scenario.text)
    assert command("run", file, "--seed", "3", "--json").stdout == result.summary_json
    assert command("run", file, "--seed", "3").stdout == str(result) + "\n"
    assert result.is_fabric
    rows = {row["name"]: row for row in result.streams.to_pylist()}
    calls, bulk = (stream for stream in result.summary["streams"])
    assert rows["calls"]["delay_p99_ns"] == calls["delay_ns"]["p99"]
    assert rows["calls"]["delay_p999_ns"] == calls["delay_ns"]["p999"]
    assert rows["calls"]["connections_admitted"] == calls["connections_admitted"] > 0
    assert rows["bulk"]["throughput"] == bulk["throughput"] > 0
    assert rows["calls"]["jitter_max_ns"] is not None
    assert rows["bulk"]["jitter_max_ns"] is None
    assert "bulk" in result._repr_html_()


def test_links_and_where_it_is_hot() -> None:
    result = small().run()
    links, fabric = result.links, result.summary["fabric"]
    assert links.num_rows == fabric["links"]
    hottest = links.sort_by([("utilisation", "descending")]).slice(0, 1).to_pylist()[0]
    assert hottest["utilisation"] == fabric["highest_utilisation"]
    names = [f"{row['from']} to {row['to']}" for row in links.to_pylist()]
    assert len(set(names)) == len(names)
    busiest = links.to_pylist()[names.index(fabric["busiest_link"])]
    assert busiest["utilisation"] == hottest["utilisation"]
    assert busiest["busy_ns"] / fabric["end_ns"] == pytest.approx(busiest["utilisation"], abs=1e-6)
    mean = pc.mean(links["busy_ns"]).as_py() / fabric["end_ns"]
    assert mean == pytest.approx(fabric["mean_utilisation"], abs=1e-6)


def test_missing_columns_of_fabrics_and_links(tmp_path: Path) -> None:
    scenario = small()
    with pytest.raises(ValueError, match="departures=True is for a single link"):
        scenario.run(departures=True)
    result = scenario.run()
    with pytest.raises(ValueError, match="departures were not kept"):
        _ = result.departures
    with pytest.raises(ValueError, match="series=True"):
        result.write_report(tmp_path / "page.html")
    link = Scenario.from_dict(LINK).run()
    assert not link.is_fabric
    with pytest.raises(ValueError, match="it was a single link"):
        _ = link.links
    impossible = scenario.replace({"fabric.topology.arity": 300})
    with pytest.raises(millstream.ScenarioError, match="topology"):
        impossible.run()
    with pytest.raises(millstream.ScenarioError, match="topology"):
        impossible.check()


def test_the_page_and_the_check_are_the_commands(tmp_path: Path, command: Command) -> None:
    scenario = small()
    file = tmp_path / "small.toml"
    file.write_text(scenario.text)
    theirs, ours = tmp_path / "theirs.html", tmp_path / "ours.html"
    assert command("run", file, "--report", theirs).returncode == 0
    scenario.run(series=True).write_report(ours)
    assert ours.read_bytes() == theirs.read_bytes()
    explained = scenario.check()
    assert explained == json.loads(command("check", file, "--json").stdout)
    found = [explained[key] for key in ("end_points", "switches", "deadlock_links")]
    assert found == [4, 4, 0]
    calls = explained["streams"][0]
    assert 0 < calls["connections_admitted"] <= calls["connections_asked"]


def test_progress_is_reported_and_its_exception_ends_the_run() -> None:
    long = small().replace({"scenario.duration": "200 ms"})
    times: list[int] = []

    def told(now_ns: int) -> None:
        times.append(now_ns)
        if len(times) == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        long.run(progress=told)
    assert 0 < times[0] < times[1] < 200_000_000


def test_other_threads_sweep_fabrics_at_the_same_time(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {
        "fabric.latency": ["100 ns", "200 ns"],
        "stream.bulk.weight": [1, 2],
    }
    with futures.ThreadPoolExecutor(2) as threads:
        made = sweep.run(
            sweep.grid(small(), axes), seeds=[1, 2], results=tmp_path / "one", executor=threads
        )
        local = sweep.run(
            sweep.grid(small(), axes), seeds=[1, 2], results=tmp_path / "two", workers=2
        )
    assert made.failures == []
    assert made.path.read_bytes() == local.path.read_bytes()
    row = made.table.to_pylist()[-1]
    alone = small().replace({"fabric.latency": "200 ns", "stream.bulk.weight": 2}).run(seed=2)
    assert row["delay_max_ns"] == alone.summary["streams"][1]["delay_ns"]["max"]
    assert row["packet_hops"] == alone.summary["fabric"]["packet_hops"]


def test_links_and_fabrics_cannot_share_a_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="all single links or all fabrics"):
        sweep.run([small(), Scenario.from_dict(LINK)], results=tmp_path)


def test_a_stream_by_its_number() -> None:
    changed = small().replace({"stream.1.weight": 7, "fabric.latency": "1 us"}).to_dict()
    assert changed["stream"][1]["weight"] == 7
    assert changed["fabric"]["latency"] == "1 us"
    with pytest.raises(KeyError, match="no stream called '2'"):
        small().replace({"stream.2.weight": 7})


@pytest.mark.parametrize(
    ("table", "axes"),
    [
        (
            SMALL,
            {
                "fabric.speed-up": [1, 1.5],
                "stream.bulk.source.rate": ["300 Mbps", "900 Mbps"],
                "stream.*.weight": [1, 3],
            },
        ),
        (
            LINK,
            {
                "scheduler.discipline": ["fifo", "drr"],
                "stream.1.queue": [10, 100],
                "link.overhead": [0, 24],
            },
        ),
    ],
)
def test_the_shell_sweeps_to_the_same_dataset(
    tmp_path: Path, command: Command, table: dict[str, Any], axes: dict[str, list[Any]]
) -> None:
    scenario = Scenario.from_dict(table, name="same")
    file = tmp_path / "same.toml"
    file.write_text(scenario.text)
    with futures.ThreadPoolExecutor(2) as threads:
        made = sweep.run(
            sweep.grid(scenario, axes), seeds=[1, 2, 3], results=tmp_path / "py", executor=threads
        )
    sets = [
        word
        for place, values in axes.items()
        for word in ("--set", f"{place}={','.join(str(value) for value in values)}")
    ]
    shell = tmp_path / "shell"
    ended = command("sweep", file, *sets, "--seeds", "1..3", "--out", shell)
    assert ended.returncode == 0, ended.stderr
    ours = pq.read_table(shell / "sweep.parquet")
    assert made.table.num_rows == 2**3 * 3 * 2
    assert ours.schema.names == made.table.schema.names
    assert ours.schema.types == made.table.schema.types
    assert ours.to_pylist() == made.table.to_pylist()
    # CSV is untyped: read with the types of the other.
    types = {name: ours.schema.field(name).type for name in ours.schema.names}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    csv: pa.Table = pyarrow.csv.read_csv(shell / "sweep.csv", convert_options=options)
    assert csv.to_pylist() == ours.to_pylist()
    lines = json.loads(
        command("sweep", file, *sets, "--seeds", "1..3", "--out", shell, "--json").stdout
    )
    mean = pc.mean(ours.filter(pc.field("point") == 0)["end_ns"]).as_py()
    assert lines[0]["metrics"]["end_ns"]["mean"] == pytest.approx(mean)
