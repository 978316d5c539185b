//! A scheduler behind the C functions, as tests use it.
#![allow(unsafe_code)]

use millstream_c::*;
use std::ffi::{CStr, CString};
use std::ptr;

/// A handle that is freed at the end.
pub(crate) struct Handle(pub(crate) *mut Scheduler);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and freed here only.
        unsafe { ms_scheduler_free(self.0) }
    }
}

/// Returns the default contract.
pub(crate) fn contract() -> Contract {
    Contract::default()
}

impl Handle {
    /// Makes a scheduler; `names` are the discipline and the structure, null if empty. An error is
    /// its code and message.
    pub(crate) fn new(
        names: (&str, &str),
        options: Options,
        contracts: &[Contract],
    ) -> Result<Self, (Status, String)> {
        let (discipline, structure) = (CString::new(names.0), CString::new(names.1));
        let (discipline, structure) = (discipline.unwrap(), structure.unwrap());
        let discipline = if names.0.is_empty() { ptr::null() } else { discipline.as_ptr() };
        let structure = if names.1.is_empty() { ptr::null() } else { structure.as_ptr() };
        let options = Options { discipline, structure, ..options };
        let mut scheduler = ptr::null_mut();
        let mut message = [1; MS_MESSAGE_BYTES as usize];
        // SAFETY: all pointers are to live values of the stated number.
        let status = unsafe {
            let contracts = (contracts.as_ptr(), contracts.len());
            let message = (message.as_mut_ptr(), message.len());
            ms_scheduler_new(
                &raw const options,
                contracts.0,
                contracts.1,
                &raw mut scheduler,
                message.0,
                message.1,
            )
        };
        if status == MS_OK {
            assert!(!scheduler.is_null());
            return Ok(Self(scheduler));
        }
        assert!(scheduler.is_null());
        // SAFETY: the library ends a message with a zero.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        Err((status, message.to_str().unwrap().to_owned()))
    }

    pub(crate) fn enqueue(&self, stream: u32, handle: u64, bytes: u32, now_ns: u64) -> Status {
        // SAFETY: the handle is live.
        unsafe { ms_enqueue(self.0, stream, handle, bytes, now_ns) }
    }

    pub(crate) fn enqueue_packet(&self, packet: &Packet, now_ns: u64) -> Status {
        // SAFETY: the handle is live.
        unsafe { ms_enqueue_packet(self.0, packet, now_ns) }
    }

    /// Returns the dropped packets of a burst.
    pub(crate) fn enqueue_burst(
        &self,
        packets: &mut [Packet],
        now_ns: u64,
    ) -> Result<usize, Status> {
        let mut refused = usize::MAX;
        // SAFETY: the handle is live, and the packets are as many as stated.
        let status = unsafe {
            let (first, count) = (packets.as_mut_ptr(), packets.len());
            ms_enqueue_burst(self.0, first, count, now_ns, &raw mut refused)
        };
        if status == MS_OK { Ok(refused) } else { Err(status) }
    }

    pub(crate) fn dequeue(&self, now_ns: u64) -> Result<Option<Decision>, Status> {
        let mut decision = Decision::default();
        // SAFETY: the handle is live.
        match unsafe { ms_dequeue(self.0, now_ns, &raw mut decision) } {
            MS_OK => Ok(Some(decision)),
            MS_EMPTY => Ok(None),
            error => Err(error),
        }
    }

    /// Writes decisions to `decisions`; returns their number.
    pub(crate) fn dequeue_burst(
        &self,
        now_ns: u64,
        decisions: &mut [Decision],
    ) -> Result<usize, Status> {
        let mut count = usize::MAX;
        // SAFETY: the handle is live, and the decisions are as many as stated.
        let status = unsafe {
            let (first, most) = (decisions.as_mut_ptr(), decisions.len());
            ms_dequeue_burst(self.0, now_ns, first, most, &raw mut count)
        };
        if status == MS_OK { Ok(count) } else { Err(status) }
    }

    /// Writes drops to `decisions`; returns their number.
    pub(crate) fn take_drops(&self, decisions: &mut [Decision]) -> usize {
        let mut count = usize::MAX;
        // SAFETY: the handle is live, and the decisions are as many as stated.
        let status = unsafe {
            let (first, most) = (decisions.as_mut_ptr(), decisions.len());
            ms_take_drops(self.0, first, most, &raw mut count)
        };
        assert_eq!(status, MS_OK);
        count
    }

    pub(crate) fn next_eligible_ns(&self) -> Option<u64> {
        let mut time_ns = 0;
        // SAFETY: the handle is live.
        let status = unsafe { ms_next_eligible(self.0, &raw mut time_ns) };
        assert_eq!(status == MS_EMPTY, time_ns == MS_NONE);
        (status == MS_OK).then_some(time_ns)
    }

    pub(crate) fn set_eligible(&self, stream: u32, eligible: bool, now_ns: u64) -> Status {
        // SAFETY: the handle is live.
        unsafe { ms_set_eligible(self.0, stream, eligible.into(), now_ns) }
    }

    pub(crate) fn add_credits(&self, stream: u32, credits: u64, now_ns: u64) -> Status {
        // SAFETY: the handle is live.
        unsafe { ms_add_credits(self.0, stream, credits, now_ns) }
    }

    pub(crate) fn charge(&self, stream: u32, extra_bytes: i64, now_ns: u64) -> Status {
        // SAFETY: the handle is live.
        unsafe { ms_charge(self.0, stream, extra_bytes, now_ns) }
    }

    pub(crate) fn counters(&self, stream: u32) -> Result<Counters, Status> {
        let mut counters = Counters::default();
        // SAFETY: the handle is live.
        let status = unsafe { ms_stream_counters(self.0, stream, &raw mut counters) };
        if status == MS_OK { Ok(counters) } else { Err(status) }
    }

    pub(crate) fn backlog(&self) -> u64 {
        // SAFETY: the handle is live.
        unsafe { ms_backlog(self.0) }
    }

    pub(crate) fn pending_drops(&self) -> usize {
        // SAFETY: the handle is live.
        unsafe { ms_pending_drops(self.0) }
    }
}
