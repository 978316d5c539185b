//! Applies the same random calls to two schedulers and compares their results.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, Departure, DwcsOptions, Late, Packet, Rules, StreamId};
use millstream::{MaxRate, Window, ZeroWindow, selector::Observer};
use std::num::NonZeroU64;

/// The observed events of a scheduler.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Misses and violations of each stream.
    missed: Vec<(u64, u64)>,
    dropped: Vec<Departure>,
}

impl Observer for Seen {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        let sum = &mut self.missed[stream.0 as usize];
        *sum = (sum.0.saturating_add(missed), sum.1.saturating_add(violations));
    }

    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push(*departure);
    }
}

/// A source of random choices.
pub(crate) trait Choose {
    fn below(&mut self, bound: u64) -> u64;

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        let at = self.below(values.len() as u64);
        values[usize::try_from(at).unwrap_or(0)]
    }
}

/// Runs `hilq-exact` against `scan` for `steps` events.
///
/// # Panics
/// Panics if they differ.
pub(crate) fn duel(choose: &mut impl Choose, steps: u64) {
    let rules = choose.of(&[Rules::Standard, Rules::Standard, Rules::Rtas99]);
    let zero_window = choose.of(&[ZeroWindow::HighestDenominator, ZeroWindow::LowestDenominator]);
    let options = Options { dwcs: DwcsOptions { rules, zero_window }, ..Options::default() };
    let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
    let build = |structure| -> Box<dyn DynScheduler + Send> { row.build(&options, structure) };
    let mut pair = [build(StructureName::Scan), build(StructureName::HilqExact)];
    // A tree holds up to 64 streams, with fewer levels up to 4 and 16; a calendar holds more.
    let streams = choose.of(&[1, 2, 3, 4, 5, 9, 16, 17, 40, 63, 66, 90, 200]);
    // With 200 streams many deadlines are equal, so that buckets overflow.
    let periods = if streams == 200 { 2 } else { 6 };
    // Some streams are added later, so that the calendar replaces a nonempty tree.
    let mut missing = choose.of(&[0, 0, streams / 2]);
    // The differences between deadlines are zero, small or large.
    let unit = choose.of(&[1, 1, 7, 1000, 1 << 20]);
    let mut now_ns =
        choose.of(&[0, 0, 5, 1 << 40, (1 << 58) - 40, u64::MAX - (1 << 24), u64::MAX - 3]);
    let add = |pair: &mut [Box<dyn DynScheduler + Send>; 2], contract: Contract| {
        for scheduler in pair {
            scheduler.add_stream(contract.clone()).expect("complete");
        }
    };
    for _ in missing..streams {
        add(&mut pair, contract(choose, unit, periods, now_ns));
    }
    let seen = || Seen { missed: vec![(0, 0); streams], ..Seen::default() };
    let mut seen = [seen(), seen()];
    for _ in 0..steps {
        if missing > 0 && choose.below(8) == 0 {
            missing -= 1;
            add(&mut pair, contract(choose, unit, periods, now_ns));
        }
        let present = (streams - missing) as u64;
        let stream = StreamId(u32::try_from(choose.below(present)).expect("few"));
        let event = choose.below(20);
        let results = match event {
            0..=6 => {
                let packet = Packet::new(u32::try_from(choose.below(200)).expect("short"));
                pair.each_mut().map(|s| format!("{:?}", s.enqueue(now_ns, stream, packet)))
            }
            7 => {
                let open = choose.below(3) > 0;
                pair.each_mut().map(|s| format!("{:?}", s.set_eligible(now_ns, stream, open)))
            }
            8 => {
                let credits = choose.below(4);
                pair.each_mut().map(|s| format!("{:?}", s.add_credits(now_ns, stream, credits)))
            }
            9..=11 => {
                let gap = choose.of(&[1, unit, unit * 3, unit * 100, unit << 12, unit << 30]);
                now_ns = now_ns.saturating_add(gap);
                continue;
            }
            _ => {
                let mut observers = seen.iter_mut();
                pair.each_mut().map(|scheduler| {
                    let observer = observers.next().expect("there are two observers");
                    format!("{:?}", scheduler.decide(now_ns, observer))
                })
            }
        };
        assert_eq!(results[0], results[1], "event {event} of {stream:?} at {now_ns}");
        assert_eq!(seen[0], seen[1], "at {now_ns}");
        assert_eq!(pair[0].next_eligible_ns(), pair[1].next_eligible_ns());
    }
    let waiting = pair.each_ref().map(|scheduler| scheduler.total_waiting());
    assert_eq!(waiting[0], waiting[1]);
}

fn contract(choose: &mut impl Choose, unit: u64, periods: u64, now_ns: u64) -> Contract {
    let of = choose.of(&[0, 1, 2, 3, 8, 255, 100_000]);
    let lost = u32::try_from(choose.below(u64::from(of) + 1)).expect("at most y");
    let period_ns = unit * (1 + choose.below(periods)) * choose.of(&[1, 1, 1, 50]);
    let mut contract = Contract::new()
        .period_ns(period_ns)
        .expect("positive")
        .window(Window::new(lost, of).expect("x is at most y"));
    if choose.below(3) == 0 {
        contract = contract.late(Late::Drop);
    }
    if choose.below(4) == 0 {
        contract = contract.first_deadline_ns(now_ns.saturating_add(choose.below(unit * 20)));
    }
    if choose.below(6) == 0 {
        contract = contract.queue(u32::try_from(choose.below(4)).expect("small"));
    }
    if choose.below(8) == 0 {
        contract = contract.credits(choose.below(6));
    }
    if choose.below(8) == 0 {
        let rate_bps = NonZeroU64::new(1 + choose.below(10_000_000_000)).expect("positive");
        contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: choose.below(400) });
    }
    contract
}
