//! The paper's pipeline (section 6): two engines receive, one schedules, two transmit.
//!
//! A receiving context takes a packet from the port's buffer piece by piece, finds its stream and
//! inserts it (section 5.4.1). One context schedules and hands packets to the output queue. The
//! transmitting contexts take them from there and put them on the wire; one of the eight collects
//! garbage instead, every millisecond (section 5.4.3).
//!
//! *n* active streams are *n* streams with a packet waiting: the scheduler's queue has room for *n*
//! packets and is full at the start. No stage but the port drops: where the next stage has no room
//! a context waits.

use super::constants::{
    CONTEXTS, GARBAGE_PERIOD, HANDOVER_SCRATCH, HANDOVER_SRAM, HASH_LATENCY, INSERTION_ACCESSES,
    OUTPUT_QUEUE, PIECE_BYTES, PieceWork, RECEIVE_BUFFER, RECEIVE_PIECE, SCRATCH_LATENCY,
    SCRATCH_OCCUPANCY, SDRAM_LATENCY, SDRAM_OCCUPANCY, SEGMENT_LONGWORDS, SRAM_LATENCY,
    SRAM_OCCUPANCY, TRANSMIT_PIECE,
};
use super::latency::Latency;
use super::machine::{Machine, Parts};
use super::memory::Memory;
use super::program::{Operation, Program, QueueId, Source, Unit};
use super::scheduler::{Scheduler, accesses};

const RECEIVED: QueueId = QueueId(0);
const WAITING: QueueId = QueueId(1);
const OUTPUT: QueueId = QueueId(2);

/// The engine whose first context schedules, in [`scheduler_alone`] and [`pipeline`].
pub const SCHEDULING_ENGINE: usize = 2;

/// Packets of `bytes` at line rate through the paper's pipeline.
#[must_use]
pub fn pipeline(scheduler: Scheduler, bytes: u32, seed: u64) -> Machine {
    let receive = vec![receiving(bytes); CONTEXTS];
    let transmit = vec![transmitting(bytes); CONTEXTS];
    let mut collect = transmit.clone();
    collect[CONTEXTS - 1] = collecting();
    let schedule = vec![scheduler.program(WAITING, &handing_over())];
    Machine::new(Parts {
        engines: vec![receive.clone(), receive, schedule, transmit, collect],
        queues: vec![(RECEIVE_BUFFER, 0), waiting(scheduler), (OUTPUT_QUEUE, 0)],
        arrivals: Some(RECEIVED),
        ..memories(bytes, seed)
    })
}

/// The scheduler without packet traffic (section 6, first test set): one engine makes the streams'
/// requests, another schedules them.
#[must_use]
pub fn scheduler_alone(scheduler: Scheduler, seed: u64) -> Machine {
    let mut body = accesses(1);
    body.push(Operation::Enqueue(WAITING));
    let requests = Program { source: Source::Made, prologue: Vec::new(), body };
    Machine::new(Parts {
        engines: vec![vec![requests], vec![], vec![scheduler.program(WAITING, &[])]],
        queues: vec![(0, 0), waiting(scheduler), (0, 0)],
        ..memories(PIECE_BYTES, seed)
    })
}

/// The scheduler's queue, its room and what is in it at the start: a packet of each active stream,
/// if the scheduler depends on their number.
fn waiting(scheduler: Scheduler) -> (usize, usize) {
    scheduler.streams().map_or((OUTPUT_QUEUE, 0), |streams| (streams, streams))
}

/// Cycles that the scheduler spends on handing a packet to the output queue, when no command waits
/// for another and the SRAM takes its mean latency.
#[must_use]
pub fn handover_cycles() -> f64 {
    let weights: u32 = SRAM_LATENCY.iter().map(|entry| entry.1).sum();
    let sum: u32 = SRAM_LATENCY.iter().map(|entry| small(entry.0) * entry.1).sum();
    let mean = f64::from(sum) / f64::from(weights);
    let of = |operation: &Operation| match operation {
        Operation::Compute(cycles) => f64::from(small(*cycles)),
        Operation::Access(Unit::Sram) => 1.0 + mean,
        Operation::Access(Unit::Scratch) => f64::from(1 + small(SCRATCH_LATENCY)),
        _ => 0.0,
    };
    handing_over().iter().map(of).sum()
}

