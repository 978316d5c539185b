//! Places for connections: when all are taken, the oldest incomplete request gives its own up.
//!
//! ```text
//! accepted ── incomplete ── is_complete ──> being answered ──> done
//!                 └── all places are taken, it is the oldest and had GRACE: closed
//! ```
//! Connections without a request (slowloris) otherwise hold every place until each times out. A
//! client that sends its request at once needs less than [`GRACE`].

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// How long a request may be incomplete however many others wait.
const GRACE: Duration = Duration::from_millis(100);

/// All places.
#[derive(Clone)]
pub(super) struct Places(Rc<Shared>);

struct Shared {
    state: RefCell<State>,
    /// A place was given back.
    freed: Notify,
}

struct State {
    free: usize,
    /// The connection that is taken next.
    next: u64,
    /// Connections whose request is incomplete, the oldest first.
    incomplete: Vec<Incomplete>,
}

struct Incomplete {
    number: u64,
    since: Instant,
    connection: AbortHandle,
}

/// The place of one connection; given back when it is dropped.
pub(super) struct Place {
    places: Places,
    pub(super) number: u64,
}

impl Places {
    pub(super) fn new(free: usize) -> Self {
        let state = RefCell::new(State { free, next: 0, incomplete: Vec::with_capacity(free) });
        Self(Rc::new(Shared { state, freed: Notify::new() }))
    }

    /// Takes a place; when none is free, waits for one or closes the oldest incomplete request.
    pub(super) async fn take(&self) -> Place {
        loop {
            let oldest = {
                let mut state = self.0.state.borrow_mut();
                if state.free > 0 {
                    state.free -= 1;
                    let number = state.next;
                    state.next += 1;
                    return Place { places: self.clone(), number };
                }
                state.incomplete.first().map(|oldest| oldest.since + GRACE)
            };
            let freed = self.0.freed.notified();
            match oldest {
                None => freed.await,
                Some(at) => {
                    if timeout_at(at, freed).await.is_err() {
                        self.evict_oldest();
                        // One for one: the next is not closed before this one's place is free.
                        while self.0.state.borrow().free == 0 {
                            self.0.freed.notified().await;
                        }
                    }
                }
            }
        }
    }

    /// The connection that has place `number` is served by the task `connection`; its request is
    /// incomplete.
    pub(super) fn begins(&self, number: u64, connection: AbortHandle) {
        let since = Instant::now();
        self.0.state.borrow_mut().incomplete.push(Incomplete { number, since, connection });
    }

    /// Closes the connection whose request has been incomplete for longest; its place is free when
    /// its task ends.
    fn evict_oldest(&self) {
        let mut state = self.0.state.borrow_mut();
        if !state.incomplete.is_empty() {
            state.incomplete.remove(0).connection.abort();
        }
    }
}

impl Place {
    /// The request has come whole: the connection is not closed for another.
    pub(super) fn is_complete(&self) {
        let state = &mut *self.places.0.state.borrow_mut();
        state.incomplete.retain(|connection| connection.number != self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_complete();
        self.places.0.state.borrow_mut().free += 1;
        self.places.0.freed.notify_one();
    }
}
