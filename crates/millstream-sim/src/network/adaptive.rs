//! Video that adapts its rate to the reports of its receiver, on a ladder of rates.
//!
//! Every second the receiver reports the packets that it got and how long they queued. The sender
//! goes down a rung if more than 10 % were lost or packets queued for more than 200 ms, and up a
//! rung after five reports with less than 2 % loss and less than 50 ms. The limits of loss are
//! those of the loss-based controller of Google congestion control (draft-ietf-rmcat-gcc, section
//! 6).

use millstream_scenario::Adaptive;

/// The time between reports, ns.
pub(super) const REPORT_NS: u64 = 1_000_000_000;
/// Without a report for this time, the sender goes to the lowest rate, ns.
const SILENCE_NS: u64 = 3 * REPORT_NS;
/// The delays that lower the rate, and that let it grow, ns.
const LONG_NS: u64 = 200_000_000;
const SHORT_NS: u64 = 50_000_000;
/// The reports without congestion before the rate grows.
const CALM_REPORTS: u32 = 5;

/// What the receiver tells the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The packets received since the last report.
    pub(super) received: u64,
    /// The packets that were sent, as far as their numbers tell, since the last report.
    pub(super) expected: u64,
    /// The mean time that they queued: their delay beyond the shortest so far, ns.
    pub(super) queued_ns: u64,
}

/// The receiver of one stream.
#[derive(Debug)]
pub(super) struct Viewer {
    received: u64,
    /// The number after the highest received, now and at the last report.
    next: u64,
    reported: u64,
    shortest_ns: u64,
    delays_ns: u64,
}

impl Default for Viewer {
    fn default() -> Self {
        Self { received: 0, next: 0, reported: 0, shortest_ns: u64::MAX, delays_ns: 0 }
    }
}

impl Viewer {
    /// Receives packet `number` after `delay_ns`.
    pub(super) fn receive(&mut self, number: u64, delay_ns: u64) {
        self.received += 1;
        self.next = self.next.max(number + 1);
        self.shortest_ns = self.shortest_ns.min(delay_ns);
        self.delays_ns += delay_ns;
    }

    /// Returns the report of the packets since the last one.
    pub(super) fn report(&mut self) -> Report {
        let mean_ns = self.delays_ns.checked_div(self.received);
        let report = Report {
            received: self.received,
            expected: self.next - self.reported,
            queued_ns: mean_ns.map_or(0, |mean_ns| mean_ns.saturating_sub(self.shortest_ns)),
        };
        (self.received, self.delays_ns, self.reported) = (0, 0, self.next);
        report
    }
}

/// The sender of one stream.
#[derive(Debug)]
pub(super) struct Ladder<'a> {
    of: &'a Adaptive,
    rung: usize,
    calm: u32,
    reported_ns: u64,
    /// The number of the next packet, and the bits that wait for a whole byte.
    pub(super) next: u64,
    rest_bits: u64,
}

impl<'a> Ladder<'a> {
    /// Returns a sender at the lowest rate.
    pub(super) fn new(of: &'a Adaptive) -> Self {
        Self { of, rung: 0, calm: 0, reported_ns: of.start_ns, next: 0, rest_bits: 0 }
    }

    /// Returns the source.
    pub(super) fn source(&self) -> &'a Adaptive {
        self.of
    }

    /// Returns the bytes of the frame at `now_ns`.
    pub(super) fn frame_bytes(&mut self, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.reported_ns) > SILENCE_NS {
            (self.rung, self.calm) = (0, 0);
        }
        let rate = u128::from(self.of.rates_bps[self.rung]);
        let scaled = rate * u128::from(self.of.interval_ns) + u128::from(self.rest_bits);
        // Below 2^64: bits per 10^9 are less than a byte.
        self.rest_bits = u64::try_from(scaled % 8_000_000_000).unwrap_or(0);
        u64::try_from(scaled / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// Takes a report; returns whether the rate changes.
    pub(super) fn reported(&mut self, report: Report, now_ns: u64) -> bool {
        self.reported_ns = now_ns;
        let lost = report.expected.saturating_sub(report.received);
        let before = self.rung;
        if lost * 10 > report.expected || report.queued_ns > LONG_NS {
            self.rung = self.rung.saturating_sub(1);
            self.calm = 0;
        } else if lost * 50 < report.expected && report.queued_ns < SHORT_NS {
            self.calm += 1;
            if self.calm >= CALM_REPORTS {
                self.rung = (self.rung + 1).min(self.of.rates_bps.len() - 1);
                self.calm = 0;
            }
        } else {
            self.calm = 0;
        }
        self.rung != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn source() -> Adaptive {
        Adaptive {
            rates_bps: vec![1_000_000, 2_000_000, 4_000_000],
            interval_ns: 40_000_000,
            bytes: 1_200,
            rtt_ns: 20_000_000,
            start_ns: 0,
            stop_ns: u64::MAX,
        }
    }

    fn report(received: u64, expected: u64, queued_ms: u64) -> Report {
        Report { received, expected, queued_ns: queued_ms * 1_000_000 }
    }

    #[test]
    fn the_rate_grows_after_five_calm_reports_and_falls_at_once() {
        let source = source();
        let mut ladder = Ladder::new(&source);
        let changed: Vec<bool> =
            (1..=10).map(|at| ladder.reported(report(100, 100, 10), at * SECOND)).collect();
        assert_eq!(changed.iter().filter(|changed| **changed).count(), 2);
        assert!(changed[4] && changed[9]);
        assert_eq!(ladder.frame_bytes(10 * SECOND), 20_000, "4 Mbit/s for 40 ms");
        assert!(!ladder.reported(report(100, 100, 100), 11 * SECOND), "neither calm nor long");
        assert!(ladder.reported(report(89, 100, 10), 12 * SECOND), "11 % lost");
        assert!(ladder.reported(report(100, 100, 201), 13 * SECOND), "201 ms");
        assert!(!ladder.reported(report(0, 100, 0), 14 * SECOND), "already the lowest");
        assert_eq!(ladder.frame_bytes(14 * SECOND), 5_000);
    }

    #[test]
    fn silence_selects_the_lowest_rate() {
        let source = source();
        let mut ladder = Ladder::new(&source);
        (1..=5).for_each(|at| {
            ladder.reported(report(100, 100, 0), at * SECOND);
        });
        assert_eq!(ladder.frame_bytes(8 * SECOND), 10_000);
        assert_eq!(ladder.frame_bytes(8 * SECOND + 1), 5_000);
    }

    #[test]
    fn a_report_counts_losses_by_numbers_and_delay_beyond_the_shortest() {
        let mut viewer = Viewer::default();
        for (number, delay_ms) in [(0, 20), (1, 30), (4, 40)] {
            viewer.receive(number, delay_ms * 1_000_000);
        }
        assert_eq!(viewer.report(), report(3, 5, 10));
        assert_eq!(viewer.report(), report(0, 0, 0));
        viewer.receive(5, 25_000_000);
        assert_eq!(viewer.report(), report(1, 1, 5));
    }

    /// 1,000,001 bit/s in frames of 40 ms: the rest of each frame is carried on.
    #[test]
    fn frames_add_up_to_the_rate() {
        let source = Adaptive { rates_bps: vec![1_000_001], ..source() };
        let mut ladder = Ladder::new(&source);
        let bytes: u64 = (0..2_500).map(|_| ladder.frame_bytes(0)).sum();
        assert_eq!(bytes, 12_500_012, "100 s of 1,000,001 bit/s, rounded down");
    }
}
