//! Flow queueing and CoDel, from the text of RFC 8290 (section 4) and RFC 8289 (section 5).
//!
//! A list of flows with a list of packets each; every step searches them. The only number of its
//! own is the control law: `interval / √count` is `⌊interval · 2^16 / ⌊√(count · 2^32)⌋⌋`.

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowArrival {
    /// The hash of its flow.
    pub hash: u32,
    /// Its number.
    pub number: u64,
    /// Its length, bytes.
    pub bytes: u32,
    /// Its arrival, ns.
    pub arrival_ns: u64,
    /// Whether its sender reacts to marks.
    pub capable: bool,
}

/// The parameters; `codel` has target and interval, ns, and whether it marks.
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
    /// CoDel, if any.
    pub codel: Option<(u64, u64, bool)>,
}

/// The outcome of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOutcome {
    /// Delivered: its number.
    Delivered(u64),
    /// Marked and delivered: its number.
    Marked(u64),
    /// Dropped by CoDel: its number.
    Dropped(u64),
    /// Dropped at a limit: its number.
    Full(u64),
}

#[derive(Clone, Debug, Default)]
struct Flow {
    hash: u32,
    packets: Vec<FlowArrival>,
    deficit: i64,
    in_list: bool,
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Flow {
    fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.bytes)).sum()
    }
}

/// The flows of a stream.
#[derive(Clone, Debug)]
pub struct FlowModel {
    spec: FlowSpec,
    flows: Vec<Flow>,
    new: Vec<usize>,
    old: Vec<usize>,
    largest: u64,
}

impl FlowModel {
    /// Returns empty flows.
    #[must_use]
    pub fn new(spec: FlowSpec) -> Self {
        let flows = vec![Flow::default(); spec.buckets as usize];
        Self { spec, flows, new: Vec::new(), old: Vec::new(), largest: 0 }
    }

    /// Returns the packets that wait.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.flows.iter().map(|flow| flow.packets.len()).sum()
    }

    fn bytes(&self) -> u64 {
        self.flows.iter().map(Flow::bytes).sum()
    }

    /// Appends a packet; returns the packets dropped at the limits.
    pub fn push(&mut self, packet: FlowArrival) -> Vec<FlowOutcome> {
        let own = packet.hash as usize % self.flows.len();
        let set: Vec<usize> = (0..self.flows.len()).filter(|at| at / 8 == own / 8).collect();
        let known =
            set.iter().find(|at| self.flows[**at].in_list && self.flows[**at].hash == packet.hash);
        let idle = || {
            let idle: Vec<usize> =
                set.iter().copied().filter(|at| !self.flows[*at].in_list).collect();
            if idle.contains(&own) { Some(own) } else { idle.first().copied() }
        };
        let at = known.copied().or_else(idle).unwrap_or(own);
        let flow = &mut self.flows[at];
        flow.packets.push(packet);
        if !flow.in_list {
            flow.in_list = true;
            flow.hash = packet.hash;
            flow.deficit = i64::from(self.spec.quantum);
            self.new.push(at);
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
            dropped.extend(gone.map(|packet| FlowOutcome::Full(packet.number)));
        }
        dropped
    }

    /// Removes the next packet; returns the outcomes of all packets that leave.
    pub fn pull(&mut self, now: u64) -> Vec<FlowOutcome> {
        let mut left = Vec::new();
        loop {
            let from_new = !self.new.is_empty();
            let Some(&at) = self.new.first().or(self.old.first()) else { return left };
            if self.flows[at].deficit <= 0 {
                self.flows[at].deficit += i64::from(self.spec.quantum);
                self.leave(from_new);
                self.old.push(at);
                continue;
            }
            if let Some((packet, marked)) = self.deque(at, now, &mut left) {
                self.flows[at].deficit -= i64::from(packet.bytes);
                let number = packet.number;
                left.push(match marked {
                    true => FlowOutcome::Marked(number),
                    false => FlowOutcome::Delivered(number),
                });
                return left;
            }
            self.leave(from_new);
            if from_new && !self.old.is_empty() {
                self.old.push(at);
            } else {
                self.flows[at].in_list = false;
            }
        }
    }

    fn leave(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.remove(0);
    }

    /// RFC 8289, section 5.3: the first packet, and whether it may be dropped.
    fn dodequeue(&mut self, at: usize, now: u64) -> (Option<FlowArrival>, bool) {
        let Some((target, interval, _)) = self.spec.codel else { return (None, false) };
        let largest = self.largest;
        let flow = &mut self.flows[at];
        if flow.packets.is_empty() {
            flow.first_above = 0;
            return (None, false);
        }
        let packet = flow.packets.remove(0);
        let sojourn = now - packet.arrival_ns;
        let mut ok_to_drop = false;
        if sojourn < target || flow.bytes() <= largest {
            flow.first_above = 0;
        } else if flow.first_above == 0 {
            flow.first_above = now + interval;
        } else if now >= flow.first_above {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    /// RFC 8289, section 5.4, with marks as in RFC 8290, section 4.2.
    fn deque(
        &mut self,
        at: usize,
        now: u64,
        left: &mut Vec<FlowOutcome>,
    ) -> Option<(FlowArrival, bool)> {
        let Some((_, interval, marks)) = self.spec.codel else {
            let packets = &mut self.flows[at].packets;
            return (!packets.is_empty()).then(|| (packets.remove(0), false));
        };
        let (mut packet, mut ok) = self.dodequeue(at, now);
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
                (packet, ok) = self.dodequeue(at, now);
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
                (packet, _) = self.dodequeue(at, now);
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
