//! The end of slow start by growing round-trip times: HyStart++ (RFC 9406).

/// `MIN_RTT_THRESH` and `MAX_RTT_THRESH`, ns.
const LEAST_GROWTH_NS: u64 = 4_000_000;
const MOST_GROWTH_NS: u64 = 16_000_000;
/// `MIN_RTT_DIVISOR`.
const GROWTH_DIVISOR: u64 = 8;
/// `N_RTT_SAMPLE`.
const SAMPLES: u32 = 8;
/// `CSS_GROWTH_DIVISOR`.
const CONSERVATIVE_DIVISOR: u64 = 4;
/// `CSS_ROUNDS`.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// How the window grows for an acknowledgement in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// By the acknowledged packets divided by this.
    Divided(u64),
    /// Slow start ends.
    End,
}

/// The state of HyStart++ in the first slow start of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hystart {
    /// The packet after the last that was sent when the round began.
    round_end: u32,
    /// The least round-trip time of the last round and of this, ns.
    last_min_ns: u64,
    min_ns: u64,
    samples: u32,
    /// In conservative slow start: the least time of the round before it, and its rounds.
    conservative: Option<(u64, u32)>,
}

impl Default for Hystart {
    fn default() -> Self {
        Self {
            round_end: 0,
            last_min_ns: u64::MAX,
            min_ns: u64::MAX,
            samples: 0,
            conservative: None,
        }
    }
}

impl Hystart {
    /// Notes an acknowledgement up to `una` with a sample; packets up to `next` are sent.
    pub(super) fn acknowledged(&mut self, una: u32, next: u32, rtt_ns: u64) -> Growth {
        if una > self.round_end {
            self.round_end = next;
            (self.last_min_ns, self.min_ns, self.samples) = (self.min_ns, u64::MAX, 0);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CONSERVATIVE_ROUNDS {
                    return Growth::End;
                }
            }
        }
        self.min_ns = self.min_ns.min(rtt_ns);
        self.samples += 1;
        if self.samples >= SAMPLES {
            match self.conservative {
                None if self.last_min_ns != u64::MAX => {
                    let growth_ns = self.last_min_ns / GROWTH_DIVISOR;
                    let growth_ns = growth_ns.clamp(LEAST_GROWTH_NS, MOST_GROWTH_NS);
                    if self.min_ns >= self.last_min_ns + growth_ns {
                        self.conservative = Some((self.min_ns, 0));
                    }
                }
                Some((baseline_ns, _)) if self.min_ns < baseline_ns => self.conservative = None,
                _ => {}
            }
        }
        Growth::Divided(if self.conservative.is_some() { CONSERVATIVE_DIVISOR } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Acknowledges the packets of a round with one round-trip time; returns the last growth.
    fn round(hystart: &mut Hystart, from: u32, rtt_ns: u64) -> Growth {
        (1..=10).map(|at| hystart.acknowledged(from + at, from + 20, rtt_ns)).last().unwrap()
    }

    #[test]
    fn slow_start_ends_five_rounds_after_the_round_trip_grew() {
        let mut hystart = Hystart::default();
        assert_eq!(round(&mut hystart, 0, 40 * MS), Growth::Divided(1));
        // An eighth of 40 ms is 5 ms.
        assert_eq!(round(&mut hystart, 20, 44 * MS), Growth::Divided(1));
        assert_eq!(round(&mut hystart, 40, 50 * MS), Growth::Divided(4));
        for at in 0..4 {
            assert_eq!(round(&mut hystart, 60 + 20 * at, 60 * MS), Growth::Divided(4));
        }
        assert_eq!(hystart.acknowledged(150, 170, 60 * MS), Growth::End);
    }

    #[test]
    fn a_shorter_round_trip_resumes_slow_start() {
        let mut hystart = Hystart::default();
        round(&mut hystart, 0, 40 * MS);
        assert_eq!(round(&mut hystart, 20, 50 * MS), Growth::Divided(4));
        assert_eq!(round(&mut hystart, 40, 45 * MS), Growth::Divided(1));
    }
}
