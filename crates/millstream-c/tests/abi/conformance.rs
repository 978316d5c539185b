//! The conformance traces, replayed through the C functions on every structure: equal decisions for
//! every discipline of the catalogue.

use millstream::Link;
use millstream::catalogue::{
    DISCIPLINES, DisciplineRow, DwcsOrder, MinBwAlgorithm, Options as EngineOptions,
};
use millstream_c::*;
use millstream_reference::files;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt::Write as _;

use crate::driver::{Handle, contract};

/// A scenario of the traces.
#[derive(Debug)]
struct Scenario {
    names: Vec<String>,
    contracts: Vec<Contract>,
    discipline: String,
    algorithm: Option<CString>,
    table: Vec<u32>,
    options: Options,
}

/// Returns a number with its unit, which the traces write as "100 ns", "9 bps" or "5 B".
fn number(value: &toml::Value) -> u64 {
    match value {
        toml::Value::Integer(number) => u64::try_from(*number).unwrap(),
        toml::Value::String(text) => {
            let (number, unit) = text.split_once(' ').unwrap();
            let factor = match unit {
                "ns" | "bps" | "B" => 1,
                "us" => 1_000,
                _ => panic!("a unit of {text}"),
            };
            number.parse::<u64>().unwrap() * factor
        }
        other => panic!("{other:?} is no number"),
    }
}

fn number32(value: &toml::Value) -> u32 {
    number(value).try_into().unwrap()
}

fn stream(table: &toml::Table) -> Contract {
    let mut of = contract();
    for (key, value) in table {
        match key.as_str() {
            "name" | "source" => {}
            "period" => of.period_ns = number(value),
            "window" => {
                let (lost, all) = value.as_str().unwrap().split_once('/').unwrap();
                (of.window_lost, of.window_of) = (lost.parse().unwrap(), all.parse().unwrap());
            }
            "first-deadline" => of.first_deadline_ns = number(value),
            "late" if value.as_str() == Some("drop") => of.late = MS_LATE_DROP,
            "late" => {}
            "priority" => of.priority = number32(value),
            "queue" => of.queue_packets = number32(value),
            "weight" => of.weight = number32(value),
            "quantum" => of.quantum_bytes = number32(value),
            "max-rate" => of.max_rate_bps = number(value),
            "burst" => of.burst_bytes = number(value),
            "fmc" => of.management = u32::from(value.as_bool().unwrap()),
            other => panic!("a key {other} of streams"),
        }
    }
    of
}

impl Scenario {
    fn parse(text: &str) -> Self {
        let file: toml::Table = text.parse().unwrap();
        let streams = file["stream"].as_array().unwrap().iter().map(|of| of.as_table().unwrap());
        let (link, scheduler) = (&file["link"], file["scheduler"].as_table().unwrap());
        let names: Vec<_> =
            streams.clone().map(|of| of["name"].as_str().unwrap().to_owned()).collect();
        let second = |key: &str, word: &str| {
            u32::from(scheduler.get(key).is_some_and(|value| value.as_str() == Some(word)))
        };
        let known = ["discipline", "algorithm", "table", "order", "rules", "zero-window"];
        assert!(scheduler.keys().all(|key| known.contains(&key.as_str())), "{scheduler:?}");
        let text = |key: &str| scheduler.get(key).and_then(toml::Value::as_str);
        let table = scheduler.get("table").and_then(toml::Value::as_array);
        let entry = |of: &toml::Value| {
            let found = names.iter().position(|name| Some(name.as_str()) == of.as_str());
            u32::try_from(found.unwrap()).unwrap()
        };
        Self {
            contracts: streams.map(stream).collect(),
            discipline: text("discipline").unwrap().to_owned(),
            algorithm: text("algorithm").map(|name| CString::new(name).unwrap()),
            table: table.into_iter().flatten().map(entry).collect(),
            options: Options {
                link_rate_bps: number(&link["rate"]),
                link_overhead_bytes: link
                    .get("overhead")
                    .map_or(0, |of| number32(of).cast_signed()),
                dwcs_order: second("order", "loss-first"),
                dwcs_rules: second("rules", "rtas99"),
                dwcs_zero_window: second("zero-window", "lowest-denominator"),
                ..Options::default()
            },
            names,
        }
    }

