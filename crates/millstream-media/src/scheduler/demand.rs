//! The link time that a file's mandatory frames can demand in any interval.
//!
//! A client releases its frames a period apart, and each must leave by its deadline. In an interval
//! of t ns, at most n consecutive frames are both released and due. Here n = 1 + floor((t -
//! deadline) / period). [`Demand`] holds the largest link time of any n consecutive frames.
//!
//! Frames that are served before all others delay them also if they are due later. So the demand of
//! such frames counts all that are released in the interval.
//!
//! This is the demand bound of a sporadic task, computed from the media file's frame sizes. Source:
//! Baruah, Mok and Rosier, *Preemptively scheduling hard-real-time sporadic tasks on one
//! processor*, 1990.

use crate::scheduler::optional_frames::Choice;
use crate::shared_memory::importance::Importance;

/// The longest run of frames examined; sums of such runs bound longer ones.
const MAX_RUN_FRAMES: u64 = 1_024;

/// The largest number of run sums computed for a file.
const MAX_SUMS: u64 = 1 << 26;

/// The rate of the whole link, in the unit of the rates in this module.
pub(crate) const WHOLE_LINK: i128 = 1 << 40;

/// A frame's link time, ns, and importance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameDemand {
    pub(crate) work_ns: u64,
    pub(crate) importance: Importance,
}

/// The demand bound of a client of one file.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    period_ns: u64,
    /// The shortest interval that counts a frame, ns: the deadline, or 1 if they are served first.
    deadline_ns: u64,
    /// The time from a frame's release to its deadline, ns.
    pub(crate) due_ns: u64,
    /// The largest link time of the mandatory frames among n consecutive ones, ns, for n from 0.
    most_ns: Vec<u64>,
    /// The link time of the longest frame, mandatory or not, ns.
    pub(crate) longest_frame_ns: u64,
    /// The mean rate of the densest run of maximum length, in parts of [`WHOLE_LINK`], rounded up.
    pub(crate) rate: i128,
    /// The intercept of a linear bound, in parts of [`WHOLE_LINK`].
    ///
    /// For any n, `most_ns` of n is at most `rate` x n periods + this value.
    burst: i128,
}

impl Demand {
    /// Returns the demand of a media file with a window of `lost` of every `of` frames.
    ///
    /// The client plays the file from its start, and repeatedly if `repeats` is set.
    pub(crate) fn new(
        media_file: &[FrameDemand],
        (lost, of): (u32, u32),
        repeats: bool,
        period_ns: u64,
        deadline_ns: u64,
    ) -> Self {
        let longest_frame_ns = media_file.iter().map(|frame| frame.work_ns).max().unwrap_or(0);
        let mandatory_ns = mandatory(media_file, (lost, of), repeats);
        let frames = mandatory_ns.len() as u64;
        // Each frame begins a run; in a repeated file, runs continue past its end.
        let run = (MAX_SUMS / frames.max(1)).clamp(32, MAX_RUN_FRAMES);
        let run = if repeats { run } else { run.min(frames) };
        let mut sums = vec![0_u64; mandatory_ns.len()];
        let mut most_ns = vec![0];
        for length in 0..run {
            let mut most = 0;
            for (start, sum) in sums.iter_mut().enumerate() {
                let at = start as u64 + length;
                let at = if repeats { at % frames } else { at };
                let next = usize::try_from(at).ok().and_then(|at| mandatory_ns.get(at));
                *sum += next.copied().unwrap_or(0);
                most = most.max(*sum);
            }
            most_ns.push(most);
        }
        Self::of_runs(most_ns, longest_frame_ns, period_ns, deadline_ns)
    }

    /// Returns the demand of frames with bounded link times.
    ///
    /// Frames that are released in less than n periods, n from 1, take at most `most(n)` ns of the
    /// link. One frame takes at most `longest_frame_ns`.
    pub(crate) fn bounded(
        most: impl Fn(u64) -> u64,
        longest_frame_ns: u64,
        period_ns: u64,
        deadline_ns: u64,
    ) -> Self {
        let most_ns = std::iter::once(0).chain((1..=MAX_RUN_FRAMES).map(most)).collect();
        Self::of_runs(most_ns, longest_frame_ns, period_ns, deadline_ns)
    }

    fn of_runs(most_ns: Vec<u64>, longest_frame_ns: u64, period_ns: u64, deadline_ns: u64) -> Self {
        let run = most_ns.len() as u64 - 1;
        let whole = i128::from(*most_ns.last().unwrap_or(&0)) * WHOLE_LINK;
        let time = i128::from(period_ns.max(1)) * i128::from(run.max(1));
        let rate = (whole + time - 1) / time;
        let over = |(frames, most): (i128, &u64)| {
            i128::from(*most) * WHOLE_LINK - rate * frames * i128::from(period_ns)
        };
        let burst = (0..).zip(&most_ns).map(over).max().unwrap_or(0);
        Self { period_ns, deadline_ns, due_ns: deadline_ns, most_ns, longest_frame_ns, rate, burst }
    }

    /// Returns the demand of the same frames if they are served before all others.
    pub(crate) fn served_first(self) -> Self {
        Self { deadline_ns: 1, ..self }
    }

