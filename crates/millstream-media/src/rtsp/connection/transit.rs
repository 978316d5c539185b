//! Frames in transit through a connection, and their outcomes.
//!
//! ```text
//! bytes of the connection:   …sent | not sent |  output  …
//!                                  ^ accepted by the kernel
//! frames:                    [ 1 ][ 2 ][  3  ][ 4 ]
//! ```
//! A frame is *sent* once the kernel has sent its last byte, as the client's window permits. A
//! frame that is not sent when it is due is *late*. A frame must begin [`GOING_NS`] before it is
//! due, or within half of its time if that is later. Otherwise it is late and removed from the
//! output. A frame that has begun is sent to its end. Without that rule the connection of a slow
//! client would always begin the next frame and finish each one too late.
//!
//! Outcomes are delivered in the order of the frames. An outcome that finds the ring full is
//! delivered later.

use std::collections::VecDeque;

/// The least time that a connection has for a frame, ns. The data plane may schedule a frame just
/// before its deadline; the handover to the connection must not make it late.
const LEAST_NS: u64 = 100_000_000;

/// How long a frame that has begun may take to be sent, ns. It queues behind the kernel's unsent
/// bytes: 20 ms of the stream's rate and one segment, at the client's read rate.
const GOING_NS: u64 = 250_000_000;

/// A frame in transit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The session, as named in orders and outcomes.
    pub(crate) session: u64,
    pub(crate) number: u64,
    /// The time from which it is late, ns.
    due_ns: u64,
    /// The latest time for its first byte to be written, ns.
    begin_ns: u64,
    /// The position of its first byte and past its last, counted over the whole connection.
    first: u64,
    end: u64,
    outcome: Option<Outcome>,
}

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Sent at this time, ns.
    Sent(u64),
    Late,
}

/// The frames of a connection that are in transit.
#[derive(Debug, Default)]
pub(crate) struct Transit {
    frames: VecDeque<Frame>,
}

impl Transit {
    /// Adds a frame in the bytes `first..end` of the connection with a deadline of `deadline_ns`.
    pub(crate) fn push(
        &mut self,
        (session, number): (u64, u64),
        (first, end): (u64, u64),
        deadline_ns: u64,
        now_ns: u64,
    ) {
        let due_ns = deadline_ns.max(now_ns.saturating_add(LEAST_NS));
        let begin_ns = due_ns - GOING_NS.min((due_ns - now_ns) / 2);
        let outcome = None;
        self.frames.push_back(Frame { session, number, due_ns, begin_ns, first, end, outcome });
    }

    /// Adds a frame that finds no room in the output: it is late.
    pub(crate) fn refuse(&mut self, (session, number): (u64, u64)) {
        let outcome = Some(Outcome::Late);
        let (due_ns, begin_ns, first, end) = (0, 0, 0, 0);
        self.frames.push_back(Frame { session, number, due_ns, begin_ns, first, end, outcome });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Clears all frames: no data plane is left to report outcomes to.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
    }

    /// Decides outcomes at `now_ns`; the kernel has sent the bytes before `sent`, and accepted
    /// those before `begun`. Calls `cut` with each byte range to remove, at its position after
    /// earlier removals.
    pub(crate) fn decide(
        &mut self,
        now_ns: u64,
        sent: u64,
        begun: u64,
        mut cut: impl FnMut(u64, u64),
    ) {
        let mut gone = 0;
        for frame in &mut self.frames {
            frame.first -= gone.min(frame.first);
            frame.end -= gone.min(frame.end);
            if frame.outcome.is_some() {
                continue;
            }
            if frame.end <= sent {
                frame.outcome = Some(Outcome::Sent(now_ns));
            } else if frame.first >= begun && now_ns >= frame.begin_ns {
                frame.outcome = Some(Outcome::Late);
                cut(frame.first, frame.end);
                gone += frame.end - frame.first;
                frame.end = frame.first;
            } else if now_ns >= frame.due_ns {
                frame.outcome = Some(Outcome::Late);
            }
        }
    }

    /// Delivers outcomes, oldest first, while `deliver` accepts them.
    pub(crate) fn deliver(&mut self, mut deliver: impl FnMut(&Frame, Outcome) -> bool) {
        while let Some(frame) = self.frames.front()
            && let Some(outcome) = frame.outcome
            && deliver(frame, outcome)
        {
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: u64 = 1_000_000_000;

    fn outcomes(transit: &mut Transit) -> Vec<(u64, Outcome)> {
        let mut seen = Vec::new();
        transit.deliver(|frame, outcome| {
            seen.push((frame.number, outcome));
            true
        });
        seen
    }

    #[test]
    fn a_frame_is_sent_with_its_last_byte_and_late_after_its_due_time() {
        let mut transit = Transit::default();
        for number in 0..4 {
            let due_ns = if number == 3 { 2 * DUE } else { DUE };
            transit.push((0, number), (number * 100, number * 100 + 100), due_ns, 0);
        }
        let mut cuts = Vec::new();
        transit.decide(5, 150, 150, |first, end| cuts.push((first, end)));
        assert_eq!(outcomes(&mut transit), [(0, Outcome::Sent(5))]);
        // Frame 1 has begun, 2 has not; 3 may still begin.
        transit.decide(DUE - GOING_NS, 150, 150, |first, end| cuts.push((first, end)));
        assert_eq!((outcomes(&mut transit).len(), &cuts[..]), (0, &[(200, 300)][..]));
        transit.decide(DUE + 1, 150, 210, |_, _| panic!("frame 3 has begun"));
        assert_eq!(outcomes(&mut transit), [(1, Outcome::Late), (2, Outcome::Late)]);
        transit.decide(DUE + 2, 300, 300, |_, _| panic!("nothing to cut"));
        assert_eq!(outcomes(&mut transit), [(3, Outcome::Sent(DUE + 2))]);
        assert!(transit.is_empty());
    }

    #[test]
    fn several_cuts_use_positions_after_earlier_cuts() {
        let mut transit = Transit::default();
        for number in 0..4 {
            let due_ns = if number == 2 { 4 * DUE } else { DUE };
            transit.push((0, number), (number * 10, number * 10 + 10), due_ns, 0);
        }
        let mut output: Vec<u8> = (0..40).collect();
        transit.decide(DUE, 5, 5, |first, end| {
            output.drain(usize::try_from(first).unwrap()..usize::try_from(end).unwrap());
        });
        assert_eq!(output, (0..10).chain(20..30).collect::<Vec<u8>>());
        transit.decide(DUE, 20, 20, |_, _| panic!("nothing to cut"));
        let late = |number| (number, Outcome::Late);
        assert_eq!(outcomes(&mut transit), [late(0), late(1), (2, Outcome::Sent(DUE)), late(3)]);
    }

    #[test]
    fn a_frame_has_100_ms_and_refused_outcomes_are_delivered_later() {
        let mut transit = Transit::default();
        transit.push((7, 1), (0, 10), DUE, 3 * DUE);
        transit.refuse((7, 2));
        transit.decide(3 * DUE + LEAST_NS - 1, 10, 10, |_, _| {});
        transit.deliver(|frame, _| {
            assert_eq!((frame.session, frame.number), (7, 1));
            false
        });
        let sent = Outcome::Sent(3 * DUE + LEAST_NS - 1);
        assert_eq!(outcomes(&mut transit), [(1, sent), (2, Outcome::Late)]);
    }
}
