//! The queues of a fabric, and the bounds on the waits in them.
//!
//! A *station* is the queue of a channel in front of a link: at an end-point, or from one input of
//! a switch to the link. Let a packet wait in it from a until t. At each instant between, one of
//! these is busy: the link; with a crossbar, the input with transfers to other links; a transfer to
//! the link's output of another channel without credits; or the channel lacks credits. Let s be the
//! last time before a when none was. Then all of [s, t] is work that begins in it, of packets that
//! came to their stations after s, less the longest wait there. Let W(y) be the most such work in
//! y. `longest_wait` bounds the wait by it.
//!
//! Where round robin takes turns, the wait for the transfer is also bounded by the packets of the
//! input alone, with the turns of others for each. The least bound counts.
//!
//! Where the buffer in front of a link never is full, the wait for the transfer is bounded apart,
//! by the transfers to the output and of the input; then the wait in the buffer, by the link. The
//! lesser bound counts.
//!
//! Waits depend on each other. Let F(w) be the bounds that follow if all waits are at most w. Any w
//! with F(w) ≤ w bounds them: the first packet to wait for longer would contradict F(w), which
//! needs w only of packets before it. The least w is found by repetition from 0.
//!
//! Behind output queues, links are also taken together, so that the bursts of others count where
//! they join a path ([`ServiceCurve::paying_once`]). The lesser sum of waits counts.

mod work;

use std::collections::{BTreeMap, BTreeSet};

use millstream::bounds::{ServiceCurve, SharedLink, Source};

use self::work::{MAX_STEPS, Work};

/// The longest wait that counts as a bound, ns.
const MAX_WAIT_NS: u64 = 1 << 40;

/// Repetitions until the waits must be stable.
const MAX_ROUNDS: usize = 1_000;

/// The buffer in front of a link of a fabric in which nothing waits.
const EMPTY_OUTPUT: Output = Output { wait_ns: Some(0), first_ns: 0, may_fill: false };

/// An input of a crossbar in which nothing waits.
const EMPTY_INPUT: Input = Input { wait_ns: Some(0), first_ns: 0, turns_ns: None };

/// The rate of a link that sends a byte in a nanosecond.
const LINK_BPS: u64 = 8_000_000_000;

/// The packets of one stream's connections: all are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) interval_ns: u64,
    /// Transmission time on a link.
    pub(super) link_ns: u64,
    /// Transfer time through a crossbar that has all of the packet; 0 without crossbars.
    pub(super) cross_ns: u64,
    /// The longest transfer time, also while the packet arrives.
    pub(super) transfer_ns: u64,
    /// The credits of a packet.
    pub(super) credits: u64,
    /// Lower ones go first; equal ones in any order.
    pub(super) priority: u32,
}

impl Class {
    /// Returns the time for which a packet keeps a link and its output busy, ns.
    fn output_ns(self) -> u64 {
        self.link_ns.max(self.cross_ns)
    }

    /// Returns the rate of a connection on a link of `LINK_BPS`, bits/s.
    fn bps(self) -> u64 {
        let each = u128::from(self.link_ns) * u128::from(LINK_BPS);
        u64::try_from(each.div_ceil(self.interval_ns.into())).unwrap_or(u64::MAX)
    }

    /// Returns how many transmissions can begin on a link within `time_ns`, both ends included.
    fn on_line(self, time_ns: u64) -> u64 {
        time_ns.checked_div(self.link_ns).map_or(u64::MAX, |packets| packets + 1)
    }
}

/// The queue of a channel in front of a link.
#[derive(Debug)]
pub(super) struct Station {
    link: usize,
    /// The link before it; `None` at an end-point.
    previous: Option<usize>,
    /// The channel on the link.
    channel: usize,
    /// The channel on the link before, if its packets wait in one queue; 0 otherwise.
    queue: usize,
    class: usize,
    /// The connections and the numbers of the station on their paths.
    flows: Vec<(usize, usize)>,
    /// How much later than others of their connection packets can come, ns, by connection.
    spreads: Vec<u64>,
    /// The channels on which its packets come; none at an end-point.
    channels_before: BTreeSet<usize>,
    /// The longest time until the transmission begins, ns.
    wait_ns: u64,
    /// The longest time until the transfer to the link begins, ns; without one, 0.
    crossing_ns: u64,
    /// The first y with W(y) − own ≤ y by the link and the input, and by the output and the input,
    /// so far, ns; `None` if there is none.
    by_link_ns: Option<u64>,
    by_output_ns: Option<u64>,
    /// The sum of the bursts that come over the line before it, ns of transmission.
    line_burst_ns: u64,
}

