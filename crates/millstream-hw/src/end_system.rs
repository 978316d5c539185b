//! The end-system realisation: the card of `rtl/cards`, verilated, and the host around it.
//!
//! ```text
//!  queue manager ──arrivals──> card, bus ──what left──> transmission engine
//!    (a thread)               (a thread)  <──requests──     (the caller's)
//! ```
//!
//! Source: ShareStreams, section 3 and Figure 3. The packets stay with the host; their arrival
//! times, 16 bits each, cross the [`bus`] to the card, and the winners' stream numbers come back.
//! [`timeline`] is the card clocked cycle by cycle and every transfer charged to the bus; [`engine`]
//! the transmission engine, which sends what it reads on the link; both are joined by
//! single-producer single-consumer [`ring`]s.
//!
//! **Time** is simulated: cycles of the card's clock and transfers of the bus, in whole nanoseconds.
//! What threads do in real time has no part in it: arrivals come in one order; the timeline does not
//! go on past a read of winners until the transmission engine has said when it wants the next. So
//! the same scenario gives the same bytes.
//!
//! **The card's time** counts packet-times, a tick a decision ([`clock`] keeps the host's in step), and
//! so do deadlines: with packets shorter than a packet-time it runs ahead of the link's.
//!
//! | module | what |
//! |---|---|
//! | [`bus`] | what a transfer costs |
//! | [`clock`] | simulated time, and arrivals' times as the card counts them |
//! | [`cost`] | what crossed the bus |
//! | [`timeline`] | card, bus and the host's transfers, cycle by cycle |
//! | [`engine`] | the transmission engine |
//! | [`ring`] | rings that a thread can wait at |
//! | `scenario` | all of it from a scenario file; a feature |

pub mod bus;
pub mod clock;
mod contracts;
pub mod cost;
pub mod engine;
#[path = "../../../rtl/cards/registers/msr_end_system_registers.rs"]
#[rustfmt::skip]
pub mod registers;
pub mod ring;
#[cfg(feature = "scenario")]
pub mod scenario;
pub mod timeline;

use std::thread;

use millstream::Contract;

use crate::Settings;
use crate::rtl::RtlError;
use crate::rtl::build::{self, BuildError, Design};
use crate::rtl::card::Card;

pub use bus::Bus;
pub use cost::{Cost, Transfers};
pub use engine::Listener;
pub use timeline::Watch;

/// The card and what it is plugged into.
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

/// A packet that comes to the host.
#[derive(Clone, Debug)]
pub struct Arrival<T> {
    /// When, ns; never before the one before.
    pub time_ns: u64,
    /// Its stream's number.
    pub stream: u32,
    /// Its length.
    pub bytes: u32,
    /// Whatever belongs to it; comes back when it leaves.
    pub payload: T,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct End {
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// Packets still waiting; 0 unless the listener stopped the run.
    pub waiting: u64,
    /// What was transferred, and what that cost.
    pub cost: Cost,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum EndSystemError<E> {
    /// There is no card, or it cannot hold a contract.
    #[error(transparent)]
    Card(#[from] RtlError),
    /// An arrival could not be read.
    #[error("{0}")]
    Arrival(E),
    /// The listener could not write.
    #[error(transparent)]
    Output(std::io::Error),
    /// The card left what it can count.
    #[error("end-system card: {0}")]
    Trouble(String),
}

/// The size of the card for so many streams, a power of two: SRAM, winners, bursts.
///
/// All streams' arrivals together, in SRAM or offered, are at most 2¹³, a quarter of the times that
/// can be told apart.
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

/// Arrivals of a stream in SRAM.
pub(crate) fn depth(streams: usize) -> usize {
    (4096 / streams).min(DEPTH_AT_MOST)
}

/// The same, at most.
const DEPTH_AT_MOST: usize = 512;

/// Winners that the card decides ahead of the host: what comes later waits for them.
pub(crate) const WINNERS: usize = 16;

/// Runs the card with the packets of `arrivals` until all have left. `transmission_ns` says how long
/// a packet of so many bytes occupies the link.
///
/// # Errors
/// If there is no card, it cannot hold a contract, an arrival cannot be read, the listener fails, or
/// the card's numbers do not suffice; what happened before has been told.
///
/// # Panics
/// If a thread panics.
pub fn run<T: Send, E: Send>(
    options: &Options,
    contracts: &[Contract],
    arrivals: impl Iterator<Item = Result<Arrival<T>, E>> + Send,
    transmission_ns: impl Fn(u32) -> u64,
    listener: &mut impl Listener<T>,
    watch: &mut (impl Watch + Send),
) -> Result<End, EndSystemError<E>> {
    let streams = contracts.len();
    if streams > 64 {
        return Err(RtlError::TooMany(streams).into());
    }
    let places = streams.next_power_of_two().max(2);
    let parameters = parameters(places);
    let library = build::library(&Design::end_system(parameters)).map_err(RtlError::from)?;
    let card = Card::load(&library).map_err(BuildError::from).map_err(RtlError::from)?;

    let (to_card, from_manager) = ring::ring(4096);
    let (to_engine, from_card) = ring::ring(4096);
    let (to_timeline, from_engine) = ring::ring(2);
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
            timeline.run(from_manager, to_engine, from_engine, watch).map(|()| timeline.cost())
        });
        let sent = engine::run(streams, from_card, to_timeline, &transmission_ns, listener);
        let cost = timeline.join().expect("the timeline does not panic");
        manager.join().expect("sources do not panic")?;
        let sent = sent.map_err(EndSystemError::Output)?;
        let cost = cost.map_err(EndSystemError::Trouble)?;
        Ok(End { end_ns: sent.end_ns, waiting: sent.waiting, cost })
    })
}
