//! A port in memory: receives a list of frames repeatedly and counts, optionally keeps, what it
//! transmits.

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::net::pool::Pool;

/// A port in memory.
#[derive(Debug, Default)]
pub struct MemoryPort {
    frames: Vec<Vec<u8>>,
    next: usize,
    remaining: u64,
    transmitted: u64,
    kept: Option<Vec<Vec<u8>>>,
}

impl MemoryPort {
    /// Creates a port that receives `packets` packets, cycling through `frames`.
    #[must_use]
    pub fn new(frames: Vec<Vec<u8>>, packets: u64) -> Self {
        let remaining = if frames.is_empty() { 0 } else { packets };
        Self { frames, next: 0, remaining, transmitted: 0, kept: None }
    }

    /// Keeps transmitted frames.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.kept = Some(Vec::new());
        self
    }

    /// Returns the number of transmitted packets.
    #[must_use]
    pub fn transmitted(&self) -> u64 {
        self.transmitted
    }

    /// Returns the transmitted frames; empty unless [`keeping`](Self::keeping) was called.
    #[must_use]
    pub fn kept(&self) -> &[Vec<u8>] {
        self.kept.as_deref().unwrap_or(&[])
    }
}

impl Port for MemoryPort {
    #[inline]
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let most = most.min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let mut count = 0;
        while count < most
            && pool.free() > 0
            && let Some(frame) = self.frames.get(self.next)
        {
            into.extend(pool.copy(frame));
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
            count += 1;
        }
        self.remaining -= count as u64;
        Ok(count)
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        for packet in packets {
            if let Some(kept) = &mut self.kept {
                kept.push(pool.wire(*packet).to_vec());
            }
            pool.release(*packet);
        }
        self.transmitted += packets.len() as u64;
        Ok(packets.len())
    }

    fn ended(&self) -> bool {
        self.remaining == 0
    }
}