/// A connection.
#[derive(Debug)]
struct Flow {
    /// The stations in the order of its path.
    stations: Vec<usize>,
    /// The longest sum of the waits there, ns.
    waits_ns: u64,
}

/// The sums over the stations in front of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Onto {
    bps: u64,
    burst_ns: u64,
    longest_ns: u64,
}

/// The credits of a channel on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Credits {
    /// The longest time from the beginning of a transmission to the return of its credits, ns.
    return_ns: u64,
    /// The most packets that need credits at once.
    on_the_way: u64,
    /// Whether the channel may wait for credits.
    may_lack: bool,
}

/// The buffer of a channel in front of a link, behind a crossbar.
#[derive(Clone, Copy, Debug)]
struct Output {
    /// The longest time in it until the transmission begins, ns; `None` if there is no bound.
    wait_ns: Option<u64>,
    /// The first y with W(y) − own ≤ y so far, ns.
    first_ns: u64,
    /// Whether a packet may find it full.
    may_fill: bool,
}

/// An input of a crossbar.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// The longest time until the transfer of one of its packets begins by turns, ns; `None` if
    /// there is no bound.
    wait_ns: Option<u64>,
    /// The first y with W(y) − own ≤ y so far, ns.
    first_ns: u64,
    /// The longest time for which it is free and has packets until a transfer begins, ns; `None`
    /// if turns do not bound it.
    turns_ns: Option<u64>,
}

/// How switches forward packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switching {
    pub(super) crossbar: bool,
    /// Whether each channel of an input has one queue for all outputs.
    pub(super) fifo_inputs: bool,
    pub(super) cut_through: bool,
    /// Whether a free output serves each other input at most once before a free input that waits.
    pub(super) takes_turns: bool,
    /// Whether links serve in the order of arrival.
    pub(super) in_order: bool,
    pub(super) delay_ns: u64,
    pub(super) latency_ns: u64,
    /// The credits of a channel on a link into a switch.
    pub(super) input_credits: u64,
    /// The credits of a channel's buffer in front of a link out of a switch.
    pub(super) output_credits: u64,
}

impl Switching {
    /// Returns the time from the beginning of a transmission until the next switch may forward the
    /// packet, ns.
    pub(super) fn ahead_ns(&self, class: Class) -> u64 {
        let received_ns = if self.cut_through { 0 } else { class.link_ns };
        received_ns.saturating_add(self.delay_ns).saturating_add(self.latency_ns)
    }

    /// Returns the packets that the buffer of a channel in front of a link holds.
    fn room(&self, class: Class) -> u64 {
        self.output_credits / class.credits.max(1)
    }

    /// Returns the packets that the buffer of a channel behind a link holds.
    fn window(&self, class: Class) -> u64 {
        self.input_credits / class.credits.max(1)
    }
}

/// A link of a connection's path, with the packet's channel there.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathLink {
    pub(super) link: usize,
    pub(super) channel: usize,
}

/// The reason why waits have no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unbounded {
    /// The packets over this link need its time or more, or hardly less.
    Overload(usize),
    /// The waits in front of this link grow without end.
    Grows(usize),
    /// The waits in front of these links grow without end; paths pass them in a cycle.
    Cycle(Vec<usize>),
}

/// All queues of a fabric.
#[derive(Debug)]
pub(super) struct Stations {
    switching: Switching,
    classes: Vec<Class>,
    channels: usize,
    all: Vec<Station>,
    flows: Vec<Flow>,
    /// The stations in front of each link, by the link before them.
    onto: Vec<Vec<usize>>,
    /// The stations behind each link.
    from: Vec<Vec<usize>>,
    /// By link and channel.
    credits: Vec<Credits>,
    /// By link and channel.
    outputs: Vec<Output>,
    /// The inputs of crossbars, by the link before them.
    inputs: Vec<Input>,
}

