//! Table 1 and Figure 1, the rules of DWCS, on the schedulers; Table 2, an input of the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{
    Contract, Discipline, Dwcs, DwcsOptions, EdfFirst, Head, Hilq, Late, Packet, Rules, Sizes,
    StreamId, Window, ZeroWindow,
};
use millstream_sim::network_processor::constants::SRAM_LATENCY;

use super::Section;
use super::text::grouped;
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};

/// The largest x and y of the paper's experiments (section 5.3).
const MOST: (u32, u32) = (19, 29);
/// The common deadline of all packets, ns.
const DEADLINE_NS: u64 = 19_500_000;
const PERIOD_NS: u64 = 20_000_000;
/// The largest error of x/y by the table's rounding (section 5.3), in hundredths.
const ROUNDING: u32 = 1;

/// Window-constraint x/y, numerator first.
type Fraction = (u32, u32);

/// Returns the window-constraints of the paper's ranges.
fn fractions() -> Vec<Fraction> {
    (1..=MOST.1).flat_map(|of| (0..=of.min(MOST.0)).map(move |lost| (lost, of))).collect()
}

fn contract((lost, of): Fraction) -> Contract {
    let window = Window::new(lost, of).expect("x at most y");
    let contract = Contract::new().window(window).late(Late::Drop).first_deadline_ns(DEADLINE_NS);
    contract.period_ns(PERIOD_NS).expect("positive")
}

/// Returns the order of two packets with the same deadline by Table 1; `Equal` is first-come.
fn table_1(a: Fraction, b: Fraction) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.1.cmp(&b.1))
}

/// Returns the position in the order of service of one packet of each stream. `arrivals` are the
/// streams in the order of arrival, one each nanosecond.
fn positions(
    mut scheduler: Box<dyn DynScheduler + Send>,
    streams: &[Fraction],
    arrivals: impl Iterator<Item = usize>,
) -> Vec<usize> {
    for fraction in streams {
        scheduler.add_stream(contract(*fraction)).expect("complete");
    }
    let mut now_ns = 0;
    for stream in arrivals {
        let stream = StreamId(u32::try_from(stream).expect("few streams"));
        scheduler.enqueue(now_ns, stream, Packet::new(512)).expect("within the calendar");
        now_ns += 1;
    }
    let mut positions = vec![0; streams.len()];
    for at in 0..streams.len() {
        let sent = scheduler.decide(now_ns, &mut ()).expect("backlogged");
        positions[sent.stream.index()] = at;
    }
    positions
}

/// The order of all pairs of streams by a scheduler.
struct Pairs {
    /// Two streams of each window-constraint.
    streams: Vec<Fraction>,
    /// Positions of the streams that arrive in their order, and in the reverse order.
    forward: Vec<usize>,
    backward: Vec<usize>,
}

impl Pairs {
    fn of(scheduler: impl Fn() -> Box<dyn DynScheduler + Send>) -> Self {
        let streams: Vec<Fraction> = fractions().into_iter().flat_map(|of| [of, of]).collect();
        let count = streams.len();
        let forward = positions(scheduler(), &streams, 0..count);
        let backward = positions(scheduler(), &streams, (0..count).rev());
        Self { streams, forward, backward }
    }

    /// Returns the pairs of `selected` that are in the order of Table 1, and all of them.
    fn agreeing(&self, selected: impl Fn(Fraction, Fraction) -> bool) -> (usize, usize) {
        let (mut agree, mut all) = (0, 0);
        for second in 0..self.streams.len() {
            for first in 0..second {
                let (a, b) = (self.streams[first], self.streams[second]);
                if selected(a, b) {
                    all += 1;
                    agree += usize::from(self.order(first, second) == Some(table_1(a, b)));
                }
            }
        }
        (agree, all)
    }

