//! What disciplines report: misses, and whether they account for a charge.

use millstream::catalogue::{DISCIPLINES, DisciplineRow, MinBwAlgorithm, Options};
use millstream::{Contract, Observer, Packet, StreamId, Window};

fn contract() -> Contract {
    let contract = Contract::new().quantum_bytes(1_000).unwrap().period_ns(1_000).unwrap();
    contract.window(Window::new(0, 2).unwrap())
}

fn options() -> Options {
    Options { table: [0, 1, 2].map(StreamId).to_vec(), ..Options::default() }
}

/// Misses and violations.
#[derive(Default)]
struct Heard(u64, u64);

impl Observer for Heard {
    fn missed(&mut self, _: StreamId, _: u64, missed: u64, violations: u64) {
        self.0 += missed;
        self.1 += violations;
    }
}

#[test]
fn only_disciplines_of_deadlines_report_misses() {
    for row in DISCIPLINES {
        let mut scheduler = row.build(&options(), row.structures(&options())[0]);
        for stream in 0..3 {
            scheduler.add_stream(contract()).unwrap();
            for _ in 0..2 {
                scheduler.enqueue(0, StreamId(stream), Packet::new(125)).unwrap();
            }
        }
        let mut heard = Heard::default();
        // A service every 600 ns: deadlines are 1,000 and 2,000 ns, or the end of every period.
        for at in 0..6 {
            scheduler.decide(at * 600, &mut heard).unwrap();
        }
        let expected = match row.name {
            // Sent at 1,200, 2,400 and 3,000 ns.
            "edf" => (3, 0),
            // Stream 2 waits at 1,000 ns, stream 1 at 2,000 and one of them at 3,000.
            "dwcs" => (3, 3),
            // The same; windows of two requests end at 2,000 ns, where both lack a service.
            "vds" | "pd2" => (3, 2),
            _ => (0, 0),
        };
        assert_eq!((heard.0, heard.1), expected, "{}", row.name);
        assert!(scheduler.decide(9_000, &mut heard).is_none());
    }
}

#[test]
fn charges_are_accounted_for_by_wf2q_plus_and_drr() {
    for row in DISCIPLINES {
        for algorithm in [MinBwAlgorithm::Scfq, MinBwAlgorithm::Drr] {
            let options = Options { algorithm, ..options() };
            let mut scheduler = row.build(&options, row.structures(&options)[0]);
            scheduler.add_stream(contract()).unwrap();
            scheduler.enqueue(0, StreamId(0), Packet::new(125)).unwrap();
            scheduler.decide(0, &mut ()).unwrap();
            let accounts = match row.name {
                "wf2q+" | "drr" => true,
                "minbw" => algorithm == MinBwAlgorithm::Drr,
                _ => false,
            };
            assert_eq!(scheduler.charge(1_000, StreamId(0), 10), accounts, "{}", row.name);
        }
    }
}

#[test]
fn drr_forgets_the_deficit_of_a_stream_that_was_idle() {
    let row = DisciplineRow::parse("drr").unwrap();
    for structure in row.structures(&options()) {
        let mut scheduler = row.build(&options(), structure);
        for _ in 0..2 {
            scheduler.add_stream(contract()).unwrap();
        }
        // Stream 0 leaves 900 bytes of its turn, and is then charged with 700 while it is idle.
        scheduler.enqueue(0, StreamId(0), Packet::new(100)).unwrap();
        scheduler.decide(0, &mut ()).unwrap();
        assert!(scheduler.charge(0, StreamId(0), 1_600));
        for stream in [0, 1] {
            for _ in 0..3 {
                scheduler.enqueue(0, StreamId(stream), Packet::new(500)).unwrap();
            }
        }
        let sent = (0..6).map(|_| scheduler.decide(0, &mut ()).unwrap().stream.0);
        assert_eq!(sent.collect::<Vec<_>>(), [0, 0, 1, 1, 0, 1], "{}", structure.name());
    }
}