impl Stations {
    /// Creates the queues of connections, given by class and path.
    pub(super) fn new(
        switching: Switching,
        classes: Vec<Class>,
        (links, channels): (usize, usize),
        paths: impl Iterator<Item = (usize, Vec<PathLink>)>,
    ) -> Self {
        let mut numbers = BTreeMap::new();
        let mut all = Vec::<Station>::new();
        let mut flows = Vec::new();
        for (flow, (class, path)) in paths.enumerate() {
            let mut stations = Vec::new();
            for (place, PathLink { link, channel }) in path.iter().copied().enumerate() {
                let before = place.checked_sub(1).map(|before| path[before]);
                let previous = before.map(|of| of.link);
                let queue = before.filter(|_| switching.fifo_inputs).map_or(0, |of| of.channel);
                let number = *numbers.entry((link, previous, channel, queue)).or_insert(all.len());
                if number == all.len() {
                    let (flows, spreads) = (Vec::new(), Vec::new());
                    all.push(Station {
                        link,
                        previous,
                        channel,
                        queue,
                        class,
                        flows,
                        spreads,
                        channels_before: BTreeSet::new(),
                        wait_ns: 0,
                        crossing_ns: 0,
                        by_link_ns: Some(0),
                        by_output_ns: Some(0),
                        line_burst_ns: 0,
                    });
                }
                all[number].flows.push((flow, place));
                all[number].spreads.push(0);
                all[number].channels_before.extend(before.map(|of| of.channel));
                stations.push(number);
            }
            flows.push(Flow { stations, waits_ns: 0 });
        }
        let (mut onto, mut from) = (vec![Vec::new(); links], vec![Vec::new(); links]);
        // In the order of their keys, so that those behind one link are neighbours.
        for number in numbers.values() {
            onto[all[*number].link].push(*number);
            if let Some(previous) = all[*number].previous {
                from[previous].push(*number);
            }
        }
        let credits = vec![Credits::default(); links * channels];
        let outputs = vec![EMPTY_OUTPUT; links * channels];
        let inputs = vec![EMPTY_INPUT; links];
        Self { switching, classes, channels, all, flows, onto, from, credits, outputs, inputs }
    }

    /// Computes the longest wait in each station.
    ///
    /// # Errors
    /// Returns where there is no bound.
    pub(super) fn solve(&mut self) -> Result<(), Unbounded> {
        if let Some(link) = (0..self.onto.len()).find(|link| self.is_overloaded(*link)) {
            return Err(Unbounded::Overload(link));
        }
        let mut last = 0;
        for _ in 0..MAX_ROUNDS {
            let mut changed = self.spread().then_some(last);
            if self.switching.crossbar {
                self.find_credits();
                self.find_outputs();
                self.find_inputs();
            }
            for link in 0..self.onto.len() {
                // Packets of all stations wait equally long.
                let in_order = self.switching.in_order && !self.switching.crossbar;
                let longest_ns = if in_order { self.longest_in_order_ns(link) } else { 0 };
                for place in 0..self.onto[link].len() {
                    let number = self.onto[link][place];
                    let waits = if in_order {
                        Some((0, longest_ns.saturating_sub(self.class(number).output_ns())))
                    } else {
                        self.waits(number)
                    };
                    let (crossing_ns, wait_ns) =
                        waits.filter(|of| of.1 <= MAX_WAIT_NS).ok_or_else(|| self.grows(number))?;
                    let station = &mut self.all[number];
                    if wait_ns > station.wait_ns || crossing_ns > station.crossing_ns {
                        station.wait_ns = wait_ns.max(station.wait_ns);
                        station.crossing_ns = crossing_ns.max(station.crossing_ns);
                        changed = Some(number);
                    }
                }
            }
            match changed {
                None => return Ok(()),
                Some(number) => last = number,
            }
        }
        Err(self.grows(last))
    }

    /// Returns the number of links of a connection's path, and the longest sum of its waits, ns.
    pub(super) fn waits_ns(&self, flow: usize) -> (u64, u64) {
        let Flow { stations, waits_ns } = &self.flows[flow];
        (stations.len() as u64, *waits_ns)
    }

    /// Returns the least credits of a channel with which waits have bounds and credits never run
    /// out, if there are such.
    pub(super) fn sufficient_credits(&mut self) -> Option<u64> {
        for station in &mut self.all {
            (station.wait_ns, station.crossing_ns) = (0, 0);
            (station.by_link_ns, station.by_output_ns) = (Some(0), Some(0));
            station.spreads.fill(0);
        }
        self.outputs.fill(EMPTY_OUTPUT);
        self.inputs.fill(EMPTY_INPUT);
        self.switching.input_credits = u64::MAX;
        self.solve().ok()?;
        let of = |station: &Station| {
            let packets = self.credits_of(station.link, station.channel).on_the_way;
            packets.saturating_mul(self.classes[station.class].credits)
        };
        self.all.iter().map(of).max()
    }

