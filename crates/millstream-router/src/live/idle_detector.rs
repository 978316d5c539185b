//! Blocks an idle core in `poll(2)` until a packet arrives.
//!
//! Polling every device after each of the longest sleeps costs a few percent of a core. A core
//! blocks after an idle period if no packet is queued and every port has a file descriptor.

use millstream_sync::clock::system::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::BorrowedFd;

use crate::io::port::Port;
use crate::live::machine::LiveMachine;

/// The idle time after which a core may block, ns.
const IDLE_NS: u64 = 50_000;
/// The longest block, ns: bounds the delay of re-plugged interfaces and of shutdown.
const LONGEST_NS: u64 = 10_000_000;
/// The shortest block that is worth a system call, ns.
const SHORTEST_NS: u64 = 50_000;

/// Measures how long no packet has moved; holds the time of the last movement, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleDetector {
    since_ns: u64,
}

impl IdleDetector {
    /// Records that packets moved at `now_ns`: the idle period starts there.
    #[inline]
    pub(crate) fn ended(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Returns whether the idle time at `now_ns` is long enough to block.
    #[inline]
    pub(crate) fn is_long(&self, now_ns: u64) -> bool {
        self.for_ns(now_ns) >= IDLE_NS
    }

    /// Returns the idle time at `now_ns`, ns.
    #[inline]
    pub(crate) fn for_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.since_ns
    }

    /// Blocks until a port or another core has packets, or for `for_ns` from `now_ns`; returns
    /// whether it blocked. Call it only with no packet queued.
    pub(crate) fn wait<P: Port>(
        &mut self,
        machine: &mut LiveMachine<P>,
        now_ns: u64,
        for_ns: u64,
    ) -> bool {
        let for_ns = for_ns.min(LONGEST_NS);
        if !self.is_long(now_ns) || for_ns < SHORTEST_NS {
            return false;
        }
        let Some(arrivals) = machine.arrivals() else { return false };
        if !machine.remote_cores().begin_sleep() {
            machine.remote_cores().end_sleep();
            return false;
        }
        // SAFETY: the descriptors belong to `machine`, which keeps them open until this returns.
        #[allow(unsafe_code)]
        let borrowed = arrivals.into_iter().map(|of| unsafe { BorrowedFd::borrow_raw(of) });
        let borrowed: Vec<BorrowedFd> = borrowed.collect();
        let wanted = |of| PollFd::from_borrowed_fd(of, PollFlags::IN);
        let mut wanted: Vec<PollFd> = borrowed.into_iter().map(wanted).collect();
        // The caller polls every port next, whichever descriptor is ready.
        if poll(&mut wanted, Some(&timespec(for_ns))).is_ok_and(|ready| ready > 0) {
            self.since_ns = machine.clock_ns();
        }
        machine.remote_cores().end_sleep();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PacketHandle;
    use crate::live::{Classifier, Clock, Forwarder, MemoryPort, Pool, PortError};
    use std::io::{Write, pipe};
    use std::os::fd::RawFd;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// A port that signals arrivals through a pipe; without a pipe it cannot be polled.
    struct PipePort(Option<OwnedFd>);

    impl Port for PipePort {
        fn receive(
            &mut self,
            _: &mut Pool,
            _: usize,
            _: &mut Vec<PacketHandle>,
        ) -> Result<usize, PortError> {
            Ok(0)
        }

        fn transmit(&mut self, _: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
            Ok(packets.len())
        }

        fn arrivals(&self) -> Option<Vec<RawFd>> {
            self.0.as_ref().map(|of| vec![of.as_raw_fd()])
        }
    }

    fn machine<P: Port>(ports: Vec<P>) -> LiveMachine<P> {
        let (classifier, function) = (Classifier::new(Vec::new()), Forwarder::default());
        let mut machine = LiveMachine::new(Clock::default(), Pool::new(64), classifier, function);
        for port in ports {
            machine.add(port, [2; 6], millstream::Link::new(1 << 30, 0));
        }
        machine
    }

    #[test]
    fn it_blocks_only_after_an_idle_period_and_if_every_port_signals_arrivals() {
        let (reader, mut writer) = pipe().unwrap();
        let (silent, _silent_writer) = pipe().unwrap();
        let mut all = machine(vec![PipePort(Some(reader.into())), PipePort(Some(silent.into()))]);
        let mut idle_detector = IdleDetector::default();
        assert!(!idle_detector.wait(&mut all, IDLE_NS - 1, u64::MAX), "packets have just moved");
        assert!(!idle_detector.wait(&mut all, IDLE_NS, SHORTEST_NS - 1), "too short to block");
        assert!(idle_detector.wait(&mut all, IDLE_NS, SHORTEST_NS));
        assert_eq!(idle_detector.since_ns, 0, "no packet arrived");
        writer.write_all(&[1]).unwrap();
        assert!(idle_detector.wait(&mut all, IDLE_NS, u64::MAX));
        assert!(idle_detector.since_ns > 0, "a packet arrived");
        let (reader, _writer) = pipe().unwrap();
        let mut some = machine(vec![PipePort(Some(reader.into())), PipePort(None)]);
        let blocked = IdleDetector::default().wait(&mut some, IDLE_NS, u64::MAX);
        assert!(!blocked, "one port cannot signal arrivals");
        let mut memory = machine(vec![MemoryPort::default()]);
        assert!(!IdleDetector::default().wait(&mut memory, IDLE_NS, u64::MAX));
    }
}