    /// Returns the order of the stream `first` and a later one; `Equal` is first-come, and `None`
    /// last-come.
    fn order(&self, first: usize, second: usize) -> Option<Ordering> {
        let leads = |positions: &[usize]| positions[first] < positions[second];
        match (leads(&self.forward), leads(&self.backward)) {
            (true, true) => Some(Ordering::Less),
            (false, false) => Some(Ordering::Greater),
            (true, false) => Some(Ordering::Equal),
            (false, true) => None,
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn table_1_claim(what: &str, paper: &str, (agree, all): (usize, usize)) -> Claim {
    let percent = 100.0 * agree as f64 / all as f64;
    let test =
        Test::new(format!("Table 1: {what}"), paper, "true in every case", Allowed::Equal(100.0));
    let ours = format!("{} of {}", grouped(agree as u64), grouped(all as u64));
    let effect = format!("{percent:.2} % of the pairs; exact");
    test.by(Evidence::Computed, ours, Estimate::exact(percent), effect)
}

fn table_1_claims() -> Vec<Claim> {
    let heap = Pairs::of(|| {
        let zero_window = ZeroWindow::LowestDenominator;
        let dwcs = DwcsOptions { zero_window, ..DwcsOptions::default() };
        let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
        row.build(&Options { dwcs, ..Options::default() }, StructureName::Heap)
    });
    let hilq = Pairs::of(|| Box::new(Hilq::new(DwcsOptions::default(), Sizes::PAPER)));
    // |a − b| > 2 roundings, in integers.
    let apart =
        |a: Fraction, b: Fraction| (a.0 * b.1).abs_diff(b.0 * a.1) * 100 > 2 * ROUNDING * a.1 * b.1;
    vec![
        table_1_claim(
            "order of all pairs with one deadline, heap",
            "its rules",
            heap.agreeing(|_, _| true),
        ),
        table_1_claim(
            "order of all pairs with one deadline, HILQ",
            "slots are ordered based on Table 1",
            hilq.agreeing(|_, _| true),
        ),
        table_1_claim(
            "order of pairs with x/y more than 0.02 apart, HILQ",
            "up to 0.01 inaccuracy of an x/y",
            hilq.agreeing(apart),
        ),
        table_1_claim(
            "order of pairs with x = 0, HILQ",
            "lowest y first",
            hilq.agreeing(|a, b| a.0 == 0 && b.0 == 0),
        ),
    ]
}

/// An event of a stream's packet.
#[derive(Clone, Copy, Debug)]
enum Change {
    Served,
    Missed,
}

/// Returns x' and y' after a change, by Figure 1. Its `y' = x' − 1` is read as `y' = y' − 1`.
fn figure_1((x, y): Fraction, (lost, of): (u32, f64), change: Change) -> (u32, f64) {
    let restored = |lost, of: f64| if of == 0.0 && lost == 0 { (x, y.into()) } else { (lost, of) };
    match change {
        Change::Served if of > f64::from(lost) => restored(lost, of - 1.0),
        Change::Served => restored(lost, of),
        Change::Missed if lost > 0 => restored(lost - 1, of - 1.0),
        Change::Missed if x > 0 => (0, of + f64::from(y - x) / f64::from(x)),
        Change::Missed => (0, of + f64::from(y)),
    }
}

/// The updates of the scheduler against those of Figure 1.
#[derive(Debug, Default)]
struct Updates {
    all: usize,
    /// The number of updates whose y' differs from Figure 1's.
    rounded: usize,
    /// The largest difference of y'; infinite if x' differs.
    most: f64,
}

impl Updates {
    /// Compares the updates of every state that a stream reaches within two of its windows.
    fn compare() -> Self {
        let mut updates = Self::default();
        fractions().into_iter().for_each(|fraction| updates.of(fraction));
        updates
    }

    #[allow(clippy::cast_precision_loss)]
    fn of(&mut self, fraction: Fraction) {
        let options = DwcsOptions { rules: Rules::Rtas99, ..DwcsOptions::default() };
        let mut dwcs = Dwcs::<EdfFirst>::new(options);
        let mut next = vec![dwcs.admit(&contract(fraction)).expect("complete")];
        let mut seen = BTreeSet::from([next[0].window()]);
        for _ in 0..2 * fraction.1 {
            for state in std::mem::take(&mut next) {
                let (lost, of) = state.window();
                for change in [Change::Served, Change::Missed] {
                    let after = changed(&mut dwcs, &state, change);
                    let (ours_lost, ours_of) = after.window();
                    let (paper_lost, paper_of) = figure_1(fraction, (lost, of as f64), change);
                    let same = ours_lost == paper_lost;
                    let off = if same { (ours_of as f64 - paper_of).abs() } else { f64::INFINITY };
                    self.all += 1;
                    self.rounded += usize::from(off > 0.0);
                    self.most = self.most.max(off);
                    if seen.insert(after.window()) {
                        next.push(after);
                    }
                }
            }
        }
    }
}

type State = <Dwcs<EdfFirst> as Discipline>::State;

fn changed(dwcs: &mut Dwcs<EdfFirst>, state: &State, change: Change) -> State {
    let mut state = *state;
    match change {
        Change::Served => {
            dwcs.served(&mut state, StreamId(0), Head { arrival_ns: 0, bytes: 1 }, 0);
        }
        Change::Missed => {
            dwcs.expired(&mut state, DEADLINE_NS);
        }
    }
    state
}

fn figure_1_claim() -> Claim {
    let Updates { all, rounded, most } = Updates::compare();
    let count = |of: usize| grouped(of as u64);
    let test = Test::new(
        "Fig 1: updates of x' and y' within two windows, DWCS with the rules of 1999",
        "its pseudo-code, `y' = x' − 1` read as `y' = y' − 1`",
        "the same x', y' less than 1 off: y' is whole, (y − x)/x need not be",
        Allowed::Below(1.0),
    );
    let effect = format!("y' at most {most:.2} off; exact");
    let ours =
        format!("{} of {} equal, {} rounded", count(all - rounded), count(all), count(rounded));
    test.by(Evidence::Computed, ours, Estimate::exact(most), effect)
}

fn table_2_claim() -> Claim {
    let latencies = SRAM_LATENCY
        .map(|(cycles, tenths)| format!("{cycles} ({}.{} %)", tenths / 10, tenths % 10))
        .join(", ");
    let what = "Table 2: latency of an SRAM access, cycles";
    Claim::given(what, latencies, "the same, drawn by a seeded generator", Given::Input)
}

/// Returns the section about Table 1, Figure 1 and Table 2.
pub(super) fn section() -> Section {
    let mut claims = table_1_claims();
    claims.push(figure_1_claim());
    claims.push(table_2_claim());
    let text = "\n## The rules\n\n\
                Table 1 and Figure 1 are compared with the schedulers for all x ≤ 19 and y ≤ 29, \
                the paper's ranges. Two streams of each x/y have one packet each with the same \
                deadline; the order of service with arrivals in both directions gives the order of \
                each pair.\n\n\
                - **HILQ** has one first-come slot for x' = 0, where Table 1 has the lowest y' \
                first. Equal x/y within the rounding are ordered by x alone.\n\
                - **Figure 1** prints `y' = x' − 1` after a service, read here as `y' = y' − 1`: \
                otherwise a stream with 1/4 would have y' = 0 after one packet. Its `(y − x)/x` is \
                not always whole; the scheduler rounds it up. Any rounding meets the criterion for \
                y', so the claim tests x' and which rule applies.\n";
    Section { claims, text: text.into(), files: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1_in_its_own_words() {
        use Ordering::{Equal, Greater, Less};
        for (a, b, order) in [
            ((0, 2), (0, 9), Less),
            ((1, 4), (1, 3), Less),
            ((2, 4), (1, 2), Greater),
            ((0, 9), (1, 20), Less),
            ((3, 5), (3, 5), Equal),
        ] {
            assert_eq!(table_1(a, b), order, "{a:?} {b:?}");
        }
    }

    #[test]
    fn figure_1_in_its_own_words() {
        let after = |of, state, change| figure_1(of, state, change);
        assert_eq!(after((1, 4), (1, 4.0), Change::Served), (1, 3.0));
        assert_eq!(after((1, 4), (1, 1.0), Change::Served), (1, 1.0));
        assert_eq!(after((1, 4), (0, 1.0), Change::Served), (1, 4.0));
        assert_eq!(after((1, 4), (1, 1.0), Change::Missed), (1, 4.0));
        assert_eq!(after((2, 5), (0, 3.0), Change::Missed), (0, 4.5));
        assert_eq!(after((0, 5), (0, 3.0), Change::Missed), (0, 8.0));
    }

    #[test]
    fn a_last_come_order_is_no_order_of_table_1() {
        let streams = vec![(1, 2), (1, 2)];
        let last = Pairs { streams, forward: vec![1, 0], backward: vec![0, 1] };
        assert_eq!(last.agreeing(|_, _| true), (0, 1));
        let first = Pairs { forward: vec![0, 1], backward: vec![1, 0], ..last };
        assert_eq!(first.agreeing(|_, _| true), (1, 1));
    }
}
