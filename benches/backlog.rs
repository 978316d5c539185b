//! Schedulers with a backlog in every stream. Windows are mixed, and the link is slightly
//! overloaded, so deadlines are missed.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, Link, Packet, StreamId, Window};

/// The length of a packet.
pub(crate) const BYTES: u32 = 1500;
/// The transmission time of a packet, ns.
pub(crate) const SLOT_NS: u64 = 1000;

/// Returns the options of a discipline for a link of one packet a slot.
pub(crate) fn options(streams: u32) -> Options {
    let link = Link::new(u64::from(BYTES) * 8_000_000_000 / SLOT_NS, 0);
    let table = (0..streams).map(StreamId).collect();
    Options { link, table, ..Options::default() }
}

/// Returns a contract with the attributes of all disciplines.
pub(crate) fn contract(stream: u32, streams: u32) -> Contract {
    let of = 2 + stream % 9;
    let lost = stream / 9 % of;
    // Packets arrive at the link's rate, and windows allow some of them to miss.
    let period_ns = u64::from(streams) * SLOT_NS * u64::from(7 + stream % 3) / 8;
    Contract::new()
        .period_ns(period_ns.max(1))
        .unwrap()
        .window(Window::new(lost, of).unwrap())
        .priority(stream % 8)
        .weight(1 + stream % 16)
        .unwrap()
        .quantum_bytes(BYTES * (1 + stream % 16))
        .unwrap()
}

/// Enqueues two packets per stream.
pub(crate) fn fill(scheduler: &mut dyn DynScheduler, streams: u32) {
    for stream in 0..streams {
        for _ in 0..2 {
            let now_ns = 0;
            scheduler.enqueue(now_ns, StreamId(stream), Packet::new(BYTES)).unwrap();
        }
    }
}

/// Returns a scheduler with two packets waiting in each stream.
pub(crate) fn backlogged(
    row: &DisciplineRow,
    structure: StructureName,
    streams: u32,
) -> Box<dyn DynScheduler + Send> {
    let mut scheduler = row.build(&options(streams), structure);
    for stream in 0..streams {
        scheduler.add_stream(contract(stream, streams)).unwrap();
    }
    fill(scheduler.as_mut(), streams);
    scheduler
}
