//! A data plane that takes over shared memory as a dead data plane may have left it.
//!
//! The memory is valid except for edits of the region, the rings of live frames, the frame cache,
//! the instruction table and the store. A data plane starts, plays for a while on a simulated
//! clock, and loses its host. Then a server adopts the sessions. The memory is not mapped from
//! files, because a mapping is never removed.

use millstream::selector::Selector;
use millstream::{Dwcs, EdfFirst, Heap};
use millstream_scenario::Allowance;
use std::iter;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{NoWakeSocket, resources};
use crate::data_plane::packet_sender::{write_packet, write_report};
use crate::instruction::api;
use crate::instruction::compiler::Compiler;
use crate::instruction::runtime::Instructions;
use crate::rtp::Piece;
use crate::rtsp::session::Sessions;
use crate::scheduler::Schedule;
use crate::scheduler::client::{Client, ReportTime};
use crate::scheduler::dispatch::{Dispatch, PacketSender, Sending};
use crate::shared_memory::frame_cache::{self, FrameCache};
use crate::shared_memory::importance::Importance;
use crate::shared_memory::instruction_table::{self, NewInstruction};
use crate::shared_memory::live_frames::{self, FrameRing, LiveFrame};
use crate::shared_memory::region::{
    FIRST_ROW, GlobalField, ROW, Region, RequestedState, SETTINGS, SessionField, State,
};
use crate::shared_memory::store::{MediaRecord, NewFrame, Store, StoreBuilder};

/// The start time of the data plane, ns.
const BEGIN_NS: u64 = 1 << 50;
const PERIOD_NS: u64 = 40_000_000;
const SESSIONS: u32 = 8;
/// The number of frames of each file.
const FRAMES: usize = 12;
/// The largest number of edits that are made per input.
const MAX_EDITS: usize = 256;
/// The number of words of a table slot that edits may change.
///
/// These are the words before the module, and the module's first words.
const SLOT_EDITED: usize = 256;
/// The number of steps of the data plane. Its clock advances by at most [`STEP_NS`] per step.
const STEPS: u64 = 48;
const STEP_NS: u64 = 20_000_000;

/// One change of the memory: its part, its position and its value.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The part of the memory that changes.
    ///
    /// 0: a setting; 1: a session's word; 2: any word of the region; 3: the rings of live frames;
    /// 4: the frame cache; 5: the instruction table; 6: eight bytes of the store; 7: the length of
    /// a part; 8: a notice. Any other number: a session's word while the data plane plays.
    pub part: u8,
    /// The index of the word, modulo the number of words.
    pub at: u16,
    /// The new value.
    pub value: u64,
}

impl Edit {
    /// The size of an encoded edit, bytes.
    pub const BYTES: usize = 11;

    /// Decodes an edit from the start of `bytes`, if there are enough.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (&[part, low, high, ref value @ ..], _) =
            bytes.split_first_chunk::<{ Self::BYTES }>()?;
        Some(Self { part, at: u16::from_le_bytes([low, high]), value: u64::from_le_bytes(*value) })
    }

    /// Returns the encoded edit.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        [&[self.part][..], &self.at.to_le_bytes(), &self.value.to_le_bytes()].concat()
    }
}

/// This thread's memory, which all inputs reuse.
struct Memory {
    image: Image,
    region: &'static [AtomicU64],
    live: &'static [AtomicU64],
    frame_cache: &'static [AtomicU64],
    waker: &'static AtomicU32,
}

/// The contents of the parts before the edits.
struct Image {
    region: Vec<u64>,
    live: Vec<u64>,
    frame_cache: Vec<u64>,
    store: Vec<u8>,
}

thread_local! {
    static MEMORY: Memory = {
        let image = image();
        let room = |of: &[u64]| -> &'static [AtomicU64] {
            of.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
        };
        let [region, live, frame_cache] =
            [&image.region, &image.live, &image.frame_cache].map(|part| room(part));
        Memory { image, region, live, frame_cache, waker: Box::leak(Box::default()) }
    };
}

