//! The sender of a TCP connection: detection of losses by RACK with tail loss probes (RFC 8985), or
//! loss recovery by selective acknowledgements alone (RFC 6675); proportional rate reduction (RFC
//! 6937), and timeouts (RFC 6298).
//!
//! ```text
//!      una          retransmitted     lost edge          next
//! ──────┼─────────────────┼───────────────┼────────────────┼──────>  packet numbers
//!        in flight again   lost, to resend     in flight
//! ```
//!
//! Every packet below the lost edge that is not acknowledged was lost once; [`Rack`] also finds
//! lost retransmissions. With RFC 6675, a packet is lost if three later ones have arrived, and a
//! lost retransmission waits for the timeout. Sequence numbers count packets, since all packets of
//! a connection are equal.

use millstream_scenario::{CongestionControl, LossRecovery, Tcp};
use std::collections::VecDeque;
use std::ops::Range;

use super::control::{Control, PACKET};
use super::hystart::{Growth, Hystart};
use super::rack::Rack;
use super::ranges::Ranges;
use super::receiver::{Ack, DELAY_NS};
use super::round_trip::RoundTrip;

/// The packets above a packet that must have arrived before it is lost: `DupThresh`.
const DUPLICATE_THRESHOLD: u32 = 3;

/// The sender of one connection.
#[derive(Debug)]
pub(super) struct Sender {
    /// The packets to transfer so far.
    packets: u32,
    receive_window: u32,
    pacing: bool,
    una: u32,
    next: u32,
    /// The packets above `una` that the receiver has.
    sacked: Ranges,
    lost_edge: u32,
    retransmitted: u32,
    /// `None`: RFC 6675.
    rack: Option<Rack>,
    /// Packets to send again because their retransmission was lost.
    lost_again: VecDeque<u32>,
    window: u64,
    slow_start_threshold: u64,
    control: Control,
    hystart: Option<Hystart>,
    recovery: Recovery,
    times: RoundTrip,
    /// When the timeout expires; `u64::MAX`: nothing is in flight.
    timeout_ns: u64,
    /// The packet of the last timeout.
    timed_out: Option<u32>,
    /// When a probe is sent; `u64::MAX`: not before an acknowledgement or new data.
    probe_ns: u64,
    /// Whether the next packet is a probe.
    probes: bool,
    probe: Option<Probe>,
    /// When the next packet may be sent, with pacing.
    paced_ns: u64,
    /// Whether only pacing held back the last packet.
    waits_for_pace: bool,
    marks: Marks,
    /// The retransmissions and timeouts so far.
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
}

/// The recovery from losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    None,
    /// Fast recovery until `point` is acknowledged.
    Fast {
        point: u32,
        delivered: u64,
        out: u64,
        flight: u64,
        /// Whether the last packet was sent again because there was nothing else to send.
        is_rescued: bool,
    },
    /// After a timeout, until `point` is acknowledged.
    Timeout {
        point: u32,
    },
}

impl Recovery {
    /// Returns a fast recovery that begins with `flight` packets outstanding.
    fn fast(point: u32, flight: u64) -> Self {
        Self::Fast { point, delivered: 0, out: 0, flight, is_rescued: false }
    }
}

/// Why a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    /// Its retransmission was lost.
    LostAgain,
    /// It is lost, or likely so at the end of the data.
    Lost,
    New,
    /// It is the last one, and nothing else can be sent.
    Rescue,
}

/// A tail loss probe that waits for its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    /// The packet after it, which was `next`.
    end: u32,
    /// Whether its packet was sent before: its arrival may repair a loss.
    is_resent: bool,
}

/// The marks that the receiver reported.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    total: u32,
    /// No other reduction for marks until this is acknowledged, and the least round has passed
    /// since.
    reduced_until: u32,
    reduced_ns: u64,
    /// The end of the round trip in which these are counted, and its beginning, ns.
    round_end: u32,
    round_ns: u64,
    round_acked: u64,
    round_marked: u64,
}

