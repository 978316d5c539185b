//! BBR (draft-ietf-ccwg-bbr of August 2026, BBRv3): a model of the path decides the window and the
//! pace.
//!
//! ```text
//! Startup ─> Drain ─> Down ─> Cruise ─> Refill ─> Up ─> Down …     every 5 s: ProbeRtt
//! ```
//!
//! Volumes are in 2^-16 packets, rates in 2^-16 packets a second. Packets are sent one by one, so
//! the draft's budget for offloaded bursts is 0. A sender does not find that a loss was spurious,
//! so there is no undo. Marked packets count as lost ones: the draft leaves the reaction open.

mod delivery;

use millstream::aqm::Random;
use std::collections::VecDeque;

use super::control::PACKET;
use delivery::{Delivery, Sample};

const SECOND_NS: u64 = 1_000_000_000;
/// `MinRTTFilterLen`.
const MIN_RTT_NS: u64 = 10 * SECOND_NS;
/// `ProbeRTTInterval`.
const PROBE_RTT_INTERVAL_NS: u64 = 5 * SECOND_NS;
/// `ProbeRTTDuration`.
const PROBE_RTT_NS: u64 = 200_000_000;
/// `MinPipeCwnd`.
const LEAST_WINDOW: u64 = 4 * PACKET;
/// `LossThresh`, percent.
const LOSS_PERCENT: u64 = 2;
/// `BBRStartupFullLossCnt`: the ranges lost in a round trip that end Startup.
const STARTUP_LOST_RANGES: u32 = 6;
/// `ExtraAckedFilterLen`, round trips.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// `MaxBwFilterLen`, cycles.
const MAX_RATE_CYCLES: u64 = 2;

/// The states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Returns the gain of the pace, percent.
    fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// Returns the gain of the window, percent.
    fn window_gain(self) -> u64 {
        match self {
            Self::ProbeRtt => 50,
            Self::Up => 225,
            _ => 200,
        }
    }

    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Returns whether it sends more than before: losses then tell the limit.
    fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// A maximum of the values of the last units of time.
#[derive(Clone, Debug, Default)]
struct WindowedMax {
    /// Times and values; later values are smaller.
    entries: VecDeque<(u64, u64)>,
}

impl WindowedMax {
    /// Adds a value at `time`, and returns the maximum of the last `length` units.
    fn update(&mut self, time: u64, value: u64, length: u64) -> u64 {
        while self.entries.back().is_some_and(|entry| entry.1 <= value) {
            self.entries.pop_back();
        }
        // One value for each unit of time is enough.
        if self.entries.back().is_none_or(|entry| entry.0 != time) {
            self.entries.push_back((time, value));
        }
        while self.entries.front().is_some_and(|entry| entry.0 + length <= time) {
            self.entries.pop_front();
        }
        self.entries.front().map_or(value, |entry| entry.1)
    }
}

/// The state of a connection.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    state: State,
    random: Random,
    path: Delivery,
    // Round trips.
    next_round: u64,
    is_round_start: bool,
    rounds: u64,
    rounds_since_up: u64,
    // The model.
    max_rate: u64,
    max_rate_filter: WindowedMax,
    cycles: u64,
    min_rtt_ns: u64,
    min_rtt_at_ns: u64,
    extra_acked: u64,
    extra_acked_filter: WindowedMax,
    extra_from_ns: u64,
    extra_delivered: u64,
    /// `inflight_longterm`, `inflight_shortterm` and `bw_shortterm`; `u64::MAX` is infinite.
    long_term: u64,
    short_term: u64,
    short_term_rate: u64,
    // Congestion signals.
    latest_rate: u64,
    latest_delivered: u64,
    loss_round: u64,
    is_loss_round_start: bool,
    has_loss_in_round: bool,
    has_marks_in_round: bool,
    /// The ranges lost in this round, and the last lost packet.
    lost_ranges: u32,
    last_lost: u32,
    /// The round in which fast recovery began.
    recovery_round: Option<u64>,
    // Startup and the search for a plateau.
    is_full_reached: bool,
    is_full_now: bool,
    full_rate: u64,
    full_count: u32,
    drain_round: u64,
    // Probes for bandwidth.
    /// Whether a probe has ended, and its acknowledgements come for another round trip; the other
    /// values of `ack_phase` decide nothing.
    is_probe_stopping: bool,
    is_probe_sample: bool,
    cycle_from_ns: u64,
    probe_wait_ns: u64,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_packet: u64,
    was_too_high: bool,
    was_precautionary: bool,
    // Probes of the round-trip time.
    probe_rtt_least_ns: u64,
    probe_rtt_at_ns: u64,
    is_probe_rtt_due: bool,
    /// When the probe may end, ns; 0: not known yet.
    probe_rtt_done_ns: u64,
    is_probe_rtt_round_done: bool,
    is_idle_restart: bool,
    // Outputs.
    initial_window: u64,
    window: u64,
    prior_window: u64,
    pacing_rate: u64,
    /// Whether the window held back a packet in this round, and in the one before.
    is_window_limited: [bool; 2],
}