/// Creates memory with a file in the store, a file that is read ahead, and a live stream.
///
/// Clients play each of them.
fn image() -> Image {
    let mut builder = StoreBuilder::default();
    for media in [media(0, 0, 1), media(1, 0, 0)] {
        builder.add(media, &file_frames(), &[7; FRAMES * 100]);
    }
    builder.add(media(0, 1, 0), &[], &[]);
    let store = Store::open(&builder.seal().expect("memory")).expect("a store").bytes().to_vec();
    let shape = live_frames::Shape::new(PERIOD_NS, 1_000_000, 2_000, 600_000_000);
    let live = live_frames::create(&[shape]).expect("memory");
    let ring = live_frames::write(&live).expect("rings")[0];
    (0..40).for_each(|number| put(&ring, number));
    let cache_file =
        frame_cache::create(SESSIONS, frame_cache::Shape::new(8, 200)).expect("memory");
    let frame_cache = FrameCache::open(&cache_file).expect("a frame cache");
    frame_cache.begin(1, 1, 3);
    let wanted = frame_cache.wanted(1).expect("a turn in progress");
    for number in 3..8 {
        frame_cache.put(1, &wanted, number, Some(&[7; 100]));
    }
    let (region, region_file) = Region::create_with(SESSIONS, true).expect("memory");
    for (setting, value) in [
        (GlobalField::LinkRate, 20_000_000),
        (GlobalField::Schedule, Schedule::Dwcs as u64),
        (GlobalField::Generation, 3),
        (GlobalField::IdleTimeoutNs, 60_000_000_000),
        (GlobalField::HandOverNs, 500_000_000),
        (GlobalField::FramePath, 2),
    ] {
        region.set(setting, value);
    }
    // Session, file, request, state, RTP port; 0 for interleaved transport.
    for (session, media, want, state, port) in [
        (0, 0, RequestedState::Play, State::Playing, 5_000),
        (1, 1, RequestedState::Play, State::Playing, 5_002),
        (2, 2, RequestedState::Play, State::Playing, 0),
        (3, 0, RequestedState::Pause, State::Paused, 5_004),
        (4, 1, RequestedState::Stop, State::Playing, 5_006),
        (5, 0, RequestedState::Yield, State::Ended, 5_008),
        (6, 2, RequestedState::Play, State::Ready, 5_010),
    ] {
        let row = region.session(session);
        row.set_address(IpAddr::from([127, 0, 0, 1]), port, if port == 0 { 0 } else { port + 1 });
        for (word, value) in [
            (SessionField::Id, 1 + session as u64),
            (SessionField::RequestedState, want as u64),
            (SessionField::State, state as u64),
            (SessionField::Media, media),
            (SessionField::Next, 5),
            (SessionField::Sent, 2),
            (SessionField::PhaseNs, BEGIN_NS - 6 * PERIOD_NS),
            (SessionField::RtcpReceivedNs, BEGIN_NS - PERIOD_NS),
            (SessionField::Sequence, 9),
            (SessionField::SequenceBase, 77),
        ] {
            row.set(word, value);
        }
    }
    let instruction_table = region.instruction_table().expect("a region with an instruction table");
    // A module that passes every frame; its code is `(func (export "filter") …)`.
    let wasm = PASS.to_vec();
    let (limits, streams) = (api::limits(Allowance::default()), api::ALL);
    instruction_table.slot(0).write(&NewInstruction {
        name: "pass".to_owned(),
        limits,
        streams,
        wasm,
    });
    region.notices().push([3, 0, 0, 0]);
    let words = |file: &std::fs::File| {
        let bytes = bytes_of(file);
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>()
    };
    // Skips the cache's wake-up counter.
    let frame_cache = words(&cache_file).split_off(8);
    Image { region: words(&region_file), live: words(&live), frame_cache, store }
}

/// The binary of a module with a memory, a global `frame` and a function `filter` that returns 1.
const PASS: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x06\x01\x60\x01\x7f\x01\x7f\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x06\x07\x01\x7f\0\x41\xc0\0\x0b\
    \x07\x1b\x03\x06memory\x02\0\x05frame\x03\0\x06filter\0\0\
    \x0a\x06\x01\x04\0\x41\x01\x0b";

fn bytes_of(file: &std::fs::File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let length = file.metadata().expect("a file").len();
    let mut bytes = vec![0; usize::try_from(length).expect("a length that fits usize")];
    file.read_exact_at(&mut bytes, 0).expect("a readable file");
    bytes
}

