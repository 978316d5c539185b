//! Admission control: admits a client if the mandatory frames of every interval fit the link.
//!
//! Mandatory frames are served by earliest deadline first, without preemption within a frame. They
//! all meet their deadlines if, for every interval length t, the sum of the following is at most t:
//! - the link time of the frames that can be both released and due within t ([`Demand`]),
//! - the longest frame that may already be in transmission,
//! - [`crate::scheduler::dispatch::SLACK_NS`] for a late wake-up.
//!
//! Audio is served before video. Its frames delay others also if they are due later, so all that
//! are released within t count. The test then covers every t from the shortest deadline on: a frame
//! that is late ends an interval at least that long, in which only such frames were sent.
//!
//! The test is that of Jeffay, Stanat and Martel, *On non-preemptive scheduling of periodic and
//! sporadic tasks*, 1991. It holds for every combination of start times. It guarantees nothing
//! under a discipline that does not serve by deadline.

use crate::scheduler::demand::{Demand, WHOLE_LINK};
use crate::scheduler::dispatch::SLACK_NS;

/// The largest number of intervals examined per admission test.
const MAX_STEPS: u64 = 200_000;

/// The link and its admitted clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// The link's rate, bits/s.
    pub(crate) link_bps: u64,
    /// The sum of the mean rates of mandatory frames, bits/s.
    pub(crate) reserved_bps: u64,
    /// The number of admitted clients of each title.
    clients: Vec<u64>,
}

impl Admission {
    /// Creates a link without clients.
    pub(crate) fn new(link_bps: u64) -> Self {
        Self { link_bps, reserved_bps: 0, clients: Vec::new() }
    }

    /// Adds a client of a title whose mandatory frames have the mean rate `bps`, bits/s.
    pub(crate) fn add(&mut self, title: usize, bps: u64) {
        if self.clients.len() <= title {
            self.clients.resize(title + 1, 0);
        }
        self.clients[title] += 1;
        self.reserved_bps += bps;
    }

    /// Removes a client of a title, with the `bps` that [`add`](Self::add) got.
    pub(crate) fn remove(&mut self, title: usize, bps: u64) {
        self.clients[title] -= 1;
        self.reserved_bps -= bps;
    }

