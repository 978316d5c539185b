//! How long a process waits for the CPU at most: [`CpuBound`].
//!
//! The CPU scheduler is WF²Q+ with two differences: tags of waiting runs are estimates, and a run
//! is charged when it ends. Let process j have the share φⱼ of all weights, runs of at most Lⱼ, and
//! estimates of at most Eⱼ; L is the longest run of all. A process that becomes eligible at t, and
//! stays so, begins the run that follows a service of A no later than
//!
//! ```text
//! t + (A + Lᵢ + Eᵢ)/φᵢ + L + 2·Σ Lⱼ over the other processes
//! ```
//!
//! *Proof.* Time is the sum of runs. V advances as fast as time, and leaps. Sⱼ and Fⱼ are the tags
//! of j's waiting run, Fⱼ by the estimate.
//!
//! *Lag.* Let Λ be the sum of φⱼ(V − Sⱼ), where a process that is not eligible counts with the tag
//! F of its last run in place of Sⱼ, and as 0 once V has passed that. Between the ends of runs, Λ
//! grows at most as fast as time. The end of a run takes its length from Λ. To become eligible does
//! not change Λ, to lose it does not increase it. A leap happens if no process has Sⱼ < V, and then
//! V becomes the least Sⱼ, so Λ ≤ 0. So Λ ≤ 0 at ends of runs. A run begins with Sⱼ ≤ V, so no tag
//! is more than Lⱼ/φⱼ after V. The positive terms of Λ are at most Σ Lⱼ, the negative ones' amount.
//!
//! *Delay.* Let f be the greatest Fᵢ of the runs of process i from t up to the one in question. At
//! t, Sᵢ ≤ V(t) + Lᵢ/φᵢ, so f ≤ V(t) + (Lᵢ + A + Eᵢ)/φᵢ. Let u ≥ t be the last time at which a run
//! with F > f begins.
//!
//! - No such u: after the run in progress at t, all runs have F ≤ f. Those of j take at most
//!   φⱼ(f − Sⱼ) and what the last one exceeds its estimate by, Lⱼ. The others take at most
//!   (1 − φᵢ)(f − V(t)), their lags at t, and Lⱼ each; i itself takes A. The lags are at most
//!   φᵢ(Sᵢ − V(t)) and Lⱼ of the others; the first part is in f, and −φᵢ(f − V(t)) cancels it.
//! - Otherwise let m be the process of that run. All other runs with F ≤ f that wait at u have
//!   S > V(u), since they were not chosen; later ones too. So only m may lag at u, by as much as in
//!   the first case. After the run of u, each j takes at most φⱼ(f − V(u)), its lag and Lⱼ. V(u) is
//!   at least V(t) + u − t.
//!
//! Source: Bennett and Zhang 1997, for exact tags.

use crate::ids::{IdVec, ProcessId};
use crate::router::cpu::FIRST_ESTIMATE_NS;

/// The weight of a process and its longest run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// The weight in the CPU scheduler, at least 1.
    pub weight: u32,
    /// The longest run, ns; 0 if it never runs.
    pub longest_run_ns: u64,
}

/// The processes of a CPU. Premises: no other program uses the CPU, and no process
/// [pauses](crate::Cpu::pause).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuBound {
    /// The processes, in the order of the CPU scheduler.
    pub processes: IdVec<ProcessId, ProcessLimits>,
}

impl CpuBound {
    /// Returns the longest time, ns, from when a process becomes eligible until it begins the run
    /// that follows `served_ns` of its service, while it stays eligible.
    ///
    /// # Panics
    /// Panics if there is no such process.
    #[must_use]
    pub fn start_ns(&self, process: ProcessId, served_ns: u64) -> u64 {
        let of = self.processes[process];
        let estimate_ns = of.longest_run_ns.max(FIRST_ESTIMATE_NS.into());
        let own_ns = u128::from(served_ns) + u128::from(of.longest_run_ns + estimate_ns);
        let weights: u128 = self.processes.iter().map(|of| u128::from(of.weight.max(1))).sum();
        // Tags are rounded: a nanosecond for each process covers that.
        let all_ns: u64 = self.processes.iter().map(|of| of.longest_run_ns.saturating_add(1)).sum();
        let others_ns = all_ns - of.longest_run_ns;
        let bound_ns = (own_ns * weights).div_ceil(u128::from(of.weight.max(1)))
            + u128::from(self.longest_run_ns())
            + 2 * u128::from(others_ns);
        u64::try_from(bound_ns).unwrap_or(u64::MAX)
    }

