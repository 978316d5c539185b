//! The work that can hold a packet up, and the wait that follows from it.

use std::collections::BTreeMap;

use super::{Class, Credits, MAX_WAIT_NS, Station, Stations};

/// The ranges of a busy period in which the waits of later packets are told apart.
const MAX_RANGES: usize = 1_024;

/// Steps towards the least y with W(y) ≤ y, before longer ones to any such y.
const STEPS: usize = 64;
pub(super) const MAX_STEPS: usize = 40 * STEPS;

/// The maximum number of successive links for which a lack of credits is explained by the next
/// link; beyond them, the longest absence of a credit counts.
const MAX_LINKS: usize = 3;

/// The unit of [`Work`]: 2⁻²⁰ ns.
const UNITS: u128 = 1 << 20;

/// The most work that begins in a time, and its slope there: what it grows by in a nanosecond in
/// which no packet steps up, at most. Between two such steps work is concave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    units: u128,
    slope: u128,
}

impl Work {
    pub(super) fn of_ns(ns: u64) -> Self {
        Self { units: u128::from(ns) * UNITS, slope: 0 }
    }

    /// Returns the work by a line or a crossbar port that is busy for `ns`, and grows with the
    /// time: `ratio` units a nanosecond.
    fn of_port(ns: u64, ratio: u128) -> Self {
        Self { units: u128::from(ns).saturating_mul(ratio), slope: ratio }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            units: self.units.saturating_add(other.units),
            slope: self.slope.saturating_add(other.slope),
        }
    }

    fn min(self, other: Self) -> Self {
        if other.units < self.units { other } else { self }
    }

    /// Returns the work in ns, rounded up, without `own_ns`.
    pub(super) fn without_ns(self, own_ns: u64) -> u64 {
        let ns = u64::try_from(self.units.div_ceil(UNITS)).unwrap_or(u64::MAX);
        ns.saturating_sub(own_ns)
    }
}

/// Returns a ratio in units, rounded up; that of a time to none is infinite.
fn ratio(over: u64, under: u64) -> u128 {
    (u128::from(over) * UNITS).checked_div(u128::from(under)).map_or(u128::MAX, |of| of + 1)
}

/// The packets of a station that came before an instant and wait then.
#[derive(Clone, Copy, Debug, Default)]
struct Residents {
    /// The longest time for which they have waited, ns.
    before_ns: u64,
    /// The most for which there are buffers.
    most: u64,
}

/// The packets that come over a line in a time, with the residents behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    before_ns: u64,
    residents_ns: u64,
    longest_ns: u64,
}

impl Line {
    /// Adds the packets of a station.
    fn add(&mut self, class: Class, residents: Residents) {
        let residents_ns = residents.most.saturating_mul(class.link_ns);
        self.before_ns = self.before_ns.max(residents.before_ns);
        self.residents_ns = self.residents_ns.saturating_add(residents_ns);
        self.longest_ns = self.longest_ns.max(class.link_ns);
    }

    /// Returns the longest time for which these packets keep the line busy, ns.
    fn busy_ns(self, y: u64) -> u64 {
        y.saturating_add(self.before_ns.min(self.residents_ns)).saturating_add(self.longest_ns)
    }
}

