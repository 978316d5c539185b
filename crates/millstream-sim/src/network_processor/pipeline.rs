//! The paper's pipeline (section 6): two engines receive, one schedules, two transmit.
//!
//! A receiving context takes a packet from the port's buffer piece by piece, finds its stream and
//! inserts it (section 5.4.1). One context schedules and moves packets to the output queue. The
//! transmitting contexts send them from there. One of these eight contexts collects garbage
//! instead, every millisecond (section 5.4.3).
//!
//! With *n* active streams, *n* streams are always backlogged: the scheduler's queue has room for
//! *n* packets and is full at the start. Only the port drops packets; elsewhere a context waits
//! until the next stage has room.

use super::constants::{
    COMPUTE_PER_ACCESS, CONTEXTS, GARBAGE_PERIOD, HANDOVER_SCRATCH, HANDOVER_SRAM, HASH_LATENCY,
    INSERTION_ACCESSES, OUTPUT_QUEUE, PIECE_BYTES, PieceWork, RECEIVE_BUFFER, RECEIVE_PIECE,
    SCRATCH_LATENCY, SCRATCH_OCCUPANCY, SDRAM_LATENCY, SDRAM_OCCUPANCY, SEGMENT_LONGWORDS,
    SRAM_LATENCY, SRAM_OCCUPANCY, TRANSMIT_PIECE,
};
use super::latency::Latency;
use super::machine::{Machine, MachineConfig};
use super::memory::Memory;
use super::program::{Operation, Program, QueueId, Source, Trace, Unit};
use super::scheduler::{Cost, Scheduler, accesses};

const RECEIVED: QueueId = QueueId(0);
const WAITING: QueueId = QueueId(1);
const OUTPUT: QueueId = QueueId(2);

/// The engine that schedules, on its first context, in [`scheduler_alone`] and [`pipeline`].
pub const SCHEDULING_ENGINE: usize = 2;

/// Engines that receive.
const RECEIVERS: usize = 2;

/// Builds the paper's pipeline, with packets of `bytes` arriving at line rate.
#[must_use]
pub fn pipeline(scheduler: Scheduler, bytes: u32, seed: u64) -> Machine {
    pipeline_of(&scheduler.into(), COMPUTE_PER_ACCESS, bytes, seed)
}

/// Builds the paper's pipeline with a scheduler of cost `cost`. Each memory access of scheduling,
/// of insertion and between stages includes `compute` cycles of computation.
#[must_use]
pub fn pipeline_of(cost: &Cost, compute: u64, bytes: u32, seed: u64) -> Machine {
    let contexts = RECEIVERS * CONTEXTS;
    let receive =
        |context| receive_program(bytes, cost.insertion(context, contexts, compute), compute);
    let receive: Vec<_> = (0..contexts).map(receive).collect();
    let transmit = vec![transmit_program(bytes, compute); CONTEXTS];
    let mut collect = transmit.clone();
    collect[CONTEXTS - 1] = collect_program(compute);
    let schedule = vec![cost.program(WAITING, &enqueue_output(compute), compute)];
    let [first, second] = [&receive[..CONTEXTS], &receive[CONTEXTS..]].map(<[_]>::to_vec);
    Machine::new(MachineConfig {
        engines: vec![first, second, schedule, transmit, collect],
        queues: vec![(RECEIVE_BUFFER, 0), waiting(cost), (OUTPUT_QUEUE, 0)],
        arrivals: Some(RECEIVED),
        ..memories(bytes, seed)
    })
}

/// Builds the scheduler without packet traffic (section 6, first test set): one engine produces the
/// streams' requests, another schedules them.
#[must_use]
pub fn scheduler_alone(scheduler: Scheduler, seed: u64) -> Machine {
    scheduler_alone_of(&scheduler.into(), COMPUTE_PER_ACCESS, seed)
}

/// Builds a scheduler of cost `cost` without packet traffic. Each memory access includes `compute`
/// cycles of computation.
///
/// The engine that produces the requests inserts them, too, if the insertion is counted. All its
/// contexts do this, so that it is not the bottleneck.
#[must_use]
pub fn scheduler_alone_of(cost: &Cost, compute: u64, seed: u64) -> Machine {
    let request = |trace: Option<Trace>| {
        let mut body = accesses(1, compute);
        body.push(Operation::Enqueue(WAITING));
        Program {
            source: Source::Generated,
            trace: trace.unwrap_or_default(),
            ..Program::for_each(WAITING, body)
        }
    };
    let contexts = if matches!(cost, Cost::Counted(_)) { CONTEXTS } else { 1 };
    let insertion = |context| cost.insertion(context, contexts, compute);
    let requests = (0..contexts).map(|context| request(insertion(context))).collect();
    Machine::new(MachineConfig {
        engines: vec![requests, vec![], vec![cost.program(WAITING, &[], compute)]],
        queues: vec![(0, 0), waiting(cost), (0, 0)],
        ..memories(PIECE_BYTES, seed)
    })
}