    /// Returns the longest run of all, ns.
    #[must_use]
    pub fn longest_run_ns(&self) -> u64 {
        self.processes.iter().map(|of| of.longest_run_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::cpu::Cpu;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A process of a test: its limits, the lengths of its runs in 1/255 of the longest, and the
    /// numbers of runs after which it stops being eligible.
    type Process = (u32, u64, Vec<u8>, Vec<u8>);

    fn process() -> impl Strategy<Value = Process> {
        let weight = prop_oneof![1..10_u32, 1..1_000_u32, Just(100_000)];
        let longest_ns = prop_oneof![1..3_000_u64, 1..100_000_u64];
        let length = prop_oneof![3 => Just(255_u8), 1 => Just(0), 2 => any::<u8>()];
        (weight, longest_ns, vec(length, 1..9), vec(1..30_u8, 1..6))
    }

    /// Returns the greatest part of the bound that a wait takes, in 1/1000.
    fn tightness(processes: &[Process], pauses_ns: &[u64]) -> u64 {
        let limits = |of: &Process| ProcessLimits { weight: of.0, longest_run_ns: of.1 };
        let bound = CpuBound { processes: processes.iter().map(limits).collect::<Vec<_>>().into() };
        let mut cpu = Cpu::default();
        let ids: Vec<_> = processes.iter().map(|of| cpu.add(of.0).unwrap()).collect();
        // Since when each is eligible, and its service since then; or when it becomes so.
        let mut since: Vec<Result<(u64, u64), u64>> = ids.iter().map(|_| Err(0)).collect();
        let mut runs = vec![(0_usize, 0_usize, 0_u8); ids.len()];
        let mut pauses_ns = pauses_ns.iter().cycle();
        let (mut now_ns, mut tightest) = (0, 0);
        for _ in 0..600 {
            for (at, of) in since.iter_mut().enumerate() {
                if of.is_err_and(|from_ns| from_ns <= now_ns) {
                    *of = Ok((now_ns, 0));
                    cpu.set_eligible(ids[at], now_ns, true);
                }
            }
            let Some(id) = cpu.choose(now_ns) else {
                // Idle time is no time of the CPU.
                since.fill(Err(now_ns));
                continue;
            };
            let (_, longest_ns, lengths, stays) = &processes[id.0];
            let (from_ns, served_ns) = since[id.0].unwrap();
            let most_ns = bound.start_ns(id, served_ns);
            assert!(now_ns - from_ns <= most_ns, "{id:?} waited {} of {most_ns}", now_ns - from_ns);
            tightest = tightest.max((now_ns - from_ns) * 1_000 / most_ns);
            let (length, stay, count) = &mut runs[id.0];
            let took_ns = longest_ns * u64::from(lengths[*length % lengths.len()]) / 255;
            *length += 1;
            *count += 1;
            now_ns += took_ns;
            let stops = *count >= stays[*stay % stays.len()];
            if stops {
                (*stay, *count) = (*stay + 1, 0);
                since[id.0] = Err(now_ns + pauses_ns.next().unwrap());
            } else {
                since[id.0] = Ok((from_ns, served_ns + took_ns));
            }
            cpu.finish(id, now_ns, took_ns, !stops);
        }
        tightest
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::test_cases(400)))]

        /// Checks random weights, runs, and times at which processes are not eligible.
        #[test]
        fn a_process_starts_within_its_bound(
            processes in vec(process(), 1..9),
            pauses_ns in vec(prop_oneof![Just(0_u64), 0..5_000_u64, 0..1_000_000_u64], 1..9),
        ) {
            prop_assert!(tightness(&processes, &pauses_ns) <= 1_000);
        }
    }

    #[test]
    fn the_bound_counts_each_term() {
        let limits = |weight, longest_run_ns| ProcessLimits { weight, longest_run_ns };
        let processes = vec![limits(1, 2_000), limits(3, 500), limits(4, 0)].into();
        let bound = CpuBound { processes };
        // (2000 + 2000)·8 + 2000 + 2·500, and 1 ns twice for each process.
        assert_eq!(bound.start_ns(ProcessId(0), 0), 32_000 + 2_000 + 1_000 + 6);
        assert_eq!(bound.start_ns(ProcessId(0), 10), 35_006 + 80);
        // The first estimate is longer than its runs.
        assert_eq!(bound.start_ns(ProcessId(1), 0), 4_000 + 2_000 + 4_000 + 6);
    }

    /// A process of a small share beside long runs with short estimates.
    #[test]
    fn a_wait_takes_half_of_the_bound() {
        let others = |weight| (weight, 1_000, vec![0, 0, 0, 0, 0, 0, 0, 255], vec![30]);
        let slow = (1, 1_000, vec![255], vec![1]);
        assert_eq!(tightness(&[slow, others(20), others(20), others(20)], &[0]), 513);
    }
}