    /// Returns the structures that the engine has for the discipline.
    fn structures(&self) -> Vec<&'static str> {
        let order = [DwcsOrder::EdfFirst, DwcsOrder::LossFirst][self.options.dwcs_order as usize];
        let algorithm = match self.algorithm.as_deref().map(|name| name.to_str().unwrap()) {
            None => MinBwAlgorithm::default(),
            Some("wfq") => MinBwAlgorithm::Wfq,
            Some("scfq") => MinBwAlgorithm::Scfq,
            Some("drr") => MinBwAlgorithm::Drr,
            Some(other) => panic!("{other}"),
        };
        let options = EngineOptions { order, algorithm, ..EngineOptions::default() };
        let row = DisciplineRow::parse(&self.discipline).unwrap();
        row.structures(&options).into_iter().map(|structure| structure.name()).collect()
    }

    /// Returns the departures when `arrivals` are sent over the link.
    fn run(&self, structure: &str, arrivals: &str) -> String {
        let options = Options {
            algorithm: self.algorithm.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            table: self.table.as_ptr(),
            table_entries: self.table.len(),
            ..self.options
        };
        let names = (self.discipline.as_str(), structure);
        let scheduler = Handle::new(names, options, &self.contracts).unwrap();
        let link = Link::new(options.link_rate_bps, options.link_overhead_bytes);
        let arrivals: Vec<_> = arrivals.lines().skip(1).map(|row| self.arrival(row)).collect();
        let mut rows = Rows { names: &self.names, text: String::new() };
        rows.text += "time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n";
        let mut counts = vec![0; self.names.len()];
        let (mut next, mut free_ns) = (0, 0);
        while next < arrivals.len() || scheduler.backlog() > 0 {
            let mut now_ns = free_ns;
            if scheduler.backlog() == 0 {
                if arrivals[next].0 > free_ns {
                    // The busy period ends.
                    assert_eq!(scheduler.dequeue(free_ns), Ok(None));
                }
                now_ns = free_ns.max(arrivals[next].0);
            }
            while let Some(&(time_ns, stream, bytes)) = arrivals.get(next)
                && time_ns <= now_ns
            {
                let packet = &mut counts[stream as usize];
                if scheduler.enqueue(stream, *packet, bytes, time_ns) == MS_DROPPED_FULL {
                    let (packet, deadline_ns) = (*packet, MS_NONE);
                    let arrival_ns = time_ns;
                    let event = MS_EVENT_FULL;
                    let full = Decision {
                        time_ns,
                        stream,
                        packet,
                        bytes,
                        arrival_ns,
                        deadline_ns,
                        event,
                        ..Decision::default()
                    };
                    rows.write(&full);
                }
                *packet += 1;
                next += 1;
            }
            let decision = scheduler.dequeue(now_ns).unwrap();
            let mut drops = [Decision::default(); 16];
            while let count @ 1.. = scheduler.take_drops(&mut drops) {
                drops[..count].iter().for_each(|drop| rows.write(drop));
            }
            if let Some(sent) = decision {
                assert_eq!(sent.handle, sent.packet, "the handle is that of the packet");
                rows.write(&sent);
                free_ns = now_ns + link.transmission_ns(sent.bytes);
            } else if scheduler.backlog() > 0 {
                let arrival_ns = arrivals.get(next).map(|arrival| arrival.0);
                let events = [arrival_ns, scheduler.next_eligible_ns()];
                free_ns = events.into_iter().flatten().min().unwrap().max(now_ns);
            } else {
                free_ns = now_ns;
            }
        }
        self.check_counters(&scheduler, &rows.text);
        rows.text
    }

    fn arrival(&self, row: &str) -> (u64, u32, u32) {
        let mut cells = row.split(',');
        let mut cell = || cells.next().unwrap();
        let time_ns = cell().parse().unwrap();
        let name = cell();
        let stream = self.names.iter().position(|known| known == name).unwrap();
        (time_ns, stream.try_into().unwrap(), cell().parse().unwrap())
    }

    /// Checks that the counters equal the number of rows.
    fn check_counters(&self, scheduler: &Handle, rows: &str) {
        for (number, name) in (0..).zip(&self.names) {
            let count = |event: &str| {
                let of_stream = format!(",{name},");
                let found = rows.lines().filter(|row| row.contains(&of_stream));
                found.filter(|row| row.ends_with(event)).count() as u64
            };
            let of = scheduler.counters(number).unwrap();
            let found = (of.sent, of.dropped_late, of.dropped_full);
            assert_eq!(found, (count(",sent"), count(",dropped-late"), count(",dropped-full")));
            assert_eq!(of.arrived, of.sent + of.dropped_late + of.dropped_full);
            assert_eq!((of.waiting, of.waiting_bytes, of.dropped_aqm), (0, 0, 0));
        }
    }
}

struct Rows<'a> {
    names: &'a [String],
    text: String,
}

impl Rows<'_> {
    fn write(&mut self, of: &Decision) {
        let event = ["sent", "dropped-late", "dropped-full", "dropped-aqm"][of.event as usize];
        let deadline = of.deadline_ns;
        let deadline = if deadline == MS_NONE { String::new() } else { deadline.to_string() };
        let name = &self.names[of.stream as usize];
        let Decision { time_ns, packet, bytes, arrival_ns, .. } = of;
        writeln!(self.text, "{time_ns},{name},{packet},{bytes},{arrival_ns},{deadline},{event}")
            .unwrap();
    }
}

#[test]
fn every_trace_replays_on_every_structure_through_c() {
    let (mut replayed, mut disciplines) = (0, BTreeSet::new());
    for trace in files::all() {
        let [(_, scenario), (_, arrivals), (_, expected)] = &trace.files;
        let scenario = Scenario::parse(scenario);
        for structure in scenario.structures().into_iter().chain([""]) {
            let found = scenario.run(structure, arrivals);
            assert!(found == *expected, "{} on {structure:?}", trace.name);
            replayed += 1;
        }
        disciplines.insert(scenario.discipline);
    }
    assert!(replayed > 200, "{replayed}");
    let all: BTreeSet<_> = DISCIPLINES.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(disciplines, all, "each discipline has a trace");
}