impl Sender {
    /// Returns the sender of a new connection that transfers this number of packets; `seed` is that
    /// of its random times.
    pub(super) fn new(tcp: &Tcp, packets: u32, seed: u64) -> Self {
        Self {
            packets,
            receive_window: tcp.receive_window,
            pacing: tcp.pacing,
            una: 0,
            next: 0,
            sacked: Ranges::default(),
            lost_edge: 0,
            retransmitted: 0,
            rack: (tcp.recovery == LossRecovery::Rack).then(Rack::default),
            lost_again: VecDeque::new(),
            window: u64::from(tcp.initial_window) * PACKET,
            slow_start_threshold: u64::MAX,
            control: Control::new(tcp.control, tcp.initial_window, seed),
            hystart: (tcp.hystart && tcp.control != CongestionControl::Prague)
                .then(Hystart::default),
            recovery: Recovery::None,
            times: RoundTrip::new(tcp.min_rto_ns),
            timeout_ns: u64::MAX,
            timed_out: None,
            probe_ns: u64::MAX,
            probes: false,
            probe: None,
            paced_ns: 0,
            waits_for_pace: false,
            marks: Marks::default(),
            retransmissions: 0,
            timeouts: 0,
        }
    }

    fn add_round_trip(&mut self, rtt_ns: u64) {
        self.times.add(rtt_ns);
        if let Some(rack) = &mut self.rack {
            rack.add(rtt_ns);
        }
    }

    /// Transfers all packets below `end`.
    pub(super) fn extend(&mut self, end: u32) {
        self.packets = self.packets.max(end);
    }

    /// Adds the round-trip time of the handshake, which ended at `now_ns`.
    pub(super) fn connected(&mut self, rtt_ns: u64, now_ns: u64) {
        self.add_round_trip(rtt_ns);
        if let Some(model) = self.control.model() {
            model.connected(now_ns, rtt_ns);
        }
    }

    /// Returns whether everything was acknowledged.
    pub(super) fn is_complete(&self) -> bool {
        self.una >= self.packets
    }

    /// Returns the window, packets.
    #[cfg(test)]
    fn window_packets(&self) -> u64 {
        self.window / PACKET
    }

    /// Returns the packets in flight: `pipe` of RFC 6675.
    fn in_flight(&self) -> u32 {
        let resend = self.lost_edge - self.retransmitted;
        let resend = resend - self.sacked.count_in(self.retransmitted, self.lost_edge);
        let again = u32::try_from(self.lost_again.len()).unwrap_or(u32::MAX);
        (self.next - self.una - self.sacked.count()).saturating_sub(resend + again)
    }

    /// Returns the number of the next packet to send at `now_ns`; `None`: the window, the pace or
    /// the data permits none.
    pub(super) fn next_packet(&mut self, now_ns: u64) -> Option<u32> {
        self.waits_for_pace = false;
        if std::mem::take(&mut self.probes) {
            return self.next_probe(now_ns);
        }
        if u64::from(self.in_flight()) >= self.window / PACKET {
            if let Some(model) = self.control.model() {
                model.limited_by_window();
            }
            return None;
        }
        let Some((number, segment)) = self.next_segment() else {
            let in_flight = self.in_flight();
            if let Some(model) = self.control.model().filter(|_| self.next >= self.packets) {
                model.limited_by_source(in_flight);
            }
            return None;
        };
        if self.pacing {
            if now_ns < self.paced_ns {
                self.waits_for_pace = true;
                return None;
            }
            self.paced_ns = self.paced_ns.max(now_ns) + self.pace_ns();
        }
        let rescues = segment == Segment::Rescue;
        match segment {
            Segment::LostAgain => _ = self.lost_again.pop_front(),
            Segment::Lost => {
                self.retransmitted = number + 1;
                self.lost_edge = self.lost_edge.max(number + 1);
            }
            Segment::New => self.next += 1,
            Segment::Rescue => {}
        }
        if segment != Segment::New {
            self.retransmissions += 1;
        }
        if let Recovery::Fast { out, is_rescued, .. } = &mut self.recovery {
            *out += 1;
            *is_rescued |= rescues;
        }
        // A retransmission that RACK finds may leave after a good part of the timeout (RFC 6675,
        // section 6).
        let restarts = self.rack.is_some() && number == self.una && segment != Segment::New;
        if restarts || self.timeout_ns == u64::MAX {
            self.timeout_ns = now_ns + self.times.timeout_ns();
        }
        if segment == Segment::New {
            self.schedule_probe(now_ns);
        }
        self.tell_sent(number, now_ns);
        Some(number)
    }

