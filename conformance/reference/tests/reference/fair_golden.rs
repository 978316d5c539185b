//! The golden traces of fair queueing and the credit-aware schedulers, tag by tag.

use std::collections::BTreeMap;

use millstream_reference::fair::gps::Clock;
use millstream_reference::fair::rule::{ratio, whole};
use millstream_reference::fair::{
    CreditReturn, Discipline, Outcome, Service, Spec, StreamSpec, run,
};
use millstream_reference::{Arrival, Overhead};
use num_rational::BigRational;
use serde_json::Value;

const TICK_NS: u64 = 1000;
/// One byte a tick.
const BYTE_A_TICK_BPS: u64 = 8_000_000;
/// One credit of 64 bytes a tick.
const CREDIT_A_TICK_BPS: u64 = 512_000_000;

fn golden() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/fair.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Parses a rational from `[numerator, denominator]`.
fn rational(value: &Value) -> BigRational {
    ratio(value[0].as_u64().unwrap(), value[1].as_u64().unwrap())
}

fn ticks(time: &BigRational) -> u64 {
    assert!(time.is_integer());
    u64::try_from(time.to_integer()).unwrap() * TICK_NS
}

/// Returns the name of a flow, which is a number or a letter.
fn name(flow: &Value) -> String {
    flow.as_str().map_or_else(|| flow.to_string(), str::to_owned)
}

