//! The verilated line card of `rtl/cards`, with a saturating source and an always-ready link.
//!
//! It reports the order and times in which streams are served. Source: ShareStreams, section 3 and
//! Figure 4.

use millstream::ContractError;

use crate::rtl::RtlError;
use crate::rtl::build::{self, BuildError, Design};
use crate::rtl::card::Card;
use crate::{Load, Mode, Settings};

#[path = "../../../rtl/cards/registers/msr_line_card_registers.rs"]
#[rustfmt::skip]
pub mod registers;

use registers as at;

/// Streams of the card.
pub const STREAMS: usize = 4;

/// Bytes of a beat.
pub const BEAT_BYTES: usize = 8;

/// The maximum number of packets per stream that the card stores.
const DEPTH: usize = 16;

/// A transmitted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// The stream.
    pub stream: usize,
    /// The cycle of its last beat, counted from 0 when the card was enabled.
    pub cycle: u64,
}

/// Returns the first `packets` packets sent by a card of four backlogged streams.
///
/// `loads` holds the streams' contracts, with times in decisions. Packets have `beats` beats (at
/// least one).
///
/// # Errors
/// Fails if the card cannot be built or a packet does not fit it.
pub fn backlogged(
    settings: Settings,
    loads: &[Load; STREAMS],
    beats: usize,
    packets: usize,
) -> Result<Vec<SentPacket>, RtlError> {
    let ring = (DEPTH * beats.max(1)).next_power_of_two();
    if ring > 1 << 12 {
        let (attribute, by, need) = ("bytes", "the line card", "to be at most 2048");
        return Err(ContractError::Unfit { attribute, by, need }.into());
    }
    let parameters = vec![("N", STREAMS), ("Beats", ring), ("Depth", DEPTH)];
    let library = build::library(&Design::line_card(parameters))?;
    let mut card = Card::load(&library).map_err(BuildError::from)?;
    let control = at::CONTROL_MODE.put(settings.mode as u32)
        | at::CONTROL_LOWEST_DENOMINATOR.put(settings.lowest_denominator.into())
        | at::CONTROL_RTAS99.put(settings.rtas99.into())
        // Back-pressure: the source waits, so no packet is lost.
        | at::CONTROL_HOLD.put(1);
    card.write(at::CONTROL, control);
    for (stream, load) in (0..).zip(loads) {
        let window = at::WINDOW_X.put(load.x.into())
            | at::WINDOW_Y.put(load.y.into())
            | at::WINDOW_GROWTH.put(load.growth(settings.rtas99).into())
            | at::WINDOW_DROP.put(load.drop.into())
            | at::WINDOW_FIRST.put(load.first.into());
        let deadline = match settings.mode {
            Mode::Static => u32::from(load.priority),
            _ => u32::try_from(load.deadline & 0xFFFF).expect("16 bits"),
        };
        card.write(at::WINDOW, window);
        card.write(
            at::TIME,
            at::TIME_PERIOD.put(load.period.into()) | at::TIME_DEADLINE.put(deadline),
        );
        card.write(at::LOAD, at::LOAD_STREAM.put(stream));
    }
    let mut source = Source { beats: beats.max(1), waiting: [0; STREAMS], sending: None };
    // Fills every stream's queue before the first decision.
    while source.sending.is_some() || source.waiting != [DEPTH / 2; STREAMS] {
        source.offer(&mut card);
        let out = card.cycle();
        source.accept(out.data_ready == 1);
    }
    card.inputs.data_valid = 0;
    card.write(at::CONTROL, control | at::CONTROL_ENABLE.put(1));
    let mut sent = Vec::with_capacity(packets);
    for cycle in 0.. {
        source.offer(&mut card);
        let out = card.cycle();
        source.accept(out.data_ready == 1);
        if out.sent_valid & out.sent_last == 1 {
            let stream = usize::from(out.sent_stream);
            source.waiting[stream] -= 1;
            sent.push(SentPacket { stream, cycle });
            if sent.len() == packets {
                break;
            }
        }
    }
    Ok(sent)
}

/// Fills the card: sends a packet to the shortest queue.
struct Source {
    beats: usize,
    waiting: [usize; STREAMS],
    /// The stream of the current packet and its remaining beats.
    sending: Option<(usize, usize)>,
}

impl Source {
    fn offer(&mut self, card: &mut Card) {
        if self.sending.is_none() {
            let least = (0..STREAMS).min_by_key(|stream| self.waiting[*stream]);
            let least = least.filter(|stream| self.waiting[*stream] < DEPTH / 2);
            self.sending = least.map(|stream| (stream, self.beats));
        }
        let inputs = &mut card.inputs;
        inputs.data_valid = self.sending.is_some().into();
        let (stream, beats) = self.sending.unwrap_or((0, 0));
        inputs.data_stream = u8::try_from(stream).expect("four streams");
        inputs.data_last = u8::from(beats == 1);
    }

    fn accept(&mut self, ready: bool) {
        if let Some((stream, beats)) = self.sending.filter(|_| ready) {
            if beats == 1 {
                self.waiting[stream] += 1;
            }
            self.sending = (beats > 1).then_some((stream, beats - 1));
        }
    }
}
