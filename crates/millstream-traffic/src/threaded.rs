//! A feed that reads ahead in a thread of its own, so that parsing overlaps scheduling.
//!
//! Arrivals cross in batches over a bounded channel: the reader is at most a few batches ahead,
//! so memory stays bounded, and the cost of crossing is paid once a batch.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::arrival::{Arrival, Feed, TrafficError};

const BATCH: usize = 4096;
const BATCHES_AHEAD: usize = 8;

type Message = Result<Vec<Arrival>, TrafficError>;

/// Another feed, read by a thread that ends with it or when this is dropped.
pub struct Threaded {
    batches: Receiver<Message>,
    batch: std::vec::IntoIter<Arrival>,
}

impl Threaded {
    /// Starts reading `feed`.
    #[must_use]
    pub fn new(feed: Box<dyn Feed>) -> Self {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        thread::spawn(move || read(feed, &sender));
        Self { batches, batch: Vec::new().into_iter() }
    }
}

/// Reads until the feed ends or fails, or nobody listens.
fn read(mut feed: Box<dyn Feed>, sender: &SyncSender<Message>) {
    loop {
        let mut batch = Vec::with_capacity(BATCH);
        let ended = loop {
            match feed.next_arrival() {
                Ok(Some(arrival)) => batch.push(arrival),
                Ok(None) => break Some(None),
                Err(error) => break Some(Some(error)),
            }
            if batch.len() == BATCH {
                break None;
            }
        };
        if sender.send(Ok(batch)).is_err() {
            return;
        }
        if let Some(error) = ended {
            // Nobody listening any more is no reason to complain.
            let _ = error.map(|error| sender.send(Err(error)));
            return;
        }
    }
}

impl Feed for Threaded {
    #[inline]
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        loop {
            if let Some(arrival) = self.batch.next() {
                return Ok(Some(arrival));
            }
            match self.batches.recv() {
                Ok(batch) => self.batch = batch?.into_iter(),
                Err(_) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cbr;

    #[test]
    fn nothing_is_lost_or_reordered_and_dropping_early_is_fine() {
        let cbr = || Box::new(Cbr::with_interval(3, 7, 1, 0, 20_001));
        let (mut direct, mut threaded) = (cbr(), Threaded::new(cbr()));
        for _ in 0..=20_001 {
            assert_eq!(direct.next_arrival().unwrap(), threaded.next_arrival().unwrap());
        }
        assert_eq!(threaded.next_arrival().unwrap(), None);
        drop(Threaded::new(cbr()));
    }

    #[test]
    fn an_error_comes_after_the_arrivals_before_it() {
        struct Failing(u64);
        impl Feed for Failing {
            fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
                self.0 += 1;
                match self.0 {
                    1 => Ok(Some(Arrival { time_ns: 1, stream: 0, bytes: 1, frame: None })),
                    _ => Err(TrafficError::new("broken")),
                }
            }
        }
        let mut threaded = Threaded::new(Box::new(Failing(0)));
        assert!(threaded.next_arrival().unwrap().is_some());
        assert_eq!(threaded.next_arrival().unwrap_err().message, "broken");
    }
}