fn small(cycles: u64) -> u32 {
    u32::try_from(cycles).unwrap_or(u32::MAX)
}

fn memories(bytes: u32, seed: u64) -> Parts {
    let fixed = |latency, occupancy| Memory::new(Latency::fixed(latency), occupancy);
    Parts {
        engines: Vec::new(),
        queues: Vec::new(),
        arrivals: None,
        bytes,
        sram: Memory::new(Latency::drawn(&SRAM_LATENCY, seed), SRAM_OCCUPANCY),
        sdram: fixed(SDRAM_LATENCY, SDRAM_OCCUPANCY),
        scratch: fixed(SCRATCH_LATENCY, SCRATCH_OCCUPANCY),
        hash: fixed(HASH_LATENCY, SCRATCH_OCCUPANCY),
    }
}

/// What moving a packet of `bytes` takes, piece by piece; a piece's computation is spread evenly
/// before and between its commands.
fn pieces(bytes: u32, work: PieceWork) -> Vec<Operation> {
    let commands: Vec<_> = [(Unit::Sdram, work.sdram), (Unit::Sram, work.sram)]
        .into_iter()
        .chain([(Unit::Scratch, work.scratch)])
        .flat_map(|(unit, count)| std::iter::repeat_n(unit, count))
        .collect();
    let stretches = commands.len() as u64 + 1;
    let until = |stretch: u64| work.compute * stretch / stretches;
    let mut piece = vec![Operation::Compute(until(1))];
    for (stretch, unit) in (1..).zip(commands) {
        piece.push(Operation::Access(unit));
        piece.push(Operation::Compute(until(stretch + 1) - until(stretch)));
    }
    piece.repeat(bytes.div_ceil(PIECE_BYTES) as usize)
}

/// Puts a packet into a queue between stages, or takes it out.
fn handover() -> Vec<Operation> {
    let mut operations = accesses(HANDOVER_SRAM);
    operations.extend(vec![Operation::Access(Unit::Scratch); HANDOVER_SCRATCH]);
    operations
}

fn handing_over() -> Vec<Operation> {
    let mut operations = handover();
    operations.push(Operation::Enqueue(OUTPUT));
    operations
}

/// Section 5.4.1: a buffer from the free list; the pieces; a hash finds the stream; its D, x and y
/// are read; the x/y table gives the slot; the slot's header is read, an element queue comes from
/// the free list, and the element, the header and the bits of both index levels are written.
fn receiving(bytes: u32) -> Program {
    let mut body = accesses(1);
    body.extend(pieces(bytes, RECEIVE_PIECE));
    body.push(Operation::Access(Unit::Hash));
    body.extend(accesses(INSERTION_ACCESSES));
    body.push(Operation::Access(Unit::Scratch));
    body.push(Operation::Enqueue(WAITING));
    Program::for_each(RECEIVED, body)
}

/// Takes a packet from the output queue, moves its pieces, and gives its buffer back.
fn transmitting(bytes: u32) -> Program {
    let mut body = handover();
    body.extend(pieces(bytes, TRANSMIT_PIECE));
    body.extend(accesses(1));
    body.push(Operation::Transmit);
    Program::for_each(OUTPUT, body)
}

/// Looks through the index of the segment that is over, in which nothing is left.
fn collecting() -> Program {
    let mut body = vec![Operation::Access(Unit::Scratch)];
    body.extend(accesses(SEGMENT_LONGWORDS));
    Program { source: Source::Every(GARBAGE_PERIOD), prologue: Vec::new(), body }
}
