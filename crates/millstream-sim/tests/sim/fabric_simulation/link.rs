//! A fabric with one busy link sends exactly like the simulated link.

use millstream::{Contract, Departure};
use millstream_scenario::Scenario;
use millstream_sim::fabric::traffic::{ClassTraffic, Kind};
use millstream_sim::fabric::{Buffering, SwitchParameters};
use millstream_sim::{Listener, link};
use std::fmt::Write as _;
use std::{fs, io};

use super::support::{CUT_THROUGH, LARGEST_BYTES, Plan, star};

struct Sent(Vec<(u64, u64)>);

impl Listener for Sent {
    fn departed(
        &mut self,
        departure: &Departure,
        _: Option<&millstream_traffic::FrameBytes>,
    ) -> io::Result<()> {
        self.0.push((departure.time_ns, departure.arrival_ns));
        Ok(())
    }
}

/// Compares the first link of two end-points with the simulated link.
///
/// The second link never has a backlog. A packet therefore arrives one switch latency and one
/// transmission time after the start of its transmission on the first link.
#[test]
fn one_busy_link_is_the_simulated_link() {
    for discipline in ["fifo", "wfq", "scfq", "wf2q+", "drr", "dwcs", "static-priority"] {
        let switch = SwitchParameters { buffering: Buffering::Output, ..CUT_THROUGH };
        let mut plan = Plan::poisson(star(2), switch, 0.5, 700);
        plan.discipline = discipline;
        plan.traffic.push(ClassTraffic { load: 0.6, kind: Kind::Poisson { bytes: 301 } });
        plan.stop_ns = 1_000_000;
        plan.classes = [(3, 0), (1, 1)]
            .map(|(weight, priority)| {
                let contract = Contract::new().weight(weight).unwrap().priority(priority);
                let contract = contract.period_ns(u64::from(weight) * 4_000).unwrap();
                contract.quantum_bytes(weight * LARGEST_BYTES).unwrap()
            })
            .to_vec();
        let journal = plan.deliveries();

        let folder = tempfile::TempDir::new().unwrap();
        let mut rows = String::from("time_ns,stream,bytes\n");
        for (_, injection) in journal.injections.iter().filter(|(source, _)| *source == 0) {
            let stream = ["a", "b"][usize::from(injection.class)];
            writeln!(rows, "{},{stream},{}", injection.time_ns, injection.bytes).unwrap();
        }
        fs::write(folder.path().join("a.csv"), rows).unwrap();
        let stream = |name: &str, weight: u32, priority: u32| {
            format!(
                "[[stream]]\nname = \"{name}\"\nweight = {weight}\nquantum = {}\npriority = \
                 {priority}\n\
                 period = \"{} us\"\nsource = {{ kind = \"trace\", file = \"a.csv\" }}\n",
                weight * LARGEST_BYTES,
                weight * 4
            )
        };
        let text = format!(
            "[link]\nrate = \"2 Gbps\"\n[scheduler]\ndiscipline = \"{discipline}\"\n{}{}",
            stream("a", 3, 0),
            stream("b", 1, 1)
        );
        let scenario = Scenario::parse("s.toml", &text, folder.path()).unwrap();
        let mut input = millstream_scenario::open(&scenario, false).unwrap();
        let mut sent = Sent(Vec::new());
        link::run(&scenario, input.feed.as_mut(), &mut sent).unwrap();

        let of_first = journal.deliveries.iter().filter(|delivery| delivery.source == 0);
        let arrived: Vec<(u64, u64)> = of_first
            .map(|delivery| {
                let length_ns = u64::from(delivery.bytes) * 4;
                (delivery.time_ns - 145 - length_ns, delivery.injected_ns)
            })
            .collect();
        assert_eq!(arrived, sent.0, "{discipline}");
        assert!(arrived.len() > 400);
    }
}
