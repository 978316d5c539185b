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
    /// Credits by link and channel, at `UNDER_WAY`, `BUFFERED` and `COMING_BACK`.
    places: Vec<[u32; 3]>,
}

const UNDER_WAY: usize = 0;
const BUFFERED: usize = 1;
const COMING_BACK: usize = 2;

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
    fn moved(
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
        let out: u32 = places.iter().sum();
        assert!(out <= capacity, "link {link}, channel {channel}: {places:?} of {capacity}");
    }

    #[inline]
    pub(super) fn sent(&mut self, link: u32, channel: u8, credits: u32) {
        self.moved(link, channel, credits, None, Some(UNDER_WAY));
    }

    #[inline]
    pub(super) fn ready(&mut self, link: u32, channel: u8, credits: u32) {
        self.moved(link, channel, credits, Some(UNDER_WAY), Some(BUFFERED));
    }

    #[inline]
    pub(super) fn left(&mut self, link: u32, channel: u8, credits: u32) {
        self.moved(link, channel, credits, Some(BUFFERED), Some(COMING_BACK));
    }

    #[inline]
    pub(super) fn returned(&mut self, link: u32, channel: u8, credits: u32) {
        self.moved(link, channel, credits, Some(COMING_BACK), None);
    }

    /// Checks that every credit is back at its sender, once no event is left.
    pub(super) fn at_rest(&self) {
        let out = self.places.iter().position(|places| *places != [0; 3]);
        assert!(out.is_none(), "credits are missing at place {out:?} of links and channels");
    }
}
