//! Accounts of all credits, checked at every event in debug builds and absent in release builds.
//!
//! ```text
//! sender's ── sent ──> in flight ── ready ──> in the input's buffer
//!    ── left ──> returning ── returned ──> sender's
//! ```

/// The number of credits of each link and channel that are not at the sender, by place.
#[derive(Debug)]
pub(super) struct CreditAccounts {
    channels: usize,
    /// Size of an input buffer, credits; `None` without flow control.
    capacity: Option<u32>,
    /// Credits by link and channel, at `IN_FLIGHT`, `BUFFERED` and `RETURNING`.
    places: Vec<[u32; 3]>,
}

const IN_FLIGHT: usize = 0;
const BUFFERED: usize = 1;
const RETURNING: usize = 2;

impl CreditAccounts {
    pub(super) fn new(links: usize, channels: usize, capacity: Option<u32>) -> Self {
        let kept = if cfg!(debug_assertions) { links * channels } else { 0 };
        Self { channels, capacity, places: vec![[0; 3]; kept] }
    }

    /// Returns the number of channels of each link.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// Moves credits between places; `None` is the sender.
    #[inline]
    fn transfer(
        &mut self,
        link: u32,
        channel: u8,
        credits: u32,
        from: Option<usize>,
        to: Option<usize>,
    ) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(capacity) = self.capacity else { return };
        let places = &mut self.places[link as usize * self.channels + usize::from(channel)];
        if let Some(from) = from {
            let left = places[from].checked_sub(credits);
            assert!(left.is_some(), "link {link}, channel {channel}: {credits} of {places:?}");
            places[from] -= credits;
        }
        if let Some(to) = to {
            places[to] += credits;
        }
        let [in_flight, buffered, returning] = *places;
        let out = in_flight + buffered + returning;
        assert!(out <= capacity, "link {link}, channel {channel}: {places:?} of {capacity}");
    }

    #[inline]
    pub(super) fn sent(&mut self, link: u32, channel: u8, credits: u32) {
        self.transfer(link, channel, credits, None, Some(IN_FLIGHT));
    }

    #[inline]
    pub(super) fn ready(&mut self, link: u32, channel: u8, credits: u32) {
        self.transfer(link, channel, credits, Some(IN_FLIGHT), Some(BUFFERED));
    }

    #[inline]
    pub(super) fn left(&mut self, link: u32, channel: u8, credits: u32) {
        self.transfer(link, channel, credits, Some(BUFFERED), Some(RETURNING));
    }

    #[inline]
    pub(super) fn returned(&mut self, link: u32, channel: u8, credits: u32) {
        self.transfer(link, channel, credits, Some(RETURNING), None);
    }

    /// Checks that every credit is back at its sender; called when no event is left.
    pub(super) fn assert_all_returned(&self) {
        let out = self.places.iter().position(|places| *places != [0; 3]);
        assert!(out.is_none(), "unreturned credits: index {out:?} by link and channel");
    }
}
