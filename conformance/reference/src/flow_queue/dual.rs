//! DualPI2, from the text and pseudocode of RFC 9332, appendix A.
//!
//! Probabilities are rationals, rounded to 2^−48 as the engine states.

use num_rational::BigRational;

use super::aqm::{bounded, difference, ratio, rounded};
use super::{FlowArrival, FlowOutcome};

/// The parameters, with the names of the RFC; times in ns.
#[derive(Clone, Copy, Debug)]
pub struct DualSpec {
    /// target.
    pub target: u64,
    /// Tupdate.
    pub t_update: u64,
    /// alpha, thousandths of 1/s.
    pub alpha_milli: u32,
    /// beta, thousandths of 1/s.
    pub beta_milli: u32,
    /// k.
    pub k: u32,
    /// minTh.
    pub min_th: u64,
    /// range.
    pub range: u64,
    /// Th_len, packets.
    pub th_len: usize,
    /// The C queue's part, percent; or the time shift.
    pub schedule: Result<u32, u64>,
    /// The most bytes that wait.
    pub limit_bytes: u64,
    /// The most packets that wait.
    pub limit_packets: usize,
}

/// The two queues.
#[derive(Clone, Debug)]
pub struct DualModel {
    spec: DualSpec,
    lq: Vec<FlowArrival>,
    cq: Vec<FlowArrival>,
    p: BigRational,
    prevq: u64,
    next_update: u64,
    /// `count` of the C queue, and of the L queue for marks and for drops.
    counts: [BigRational; 3],
    /// The largest packet that was queued, bytes.
    mtu: u64,
    /// Bytes of the L queue times the C queue's percent, less bytes of the C queue times the rest.
    lead: i64,
}

impl DualModel {
    /// Returns empty queues.
    #[must_use]
    pub fn new(spec: DualSpec) -> Self {
        let zero = ratio(0, 1);
        Self {
            spec,
            lq: Vec::new(),
            cq: Vec::new(),
            p: zero.clone(),
            prevq: 0,
            next_update: 0,
            counts: [zero.clone(), zero.clone(), zero],
            mtu: 0,
            lead: 0,
        }
    }

    /// Returns the packets that wait.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.lq.len() + self.cq.len()
    }

    fn bytes(&self) -> u64 {
        self.lq.iter().chain(&self.cq).map(|of| u64::from(of.bytes)).sum()
    }

    /// Fires the timer as often as it is due: `dualpi2_update`.
    fn run_timer(&mut self, now: u64) {
        while self.next_update <= now {
            let at = self.next_update;
            let time =
                |q: &[FlowArrival]| q.first().map_or(0, |of| at.saturating_sub(of.arrival_ns));
            let curq = time(&self.lq).max(time(&self.cq));
            let per_ns = |milli: u32| ratio(milli.into(), 1_000_000_000_000);
            let step = per_ns(self.spec.alpha_milli) * difference(curq, self.spec.target)
                + per_ns(self.spec.beta_milli) * difference(curq, self.prevq);
            self.p = bounded(&self.p + rounded(&step, 48));
            self.prevq = curq;
            self.next_update += self.spec.t_update;
        }
    }

    /// `dualpi2_enqueue`.
    pub fn push(&mut self, packet: FlowArrival) -> Vec<FlowOutcome> {
        self.run_timer(packet.arrival_ns);
        let is_full = self.packets() + 1 > self.spec.limit_packets
            || self.bytes() + u64::from(packet.bytes) > self.spec.limit_bytes;
        if is_full {
            return vec![FlowOutcome::Full(packet.number)];
        }
        self.mtu = self.mtu.max(u64::from(packet.bytes));
        if packet.low_latency {
            self.lq.push(packet)
        } else {
            self.cq.push(packet)
        }
        Vec::new()
    }

    /// `dualpi2_dequeue`, with overload protection.
    pub fn pull(&mut self, now: u64) -> Vec<FlowOutcome> {
        self.run_timer(now);
        let p_c = rounded(&(&self.p * &self.p), 48);
        let p_cl = bounded(&self.p * ratio(self.spec.k.into(), 1));
        let p_c_max = rounded(&ratio(1, u128::from(self.spec.k).pow(2)), 48);
        let one = ratio(1, 1);
        let mut left = Vec::new();
        loop {
            if self.packets() == 0 {
                return left;
            }
            let is_lq = self.chooses_lq();
            // Appendix A.1: p_C and p_CL do not apply below 2 MTU in both queues, as in Linux.
            let is_short = self.bytes() < 2 * self.mtu;
            let (packet, drop, mark);
            if is_lq && is_short {
                packet = self.lq.remove(0);
                let native = self.laqm(now - packet.arrival_ns);
                (drop, mark) = (false, self.recur(1, native));
            } else if is_short {
                packet = self.cq.remove(0);
                (drop, mark) = (false, false);
            } else if is_lq {
                packet = self.lq.remove(0);
                if p_cl < one {
                    let native = self.laqm(now - packet.arrival_ns);
                    drop = false;
                    mark = self.recur(1, native.max(p_cl.clone()));
                } else {
                    drop = self.recur(2, p_c.clone());
                    mark = !drop && self.recur(1, p_cl.clone());
                }
            } else {
                packet = self.cq.remove(0);
                let signal = self.recur(0, p_c.clone());
                drop = signal && (!packet.capable || p_c >= p_c_max);
                mark = signal && !drop;
            }
            if drop {
                left.push(FlowOutcome::Dropped(packet.number));
                continue;
            }
            if let Ok(percent) = self.spec.schedule {
                let (bytes, percent) = (i64::from(packet.bytes), i64::from(percent));
                self.lead += if is_lq { bytes * percent } else { bytes * (percent - 100) };
                if is_lq && self.cq.is_empty() {
                    self.lead = self.lead.min(0);
                }
                if !is_lq && self.lq.is_empty() {
                    self.lead = self.lead.max(0);
                }
            }
            left.push(match mark {
                true => FlowOutcome::Marked(packet.number),
                false => FlowOutcome::Delivered(packet.number),
            });
            return left;
        }
    }

    fn chooses_lq(&self) -> bool {
        let (Some(l), Some(c)) = (self.lq.first(), self.cq.first()) else {
            return self.cq.is_empty();
        };
        match self.spec.schedule {
            Ok(_) => self.lead <= 0,
            Err(shift) => l.arrival_ns <= c.arrival_ns + shift,
        }
    }

    /// `laqm` of a packet that has left `lq`.
    fn laqm(&self, qdelay: u64) -> BigRational {
        if self.lq.len() < self.spec.th_len {
            ratio(0, 1)
        } else if qdelay >= self.spec.min_th + self.spec.range {
            ratio(1, 1)
        } else if qdelay <= self.spec.min_th {
            ratio(0, 1)
        } else {
            let above = u128::from(qdelay - self.spec.min_th);
            rounded(&ratio(above, self.spec.range.into()), 48)
        }
    }

    /// `recur`, which acts at a whole.
    fn recur(&mut self, count: usize, likelihood: BigRational) -> bool {
        self.counts[count] += likelihood;
        let acts = self.counts[count] >= ratio(1, 1);
        if acts {
            self.counts[count] -= ratio(1, 1);
        }
        acts
    }
}