    /// Returns why the waits in a station have no bound.
    fn grows(&self, number: usize) -> Unbounded {
        let link = self.all[number].link;
        if self.switching.crossbar {
            return Unbounded::Grows(link);
        }
        self.cycle().map_or(Unbounded::Overload(link), Unbounded::Cycle)
    }

    /// Returns links that form a cycle: some path passes each of them just before the next, and one
    /// the last before the first.
    fn cycle(&self) -> Option<Vec<usize>> {
        // Removes links without one before them; each link that is left has one that is left.
        let mut left: BTreeSet<usize> =
            (0..self.onto.len()).filter(|link| !self.onto[*link].is_empty()).collect();
        let links_before =
            |link: usize| self.onto[link].iter().filter_map(|number| self.all[*number].previous);
        loop {
            let has_before = |link: &usize| links_before(*link).any(|of| left.contains(&of));
            let kept: BTreeSet<_> = left.iter().copied().filter(has_before).collect();
            if kept.len() == left.len() {
                break;
            }
            left = kept;
        }
        let mut walk = vec![*left.first()?];
        while let Some(before) = links_before(*walk.last()?).find(|of| left.contains(of)) {
            if let Some(begin) = walk.iter().position(|seen| *seen == before) {
                walk.drain(..begin);
                break;
            }
            walk.push(before);
        }
        walk.reverse();
        Some(walk)
    }

    fn class(&self, number: usize) -> Class {
        self.classes[self.all[number].class]
    }

    fn credits_of(&self, link: usize, channel: usize) -> Credits {
        self.credits[link * self.channels + channel]
    }

    /// Returns whether the packets over a link need its time or more.
    fn is_overloaded(&self, link: usize) -> bool {
        let part = |number: &usize| {
            let Class { interval_ns, link_ns, .. } = self.class(*number);
            let each = (u128::from(link_ns) << 64).div_ceil(u128::from(interval_ns));
            each * self.all[*number].flows.len() as u128
        };
        self.onto[link].iter().map(part).fold(0, u128::saturating_add) >= 1 << 64
    }

    /// Sets the spreads of the connections at their stations: the sums of the waits before or,
    /// behind output queues, what pays the bursts of others once. Returns whether one has grown.
    fn spread(&mut self) -> bool {
        let onto = if self.switching.crossbar { Vec::new() } else { self.bursts() };
        let mut changed = false;
        let mut places = vec![0; self.all.len()];
        for flow in 0..self.flows.len() {
            let (way, burst) = if self.switching.crossbar {
                (Vec::new(), Source::default())
            } else {
                self.way(flow, &onto)
            };
            let mut spread_ns = 0u64;
            for place in 0..self.flows[flow].stations.len() {
                let number = self.flows[flow].stations[place];
                let own_ns = self.class(number).link_ns;
                // Connections join a station in the order of their numbers.
                let station = &mut self.all[number];
                let old_ns = &mut station.spreads[places[number]];
                changed |= *old_ns < spread_ns;
                *old_ns = spread_ns.max(*old_ns);
                places[number] += 1;
                spread_ns = spread_ns.saturating_add(station.wait_ns);
                let mut part = way.get(..=place).unwrap_or_default().to_vec();
                if let Some(last) = part.last_mut() {
                    last.service.latency_ns = 0;
                }
                if let Some(curve) = ServiceCurve::paying_once(&part) {
                    let delay_ns = curve.guarantee(0).delay_ns(burst).unwrap_or(u64::MAX);
                    let sent = if self.switching.cut_through { 1 } else { part.len() as u64 };
                    let waits_ns = delay_ns.saturating_sub(sent * own_ns);
                    spread_ns = spread_ns.min(waits_ns);
                }
            }
            self.flows[flow].waits_ns = spread_ns;
        }
        changed
    }