/// Returns the flow names in order; numbers are ordered by value.
fn flows(entry: &Value) -> Vec<String> {
    let mut names: Vec<String> = entry["phi"].as_object().unwrap().keys().cloned().collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

/// The link and packets of a golden table.
struct Table {
    spec: Spec,
    arrivals: Vec<Arrival>,
    /// The factor that makes the table's weights whole numbers.
    scale: BigRational,
    /// Stream and number in the stream of every packet of the table.
    packets: Vec<(u32, u64)>,
}

fn table(entry: &Value, discipline: Discipline) -> Table {
    let flows = flows(entry);
    let weights: Vec<BigRational> = flows.iter().map(|f| rational(&entry["phi"][f])).collect();
    let scale = whole(20);
    let whole_weight = |weight: &BigRational| {
        let scaled = weight * &scale;
        assert!(scaled.is_integer());
        u64::try_from(scaled.to_integer()).unwrap()
    };
    let streams = weights.iter().map(|weight| StreamSpec::new(whole_weight(weight), 1)).collect();
    let mut counts = BTreeMap::new();
    let (mut arrivals, mut packets) = (Vec::new(), Vec::new());
    for packet in entry["arrivals_t_flow_len"].as_array().unwrap() {
        let stream = flows.iter().position(|flow| *flow == name(&packet[1])).unwrap();
        let stream = u32::try_from(stream).unwrap();
        let bytes = u32::try_from(packet[2].as_u64().unwrap()).unwrap();
        arrivals.push(Arrival { time_ns: ticks(&rational(&packet[0])), stream, bytes });
        let count: &mut u64 = counts.entry(stream).or_default();
        packets.push((stream, *count));
        *count += 1;
    }
    let spec = Spec {
        discipline,
        rate_bps: BYTE_A_TICK_BPS,
        overhead: Overhead::default(),
        streams,
        credit_returns: Vec::new(),
    };
    Table { spec, arrivals, scale, packets }
}

fn by_name(name: &str) -> Option<Discipline> {
    Discipline::parse(if name == "vc" { "virtual-clock" } else { name }, &[])
}

#[test]
fn every_service_has_its_tags_and_times() {
    let golden = golden();
    let mut columns = 0;
    for example in ["keshav", "bennett_zhang_11", "three_211"] {
        for (column, rows) in golden[example].as_object().unwrap() {
            let Some(discipline) = by_name(column) else { continue };
            let table = table(&golden[example], discipline);
            let outcome = run(&table.spec, &table.arrivals);
            let rows = rows.as_array().unwrap();
            assert_eq!(outcome.services.len(), rows.len(), "{example} {column}");
            for (row, service) in rows.iter().zip(&outcome.services) {
                let at = format!("{example} {column} packet {}", row["pkt"]);
                let packet = table.packets[usize::try_from(row["pkt"].as_u64().unwrap()).unwrap()];
                assert_eq!((service.stream, service.packet), packet, "{at}");
                assert_eq!(service.time_ns, ticks(&rational(&row["start"])), "{at}");
                let tag = |tag: &Option<BigRational>| tag.clone().unwrap() * &table.scale;
                assert_eq!(tag(&service.start_tag), rational(&row["S"]), "{at}");
                assert_eq!(tag(&service.finish_tag), rational(&row["F"]), "{at}");
            }
            let end = ticks(&rational(&rows.last().unwrap()["end"]));
            assert_eq!(outcome.end_ns, end, "{example} {column}");
            columns += 1;
        }
    }
    // wfq, wf2q, scfq, sfq everywhere; wf2q+ and vc not in the first.
    assert_eq!(columns, 16);
}

#[test]
fn the_fluid_system_stamps_and_finishes_as_printed() {
    let golden = golden();
    for example in ["keshav", "bennett_zhang_11", "three_211"] {
        let table = table(&golden[example], Discipline::Wfq);
        let mut clock = Clock::new(&table.spec);
        let mut finishes: Vec<BigRational> = Vec::new();
        let mut checked = 0;
        // All stamped packets are checked before a reset, since V then restarts at 0.
        let check = |clock: &Clock, finishes: &mut Vec<BigRational>, checked: &mut usize| {
            for finish in finishes.drain(..) {
                let at = format!("{example} packet {checked}");
                let departure = clock.fluid_departure(&finish).unwrap();
                let expected = rational(&golden[example]["gps_departure"][*checked]);
                assert_eq!(departure, expected * whole(TICK_NS), "{at}");
                *checked += 1;
            }
        };
        for (index, arrival) in table.arrivals.iter().enumerate() {
            clock.advance(arrival.time_ns);
            if clock.empty() && index > 0 && arrival.time_ns > table.arrivals[index - 1].time_ns {
                check(&clock, &mut finishes, &mut checked);
                clock.reset();
            }
            let (start, finish) = clock.stamp(arrival.stream as usize, u64::from(arrival.bytes));
            let expected = &golden[example]["gps_S_F"][index];
            assert_eq!(&start * &table.scale, rational(&expected[0]), "{example} packet {index}");
            assert_eq!(&finish * &table.scale, rational(&expected[1]), "{example} packet {index}");
            finishes.push(finish);
        }
        clock.advance(1_000_000);
        check(&clock, &mut finishes, &mut checked);
        assert_eq!(checked, table.arrivals.len(), "{example}");
    }
}

#[test]
fn deficits_are_those_of_shreedhar_and_varghese() {
    let golden = &golden()["drr_shreedhar_varghese"];
    let rows = golden["service"].as_array().unwrap();
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let streams = vec![StreamSpec::new(1, number(golden, "quantum")); 4];
    let arrivals = rows.iter().map(|row| Arrival {
        time_ns: 0,
        stream: u32::try_from(number(row, "flow") - 1).unwrap(),
        bytes: u32::try_from(number(row, "len")).unwrap(),
    });
    let arrivals: Vec<Arrival> = arrivals.collect();
    let spec = Spec {
        discipline: Discipline::Drr,
        rate_bps: BYTE_A_TICK_BPS,
        overhead: Overhead::default(),
        streams,
        credit_returns: Vec::new(),
    };
    let outcome = run(&spec, &arrivals);
    assert_eq!(outcome.services.len(), rows.len());
    for (index, (row, service)) in rows.iter().zip(&outcome.services).enumerate() {
        assert_eq!(u64::from(service.stream) + 1, number(row, "flow"), "service {index}");
        assert_eq!(u64::from(outcome.rows[index].bytes), number(row, "len"), "service {index}");
        assert_eq!(service.deficit, Some(number(row, "deficit_after")), "service {index}");
    }
}

/// Runs the scenario of the credit-aware traces, with FMC packets if `fmc`.
///
/// Returns the outcome and the table's number of each packet.
fn credit_aware(discipline: Discipline, fmc: bool) -> (Outcome, BTreeMap<(u32, u64), u64>) {
    let (a, b, z) = (0, 1, 2);
    let mut streams =
        vec![StreamSpec::new(2, 8 * 64), StreamSpec::new(1, 4 * 64), StreamSpec::new(1, 1)];
    streams[a].credits = Some(8);
    streams[z].fmc = true;
    // In the tables' numbering: a 0 to 2, b 3 to 7, a 8, z 9 and 10.
    let mut packets = vec![(0, a, 4); 3];
    packets.extend([(0, b, 4); 5]);
    packets.push((10, a, 2));
    packets.extend([(1, z, 3), (13, z, 3)].into_iter().filter(|_| fmc));
    let (mut numbered, mut counts) = (BTreeMap::new(), [0u64; 3]);
    let mut arrivals = Vec::new();
    for (number, (tick, stream, credits)) in (0u64..).zip(packets) {
        let (stream_number, bytes) = (u32::try_from(stream).unwrap(), credits * 64);
        arrivals.push(Arrival { time_ns: tick * TICK_NS, stream: stream_number, bytes });
        numbered.insert((stream_number, counts[stream]), number);
        counts[stream] += 1;
    }
    arrivals.sort_by_key(|arrival| arrival.time_ns);
    let back = CreditReturn { time_ns: 20 * TICK_NS, stream: 0, credits: 8 };
    let spec = Spec {
        discipline,
        rate_bps: CREDIT_A_TICK_BPS,
        overhead: Overhead::default(),
        streams,
        credit_returns: vec![back],
    };
    (run(&spec, &arrivals), numbered)
}

/// Returns a row of the table: start, flow, packet, length, tag, V.
fn credit_row(outcome: &Outcome, index: usize, numbered: &BTreeMap<(u32, u64), u64>) -> Value {
    let service: &Service = &outcome.services[index];
    let shown = |tag: &BigRational| Value::from((tag / whole(64)).to_string());
    let flow = ["a", "b", "z"][service.stream as usize];
    let tag = service.finish_tag.as_ref().map_or_else(|| Value::from("-"), shown);
    Value::from(vec![
        Value::from((service.time_ns / TICK_NS).to_string()),
        Value::from(flow),
        Value::from(numbered[&(service.stream, service.packet)]),
        Value::from(outcome.rows[index].bytes / 64),
        tag,
        shown(&service.virtual_time),
    ])
}

#[test]
fn credit_aware_schedulers_follow_their_tables() {
    let golden = golden();
    let mut tables = 0;
    for (key, rows) in golden.as_object().unwrap() {
        let Some((prefix @ ("CA1" | "CA2_fmc"), column)) = key.rsplit_once('_') else { continue };
        let discipline = by_name(column).unwrap();
        let (outcome, numbered) = credit_aware(discipline, prefix == "CA2_fmc");
        let rows = rows.as_array().unwrap();
        assert_eq!(outcome.services.len(), rows.len(), "{key}");
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(credit_row(&outcome, index, &numbered), *row, "{key} row {index}");
        }
        tables += 1;
    }
    assert_eq!(tables, 6);
}
