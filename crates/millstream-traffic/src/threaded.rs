//! A feed that reads ahead in its own thread, so parsing overlaps with scheduling.
//!
//! Arrivals cross a bounded channel in batches. The reader is at most a few batches ahead, so
//! memory is bounded, and the synchronisation cost is paid once per batch. Empty batches return to
//! the reader for reuse. If the reader stops without a final message, it has panicked: that is an
//! error, not the end of the feed.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::arrival::{Arrival, Feed, TrafficError};

const BATCH: usize = 4096;
const BATCHES_AHEAD: usize = 8;

/// A wrapper that reads another feed in a thread.
///
/// The thread ends with the feed or, after this is dropped, at the end of its batch. The drop does
/// not wait for the thread: the feed may block on a silent pipe.
pub struct Threaded {
    full: Receiver<Message>,
    empty: Sender<Vec<Arrival>>,
    /// Arrivals in reverse order: the next one is last.
    batch: Vec<Arrival>,
    /// Result after `batch` once the reader has stopped: an error once, then the end.
    stopped: Option<Result<(), TrafficError>>,
}

enum Message {
    Batch(Vec<Arrival>),
    Stopped(Result<(), TrafficError>),
}

impl Threaded {
    /// Starts a thread that reads `feed`. If no thread can start, the first arrival is an error.
    #[must_use]
    pub fn new(feed: Box<dyn Feed>) -> Self {
        let (sender, full) = sync_channel(BATCHES_AHEAD);
        let (empty, returned) = channel();
        let started = thread::Builder::new()
            .name("reader".into())
            .spawn(move || read(feed, &sender, &returned));
        let stopped = started.err().map(|error| {
            Err(TrafficError::new(format!("cannot start a thread that reads the sources: {error}")))
        });
        Self { full, empty, batch: Vec::new(), stopped }
    }

    /// Receives the next message, or the end of the feed.
    #[cold]
    fn refill(&mut self) {
        match self.full.recv() {
            Ok(Message::Batch(batch)) => {
                let used = std::mem::replace(&mut self.batch, batch);
                // The send fails if the reader has stopped; it then needs no batches.
                let _ = self.empty.send(used);
            }
            Ok(Message::Stopped(how)) => self.stopped = Some(how),
            Err(_) => {
                let panicked = TrafficError::new("the reader of a source stopped unexpectedly");
                self.stopped = Some(Err(panicked.help("this is a bug: please report it")));
            }
        }
    }
}

/// Reads until the feed ends or fails, or the receiver is dropped.
fn read(mut feed: Box<dyn Feed>, full: &SyncSender<Message>, empty: &Receiver<Vec<Arrival>>) {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        batch.reserve(BATCH);
        let stopped = loop {
            match feed.next_arrival() {
                Ok(Some(arrival)) => batch.push(arrival),
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
            if batch.len() == BATCH {
                break None;
            }
        };
        batch.reverse();
        if full.send(Message::Batch(batch)).is_err() {
            return;
        }
        if let Some(how) = stopped {
            // A dropped receiver is not an error.
            let _ = full.send(Message::Stopped(how));
            return;
        }
    }
}

impl Feed for Threaded {
    #[inline]
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        loop {
            *next = self.batch.pop();
            if next.is_some() {
                return Ok(());
            }
            if let Some(how) = &mut self.stopped {
                return std::mem::replace(how, Ok(()));
            }
            self.refill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cbr;

    #[test]
    fn arrivals_keep_their_order_and_early_drop_is_allowed() {
        let cbr = || Box::new(Cbr::with_interval(3, 7, 1, 0, 20_001));
        let (mut direct, mut threaded) = (cbr(), Threaded::new(cbr()));
        for _ in 0..=20_001 {
            assert_eq!(direct.next_arrival().unwrap(), threaded.next_arrival().unwrap());
        }
        assert_eq!(threaded.next_arrival().unwrap(), None);
        drop(Threaded::new(cbr()));
    }

    #[test]
    fn a_reader_that_panics_is_an_error_and_not_the_end() {
        struct Panicking;
        impl Feed for Panicking {
            fn next_into(&mut self, _: &mut Option<Arrival>) -> Result<(), TrafficError> {
                panic!("a panic for this test")
            }
        }
        let mut threaded = Threaded::new(Box::new(Panicking));
        assert!(threaded.next_arrival().unwrap_err().message.contains("unexpectedly"));
        assert_eq!(threaded.next_arrival().unwrap(), None);
    }

    #[test]
    fn the_reader_ends_after_the_drop() {
        struct Endless(std::sync::mpsc::Sender<()>);
        impl Feed for Endless {
            fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
                let _alive = &self.0;
                *next = Some(Arrival { time_ns: 0, stream: 0, bytes: 0, flow: None, frame: None });
                Ok(())
            }
        }
        let (alive, ended) = std::sync::mpsc::channel();
        let mut threaded = Threaded::new(Box::new(Endless(alive)));
        assert!(threaded.next_arrival().unwrap().is_some());
        drop(threaded);
        // The reader thread drops the feed, and with it the channel's other end.
        let gone = ended.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(gone, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_error_follows_the_preceding_arrivals() {
        struct Failing(u64);
        impl Feed for Failing {
            fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
                self.0 += 1;
                if self.0 > 1 {
                    return Err(TrafficError::new("broken"));
                }
                *next = Some(Arrival { time_ns: 1, stream: 0, bytes: 1, flow: None, frame: None });
                Ok(())
            }
        }
        let mut threaded = Threaded::new(Box::new(Failing(0)));
        assert!(threaded.next_arrival().unwrap().is_some());
        assert_eq!(threaded.next_arrival().unwrap_err().message, "broken");
    }
}