    /// Checks whether `more` clients of `title` can be admitted; `demands` has one entry per title.
    ///
    /// # Errors
    /// Returns the reason for the refusal.
    pub(crate) fn admits(
        &self,
        demands: &[&Demand],
        title: usize,
        more: u64,
    ) -> Result<(), String> {
        let clients = |at: usize| {
            self.clients.get(at).copied().unwrap_or(0) + if at == title { more } else { 0 }
        };
        let present: Vec<(&Demand, u64)> = (0..)
            .zip(demands)
            .map(|(at, demand)| (*demand, clients(at)))
            .filter(|(_, clients)| *clients > 0)
            .collect();
        let sum = |of: &dyn Fn(&Demand) -> i128| -> i128 {
            present.iter().map(|(demand, clients)| of(demand) * i128::from(*clients)).sum()
        };
        let blocking_ns = present.iter().map(|(demand, _)| demand.longest_frame_ns).max();
        let blocking_ns = blocking_ns.unwrap_or(0).saturating_add(SLACK_NS);

        let free = WHOLE_LINK - sum(&|demand| demand.rate);
        if free <= 0 {
            let percent = (WHOLE_LINK - free) * 100 / WHOLE_LINK;
            return Err(format!(
                "the mandatory frames need up to {percent} % of the link's {} bits/s",
                self.link_bps
            ));
        }
        // Past this time the linear bound of the demand is below the link's capacity.
        let line = sum(&Demand::intercept) + i128::from(blocking_ns) * WHOLE_LINK;
        let end_ns = u64::try_from(line / free + 1).unwrap_or(u64::MAX);
        let steps = present.iter().map(|(demand, _)| demand.steps(end_ns));
        if steps.fold(0, u64::saturating_add) > MAX_STEPS {
            return Err("the link would be too nearly full for a guarantee".into());
        }
        let from_ns = present.iter().map(|(demand, _)| demand.due_ns).min().unwrap_or(u64::MAX);
        let steps = present.iter().flat_map(|(demand, _)| demand.steps_ns(end_ns));
        for time_ns in std::iter::once(from_ns).chain(steps.filter(|step| *step > from_ns)) {
            let wanted = present
                .iter()
                .map(|(demand, clients)| demand.within_ns(time_ns).saturating_mul(*clients))
                .fold(blocking_ns, u64::saturating_add);
            if wanted > time_ns {
                return Err(format!(
                    "the mandatory frames due within {} may need {} of the link, including a \
                     frame already in transmission",
                    milliseconds(time_ns),
                    milliseconds(wanted)
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of further clients of `title` that can be admitted, at most `most`.
    pub(crate) fn room(&self, demands: &[&Demand], title: usize, most: u64) -> u64 {
        let (mut fits, mut too_many) = (0, most + 1);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if self.admits(demands, title, middle).is_ok() {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        fits
    }
}

/// Formats `ns` as milliseconds, rounded up to microseconds.
fn milliseconds(ns: u64) -> String {
    let us = ns.div_ceil(1_000);
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::demand::FrameDemand;
    use crate::shared_memory::importance::Importance::{B, I};

    const MS: u64 = 1_000_000;

    /// Returns the demand of an I-frame of `i` ms and three B-frames of 1 ms.
    ///
    /// The period is 40 ms; the deadline is `deadline` ms after the release.
    fn media_file(i: u64, deadline: u64, window: (u32, u32)) -> Demand {
        let frame = |ms, importance| FrameDemand { work_ns: ms * MS, importance };
        let frames = [frame(i, I), frame(1, B), frame(1, B), frame(1, B)];
        Demand::new(&frames, window, true, 40 * MS, deadline * MS)
    }

    fn room(demand: &Demand) -> u64 {
        Admission::new(1).room(&[demand], 0, 1_000)
    }

    #[test]
    fn coinciding_i_frames_must_fit_into_one_deadline() {
        // 1 ms of slack and a blocking frame of 10 ms leave 29 of 40 ms, or 69 of 80 ms.
        assert_eq!(room(&media_file(10, 40, (0, 1))), 2);
        assert_eq!(room(&media_file(10, 80, (0, 1))), 6);
        // With a longer deadline the mean counts: 13 ms of 160, or 10 if all B-frames are optional.
        assert_eq!(room(&media_file(10, 400, (0, 1))), 12);
        assert_eq!(room(&media_file(10, 400, (3, 4))), 15);
    }

    #[test]
    fn audio_counts_in_the_intervals_in_which_it_delays_video() {
        let video = media_file(10, 40, (0, 1));
        let audio = |ms| {
            let frame = FrameDemand { work_ns: ms * MS, importance: I };
            Demand::new(&[frame], (0, 1), true, 20 * MS, 40 * MS)
        };
        let room = |audio: Demand| {
            let mut admission = Admission::new(1);
            admission.add(1, 0);
            admission.room(&[&video, &audio], 0, 9)
        };
        // 1 ms of slack, a blocking frame of 10 ms, and one frame of audio leave 24 of 40 ms.
        assert_eq!(room(audio(5)), 2);
        // Served first, all frames of audio that are released within 40 ms delay the video: three.
        assert_eq!([3, 5].map(|ms| room(audio(ms).served_first())), [2, 1]);
        // Audio alone is limited by its own deadline.
        assert_eq!(Admission::new(1).room(&[&audio(3).served_first()], 0, 9), 4);
    }

    #[test]
    fn a_removed_client_frees_its_share_of_the_link() {
        let demands = [&media_file(10, 40, (0, 1)), &media_file(5, 400, (0, 1))];
        let mut admission = Admission::new(1);
        admission.add(0, 7);
        admission.add(0, 7);
        let why = admission.admits(&demands, 0, 1).unwrap_err();
        assert!(why.contains("due within 40.000 ms") && why.contains("41.000 ms"), "{why}");
        assert!(admission.admits(&demands, 1, 1).is_ok());
        admission.remove(0, 7);
        assert_eq!(admission.admits(&demands, 0, 1), Ok(()));
        assert_eq!(admission.reserved_bps, 7);
    }
}
