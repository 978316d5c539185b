//! The work that can hold a packet up, and the wait that follows from it.

use std::collections::BTreeMap;

use super::{Class, Credits, MAX_WAIT_NS, Station, Stations};

/// The ranges of a busy period in which the waits of later packets are told apart.
const MAX_RANGES: usize = 1_024;

/// Steps towards the least y with W(y) ≤ y, before longer ones to any such y.
const STEPS: usize = 64;
pub(super) const MAX_STEPS: usize = 40 * STEPS;

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

    /// Returns how much earlier than an instant at which nothing is busy the packets of a station
    /// have come that are sent after it, ns.
    fn resident_ns(&self, number: usize, empty: &[usize]) -> u64 {
        let Station { link, channel, wait_ns, crossing_ns, .. } = self.all[number];
        match () {
            () if empty.contains(&number) => 0,
            () if self.credits_of(link, channel).may_lack => wait_ns,
            // They are transferred after it.
            () => crossing_ns,
        }
    }

    /// Returns the work of the transmissions on a link that begin in `y`.
    pub(super) fn transmissions(&self, link: usize, y: u64, empty: &[usize]) -> Work {
        let of_line = |stations: &[usize]| {
            let (mut sum_ns, mut longest_ns, mut window_ns) = (0u64, 0, 0);
            let mut limited = self.all[stations[0]].previous.is_some();
            for number in stations {
                let class = self.class(*number);
                let time_ns = y + self.resident_ns(*number, empty);
                let packets = self.packets(*number, time_ns);
                sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.output_ns()));
                longest_ns = longest_ns.max(class.link_ns);
                window_ns = window_ns.max(time_ns);
                limited &= class.output_ns() == class.link_ns;
            }
            let sum = Work::of_ns(sum_ns);
            if limited { sum.min(Work::of_port(window_ns + longest_ns, UNITS)) } else { sum }
        };
        self.lines(link).map(of_line).fold(Work::default(), Work::plus)
    }

    /// Returns the stations in front of a link, by the line before them.
    pub(super) fn lines(&self, link: usize) -> impl Iterator<Item = &[usize]> {
        self.onto[link].chunk_by(|one, other| self.all[*one].previous == self.all[*other].previous)
    }

    /// Returns the longest time in `y` for which an idle link holds packets of the empty stations
    /// up: they lack credits, or a packet of another channel that does is transferred, ns.
    pub(super) fn held_ns(&self, link: usize, y: u64, empty: &[usize]) -> u64 {
        if !self.switching.crossbar {
            return 0;
        }
        let own = |number: &usize| {
            let channel = self.all[*number].channel;
            empty.iter().any(|of| self.all[*of].link == link && self.all[*of].channel == channel)
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
                let packets = self.packets(*number, y + wait_ns);
                let transfers_ns = packets.saturating_mul(self.class(*number).transfer_ns);
                held_ns = held_ns.saturating_add(transfers_ns);
            }
        }
        let lacks = channels.into_iter().map(|(of, class)| self.lacks_ns(link, of, class, y));
        lacks.fold(held_ns, u64::saturating_add)
    }

    /// Returns the longest time in `y` for which a channel on a link lacks credits, ns.
    pub(super) fn lacks_ns(&self, link: usize, channel: usize, class: Class, y: u64) -> u64 {
        let Credits { return_ns, may_lack, .. } = self.credits_of(link, channel);
        if !may_lack {
            return 0;
        }
        let of_channel = self.onto[link].iter().filter(|of| self.all[**of].channel == channel);
        let begun = of_channel.map(|of| self.packets(*of, y + self.all[*of].wait_ns));
        let packets = begun.sum::<u64>().min(class.on_line(y));
        let times = 1 + packets / self.switching.window(class).max(1);
        times.saturating_mul(return_ns)
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
            let before_ns = if is_crossed { station.crossing_ns } else { station.wait_ns };
            let packets = self.packets(*number, y + before_ns);
            sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.link_ns));
            longest_ns = longest_ns.max(class.cross_ns);
            rate = rate.max(ratio(class.link_ns, class.cross_ns));
        }
        let sum = Work::of_ns(sum_ns);
        // The output transfers one packet at a time.
        if all_crossed { sum.min(Work::of_port(y + longest_ns, rate)) } else { sum }
    }

    /// Returns the work of the transfers to a link that begin in `y`.
    pub(super) fn transfers(&self, link: usize, y: u64, empty: &[usize]) -> Work {
        let of_line = |stations: &[usize]| {
            let (mut sum_ns, mut longest_ns, mut window_ns, mut rate) = (0u64, 0, 0, 0);
            for number in stations {
                let class = self.class(*number);
                let is_empty = empty.contains(number);
                let time_ns = y + if is_empty { 0 } else { self.all[*number].crossing_ns };
                let packets = self.packets(*number, time_ns);
                sum_ns = sum_ns.saturating_add(packets.saturating_mul(class.transfer_ns));
                longest_ns = longest_ns.max(class.link_ns);
                window_ns = window_ns.max(time_ns);
                rate = rate.max(ratio(class.transfer_ns, class.link_ns));
            }
            Work::of_ns(sum_ns).min(Work::of_port(window_ns + longest_ns, rate))
        };
        self.lines(link).map(of_line).fold(Work::default(), Work::plus)
    }

    /// Returns the work of the transfers of an input to other links than `links` that begin in `y`.
    pub(super) fn transfers_of(&self, previous: usize, links: &[usize], y: u64) -> Work {
        let others = self.from[previous].iter().filter(|of| !links.contains(&self.all[**of].link));
        let (mut whole_ns, mut window_ns, mut longest_ns) = (0u64, 0, 0);
        // Transfers of packets that arrive take longer.
        let (mut more_ns, mut one_ns) = (0u64, 0);
        let (mut whole_rate, mut more_rate) = (0, 0);
        for number in others {
            let class = self.class(*number);
            let longer_ns = class.transfer_ns - class.cross_ns;
            let time_ns = y + self.all[*number].crossing_ns;
            let packets = self.packets(*number, time_ns);
            whole_ns = whole_ns.saturating_add(packets.saturating_mul(class.cross_ns));
            more_ns = more_ns.saturating_add(self.packets(*number, y).saturating_mul(longer_ns));
            one_ns = one_ns.max(longer_ns);
            window_ns = window_ns.max(time_ns);
            longest_ns = longest_ns.max(class.link_ns);
            whole_rate = whole_rate.max(ratio(class.cross_ns, class.link_ns));
            more_rate = more_rate.max(ratio(longer_ns, class.link_ns));
        }
        let whole = Work::of_ns(whole_ns).min(Work::of_port(window_ns + longest_ns, whole_rate));
        let more = Work::of_ns(more_ns).min(Work::of_port(y + longest_ns, more_rate));
        whole.plus(more).plus(Work::of_ns(one_ns))
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
