//! Eligibility of streams: credits and token buckets.
//!
//! A head needs a credit for every 64 bytes begun, without overhead, and must conform to the token
//! bucket. The bucket counts lengths on the wire, in real time, by the theoretical arrival time
//! (TAT): a packet of length L conforms at `now` iff now >= TAT - b/ρ + L/ρ.

use num_rational::BigRational;

use super::model::StreamSpec;
use super::rule::{Packet, bytes_per_ns, whole};

/// Returns the credits that a packet of `bytes` bytes takes.
#[must_use]
pub fn credits_needed(bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(64)
}

/// A token bucket.
#[derive(Clone, Debug)]
struct Bucket {
    /// ρ, bytes/ns.
    rate: BigRational,
    /// b, bytes.
    burst: u64,
    /// ns.
    theoretical_arrival: BigRational,
}

impl Bucket {
    /// Returns the least time at which a packet of this length conforms; may be negative.
    fn conforming_from(&self, length: u64) -> BigRational {
        &self.theoretical_arrival - whole(self.burst) / &self.rate + whole(length) / &self.rate
    }

    fn charge(&mut self, now_ns: u64, length: u64) {
        let from = whole(now_ns).max(self.theoretical_arrival.clone());
        self.theoretical_arrival = from + whole(length) / &self.rate;
    }
}

/// The credits and the token bucket of a stream.
#[derive(Clone, Debug)]
pub struct Gate {
    credits: Option<u64>,
    bucket: Option<Bucket>,
}

impl Gate {
    /// Returns the initial gate.
    ///
    /// # Panics
    /// If a token bucket has no rate.
    #[must_use]
    pub fn new(spec: &StreamSpec) -> Self {
        let bucket = spec.shaper.map(|(rate_bps, burst)| {
            assert!(rate_bps > 0, "a token bucket needs a rate");
            Bucket { rate: bytes_per_ns(rate_bps), burst, theoretical_arrival: whole(0) }
        });
        Self { credits: spec.credits, bucket }
    }

    /// Returns whether the credits suffice for this head.
    #[must_use]
    pub fn has_credits(&self, head: &Packet) -> bool {
        self.credits.is_none_or(|credits| credits >= credits_needed(head.bytes))
    }

    /// Returns whether this head is eligible: the credits suffice and it conforms to the bucket.
    #[must_use]
    pub fn open(&self, head: &Packet, now_ns: u64) -> bool {
        let conforming = |bucket: &Bucket| whole(now_ns) >= bucket.conforming_from(head.length);
        self.has_credits(head) && self.bucket.as_ref().is_none_or(conforming)
    }

    /// Returns the first ns at which this head conforms to the bucket; `None` without a bucket, or
    /// if no such time is representable.
    #[must_use]
    pub fn release_ns(&self, head: &Packet) -> Option<u64> {
        let from = self.bucket.as_ref()?.conforming_from(head.length).max(whole(0));
        u64::try_from(from.ceil().to_integer()).ok()
    }

    /// Returns credits to the stream.
    pub fn add_credits(&mut self, credits: u64) {
        self.credits = self.credits.map(|held| held.saturating_add(credits));
    }

    /// Charges a packet that is put in service.
    pub fn charge(&mut self, packet: &Packet, now_ns: u64) {
        self.credits = self.credits.map(|held| held.saturating_sub(credits_needed(packet.bytes)));
        if let Some(bucket) = &mut self.bucket {
            bucket.charge(now_ns, packet.length);
        }
    }
}