    /// Computes when credits return, and which channels may lack them.
    fn find_credits(&mut self) {
        let switching = self.switching;
        let mut credits = vec![Credits::default(); self.credits.len()];
        // The most packets of a channel on their way, with the one that waits for credits.
        let mut most = vec![0u64; self.credits.len()];
        for station in &self.all {
            let class = self.classes[station.class];
            let at = station.link * self.channels + station.channel;
            for ((flow, place), spread_ns) in station.flows.iter().zip(&station.spreads) {
                let Some(next) = self.flows[*flow].stations.get(place + 1) else { continue };
                let held_ns = self.all[*next].crossing_ns.saturating_add(class.transfer_ns);
                let return_ns = switching.ahead_ns(class).saturating_add(held_ns);
                let return_ns = return_ns.saturating_add(switching.delay_ns);
                credits[at].return_ns = credits[at].return_ns.max(return_ns);
                let time_ns = return_ns.saturating_add(station.wait_ns);
                most[at] = most[at].saturating_add(packets(class, time_ns, *spread_ns));
            }
        }
        for station in &self.all {
            let class = self.classes[station.class];
            let at = station.link * self.channels + station.channel;
            // The link is idle then, so the last packet has left.
            let begun = class.on_line(credits[at].return_ns.saturating_sub(class.link_ns));
            let on_the_way = most[at].min(begun.saturating_add(1));
            credits[at].on_the_way = on_the_way;
            credits[at].may_lack = on_the_way > self.switching.window(class);
        }
        self.credits = credits;
    }

    /// Returns the stations that are empty when nothing that holds up one of them is busy: the
    /// station, and those of the same queue.
    fn mates(&self, number: usize) -> Vec<usize> {
        let Station { previous, queue, .. } = self.all[number];
        match previous.filter(|_| self.switching.fifo_inputs) {
            None => vec![number],
            Some(previous) => {
                let of = |other: &usize| self.all[*other].queue == queue;
                self.from[previous].iter().copied().filter(of).collect()
            }
        }
    }

    /// Returns the stations with packets in the work of these links and of an input: also those
    /// behind links that may lack credits.
    fn near(&self, links: &[usize], previous: Option<usize>) -> Vec<usize> {
        let mut near: Vec<_> =
            previous.iter().flat_map(|previous| &self.from[*previous]).copied().collect();
        let (mut seen, mut left) = (BTreeSet::new(), links.to_vec());
        while let Some(link) = left.pop() {
            if !seen.insert(link) {
                continue;
            }
            near.extend(&self.onto[link]);
            let may_lack = |of: &usize| self.credits_of(link, self.all[*of].channel).may_lack;
            if self.onto[link].iter().any(may_lack) {
                left.extend(self.from[link].iter().map(|of| self.all[*of].link));
            }
        }
        near.sort_unstable();
        near.dedup();
        near
    }

    /// Computes how long packets wait in front of links behind crossbars, and where they may find
    /// no room.
    fn find_outputs(&mut self) {
        for link in 0..self.onto.len() {
            let numbers = self.onto[link].iter();
            let of_channels: BTreeMap<_, _> = numbers
                .filter(|number| self.all[**number].previous.is_some())
                .map(|number| (self.all[*number].channel, self.class(*number)))
                .collect();
            for (channel, class) in of_channels {
                let at = link * self.channels + channel;
                let work = |y: u64| {
                    let begun = self.begun(link, channel, class, y, &[]);
                    let lacks = self.lacks(link, channel, class, begun, y, &[]);
                    self.transmissions_after(link, channel, y).plus(lacks)
                };
                let near = self.near(&[link], None);
                let next = |y: u64| self.next_step_ns(near.iter(), y);
                let Output { wait_ns, first_ns, .. } = self.outputs[at];
                let longest = wait_ns
                    .and_then(|_| Self::longest_wait(first_ns, None, class.link_ns, &work, &next));
                let (first_ns, wait_ns) =
                    longest.map_or((0, None), |(first, wait)| (first, Some(wait)));
                // The packets in the buffer, with the one that is transferred next.
                let stay_ns = wait_ns.map(|ns| ns + class.link_ns);
                let most = stay_ns.map_or(u64::MAX, |stay_ns| {
                    let of_channel =
                        self.onto[link].iter().filter(|of| self.all[**of].channel == channel);
                    let packets =
                        of_channel.map(|of| self.packets(*of, stay_ns + self.all[*of].crossing_ns));
                    let by_output =
                        stay_ns.checked_div(class.cross_ns).map_or(u64::MAX, |of| of + 2);
                    packets.sum::<u64>().min(by_output)
                });
                let room = self.switching.room(class);
                self.outputs[at] = Output { wait_ns, first_ns, may_fill: most > room };
            }
        }
    }