    /// Returns the next packet to send, and why, whatever the window permits: lost retransmissions
    /// first, then `NextSeg` of RFC 6675, section 4.
    fn next_segment(&self) -> Option<(u32, Segment)> {
        if let Some(number) = self.lost_again.front() {
            return Some((*number, Segment::LostAgain));
        }
        let gap = self.sacked.first_gap(self.retransmitted.max(self.una));
        if gap < self.lost_edge {
            return Some((gap, Segment::Lost));
        }
        if self.next < self.packets && self.next - self.una < self.receive_window {
            return Some((self.next, Segment::New));
        }
        let Recovery::Fast { is_rescued, .. } = self.recovery else { return None };
        if self.rack.is_some() {
            return None;
        }
        // Rules 3 and 4: a gap that is not lost yet, then once the last packet.
        if self.sacked.below_top(0).is_some_and(|top| gap < top) {
            return Some((gap, Segment::Lost));
        }
        let last = self.sacked.containing(self.next - 1).map_or(self.next, |range| range.0) - 1;
        (!is_rescued).then_some((last, Segment::Rescue))
    }

    /// Returns the packet of a probe, whatever the window and the pace permit: new data, or the
    /// last packet again.
    fn next_probe(&mut self, now_ns: u64) -> Option<u32> {
        if self.una == self.next {
            return None;
        }
        let is_new = self.next < self.packets && self.next - self.una < self.receive_window;
        if is_new {
            self.next += 1;
        } else {
            self.retransmissions += 1;
        }
        self.probe = Some(Probe { end: self.next, is_resent: !is_new });
        self.timeout_ns = now_ns + self.times.timeout_ns();
        let number = self.next - 1;
        self.tell_sent(number, now_ns);
        Some(number)
    }

    /// Tells RACK and a model that a packet is sent.
    fn tell_sent(&mut self, number: u32, now_ns: u64) {
        if let Some(rack) = &mut self.rack {
            rack.sent(number, now_ns);
        }
        let in_flight = self.in_flight();
        if let Some(model) = self.control.model() {
            model.sent(number, in_flight, now_ns);
        }
    }

    /// Schedules a probe after new data or an acknowledgement (RFC 8985, section 7.2), unless
    /// packets were acknowledged selectively: then RACK finds losses. It is sent instead of an
    /// earlier timeout.
    fn schedule_probe(&mut self, now_ns: u64) {
        self.probe_ns = u64::MAX;
        let waits = self.una < self.next && self.sacked.count() == 0 && self.rack.is_some();
        let Some(rtt_ns) = self.times.smoothed_ns() else { return };
        if waits && self.recovery == Recovery::None && self.probe.is_none() {
            let is_alone = self.next - self.una == 1;
            let wait_ns = 2 * rtt_ns + if is_alone { DELAY_NS } else { 0 };
            self.probe_ns = now_ns.saturating_add(wait_ns).min(self.timeout_ns);
        }
    }

    /// Returns the time between paced packets, ns: at twice the window per round trip in slow
    /// start, then at 1.2 times; or that of a model.
    fn pace_ns(&mut self) -> u64 {
        if let Some(model) = self.control.model() {
            return model.pace_ns();
        }
        let rtt_ns = u128::from(self.times.smoothed_ns().unwrap_or(0));
        let (times, of) = if self.window < self.slow_start_threshold { (2, 1) } else { (6, 5) };
        let pace_ns = rtt_ns * u128::from(PACKET) * of / (u128::from(self.window.max(1)) * times);
        u64::try_from(pace_ns).unwrap_or(u64::MAX)
    }

    /// Returns when the sender must be called if no acknowledgement comes; `u64::MAX`: never.
    pub(super) fn timer_ns(&self) -> u64 {
        let rack_ns = self.rack.as_ref().map_or(u64::MAX, Rack::timer_ns);
        let timer_ns = self.timeout_ns.min(self.probe_ns).min(rack_ns);
        if self.waits_for_pace { timer_ns.min(self.paced_ns) } else { timer_ns }
    }

