//! Who may play: a client is admitted if the link can carry what it and all others must get.
//!
//! What a client must get are its mandatory frames, at their mean rate. That the sum fits the link is
//! necessary for every contract to be kept, and not sufficient: frames come in bursts, and deadlines
//! leave only so much time to even them out. What goes wrong nevertheless is counted as violations.

/// The link and what is reserved of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// Bits/s.
    pub(crate) link_bps: u64,
    /// Bits/s.
    pub(crate) reserved_bps: u64,
}

impl Admission {
    /// Whether a client that must get `bps` can be admitted.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn admits(&self, bps: u64) -> Result<(), String> {
        let free_bps = self.link_bps.saturating_sub(self.reserved_bps);
        if bps <= free_bps {
            return Ok(());
        }
        Err(format!(
            "this stream must get {bps} bits/s, its optional frames not counted; of the link's {} \
             bits/s {} are reserved and {free_bps} are free",
            self.link_bps, self.reserved_bps
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_may_be_full_and_not_fuller() {
        let admission = Admission { link_bps: 100, reserved_bps: 60 };
        assert_eq!(admission.admits(40), Ok(()));
        let reason = admission.admits(41).unwrap_err();
        assert!(reason.contains("41 bits/s") && reason.contains("40 are free"), "{reason}");
        assert!(Admission { link_bps: 5, reserved_bps: 9 }.admits(1).is_err());
    }
}
