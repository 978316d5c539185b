//! FIFO buckets of streams, as linked lists.

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

/// The first and last stream of a bucket.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

/// A list entry of a stream.
#[derive(Clone, Copy)]
struct Link {
    deadline_ns: u64,
    next: u32,
}

/// The buckets, linked through the streams.
pub(super) struct Buckets {
    ends: Vec<Ends>,
    links: Vec<Link>,
}

impl Buckets {
    pub(super) fn new(buckets: usize, streams: usize) -> Self {
        Self {
            ends: vec![Ends { first: NONE, last: NONE }; buckets],
            links: vec![Link { deadline_ns: 0, next: NONE }; streams],
        }
    }

    #[inline]
    pub(super) fn is_empty(&self, bucket: usize) -> bool {
        self.ends[bucket].first == NONE
    }

    /// Appends a stream, which must be in no bucket.
    #[inline]
    pub(super) fn push(&mut self, bucket: usize, stream: u32, deadline_ns: u64) {
        self.links[stream as usize] = Link { deadline_ns, next: NONE };
        let ends = &mut self.ends[bucket];
        if ends.first == NONE {
            ends.first = stream;
        } else {
            self.links[ends.last as usize].next = stream;
        }
        ends.last = stream;
    }

    /// Removes the first stream of a bucket and returns it with its deadline.
    #[inline]
    pub(super) fn pop(&mut self, bucket: usize) -> Option<(u64, u32)> {
        let stream = self.ends[bucket].first;
        let link = *self.links.get(stream as usize)?;
        self.ends[bucket].first = link.next;
        Some((link.deadline_ns, stream))
    }
}
