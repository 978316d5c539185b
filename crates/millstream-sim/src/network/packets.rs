//! The packets in a network.

use millstream::flow_queue::Flow;
use millstream_scenario::Direction;
use millstream_traffic::FrameBytes;

use super::adaptive::Report;
use super::receiver::Ack;

/// What a packet carries.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// A packet of a source that does not react.
    Unanswered,
    /// The first packet of a connection's transfer, and its answer.
    Syn { sent_ns: u64 },
    /// See [`Syn`](Self::Syn).
    SynAck { sent_ns: u64 },
    /// The first packet of a client's connection, and its answer, sent at `answered_ns`.
    Open { sent_ns: u64 },
    /// See [`Open`](Self::Open).
    Opened { sent_ns: u64, answered_ns: u64 },
    /// The request of an object that ends before packet `end`. The first one of a connection has
    /// the time when the server answered the handshake, ns.
    Get { end: u32, answered_ns: Option<u64> },
    /// A packet of a connection's data.
    Data { number: u32, sent_ns: u64 },
    /// An acknowledgement.
    Ack(Ack),
    /// A packet of adaptive video, and the report of its receiver.
    Media { number: u64, sent_ns: u64 },
    /// See [`Media`](Self::Media).
    Report(Report),
    /// A request of an echo source, and its answer.
    Request { sent_ns: u64 },
    /// See [`Request`](Self::Request).
    Answer { sent_ns: u64 },
}

impl Content {
    /// Returns whether it goes back from the receiver of the stream's data.
    pub(super) fn is_back(&self) -> bool {
        matches!(
            self,
            Self::SynAck { .. }
                | Self::Open { .. }
                | Self::Get { .. }
                | Self::Ack(_)
                | Self::Answer { .. }
                | Self::Report(_)
        )
    }
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    /// The stream of its source or, on the way back, of the packet that it answers.
    pub(super) stream: u32,
    /// The connection of the network, and its transfer; 0 without one.
    pub(super) connection: u32,
    /// See `connection`.
    pub(super) transfer: u32,
    pub(super) direction: Direction,
    /// The links of its direction that it has passed.
    pub(super) passed: u16,
    pub(super) bytes: u32,
    pub(super) flow: Flow,
    /// Its number among the stream's packets; `None` for acknowledgements and answers, which do not
    /// count as the stream's.
    pub(super) number: Option<u64>,
    /// When it came to the first link, and to the present one, ns.
    pub(super) entered_ns: u64,
    /// See `entered_ns`.
    pub(super) queued_ns: u64,
    pub(super) content: Content,
    pub(super) frame: Option<Box<FrameBytes>>,
}