    /// Computes how long packets wait at the inputs of crossbars by turns.
    ///
    /// Let an input be free and have packets for an output. Then the output transfers a packet of
    /// each other input at most, before one of these. So each transfer of the input takes its own
    /// time and that of these turns, whatever arrives at the other inputs.
    fn find_inputs(&mut self) {
        for link in 0..self.from.len() {
            let Some(own_ns) = self.from[link].iter().map(|of| self.class(*of).cross_ns).min()
            else {
                continue;
            };
            let Input { wait_ns, first_ns, .. } = self.inputs[link];
            let turns_ns = self.turns_ns(link);
            let longest = turns_ns.filter(|_| wait_ns.is_some()).and_then(|turns_ns| {
                let work = |y: u64| self.transfers_by_turns(link, turns_ns, y);
                let next = |y: u64| self.next_step_ns(self.from[link].iter(), y);
                Self::longest_wait(first_ns, None, own_ns, &work, &next)
            });
            let (first_ns, wait_ns) =
                longest.map_or((0, None), |(first, wait)| (first, Some(wait)));
            self.inputs[link] = Input { wait_ns, first_ns, turns_ns };
        }
    }

    /// Returns the longest time for which a free input with packets waits for one transfer, ns;
    /// `None` if turns do not bound it.
    fn turns_ns(&self, previous: usize) -> Option<u64> {
        if !self.switching.takes_turns {
            return None;
        }
        let of_station = |number: &usize| {
            let Station { link, channel, .. } = self.all[*number];
            let others = self.lines(link).filter(|line| {
                let before = self.all[line[0]].previous;
                before.is_some_and(|before| before != previous)
            });
            let may_fill =
                |of: &usize| self.outputs[link * self.channels + self.all[*of].channel].may_fill;
            if !self.onto[link].iter().any(may_fill) {
                let longest =
                    |line: &[usize]| line.iter().map(|of| self.class(*of).transfer_ns).max();
                return Some(others.filter_map(longest).fold(0, u64::saturating_add));
            }
            // A full buffer has room again after a transmission, if only its channel uses the link.
            let alone = self.onto[link].iter().all(|of| self.all[*of].channel == channel);
            let is_sent = alone && !self.credits_of(link, channel).may_lack;
            let class = self.class(*number);
            let turn_ns = class.transfer_ns.max(class.link_ns);
            let all_ns = turn_ns.saturating_mul(others.count() as u64 + 1);
            is_sent.then_some(all_ns - class.cross_ns)
        };
        let mut longest_ns = 0;
        for number in &self.from[previous] {
            longest_ns = longest_ns.max(of_station(number)?);
        }
        Some(longest_ns)
    }

