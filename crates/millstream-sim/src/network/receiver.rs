//! The receiver of a TCP connection: it acknowledges cumulatively and selectively (RFC 2018).

use millstream_scenario::Tcp;

use super::ranges::Ranges;

/// The longest that an acknowledgement waits for another packet, ns.
pub(super) const DELAY_NS: u64 = 40_000_000;

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// All packets below this number were received.
    pub(super) cumulative: u32,
    /// Further packets that were received, `from..to`; the first has the packet that caused it.
    /// Empty ranges are absent.
    pub(super) blocks: [(u32, u32); 3],
    /// The time at which the first packet that it acknowledges was sent, ns (RFC 7323).
    pub(super) echo_ns: u64,
    /// The marked packets received since the start (as accurate ECN reports them).
    pub(super) marks: u32,
}

impl Ack {
    /// Returns its length, bytes: IPv4, TCP with timestamps, and the SACK option.
    pub(super) fn bytes(&self) -> u32 {
        let blocks: u32 = self.blocks.iter().map(|block| u32::from(block.0 < block.1)).sum();
        Tcp::HEADER_BYTES + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }
}

/// The receiver of one connection.
#[derive(Debug)]
pub(super) struct Receiver {
    ack_every: u32,
    /// The next packet in order.
    expected: u32,
    /// The packets received beyond it.
    beyond: Ranges,
    /// A packet of each recently reported block, the latest first.
    recent: [u32; 3],
    marks: u32,
    /// The sending time of the first packet not acknowledged yet, or of the last in order, ns.
    echo_ns: u64,
    /// The packets in order that are not acknowledged yet.
    unacknowledged: u32,
    /// When they are acknowledged at the latest, ns.
    due_ns: u64,
    /// Whether the last acknowledged packet was marked: a change is reported at once (RFC 8257).
    marked: bool,
}

impl Receiver {
    /// Returns the receiver of a new connection.
    pub(super) fn new(ack_every: u32) -> Self {
        Self {
            ack_every,
            expected: 0,
            beyond: Ranges::default(),
            recent: [0; 3],
            marks: 0,
            echo_ns: 0,
            unacknowledged: 0,
            due_ns: u64::MAX,
            marked: false,
        }
    }

    /// Returns the number of different packets received.
    pub(super) fn received(&self) -> u32 {
        self.expected + self.beyond.count()
    }

    /// Returns the next packet in order.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// Returns whether packets in order are not acknowledged yet.
    pub(super) fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Receives a packet that was sent at `sent_ns`; returns an acknowledgement that is due.
    pub(super) fn receive(
        &mut self,
        number: u32,
        sent_ns: u64,
        marked: bool,
        now_ns: u64,
    ) -> Option<Ack> {
        self.marks += u32::from(marked);
        if number != self.expected {
            if number > self.expected && self.beyond.insert(number, number + 1) > 0 {
                self.recent = [number, self.recent[0], self.recent[1]];
            }
            return Some(self.acknowledge());
        }
        if self.unacknowledged == 0 {
            self.echo_ns = sent_ns;
            self.due_ns = now_ns + DELAY_NS;
        }
        self.expected = self.beyond.first_gap(number + 1);
        let filled = self.beyond.remove_below(self.expected) > 0;
        self.unacknowledged += 1;
        let changed = marked != self.marked;
        self.marked = marked;
        let has_gap = self.beyond.count() > 0;
        let is_due = self.unacknowledged >= self.ack_every || filled || has_gap || changed;
        is_due.then(|| self.acknowledge())
    }

    /// Returns when an acknowledgement is due; `u64::MAX`: none waits.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Returns the acknowledgement of everything received.
    pub(super) fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.due_ns = u64::MAX;
        let mut blocks = [(0, 0); 3];
        let mut count = 0;
        if self.beyond.count() > 0 {
            for number in self.recent {
                let Some(block) = self.beyond.containing(number) else { continue };
                if !blocks[..count].contains(&block) {
                    blocks[count] = block;
                    count += 1;
                }
            }
        }
        Ack { cumulative: self.expected, blocks, echo_ns: self.echo_ns, marks: self.marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_packet_in_order_is_acknowledged() {
        let mut receiver = Receiver::new(2);
        assert_eq!(receiver.receive(0, 10, false, 100), None);
        assert_eq!(receiver.due_ns(), 100 + DELAY_NS);
        let ack = receiver.receive(1, 20, false, 200).unwrap();
        assert_eq!((ack.cumulative, ack.echo_ns, ack.bytes()), (2, 10, 52));
        assert_eq!(receiver.due_ns(), u64::MAX);
    }

    #[test]
    fn a_gap_is_reported_at_once_with_the_latest_block_first() {
        let mut receiver = Receiver::new(2);
        receiver.receive(0, 10, false, 100);
        let ack = receiver.receive(2, 30, false, 300).unwrap();
        assert_eq!((ack.cumulative, ack.blocks), (1, [(2, 3), (0, 0), (0, 0)]));
        let ack = receiver.receive(5, 60, false, 600).unwrap();
        assert_eq!(ack.blocks, [(5, 6), (2, 3), (0, 0)]);
        let ack = receiver.receive(3, 70, false, 700).unwrap();
        assert_eq!((ack.blocks, ack.bytes()), ([(2, 4), (5, 6), (0, 0)], 72));
        // The retransmission fills the first gap: its own time is echoed.
        let ack = receiver.receive(1, 80, false, 800).unwrap();
        assert_eq!((ack.cumulative, ack.blocks[0], ack.echo_ns), (4, (5, 6), 80));
    }

    #[test]
    fn marks_are_counted_and_a_change_is_acknowledged_at_once() {
        let mut receiver = Receiver::new(2);
        assert_eq!(receiver.receive(0, 0, true, 0).map(|ack| ack.marks), Some(1));
        assert_eq!(receiver.receive(1, 0, true, 0), None);
        assert_eq!(receiver.receive(2, 0, true, 0).map(|ack| ack.marks), Some(3));
        assert_eq!(receiver.receive(3, 0, false, 0).map(|ack| ack.marks), Some(3));
    }
}
