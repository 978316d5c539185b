//! The papers' examples of fair queueing, packet by packet.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{ClassId, Contract, Link, Packet, StreamId, Tree};
use serde_json::Value;

const TICK_NS: u64 = 1000;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../../conformance/golden/fair.json")).unwrap()
}

/// Parses [numerator, denominator].
fn rational(value: &Value) -> (u64, u64) {
    (value[0].as_u64().unwrap(), value[1].as_u64().unwrap())
}

fn whole(value: &Value) -> u64 {
    let (numerator, denominator) = rational(value);
    assert_eq!(numerator % denominator, 0);
    numerator / denominator
}

/// Returns a flow's name, which is a string or a number.
fn flow(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn fluid_and_self_clocked_examples() {
    let golden = golden();
    let mut compared = 0;
    for example in ["keshav", "bennett_zhang_11", "three_211"] {
        let entry = &golden[example];
        let phi = entry["phi"].as_object().unwrap();
        let mut flows: Vec<&String> = phi.keys().collect();
        flows.sort_by_key(|name| (name.len(), (*name).clone()));
        for name in ["wfq", "wf2q", "wf2q+", "scfq", "sfq", "vc"] {
            let Some(expected) = entry[name].as_array() else { continue };
            let row = DisciplineRow::parse(if name == "vc" { "virtual-clock" } else { name });
            // One byte takes a tick.
            let link = Link::new(8_000_000, 0);
            let options = Options { link, ..Options::default() };
            for structure in row.unwrap().structures(&options) {
                let mut scheduler = row.unwrap().build(&options, structure);
                for flow in &flows {
                    let (numerator, denominator) = rational(&phi[*flow]);
                    let weight = u32::try_from(20 * numerator / denominator).unwrap();
                    scheduler.add_stream(Contract::new().weight(weight).unwrap()).unwrap();
                }
                let mut arrivals: Vec<(u64, u32, u32, u64)> = Vec::new();
                for (packet, arrival) in
                    (0u64..).zip(entry["arrivals_t_flow_len"].as_array().unwrap())
                {
                    let stream = flows.iter().position(|f| **f == flow(&arrival[1])).unwrap();
                    let bytes = u32::try_from(arrival[2].as_u64().unwrap()).unwrap();
                    arrivals.push((
                        whole(&arrival[0]) * TICK_NS,
                        u32::try_from(stream).unwrap(),
                        bytes,
                        packet,
                    ));
                }
                arrivals.sort_by_key(|arrival| arrival.0);
                let mut arrivals = arrivals.into_iter().peekable();
                let mut free_ns = 0;
                let mut found = Vec::new();
                while scheduler.total_waiting() > 0 || arrivals.peek().is_some() {
                    while let Some((at, stream, bytes, tag)) = arrivals.next_if(|a| a.0 <= free_ns)
                    {
                        scheduler.enqueue(at, StreamId(stream), Packet { bytes, tag }).unwrap();
                    }
                    match scheduler.decide(free_ns, &mut ()) {
                        Some(sent) => {
                            found.push((sent.tag, free_ns / TICK_NS));
                            free_ns += link.transmission_ns(sent.bytes);
                        }
                        None => free_ns = arrivals.peek().map_or(free_ns, |a| a.0),
                    }
                }
                let expected: Vec<_> = expected
                    .iter()
                    .map(|row| (row["pkt"].as_u64().unwrap(), whole(&row["start"])))
                    .collect();
                assert_eq!(found, expected, "{example} {name} {}", structure.name());
                compared += 1;
            }
        }
    }
    // Three structures, and two more for wf2q+, scfq and sfq where an example has them.
    assert_eq!(compared, 3 * (4 + 6 + 6) + 2 * (2 + 3 + 3));
}

/// The credit-aware examples: a link of one credit per tick, 8 more credits for `a` at tick 20.
#[test]
fn credit_aware_examples() {
    const CREDIT: u32 = millstream::CREDIT_BYTES;
    let golden = golden();
    let link = Link::new(512_000_000, 0);
    let options = Options { link, ..Options::default() };
    for (example, name) in [
        ("CA1_wfq", "wfq"),
        ("CA1_scfq", "scfq"),
        ("CA1_drr", "drr"),
        ("CA2_fmc_wfq", "wfq"),
        ("CA2_fmc_scfq", "scfq"),
        ("CA2_fmc_drr", "drr"),
    ] {
        let row = DisciplineRow::parse(name).unwrap();
        let priority = DisciplineRow::parse("static-priority").unwrap();
        for structure in row.structures(&options) {
            let mut tree = Tree::new(priority, StructureName::Scan, &options);
            let lower = Contract::new().priority(1);
            let fair = tree.add_class(ClassId::ROOT, lower, row, structure, &options).unwrap();
            let contract = |weight: u32| {
                let quantum = 4 * weight * CREDIT;
                Contract::new().weight(weight).unwrap().quantum_bytes(quantum).unwrap()
            };
            let a = tree.add_stream(fair, contract(2).credits(8)).unwrap();
            let b = tree.add_stream(fair, contract(1)).unwrap();
            let management = tree.add_stream(ClassId::ROOT, Contract::new()).unwrap();
            let mut events = vec![(0, a, 4, 0), (0, a, 4, 1), (0, a, 4, 2)];
            events.extend((3..8).map(|packet| (0, b, 4, packet)));
            events.push((10, a, 2, 8));
            if example.starts_with("CA2") {
                events.extend([(1, management, 3, 9), (13, management, 3, 10)]);
                events.sort_by_key(|event| event.0);
            }
            let mut events = events.into_iter().peekable();
            let (mut found, mut free) = (Vec::new(), 0);
            let mut returned = false;
            while tree.total_waiting() > 0 || events.peek().is_some() {
                loop {
                    let next = events.peek().map_or(u64::MAX, |event| event.0);
                    if !returned && free >= 20 && next >= 20 {
                        tree.add_credits(20 * TICK_NS, a, 8);
                        returned = true;
                    }
                    let Some((at, stream, credits, tag)) = events.next_if(|e| e.0 <= free) else {
                        break;
                    };
                    let packet = Packet { bytes: credits * CREDIT, tag };
                    tree.enqueue(at * TICK_NS, stream, packet).unwrap();
                }
                let Some(sent) = tree.decide(free * TICK_NS, &mut ()) else {
                    free += 1;
                    continue;
                };
                let flow = ["a", "b", "z"][sent.stream.index()];
                let credits = u64::from(sent.bytes / CREDIT);
                found.push((free.to_string(), flow.to_owned(), sent.tag, credits));
                free += credits;
            }
            let expected: Vec<_> = golden[example]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| {
                    let text = |at: usize| row[at].as_str().unwrap().to_owned();
                    (text(0), text(1), row[2].as_u64().unwrap(), row[3].as_u64().unwrap())
                })
                .collect();
            assert_eq!(found, expected, "{example} {}", structure.name());
        }
    }
}

