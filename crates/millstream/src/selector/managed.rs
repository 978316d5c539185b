//! MinBW: management channels first, the other streams by a separate selector.
//!
//! The streams below share the remaining capacity as if it were a dedicated link: their selector's
//! clock stops while a management packet is sent. In the MinBW paper these are the gaps in WFQ's
//! clock (its Figure 1). The clock ends a busy period when it runs without a backlog.
//!
//! Source: MinBW paper, sections II and III.

use alloc::vec::Vec;

use super::{Backlog, NewHead, Observer, Select};
use crate::bounds::{Guarantee, Share};
use crate::catalogue::{Built, DisciplineRow, Form, Options, Target};
use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Head, Measure, RoundRobin, Scfq, Waiting, Wfq};
use crate::link::Link;
use crate::link_clock::{ClassClock, LinkClock};
use crate::packet::StreamId;

/// The catalogue row of MinBW.
pub(crate) const MINBW: DisciplineRow = DisciplineRow {
    name: "minbw",
    summary: "minimum bandwidth: the management channel first, fair shares for the other streams",
    uses: &["weight", "quantum", "fmc"],
    share: Share::Weight,
    guarantee: Guarantee::BelowManagement,
    structures: &[],
    build: |options, structure, form| {
        let (link, origin) = (options.link, options.virtual_origin);
        let form = BelowManagement(form);
        match options.algorithm {
            MinBwAlgorithm::Wfq => structure.join(form, options, Wfq::new(link, origin)),
            MinBwAlgorithm::Scfq => structure.join_near(form, options, Scfq::new(link, origin)),
            MinBwAlgorithm::Drr => {
                structure.join_turns(form, options, RoundRobin::new(Measure::Bytes(link)))
            }
        }
    },
    below: Some(|options| options.algorithm.name()),
    ..DisciplineRow::DEFAULT
};

/// A scheduler, or a class of a tree, that serves management channels first.
#[derive(Clone, Copy, Debug)]
struct BelowManagement(Form);

impl Target for BelowManagement {
    fn build<S>(self, options: &Options, selector: S) -> Built
    where
        S: Select + Send + 'static,
        S::Stamp: Send,
    {
        self.0.build(options, ManagedFirst::new(selector, options.link))
    }
}

/// The disciplines below the management channel that the MinBW paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MinBwAlgorithm {
    /// WFQ-CA: the best delays at the greatest cost.
    Wfq,
    /// SCFQ-CA: delays near those of WFQ-CA, simple.
    #[default]
    Scfq,
    /// DRR-CA: the simplest.
    Drr,
}

impl MinBwAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Wfq, Self::Scfq, Self::Drr];

    /// Returns its name in the scenario file, which is also its discipline's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wfq => "wfq",
            Self::Scfq => "scfq",
            Self::Drr => "drr",
        }
    }
}

/// The part that a stream belongs to, and its number there.
#[derive(Clone, Copy, Debug)]
enum Part {
    Management(usize),
    Below(StreamId),
}

/// A management channel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    stream: StreamId,
    head: Option<Head>,
    open: bool,
}

/// Serves management channels, in arrival order, before the streams of `S`.
#[derive(Clone, Debug)]
pub struct ManagedFirst<S> {
    below: S,
    parts: Vec<Part>,
    channels: Vec<Channel>,
    /// The number of each stream below among all streams.
    numbers: Vec<StreamId>,
    /// The number of backlogged streams below.
    backlogged: usize,
    link: LinkClock,
    /// The clock of the streams below.
    share: ClassClock,
}

/// Renumbers the drops of the streams below.
struct RenumberedBacklog<'a, B> {
    backlog: &'a mut B,
    numbers: &'a [StreamId],
    backlogged: &'a mut usize,
}