impl Bbr {
    /// Returns the state of a new connection with an initial window in packets.
    pub(super) fn new(initial_window: u32, seed: u64) -> Self {
        let window = u64::from(initial_window) * PACKET;
        Self {
            state: State::Startup,
            random: Random::new(seed),
            path: Delivery::default(),
            next_round: 0,
            is_round_start: false,
            rounds: 0,
            rounds_since_up: 0,
            max_rate: 0,
            max_rate_filter: WindowedMax::default(),
            cycles: 0,
            min_rtt_ns: u64::MAX,
            min_rtt_at_ns: 0,
            extra_acked: 0,
            extra_acked_filter: WindowedMax::default(),
            extra_from_ns: 0,
            extra_delivered: 0,
            long_term: u64::MAX,
            short_term: u64::MAX,
            short_term_rate: u64::MAX,
            latest_rate: 0,
            latest_delivered: 0,
            loss_round: 0,
            is_loss_round_start: false,
            has_loss_in_round: false,
            has_marks_in_round: false,
            lost_ranges: 0,
            last_lost: u32::MAX,
            recovery_round: None,
            is_full_reached: false,
            is_full_now: false,
            full_rate: 0,
            full_count: 0,
            drain_round: 0,
            is_probe_stopping: false,
            is_probe_sample: false,
            cycle_from_ns: 0,
            probe_wait_ns: 0,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_packet: u64::MAX,
            was_too_high: false,
            was_precautionary: false,
            probe_rtt_least_ns: u64::MAX,
            probe_rtt_at_ns: 0,
            is_probe_rtt_due: false,
            probe_rtt_done_ns: 0,
            is_probe_rtt_round_done: false,
            is_idle_restart: false,
            initial_window: window,
            window,
            prior_window: 0,
            // 1 ms, until the handshake has measured the round trip.
            pacing_rate: share(rate_of(window, 1_000_000), 277),
            is_window_limited: [false; 2],
        }
    }

    /// Takes the round-trip time of the handshake.
    pub(super) fn connected(&mut self, now_ns: u64, rtt_ns: u64) {
        (self.min_rtt_ns, self.min_rtt_at_ns) = (rtt_ns, now_ns);
        (self.probe_rtt_least_ns, self.probe_rtt_at_ns) = (rtt_ns, now_ns);
        self.extra_from_ns = now_ns;
        self.pacing_rate = share(rate_of(self.initial_window, rtt_ns), 277);
    }

    /// Returns the window, in 2^-16 packets.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Returns the time between packets, ns.
    pub(super) fn pace_ns(&self) -> u64 {
        let pace_ns =
            u128::from(PACKET) * u128::from(SECOND_NS) / u128::from(self.pacing_rate.max(1));
        u64::try_from(pace_ns).unwrap_or(u64::MAX)
    }

    /// Notes that the window held back a packet.
    pub(super) fn limited_by_window(&mut self) {
        self.is_window_limited[0] = true;
    }

    /// Notes that the source has no more data while `in_flight` packets are on their way.
    pub(super) fn limited_by_source(&mut self, in_flight: u32) {
        self.path.limited_by_source(u64::from(in_flight) * PACKET);
    }

    /// Notes that packet `number` is sent, the last of `in_flight`.
    pub(super) fn sent(&mut self, number: u32, in_flight: u32, now_ns: u64) {
        if in_flight <= 1 && self.path.is_limited_by_source() {
            self.restart(now_ns);
        }
        self.path.sent(number, u64::from(in_flight) * PACKET, now_ns);
    }

