//! Flow queueing and CoDel, from the text of RFC 8290 (section 4) and RFC 8289 (section 5).
//!
//! A list of flows with a list of packets each; every step searches them. Hosts take turns, and the
//! flows of a host within its turns. The only number of its own is the control law:
//! `interval / √count` is `⌊interval · 2^16 / ⌊√(count · 2^32)⌋⌋`. [`aqm`] has the other kinds of
//! queue management, [`dual`] the two queues of DualPI2.

pub mod aqm;
pub mod dual;

use aqm::{Cobalt, Pie, PieSpec, Red, RedSpec, Signal, SplitMix};

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowArrival {
    /// The hash of its flow.
    pub hash: u32,
    /// The hash of its host.
    pub host: u32,
    /// Its number.
    pub number: u64,
    /// Its length, bytes.
    pub bytes: u32,
    /// Its arrival, ns.
    pub arrival_ns: u64,
    /// Whether its sender reacts to marks.
    pub capable: bool,
    /// Whether it is ECT(1) or CE.
    pub low_latency: bool,
}

/// The queue management of each flow. CoDel and COBALT have target and interval, ns, and whether
/// they mark.
#[derive(Clone, Copy, Debug)]
pub enum AqmSpec {
    /// None.
    None,
    /// CoDel.
    Codel(u64, u64, bool),
    /// PIE.
    Pie(PieSpec),
    /// RED.
    Red(RedSpec),
    /// COBALT.
    Cobalt(u64, u64, bool),
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// The number of flows: less than 8, or a multiple of 8.
    pub buckets: u32,
    /// Bytes of a turn.
    pub quantum: u32,
    /// The most bytes that wait.
    pub limit_bytes: u64,
    /// The most packets that wait.
    pub limit_packets: usize,
    /// Whether hosts share equally.
    pub by_host: bool,
    /// The queue management.
    pub aqm: AqmSpec,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The outcome of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOutcome {
    /// Delivered: its number.
    Delivered(u64),
    /// Marked and delivered: its number.
    Marked(u64),
    /// Dropped by queue management: its number.
    Dropped(u64),
    /// Dropped at a limit: its number.
    Full(u64),
}

#[derive(Clone, Debug)]
struct Flow {
    hash: u32,
    host: usize,
    /// The packets, and whether they were marked at arrival.
    packets: Vec<(FlowArrival, bool)>,
    deficit: i64,
    in_list: bool,
    pie: Pie,
    red: Red,
    cobalt: Cobalt,
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Flow {
    fn new() -> Self {
        Self {
            hash: 0,
            host: 0,
            packets: Vec::new(),
            deficit: 0,
            in_list: false,
            pie: Pie::new(),
            red: Red::new(),
            cobalt: Cobalt::default(),
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    fn bytes(&self) -> u64 {
        self.packets.iter().map(|(packet, _)| u64::from(packet.bytes)).sum()
    }
}

/// A host.
#[derive(Clone, Debug, Default)]
struct Host {
    hash: u32,
    /// Its old flows.
    old: Vec<usize>,
    deficit: i64,
}

/// The flows of a stream.
#[derive(Clone, Debug)]
pub struct FlowModel {
    spec: FlowSpec,
    flows: Vec<Flow>,
    hosts: Vec<Host>,
    new: Vec<usize>,
    /// The hosts with old flows.
    turns: Vec<usize>,
    largest: u64,
    random: SplitMix,
}

impl FlowModel {
    /// Returns empty flows.
    #[must_use]
    pub fn new(spec: FlowSpec) -> Self {
        let flows = vec![Flow::new(); spec.buckets as usize];
        let hosts = vec![Host::default(); if spec.by_host { flows.len() } else { 1 }];
        let random = SplitMix(spec.seed);
        Self { spec, flows, hosts, new: Vec::new(), turns: Vec::new(), largest: 0, random }
    }

    /// Returns the packets that wait.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.flows.iter().map(|flow| flow.packets.len()).sum()
    }

    fn bytes(&self) -> u64 {
        self.flows.iter().map(Flow::bytes).sum()
    }

    /// Appends a packet; returns the packets that are dropped.
    pub fn push(&mut self, packet: FlowArrival) -> Vec<FlowOutcome> {
        let used: Vec<_> = self.flows.iter().map(|of| of.in_list.then_some(of.hash)).collect();
        let at = find(&used, packet.hash);
        let flow = &mut self.flows[at];
        let (now, capable, random) = (packet.arrival_ns, packet.capable, &mut self.random);
        let signal = match &self.spec.aqm {
            AqmSpec::Pie(of) => flow.pie.enque(of, now, flow.bytes(), capable, random),
            AqmSpec::Red(of) => {
                let queue: Vec<u32> = flow.packets.iter().map(|(packet, _)| packet.bytes).collect();
                flow.red.arrival(of, now, &queue, capable, random)
            }
            AqmSpec::Cobalt(target, interval, marks) => {
                flow.cobalt.arrival((*target, *interval, *marks), now);
                Signal::Pass
            }
            AqmSpec::None | AqmSpec::Codel(..) => Signal::Pass,
        };
        if signal == Signal::Drop {
            return vec![FlowOutcome::Dropped(packet.number)];
        }
        let flow = &mut self.flows[at];
        flow.packets.push((packet, signal == Signal::Mark));
        if !flow.in_list {
            flow.in_list = true;
            flow.hash = packet.hash;
            flow.deficit = i64::from(self.spec.quantum);
            flow.host = usize::MAX;
            self.new.push(at);
            let host = self.host(packet.host);
            self.hosts[host].hash = packet.host;
            self.flows[at].host = host;
        }
        self.largest = self.largest.max(u64::from(packet.bytes));
        let mut dropped = Vec::new();
        while self.packets() > self.spec.limit_packets || self.bytes() > self.spec.limit_bytes {
            let most = self.flows.iter().map(Flow::bytes).max().unwrap_or(0);
            let Some(longest) = self.flows.iter_mut().find(|flow| flow.bytes() == most) else {
                break;
            };
            let many = longest.packets.len().div_ceil(2).min(64);
            let gone = longest.packets.drain(..many);
            dropped.extend(gone.map(|(packet, _)| FlowOutcome::Full(packet.number)));
            let is_empty = longest.packets.is_empty();
            match self.spec.aqm {
                AqmSpec::Pie(of) => longest.pie.cut(&of, now, is_empty),
                AqmSpec::Red(_) if is_empty => longest.red.emptied(now),
                AqmSpec::Cobalt(target, interval, marks) => {
                    longest.cobalt.full((target, interval, marks), now);
                }
                _ => {}
            }
        }
        dropped
    }

    /// Returns the host of a hash: of the hosts that have flows in a list, or a free one.
    fn host(&self, hash: u32) -> usize {
        if !self.spec.by_host {
            return 0;
        }
        let active = |at: usize| self.flows.iter().any(|of| of.in_list && of.host == at);
        let used: Vec<_> =
            self.hosts.iter().enumerate().map(|(at, of)| active(at).then_some(of.hash)).collect();
        find(&used, hash)
    }

    /// Removes the next packet; returns the outcomes of all packets that leave.
    pub fn pull(&mut self, now: u64) -> Vec<FlowOutcome> {
        let mut left = Vec::new();
        let quantum = i64::from(self.spec.quantum);
        loop {
            let from_new = !self.new.is_empty();
            let at = if let Some(first) = self.new.first() {
                *first
            } else {
                let Some(&host) = self.turns.first() else { return left };
                if self.spec.by_host && self.hosts[host].deficit <= 0 {
                    self.hosts[host].deficit += quantum;
                    self.turns.rotate_left(1);
                    continue;
                }
                self.hosts[host].old[0]
            };
            let host = self.flows[at].host;
            if self.flows[at].deficit <= 0 {
                self.flows[at].deficit += quantum;
                if from_new {
                    self.new.remove(0);
                    self.make_old(at);
                } else {
                    self.hosts[host].old.rotate_left(1);
                }
                continue;
            }
            if let Some((packet, marked)) = self.deque(at, now, &mut left) {
                self.flows[at].deficit -= i64::from(packet.bytes);
                self.hosts[host].deficit -= i64::from(packet.bytes);
                let number = packet.number;
                left.push(match marked {
                    true => FlowOutcome::Marked(number),
                    false => FlowOutcome::Delivered(number),
                });
                return left;
            }
            if from_new {
                self.new.remove(0);
            } else {
                self.hosts[host].old.remove(0);
                if self.hosts[host].old.is_empty() {
                    self.turns.remove(0);
                }
            }
            if from_new && !self.turns.is_empty() {
                self.make_old(at);
            } else {
                self.flows[at].in_list = false;
            }
        }
    }

    fn make_old(&mut self, at: usize) {
        let host = self.flows[at].host;
        self.hosts[host].old.push(at);
        if !self.turns.contains(&host) {
            self.hosts[host].deficit = i64::from(self.spec.quantum);
            self.turns.push(host);
        }
    }

    /// `dodequeue` of RFC 8289, section 5.6: the first packet, and whether it may be dropped.
    fn dodequeue(
        &mut self,
        at: usize,
        now: u64,
        (target, interval): (u64, u64),
    ) -> (Option<FlowArrival>, bool) {
        if self.flows[at].packets.is_empty() {
            self.flows[at].first_above = 0;
            return (None, false);
        }
        let (packet, _) = self.flows[at].packets.remove(0);
        let sojourn = now - packet.arrival_ns;
        let mut ok_to_drop = false;
        // Section 4.4: the occupancy of all queues of the link.
        let is_short = self.bytes() <= self.largest;
        let flow = &mut self.flows[at];
        if sojourn < target || is_short {
            flow.first_above = 0;
        } else if flow.first_above == 0 {
            flow.first_above = now + interval;
        } else if now >= flow.first_above {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    /// Removes the first packet of a flow that its queue management delivers.
    fn deque(
        &mut self,
        at: usize,
        now: u64,
        left: &mut Vec<FlowOutcome>,
    ) -> Option<(FlowArrival, bool)> {
        if let AqmSpec::Codel(target, interval, marks) = self.spec.aqm {
            return self.deque_codel(at, now, (target, interval, marks), left);
        }
        let cobalt = match self.spec.aqm {
            AqmSpec::Cobalt(target, interval, marks) => Some((target, interval, marks)),
            _ => None,
        };
        loop {
            let flow = &mut self.flows[at];
            if flow.packets.is_empty() {
                if let Some(of) = cobalt {
                    flow.cobalt.empty(of, now);
                }
                if let AqmSpec::Pie(of) = &self.spec.aqm {
                    flow.pie.deque(of, now, 0, true);
                }
                return None;
            }
            let (packet, marked) = flow.packets.remove(0);
            let (sojourn, is_last) = (now - packet.arrival_ns, flow.packets.is_empty());
            match &self.spec.aqm {
                AqmSpec::Pie(of) => flow.pie.deque(of, now, sojourn, is_last),
                AqmSpec::Red(_) if is_last => flow.red.emptied(now),
                _ => {}
            }
            let Some(of) = cobalt else { return Some((packet, marked)) };
            let head = (sojourn, self.bytes(), self.largest, is_last);
            let (flow, random) = (&mut self.flows[at], &mut self.random);
            match flow.cobalt.head(of, now, head, packet.capable, random) {
                Signal::Pass => return Some((packet, false)),
                Signal::Mark => return Some((packet, true)),
                Signal::Drop => left.push(FlowOutcome::Dropped(packet.number)),
            }
        }
    }

    /// `dequeue` of RFC 8289, section 5.5. A mark delivers the packet at once, as in Linux.
    fn deque_codel(
        &mut self,
        at: usize,
        now: u64,
        (target, interval, marks): (u64, u64, bool),
        left: &mut Vec<FlowOutcome>,
    ) -> Option<(FlowArrival, bool)> {
        let (mut packet, mut ok) = self.dodequeue(at, now, (target, interval));
        if self.flows[at].dropping {
            if !ok {
                self.flows[at].dropping = false;
            }
            while self.flows[at].dropping && now >= self.flows[at].drop_next {
                let this = packet?;
                self.flows[at].count += 1;
                let (count, next) = (self.flows[at].count, self.flows[at].drop_next);
                if marks && this.capable {
                    self.flows[at].drop_next = control_law(next, interval, count);
                    return Some((this, true));
                }
                left.push(FlowOutcome::Dropped(this.number));
                (packet, ok) = self.dodequeue(at, now, (target, interval));
                if ok {
                    self.flows[at].drop_next = control_law(next, interval, count);
                } else {
                    self.flows[at].dropping = false;
                }
            }
        } else if ok {
            let this = packet?;
            let mark = marks && this.capable;
            if !mark {
                left.push(FlowOutcome::Dropped(this.number));
                (packet, _) = self.dodequeue(at, now, (target, interval));
            }
            let flow = &mut self.flows[at];
            flow.dropping = true;
            let delta = i64::from(flow.count) - i64::from(flow.last_count);
            flow.count = 1;
            if delta > 1 && now.saturating_sub(flow.drop_next) < 16 * interval {
                flow.count = u32::try_from(delta).unwrap_or(1);
            }
            flow.drop_next = control_law(now, interval, flow.count);
            flow.last_count = flow.count;
            if mark {
                return Some((this, true));
            }
        }
        packet.map(|packet| (packet, false))
    }
}

/// Returns the entry of a hash among those in use: the one that has it, its own or another free one
/// of its set of 8, or its own in use.
fn find(used: &[Option<u32>], hash: u32) -> usize {
    let own = hash as usize % used.len();
    let set: Vec<usize> = (0..used.len()).filter(|at| at / 8 == own / 8).collect();
    let known = set.iter().find(|at| used[**at] == Some(hash));
    let free = || {
        let free: Vec<usize> = set.iter().copied().filter(|at| used[*at].is_none()).collect();
        if free.contains(&own) { Some(own) } else { free.first().copied() }
    };
    known.copied().or_else(free).unwrap_or(own)
}

fn control_law(from: u64, interval: u64, count: u32) -> u64 {
    let square = u128::from(count) << 32;
    let mut root = 0u128;
    for bit in (0..33).rev() {
        let larger = root | 1 << bit;
        if larger * larger <= square {
            root = larger;
        }
    }
    from + u64::try_from((u128::from(interval) << 16) / root.max(1)).unwrap_or(u64::MAX)
}
