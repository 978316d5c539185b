//! Runs the end-system of a scenario file.

use millstream::{Contract, Rules, ZeroWindow};
use millstream_scenario::{EndSystem, Scenario};
use millstream_traffic::{Feed, FrameBytes, TrafficError};

use super::{Arrival, Bus, End, EndSystemError, Listener, Options};
use crate::{Mode, Settings};

/// The payload of an arrival: its captured frame, if the feed keeps frames.
pub type Frame = Option<Box<FrameBytes>>;

/// Returns the hardware's settings, and the contracts adapted to them.
#[must_use]
pub fn settings(scenario: &Scenario) -> (Settings, Vec<Contract>) {
    let options = scenario.scheduler.options.dwcs;
    let name = scenario.scheduler.discipline.name;
    let settings = Settings {
        mode: match name {
            "dwcs" => Mode::Dwcs,
            "edf" => Mode::Edf,
            _ => Mode::Static,
        },
        lowest_denominator: options.zero_window == ZeroWindow::LowestDenominator,
        rtas99: options.rules == Rules::Rtas99,
    };
    // FIFO: all streams have the same priority.
    let level = |contract: Contract| if name == "fifo" { contract.priority(0) } else { contract };
    let contracts = scenario.streams.iter().map(|stream| level(stream.contract.clone())).collect();
    (settings, contracts)
}

/// Runs `scenario` on `card` with the packets of `feed`.
///
/// # Errors
/// See [`super::run`].
///
/// # Panics
/// Panics if the scenario names an unknown bus, which validation rejects.
pub fn run(
    scenario: &Scenario,
    card: &EndSystem,
    feed: &mut dyn Feed,
    listener: &mut impl Listener<Frame>,
) -> Result<End, EndSystemError<TrafficError>> {
    let (settings, contracts) = settings(scenario);
    let options = Options {
        settings,
        bus: Bus::named(card.bus).expect("validation rejects unknown buses"),
        clock_hz: card.clock_hz,
        packet_time_ns: card.packet_time_ns,
    };
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let mut ended = false;
    let arrivals = std::iter::from_fn(|| {
        if ended {
            return None;
        }
        let next = feed.next_arrival().transpose()?;
        ended = next.as_ref().map_or(true, |arrival| arrival.time_ns >= until_ns);
        match next {
            Ok(_) if ended => None,
            next => Some(next.map(|arrival| Arrival {
                time_ns: arrival.time_ns,
                stream: arrival.stream,
                bytes: arrival.bytes,
                payload: arrival.frame,
            })),
        }
    });
    let transmission_ns = |bytes| scenario.link.transmission_ns(bytes);
    super::run(&options, &contracts, arrivals, transmission_ns, listener, &mut ())
}