    /// Acts at the time that [`timer_ns`](Self::timer_ns) returned.
    pub(super) fn timer(&mut self, now_ns: u64) {
        if self.una == self.next {
            return;
        }
        if self.rack.as_ref().is_some_and(|rack| now_ns >= rack.timer_ns()) {
            self.find_losses(now_ns);
            if self.lost_edge > self.una && self.recovery == Recovery::None {
                self.enter_recovery(0);
            }
            return;
        }
        self.probes = now_ns >= self.probe_ns;
        self.probe_ns = if self.probes { u64::MAX } else { self.probe_ns };
        if self.probes || now_ns < self.timeout_ns {
            return;
        }
        self.probe = None;
        self.timeouts += 1;
        self.times.back_off();
        self.timeout_ns = now_ns + self.times.timeout_ns();
        // The threshold changes at the first timeout of a packet only (RFC 5681, section 3.1).
        if self.timed_out.replace(self.una) != Some(self.una) {
            self.slow_start_threshold = self.control.after_timeout(self.window);
        }
        let in_recovery = self.recovery != Recovery::None;
        let window_ns = self.reordering_window_ns();
        self.recovery = Recovery::Timeout { point: self.next };
        self.hystart = None;
        if self.rack.is_some() {
            self.lose_timed_out(window_ns, now_ns);
        } else {
            self.report_losses(self.una..self.next, now_ns);
            self.lost_edge = self.next;
            self.retransmitted = self.una;
        }
        // One packet, whatever is still in flight.
        self.window = (u64::from(self.in_flight()) + 1) * PACKET;
        if let Some(model) = self.control.model() {
            model.timed_out(in_recovery);
        }
    }

    /// Returns the reordering window of RACK, ns (RFC 8985, section 6.2, step 4).
    fn reordering_window_ns(&self) -> u64 {
        let is_sure = self.recovery != Recovery::None || self.sacked.count() >= DUPLICATE_THRESHOLD;
        let smoothed_ns = self.times.smoothed_ns().unwrap_or(0);
        self.rack.as_ref().map_or(0, |rack| rack.window_ns(is_sure, smoothed_ns))
    }

    /// Takes packets for lost at a timeout, as RACK says; the first of all is sent first.
    fn lose_timed_out(&mut self, window_ns: u64, now_ns: u64) {
        let una = self.una;
        let next = |sender: &mut Self| {
            sender.rack.as_mut()?.next_timed_out(&sender.sacked, window_ns, now_ns)
        };
        while let Some(number) = next(self) {
            self.lose(number, now_ns);
            if number == una && self.lost_again.back() == Some(&una) {
                self.lost_again.rotate_right(1);
            }
        }
    }

    /// Notes that a packet, or its retransmission, was lost.
    fn lose(&mut self, number: u32, now_ns: u64) {
        if number < self.lost_edge {
            self.lost_again.push_back(number);
        } else {
            self.lost_edge = number + 1;
        }
        if let Some(model) = self.control.model() {
            model.lost(number, now_ns);
        }
    }

    /// Takes an acknowledgement; returns the round-trip time that it measures, ns.
    pub(super) fn acknowledged(&mut self, ack: &Ack, now_ns: u64) -> Option<u64> {
        let was_limited = u64::from(self.in_flight()) + 1 >= self.window / PACKET;
        let advanced = ack.cumulative.saturating_sub(self.una);
        let rtt_ns = (advanced > 0).then(|| now_ns.saturating_sub(ack.echo_ns));
        if let Some(rtt_ns) = rtt_ns {
            self.add_round_trip(rtt_ns);
        }
        self.report_deliveries(ack, now_ns);
        let mut delivered = u64::from(advanced);
        if advanced > 0 {
            self.una = ack.cumulative;
            delivered -= u64::from(self.sacked.remove_below(self.una));
        }
        for block in ack.blocks {
            delivered += u64::from(self.sacked.insert(block.0.max(self.una), block.1));
        }
        if let Some(rack) = &mut self.rack {
            rack.acknowledged(self.una);
        }
        self.find_losses(now_ns);
        let marked = ack.marks.wrapping_sub(self.marks.total);
        self.marks.total = ack.marks;
        let ended = self.end_recovery();
        let repaired = self.end_probe(advanced);
        match self.recovery {
            _ if self.control.model().is_some() => self.follow_model(marked, now_ns),
            Recovery::Fast { .. } => self.reduce(delivered),
            _ if self.lost_edge > self.una && self.recovery == Recovery::None => {
                self.enter_recovery(delivered);
            }
            _ => {
                if repaired {
                    self.slow_start_threshold = self.control.after_loss(self.window);
                    self.window = self.slow_start_threshold;
                    self.hystart = None;
                } else if advanced > 0 && was_limited && !ended {
                    // What was acknowledged selectively does not count again (RFC 3465, section
                    // 2.3).
                    self.grow(delivered.min(advanced.into()), now_ns, rtt_ns);
                }
                self.react_to_marks(marked, now_ns);
            }
        }
        self.count_marks(delivered, marked, now_ns);
        if self.una == self.next {
            self.timeout_ns = u64::MAX;
        } else if advanced > 0 {
            self.timeout_ns = now_ns + self.times.timeout_ns();
        }
        if advanced > 0 || self.una == self.next {
            self.schedule_probe(now_ns);
        }
        rtt_ns
    }

