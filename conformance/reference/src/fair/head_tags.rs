//! Disciplines that tag only heads, without the clock of the fluid system: SCFQ, SFQ, virtual
//! clock.
//!
//! In SCFQ, v is the F of the packet last put in service; in SFQ its S. Virtual clock compares with
//! real time (t'), scaled so that its tags are bytes per unit of weight.

use num_rational::BigRational;

use super::model::Spec;
use super::rule::{FairDiscipline, Packet, Queue, Tags, configured_slope, least, whole};

/// S and F of a head, and F of the stream's last packet put in service.
#[derive(Clone, Debug)]
struct Stream {
    head: Option<(BigRational, BigRational)>,
    last_finish: BigRational,
}

impl Stream {
    fn all(spec: &Spec) -> Vec<Self> {
        vec![Self { head: None, last_finish: whole(0) }; spec.streams.len()]
    }

    /// Tags the head with S = max(F_prev, `at_least`).
    fn stamp(&mut self, queue: &Queue, at_least: &BigRational) {
        self.head = queue.waiting.front().map(|packet| {
            let start = self.last_finish.clone().max(at_least.clone());
            let finish = &start + whole(packet.length) / whole(queue.weight);
            (start, finish)
        });
    }

    /// Puts its head in service.
    fn start(&mut self) -> Tags {
        let Some((start, finish)) = self.head.take() else { return Tags::default() };
        self.last_finish = finish.clone();
        Tags { start: Some(start), finish: Some(finish), deficit: None }
    }
}

/// SCFQ and SFQ.
pub struct SelfClocked {
    streams: Vec<Stream>,
    /// v.
    virtual_time: BigRational,
    /// SFQ: v is S and the least S is served.
    by_start: bool,
}

impl SelfClocked {
    /// Returns SCFQ, or SFQ if `by_start`.
    #[must_use]
    pub fn new(spec: &Spec, by_start: bool) -> Self {
        Self { streams: Stream::all(spec), virtual_time: whole(0), by_start }
    }
}

impl FairDiscipline for SelfClocked {
    fn activated(&mut self, stream: usize, queues: &[Queue]) {
        self.streams[stream].stamp(&queues[stream], &self.virtual_time);
    }

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        least(queues, |stream| {
            let (start, finish) = self.streams[stream].head.as_ref()?;
            Some(if self.by_start { start } else { finish })
        })
    }

    fn service_started(&mut self, stream: usize, _packet: &Packet, queues: &[Queue]) -> Tags {
        let tags = self.streams[stream].start();
        let own = if self.by_start { &tags.start } else { &tags.finish };
        if let Some(tag) = own {
            self.virtual_time = tag.clone();
        }
        if queues[stream].active {
            self.streams[stream].stamp(&queues[stream], &self.virtual_time);
        }
        tags
    }

    fn idle(&mut self, _now: u64) {
        self.virtual_time = whole(0);
        for stream in &mut self.streams {
            stream.last_finish = whole(0);
        }
    }

    fn virtual_time(&self) -> BigRational {
        self.virtual_time.clone()
    }
}

/// Virtual clock.
pub struct VirtualClock {
    streams: Vec<Stream>,
    /// r / Σφ configured: bytes per unit of weight and ns.
    slope: BigRational,
    /// t', ns.
    now: u64,
}

impl VirtualClock {
    /// Returns virtual clock with ρ = φ·r/Σφ.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        Self { streams: Stream::all(spec), slope: configured_slope(spec), now: 0 }
    }
}

impl FairDiscipline for VirtualClock {
    fn before_event(&mut self, now: u64, _queues: &[Queue]) {
        self.now = now;
    }

    fn activated(&mut self, stream: usize, queues: &[Queue]) {
        let now = whole(self.now) * &self.slope;
        self.streams[stream].stamp(&queues[stream], &now);
    }

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        least(queues, |stream| self.streams[stream].head.as_ref().map(|(_, finish)| finish))
    }

    fn service_started(&mut self, stream: usize, _packet: &Packet, queues: &[Queue]) -> Tags {
        let tags = self.streams[stream].start();
        if let Some(next) = queues[stream].waiting.front().filter(|_| queues[stream].active) {
            let arrival = whole(next.arrival_clock_ns) * &self.slope;
            self.streams[stream].stamp(&queues[stream], &arrival);
        }
        tags
    }

    fn virtual_time(&self) -> BigRational {
        whole(self.now) * &self.slope
    }
}
