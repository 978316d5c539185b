//! Sojourn times by path, from a packet's reception until its device has taken it, and the
//! round-trip times of its TCP handshakes.
//!
//! A packet's buffer carries its path's slot and the time of its reception. Slots outlive reloads,
//! in which paths change their numbers. Every core assigns the same slots, since all apply the same
//! reloads.

use millstream_sync::histogram::SharedHistogram;
use std::collections::VecDeque;
use std::sync::Arc;

use std::hash::Hash;

use crate::ids::{IdVec, PacketHandle, PathId};
use crate::net::handshakes::Handshakes;
use crate::net::header::Header;
use crate::net::pool::Pool;

/// The bits of the time in a stamp: it wraps after three days. The slot is above them.
const TIME_BITS: u32 = 48;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// The sojourn times that this core has measured.
#[derive(Default)]
pub(super) struct PathDelays {
    /// The slot of each path.
    slots: IdVec<PathId, u16>,
    histograms: Vec<Arc<SharedHistogram>>,
    /// The round-trip times by slot. A handshake counts on the core that received its SYN-ACK.
    rtts: Vec<Arc<SharedHistogram>>,
    /// The recent SYNs of all cores.
    handshakes: Arc<Handshakes>,
    /// The slots without a path. The last in the queue became free last: packets of its path may
    /// still be at an output.
    free: VecDeque<u16>,
}

impl PathDelays {
    /// Switches to `paths` paths; path `n` was path `kept[n]` and keeps its histogram. An empty
    /// `kept` is the first file. Paths beyond the first 65,536 are not measured.
    pub(super) fn set_paths(&mut self, paths: usize, kept: &[Option<PathId>]) {
        let old = std::mem::take(&mut self.slots);
        let kept = |path: usize| old.get(kept.get(path).copied().flatten()?).copied();
        for path in 0..paths {
            let slot = kept(path).unwrap_or_else(|| self.new_slot());
            self.slots.push(slot);
        }
        let is_used = |slot: &u16| self.slots.iter().any(|used| used == slot);
        let unused: Vec<u16> = old.iter().copied().filter(|slot| !is_used(slot)).collect();
        self.free.extend(unused);
    }

    /// Returns a slot with an empty histogram.
    fn new_slot(&mut self) -> u16 {
        let slot = match self.free.pop_front() {
            Some(slot) => slot,
            None => {
                self.histograms.push(Arc::default());
                self.rtts.push(Arc::default());
                u16::try_from(self.histograms.len() - 1).unwrap_or(u16::MAX)
            }
        };
        for histograms in [&mut self.histograms, &mut self.rtts] {
            if let Some(histogram) = histograms.get_mut(usize::from(slot)) {
                *histogram = Arc::default();
            }
        }
        slot
    }

    /// Shares the recent SYNs of other cores.
    pub(super) fn share(&mut self, handshakes: &Arc<Handshakes>) {
        self.handshakes = Arc::clone(handshakes);
    }

    /// Returns the histogram of a path, if it has one.
    pub(super) fn histogram(&self, path: PathId) -> Option<&Arc<SharedHistogram>> {
        self.histograms.get(usize::from(*self.slots.get(path)?))
    }

    /// Returns the round-trip times of a path, if it has a histogram.
    pub(super) fn rtts(&self, path: PathId) -> Option<&Arc<SharedHistogram>> {
        self.rtts.get(usize::from(*self.slots.get(path)?))
    }

    /// Observes a classified packet: it may begin or answer a TCP handshake.
    #[inline]
    pub(super) fn observe<A: Hash + Copy>(
        &self,
        header: &Header<A>,
        frame: &[u8],
        path: PathId,
        now_ns: u64,
    ) {
        let slot = self.slots.get(path).copied().unwrap_or(u16::MAX);
        if let Some((slot, rtt_ns)) = self.handshakes.received(header, frame, slot, now_ns)
            && let Some(histogram) = self.rtts.get(usize::from(slot))
        {
            histogram.record(rtt_ns);
        }
    }

    /// Returns the stamp of packets that `path` receives at `now_ns`.
    #[inline]
    pub(super) fn stamp(&self, path: PathId, now_ns: u64) -> u64 {
        let slot = self.slots.get(path).copied().unwrap_or(u16::MAX);
        u64::from(slot) << TIME_BITS | now_ns & TIME
    }

    /// Counts the sojourn times of packets that a device took at `now_ns`.
    #[inline]
    pub(super) fn sent(&self, pool: &Pool, packets: &[PacketHandle], now_ns: u64) {
        if self.histograms.is_empty() {
            return;
        }
        // Counting equal stamps together cost more: packets of several paths alternate, which no
        // branch predicts.
        for packet in packets {
            self.record(pool.stamp(*packet), now_ns);
        }
    }

    #[inline]
    fn record(&self, stamp: u64, now_ns: u64) {
        if let Some(histogram) = self.histograms.get((stamp >> TIME_BITS) as usize) {
            histogram.record(now_ns.wrapping_sub(stamp) & TIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sync::histogram::TimeCounts;

    /// Returns the number of packets of a path and their sum of sojourn times, ns.
    fn measured(delays: &PathDelays, path: usize) -> (u64, u64) {
        let mut counts = TimeCounts::default();
        counts.add(delays.histogram(PathId(path)).unwrap());
        (counts.count(), counts.sum_ns())
    }

    #[test]
    fn packets_count_for_their_path_after_a_reload_has_renumbered_it() {
        let (mut delays, mut pool) = (PathDelays::default(), Pool::new(4));
        delays.set_paths(3, &[]);
        let packets = [0, 1, 2].map(|_| pool.copy(&[0; 60]).unwrap());
        for (path, packet) in packets.iter().enumerate() {
            pool.set_stamp(*packet, delays.stamp(PathId(path), 1_000));
        }
        delays.sent(&pool, &packets[..1], 1_500);
        assert_eq!([0, 1, 2].map(|path| measured(&delays, path)), [(1, 500), (0, 0), (0, 0)]);
        // Path 0 is new, path 1 was path 2, and path 2 was path 0. Path 1 was removed.
        delays.set_paths(3, &[None, Some(PathId(2)), Some(PathId(0))]);
        delays.sent(&pool, &packets[1..], 9_000);
        assert_eq!([0, 1, 2].map(|path| measured(&delays, path)), [(0, 0), (1, 8_000), (1, 500)]);
        // The removed path's slot has a new path now, with an empty histogram.
        delays.set_paths(4, &[Some(PathId(0)), Some(PathId(1)), Some(PathId(2)), None]);
        assert_eq!(measured(&delays, 3), (0, 0));
        assert_eq!(delays.histograms.len(), 4);
    }

    #[test]
    fn a_time_that_wraps_between_reception_and_transmission_is_measured() {
        let (mut delays, mut pool) = (PathDelays::default(), Pool::new(1));
        delays.set_paths(1, &[]);
        let packet = pool.copy(&[0; 60]).unwrap();
        pool.set_stamp(packet, delays.stamp(PathId(0), (5 << TIME_BITS) - 3));
        delays.sent(&pool, &[packet], (5 << TIME_BITS) + 4);
        assert_eq!(measured(&delays, 0), (1, 7));
    }

    #[test]
    fn a_path_without_a_slot_is_not_measured() {
        let (delays, mut pool) = (PathDelays::default(), Pool::new(1));
        let packet = pool.copy(&[0; 60]).unwrap();
        pool.set_stamp(packet, delays.stamp(PathId(7), 1_000));
        delays.sent(&pool, &[packet], 2_000);
        assert!(delays.histogram(PathId(7)).is_none());
    }
}
