//! What the machine has to do with those of other cores.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LiveMachine;
use crate::io::port::Port;
use crate::live::inter_core::{Board, Crossing, Errand};
use crate::live::waker::Bell;
use crate::net::header::is_v6;
use crate::net::ipv4_control;
use crate::net::ndp;
use crate::net::pool::Pool;
use crate::router::machine::Place;

/// Other cores are told what a port heard once in so long at most, ns on average,
const SPREAD_NS: u64 = 100_000;
/// and so often at once.
const SPREADS: u64 = 64;

/// A packet that has come from another core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) place: Place,
    pub(crate) packet: u64,
    /// It may not leave by the port that it is for.
    pub(crate) refused: bool,
}

impl<P: Port> LiveMachine<P> {
    /// Some ports and paths are those of other cores, with whom this one has `crossing`; their packets have so many buffers.
    pub(crate) fn cross(&mut self, crossing: Crossing, buffers: usize) {
        let elsewhere = crossing.board.elsewhere(crossing.core);
        for (side, elsewhere) in self.sides.iter_mut().zip(elsewhere.outputs) {
            side.elsewhere = elsewhere;
        }
        self.pool.keep_for_others(buffers);
        self.crossing = Some(crossing);
    }

    /// Paths are those of another file, of `board`.
    pub(crate) fn cross_by(&mut self, board: &Arc<Board>, buffers: usize) {
        self.pool.keep_for_others(buffers);
        if let Some(crossing) = &mut self.crossing {
            crossing.board = Arc::clone(board);
        }
    }

    /// Whether there are other cores.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        self.crossing.is_some()
    }

    /// Whether no packet is on its way between this core and another, as far as it knows.
    pub(crate) fn is_crossed(&self) -> bool {
        self.crossing.as_ref().is_none_or(Crossing::is_empty)
    }

    /// There are buffers for what other cores gave to this one.
    pub(crate) fn make_room_for_others(&mut self) {
        self.pool.make_room_for_others();
    }

    /// What other cores gave to this one goes to `into`, and what this one has for them to them.
    pub(crate) fn exchange(&mut self, into: &mut Vec<Arrived>) {
        let Some(crossing) = &mut self.crossing else { return };
        let mut come = std::mem::take(&mut self.come);
        crossing.exchange(&mut self.pool, &mut come);
        for (errand, packet) in come.drain(..) {
            match errand {
                Errand::Queue(place) => {
                    let refused = matches!(place, Place::Output { output, .. } if !self.translated(output, packet));
                    into.push(Arrived { place, packet, refused });
                }
                Errand::Say(port) => {
                    let frame = self.pool.frame(packet).to_vec();
                    self.pool.release(packet);
                    self.say(port, &frame);
                }
                Errand::Heard(port) => self.overhear(port, packet),
            }
        }
        self.come = come;
    }

    /// Other cores know how the ports here are.
    pub(crate) fn show_ports(&self) {
        let Some(crossing) = &self.crossing else { return };
        let here = self.sides.iter().zip(&*crossing.ports).filter(|(side, _)| !side.elsewhere);
        for (side, state) in here {
            state.ended.store(side.port.ended(), Ordering::Release);
            state.longest_bytes.store(side.port.longest_bytes(), Ordering::Relaxed);
        }
    }

    /// Packets have left the input queue of `path`.
    #[inline]
    pub(super) fn settle(&self, path: usize, packets: &mut [u64]) {
        let Some(crossing) = &self.crossing else { return };
        let mut came = 0;
        for packet in packets {
            came += u32::from(Pool::crossed(*packet));
            *packet = Pool::settled(*packet);
        }
        if came > 0 {
            crossing.left(Place::Path(path), came);
        }
    }

    /// A neighbour spoke: other cores are to know, too.
    pub(super) fn spread(&mut self, input: usize, packet: u64) {
        let Some(crossing) = &mut self.crossing else { return };
        if self.spread_ns > self.now_ns + SPREADS * SPREAD_NS {
            return;
        }
        let frame = self.pool.frame(packet);
        if ipv4_control::arp(frame).is_some() || is_v6(frame) && ndp::message(frame).is_some() {
            self.spread_ns = self.spread_ns.max(self.now_ns) + SPREAD_NS;
            let frame = frame.to_vec();
            crossing.spread(&mut self.pool, input, &frame);
        }
    }

    /// What a port of another core heard.
    fn overhear(&mut self, input: usize, packet: u64) {
        let counters = self.sides[input].counters;
        // It is that core that answers, and counts.
        if is_v6(self.pool.frame(packet)) {
            let to = self.destination_v6(input, packet);
            let _ = self.hear_v6(input, packet, to);
        } else {
            let _ = self.hear_v4(input, packet, None);
        }
        self.sides[input].counters = counters;
        self.pool.release(packet);
    }

    /// The bell of this core, if there are others.
    pub(crate) fn bell(&self) -> Option<&Arc<Bell>> {
        self.crossing.as_ref().map(|crossing| &crossing.bell)
    }

    /// What becomes readable when something comes from another core.
    pub(crate) fn bell_event(&self) -> Option<RawFd> {
        self.bell().map(|bell| bell.event())
    }

    /// Says that this core is about to sleep; returns whether it may.
    pub(crate) fn announce(&self) -> bool {
        self.crossing
            .as_ref()
            .is_none_or(|crossing| crossing.bell.announce() && !crossing.has_come())
    }

    /// It does not sleep any more.
    pub(crate) fn awake(&self) {
        if let Some(bell) = self.bell() {
            bell.awake();
        }
    }
}
