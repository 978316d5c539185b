//! Listeners that observe a fabric, and the events they receive.

use super::traffic::Injection;

/// A packet that has reached its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Arrival time of the last byte, ns.
    pub time_ns: u64,
    /// Injection time, ns.
    pub injected_ns: u64,
    /// Service class of the packet.
    pub class: u8,
    /// Source end-point.
    pub source: u32,
    /// Destination end-point.
    pub destination: u32,
    /// Connection number at the source.
    pub connection: u32,
    /// Packet length, bytes.
    pub bytes: u32,
}

/// A packet in transit and its current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStep {
    /// Identifies the packet among those in transit.
    pub packet: u64,
    /// Injection time, ns.
    pub injected_ns: u64,
    /// Service class of the packet.
    pub class: u8,
    /// Source end-point.
    pub source: u32,
    /// Destination end-point.
    pub destination: u32,
    /// Connection number at the source.
    pub connection: u32,
    /// Packet length, bytes.
    pub bytes: u32,
    /// The step that the packet takes.
    pub step: Step,
}

/// A step of a packet through the fabric.
///
/// Link numbers index [`Topology::links`](super::topology::Topology::links); times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Injection: the packet starts to wait at an end-point for its first link.
    Injected {
        /// The link out of the end-point.
        link: u32,
    },
    /// The packet starts to wait at an output behind an ideal crossbar, at `time_ns`.
    Queued {
        /// The link that the packet waits for.
        link: u32,
        /// Start of the wait, ns.
        time_ns: u64,
    },
    /// The packet crosses a switch; it waits for link `onto` from the start of the transfer.
    Crossed {
        /// The link that the packet arrived on.
        from: u32,
        /// The channel that the packet arrived on; the end of the transfer frees its credits.
        channel: u8,
        /// The link that the packet departs on.
        onto: u32,
        /// Start of the transfer, ns.
        begins_ns: u64,
        /// End of the transfer, ns.
        ends_ns: u64,
    },
    /// The packet is transmitted. Reported when transmission begins or, on links without
    /// decisions, as soon as the start time is known.
    Sent {
        /// The link of the transmission.
        link: u32,
        /// The packet's channel on the link.
        channel: u8,
        /// Start of the transmission, ns.
        begins_ns: u64,
        /// End of the transmission, ns.
        ends_ns: u64,
        /// Time at which the packet may cross the switch behind the link, or at which its last byte
        /// reaches the destination, ns. Under cut-through it may precede the arrival of the last
        /// byte.
        ready_ns: u64,
        /// Whether this is the last link of the packet's path.
        last: bool,
    },
}

/// An observer of a fabric simulation.
pub trait FabricListener {
    /// Whether [`on_step`](Self::on_step) is called; `false` removes the cost of reporting steps.
    const STEPS: bool = false;

    /// Called for each step of a packet, in the order of [`Simulation`](super::Simulation)'s
    /// instants.
    fn on_step(&mut self, packet_step: &PacketStep) {
        let _ = packet_step;
    }

    /// Called when an end-point's application injects a packet.
    fn injected(&mut self, source: u32, injection: &Injection) {
        let _ = (source, injection);
    }

    /// Called when a packet's last transmission begins; the packet arrives at `delivery.time_ns`.
    fn delivered(&mut self, delivery: &Delivery) {
        let _ = delivery;
    }
}

impl FabricListener for () {}

/// Forwards every event to both listeners.
impl<A: FabricListener, B: FabricListener> FabricListener for (A, B) {
    const STEPS: bool = A::STEPS || B::STEPS;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        self.0.on_step(packet_step);
        self.1.on_step(packet_step);
    }

    #[inline]
    fn injected(&mut self, source: u32, injection: &Injection) {
        self.0.injected(source, injection);
        self.1.injected(source, injection);
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        self.0.delivered(delivery);
        self.1.delivered(delivery);
    }
}

/// Forwards every event to the listener, if there is one.
impl<A: FabricListener> FabricListener for Option<A> {
    const STEPS: bool = A::STEPS;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        if let Some(listener) = self {
            listener.on_step(packet_step);
        }
    }

    #[inline]
    fn injected(&mut self, source: u32, injection: &Injection) {
        if let Some(listener) = self {
            listener.injected(source, injection);
        }
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        if let Some(listener) = self {
            listener.delivered(delivery);
        }
    }
}

impl<A: FabricListener + ?Sized> FabricListener for &mut A {
    const STEPS: bool = A::STEPS;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        (**self).on_step(packet_step);
    }

    #[inline]
    fn injected(&mut self, source: u32, injection: &Injection) {
        (**self).injected(source, injection);
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        (**self).delivered(delivery);
    }
}
