//! Requests that wait for something: for a publisher, or for a part of a live stream.
//!
//! A held request stays unread in its connection, so requests keep their order. Its connection is
//! served again when the request can be answered, or when its time is over.

/// A request that waits for `what`.
#[derive(Debug)]
struct HeldRequest<W> {
    connection: usize,
    what: W,
    until_ns: u64,
    /// Whether its connection is served again.
    is_due: bool,
}

/// The held requests of one kind.
#[derive(Debug)]
pub(crate) struct HeldRequests<W>(Vec<HeldRequest<W>>);

impl<W> Default for HeldRequests<W> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<W> HeldRequests<W> {
    /// Holds the next request of a connection until it is [due](Self::due), at `until_ns` at the
    /// latest.
    pub(crate) fn hold(&mut self, connection: usize, what: W, until_ns: u64) {
        self.0.push(HeldRequest { connection, what, until_ns, is_due: false });
    }

    /// Returns what the held requests wait for.
    pub(crate) fn wanted(&self) -> impl ExactSizeIterator<Item = &W> {
        self.0.iter().map(|held| &held.what)
    }

    /// Returns whether the next request of a connection is or was held.
    pub(crate) fn has(&self, connection: usize) -> bool {
        self.0.iter().any(|held| held.connection == connection)
    }

    /// Returns whether a request of the connection waits: its input must not be processed.
    pub(crate) fn is_waiting(&self, connection: usize) -> bool {
        self.0.iter().any(|held| held.connection == connection && !held.is_due)
    }

    /// Returns whether the next request of the connection was held. It was authenticated then.
    pub(crate) fn is_resumed(&self, connection: usize) -> bool {
        self.0.iter().any(|held| held.connection == connection && held.is_due)
    }

    /// Removes the held request of a connection that has closed.
    pub(crate) fn closed(&mut self, connection: usize) {
        self.0.retain(|held| held.connection != connection);
    }

    /// Removes the held request of a connection, if it was due: it has been answered.
    pub(crate) fn answered(&mut self, connection: usize) {
        self.0.retain(|held| held.connection != connection || !held.is_due);
    }

    /// Marks the requests that are ready or have timed out as due. Returns their connections.
    pub(crate) fn due(&mut self, is_ready: impl Fn(&W) -> bool, now_ns: u64) -> Vec<usize> {
        let mut due = Vec::new();
        for held in self.0.iter_mut().filter(|held| !held.is_due) {
            if now_ns >= held.until_ns || is_ready(&held.what) {
                held.is_due = true;
                due.push(held.connection);
            }
        }
        due
    }
}
