//! Who is told what happens in a fabric.

use super::traffic::Injection;

/// A packet that has reached its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its last byte arrived, ns.
    pub time_ns: u64,
    /// When it was injected, ns.
    pub injected_ns: u64,
    /// Its service class.
    pub class: u8,
    /// Where it was injected.
    pub source: u32,
    /// Where it is.
    pub destination: u32,
    /// Its connection's number at its source.
    pub connection: u32,
    /// Its length, bytes.
    pub bytes: u32,
}

/// A packet on its way, and what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its place: another packet's once it has been delivered.
    pub packet: u32,
    /// When it was injected, ns.
    pub injected_ns: u64,
    /// Its service class.
    pub class: u8,
    /// Where it was injected.
    pub source: u32,
    /// Where it is going.
    pub destination: u32,
    /// Its connection's number at its source.
    pub connection: u32,
    /// Its length, bytes.
    pub bytes: u32,
    /// What happens.
    pub step: Step,
}

/// What happens to a packet. Links are numbered as in
/// [`Topology::links`](super::topology::Topology::links), times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits at an end-point for its first link from now on, its injection.
    Injected {
        /// The end-point's link.
        link: u32,
    },
    /// It waits at an output, behind an ideal crossbar, for `link` from `time_ns` on.
    Queued {
        /// The link that it waits for.
        link: u32,
        /// Since when.
        time_ns: u64,
    },
    /// It crosses a switch, and waits for link `onto` from the beginning of its transfer on.
    Crossed {
        /// The link that it came by.
        from: u32,
        /// The channel that it came on, whose room it leaves at the end.
        channel: u8,
        /// The link that it is to leave by.
        onto: u32,
        /// When its transfer begins.
        begins_ns: u64,
        /// When its transfer ends.
        ends_ns: u64,
    },
    /// It is transmitted. Told when its transmission begins, or, on links that do not decide, as
    /// soon as that is known.
    Sent {
        /// The link.
        link: u32,
        /// The channel.
        channel: u8,
        /// When its transmission begins.
        begins_ns: u64,
        /// When its transmission ends.
        ends_ns: u64,
        /// When it may cross the switch behind the link (under cut-through, long before all of it
        /// is there), or its last byte reaches its destination.
        through_ns: u64,
        /// Whether the link is its last.
        last: bool,
    },
}

/// Is told what happens in a fabric.
pub trait FabricListener {
    /// Whether it is told of every packet's steps; nothing is spent on them if not.
    const STEPS: bool = false;

    /// Something happens to a packet. Told in the order of [`Simulation`](super::Simulation)'s
    /// instants.
    fn passed(&mut self, passage: &Passage) {
        let _ = passage;
    }

    /// An end-point's application has injected a packet.
    fn injected(&mut self, source: u32, injection: &Injection) {
        let _ = (source, injection);
    }

    /// A packet's last transmission has begun; it arrives at `delivery.time_ns`. At one instant in
    /// no particular order.
    fn delivered(&mut self, delivery: &Delivery) {
        let _ = delivery;
    }
}

impl FabricListener for () {}

/// Both are told.
impl<A: FabricListener, B: FabricListener> FabricListener for (A, B) {
    const STEPS: bool = A::STEPS || B::STEPS;

    #[inline]
    fn passed(&mut self, passage: &Passage) {
        self.0.passed(passage);
        self.1.passed(passage);
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

/// Whoever is there is told.
impl<A: FabricListener> FabricListener for Option<A> {
    const STEPS: bool = A::STEPS;

    #[inline]
    fn passed(&mut self, passage: &Passage) {
        if let Some(listener) = self {
            listener.passed(passage);
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
    fn passed(&mut self, passage: &Passage) {
        (**self).passed(passage);
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