    /// Returns the largest link time of frames released and due in an interval of `time_ns`, ns. Of
    /// frames that are served first it counts all that are released before the interval's end.
    pub(crate) fn within_ns(&self, time_ns: u64) -> u64 {
        let Some(more_ns) = time_ns.checked_sub(self.deadline_ns) else { return 0 };
        let run = self.most_ns.len() as u64 - 1;
        if run == 0 {
            return 0;
        }
        let frames = more_ns / self.period_ns.max(1) + 1;
        let [whole, rest] =
            [run, frames % run].map(|n| self.most_ns[usize::try_from(n).unwrap_or(0)]);
        (frames / run).saturating_mul(whole).saturating_add(rest)
    }

    /// Returns the intercept of the linear bound of `within_ns`, in parts of [`WHOLE_LINK`].
    ///
    /// For any time t, `within_ns` of t is at most `rate` x t + this value.
    pub(crate) fn intercept(&self) -> i128 {
        let early_ns = i128::from(self.period_ns) - i128::from(self.deadline_ns);
        self.burst + self.rate * early_ns.max(0)
    }

    /// Returns the times up to `end_ns` at which `within_ns` grows, ns.
    pub(crate) fn steps_ns(&self, end_ns: u64) -> impl Iterator<Item = u64> + use<> {
        let period_ns = self.period_ns.max(1);
        std::iter::successors(Some(self.deadline_ns), move |time| time.checked_add(period_ns))
            .take_while(move |time| *time <= end_ns)
    }

    /// Returns the number of times that [`steps_ns`](Self::steps_ns) yields.
    pub(crate) fn steps(&self, end_ns: u64) -> u64 {
        end_ns.checked_sub(self.deadline_ns).map_or(0, |time| time / self.period_ns.max(1) + 1)
    }
}

/// Returns the link time of each frame until the choice repeats, ns; 0 for optional frames.
fn mandatory(media_file: &[FrameDemand], (lost, of): (u32, u32), repeats: bool) -> Vec<u64> {
    let frames = media_file.len() as u64;
    if frames == 0 {
        return Vec::new();
    }
    let common = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let rounds =
        if repeats { u64::from(of.max(1)) / common(frames, u64::from(of.max(1))) } else { 1 };
    let at = |number: u64| media_file[usize::try_from(number % frames).unwrap_or(0)];
    // If the choice takes too many rounds to repeat, every frame counts as mandatory.
    if frames * rounds > MAX_SUMS / 32 {
        return media_file.iter().map(|frame| frame.work_ns).collect();
    }
    let mut choice = Choice::new(lost, of);
    let work = |number| {
        if choice.is_optional(number, |number| at(number).importance) {
            0
        } else {
            at(number).work_ns
        }
    };
    (0..frames * rounds).map(work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Importance::{B, I, P};

    const FRAMES: [FrameDemand; 4] = [
        FrameDemand { work_ns: 40, importance: I },
        FrameDemand { work_ns: 10, importance: B },
        FrameDemand { work_ns: 20, importance: P },
        FrameDemand { work_ns: 10, importance: B },
    ];

    #[test]
    fn the_densest_run_excludes_optional_frames() {
        let all = Demand::new(&FRAMES, (0, 1), true, 100, 150);
        assert_eq!(all.most_ns[..7], [0, 40, 50, 70, 80, 120, 130]);
        // One of every three is optional: 40 - 20 | 10 40 - | 20 - 40 | 10 20 -.
        let some = Demand::new(&FRAMES, (1, 3), true, 100, 150);
        assert_eq!(some.most_ns[..7], [0, 40, 50, 70, 70, 110, 110]);
        let once = Demand::new(&FRAMES, (0, 1), false, 100, 150);
        assert_eq!(once.most_ns, [0, 40, 50, 70, 80]);
    }

    #[test]
    fn an_interval_counts_frames_both_released_and_due_in_it() {
        let demand = Demand::new(&FRAMES, (0, 1), true, 100, 150);
        let within = |time| demand.within_ns(time);
        assert_eq!([149, 150, 249, 250, 350].map(within), [0, 40, 40, 50, 70]);
        assert_eq!(demand.steps_ns(350).collect::<Vec<_>>(), [150, 250, 350]);
        assert_eq!((demand.steps(149), demand.steps(350)), (0, 3));
        // Beyond the longest run, every four frames take 80 ns.
        assert_eq!(within(150 + 100 * (4 * 5_000 - 1)), 80 * 5_000);
    }

    proptest::proptest! {
        #[test]
        fn the_linear_bound_is_above_the_demand(
            works in proptest::collection::vec((0u64..1_000_000, 0u32..4), 1..40),
            lost in 0u32..5, more in 0u32..5, repeats: bool, period_ns in 1u64..1_000_000,
            deadline_ns in 0u64..3_000_000, time_ns in 0u64..10_000_000_000,
        ) {
            let media_file: Vec<_> = works
                .into_iter()
                .map(|(work_ns, kind)| {
                    FrameDemand { work_ns, importance: Importance::from_number(kind) }
                })
                .collect();
            let window = (lost, lost + more);
            let demand = Demand::new(&media_file, window, repeats, period_ns, deadline_ns);
            let line = demand.rate * i128::from(time_ns) + demand.intercept();
            proptest::prop_assert!(i128::from(demand.within_ns(time_ns)) * WHOLE_LINK <= line);
        }
    }
}