/// Shreedhar and Varghese's Figure: four flows, quantum 500.
#[test]
fn deficit_round_robin_example() {
    let golden = golden();
    let entry = &golden["drr_shreedhar_varghese"];
    let row = DisciplineRow::parse("drr").unwrap();
    for structure in row.structures(&Options::default()) {
        let mut scheduler = row.build(&Options::default(), structure);
        for _ in 0..4 {
            let quantum = u32::try_from(entry["quantum"].as_u64().unwrap()).unwrap();
            scheduler.add_stream(Contract::new().quantum_bytes(quantum).unwrap()).unwrap();
        }
        let services: Vec<(u32, u32)> = entry["service"]
            .as_array()
            .unwrap()
            .iter()
            .map(|service| {
                let number = |key: &str| u32::try_from(service[key].as_u64().unwrap()).unwrap();
                (number("flow") - 1, number("len"))
            })
            .collect();
        // All packets wait from the start, in each flow in the order of service. One more packet
        // behind them keeps the flow backlogged, so that its deficit is not reset.
        for stream in 0..4 {
            let own = services.iter().filter(|(flow, _)| *flow == stream).map(|(_, bytes)| *bytes);
            for bytes in own.chain([10_000]) {
                scheduler.enqueue(0, StreamId(stream), Packet::new(bytes)).unwrap();
            }
        }
        let found: Vec<_> = (0..services.len())
            .map(|_| scheduler.decide(0, &mut ()).unwrap())
            .map(|sent| (sent.stream.0, sent.bytes))
            .collect();
        assert_eq!(found, services, "{}", structure.name());
    }
}