impl<P, B: Backlog<P>> Backlog<P> for RenumberedBacklog<'_, B> {
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<P>> {
        let number = self.numbers[stream.index()];
        let next = self.backlog.drop_head(number, now_ns, deadline_ns, observer);
        *self.backlogged -= usize::from(next.is_none());
        next
    }

    #[inline]
    fn soon(&self, stream: StreamId) {
        self.backlog.soon(self.numbers[stream.index()]);
    }

    #[inline]
    fn next(&self, stream: StreamId) {
        self.backlog.next(self.numbers[stream.index()]);
    }
}

/// Renumbers the misses of the streams below.
struct RenumberedObserver<'a, O: ?Sized> {
    observer: &'a mut O,
    numbers: &'a [StreamId],
}

impl<O: Observer + ?Sized> Observer for RenumberedObserver<'_, O> {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.observer.missed(self.numbers[stream.index()], now_ns, missed, violations);
    }

    fn dropped(&mut self, departure: &crate::packet::Departure) {
        self.observer.dropped(departure);
    }
}

impl<S: Select> ManagedFirst<S> {
    /// Returns a selector that serves `below` with the rest of the capacity of `link` after the
    /// management channels. `below` must have no streams.
    #[must_use]
    pub fn new(below: S, link: Link) -> Self {
        Self {
            below,
            parts: Vec::new(),
            channels: Vec::new(),
            numbers: Vec::new(),
            backlogged: 0,
            link: LinkClock::new(link),
            share: ClassClock::default(),
        }
    }

    /// Advances the clock of the selector below.
    #[inline]
    fn advance_below(&mut self) {
        let now_ns = self.link.now_ns();
        let clock_ns = self.share.at(&self.link, now_ns, self.link.idle_ns(now_ns));
        if self.backlogged == 0 && self.share.idle_since_service(clock_ns) {
            self.below.idle();
        }
        self.below.advance(clock_ns);
    }

    /// Advances the clock to the end of the current transmission.
    #[inline]
    fn wait_for_link(&mut self) {
        self.link.reach(self.link.free_ns());
    }

    /// Returns the management channel whose head arrived first.
    #[inline]
    fn first_channel(&self) -> Option<StreamId> {
        let heads = self.channels.iter().filter(|channel| channel.open);
        let heads = heads.filter_map(|channel| Some((channel.head?.arrival_ns, channel.stream)));
        heads.min().map(|(_, stream)| stream)
    }
}

impl<S: Select> Select for ManagedFirst<S> {
    type Stamp = S::Stamp;

    const LEAPS: bool = S::LEAPS;

