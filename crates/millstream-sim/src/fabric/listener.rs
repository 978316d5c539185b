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

/// Is told what happens in a fabric.
pub trait FabricListener {
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