/// Returns capacity and initial length of the scheduler's queue.
///
/// It starts with a packet of each active stream if the scheduler's cost depends on their number.
fn waiting(cost: &Cost) -> (usize, usize) {
    cost.streams().map_or((OUTPUT_QUEUE, 0), |streams| (streams, streams))
}

/// Returns the scheduler's cycles to move a packet to the output queue.
///
/// Assumes that no command waits for another and that the SRAM takes its mean latency.
#[must_use]
pub fn handover_cycles() -> f64 {
    handover_cycles_of(COMPUTE_PER_ACCESS)
}

/// See [`handover_cycles`]; each SRAM access includes `compute` cycles of computation.
#[must_use]
pub fn handover_cycles_of(compute: u64) -> f64 {
    let weights: u32 = SRAM_LATENCY.iter().map(|entry| entry.1).sum();
    let sum: u32 = SRAM_LATENCY.iter().map(|entry| to_u32(entry.0) * entry.1).sum();
    let mean = f64::from(sum) / f64::from(weights);
    let of = |operation: &Operation| match operation {
        Operation::Compute(cycles) => f64::from(to_u32(*cycles)),
        Operation::Access(Unit::Sram) => 1.0 + mean,
        Operation::Access(Unit::Scratch) => f64::from(1 + to_u32(SCRATCH_LATENCY)),
        _ => 0.0,
    };
    enqueue_output(compute).iter().map(of).sum()
}

fn to_u32(cycles: u64) -> u32 {
    u32::try_from(cycles).unwrap_or(u32::MAX)
}

fn memories(bytes: u32, seed: u64) -> MachineConfig {
    let fixed = |latency, occupancy| Memory::new(Latency::fixed(latency), occupancy);
    MachineConfig {
        engines: Vec::new(),
        queues: Vec::new(),
        arrivals: None,
        bytes,
        sram: Memory::new(Latency::from_table(&SRAM_LATENCY, seed), SRAM_OCCUPANCY),
        sdram: fixed(SDRAM_LATENCY, SDRAM_OCCUPANCY),
        scratch: fixed(SCRATCH_LATENCY, SCRATCH_OCCUPANCY),
        hash: fixed(HASH_LATENCY, SCRATCH_OCCUPANCY),
    }
}

/// Returns the operations that move a packet of `bytes`, piece by piece. Each piece's computation
/// is spread evenly before and between its commands.
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

/// Returns the operations that put a packet into a queue between stages, or take one out.
fn handover(compute: u64) -> Vec<Operation> {
    let mut operations = accesses(HANDOVER_SRAM, compute);
    operations.extend(vec![Operation::Access(Unit::Scratch); HANDOVER_SCRATCH]);
    operations
}

fn enqueue_output(compute: u64) -> Vec<Operation> {
    let mut operations = handover(compute);
    operations.push(Operation::Enqueue(OUTPUT));
    operations
}

/// Returns the receiving program of section 5.4.1.
///
/// It takes a buffer from the free list and receives the pieces. A hash finds the stream; its D, x
/// and y are read, and the x/y table gives the slot. Then it reads the slot's header, takes an
/// element queue from the free list, and writes element, header and both index levels' bits.
///
/// `insertion` holds the counted commands of the insertion; they precede the pieces, which does not
/// change their time.
fn receive_program(bytes: u32, insertion: Option<Trace>, compute: u64) -> Program {
    let mut body = accesses(1, compute);
    body.extend(pieces(bytes, RECEIVE_PIECE));
    body.push(Operation::Access(Unit::Hash));
    if insertion.is_none() {
        body.extend(accesses(INSERTION_ACCESSES, compute));
        body.push(Operation::Access(Unit::Scratch));
    }
    body.push(Operation::Enqueue(WAITING));
    Program { trace: insertion.unwrap_or_default(), ..Program::for_each(RECEIVED, body) }
}

/// Returns the program that takes a packet from the output queue, sends its pieces, and frees its
/// buffer.
fn transmit_program(bytes: u32, compute: u64) -> Program {
    let mut body = handover(compute);
    body.extend(pieces(bytes, TRANSMIT_PIECE));
    body.extend(accesses(1, compute));
    body.push(Operation::Transmit);
    Program::for_each(OUTPUT, body)
}

/// Returns the program that scans the index of the expired segment, which is empty.
fn collect_program(compute: u64) -> Program {
    let mut body = vec![Operation::Access(Unit::Scratch)];
    body.extend(accesses(SEGMENT_LONGWORDS, compute));
    Program { source: Source::Timer(GARBAGE_PERIOD), ..Program::for_each(WAITING, body) }
}