impl Stations {
    /// Returns the longest wait of a packet of `own_ns` if the work that begins in y, its own
    /// included, is at most `work`(y), and the first y from `from_ns` on with W(y) − own ≤ y.
    /// `next`(y) is the first step of W after y.
    ///
    /// A packet that comes y after s waits until the first z ≥ y with W(z) − own ≤ z. It waits only
    /// if W(y) − own > y, and W(x) > x for all x before y, in which it does not count. So its wait
    /// is the length of such a range of y.
    pub(super) fn longest_wait(
        from_ns: u64,
        any: Option<u64>,
        own_ns: u64,
        work: &impl Fn(u64) -> Work,
        next: &impl Fn(u64) -> u64,
    ) -> Option<(u64, u64)> {
        let others = |y: u64| work(y).without_ns(own_ns);
        let first_ns = Self::first(from_ns, any, others)?;
        let busy_ns = Self::first(first_ns, any, |y| work(y).without_ns(0))?;
        let most_ns = others(busy_ns);
        let (mut y, mut longest_ns) = (first_ns, first_ns);
        for _ in 0..MAX_RANGES {
            // Later packets do not wait.
            if y >= busy_ns || most_ns <= y {
                return Some((first_ns, longest_ns));
            }
            let Work { units, slope } = work(y);
            let needed = units.saturating_sub(u128::from(own_ns) * UNITS);
            let late = u128::from(y) * UNITS;
            let step_ns = next(y).min(busy_ns);
            // The first time before the next step at which it may exceed y.
            let exceeds_ns = match slope.checked_sub(UNITS) {
                _ if needed > late => y,
                None | Some(0) => step_ns,
                Some(more) => {
                    let after = (late - needed) / more + 1;
                    u64::try_from(after).map_or(step_ns, |ns| y.saturating_add(ns).min(step_ns))
                }
            };
            let until_ns = Self::first(exceeds_ns, None, others)?.min(busy_ns);
            longest_ns = longest_ns.max(until_ns - exceeds_ns.min(until_ns));
            y = until_ns.max(exceeds_ns);
        }
        Some((first_ns, longest_ns.max(busy_ns - y.min(busy_ns))))
    }

    /// Returns a y from `from_ns` on with `work`(y) ≤ y: the least, unless many steps lead to it.
    /// `any` is one, if one is known.
    pub(super) fn first(from_ns: u64, any: Option<u64>, work: impl Fn(u64) -> u64) -> Option<u64> {
        // If y has W(y) ≤ y, then W(y) has it, too.
        let refine = |y| (0..STEPS).fold(y, |y, _| work(y)).max(from_ns);
        let mut y = from_ns;
        for step in 0..MAX_STEPS {
            let needed_ns = work(y);
            if needed_ns <= y {
                return Some(if step <= STEPS { y } else { refine(y) });
            }
            if needed_ns > MAX_WAIT_NS {
                return None;
            }
            if let Some(any) = any.filter(|_| step == STEPS) {
                return Some(refine(any));
            }
            // Each STEPS steps, the next ones go twice as far.
            y = needed_ns.saturating_add((needed_ns - y).saturating_mul((1 << (step / STEPS)) - 1));
        }
        None
    }

    /// Returns the packets of a station that may wait at an instant at which nothing that holds up
    /// the empty stations is busy.
    fn residents(&self, number: usize, empty: &[usize]) -> Residents {
        let Station { link, channel, wait_ns, crossing_ns, .. } = self.all[number];
        match () {
            () if empty.contains(&number) => Residents::default(),
            () if self.credits_of(link, channel).may_lack => self.sent_after(number, wait_ns),
            // They are transferred after it.
            () => self.transferred_after(number, crossing_ns),
        }
    }

    /// Returns the packets of a station that wait for their transfer, for `before_ns` at most.
    fn transferred_after(&self, number: usize, before_ns: u64) -> Residents {
        let Station { previous, channels_before, .. } = &self.all[number];
        let window = self.switching.window(self.class(number));
        let most = (channels_before.len() as u64).saturating_mul(window);
        Residents { before_ns, most: if previous.is_some() { most } else { u64::MAX } }
    }

    /// Returns the packets of a station that wait for their transmission, for `before_ns` at most.
    fn sent_after(&self, number: usize, before_ns: u64) -> Residents {
        let waiting = self.transferred_after(number, before_ns);
        let room = self.switching.room(self.class(number));
        Residents { most: waiting.most.saturating_add(room), ..waiting }
    }

    /// Returns the most packets of a station that wait at the beginning of `y` or come in it.
    fn present(&self, number: usize, residents: Residents, y: u64) -> u64 {
        let Residents { before_ns, most } = residents;
        let come = self.packets(number, y + before_ns);
        if before_ns == 0 { come } else { come.min(self.packets(number, y).saturating_add(most)) }
    }

    /// Returns the work of the transmissions on a link that begin in `y` after an instant at which
    /// nothing that holds up the empty stations is busy.
    pub(super) fn transmissions(&self, link: usize, y: u64, empty: &[usize]) -> Work {
        self.transmissions_before(link, y, empty, u32::MAX)
    }

