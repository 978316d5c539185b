//! Functional coverage of the comparison: the events in decisions that were equal.
//!
//! Every decision is classified as the hardware sees it: the heads before it, the winner, and the
//! events of every stream until the next. An empty bin fails the run: an event that did not occur
//! was not compared.

use std::fmt::Write as _;

use millstream_hw::{Load, Mode, Settings};

use crate::model::Stream;

macro_rules! bins {
    ($($bin:ident $name:literal,)*) => {
        /// An event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bin { $(#[doc = $name] $bin),* }

        /// All bins with their names.
        const BINS: &[(Bin, &str)] = &[$((Bin::$bin, $name)),*];
    };
}

bins! {
    DecidedDwcs "decisions: DWCS",
    DecidedEdf "decisions: EDF",
    DecidedStatic "decisions: static priority",
    DecidedTag "decisions: least service tag",
    NoWinner "decisions without a packet",
    Alone "decisions with one packet",
    Deadline "Table 1: earliest deadline",
    ZeroFirst "Table 1: zero window-constraint before another",
    Lowest "Table 1: lowest window-constraint",
    Highest "Table 1: both zero, highest denominator",
    LowestDenominator "both zero, lowest denominator (the setting)",
    Numerator "Table 1: equal window-constraints, lowest numerator",
    Arrival "Table 1: first come, first served",
    Number "equal in all: lowest stream",
    EdfDeadline "EDF: earliest deadline",
    EdfArrival "EDF: first come, first served",
    Priority "static: priority",
    StaticArrival "static: first come, first served",
    Tag "tag: least tag",
    TagNumber "tag: equal tags, lowest stream",
    RuleA "rule A: y' less by 1",
    RuleABoth "rule A: y' = x', both less by 1",
    RestoredA "rule A: window used up, restored",
    RestoredTag "rule A: restored after a violation",
    RuleB "rule B: x' and y' less by 1",
    RestoredB "rule B: window used up, restored",
    Violation "violation: y' more by 1",
    Violation1999 "violation: y' more by ceil((y - x) / x)",
    Misses "several deadlines missed at one charge",
    SentLate "late and sent",
    DroppedLate "late and dropped",
    DeadlineWrap "deadlines compared across the end of 16 bits",
    ArrivalWrap "arrivals compared across the end of 16 bits",
    TimeWrap "time passed the end of 16 bits",
    LongStep "time moved by more than a tick",
}

/// Counts of one configuration.
#[derive(Clone, Debug)]
pub struct Coverage([u64; BINS.len()]);

/// A stream before a decision: its registers and its dropped packets.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// The registers of the hardware.
    pub stream: Stream,
    /// The dropped packets, by the engine.
    pub dropped: u64,
}

