//! The calls of a listener by the partitions of a fabric, and their common order.
//!
//! Calls are in order of instant, phase and place. A place belongs to one partition, so the order
//! does not depend on the division. A partition logs its calls; [`replay`] merges the logs.

use std::iter::Peekable;
use std::vec::Drain;

use crate::fabric::listener::{Delivery, FabricListener, PacketStep};
use crate::fabric::traffic::Injection;

/// A phase of an instant in which a listener is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Packets arrive at outputs, by link.
    Arrival,
    /// End-points inject, by number.
    Injection,
    /// Crossbars arbitrate, by switch.
    Arbitration,
    /// Links decide, by number.
    Decision,
}

/// The calls of a [`FabricListener`], through which the code of a run is not generic over its type:
/// it is compiled, and optimised, in this crate only.
pub(super) trait Calls {
    fn on_step(&mut self, packet_step: &PacketStep);
    fn injected(&mut self, source: u32, injection: &Injection);
    fn delivered(&mut self, delivery: &Delivery);
}

impl<L: FabricListener> Calls for L {
    fn on_step(&mut self, packet_step: &PacketStep) {
        FabricListener::on_step(self, packet_step);
    }

    fn injected(&mut self, source: u32, injection: &Injection) {
        FabricListener::injected(self, source, injection);
    }

    fn delivered(&mut self, delivery: &Delivery) {
        FabricListener::delivered(self, delivery);
    }
}

/// Receives the calls of a partition, and their places.
pub(super) trait Sink: Calls {
    /// Whether the listener asks for steps.
    const STEPS: bool;

    /// Sets instant, phase and place of the calls that follow.
    fn at(&mut self, time_ns: u64, phase: Phase, place: u32);
}

/// Calls a listener at once.
pub(super) struct Direct<'a, const STEPS: bool>(pub(super) &'a mut dyn Calls);

impl<const STEPS: bool> Sink for Direct<'_, STEPS> {
    const STEPS: bool = STEPS;

    #[inline]
    fn at(&mut self, _: u64, _: Phase, _: u32) {}
}

impl<const STEPS: bool> Calls for Direct<'_, STEPS> {
    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        self.0.on_step(packet_step);
    }

    #[inline]
    fn injected(&mut self, source: u32, injection: &Injection) {
        self.0.injected(source, injection);
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        self.0.delivered(delivery);
    }
}

type Position = (u64, Phase, u32);

#[derive(Clone, Copy, Debug)]
enum Call {
    Injected,
    Delivered,
    Step,
}

/// Calls of a listener in their order. The kinds are apart since their sizes differ.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: Vec<(Position, Call)>,
    injections: Vec<(u32, Injection)>,
    deliveries: Vec<Delivery>,
    steps: Vec<PacketStep>,
}

/// Logs the calls.
pub(super) struct Logger<'a, const STEPS: bool> {
    log: &'a mut Log,
    position: Position,
}

impl<'a, const STEPS: bool> Logger<'a, STEPS> {
    pub(super) fn new(log: &'a mut Log) -> Self {
        Self { log, position: (0, Phase::Arrival, 0) }
    }
}

impl<const STEPS: bool> Sink for Logger<'_, STEPS> {
    const STEPS: bool = STEPS;

    #[inline]
    fn at(&mut self, time_ns: u64, phase: Phase, place: u32) {
        self.position = (time_ns, phase, place);
    }
}

impl<const STEPS: bool> Calls for Logger<'_, STEPS> {
    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        self.log.calls.push((self.position, Call::Step));
        self.log.steps.push(*packet_step);
    }

    #[inline]
    fn injected(&mut self, source: u32, injection: &Injection) {
        self.log.calls.push((self.position, Call::Injected));
        self.log.injections.push((source, *injection));
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        self.log.calls.push((self.position, Call::Delivered));
        self.log.deliveries.push(*delivery);
    }
}

/// The calls of a log that are not replayed yet.
struct Rest<'a> {
    calls: Peekable<Drain<'a, (Position, Call)>>,
    injections: Drain<'a, (u32, Injection)>,
    deliveries: Drain<'a, Delivery>,
    steps: Drain<'a, PacketStep>,
}

impl Rest<'_> {
    fn position(&mut self) -> Option<Position> {
        self.calls.peek().map(|(position, _)| *position)
    }
}

/// Calls `listener` in the common order of all logs, and empties them.
pub(super) fn replay<'a>(logs: impl Iterator<Item = &'a mut Log>, listener: &mut dyn Calls) {
    let mut rests: Vec<Rest<'_>> = logs
        .map(|log| Rest {
            calls: log.calls.drain(..).peekable(),
            injections: log.injections.drain(..),
            deliveries: log.deliveries.drain(..),
            steps: log.steps.drain(..),
        })
        .collect();
    let mut heads: Vec<Option<Position>> = rests.iter_mut().map(Rest::position).collect();
    loop {
        let first = (0..).zip(&heads).filter_map(|(log, head)| Some(((*head)?, log))).min();
        let Some((position, log)) = first else { break };
        let rest: &mut Rest<'_> = &mut rests[log];
        while let Some((_, call)) = rest.calls.next_if(|(next, _)| *next == position) {
            match call {
                Call::Injected => {
                    let (source, injection) = rest.injections.next().expect("a logged injection");
                    listener.injected(source, &injection);
                }
                Call::Delivered => {
                    listener.delivered(&rest.deliveries.next().expect("a logged delivery"));
                }
                Call::Step => listener.on_step(&rest.steps.next().expect("a logged step")),
            }
        }
        heads[log] = rest.position();
    }
}
