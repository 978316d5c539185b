//! The streams' records: window state, counters and queue limits.

use alloc::vec::Vec;

use crate::contract::{Contract, ContractError};
use crate::discipline::{Discipline, Dwcs, DwcsOptions, DwcsState, EdfFirst, Head};
use crate::packet::StreamId;

/// A stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// x'/y', and the deadline of the last arrival.
    state: DwcsState,
    arrivals: u64,
    waiting: u32,
    limit: u32,
}

/// An arrival, as its stream counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The packet's number in its stream.
    pub(super) packet: u64,
    /// Whether the stream's queue is full.
    pub(super) is_full: bool,
}

/// Every stream, and the rules that change them.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    rules: Dwcs<EdfFirst>,
    streams: Vec<Stream>,
}

impl Streams {
    pub(super) fn new(options: DwcsOptions) -> Self {
        Self { rules: Dwcs::new(options), streams: Vec::new() }
    }

    pub(super) fn add(&mut self, contract: &Contract) -> Result<(), ContractError> {
        let state = self.rules.admit(contract)?;
        let limit = contract.queue.unwrap_or(u32::MAX);
        self.streams.push(Stream { state, arrivals: 0, waiting: 0, limit });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns how many packets of `stream` wait.
    pub(super) fn waiting(&self, stream: StreamId) -> u32 {
        self.streams[stream.index()].waiting
    }

    /// Counts an arrival.
    #[inline]
    pub(super) fn arrived(&mut self, stream: StreamId) -> Arrival {
        let stream = &mut self.streams[stream.index()];
        let packet = stream.arrivals;
        stream.arrivals += 1;
        Arrival { packet, is_full: stream.waiting >= stream.limit }
    }

    /// Returns the state and the deadline that the packet `head` gives its stream if it is
    /// [`admitted`](Self::admitted).
    #[inline]
    pub(super) fn requested(&mut self, stream: StreamId, head: Head) -> (DwcsState, u64) {
        let mut state = self.streams[stream.index()].state;
        self.rules.became_head(&mut state, head);
        (state, self.rules.deadline_ns(&state).unwrap_or(u64::MAX))
    }

    /// Counts a packet that waits from now on.
    #[inline]
    pub(super) fn admitted(&mut self, stream: StreamId, state: DwcsState) {
        let stream = &mut self.streams[stream.index()];
        stream.state = state;
        stream.waiting += 1;
    }

    /// Applies rule B to the stream of a late packet; returns the violations.
    #[inline]
    pub(super) fn missed(&mut self, stream: StreamId, now_ns: u64) -> u64 {
        self.rules.expired(&mut self.streams[stream.index()].state, now_ns).violations
    }

    /// Applies rule A to the stream of a packet that is sent.
    #[inline]
    pub(super) fn served(&mut self, stream: StreamId, packet: Head, now_ns: u64) {
        self.rules.served(&mut self.streams[stream.index()].state, stream, packet, now_ns);
    }

    /// Counts a packet that waits no longer.
    #[inline]
    pub(super) fn departed(&mut self, stream: StreamId) {
        self.streams[stream.index()].waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Late, Window};

    #[test]
    fn a_deadline_follows_the_last_admitted_packet_and_the_window_its_fate() {
        let mut streams = Streams::new(DwcsOptions::default());
        let contract = Contract::new().period_ns(10).unwrap().late(Late::Drop).queue(2);
        streams.add(&contract.window(Window::new(1, 3).unwrap())).unwrap();
        let stream = StreamId(0);
        let head = |arrival_ns| Head { arrival_ns, bytes: 1 };
        let counted = |streams: &mut Streams| {
            let Arrival { packet, is_full } = streams.arrived(stream);
            (packet, is_full)
        };
        assert_eq!(counted(&mut streams), (0, false));
        assert_eq!(streams.requested(stream, head(5)).1, 15, "not yet admitted");
        let (state, deadline_ns) = streams.requested(stream, head(6));
        assert_eq!((deadline_ns, state.window()), (16, (1, 3)));
        streams.admitted(stream, state);
        let (state, deadline_ns) = streams.requested(stream, head(7));
        assert_eq!((deadline_ns, streams.waiting(stream)), (26, 1));
        streams.admitted(stream, state);
        assert_eq!((counted(&mut streams), streams.waiting(stream)), ((1, true), 2));
        streams.departed(stream);
        assert_eq!((counted(&mut streams), streams.waiting(stream)), ((2, false), 1));

        let window = |streams: &mut Streams| streams.requested(stream, head(7)).0.window();
        assert_eq!((streams.missed(stream, 30), window(&mut streams)), (0, (0, 2)));
        assert_eq!((streams.missed(stream, 30), window(&mut streams)), (1, (0, 3)));
        // The service after a violation restores the window.
        streams.served(stream, head(7), 30);
        assert_eq!(window(&mut streams), (1, 3));
        assert_eq!(streams.len(), 1);
    }
}
