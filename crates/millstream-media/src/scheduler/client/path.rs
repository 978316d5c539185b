//! The path to a WebRTC viewer: a token bucket at the rate that the viewer's feedback shows.
//!
//! A mandatory frame always passes and takes its bits, into debt if need be. An optional frame
//! passes only if its bits are there: so optional frames are the first to be dropped when the path
//! is slower than the stream.

/// The time at the path's rate for which the bucket holds credit, and debt, ns.
const BURST_NS: u64 = 500_000_000;

/// The bucket of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathBucket {
    /// The credit, bits; negative: debt.
    bits: i64,
    /// When the credit was last computed, ns.
    at_ns: u64,
}

impl PathBucket {
    /// Returns whether a path of `rate_bps` admits a frame of `bytes` bytes at `now_ns`, and
    /// charges the frame. A rate of 0 is unknown and admits every frame.
    pub(super) fn admits(
        &mut self,
        rate_bps: u64,
        bytes: u32,
        optional: bool,
        now_ns: u64,
    ) -> bool {
        if rate_bps == 0 {
            return true;
        }
        let bits_in = |time_ns: u64| {
            let bits = u128::from(rate_bps) * u128::from(time_ns) / 1_000_000_000;
            i64::try_from(bits).unwrap_or(i64::MAX)
        };
        let most = bits_in(BURST_NS);
        let gained = bits_in(now_ns.saturating_sub(self.at_ns));
        let credit = self.bits.saturating_add(gained).min(most);
        let cost = i64::from(bytes) * 8;
        self.at_ns = now_ns;
        let admitted = !optional || credit >= cost;
        self.bits = if admitted { (credit - cost).max(-most) } else { credit };
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Sends frames of `bytes` bytes, one per 40 ms for 10 s, every second optional. Returns the
    /// numbers of mandatory and optional frames that pass.
    fn passed(rate_bps: u64, bytes: u32) -> [u32; 2] {
        let mut path = PathBucket::default();
        let mut passed = [0; 2];
        for number in 0..250 {
            let optional = number % 2 == 1;
            let passes = path.admits(rate_bps, bytes, optional, 5_000 * MS + number * 40 * MS);
            passed[usize::from(optional)] += u32::from(passes);
        }
        passed
    }

    #[test]
    fn optional_frames_get_what_mandatory_frames_leave() {
        // 25 frames/s of 5,000 bytes are 1 Mbit/s, the mandatory ones half of it.
        assert_eq!(passed(0, 5_000), [125, 125]);
        assert_eq!(passed(1_000_000, 5_000), [125, 125]);
        // The burst, 0.5 s at the rate, is for optional frames, too: 9 of 40,000 bits.
        assert_eq!(passed(750_000, 5_000), [125, 62 + 9]);
        assert_eq!(passed(400_000, 5_000)[0], 125);
        assert!(passed(400_000, 5_000)[1] <= 5, "only the burst");
    }

    #[test]
    fn debt_is_bounded() {
        let mut path = PathBucket::default();
        for _ in 0..100 {
            assert!(path.admits(1_000_000, 125_000, false, 10_000 * MS));
        }
        // 500,000 bits of debt are gone in 0.5 s, and 1,000 more bits take 1 ms.
        assert!(!path.admits(1_000_000, 125, true, 10_500 * MS));
        assert!(path.admits(1_000_000, 125, true, 10_501 * MS));
    }
}