    const TRACKS_BACKLOG: bool = S::TRACKS_BACKLOG;

    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.parts.len())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        let stream = StreamId(number);
        let part = if contract.fmc {
            self.channels.push(Channel { stream, head: None, open: false });
            Part::Management(self.channels.len() - 1)
        } else {
            let part = Part::Below(self.below.add_stream(contract)?);
            self.numbers.push(stream);
            part
        };
        self.parts.push(part);
        Ok(stream)
    }

    fn reserve(&mut self) {
        self.below.reserve();
    }

    fn streams(&self) -> usize {
        self.parts.len()
    }

    fn has_deadlines(&self) -> bool {
        self.below.has_deadlines()
    }

    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        self.link.reach(clock_ns);
    }

    /// Does not call `idle` below: `advance_below` ends the busy periods there.
    fn idle(&mut self) {
        self.wait_for_link();
    }

    #[inline]
    fn any_active(&self) -> bool {
        self.below.any_active() || self.first_channel().is_some()
    }

    #[inline]
    fn active(&self, stream: StreamId) -> bool {
        match self.parts[stream.index()] {
            Part::Management(at) => {
                let channel = self.channels[at];
                channel.open && channel.head.is_some()
            }
            Part::Below(stream) => self.below.active(stream),
        }
    }

    #[inline]
    fn head(&self, stream: StreamId) -> Option<Head> {
        match self.parts[stream.index()] {
            Part::Management(at) => self.channels[at].head,
            Part::Below(stream) => self.below.head(stream),
        }
    }

    #[inline]
    fn arrived(&mut self, stream: StreamId, bytes: u32, active: bool) -> S::Stamp {
        match self.parts[stream.index()] {
            Part::Management(_) => S::Stamp::default(),
            Part::Below(stream) => {
                self.advance_below();
                self.below.arrived(stream, bytes, active)
            }
        }
    }

    #[inline]
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<S::Stamp>) {
        match self.parts[stream.index()] {
            Part::Management(at) => self.channels[at].head_departed(Some(new)),
            Part::Below(stream) => {
                self.backlogged += 1;
                self.below.became_backlogged(stream, new);
            }
        }
    }

    #[inline]
    fn backlog_changed(&mut self, stream: StreamId, waiting: Waiting) {
        if let Part::Below(stream) = self.parts[stream.index()] {
            self.below.backlog_changed(stream, waiting);
        }
    }

    #[inline]
    fn limits_changed(&mut self, stream: StreamId) {
        if let Part::Below(_) = self.parts[stream.index()]
            && S::LEAPS
        {
            self.advance_below();
        }
    }

    fn open(&mut self, stream: StreamId, how: Activation) {
        match self.parts[stream.index()] {
            Part::Management(at) => self.channels[at].open = true,
            Part::Below(stream) => {
                self.advance_below();
                self.below.open(stream, how);
            }
        }
    }

    fn close(&mut self, stream: StreamId) {
        match self.parts[stream.index()] {
            Part::Management(at) => self.channels[at].open = false,
            Part::Below(stream) => {
                self.advance_below();
                self.below.close(stream);
            }
        }
    }

    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<S::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.advance_below();
        let Self { below, numbers, backlogged, .. } = self;
        let mut backlog = RenumberedBacklog { backlog, numbers, backlogged };
        below.charge_misses(now_ns, &mut backlog, &mut RenumberedObserver { observer, numbers });
    }

    #[inline]
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<S::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        self.wait_for_link();
        if self.below.has_deadlines() {
            self.charge_misses(now_ns, backlog, observer);
        }
        if let Some(channel) = self.first_channel() {
            return Some(channel);
        }
        self.advance_below();
        let Self { below, numbers, backlogged, .. } = self;
        let mut backlog = RenumberedBacklog { backlog, numbers, backlogged };
        let first =
            below.select(now_ns, &mut backlog, &mut RenumberedObserver { observer, numbers })?;
        Some(self.numbers[first.index()])
    }

    #[inline]
    fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        match self.parts[stream.index()] {
            Part::Management(_) => None,
            Part::Below(stream) => self.below.deadline_ns(stream),
        }
    }

    #[inline]
    fn resize(&mut self, stream: StreamId, bytes: u32) {
        match self.parts[stream.index()] {
            Part::Management(at) => {
                if let Some(head) = &mut self.channels[at].head {
                    head.bytes = bytes;
                }
            }
            Part::Below(stream) => self.below.resize(stream, bytes),
        }
    }

    #[inline]
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool {
        let bytes = self.head(stream).map_or(0, |head| head.bytes);
        self.link.send(self.link.now_ns(), bytes);
        match self.parts[stream.index()] {
            Part::Management(_) => false,
            Part::Below(stream) => {
                self.share.serve(&self.link, self.link.idle_ns(self.link.free_ns()));
                self.below.served(stream, now_ns)
            }
        }
    }

    #[inline]
    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<S::Stamp>>) {
        match self.parts[stream.index()] {
            Part::Management(at) => self.channels[at].head_departed(next),
            Part::Below(stream) => {
                self.backlogged -= usize::from(next.is_none());
                self.below.head_departed(stream, next);
            }
        }
    }

    fn charge_extra(&mut self, stream: StreamId, extra_bytes: i64) -> bool {
        match self.parts[stream.index()] {
            Part::Management(_) => false,
            Part::Below(stream) => {
                self.advance_below();
                self.below.charge_extra(stream, extra_bytes)
            }
        }
    }
}

impl Channel {
    #[inline]
    fn head_departed<P>(&mut self, next: Option<NewHead<P>>) {
        self.head = next.as_ref().map(|new| new.head);
        self.open = next.is_some_and(|new| new.open);
    }
}
