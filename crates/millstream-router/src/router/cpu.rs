//! The CPU scheduler: WF²Q+ over reservations of cycles, charged after each run.
//!
//! The engine's WF²Q+ treats a nanosecond of CPU time as a byte, and the CPU as a link of one byte
//! per nanosecond. The length of a run is known only when it ends. So a process is tagged with the
//! average of its recent runs, and its next start tag is corrected afterwards. The gate of a
//! process that is not eligible is closed: the eligible processes share its time, and it
//! accumulates no credit. Source: Router paper, sections 2.2 and 3.1.

use millstream::selector::{NewHead, Select, Selector};
use millstream::{
    Activation, Contract, ContractError, Discipline, Head, Link, StreamId, Waiting, Wf2qPlus,
    WinnerTree,
};

use crate::ids::{IdVec, ProcessId};

/// The weight of the last error in the estimate of the next run: 1/2^3.
const ESTIMATE_SHIFT: u32 = 3;
/// The estimate of a process' first run, ns.
pub(super) const FIRST_ESTIMATE_NS: u32 = 1_000;
/// The backlog of an eligible process: one run of unknown length.
const ONE_RUN: Waiting = Waiting { packets: 1, bytes: 0, framing_bytes: 0 };

#[derive(Clone, Copy, Debug)]
struct Slot {
    eligible: bool,
    /// The expected length of the next run, ns.
    estimate_ns: u32,
    /// Whether the process has work, but waits for more before it is eligible again.
    paused: bool,
}

/// The CPU scheduler.
///
/// ```
/// use millstream_router::Cpu;
///
/// let mut cpu = Cpu::default();
/// let [one, three] = [cpu.add(1)?, cpu.add(3)?];
/// let mut used_ns = [0, 0];
/// let mut now_ns = 0;
/// cpu.set_eligible(one, 0, true);
/// cpu.set_eligible(three, 0, true);
/// while let Some(process) = cpu.choose(now_ns).filter(|_| now_ns < 4_000_000) {
///     let took_ns = 700; // measured by the caller
///     now_ns += took_ns;
///     used_ns[process.0] += took_ns;
///     cpu.finish(process, now_ns, took_ns, true);
/// }
/// assert!(used_ns[three.0].abs_diff(3 * used_ns[one.0]) < 10 * 700);
/// # Ok::<(), millstream::ContractError>(())
/// ```
#[derive(Debug)]
pub struct Cpu {
    selector: Selector<Wf2qPlus, WinnerTree<<Wf2qPlus as Discipline>::Rank>>,
    slots: IdVec<ProcessId, Slot>,
    eligible: usize,
    /// The process that runs; its eligibility is updated when the run ends.
    running: Option<ProcessId>,
}

impl Default for Cpu {
    fn default() -> Self {
        let link = Link::new(8_000_000_000, 0);
        Self {
            selector: Selector::new(Wf2qPlus::new(link, 0), WinnerTree::default()),
            slots: IdVec::new(),
            eligible: 0,
            running: None,
        }
    }
}

impl Cpu {
    /// Adds a process that is not eligible yet; its number is the count of processes before it. All
    /// reservations have one unit, for example thousands of cycles per second.
    ///
    /// # Errors
    /// Fails if there are 2³² − 1 processes.
    pub fn add(&mut self, reservation: u32) -> Result<ProcessId, ContractError> {
        let stream = self.selector.add_stream(&Contract::new().weight(reservation.max(1))?)?;
        let first = FIRST_ESTIMATE_NS;
        self.slots.push(Slot { eligible: false, estimate_ns: first, paused: false });
        self.selector.became_backlogged(stream, head(first, false));
        Ok(ProcessId(stream.index()))
    }

    /// Returns whether `process` is eligible.
    ///
    /// # Panics
    /// Panics if it was not added.
    #[inline]
    #[must_use]
    pub fn eligible(&self, process: ProcessId) -> bool {
        self.slots[process].eligible
    }

    /// Makes `process` eligible or not from `now_ns` on; without effect while it runs.
    ///
    /// # Panics
    /// Panics if it was not added.
    #[inline]
    pub fn set_eligible(&mut self, process: ProcessId, now_ns: u64, eligible: bool) {
        if self.slots[process].eligible == eligible || self.running == Some(process) {
            return;
        }
        self.slots[process].eligible = eligible;
        let stream = id(process);
        if eligible {
            self.selector.advance(now_ns);
            if self.eligible == 0 {
                self.selector.idle();
            }
            self.eligible += 1;
            // A process that waited for its batch keeps its tag, so it does not lose service.
            let paused = std::mem::take(&mut self.slots[process].paused);
            let opened = Activation::Opened { waiting: ONE_RUN };
            self.selector.open(stream, if paused { Activation::Next } else { opened });
        } else {
            self.eligible -= 1;
            self.selector.close(stream);
        }
    }

    /// Pauses `process`, which waits although it has work: it keeps its tag.
    ///
    /// # Panics
    /// Panics if it was not added.
    #[inline]
    pub fn pause(&mut self, process: ProcessId) {
        self.slots[process].paused = true;
    }

    #[cfg(test)]
    pub(crate) fn paused(&self, process: ProcessId) -> bool {
        self.slots[process].paused
    }

    /// Selects the process that runs from `now_ns` on; `None` if none is eligible. Call
    /// [`finish`](Self::finish) after its run.
    #[inline]
    pub fn choose(&mut self, now_ns: u64) -> Option<ProcessId> {
        self.selector.advance(now_ns);
        let stream = self.selector.select(now_ns, &mut NoBacklog, &mut ())?;
        self.running = Some(ProcessId(stream.index()));
        self.running
    }

    /// Ends the run of `process`, chosen last, at `now_ns`, and charges it `took_ns`. `eligible`
    /// tells whether it may run again.
    ///
    /// # Panics
    /// Panics if the process was not added.
    #[inline]
    pub fn finish(&mut self, process: ProcessId, now_ns: u64, took_ns: u64, eligible: bool) {
        let slot = &mut self.slots[process];
        let took_ns = u32::try_from(took_ns).unwrap_or(u32::MAX);
        let next = head(slot.estimate_ns, eligible);
        slot.estimate_ns = if took_ns > slot.estimate_ns {
            slot.estimate_ns + ((took_ns - slot.estimate_ns) >> ESTIMATE_SHIFT)
        } else {
            slot.estimate_ns - ((slot.estimate_ns - took_ns) >> ESTIMATE_SHIFT)
        }
        .max(1);
        slot.eligible = eligible;
        self.eligible -= usize::from(!eligible);
        self.running = None;
        // The head is resized to the run's measured length before it departs.
        let stream = id(process);
        self.selector.resize(stream, took_ns);
        self.selector.served(stream, now_ns);
        self.selector.head_departed(stream, Some(next));
        self.selector.advance(now_ns);
    }
}

#[inline]
fn id(process: ProcessId) -> StreamId {
    StreamId(u32::try_from(process.0).unwrap_or(u32::MAX))
}

#[inline]
fn head(bytes: u32, open: bool) -> NewHead<()> {
    NewHead { head: Head { arrival_ns: 0, bytes }, stamp: (), open }
}

/// Runs have no deadlines, so none is ever dropped.
struct NoBacklog;

impl millstream::selector::Backlog<()> for NoBacklog {
    fn drop_head(
        &mut self,
        _: StreamId,
        _: u64,
        _: Option<u64>,
        _: &mut (impl millstream::Observer + ?Sized),
    ) -> Option<NewHead<()>> {
        None
    }
}
