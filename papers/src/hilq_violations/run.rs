//! A run of Figure 9: one scheduler, one load.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{
    Contract, Departure, DwcsOptions, Event, Heap, Hilq, Late, Observer, Packet, Rules, Scheduler,
    Sizes, StreamId, Window, ZeroWindow,
};

use super::load::{Load, MS};
use crate::hilq_order::{ContractTerms, SlotOrder};

/// Packets of the stream with the longest period.
const PERIODS: u64 = 100;

/// The scheduler under test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// DWCS on a heap.
    Heap(ZeroWindow, Rules),
    /// DWCS with HILQ's order among zero window-constraints, standard rules.
    SlotOrder,
    /// HILQ; its collector is late by this time, ns.
    Hilq(Rules, u64),
}

/// The packets of each stream that were not sent before their deadlines.
struct Log(Vec<Vec<bool>>);

impl Log {
    fn record(&mut self, departure: &Departure) {
        let in_time = departure.deadline_ns.is_some_and(|at_ns| departure.time_ns < at_ns);
        let packet = usize::try_from(departure.packet).unwrap_or(usize::MAX);
        let lost = departure.event != Event::Sent || !in_time;
        self.0[departure.stream.index()][packet] = lost;
    }

    /// Returns the share of violated windows, %.
    #[allow(clippy::cast_precision_loss)]
    fn violated(&self, windows: &[(u32, u32)]) -> f64 {
        let (mut violated, mut all) = (0u32, 0u32);
        for (lost, (x, y)) in self.0.iter().zip(windows) {
            for window in lost.chunks_exact(*y as usize) {
                all += 1;
                let lost = window.iter().filter(|lost| **lost).count();
                violated += u32::from(lost > *x as usize);
            }
        }
        100.0 * f64::from(violated) / f64::from(all)
    }
}

impl Observer for Log {
    fn dropped(&mut self, departure: &Departure) {
        self.record(departure);
    }
}

/// Returns a scheduler with the streams of `load`.
fn scheduler(load: &Load, system: System) -> Box<dyn DynScheduler + Send> {
    let terms = |stream: usize| {
        let ((lost, of), period_ns) = (load.windows[stream], load.request_period_ns(stream));
        ContractTerms { lost, of, period_ns, first_deadline_ns: load.phases_ns[stream] + period_ns }
    };
    let terms: Vec<ContractTerms> = (0..load.windows.len()).map(terms).collect();
    let mut scheduler: Box<dyn DynScheduler + Send> = match system {
        System::Heap(zero_window, rules) => {
            let options =
                Options { dwcs: DwcsOptions { zero_window, rules }, ..Options::default() };
            let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
            row.build(&options, StructureName::Heap)
        }
        System::SlotOrder => {
            Box::new(Scheduler::new(SlotOrder::new(terms.clone()), Heap::default()))
        }
        System::Hilq(rules, collect_delay_ns) => {
            let options = DwcsOptions { rules, ..DwcsOptions::default() };
            Box::new(Hilq::new(options, Sizes { collect_delay_ns, ..Sizes::PAPER }))
        }
    };
    for ContractTerms { lost, of, period_ns, first_deadline_ns } in terms {
        let contract = Contract::new()
            .window(Window::new(lost, of).expect("x at most y"))
            .first_deadline_ns(first_deadline_ns)
            .late(Late::Drop)
            .period_ns(period_ns)
            .expect("positive");
        scheduler.add_stream(contract).expect("complete");
    }
    scheduler
}

/// Runs `load` and returns the share of violated windows, %.
pub(super) fn violated(load: &Load, system: System) -> f64 {
    let mut scheduler = scheduler(load, system);
    let until_ms = PERIODS * load.periods_ms.iter().copied().max().unwrap_or(0);
    let arrivals = load.arrivals(until_ms);
    let mut sent = vec![0; load.windows.len()];
    arrivals.iter().for_each(|(_, stream)| sent[*stream as usize] += 1);
    // Every packet counts as lost until it is sent; this includes rejected packets.
    let mut log = Log(sent.into_iter().map(|packets| vec![true; packets]).collect());
    let mut arrivals = arrivals.into_iter().peekable();
    let mut now_ns = 0;
    while arrivals.peek().is_some() || scheduler.total_waiting() > 0 {
        while let Some((time_ns, stream)) = arrivals.next_if(|(time_ns, _)| *time_ns <= now_ns) {
            let _ = scheduler.enqueue(time_ns, StreamId(stream), Packet::new(load.packet_ns));
        }
        match scheduler.decide(now_ns, &mut log) {
            Some(sent) => {
                log.record(&sent);
                now_ns += u64::from(load.packet_ns);
            }
            // Late packets may await their collection.
            None => now_ns = arrivals.peek().map_or(now_ns + MS, |(time_ns, _)| *time_ns),
        }
    }
    log.violated(&load.windows)
}

#[cfg(test)]
mod tests {
    use super::super::load::{Deadlines, Periods};
    use super::*;

    fn load(deadlines: Deadlines, nominal: f64) -> Load {
        Load::draw(1, Periods::Equal, deadlines, nominal)
    }

    #[test]
    fn a_heap_violates_nothing_below_one_and_hilq_only_where_deadlines_are_not_aligned() {
        let heap = System::Heap(ZeroWindow::LowestDenominator, Rules::Standard);
        let hilq = System::Hilq(Rules::Standard, 0);
        let (plain, aligned) = (load(Deadlines::AsTheyFall, 0.95), load(Deadlines::Aligned, 0.95));
        assert_eq!((violated(&plain, heap), violated(&aligned, heap)), (0.0, 0.0));
        assert_eq!(violated(&aligned, hilq), 0.0);
        assert!(violated(&plain, hilq) > 1.0);
    }

    #[test]
    fn a_late_collector_changes_the_slots_of_packets_that_arrive_before_it() {
        let load = load(Deadlines::Apart, 1.2);
        let late = |delay_ns| violated(&load, System::Hilq(Rules::Standard, delay_ns));
        // No arrival is in the first nanosecond after a deadline of an earlier millisecond.
        let delays = [0, MS, 10 * MS].map(late);
        assert_ne!(delays[0].to_bits(), delays[1].to_bits());
        assert_ne!(delays[1].to_bits(), delays[2].to_bits());
    }
}