impl Coverage {
    /// Empty bins.
    pub fn new() -> Self {
        Self([0; BINS.len()])
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    fn count(&mut self, bin: Bin) {
        self.0[bin as usize] += 1;
    }

    /// Counts a decision at `now` over these streams.
    pub fn decided(
        &mut self,
        settings: Settings,
        now: u16,
        streams: &[Before],
        winner: Option<usize>,
    ) {
        self.count(match settings.mode {
            Mode::Dwcs => Bin::DecidedDwcs,
            Mode::Edf => Bin::DecidedEdf,
            Mode::Static => Bin::DecidedStatic,
            Mode::Tag => Bin::DecidedTag,
        });
        let Some(winner) = winner else { return self.count(Bin::NoWinner) };
        let first = streams[winner].stream;
        let timed = matches!(settings.mode, Mode::Dwcs | Mode::Edf);
        let late = !now.wrapping_sub(first.deadline) & 1 << 15 != 0;
        if timed && late {
            self.count(Bin::SentLate);
        }
        let others = streams.iter().map(|before| before.stream);
        let others = others.filter(|other| other.valid == 1 && usize::from(other.id) != winner);
        let mut alone = true;
        for other in others {
            alone = false;
            self.rule(settings, &first, &other);
        }
        if alone {
            self.count(Bin::Alone);
        }
    }

    /// The rule by which `first` precedes `other`.
    fn rule(&mut self, settings: Settings, first: &Stream, other: &Stream) {
        let wraps = |one: u16, other: u16| {
            one != other && (one < other) == (one.wrapping_sub(other) & 1 << 15 == 0)
        };
        let mode = settings.mode;
        if mode != Mode::Tag && first.deadline != other.deadline {
            if mode != Mode::Static && wraps(first.deadline, other.deadline) {
                self.count(Bin::DeadlineWrap);
            }
            return self.count(match mode {
                Mode::Dwcs => Bin::Deadline,
                Mode::Edf => Bin::EdfDeadline,
                _ => Bin::Priority,
            });
        }
        if mode == Mode::Dwcs && (first.x, first.y) != (other.x, other.y) {
            let cross = |a: &Stream, b: &Stream| u32::from(a.x) * u32::from(b.y);
            return self.count(match (first.x, other.x) {
                (0, 0) if settings.lowest_denominator => Bin::LowestDenominator,
                (0, 0) => Bin::Highest,
                (0, _) => Bin::ZeroFirst,
                _ if cross(first, other) == cross(other, first) => Bin::Numerator,
                _ => Bin::Lowest,
            });
        }
        if first.arrival == other.arrival {
            return self.count(if mode == Mode::Tag { Bin::TagNumber } else { Bin::Number });
        }
        if wraps(first.arrival, other.arrival) {
            self.count(Bin::ArrivalWrap);
        }
        self.count(match mode {
            Mode::Dwcs => Bin::Arrival,
            Mode::Edf => Bin::EdfArrival,
            Mode::Static => Bin::StaticArrival,
            Mode::Tag => Bin::Tag,
        });
    }

    /// Counts the step from one decision to the next.
    pub fn moved(&mut self, from: u16, to: u16) {
        if to < from {
            self.count(Bin::TimeWrap);
        }
        if to.wrapping_sub(from) > 1 {
            self.count(Bin::LongStep);
        }
    }

    /// Counts the events of a stream between two decisions.
    pub fn changed(&mut self, settings: Settings, load: &Load, from: &Before, to: &Before) {
        let (old, new) = (&from.stream, &to.stream);
        if to.dropped > from.dropped {
            self.count(Bin::DroppedLate);
        }
        let since = |now: u16, then: u16| now.wrapping_sub(then);
        let served = since(new.serviced, old.serviced);
        let missed = since(new.missed, old.missed);
        if missed > 1 {
            self.count(Bin::Misses);
        }
        if settings.mode != Mode::Dwcs || served + missed.min(2) != 1 {
            return;
        }
        let less = |x: u8, y: u8| (old.x.wrapping_sub(x), old.y.wrapping_sub(y)) == (new.x, new.y);
        let restored = (new.x, new.y) == (load.x, load.y);
        let bin = if served == 1 {
            let both = old.x == old.y && !settings.rtas99;
            let used_up = old.y <= 1 && (old.x == 0 || (old.x == 1 && both));
            match () {
                () if restored && used_up => Bin::RestoredA,
                () if old.x == old.y && old.x > 0 && less(1, 1) => Bin::RuleABoth,
                () if old.y > old.x && less(0, 1) => Bin::RuleA,
                () if restored => Bin::RestoredTag,
                () => return,
            }
        } else if new.violations != old.violations {
            if settings.rtas99 { Bin::Violation1999 } else { Bin::Violation }
        } else if old.y == 1 && restored {
            Bin::RestoredB
        } else if old.x > 0 && less(1, 1) {
            Bin::RuleB
        } else {
            return;
        };
        self.count(bin);
    }
}

/// Returns the bins by configuration, as a page.
pub fn page(columns: &[(&str, Coverage)]) -> String {
    let mut text = String::from(
        "# What was compared\n\n\
         Functional coverage of the quick comparison of `bulk` (a million decisions, seed 1), by\n\
         configuration: the number of events in decisions equal to the engine's. For Table 1 the\n\
         winner is compared with every other stream with a packet. `millstream-rtl-bulk` writes\n\
         this page and fails if a bin is empty (16-bit wraps: in all configurations);\n\
         `scripts/rtl.sh` checks it.\n\n|  |",
    );
    for (name, _) in columns {
        let _ = write!(text, " {name} |");
    }
    text += "\n|---|";
    text += &"---:|".repeat(columns.len());
    for (bin, name) in BINS {
        let _ = write!(text, "\n| {name} |");
        for (_, coverage) in columns {
            let _ = write!(text, " {} |", coverage.0[*bin as usize]);
        }
    }
    text + "\n"
}

/// Events of a 16-bit wrap are rare: they must occur in some configuration.
const RARE: [Bin; 3] = [Bin::DeadlineWrap, Bin::ArrivalWrap, Bin::TimeWrap];

/// Returns the empty bins, each with its configuration.
pub fn empty(columns: &[(&str, Coverage)]) -> Vec<String> {
    let mut all = Coverage::new();
    columns.iter().for_each(|(_, coverage)| all.add(coverage));
    let of = |(name, coverage): (&str, &Coverage)| {
        let counted = |bin: Bin| if RARE.contains(&bin) { &all } else { coverage }.0[bin as usize];
        let empty = BINS.iter().filter(|(bin, _)| counted(*bin) == 0);
        empty.map(|(_, what)| format!("{name}: {what}")).collect::<Vec<_>>()
    };
    columns.iter().flat_map(|(name, coverage)| of((name, coverage))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u8, deadline: u16, x: u8, y: u8, arrival: u16) -> Before {
        let stream = Stream { id, deadline, x, y, arrival, valid: 1, ..Stream::default() };
        Before { stream, dropped: 0 }
    }

    #[test]
    fn only_the_deciding_rule_is_counted() {
        let dwcs = Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false };
        for (first, other, bins) in [
            (stream(1, 7, 1, 2, 0), stream(0, 9, 0, 2, 0), vec![Bin::Deadline]),
            (
                stream(1, 0xFFFF, 1, 2, 0),
                stream(0, 1, 1, 2, 0),
                vec![Bin::Deadline, Bin::DeadlineWrap],
            ),
            (stream(1, 9, 0, 2, 0), stream(0, 9, 1, 2, 0), vec![Bin::ZeroFirst]),
            (stream(1, 9, 1, 3, 0), stream(0, 9, 1, 2, 0), vec![Bin::Lowest]),
            (stream(1, 9, 0, 3, 0), stream(0, 9, 0, 2, 0), vec![Bin::Highest]),
            (stream(1, 9, 1, 2, 0), stream(0, 9, 2, 4, 0), vec![Bin::Numerator]),
            (stream(1, 9, 1, 2, 3), stream(0, 9, 1, 2, 4), vec![Bin::Arrival]),
            (stream(0, 9, 1, 2, 3), stream(1, 9, 1, 2, 3), vec![Bin::Number]),
        ] {
            let mut coverage = Coverage::new();
            let winner = usize::from(first.stream.id);
            let mut streams = [first, other];
            streams.sort_by_key(|before| before.stream.id);
            coverage.decided(dwcs, 0xFFF0, &streams, Some(winner));
            let counted: Vec<Bin> =
                BINS.iter().map(|row| row.0).filter(|bin| coverage.0[*bin as usize] > 0).collect();
            assert_eq!(counted, [vec![Bin::DecidedDwcs], bins].concat());
        }
    }
}