    /// Returns the longest times until the transfer and the transmission of a station's packets
    /// begin, if all waits are as long as they are now, ns.
    fn waits(&mut self, number: usize) -> Option<(u64, u64)> {
        let mates = self.mates(number);
        let mut links: Vec<_> = mates.iter().map(|mate| self.all[*mate].link).collect();
        links.sort_unstable();
        links.dedup();
        let Station { link, channel, previous, by_link_ns, by_output_ns, .. } = self.all[number];
        let class = self.class(number);
        let any = if self.switching.crossbar { None } else { self.by_buckets_ns(link).1 };
        let crossbar = previous.filter(|_| self.switching.crossbar);
        let of_input = |y: u64| {
            crossbar.map_or(Work::default(), |previous| self.transfers_of(previous, &links, y))
        };
        // At an instant at which nothing is busy, other channels with room and credits have no
        // packets for this output either.
        let same = |of: &usize| {
            let Station { link: onto, channel, previous: before, .. } = self.all[*of];
            let may_fill = self.outputs[onto * self.channels + channel].may_fill;
            let may_lack = self.credits_of(onto, channel).may_lack;
            onto == link && before == previous && !may_fill && !may_lack
        };
        let mut empty = mates.clone();
        if crossbar.is_some() && !self.switching.fifo_inputs {
            empty.extend(self.onto[link].iter().filter(|of| same(of)));
        }
        let near = self.near(&links, crossbar);
        let next = |y: u64| self.next_step_ns(near.iter(), y);
        let later = |of: &usize| {
            let other = self.class(*of);
            (other.priority > class.priority).then_some(other.link_ns)
        };
        let by_link = |y: u64| {
            let onto = |link: &usize| {
                if !self.switching.crossbar {
                    // A packet of a later priority may be in transmission.
                    let one_ns = self.onto[*link].iter().filter_map(later).max().unwrap_or(0);
                    let sent = self.transmissions_before(*link, y, &empty, class.priority);
                    return sent.plus(Work::of_ns(one_ns));
                }
                let held = self.held(*link, y, &mates, &mates, &[]);
                self.transmissions(*link, y, &empty).plus(held)
            };
            links.iter().map(onto).fold(of_input(y), Work::plus)
        };
        let by_link = by_link_ns.and_then(|from_ns| {
            Self::longest_wait(from_ns, any, class.output_ns(), &by_link, &next)
        });
        let by_output = |y: u64| {
            let onto = |link: &usize| self.transfers(*link, y, None, &empty);
            links.iter().map(onto).fold(of_input(y), Work::plus)
        };
        let may_fill = |mate: &usize| {
            let Station { link, channel, .. } = self.all[*mate];
            self.outputs[link * self.channels + channel].may_fill
        };
        let may_fill = mates.iter().any(may_fill);
        let by_output_ns = by_output_ns.filter(|_| crossbar.is_some() && !may_fill);
        let by_output = by_output_ns.and_then(|from_ns| {
            Self::longest_wait(from_ns, None, class.transfer_ns, &by_output, &next)
        });
        let station = &mut self.all[number];
        (station.by_link_ns, station.by_output_ns) =
            (by_link.map(|of| of.0), by_output.map(|of| of.0));
        let (by_link_ns, by_output_ns) = (by_link.map(|of| of.1), by_output.map(|of| of.1));
        if crossbar.is_none() {
            return Some((0, by_link_ns?));
        }
        let by_turns_ns = previous.and_then(|previous| self.inputs[previous].wait_ns);
        let crossing_ns = by_link_ns.into_iter().chain(by_output_ns).chain(by_turns_ns).min()?;
        let output_ns = self.outputs[link * self.channels + channel].wait_ns;
        let in_both_ns = output_ns.map(|ns| crossing_ns.saturating_add(ns));
        Some((crossing_ns, by_link_ns.into_iter().chain(in_both_ns).min()?))
    }

    /// Returns the sum of the bursts over a link without crossbars, and a bound on its busy
    /// periods, ns: y with Σ L·(1 + (y + spread)/interval) ≤ y.
    fn by_buckets_ns(&self, link: usize) -> (u64, Option<u64>) {
        let (mut burst, mut load) = (0u128, 0u128);
        for number in &self.onto[link] {
            let class = self.class(*number);
            let each_ns = u128::from(class.output_ns());
            let interval_ns = u128::from(class.interval_ns);
            for spread_ns in &self.all[*number].spreads {
                burst += each_ns + (each_ns * u128::from(*spread_ns)).div_ceil(interval_ns);
                load += (each_ns << 32).div_ceil(interval_ns);
            }
        }
        let left = (1u128 << 32).checked_sub(load).filter(|left| *left > 0);
        let busy = left.map(|left| (burst << 32).div_ceil(left));
        let narrow = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        (narrow(burst), busy.map(narrow))
    }

    /// Returns the links of a connection's path with the others there, behind output queues, and a
    /// burst of the connection. Work is in bytes, at a byte per nanosecond ([`LINK_BPS`]).
    fn way(&self, flow: usize, onto: &[Onto]) -> (Vec<SharedLink>, Source) {
        let path = &self.flows[flow].stations;
        let own = self.class(path[0]);
        let way = path.iter().enumerate().map(|(place, number)| {
            let Onto { bps, burst_ns, longest_ns, .. } = onto[self.all[*number].link];
            // Those that come over the same line have joined before.
            let known_ns = if place == 0 { own.link_ns } else { self.all[*number].line_burst_ns };
            SharedLink {
                service: ServiceCurve {
                    rate_bps: LINK_BPS,
                    // A switch that stores packets gets them whole.
                    latency_ns: if self.switching.cut_through { 0 } else { longest_ns },
                },
                others_bps: bps.saturating_sub(own.bps()),
                joining_bytes: burst_ns.saturating_sub(known_ns),
            }
        });
        (way.collect(), Source { rate_bps: own.bps(), burst_bytes: own.link_ns })
    }

