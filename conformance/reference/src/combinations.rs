//! Every combination of the DWCS options, one trace each: order × rules × zero windows × late.
//!
//! All sixteen have the same streams, so two traces differ only by their options. Some windows grow
//! by more than 1 under `rtas99` (2/5, 1/4); some have equal values (1/4, 2/8). Others allow no
//! loss or every loss, or are absent. Lengths vary, and no transmission time is a whole number of
//! ns. Several request periods can therefore end within one transmission, and drops occur after the
//! deadline rather than at it.

use crate::model::{Discipline, StreamSpec};
use crate::traces::{Load, MIXED, SLOT_NS, Trace, windows};

/// Returns the sixteen traces.
#[must_use]
pub fn all() -> Vec<Trace> {
    (0u8..16).map(combination).collect()
}

fn combination(number: u8) -> Trace {
    let option = |bit: u8| number & (1 << bit) != 0;
    let (loss_first, rtas99, lowest, drop) = (option(3), option(2), option(1), option(0));
    let pick = |second: bool, words: [&'static str; 2]| words[usize::from(second)];
    let name = format!(
        "dwcs-options-{}-{}-{}-{}",
        pick(loss_first, ["edf-first", "loss-first"]),
        pick(rtas99, ["standard", "rtas99"]),
        pick(lowest, ["highest", "lowest"]),
        pick(drop, ["send", "drop"]),
    );
    let discipline = Discipline::Dwcs { loss_first, rtas99, lowest_denominator: lowest };
    let load = Load {
        seed: 100 + u64::from(number),
        packets: 200,
        per_hundred_slots: if drop { 45 } else { 32 },
        lengths: MIXED,
    };
    let mut trace = Trace::new(&name, discipline, 24, streams(drop), load);
    trace.spec.rate_bps = 999_999_937;
    trace
}

fn streams(drop: bool) -> Vec<StreamSpec> {
    const WINDOWS: &[(u32, u32)] = &[(2, 5), (1, 4), (0, 3), (2, 8), (2, 2), (0, 0), (0, 2)];
    let mut streams = windows(&[14, 14, 10, 14, 14, 10, 10], WINDOWS);
    streams.iter_mut().for_each(|stream| stream.drop_late = drop);
    streams[1].queue = Some(6);
    streams[3].first_deadline_ns = Some(40 * SLOT_NS);
    streams
}