    /// Returns the part of [`transmissions`](Self::transmissions) of these and earlier priorities.
    pub(super) fn transmissions_before(
        &self,
        link: usize,
        y: u64,
        empty: &[usize],
        priority: u32,
    ) -> Work {
        let counts = |of: usize| self.class(of).priority <= priority;
        self.transmissions_of(link, y, counts, |number| self.residents(number, empty))
    }

    /// Returns the work of the transmissions on a link that begin in `y`, of these stations'
    /// packets.
    fn transmissions_of(
        &self,
        link: usize,
        y: u64,
        counts: impl Fn(usize) -> bool,
        residents: impl Fn(usize) -> Residents,
    ) -> Work {
        let of_line = |stations: &[usize]| {
            let (mut sum_ns, mut line) = (0u64, Line::default());
            let mut limited = self.all[stations[0]].previous.is_some();
            for number in stations.iter().filter(|of| counts(**of)) {
                let class = self.class(*number);
                let residents = residents(*number);
                let packets = self.present(*number, residents, y);
                sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.output_ns()));
                line.add(class, residents);
                limited &= class.output_ns() == class.link_ns;
            }
            let sum = Work::of_ns(sum_ns);
            if limited { sum.min(Work::of_port(line.busy_ns(y), UNITS)) } else { sum }
        };
        self.lines(link).map(of_line).fold(Work::default(), Work::plus)
    }

    /// Returns the stations in front of a link, by the line before them.
    pub(super) fn lines(&self, link: usize) -> impl Iterator<Item = &[usize]> {
        self.onto[link].chunk_by(|one, other| self.all[*one].previous == self.all[*other].previous)
    }

    /// Returns the longest time in `y` in which a link is idle although packets of these stations
    /// wait: their channels lack credits, or a packet of another channel that does is transferred.
    pub(super) fn held(
        &self,
        link: usize,
        y: u64,
        stations: &[usize],
        empty: &[usize],
        before: &[usize],
    ) -> Work {
        if !self.switching.crossbar {
            return Work::default();
        }
        let own = |number: &usize| {
            let channel = self.all[*number].channel;
            stations.iter().any(|of| self.all[*of].link == link && self.all[*of].channel == channel)
        };
        let (mut held_ns, mut channels) = (0u64, BTreeMap::new());
        for number in &self.onto[link] {
            let Station { channel, wait_ns, previous, .. } = self.all[*number];
            if !self.credits_of(link, channel).may_lack {
                continue;
            }
            if own(number) {
                channels.insert(channel, self.class(*number));
            } else if previous.is_some() {
                let packets = self.present(*number, self.sent_after(*number, wait_ns), y);
                let transfers_ns = packets.saturating_mul(self.class(*number).transfer_ns);
                held_ns = held_ns.saturating_add(transfers_ns);
            }
        }
        let lacks = channels.into_iter().map(|(of, class)| {
            let begun = self.begun(link, of, class, y, empty);
            self.lacks(link, of, class, begun, y, before)
        });
        lacks.fold(Work::of_ns(held_ns), Work::plus)
    }

    /// Returns the most packets of a channel that begin on a link in `y`.
    pub(super) fn begun(
        &self,
        link: usize,
        channel: usize,
        class: Class,
        y: u64,
        empty: &[usize],
    ) -> u64 {
        let of_channel = self.onto[link].iter().filter(|of| self.all[**of].channel == channel);
        let begun = of_channel.map(|of| self.present(*of, self.residents(*of, empty), y));
        begun.sum::<u64>().min(class.on_line(y))
    }

    /// Returns the longest time in which a link is idle and a channel lacks credits, by the longest
    /// absence of a credit. `begun` packets of the channel begin in that time.
    ///
    /// A packet that waits for credits begins at the latest when those of the packet w before it
    /// return. Between these two the link transmits w packets of the channel, and is idle for the
    /// rest. Each w packets have one such time.
    fn awaits_credits(&self, link: usize, channel: usize, class: Class, begun: u64) -> Work {
        let Credits { return_ns, may_lack, .. } = self.credits_of(link, channel);
        if !may_lack {
            return Work::default();
        }
        let window = self.switching.window(class).max(1);
        let idle_ns = return_ns.saturating_sub(window.saturating_mul(class.link_ns));
        Work::of_ns(begun.div_ceil(window).saturating_mul(idle_ns))
    }

    /// Returns the longest time in `y` in which a link is idle and a channel lacks credits. `begun`
    /// packets of the channel begin in that time. `before` has the links that may lack credits
    /// because this one does.
    ///
    /// Let packet k wait for the credits that the transfer of packet k − w returns, in a time in
    /// which the input behind the link always has packets. All of these came over the link in it,
    /// and need no longer there. So the link is idle for no longer than packets are on their way,
    /// and packets of other inputs hold the input up, less w transmissions. The packets on their
    /// way may be the longest on the link, also those of other channels.
    pub(super) fn lacks(
        &self,
        link: usize,
        channel: usize,
        class: Class,
        begun: u64,
        y: u64,
        before: &[usize],
    ) -> Work {
        let awaits = self.awaits_credits(link, channel, class, begun);
        let is_slow = |of: &usize| self.class(*of).transfer_ns > self.class(*of).link_ns;
        if !self.credits_of(link, channel).may_lack
            || self.from[link].iter().any(is_slow)
            || before.contains(&link)
            || before.len() >= MAX_LINKS
        {
            return awaits;
        }
        let of_link = || self.from[link].iter().map(|of| self.class(*of)).chain([class]);
        let ahead_ns = of_link().map(|of| self.switching.ahead_ns(of)).max().unwrap_or(0);
        let longest_ns = of_link().map(|of| of.link_ns).max().unwrap_or(0);
        let way_ns = ahead_ns.saturating_add(self.switching.delay_ns);
        let is_other = |of: &usize| *of != channel;
        // Packets of other channels that came over the link before.
        let residents_ns = self.from[link].iter().map(|number| {
            let other = self.all[*number].channels_before.iter().any(is_other);
            let residents = self.transferred_after(*number, self.all[*number].crossing_ns);
            let packets = if other { self.present(*number, residents, 0) } else { 0 };
            packets.saturating_mul(self.class(*number).transfer_ns)
        });
        let residents_ns = residents_ns.fold(0, u64::saturating_add);
        let first_ns = way_ns.saturating_add(longest_ns.saturating_mul(2));
        let first_ns = first_ns.saturating_add(residents_ns);
        let window = self.switching.window(class).max(1);
        let idle_ns = |buffered_ns: u64| {
            let each_ns = way_ns.saturating_add(longest_ns).saturating_add(buffered_ns);
            let each_ns = each_ns.saturating_sub(window.saturating_mul(class.link_ns));
            let all_ns = each_ns.saturating_mul(begun / window);
            Work::of_ns(first_ns.saturating_add(buffered_ns).saturating_add(all_ns))
        };
        if idle_ns(0).units >= awaits.units {
            return awaits;
        }
        let before = [before, &[link]].concat();
        let (others, rooms_ns, sent) = self.blocked(link, y, &before);
        let by_outputs = others.plus(idle_ns(rooms_ns).min(idle_ns(0).plus(sent)));
        let by_turns = self.inputs[link].turns_ns;
        let by_turns = by_turns.map(|turns_ns| idle_ns(0).plus(self.turns(link, turns_ns, y)));
        by_turns.into_iter().chain([by_outputs]).fold(awaits, Work::min)
    }

    /// Returns the longest time in `y` for which packets of other inputs hold up an input that has
    /// packets; that of its own packets in the buffers of outputs, ns; and the work of its own
    /// packets there.
    fn blocked(&self, previous: usize, y: u64, before: &[usize]) -> (Work, u64, Work) {
        let mut links: Vec<_> = self.from[previous].iter().map(|of| self.all[*of].link).collect();
        links.sort_unstable();
        links.dedup();
        let (mut others, mut rooms_ns, mut sent) = (Work::default(), 0u64, Work::default());
        for link in links {
            let of = self.blocked_at(link, previous, y, before);
            others = others.plus(of.0);
            rooms_ns = rooms_ns.saturating_add(of.1);
            sent = sent.plus(of.2);
        }
        (others, rooms_ns, sent)
    }

    /// Returns the part of [`blocked`](Self::blocked) at one output.
    fn blocked_at(
        &self,
        link: usize,
        previous: usize,
        y: u64,
        before: &[usize],
    ) -> (Work, u64, Work) {
        let own: Vec<_> =
            self.from[previous].iter().copied().filter(|of| self.all[*of].link == link).collect();
        let may_fill =
            |of: &usize| self.outputs[link * self.channels + self.all[*of].channel].may_fill;
        let others = || self.onto[link].iter().filter(|of| !own.contains(of));
        if !own.iter().any(may_fill) {
            let first_ns = others().map(|of| self.class(*of).transfer_ns).max().unwrap_or(0);
            let work = self.transfers(link, y, Some(previous), &[]).plus(Work::of_ns(first_ns));
            return (work, 0, Work::default());
        }
        let waiting = |number: usize| self.sent_after(number, self.all[number].wait_ns);
        let first_ns = others().map(|of| self.class(*of).link_ns).max().unwrap_or(0);
        let work = self
            .transmissions_of(link, y, |of| !own.contains(&of), waiting)
            .plus(self.held(link, y, &own, &[], before))
            .plus(Work::of_ns(first_ns));
        let sent = self.transmissions_of(link, y, |of| own.contains(&of), waiting);
        let rooms = own.iter().map(|of| {
            let class = self.class(*of);
            (self.all[*of].channel, self.switching.room(class).saturating_mul(class.link_ns))
        });
        let rooms: BTreeMap<_, _> = rooms.collect();
        (work, rooms.into_values().fold(0, u64::saturating_add), sent)
    }

    /// Returns the time of the turns of others, `turns_ns` each, while an input transfers packets
    /// in `y`.
    fn turns(&self, previous: usize, turns_ns: u64, y: u64) -> Work {
        let (mut packets, mut line, mut rate) = (1u64, Line::default(), 0);
        for number in &self.from[previous] {
            let class = self.class(*number);
            let residents = self.transferred_after(*number, self.all[*number].crossing_ns);
            packets = packets.saturating_add(self.present(*number, residents, y));
            line.add(class, residents);
            rate = rate.max(ratio(turns_ns, class.link_ns));
        }
        let by_line = Work::of_port(line.busy_ns(y), rate).plus(Work::of_ns(turns_ns));
        Work::of_ns(packets.saturating_mul(turns_ns)).min(by_line)
    }

    /// Returns the work of the transmissions on a link that begin in `y` after an instant at which
    /// it is idle and a channel does not lack credits.
    pub(super) fn transmissions_after(&self, link: usize, channel: usize, y: u64) -> Work {
        let (mut sum_ns, mut longest_ns, mut rate, mut all_crossed) = (0u64, 0, 0, true);
        for number in &self.onto[link] {
            let (station, class) = (&self.all[*number], self.class(*number));
            // They were transferred before if they lacked credits.
            let is_crossed =
                station.channel == channel || !self.credits_of(link, station.channel).may_lack;
            all_crossed &= is_crossed;
            let residents = if is_crossed {
                self.transferred_after(*number, station.crossing_ns)
            } else {
                self.sent_after(*number, station.wait_ns)
            };
            let packets = self.present(*number, residents, y);
            sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.link_ns));
            longest_ns = longest_ns.max(class.cross_ns);
            rate = rate.max(ratio(class.link_ns, class.cross_ns));
        }
        let sum = Work::of_ns(sum_ns);
        // The output transfers one packet at a time.
        if all_crossed { sum.min(Work::of_port(y + longest_ns, rate)) } else { sum }
    }

    /// Returns the work of the transfers to a link that begin in `y`, without those of one input.
    pub(super) fn transfers(
        &self,
        link: usize,
        y: u64,
        without: Option<usize>,
        empty: &[usize],
    ) -> Work {
        let of_line = |stations: &[usize]| {
            let (mut sum_ns, mut line, mut rate) = (0u64, Line::default(), 0);
            for number in stations {
                let class = self.class(*number);
                let residents = if empty.contains(number) {
                    Residents::default()
                } else {
                    self.transferred_after(*number, self.all[*number].crossing_ns)
                };
                let packets = self.present(*number, residents, y);
                sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.transfer_ns));
                line.add(class, residents);
                rate = rate.max(ratio(class.transfer_ns, class.link_ns));
            }
            Work::of_ns(sum_ns).min(Work::of_port(line.busy_ns(y), rate))
        };
        let counts = |line: &&[usize]| without.is_none() || self.all[line[0]].previous != without;
        self.lines(link).filter(counts).map(of_line).fold(Work::default(), Work::plus)
    }

    /// Returns the work of the transfers of an input to other links than `links` that begin in `y`.
    pub(super) fn transfers_of(&self, previous: usize, links: &[usize], y: u64) -> Work {
        let others = self.from[previous].iter().filter(|of| !links.contains(&self.all[**of].link));
        let (mut whole_ns, mut line) = (0u64, Line::default());
        // Transfers of packets that arrive take longer.
        let (mut more_ns, mut one_ns) = (0u64, 0);
        let (mut whole_rate, mut more_rate) = (0, 0);
        for number in others {
            let class = self.class(*number);
            let longer_ns = class.transfer_ns - class.cross_ns;
            let residents = self.transferred_after(*number, self.all[*number].crossing_ns);
            let packets = self.present(*number, residents, y);
            whole_ns = whole_ns.saturating_add(packets.saturating_mul(class.cross_ns));
            more_ns = more_ns.saturating_add(self.packets(*number, y).saturating_mul(longer_ns));
            one_ns = one_ns.max(longer_ns);
            line.add(class, residents);
            whole_rate = whole_rate.max(ratio(class.cross_ns, class.link_ns));
            more_rate = more_rate.max(ratio(longer_ns, class.link_ns));
        }
        let whole = Work::of_ns(whole_ns).min(Work::of_port(line.busy_ns(y), whole_rate));
        let more = Work::of_ns(more_ns).min(Work::of_port(y + line.longest_ns, more_rate));
        whole.plus(more).plus(Work::of_ns(one_ns))
    }

    /// Returns the work of an input that begins in `y` after an instant at which it has no packets,
    /// with `turns_ns` for each transfer.
    pub(super) fn transfers_by_turns(&self, previous: usize, turns_ns: u64, y: u64) -> Work {
        let (mut sum_ns, mut line, mut rate) = (0u64, Line::default(), 0);
        for number in &self.from[previous] {
            let class = self.class(*number);
            let each_ns = class.transfer_ns.saturating_add(turns_ns);
            sum_ns = sum_ns.saturating_add(self.packets(*number, y).saturating_mul(each_ns));
            line.add(class, Residents::default());
            rate = rate.max(ratio(each_ns, class.link_ns));
        }
        Work::of_ns(sum_ns).min(Work::of_port(line.busy_ns(y), rate))
    }

    /// Returns the first time after `y` at which more packets count in the work of these stations,
    /// ns.
    pub(super) fn next_step_ns<'a>(&self, numbers: impl Iterator<Item = &'a usize>, y: u64) -> u64 {
        let of_station = |number: &usize| {
            let Station { spreads, wait_ns, crossing_ns, link, channel, .. } = &self.all[*number];
            let class = self.class(*number);
            let step =
                |before_ns: u64, interval_ns: u64| y + interval_ns - (y + before_ns) % interval_ns;
            let steps = spreads.iter().flat_map(|spread_ns| {
                [0, *wait_ns, *crossing_ns].map(|ns| step(ns + spread_ns, class.interval_ns))
            });
            let may_lack = self.credits_of(*link, *channel).may_lack;
            steps.chain(may_lack.then(|| step(0, class.link_ns.max(1)))).min()
        };
        numbers.filter_map(of_station).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use millstream_scenario::Scenario;

    use super::super::{PathLink, Switching};
    use super::*;
    use crate::fabric::{FabricListener, NoFabricBound, PacketStep, Step, delay_bounds, prepare};

    /// A packet of 7.88 µs each 14.6 µs, on a link with buffers for two packets behind it, and one
    /// of 11.7 µs each 30.5 µs on another channel.
    const TEXT: &str = r#"
[scenario]
duration = "20 ms"
[link]
rate = "1 Gbit/s"
[fabric]
largest-packet = 1464
input-buffer = "2944 B"
output-buffer = "64 MB"
speed-up = 1.05
forwarding = "store-and-forward"
delay = "100 ns"
latency = "300 ns"
[fabric.topology]
kind = "custom"
end-points = 2
switches = [2]
cables = [["e0", "s0:0"], ["e1", "s0:1"]]
[scheduler]
discipline = "fifo"
[[stream]]
name = "short"
[stream.source]
kind = "cbr"
bytes = 985
interval = "14.6 us"
from = "e0"
to = "e1"
start = "1 us"
[[stream]]
name = "long"
[stream.source]
kind = "cbr"
bytes = 1464
interval = "30.5 us"
from = "e0"
to = "e1"
start = "1 ns"
"#;

    /// The first link of [`TEXT`] in the second half of its run, in which short packets always
    /// wait.
    #[derive(Default)]
    struct FirstLink {
        free_ns: u64,
        begun: u64,
        idle_ns: u64,
        longest_wait_ns: u64,
    }

    const FROM_NS: u64 = 10_000_000;

    impl FabricListener for FirstLink {
        const STEPS: bool = true;

        fn on_step(&mut self, of: &PacketStep) {
            let Step::Sent { link: 0, begins_ns, ends_ns, .. } = of.step else { return };
            if begins_ns > FROM_NS {
                self.idle_ns += begins_ns - self.free_ns.max(FROM_NS);
                self.begun += u64::from(of.class == 0);
            }
            if of.class == 0 {
                let wait_ns = begins_ns - of.injected_ns;
                assert!(begins_ns < FROM_NS || wait_ns > 400_000, "{wait_ns}");
                self.longest_wait_ns = self.longest_wait_ns.max(wait_ns);
            }
            self.free_ns = ends_ns;
        }
    }

    /// Before two short packets, a long one delays the return of their credits at the next input.
    /// A bound by the lengths of their own channel permits 500 ns of idle time for each two short
    /// packets, so that the link keeps up with them. It is idle for longer, and they wait for ever
    /// longer.
    #[test]
    fn longer_packets_of_other_channels_delay_credits() {
        let scenario = Scenario::parse("text", TEXT, Path::new("")).unwrap();
        let mut simulation = prepare(&scenario).unwrap().simulation;
        let reason = delay_bounds(&scenario, &simulation).unwrap_err();
        assert!(matches!(reason, NoFabricBound::Credits(..)), "{reason}");
        let mut first = FirstLink::default();
        simulation.run(u64::MAX, &mut first).unwrap();

        let class = |link_ns: u64, cross_ns: u64, interval_ns, credits| Class {
            interval_ns,
            link_ns,
            cross_ns,
            transfer_ns: cross_ns,
            credits,
            priority: 0,
        };
        let classes = vec![class(7_880, 7_505, 14_600, 16), class(11_712, 11_155, 30_500, 23)];
        let switching = Switching {
            crossbar: true,
            fifo_inputs: false,
            cut_through: false,
            takes_turns: true,
            in_order: true,
            delay_ns: 100,
            latency_ns: 300,
            input_credits: 46,
            output_credits: 1_000_000,
        };
        let paths = (0..2).map(|of| (of, [0, 1].map(|link| PathLink { link, channel: of }).into()));
        let mut stations = Stations::new(switching, classes.clone(), (2, 2), paths);
        // Waits of the run. A short packet waits at the switch while a long one that ended 7.88 µs
        // before it is transferred.
        stations.all[0].wait_ns = first.longest_wait_ns;
        stations.all[1].wait_ns = 11_155 - 7_880;
        stations.all[1].crossing_ns = 11_155 - 7_880;
        stations.spread();
        stations.find_credits();
        stations.find_outputs();
        stations.find_inputs();
        let time_ns = first.free_ns - FROM_NS;
        let bound_ns = stations.lacks(0, 0, classes[0], first.begun, time_ns, &[]).without_ns(0);
        assert!(first.idle_ns <= bound_ns, "{} {bound_ns}", first.idle_ns);
        assert_eq!((first.begun, first.idle_ns, bound_ns), (714, 1_000_084, 1_213_800));
        assert_eq!(first.longest_wait_ns, 862_213);
    }
}