    fn restart(&mut self, now_ns: u64) {
        self.is_idle_restart = true;
        self.extra_from_ns = now_ns;
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt(now_ns);
        }
    }

    /// Notes that packet `number` was acknowledged.
    pub(super) fn delivered(&mut self, number: u32, now_ns: u64) {
        self.path.delivered(number, now_ns);
    }

    /// Notes that packet `number` was lost.
    pub(super) fn lost(&mut self, number: u32, now_ns: u64) {
        let Some(of) = self.path.lost(number) else { return };
        if number != self.last_lost.wrapping_add(1) {
            self.lost_ranges += 1;
        }
        self.last_lost = number;
        self.note_loss();
        if !self.is_probe_sample {
            return;
        }
        let lost = self.path.lost - of.lost;
        if is_too_high(lost, of.in_flight) {
            // Where losses passed the limit: this packet is the last of them.
            let (before, lost_before) = (of.in_flight.saturating_sub(PACKET), lost - PACKET);
            let allowed = (LOSS_PERCENT * before).saturating_sub(100 * lost_before);
            let in_flight = before + allowed / (100 - LOSS_PERCENT);
            self.went_too_high(in_flight, of.is_app_limited, now_ns);
        }
    }

    /// Notes `marked` packets with congestion experienced: as many losses.
    pub(super) fn marked(&mut self, marked: u32, now_ns: u64) {
        if marked == 0 {
            return;
        }
        self.path.lost += u64::from(marked) * PACKET;
        self.lost_ranges += marked;
        self.has_marks_in_round = true;
        self.note_loss();
        if let Some((_, of)) = self.path.sample.newest
            && self.is_probe_sample
            && is_too_high(self.path.lost - of.lost, of.in_flight)
        {
            self.went_too_high(of.in_flight, of.is_app_limited, now_ns);
        }
    }

    fn note_loss(&mut self) {
        if !self.has_loss_in_round {
            self.loss_round = self.path.delivered;
        }
        self.has_loss_in_round = true;
    }

    /// Lowers the long-term model after a probe that lost too much with `in_flight`.
    fn went_too_high(&mut self, in_flight: u64, is_app_limited: bool, now_ns: u64) {
        self.was_too_high = true;
        self.is_probe_sample = false;
        if !is_app_limited {
            self.long_term = in_flight.max(share(self.target(), 70));
        }
        if self.state == State::Up {
            self.start_down(now_ns);
        }
    }

    /// Begins fast recovery.
    pub(super) fn recovery_began(&mut self) {
        self.save_window(false);
        self.recovery_round = Some(self.rounds);
    }

    /// Ends a recovery: the window is again what it was.
    pub(super) fn recovery_ended(&mut self) {
        self.recovery_round = None;
        self.window = self.window.max(self.prior_window);
    }

    /// Acts on a timeout, after which nothing is in flight.
    pub(super) fn timed_out(&mut self, in_recovery: bool) {
        self.save_window(in_recovery);
        self.recovery_round = None;
        self.window = PACKET;
    }

    fn save_window(&mut self, in_recovery: bool) {
        let is_reduced = in_recovery || self.state == State::ProbeRtt;
        self.prior_window =
            if is_reduced { self.prior_window.max(self.window) } else { self.window };
    }

    /// Updates the model, the window and the pace after the calls for an acknowledgement, with
    /// `in_flight` packets left.
    pub(super) fn acknowledged(&mut self, in_flight: u32, now_ns: u64) {
        let in_flight = u64::from(in_flight) * PACKET;
        self.path.finish_sample(self.min_rtt_ns);
        self.update_latest();
        self.update_congestion();
        self.update_extra_acked(now_ns);
        self.look_for_plateau();
        self.check_startup();
        self.check_drain(in_flight, now_ns);
        self.update_cycle(in_flight, now_ns);
        self.update_min_rtt(now_ns);
        self.check_probe_rtt(in_flight, now_ns);
        if self.is_loss_round_start {
            self.latest_rate = self.path.sample.rate;
            self.latest_delivered = self.path.sample.delivered;
        }
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_window();
        self.path.sample = Sample::default();
    }

    fn update_latest(&mut self) {
        self.is_loss_round_start = false;
        self.latest_rate = self.latest_rate.max(self.path.sample.rate);
        self.latest_delivered = self.latest_delivered.max(self.path.sample.delivered);
        if let Some((_, newest)) = self.path.sample.newest
            && newest.delivered >= self.loss_round
        {
            self.loss_round = self.path.delivered;
            self.is_loss_round_start = true;
        }
    }

    fn update_congestion(&mut self) {
        self.is_round_start =
            self.path.sample.newest.is_some_and(|(_, newest)| newest.delivered >= self.next_round);
        if self.is_round_start {
            self.start_round();
            self.rounds += 1;
            self.rounds_since_up += 1;
            self.is_window_limited = [false, self.is_window_limited[0]];
        }
        let rate = self.path.sample.rate;
        if rate > 0 && (rate >= self.max_rate || !self.path.sample.is_app_limited()) {
            self.max_rate = self.max_rate_filter.update(self.cycles, rate, MAX_RATE_CYCLES);
        }
        if !self.is_loss_round_start {
            return;
        }
        if self.has_loss_in_round && !self.state.is_accelerating() {
            let (rate, volume) = (self.short_term_rate, self.short_term);
            let rate = if rate == u64::MAX { self.max_rate } else { rate };
            let volume = if volume == u64::MAX { self.window } else { volume };
            self.short_term_rate = self.latest_rate.max(share(rate, 70));
            self.short_term = self.latest_delivered.max(share(volume, 70));
        }
        self.check_startup_loss();
        (self.has_loss_in_round, self.has_marks_in_round) = (false, false);
        self.lost_ranges = 0;
    }

    fn start_round(&mut self) {
        self.next_round = self.path.delivered;
    }

    /// Ends Startup after a round trip of fast recovery with many losses.
    fn check_startup_loss(&mut self) {
        let in_recovery = self.recovery_round.is_some_and(|round| round < self.rounds);
        let is_high = is_too_high(self.path.sample.lost, self.path.sample.in_flight());
        if self.state == State::Startup
            && (in_recovery || self.has_marks_in_round)
            && self.lost_ranges >= STARTUP_LOST_RANGES
            && is_high
        {
            self.is_full_reached = true;
            self.long_term = self.bdp(100).max(self.latest_delivered);
        }
    }

    fn update_extra_acked(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns - self.extra_from_ns;
        let mut expected = volume_of(self.rate(), elapsed_ns);
        if self.extra_delivered <= expected {
            (self.extra_delivered, self.extra_from_ns, expected) = (0, now_ns, 0);
        }
        self.extra_delivered += self.path.sample.newly;
        let extra = (self.extra_delivered - expected).min(self.window);
        let rounds = if self.is_full_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(self.rounds, extra, rounds);
    }

    /// Looks for three round trips without much growth of the rate.
    fn look_for_plateau(&mut self) {
        if self.is_full_now || !self.is_round_start || self.path.sample.is_app_limited() {
            return;
        }
        if self.path.sample.rate >= share(self.full_rate, 125) {
            self.reset_plateau(self.path.sample.rate);
            return;
        }
        self.full_count += 1;
        self.is_full_now = self.full_count >= 3;
        self.is_full_reached |= self.is_full_now;
    }

    fn reset_plateau(&mut self, rate: u64) {
        (self.full_rate, self.full_count, self.is_full_now) = (rate, 0, false);
    }

    fn check_startup(&mut self) {
        if self.state == State::Startup && self.is_full_reached {
            self.state = State::Drain;
            self.drain_round = self.rounds;
        }
    }

    fn check_drain(&mut self, in_flight: u64, now_ns: u64) {
        if self.state == State::Drain
            && (in_flight <= self.bdp(100).max(LEAST_WINDOW) || self.rounds > self.drain_round + 3)
        {
            self.start_down(now_ns);
        }
    }

    fn start_down(&mut self, now_ns: u64) {
        self.has_loss_in_round = false;
        (self.latest_rate, self.latest_delivered) = (0, 0);
        self.up_acked_per_packet = u64::MAX;
        self.rounds_since_up = self.random.next_bits() & 1;
        let random_ns = (u128::from(self.random.next_bits()) * u128::from(SECOND_NS)) >> 64;
        self.probe_wait_ns = 2 * SECOND_NS + u64::try_from(random_ns).unwrap_or(0);
        self.cycle_from_ns = now_ns;
        self.is_probe_stopping = true;
        self.start_round();
        self.state = State::Down;
    }

    fn start_refill(&mut self) {
        self.reset_short_term();
        (self.up_rounds, self.up_acked) = (0, 0);
        self.was_precautionary = false;
        self.is_probe_stopping = false;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self) {
        self.is_probe_stopping = false;
        self.start_round();
        self.reset_plateau(self.path.sample.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    fn reset_short_term(&mut self) {
        (self.short_term_rate, self.short_term) = (u64::MAX, u64::MAX);
    }

    /// Changes the state in the cycle of probes for bandwidth.
    fn update_cycle(&mut self, in_flight: u64, now_ns: u64) {
        if !self.is_full_reached || self.adapt_long_term() {
            return;
        }
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.is_time_to_probe(now_ns) => self.start_refill(),
            State::Down => {
                let headroom = self.with_headroom();
                if in_flight <= headroom && in_flight <= self.bdp_of(self.max_rate, 100) {
                    self.state = State::Cruise;
                }
            }
            State::Refill if self.is_round_start => {
                self.is_probe_sample = true;
                self.start_up();
            }
            State::Up if self.is_time_to_go_down(in_flight) => {
                self.was_too_high = false;
                self.start_down(now_ns);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now_ns: u64) -> bool {
        // As often as Reno would grow to the same window.
        let rounds = (self.target() / PACKET).min(63);
        now_ns > self.cycle_from_ns + self.probe_wait_ns || self.rounds_since_up >= rounds
    }

    fn is_time_to_go_down(&mut self, in_flight: u64) -> bool {
        if self.was_too_high && in_flight >= self.long_term {
            self.was_precautionary = true;
            return true;
        }
        if self.is_limited_by_long_term() {
            self.reset_plateau(self.path.sample.rate);
            return false;
        }
        self.is_full_now
    }

    fn is_limited_by_long_term(&self) -> bool {
        self.is_window_limited.contains(&true) && self.window >= self.long_term
    }

    /// Updates the long-term model. Returns whether it has changed the state.
    fn adapt_long_term(&mut self) -> bool {
        if self.is_probe_stopping && self.is_round_start {
            self.is_probe_sample = false;
            self.is_probe_stopping = false;
            if self.state.is_probe_bw() && !self.path.sample.is_app_limited() {
                self.cycles += 1;
            }
            if self.state.is_probe_bw() && self.was_precautionary && !self.was_too_high {
                self.start_refill();
                return true;
            }
        }
        let in_flight = self.path.sample.in_flight();
        if self.long_term == u64::MAX || is_too_high(self.path.sample.lost, in_flight) {
            return false;
        }
        self.long_term = self.long_term.max(in_flight);
        if self.state == State::Up && self.is_limited_by_long_term() {
            self.up_acked += self.path.sample.newly;
            self.long_term += self.up_acked / self.up_acked_per_packet * PACKET;
            self.up_acked %= self.up_acked_per_packet;
            if self.is_round_start {
                self.raise_slope();
            }
        }
        false
    }

    fn raise_slope(&mut self) {
        self.up_acked_per_packet = (self.window >> self.up_rounds).max(PACKET);
        self.up_rounds = (self.up_rounds + 1).min(30);
    }

    fn update_min_rtt(&mut self, now_ns: u64) {
        self.is_probe_rtt_due = now_ns > self.probe_rtt_at_ns + PROBE_RTT_INTERVAL_NS;
        if let Some((_, newest)) = self.path.sample.newest.filter(|(_, newest)| !newest.is_resent) {
            let rtt_ns = now_ns - newest.sent_ns;
            if rtt_ns < self.probe_rtt_least_ns || self.is_probe_rtt_due {
                (self.probe_rtt_least_ns, self.probe_rtt_at_ns) = (rtt_ns, now_ns);
            }
        }
        let is_old = now_ns > self.min_rtt_at_ns + MIN_RTT_NS;
        if self.probe_rtt_least_ns < self.min_rtt_ns || is_old {
            self.min_rtt_ns = self.probe_rtt_least_ns;
            self.min_rtt_at_ns = self.probe_rtt_at_ns;
        }
    }

    fn check_probe_rtt(&mut self, in_flight: u64, now_ns: u64) {
        if self.state != State::ProbeRtt && self.is_probe_rtt_due && !self.is_idle_restart {
            self.save_window(self.recovery_round.is_some());
            self.state = State::ProbeRtt;
            self.probe_rtt_done_ns = 0;
            self.is_probe_stopping = true;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            // Its low rates are not those of the path.
            self.path.limited_by_source(in_flight);
            if self.probe_rtt_done_ns == 0 {
                if in_flight <= self.probe_rtt_window() {
                    self.probe_rtt_done_ns = now_ns + PROBE_RTT_NS;
                    self.is_probe_rtt_round_done = false;
                    self.start_round();
                }
            } else {
                self.is_probe_rtt_round_done |= self.is_round_start;
                if self.is_probe_rtt_round_done {
                    self.end_probe_rtt(now_ns);
                }
            }
        }
        if self.path.sample.delivered > 0 {
            self.is_idle_restart = false;
        }
    }

    /// Ends a probe of the round-trip time that has lasted long enough.
    fn end_probe_rtt(&mut self, now_ns: u64) {
        if self.probe_rtt_done_ns == 0 || now_ns <= self.probe_rtt_done_ns {
            return;
        }
        self.probe_rtt_at_ns = now_ns;
        self.window = self.window.max(self.prior_window);
        self.reset_short_term();
        if self.is_full_reached {
            self.start_down(now_ns);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn set_pacing_rate(&mut self, gain: u64) {
        // A margin of 1 % keeps the queue short.
        let rate = share(share(self.rate(), gain), 99);
        if self.is_full_reached || rate > self.pacing_rate {
            self.pacing_rate = rate.max(1);
        }
    }

    fn set_window(&mut self) {
        let mut most = self.bdp(self.state.window_gain()) + self.extra_acked;
        most = most.max(LEAST_WINDOW);
        if self.state == State::Up {
            most += 2 * PACKET;
        }
        let grown = self.window + self.path.sample.newly;
        if self.is_full_reached {
            self.window = grown.min(most);
        } else if self.window < most || self.path.delivered < self.initial_window {
            self.window = grown;
        }
        self.window = self.window.max(LEAST_WINDOW);
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.long_term,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        self.window = self.window.min(cap.min(self.short_term).max(LEAST_WINDOW));
    }

    fn probe_rtt_window(&self) -> u64 {
        self.bdp(State::ProbeRtt.window_gain()).max(LEAST_WINDOW)
    }

    /// Returns the long-term limit less 15 %, at least a packet, for other flows.
    fn with_headroom(&self) -> u64 {
        if self.long_term == u64::MAX {
            return u64::MAX;
        }
        let headroom = share(self.long_term, 15).max(PACKET);
        self.long_term.saturating_sub(headroom).max(LEAST_WINDOW)
    }

    /// Returns the volume that the flow wants in flight.
    fn target(&self) -> u64 {
        self.bdp(100).min(self.window)
    }

    /// Returns the rate of the model.
    fn rate(&self) -> u64 {
        self.max_rate.min(self.short_term_rate)
    }

    /// Returns a percentage of the bandwidth-delay product of the model.
    fn bdp(&self, percent: u64) -> u64 {
        self.bdp_of(self.rate(), percent)
    }

    fn bdp_of(&self, rate: u64, percent: u64) -> u64 {
        if self.min_rtt_ns == u64::MAX {
            return self.initial_window;
        }
        share(volume_of(rate, self.min_rtt_ns), percent)
    }
}

/// Returns whether more than the limit of a volume in flight was lost.
fn is_too_high(lost: u64, in_flight: u64) -> bool {
    100 * lost > LOSS_PERCENT * in_flight
}

/// Returns `percent` of a volume or rate.
fn share(of: u64, percent: u64) -> u64 {
    (of / 100).saturating_mul(percent).saturating_add(of % 100 * percent / 100)
}

/// Returns the rate of a volume in an interval.
fn rate_of(volume: u64, interval_ns: u64) -> u64 {
    let rate = u128::from(volume) * u128::from(SECOND_NS) / u128::from(interval_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns the volume of a rate in an interval.
fn volume_of(rate: u64, interval_ns: u64) -> u64 {
    let volume = u128::from(rate) * u128::from(interval_ns) / u128::from(SECOND_NS);
    u64::try_from(volume).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