fn media(media_file: u32, live: u32, repeat: u32) -> MediaRecord {
    MediaRecord {
        period_ns: PERIOD_NS,
        deadline_ns: 5 * PERIOD_NS,
        first_frame: 0,
        frames: 0,
        offset_ns: 0,
        round_ns: 0,
        first_byte: 0,
        stream: media_file + 2 * live,
        media_file,
        lost: 1,
        of: 3,
        queue: 8,
        payload_type: 32,
        clock_rate: 90_000,
        audio: 0,
        rate_frames: 25,
        rate_seconds: 1,
        repeat,
        live,
        ahead: 4,
        behind: 1,
    }
}

fn file_frames() -> Vec<NewFrame> {
    let frame = |at: usize| NewFrame {
        importance: Importance::from_number(u32::try_from(at % 4).unwrap_or(0)),
        display: u32::try_from(at).unwrap_or(0),
        range: at * 100..(at + 1) * 100,
        pieces: pieces(),
    };
    (0..FRAMES).map(frame).collect()
}

/// Returns the pieces of the two packets of a frame of 100 bytes.
fn pieces() -> Vec<Piece> {
    let piece = |range| Piece { header: [1, 2, 3, 4], header_bytes: 4, range };
    vec![piece(0..60), piece(60..100)]
}

fn put(ring: &FrameRing, number: u64) {
    let pieces = pieces();
    let rtp_time = u32::try_from(number * 3_600).unwrap_or(0);
    let record =
        live_frames::record(&pieces, rtp_time, if number.is_multiple_of(6) { 3 } else { 2 });
    let release_ns = BEGIN_NS - 30 * PERIOD_NS + number * PERIOD_NS;
    let about =
        LiveFrame { release_ns, captured_ns: release_ns, entry: number.is_multiple_of(6), record };
    assert!(ring.put(about, &[9; 100], &pieces));
}

/// A packet sender that writes packets to memory as they would be sent, and discards them.
#[derive(Default)]
struct DiscardingSender(Vec<u8>);

impl PacketSender for DiscardingSender {
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool {
        let all = of.packets.records;
        let _ = of.client.row.destinations();
        for (at, packet) in all.iter().enumerate().skip(first).take(packets) {
            self.0.clear();
            write_packet(&mut self.0, of, at, packet, at + 1 == all.len());
        }
        true
    }

    fn report(&mut self, client: &Client, at: ReportTime, bye: bool) {
        let _ = write_report(&mut [0; 256], client, at, bye);
    }
}

/// Lets a data plane take over memory with these edits. Returns whether it accepted the memory.
#[must_use]
pub fn takeover(edits: &[Edit]) -> bool {
    MEMORY.with(|memory| with_memory(memory, &edits[..edits.len().min(MAX_EDITS)]))
}

fn with_memory(memory: &Memory, edits: &[Edit]) -> bool {
    let Image { region, live, frame_cache, store } = &memory.image;
    // Restores the written words of the table only: the rest of a slot is space for a module.
    let instruction_table = FIRST_ROW + ROW * SESSIONS as usize;
    let slots = (instruction_table + instruction_table::HEADER..region.len())
        .step_by(instruction_table::SLOT);
    let parts = slots
        .map(|slot| slot..slot + SLOT_EDITED)
        .chain(iter::once(0..instruction_table + instruction_table::HEADER));
    let parts = parts.map(|part| (&memory.region[part.clone()], &region[part]));
    for (to, from) in
        parts.chain([(memory.live, &live[..]), (memory.frame_cache, &frame_cache[..])])
    {
        for (word, value) in to.iter().zip(from) {
            word.store(*value, Ordering::Relaxed);
        }
    }
    let (mut parts, mut store) = ([memory.region, memory.live, memory.frame_cache], store.clone());
    for edit in edits {
        apply_edit(edit, memory, &mut parts, &mut store);
    }
    let [region, live, frame_cache] = parts;
    let opened = Region::of(region).and_then(|region| {
        let mut store = Store::open(&StoreBuilder::sealed(&[&store])?)?;
        store.rings = live_frames::rings(live)?;
        Ok((region, store, FrameCache::of(memory.waker, frame_cache)?))
    });
    let Ok((region, store, frame_cache)) = opened else { return false };
    // Rejects tiny periods: the operator chooses them, and 1 ns keeps any data plane busy.
    if store.media().iter().any(|media| media.period_ns < PERIOD_NS / 100) {
        return false;
    }
    play(region, store, frame_cache, edits);
    adopt(region);
    true
}

