//! Detection of lost packets by the order in which they were sent (RACK: RFC 8985, section 6).
//!
//! A packet is lost if one that was sent after it has arrived, and the reordering window has passed
//! since. Transmissions have numbers, because several may have the same time. Packets of a
//! connection keep their order, so no reordering is seen: the reordering window does not grow.

use std::collections::VecDeque;

use super::ranges::Ranges;

/// A packet that is not known to be in flight has no transmission.
const NONE: u64 = u64::MAX;

/// The transmissions of a connection.
#[derive(Debug)]
pub(super) struct Rack {
    /// Those that may be in flight, in the order of sending.
    sent: VecDeque<Transmission>,
    /// The number of the first of these.
    first: u64,
    /// The first packet that is not acknowledged.
    una: u32,
    /// The number of the last transmission of each packet from `una` on.
    last: VecDeque<u64>,
    /// The number after that of the latest transmission that has arrived.
    arrived: u64,
    /// The round-trip time of that transmission, and the shortest one, ns.
    rtt_ns: u64,
    least_rtt_ns: u64,
    /// When the reordering window ends; `u64::MAX`: no packet waits for it.
    timer_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    packet: u32,
    is_again: bool,
    sent_ns: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent: VecDeque::new(),
            first: 0,
            una: 0,
            last: VecDeque::new(),
            arrived: 0,
            rtt_ns: 0,
            least_rtt_ns: u64::MAX,
            timer_ns: u64::MAX,
        }
    }
}

impl Rack {
    /// Adds a sample of the round-trip time.
    pub(super) fn add(&mut self, rtt_ns: u64) {
        self.least_rtt_ns = self.least_rtt_ns.min(rtt_ns);
    }

    /// Notes that `packet` is sent, perhaps again.
    pub(super) fn sent(&mut self, packet: u32, now_ns: u64) {
        let number = self.first + self.sent.len() as u64;
        let last = self.last.get_mut((packet - self.una) as usize);
        self.sent.push_back(Transmission { packet, is_again: last.is_some(), sent_ns: now_ns });
        match last {
            Some(last) => *last = number,
            None => self.last.push_back(number),
        }
    }

    /// Notes that `packet` is newly acknowledged. A retransmission has not arrived if the time that
    /// a cumulative acknowledgement echoes is earlier than its own, or if it would have been faster
    /// than any packet (section 6.2, step 2). A selective one echoes that of another packet.
    pub(super) fn delivered(&mut self, packet: u32, echo_ns: Option<u64>, now_ns: u64) {
        let Some(number) = self.last.get((packet - self.una) as usize).copied() else { return };
        if number == NONE || number < self.arrived.max(self.first) {
            return;
        }
        #[allow(clippy::cast_possible_truncation)]
        let Some(of) = self.sent.get((number - self.first) as usize) else { return };
        let rtt_ns = now_ns.saturating_sub(of.sent_ns);
        let is_earlier = echo_ns.is_some_and(|echo_ns| echo_ns < of.sent_ns);
        if of.is_again && (is_earlier || rtt_ns < self.least_rtt_ns) {
            return;
        }
        self.arrived = number + 1;
        self.rtt_ns = rtt_ns;
    }

    /// Forgets the packets below `una`.
    pub(super) fn acknowledged(&mut self, una: u32) {
        let count = (una.saturating_sub(self.una) as usize).min(self.last.len());
        self.last.drain(..count);
        self.una = una;
    }

    /// Returns the reordering window, ns, while no reordering is seen: nothing if it is sure that a
    /// packet is lost, otherwise a quarter of the shortest round trip.
    pub(super) fn window_ns(&self, is_sure: bool, smoothed_rtt_ns: u64) -> u64 {
        if is_sure { 0 } else { (self.least_rtt_ns / 4).min(smoothed_rtt_ns) }
    }

    /// Returns a packet that is lost because a later transmission has arrived, and forgets that it
    /// is in flight. To be called until it returns `None`; that call sets the timer.
    pub(super) fn next_lost(
        &mut self,
        sacked: &Ranges,
        window_ns: u64,
        now_ns: u64,
    ) -> Option<u32> {
        self.timer_ns = u64::MAX;
        let lost = self.next_overdue(self.arrived, sacked, window_ns, now_ns);
        if lost.is_none() && self.first < self.arrived {
            // One timer, for the last packet (section 6.2, step 5).
            #[allow(clippy::cast_possible_truncation)]
            let count = (self.arrived - self.first) as usize;
            let waiting = (0..count).rev().find(|at| self.is_waiting(*at, sacked));
            let sent_ns = waiting.map(|at| self.sent[at].sent_ns);
            self.timer_ns = sent_ns.map_or(u64::MAX, |sent_ns| sent_ns + self.rtt_ns + window_ns);
        }
        lost
    }

    /// Returns a packet that is lost at a timeout, and forgets that it is in flight: the first one,
    /// then those sent a round trip and the reordering window ago (section 6.3). To be called until
    /// it returns `None`.
    pub(super) fn next_timed_out(
        &mut self,
        sacked: &Ranges,
        window_ns: u64,
        now_ns: u64,
    ) -> Option<u32> {
        self.timer_ns = u64::MAX;
        let is_first = |number: &u64| *number != NONE && *number >= self.first;
        if self.last.front().is_some_and(is_first) {
            self.last[0] = NONE;
            return Some(self.una);
        }
        self.next_overdue(u64::MAX, sacked, window_ns, now_ns)
    }