    /// Moves the lost edge, and finds retransmissions that were lost.
    fn find_losses(&mut self, now_ns: u64) {
        if self.rack.is_some() {
            let window_ns = self.reordering_window_ns();
            let next = |sender: &mut Self| {
                sender.rack.as_mut()?.next_lost(&sender.sacked, window_ns, now_ns)
            };
            while let Some(number) = next(self) {
                self.lose(number, now_ns);
            }
            if self.rack.as_ref().is_some_and(|rack| rack.timer_ns() != u64::MAX) {
                self.probe_ns = u64::MAX;
            }
        } else if let Some(third) = self.sacked.below_top(DUPLICATE_THRESHOLD - 1) {
            self.report_losses(self.lost_edge.max(self.una)..third, now_ns);
            self.lost_edge = self.lost_edge.max(third);
        }
        self.lost_edge = self.lost_edge.max(self.una);
        self.retransmitted = self.retransmitted.max(self.una);
        let (una, sacked) = (self.una, &self.sacked);
        self.lost_again.retain(|number| *number >= una && sacked.containing(*number).is_none());
    }

    /// Tells RACK and a model which packets an acknowledgement newly covers.
    fn report_deliveries(&mut self, ack: &Ack, now_ns: u64) {
        if self.rack.is_none() && self.control.model().is_none() {
            return;
        }
        let una = self.una;
        self.report_range(una..ack.cumulative, Some(ack.echo_ns), now_ns);
        for (from, to) in ack.blocks {
            self.report_range(from.max(una).max(ack.cumulative)..to, None, now_ns);
        }
    }

    fn report_range(&mut self, packets: Range<u32>, echo_ns: Option<u64>, now_ns: u64) {
        let mut number = packets.start;
        while number < packets.end {
            if let Some((_, end)) = self.sacked.containing(number) {
                number = end;
                continue;
            }
            if let Some(rack) = &mut self.rack {
                rack.delivered(number, echo_ns, now_ns);
            }
            if let Some(model) = self.control.model() {
                model.delivered(number, now_ns);
            }
            number += 1;
        }
    }

    /// Tells a model which of `packets` are lost: those that were not acknowledged.
    fn report_losses(&mut self, packets: Range<u32>, now_ns: u64) {
        let Some(model) = self.control.model() else { return };
        for number in packets {
            if self.sacked.containing(number).is_none() {
                model.lost(number, now_ns);
            }
        }
    }

    /// Takes the window of a model after an acknowledgement.
    fn follow_model(&mut self, marked: u32, now_ns: u64) {
        if self.recovery == Recovery::None && self.lost_edge > self.una {
            self.enter_recovery(0);
        }
        let in_flight = self.in_flight();
        let Some(model) = self.control.model() else { return };
        model.marked(marked, now_ns);
        model.acknowledged(in_flight, now_ns);
        self.window = model.window();
    }

    /// Ends the probe that was acknowledged. Returns whether it has repaired a loss: the
    /// acknowledgement covers more, and no other one told that the packet had arrived twice.
    fn end_probe(&mut self, advanced: u32) -> bool {
        let Some(probe) = self.probe.filter(|probe| self.una >= probe.end) else { return false };
        let is_twice = advanced == 0 && self.una == probe.end;
        let repaired = probe.is_resent && self.una > probe.end;
        if !probe.is_resent || is_twice || repaired {
            self.probe = None;
        }
        repaired
    }

