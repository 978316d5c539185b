//! The end-system backend: the verilated card of `rtl/cards` and its host.
//!
//! ```text
//!  queue manager ──arrivals──> card, bus ──events────> transmission engine
//!    (a thread)               (a thread)  <──requests──     (the caller's)
//! ```
//!
//! Source: ShareStreams, section 3 and Figure 3. Packets stay with the host. Their 16-bit arrival
//! times cross the [`bus`] to the card, and the winners' stream numbers come back. [`timeline`]
//! clocks the card cycle by cycle and charges every transfer to the bus. [`engine`] is the
//! transmission engine, which sends the winners' packets on the link. Single-producer
//! single-consumer blocking rings join them.
//!
//! **Time** is simulated: cycles of the card's clock and transfers of the bus, in whole
//! nanoseconds. The timing of threads has no effect. Arrivals come in one order, and the timeline
//! does not advance past a read of winners until the transmission engine has requested the next. A
//! scenario always gives the same bytes.
//!
//! **The card's time** counts packet-times, one tick per decision; deadlines have the same unit. It
//! runs ahead of the link if packets are shorter than a packet-time. [`clock`] keeps the host's
//! time in step.
//!
//! | module | what |
//! |---|---|
//! | [`bus`] | the cost of a transfer |
//! | [`clock`] | simulated time, and arrival times in ticks of the card |
//! | [`cost`] | counts and times of the transfers |
//! | [`timeline`] | card, bus and the host's transfers, cycle by cycle |
//! | [`engine`] | the transmission engine |
//! | `scenario` | the end-system of a scenario file; a feature |

pub mod bus;
pub mod clock;
mod contracts;
pub mod cost;
pub mod engine;
#[path = "../../../rtl/cards/registers/msr_end_system_registers.rs"]
#[rustfmt::skip]
pub mod registers;
#[cfg(feature = "scenario")]
pub mod scenario;
pub mod timeline;

use std::thread;

use millstream::Contract;
use millstream_sync::blocking::channel;

use crate::Settings;
use crate::rtl::RtlError;
use crate::rtl::build::{self, BuildError, Design};
use crate::rtl::card::Card;

pub use bus::Bus;
pub use cost::{Cost, Transfers};
pub use engine::Listener;
pub use timeline::Probe;

/// The card, its clock and its bus.
#[derive(Clone, Debug)]
pub struct Options {
    /// The discipline.
    pub settings: Settings,
    /// The bus.
    pub bus: Bus,
    /// The card's clock, Hz; not 0.
    pub clock_hz: u64,
    /// A tick of the card's time, ns; not 0. Periods and first deadlines are multiples of it.
    pub packet_time_ns: u64,
}

/// A packet that arrives at the host.
#[derive(Clone, Debug)]
pub struct Arrival<T> {
    /// Arrival time, ns; non-decreasing.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// Length, bytes.
    pub bytes: u32,
    /// Opaque data of the caller; returned when the packet leaves.
    pub payload: T,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct End {
    /// End of the last transmission, ns.
    pub end_ns: u64,
    /// Packets still waiting; 0 unless the listener stopped the run.
    pub waiting: u64,
    /// Transfers and their cost.
    pub cost: Cost,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum EndSystemError<E> {
    /// The card is unavailable or cannot hold a contract.
    #[error(transparent)]
    Card(#[from] RtlError),
    /// An arrival could not be read.
    #[error("{0}")]
    Arrival(E),
    /// The listener failed.
    #[error(transparent)]
    Output(std::io::Error),
    /// A time or counter exceeded the card's range.
    #[error("end-system card: {0}")]
    Fault(String),
}

/// Returns the card's parameters for `streams` streams, a power of two.
///
/// At most 2¹³ arrivals are in SRAM or offered: a quarter of the range of the 16-bit times.
#[must_use]
pub fn parameters(streams: usize) -> Vec<(&'static str, usize)> {
    let depth = depth(streams);
    vec![
        ("N", streams),
        ("Banks", (streams / 2).min(2)),
        ("Depth", depth),
        ("Winners", WINNERS),
        ("Burst", (depth / 4).min(64)),
    ]
}

/// Returns the SRAM capacity of a stream, arrivals.
pub(crate) fn depth(streams: usize) -> usize {
    (4096 / streams).min(MAX_DEPTH)
}

/// Maximum arrivals of a stream in SRAM.
const MAX_DEPTH: usize = 512;

/// The maximum number of winners that the card decides ahead of the host.
///
/// Later arrivals wait behind them.
pub(crate) const WINNERS: usize = 16;

/// Runs the card with the packets of `arrivals` until all have left.
///
/// `transmission_ns` returns the transmission time, ns, for a length in bytes.
///
/// # Errors Fails if the card is unavailable or cannot hold a contract, or an arrival cannot be
/// read. Also fails if the listener does, or if a time or counter exceeds the card's range. Earlier
/// events have been reported.
///
/// # Panics
/// Panics if a thread panics.
pub fn run<T: Send, E: Send>(
    options: &Options,
    contracts: &[Contract],
    arrivals: impl Iterator<Item = Result<Arrival<T>, E>> + Send,
    transmission_ns: impl Fn(u32) -> u64,
    listener: &mut impl Listener<T>,
    probe: &mut (impl Probe + Send),
) -> Result<End, EndSystemError<E>> {
    let streams = contracts.len();
    if streams > 64 {
        return Err(RtlError::TooMany(streams).into());
    }
    let lanes = streams.next_power_of_two().max(2);
    let parameters = parameters(lanes);
    let library = build::library(&Design::end_system(parameters)).map_err(RtlError::from)?;
    let card = Card::load(&library).map_err(BuildError::from).map_err(RtlError::from)?;

    let (to_card, from_manager) = channel(4096);
    let (to_engine, from_card) = channel(4096);
    let (to_timeline, from_engine) = channel(2);
    let mut timeline = timeline::Timeline::new(options, contracts, card).map_err(RtlError::from)?;
    thread::scope(|threads| {
        let manager = threads.spawn(move || {
            let mut to_card = to_card;
            for arrival in arrivals {
                let arrival = arrival.map_err(EndSystemError::Arrival)?;
                if to_card.send(arrival).is_err() {
                    break;
                }
            }
            Ok::<_, EndSystemError<E>>(())
        });
        let timeline = threads.spawn(move || {
            timeline.run(from_manager, to_engine, from_engine, probe).map(|()| timeline.cost())
        });
        let sent = engine::run(streams, from_card, to_timeline, &transmission_ns, listener);
        let cost = timeline.join().expect("the timeline does not panic");
        manager.join().expect("sources do not panic")?;
        let sent = sent.map_err(EndSystemError::Output)?;
        let cost = cost.map_err(EndSystemError::Fault)?;
        Ok(End { end_ns: sent.end_ns, waiting: sent.waiting, cost })
    })
}
