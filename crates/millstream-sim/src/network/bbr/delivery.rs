//! Samples of the delivery rate: the section "Delivery Rate Samples" of the draft.

use std::collections::VecDeque;

use super::rate_of;
use crate::network::control::PACKET;

/// A packet since its last transmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) sent_ns: u64,
    /// The beginning of the interval in which the send rate is measured, ns.
    pub(super) first_sent_ns: u64,
    pub(super) delivered_ns: u64,
    pub(super) delivered: u64,
    pub(super) in_flight: u64,
    pub(super) lost: u64,
    pub(super) is_app_limited: bool,
    /// Whether it was sent more than once: its round trip is ambiguous.
    pub(super) is_resent: bool,
    is_lost: bool,
    is_delivered: bool,
}

/// What an acknowledgement tells: the draft's `RS`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// The number and the state of the newest packet; `None`: no packet was delivered.
    pub(super) newest: Option<(u32, Sent)>,
    ack_elapsed_ns: u64,
    pub(super) newly: u64,
    pub(super) delivered: u64,
    pub(super) rate: u64,
    pub(super) lost: u64,
}

impl Sample {
    pub(super) fn is_app_limited(&self) -> bool {
        self.newest.is_some_and(|(_, of)| of.is_app_limited)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.newest.map_or(0, |(_, of)| of.in_flight)
    }
}

/// What a path has delivered and lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// The packets from `base`, as they were sent.
    packets: VecDeque<Sent>,
    base: u32,
    pub(super) delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    pub(super) lost: u64,
    /// The volume that is delivered when the last packet before a pause of the source is; 0 without
    /// one.
    app_limited_until: u64,
    /// The sample of the present acknowledgement.
    pub(super) sample: Sample,
}

impl Delivery {
    pub(super) fn is_limited_by_source(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Notes that the source has no more data while `in_flight` is on its way.
    pub(super) fn limited_by_source(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Notes that packet `number` is sent, the last of `in_flight`.
    pub(super) fn sent(&mut self, number: u32, in_flight: u64, now_ns: u64) {
        if in_flight <= PACKET {
            (self.first_sent_ns, self.delivered_ns) = (now_ns, now_ns);
        }
        let Some(at) = self.position(number) else { return };
        let is_resent = at < self.packets.len();
        if !is_resent {
            self.packets.resize(at + 1, Sent::default());
        }
        self.packets[at] = Sent {
            sent_ns: now_ns,
            first_sent_ns: self.first_sent_ns,
            delivered_ns: self.delivered_ns,
            delivered: self.delivered,
            in_flight,
            lost: self.lost,
            is_app_limited: self.is_limited_by_source(),
            is_resent,
            is_lost: false,
            is_delivered: false,
        };
    }

    /// Notes that packet `number` was acknowledged.
    pub(super) fn delivered(&mut self, number: u32, now_ns: u64) {
        let of = self.position(number).and_then(|at| self.packets.get_mut(at));
        let Some(of) = of.filter(|of| !of.is_delivered) else { return };
        of.is_delivered = true;
        let of = *of;
        self.delivered += PACKET;
        self.delivered_ns = now_ns;
        self.sample.newly += PACKET;
        let is_newer =
            |(newest, than): &(u32, Sent)| (of.sent_ns, number) > (than.sent_ns, *newest);
        if self.sample.newest.as_ref().is_none_or(is_newer) {
            self.sample.newest = Some((number, of));
            self.sample.ack_elapsed_ns = now_ns - of.delivered_ns;
            self.first_sent_ns = of.sent_ns;
        }
        while self.packets.front().is_some_and(|first| first.is_delivered) {
            self.packets.pop_front();
            self.base += 1;
        }
    }

    /// Notes that packet `number` was lost, and returns it; `None` if this is known.
    pub(super) fn lost(&mut self, number: u32) -> Option<Sent> {
        let of = self.position(number).and_then(|at| self.packets.get_mut(at));
        let of = of.filter(|of| !of.is_delivered && !of.is_lost)?;
        of.is_lost = true;
        self.lost += PACKET;
        Some(*of)
    }

    /// Returns the position of a packet in `packets`.
    fn position(&self, number: u32) -> Option<usize> {
        number.checked_sub(self.base).map(|at| at as usize)
    }

    /// Computes the rate of the sample; none in less than the least round trip, which is not
    /// reliable.
    pub(super) fn finish_sample(&mut self, min_rtt_ns: u64) {
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some((_, newest)) = self.sample.newest else { return };
        self.sample.delivered = self.delivered - newest.delivered;
        self.sample.lost = self.lost - newest.lost;
        let send_elapsed_ns = newest.sent_ns - newest.first_sent_ns;
        let interval_ns = send_elapsed_ns.max(self.sample.ack_elapsed_ns);
        if interval_ns >= min_rtt_ns && interval_ns > 0 {
            self.sample.rate = rate_of(self.sample.delivered, interval_ns);
        }
    }
}
