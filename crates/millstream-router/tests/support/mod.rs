//! Plans as tests need them.

#![allow(dead_code)]

use millstream::Link;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream_router::model::Costs;
use millstream_router::{InputPlan, OutputPlan, WhenFull};

/// The paper's costs, and a tenth of a microsecond for all else.
pub(crate) const COSTS: Costs = Costs {
    dispatch_ns: 100,
    poll_ns: 100,
    input_ns: 1_600,
    handover_ns: 100,
    output_ns: 1_400,
    interrupt_ns: None,
};

/// An input process that drops at full queues.
pub(crate) fn input(reservation: u32) -> InputPlan {
    InputPlan { reservation, throttle: None, when_full: WhenFull::Drop }
}

/// An output process on a link of so many 64-byte packets a second.
pub(crate) fn output(reservation: u32, discipline: &str, rate_pps: u64) -> OutputPlan {
    let link = Link { rate_bps: rate_pps * 64 * 8, overhead_bytes: 0 };
    let options = Options { link, ..Options::default() };
    OutputPlan {
        reservation,
        throttle: None,
        discipline: DisciplineRow::parse(discipline).unwrap(),
        options,
        structure: StructureName::Scan,
    }
}
