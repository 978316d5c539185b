//! The golden tables, row by row: the winner, and every x'/y' and deadline before each decision.

use millstream_reference::{Arrival, Discipline, Outcome, Overhead, Spec, StreamSpec, run};
use serde_json::Value;

const SLOT_NS: u64 = 1000;

fn number(value: &Value, at: usize) -> Option<u64> {
    value.get(at).and_then(Value::as_u64)
}

/// Returns a scenario of unit packets that take one slot each; all streams are backlogged.
fn scenario(entry: &Value, slots: usize) -> (Spec, Vec<Arrival>) {
    let options = &entry["opts"];
    let streams = entry["specs_x_y_T_C_firstdeadline"].as_array().unwrap().iter().map(|spec| {
        let window = (number(spec, 0).unwrap(), number(spec, 1).unwrap());
        let window = (u32::try_from(window.0).unwrap(), u32::try_from(window.1).unwrap());
        let mut stream = StreamSpec::new(number(spec, 2).unwrap_or(1) * SLOT_NS, window);
        stream.first_deadline_ns = number(spec, 4).map(|slot| slot * SLOT_NS);
        stream.once_a_period = options["workcons"] == Value::Bool(false);
        assert_eq!(number(spec, 3).unwrap_or(1), 1, "not a unit packet");
        stream
    });
    let streams: Vec<_> = streams.collect();
    let arrivals = (0..streams.len())
        .flat_map(|stream| {
            let stream = u32::try_from(stream).unwrap();
            (0..=slots).map(move |_| Arrival { time_ns: 0, stream, bytes: 125 })
        })
        .collect();
    let discipline = Discipline::Dwcs {
        loss_first: options["order"] == "loss",
        rtas99: false,
        lowest_denominator: false,
    };
    (Spec { discipline, rate_bps: 1_000_000_000, overhead: Overhead::default(), streams }, arrivals)
}

#[test]
fn every_golden_table_is_reproduced_line_by_line() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/dwcs.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut tables = 0;
    for (name, entry) in golden.as_object().unwrap() {
        let slots = entry["slots"].as_array().unwrap();
        let (spec, arrivals) = scenario(entry, slots.len());
        let outcome = run(&spec, &arrivals, None);
        for (slot, decision) in slots.iter().zip(&outcome.decisions) {
            let at = format!("{name} slot {}", slot["t"]);
            assert_eq!(decision.time_ns, slot["t"].as_u64().unwrap() * SLOT_NS, "{at}");
            assert_eq!(u64::from(decision.winner) + 1, slot["winner"].as_u64().unwrap(), "{at}");
            for (found, expected) in decision.before.iter().zip(slot["before"].as_array().unwrap())
            {
                let expected: Vec<u64> =
                    expected.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
                assert_eq!([found.0, found.1, found.2 / SLOT_NS], expected[..], "{at}");
            }
        }
        // The counts are those of the next decision, which charges the misses of the last slot.
        let end = &outcome.decisions[slots.len()];
        assert_eq!(end.time_ns, slots.len() as u64 * SLOT_NS, "{name}");
        let counts = |key: &str| -> Vec<u64> {
            entry[key].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
        };
        assert_eq!(hits(&outcome, slots.len()), counts("hits"), "{name}");
        assert_eq!(end.missed, counts("misses"), "{name}");
        assert_eq!(end.violations, counts("violations"), "{name}");
        tables += 1;
    }
    assert_eq!(tables, 8);
}

fn backlog(streams: Vec<StreamSpec>, packets: &[usize], start_slots: &[u64]) -> Outcome {
    let discipline =
        Discipline::Dwcs { loss_first: false, rtas99: false, lowest_denominator: false };
    let spec = Spec { discipline, rate_bps: 1_000_000_000, overhead: Overhead::default(), streams };
    let mut arrivals: Vec<Arrival> = packets
        .iter()
        .zip(start_slots)
        .zip(0u32..)
        .flat_map(|((count, slot), stream)| {
            let arrival = Arrival { time_ns: slot * SLOT_NS, stream, bytes: 125 };
            std::iter::repeat_n(arrival, *count)
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.time_ns);
    run(&spec, &arrivals, None)
}

/// Returns the number of wins of each stream in the first `slots` decisions.
fn hits(outcome: &Outcome, slots: usize) -> Vec<u64> {
    let mut counts = vec![0; outcome.missed.len()];
    for decision in &outcome.decisions[..slots] {
        counts[decision.winner as usize] += 1;
    }
    counts
}

fn unit(window: (u32, u32)) -> StreamSpec {
    StreamSpec::new(SLOT_NS, window)
}

#[test]
fn long_runs_match_the_counts_of_the_papers() {
    let shares = [(7, 8), (14, 16), (6, 8), (4, 8)].map(unit).to_vec();
    let outcome = backlog(shares, &[64_000; 4], &[0; 4]);
    assert_eq!(hits(&outcome, 64_000), [8_000, 8_000, 16_000, 32_000]);

    let mut mix = [(2, 3), (5, 6), (0, 255), (0, 255)].map(unit).to_vec();
    for (stream, first_deadline) in [(2, 2), (3, 1)] {
        mix[stream].period_ns = 4 * SLOT_NS;
        mix[stream].first_deadline_ns = Some(first_deadline * SLOT_NS);
    }
    let outcome = backlog(mix, &[64_000; 4], &[0; 4]);
    assert_eq!(hits(&outcome, 57_339), [19_113, 9_556, 14_335, 14_335]);

    let mut edf = vec![StreamSpec::new(4 * SLOT_NS, (0, 0)); 4];
    for (stream, slots) in edf.iter_mut().zip([4, 3, 2, 1]) {
        stream.first_deadline_ns = Some(slots * SLOT_NS);
    }
    let outcome = backlog(edf, &[20_000; 4], &[0; 4]);
    assert_eq!(hits(&outcome, 63_996), [15_999; 4]);
}

#[test]
fn a_static_priority_stream_is_served_from_packet_time_63_810() {
    let streams = [(2, 4), (3, 4), (3, 4), (0, 255)].map(unit).to_vec();
    let outcome = backlog(streams, &[64_000, 64_000, 64_000, 1_000], &[0, 0, 0, 63_810]);
    assert_eq!(hits(&outcome, 63_810), [31_906, 15_952, 15_952, 0]);
    let after = &outcome.decisions[63_810..64_000];
    assert_eq!(after.iter().filter(|decision| decision.winner == 3).count(), 188);
    assert_eq!(after.iter().position(|decision| decision.winner != 3), Some(128));
}
