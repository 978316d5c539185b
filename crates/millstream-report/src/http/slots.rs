//! The limit of connections: when all slots are taken, the oldest incomplete request is closed.
//!
//! ```text
//! accepted ── incomplete ── mark_complete ──> being answered ──> done
//!                 └── no slot is free, this is the oldest, GRACE has passed: closed
//! ```
//! Without this rule, connections without a request (slowloris) hold every slot until they time
//! out. A client that sends its request immediately needs less than [`GRACE`].

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// The time during which an incomplete request is never closed for another connection.
const GRACE: Duration = Duration::from_millis(100);

/// The connection slots, shared by all tasks of the server.
#[derive(Clone)]
pub(super) struct ConnectionSlots(Rc<Shared>);

struct Shared {
    state: RefCell<State>,
    /// Notified when a slot becomes free.
    freed: Notify,
}

struct State {
    free: usize,
    /// The number of the next connection.
    next: u64,
    /// The connections with an incomplete request, the oldest first.
    incomplete: Vec<Incomplete>,
}

struct Incomplete {
    number: u64,
    since: Instant,
    connection: AbortHandle,
}

/// The slot of a connection; dropping it frees the slot.
pub(super) struct ConnectionSlot {
    slots: ConnectionSlots,
    pub(super) number: u64,
}

impl ConnectionSlots {
    pub(super) fn new(free: usize) -> Self {
        let state = RefCell::new(State { free, next: 0, incomplete: Vec::with_capacity(free) });
        Self(Rc::new(Shared { state, freed: Notify::new() }))
    }

    /// Takes a slot; if none is free, waits for one or closes the oldest incomplete request.
    pub(super) async fn take(&self) -> ConnectionSlot {
        loop {
            let oldest = {
                let mut state = self.0.state.borrow_mut();
                if state.free > 0 {
                    state.free -= 1;
                    let number = state.next;
                    state.next += 1;
                    return ConnectionSlot { slots: self.clone(), number };
                }
                state.incomplete.first().map(|oldest| oldest.since + GRACE)
            };
            let freed = self.0.freed.notified();
            match oldest {
                None => freed.await,
                Some(at) => {
                    if timeout_at(at, freed).await.is_err() {
                        self.evict_oldest();
                        // Waits for the slot of the closed connection before closing another.
                        while self.0.state.borrow().free == 0 {
                            self.0.freed.notified().await;
                        }
                    }
                }
            }
        }
    }

    /// Registers the task `connection` that serves slot `number`, with an incomplete request.
    pub(super) fn register(&self, number: u64, connection: AbortHandle) {
        let since = Instant::now();
        self.0.state.borrow_mut().incomplete.push(Incomplete { number, since, connection });
    }

    /// Closes the connection with the oldest incomplete request. Its slot is free once its task
    /// ends.
    fn evict_oldest(&self) {
        let mut state = self.0.state.borrow_mut();
        if !state.incomplete.is_empty() {
            state.incomplete.remove(0).connection.abort();
        }
    }
}

impl ConnectionSlot {
    /// Marks the request as complete: the connection is no longer closed for another one.
    pub(super) fn mark_complete(&self) {
        let state = &mut *self.slots.0.state.borrow_mut();
        state.incomplete.retain(|connection| connection.number != self.number);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.mark_complete();
        self.slots.0.state.borrow_mut().free += 1;
        self.slots.0.freed.notify_one();
    }
}