fn apply_edit(
    edit: &Edit,
    memory: &Memory,
    parts: &mut [&'static [AtomicU64]; 3],
    store: &mut Vec<u8>,
) {
    let at = usize::from(edit.at);
    let set = |words: &[AtomicU64], at: usize| {
        if !words.is_empty() {
            words[at % words.len()].store(edit.value, Ordering::Relaxed);
        }
    };
    let rows = FIRST_ROW..FIRST_ROW + ROW * SESSIONS as usize;
    match edit.part {
        0 => set(&memory.region[..SETTINGS], at),
        2 => set(&memory.region[..rows.end], at),
        3 => set(memory.live, at),
        4 => set(memory.frame_cache, at),
        5 => {
            // Edits the call, or the words of a slot before its module.
            let instruction_table = &memory.region[rows.end..];
            let slot = at >> 8;
            let first = if slot == 0 {
                0
            } else {
                instruction_table::HEADER + (slot - 1) % 4 * instruction_table::SLOT
            };
            set(&instruction_table[first..first + SLOT_EDITED], at & 255);
        }
        6 if !store.is_empty() => {
            // Writes the value's eight bytes as far as they fit.
            let at = at % store.len();
            for (to, from) in store[at..].iter_mut().zip(edit.value.to_le_bytes()) {
                *to = from;
            }
        }
        7 => {
            let length = usize::try_from(edit.value).unwrap_or(usize::MAX);
            match parts.get_mut(at % 4) {
                Some(part) => *part = &part[..part.len().min(length)],
                None => store.truncate(length),
            }
        }
        1 => set(&memory.region[rows], at),
        _ => {}
    }
}

fn play(region: Region, store: Store, frame_cache: FrameCache, edits: &[Edit]) {
    let selector = Selector::new(Dwcs::<EdfFirst>::default(), Heap::default());
    let mut now_ns = BEGIN_NS;
    let mut dispatch = Dispatch::new(store, region, selector, Instructions::default(), now_ns);
    if let Some(instruction_table) = region.instruction_table() {
        let builder = Compiler::start(instruction_table, || ()).expect("a thread");
        dispatch.filter = Instructions::open(instruction_table, builder);
    }
    dispatch.set_frame_cache(frame_cache);
    let mut sender = DiscardingSender::default();
    let mut later = edits.iter().filter(|edit| edit.part >= 8);
    for step in 0..STEPS {
        let next_ns = dispatch.step(now_ns, &mut sender);
        now_ns = next_ns.clamp(now_ns + 1, now_ns + STEP_NS);
        // The host continues to write its own words.
        if let Some(edit) = later.next() {
            let session = usize::from(edit.at) % (region.sessions() + 1);
            if session < region.sessions() {
                let host = [
                    SessionField::RequestedState,
                    SessionField::Media,
                    SessionField::Ports,
                    SessionField::RtspReceivedNs,
                    SessionField::Id,
                ];
                let word = host[usize::from(edit.part) % host.len()];
                region.session(session).set(word, edit.value);
            }
            region.notices().push([u64::from(edit.at), 0, 0, 0]);
            region.outcomes().push([u64::from(edit.at), edit.value, 0, 0]);
            region.set(GlobalField::InstructionsChanged, 1);
        }
        match step {
            20 => dispatch.end_silent_clients(now_ns, region.get(GlobalField::IdleTimeoutNs)),
            30 => dispatch.end_live(),
            40 => dispatch.hand_over(),
            _ => dispatch.filter.install_built(),
        }
        let _ = (dispatch.is_playing(), dispatch.unresolved());
    }
}

/// Adopts the sessions as a server does that replaces a dead one.
fn adopt(region: Region) {
    let library = &resources().0;
    let mut sessions = Sessions::new(region, 20_000_000);
    sessions.adopt(library, &NoWakeSocket);
    let _ = sessions.total();
    for number in 0..region.sessions() {
        let _ = (sessions.shared(number, BEGIN_NS), sessions.account(number).waiting());
    }
    if let Some(instruction_table) = region.instruction_table() {
        let _ = api::list(instruction_table, &["a", "b", "c"]);
    }
    let stopped = sessions.stopped();
    sessions.sweep(&stopped);
}