    fn next_overdue(
        &mut self,
        end: u64,
        sacked: &Ranges,
        window_ns: u64,
        now_ns: u64,
    ) -> Option<u32> {
        while self.first < end {
            let of = *self.sent.front()?;
            let is_waiting = self.is_waiting(0, sacked);
            if is_waiting && of.sent_ns + self.rtt_ns + window_ns > now_ns {
                return None;
            }
            self.sent.pop_front();
            self.first += 1;
            if is_waiting {
                return Some(of.packet);
            }
        }
        None
    }

    /// Returns whether the transmission at a place of `sent` may be in flight: its packet has not
    /// arrived, and was not sent again.
    fn is_waiting(&self, at: usize, sacked: &Ranges) -> bool {
        let packet = self.sent[at].packet;
        let Some(at_last) = packet.checked_sub(self.una) else { return false };
        self.last.get(at_last as usize) == Some(&(self.first + at as u64))
            && sacked.containing(packet).is_none()
    }

    /// Returns when [`next_lost`](Self::next_lost) must be called if no acknowledgement comes;
    /// `u64::MAX`: never.
    pub(super) fn timer_ns(&self) -> u64 {
        self.timer_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the packets that are lost at `now_ns`.
    fn lost(rack: &mut Rack, sacked: &Ranges, window_ns: u64, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| rack.next_lost(sacked, window_ns, now_ns)).collect()
    }

    /// Sends packets 0 to 9, one a millisecond from 0 on; the shortest round trip is 40 ms.
    fn ten_packets() -> Rack {
        let mut rack = Rack::default();
        rack.add(40 * MS);
        (0..10).for_each(|packet| rack.sent(packet, u64::from(packet) * MS));
        rack
    }

    #[test]
    fn packets_are_lost_a_quarter_of_a_round_trip_after_a_later_one() {
        let (mut rack, mut sacked) = (ten_packets(), Ranges::default());
        assert_eq!(rack.window_ns(false, 50 * MS), 10 * MS);
        rack.delivered(7, None, 47 * MS);
        sacked.insert(7, 8);
        // Packet 0 left 47 ms ago, packet 6 41 ms ago: each is due after 50 ms.
        assert!(lost(&mut rack, &sacked, 10 * MS, 47 * MS).is_empty());
        assert_eq!(rack.timer_ns(), 56 * MS);
        assert_eq!(lost(&mut rack, &sacked, 10 * MS, 56 * MS), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(rack.timer_ns(), u64::MAX);
        assert!(lost(&mut rack, &sacked, 0, 500 * MS).is_empty(), "8 and 9 were sent later");
    }

    /// Packet 2 is sent again at 60 ms, packet 10 after it: the arrival of 10 shows that 2 is lost
    /// again. An acknowledgement that echoes an earlier time, or comes 20 ms after it, is that of
    /// the first transmission.
    #[test]
    fn a_retransmission_is_lost_if_a_later_packet_arrives() {
        let (mut rack, mut sacked) = (ten_packets(), Ranges::default());
        rack.acknowledged(2);
        sacked.insert(3, 10);
        rack.delivered(9, None, 49 * MS);
        assert_eq!(lost(&mut rack, &sacked, 0, 49 * MS), [2]);
        rack.sent(2, 60 * MS);
        rack.sent(10, 60 * MS);
        for (echo_ns, now_ns) in [(2 * MS, 110 * MS), (60 * MS, 80 * MS)] {
            rack.delivered(2, Some(echo_ns), now_ns);
            assert!(lost(&mut rack, &sacked, 0, now_ns).is_empty());
            assert_eq!((rack.arrived, rack.rtt_ns), (10, 40 * MS));
        }
        rack.delivered(10, None, 100 * MS);
        sacked.insert(10, 11);
        assert_eq!(lost(&mut rack, &sacked, 0, 100 * MS), [2]);
    }

    /// A timeout takes the first packet for lost, and those older than a round trip: not the ones
    /// that were sent a moment ago.
    #[test]
    fn a_timeout_keeps_recent_packets_in_flight() {
        let (mut rack, sacked) = (ten_packets(), Ranges::default());
        rack.delivered(0, Some(0), 40 * MS);
        rack.acknowledged(1);
        rack.sent(10, 230 * MS);
        let timed_out: Vec<u32> =
            std::iter::from_fn(|| rack.next_timed_out(&sacked, 10 * MS, 240 * MS)).collect();
        assert_eq!(timed_out, (1..10).collect::<Vec<_>>());
        rack.sent(1, 240 * MS);
        assert_eq!(rack.next_timed_out(&sacked, 10 * MS, 241 * MS), Some(1));
        assert_eq!(rack.next_timed_out(&sacked, 10 * MS, 241 * MS), None);
        assert_eq!(rack.next_timed_out(&sacked, 10 * MS, 281 * MS), Some(10));
    }
}
