//! Applies the same random calls to schedulers on several structures and compares their results.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, Departure, DwcsOptions, Late, Packet, Rules, StreamId};
use millstream::{MaxRate, Window, ZeroWindow, selector::Observer};
use std::fmt::Debug;
use std::num::NonZeroU64;

/// The observed events of one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Streams with their misses and violations, ascending.
    missed: Vec<(StreamId, u64, u64)>,
    dropped: Vec<Departure>,
    /// Stream, number and tag of each marked packet.
    marked: Vec<(StreamId, u64, u64)>,
}

impl Seen {
    /// Orders the misses by stream: their order at one instant is unspecified. A structure may also
    /// charge a stream in several steps.
    fn order(&mut self) {
        self.missed.sort_unstable();
        self.missed.dedup_by(|later, sum| {
            let is_same = later.0 == sum.0;
            if is_same {
                sum.1 = sum.1.saturating_add(later.1);
                sum.2 = sum.2.saturating_add(later.2);
            }
            is_same
        });
    }

    fn clear(&mut self) {
        self.missed.clear();
        self.dropped.clear();
        self.marked.clear();
    }
}

impl Observer for Seen {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.missed.push((stream, missed, violations));
    }

    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push(*departure);
    }

    fn marked(&mut self, stream: StreamId, packet: u64, tag: u64) {
        self.marked.push((stream, packet, tag));
    }
}

/// Schedulers that must have equal schedules.
pub(crate) struct Group {
    /// The name and the scheduler of each; the first is the reference.
    members: Vec<(String, Box<dyn DynScheduler + Send>)>,
    /// The events of the reference and of the other one in the last call.
    seen: [Seen; 2],
}

impl Group {
    /// Returns a group of schedulers without streams. The first one is the reference.
    pub(crate) fn new(members: Vec<(String, Box<dyn DynScheduler + Send>)>) -> Self {
        Self { members, seen: Default::default() }
    }

    /// Calls every scheduler and returns the result.
    ///
    /// # Panics
    /// Panics if results, events, the next time at which a gate opens or the numbers of waiting
    /// packets differ.
    pub(crate) fn call<T: Debug + PartialEq>(
        &mut self,
        now_ns: u64,
        what: &dyn Debug,
        mut call: impl FnMut(&mut dyn DynScheduler, &mut Seen) -> T,
    ) -> T {
        let (_, reference) = &mut self.members[0];
        self.seen[0].clear();
        let expected = call(reference.as_mut(), &mut self.seen[0]);
        self.seen[0].order();
        let state = |of: &dyn DynScheduler| (of.next_eligible_ns(), of.total_waiting());
        let expected_state = state(self.members[0].1.as_ref());
        for (name, scheduler) in &mut self.members[1..] {
            self.seen[1].clear();
            let found = call(scheduler.as_mut(), &mut self.seen[1]);
            self.seen[1].order();
            let place = format_args!("{name}: {what:?} at {now_ns} ns");
            assert_eq!(found, expected, "{place}");
            assert_eq!(self.seen[1], self.seen[0], "{place}");
            assert_eq!(state(scheduler.as_ref()), expected_state, "{place}");
        }
        expected
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
    let structures = [StructureName::Scan, StructureName::HilqExact];
    let build =
        |structure: StructureName| (structure.name().into(), row.build(&options, structure));
    let mut group = Group::new(structures.map(build).into());
    // A tree holds up to 64 streams, with fewer levels up to 4 and 16; a calendar holds more.
    let streams: usize = choose.of(&[1, 2, 3, 4, 5, 9, 16, 17, 40, 63, 66, 90, 200]);
    // With 200 streams many deadlines are equal, so that buckets overflow.
    let periods = if streams == 200 { 2 } else { 6 };
    // Some streams are added later, so that the calendar replaces a nonempty tree.
    let mut missing = choose.of(&[0, 0, streams / 2]);
    // The differences between deadlines are zero, small or large.
    let unit = choose.of(&[1, 1, 7, 1000, 1 << 20]);
    let mut now_ns =
        choose.of(&[0, 0, 5, 1 << 40, (1 << 58) - 40, u64::MAX - (1 << 24), u64::MAX - 3]);
    let add = |group: &mut Group, now_ns, contract: Contract| {
        let added = group.call(now_ns, &contract, |s, _| s.add_stream(contract.clone()));
        added.expect("complete");
    };
    for _ in missing..streams {
        add(&mut group, now_ns, contract(choose, unit, periods, now_ns));
    }
    for _ in 0..steps {
        if missing > 0 && choose.below(8) == 0 {
            missing -= 1;
            add(&mut group, now_ns, contract(choose, unit, periods, now_ns));
        }
        let present = (streams - missing) as u64;
        let stream = StreamId(u32::try_from(choose.below(present)).expect("few"));
        match choose.below(20) {
            0..=6 => {
                let packet = Packet::new(u32::try_from(choose.below(200)).expect("short"));
                let _ = group.call(now_ns, &stream, |s, _| s.enqueue(now_ns, stream, packet));
            }
            7 => {
                let open = choose.below(3) > 0;
                group.call(now_ns, &(stream, open), |s, _| s.set_eligible(now_ns, stream, open));
            }
            8 => {
                let credits = choose.below(4);
                let call = (stream, credits);
                group.call(now_ns, &call, |s, _| s.add_credits(now_ns, stream, credits));
            }
            9..=11 => {
                let gap = choose.of(&[1, unit, unit * 3, unit * 100, unit << 12, unit << 30]);
                now_ns = now_ns.saturating_add(gap);
            }
            _ => {
                group.call(now_ns, &"decide", |s, seen| s.decide(now_ns, seen));
            }
        }
    }
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