    fn enter_recovery(&mut self, delivered: u64) {
        (self.probe_ns, self.probe) = (u64::MAX, None);
        if let Some(model) = self.control.model() {
            self.recovery = Recovery::fast(self.next, 0);
            model.recovery_began();
            return;
        }
        let flight = u64::from(self.next - self.una);
        self.slow_start_threshold = self.control.after_loss(self.window);
        self.hystart = None;
        self.recovery = Recovery::fast(self.next, flight);
        self.reduce(delivered);
        // The first retransmission is sent in any case.
        self.window = self.window.max((u64::from(self.in_flight()) + 1) * PACKET);
    }

    /// Sets the window for the packets that may be sent for an acknowledgement (RFC 6937, section
    /// 3).
    fn reduce(&mut self, newly: u64) {
        let pipe = u64::from(self.in_flight());
        let threshold = self.slow_start_threshold / PACKET;
        let Recovery::Fast { delivered, out, flight, .. } = &mut self.recovery else { return };
        *delivered += newly;
        let send = if pipe > threshold {
            (*delivered * threshold).div_ceil((*flight).max(1)).saturating_sub(*out)
        } else {
            let limit = delivered.saturating_sub(*out).max(newly) + 1;
            (threshold - pipe).min(limit)
        };
        self.window = (pipe + send) * PACKET;
    }

    /// Ends the recovery if its point was acknowledged. Returns whether fast recovery has ended.
    fn end_recovery(&mut self) -> bool {
        match self.recovery {
            Recovery::Fast { point, .. } if self.una >= point => {
                self.window = self.slow_start_threshold;
                self.recovery = Recovery::None;
                self.tell_recovery_ended();
                true
            }
            Recovery::Timeout { point } if self.una >= point => {
                self.recovery = Recovery::None;
                self.tell_recovery_ended();
                false
            }
            _ => false,
        }
    }

    fn tell_recovery_ended(&mut self) {
        if let Some(model) = self.control.model() {
            model.recovery_ended();
        }
    }

    fn grow(&mut self, acked: u64, now_ns: u64, rtt_ns: Option<u64>) {
        if self.window < self.slow_start_threshold {
            let growth = match (&mut self.hystart, rtt_ns) {
                (Some(hystart), Some(rtt_ns)) => hystart.acknowledged(self.una, self.next, rtt_ns),
                _ => Growth::Divided(1),
            };
            match growth {
                Growth::Divided(by) => self.window += acked * PACKET / by,
                Growth::End => self.slow_start_threshold = self.window,
            }
        } else {
            let rtt_ns = self.times.smoothed_ns().unwrap_or(0);
            self.window = self.control.grown(self.window, acked, now_ns, rtt_ns);
        }
    }

    /// Returns whether the least round of the control has passed since `from_ns`.
    fn has_passed_round(&self, from_ns: u64, now_ns: u64) -> bool {
        let rtt_ns = self.times.smoothed_ns().unwrap_or(0);
        let least_ns = self.control.least_round_ns(rtt_ns);
        // A real round trip ends by an acknowledgement alone.
        least_ns <= rtt_ns || now_ns >= from_ns.saturating_add(least_ns)
    }

    fn react_to_marks(&mut self, marked: u32, now_ns: u64) {
        let is_due = self.una >= self.marks.reduced_until
            && self.has_passed_round(self.marks.reduced_ns, now_ns);
        if marked > 0 && is_due {
            self.slow_start_threshold = self.control.after_marks(self.window);
            self.window = self.slow_start_threshold;
            self.hystart = None;
            (self.marks.reduced_until, self.marks.reduced_ns) = (self.next, now_ns);
        }
    }

    fn count_marks(&mut self, delivered: u64, marked: u32, now_ns: u64) {
        let in_slow_start = self.window < self.slow_start_threshold;
        let has_passed = self.has_passed_round(self.marks.round_ns, now_ns);
        let marks = &mut self.marks;
        marks.round_acked += delivered;
        marks.round_marked += u64::from(marked);
        if self.una >= marks.round_end && has_passed {
            self.control.round_ended(marks.round_acked, marks.round_marked, in_slow_start);
            (marks.round_end, marks.round_ns) = (self.next, now_ns);
            (marks.round_acked, marks.round_marked) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests;