    /// Sets the bursts over each line; returns the sums of each link.
    fn bursts(&mut self) -> Vec<Onto> {
        let mut sums = Vec::with_capacity(self.onto.len());
        for link in 0..self.onto.len() {
            let mut sum = Onto::default();
            let mut lines = BTreeMap::<_, u64>::new();
            for number in &self.onto[link] {
                let (station, class) = (&self.all[*number], self.class(*number));
                let flows = station.flows.len() as u64;
                sum.bps = sum.bps.saturating_add(class.bps().saturating_mul(flows));
                sum.longest_ns = sum.longest_ns.max(class.link_ns);
                let burst_ns = self.burst_ns(*number);
                sum.burst_ns = sum.burst_ns.saturating_add(burst_ns);
                let line = lines.entry(station.previous).or_default();
                *line = line.saturating_add(burst_ns);
            }
            for number in &self.onto[link] {
                let station = &mut self.all[*number];
                station.line_burst_ns = lines[&station.previous];
            }
            sums.push(sum);
        }
        sums
    }

    /// Returns the sum of the bursts of a station's connections, ns of transmission.
    fn burst_ns(&self, number: usize) -> u64 {
        let class = self.class(number);
        let (each_ns, interval_ns) = (u128::from(class.link_ns), u128::from(class.interval_ns));
        let of =
            |spread_ns: &u64| each_ns + (each_ns * u128::from(*spread_ns)).div_ceil(interval_ns);
        let sum = self.all[number].spreads.iter().map(of).fold(0, u128::saturating_add);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    /// Returns the most packets that come to a station in a time closed at both ends.
    fn packets(&self, number: usize, time_ns: u64) -> u64 {
        let class = self.class(number);
        let each = self.all[number].spreads.iter();
        each.map(|spread_ns| packets(class, time_ns, *spread_ns)).sum()
    }

    /// Returns the longest time from the arrival of a packet at a link that serves in the order of
    /// arrival to the end of its transmission, ns: the greatest W(x) − x in a busy period.
    fn longest_in_order_ns(&self, link: usize) -> u64 {
        let (burst_ns, any) = self.by_buckets_ns(link);
        let sent_ns = |y: u64| self.transmissions(link, y, &[]).without_ns(0);
        let Some(busy_ns) = Self::first(0, any, sent_ns) else {
            return burst_ns;
        };
        // W(x) grows by packets at these times, and by the lines between them.
        let mut steps = vec![0, busy_ns];
        for number in &self.onto[link] {
            let interval_ns = self.class(*number).interval_ns;
            for spread_ns in &self.all[*number].spreads {
                let first_ns = interval_ns - spread_ns % interval_ns;
                let each = std::iter::successors(Some(first_ns), |at| Some(at + interval_ns));
                steps.extend(each.take_while(|at| *at < busy_ns).take(MAX_STEPS));
            }
        }
        if steps.len() > MAX_STEPS {
            return burst_ns;
        }
        steps.sort_unstable();
        steps.dedup();
        let mut longest_ns = 0;
        for (place, from_ns) in steps.iter().enumerate() {
            let until_ns = steps.get(place + 1).map_or(*from_ns, |next| next - 1);
            // Between two steps the sum of the lines that limit grows by whole nanoseconds.
            let at_ns = |x: u64| sent_ns(x).saturating_sub(x);
            longest_ns = longest_ns.max(at_ns(*from_ns)).max(at_ns(until_ns));
            longest_ns = longest_ns.max(self.between_ns(link, *from_ns, until_ns));
        }
        longest_ns.min(burst_ns)
    }

    /// Returns the greatest W(x) − x in a time in which no connection's packets step up.
    fn between_ns(&self, link: usize, from_ns: u64, until_ns: u64) -> u64 {
        let mut longest_ns = 0;
        for stations in self.lines(link) {
            let work = |number: &usize| {
                self.packets(*number, from_ns).saturating_mul(self.class(*number).link_ns)
            };
            let sum_ns = stations.iter().map(work).fold(0, u64::saturating_add);
            let longest = stations.iter().map(|of| self.class(*of).link_ns).max().unwrap_or(0);
            // The line no longer limits from here on.
            let x = sum_ns.saturating_sub(longest);
            if (from_ns..until_ns).contains(&x) {
                let sent = self.transmissions(link, x, &[]);
                longest_ns = longest_ns.max(sent.without_ns(x));
            }
        }
        longest_ns
    }
}

/// Returns the most packets of a connection that come in a time closed at both ends.
fn packets(class: Class, time_ns: u64, spread_ns: u64) -> u64 {
    (time_ns.saturating_add(spread_ns) / class.interval_ns).saturating_add(1)
}
