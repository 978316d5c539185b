//! The shared memory region: words that the host and the data plane (NI) exchange.
//!
//! ```text
//! settings | notices, outcomes: host to NI | orders: NI to host | one row per session | …
//! ```
//! Orders and outcomes have two pairs of rings: those of the host's session control, and those of
//! its media thread, which sends by WebRTC.
//!
//! A session's row holds the state that the host requests and the state that the data plane has
//! reached, with its file position and counters. A notice only names a row to check, so a lost
//! notice only costs time. The rows hold everything that a replacement of a dead data plane needs.
//!
//! Each word has one writer. The host writes its request, and the first part of a row during
//! session setup; the data plane writes the rest.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use memmap2::MmapMut;
use millstream::{Framing, Link};
use millstream_sync::ring::shared::{self as ring, Ring};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromBytes;

use crate::shared_memory::instruction_table::InstructionTable;

const MAGIC: u64 = 0x4d53_5452_4541_4e0b;
const NOTICES: usize = 1024;
const ORDERS: usize = 1024;
const OUTCOMES: usize = 1024;
/// The number of words of a session's row.
pub(crate) const ROW: usize = 96;
/// The index of the first row's first word.
pub(crate) const FIRST_ROW: usize =
    SETTINGS + ring::words(NOTICES) + 2 * (ring::words(ORDERS) + ring::words(OUTCOMES));

/// The words that belong to no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum GlobalField {
    Magic,
    /// The number of rows of the session table.
    Sessions,
    /// The link's rate, bits/s.
    LinkRate,
    /// The link's overhead per packet, bytes, in two's complement.
    LinkOverhead,
    /// The link's framing: 0 none, 1 ATM, 2 PTM.
    LinkFraming,
    /// The scheduling discipline, as a number.
    Schedule,
    /// The number of data planes so far, which numbers the current one.
    Generation,
    /// 1: the data plane must check every row.
    CheckAllRows,
    /// 1: the data plane must end.
    End,
    /// The number of scheduling decisions.
    Decisions,
    /// The total time of decisions and dispatch without the kernel's sending, ns.
    SchedulingNs,
    /// The total time that the kernel took to send, ns.
    SendingNs,
    /// The number of datagrams that the kernel refused.
    SendErrors,
    /// The silence after which a client ends if the host is gone, ns.
    IdleTimeoutNs,
    /// The identifier of the data plane's process.
    Process,
    /// The time after which a data plane without a host hands its clients over, ns.
    ///
    /// If 0, the data plane serves its clients as long as they send RTCP.
    HandOverNs,
    /// 1: the region has an instruction table.
    InstructionTable,
    /// 1: the data plane must check the instruction table.
    InstructionsChanged,
    /// The path of media files' frames: a [`FramePath`](millstream_scenario::FramePath) as a
    /// number.
    FramePath,
}

/// The number of words of the settings.
pub(crate) const SETTINGS: usize = 32;

/// The words of a session's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum SessionField {
    // Written by the host.
    /// A [`RequestedState`] as a number.
    RequestedState,
    /// The number of the media file.
    Media,
    /// The upper half of the client's address as an IPv6 address.
    AddressHigh,
    /// The lower half of the address.
    AddressLow,
    /// The RTP port << 16 | RTCP port; 0 for interleaved transport.
    Ports,
    /// The RTP source (SSRC).
    Ssrc,
    /// The base of the session's RTP timestamps.
    TimestampBase,
    /// The first RTP sequence number.
    SequenceBase,
    /// The time of the last activity on the RTSP connection, ns.
    RtspReceivedNs,
    // Written by the data plane.
    /// The number of frames late or dropped because an interleaved client read too slowly.
    Slow,
    /// A [`State`] as a number.
    State,
    /// The next RTP sequence number without the sequence base; counts reserved numbers from 0.
    Sequence,
    /// The number of the next released frame, over all repeats.
    Next,
    /// The time at which frame 0 was, or would have been, released, ns.
    PhaseNs,
    /// The time of the client's last RTCP packet, ns.
    RtcpReceivedNs,
    /// The time of the last sender report, ns.
    ReportNs,
    Packets,
    Octets,
    /// The numbers of sent frames: I, P, B.
    Sent = 18,
    /// The numbers of frames dropped because their deadline passed: I, P, B.
    Late = 21,
    /// The numbers of frames dropped because the queue was full: I, P, B.
    Full = 24,
    /// The number of frames discarded because the client left.
    Discarded = 27,
    /// The number of frames lost while no data plane ran, or queued in one that died.
    Lost,
    /// The number of frames lost beyond x in a block of y.
    Violations,
    /// The largest time from a frame's release to the sending of its last packet, ns.
    WorstNs,
    /// A histogram of that time: bucket n counts frames with less than 2^n µs; see [`LATENESS`].
    Lateness,
    /// The session's identifier, written by the host; 0 in a free row.
    Id = 55,
    /// The losses in the last block of y frames with an even number, and in the last odd one.
    ///
    /// Each word is block number << 32 | number of lost frames.
    Blocks,
    /// The number of servers that have continued the session or its predecessor; the host's.
    Epoch = 58,
    // Written by the data plane.
    /// Live streams: the stream's number of a frame minus the client's number.
    Offset,
    /// Live streams: the first frame in the search for an entry frame, + 1; 0: it was found.
    From,
    /// The numbers of frames filtered by an instruction: I, P, B.
    Filtered,
    /// The numbers of frames dropped because their bytes were not read in time or at all: I, P, B.
    Unread = 64,
    /// The sum of the times that [`Lateness`](Self::Lateness) counts, ns.
    LatenessSumNs = 67,
    /// The row of the same client's other track, + 1, written by the host; 0: there is none.
    OtherTrack,
    /// The estimated rate of the client's path, bits/s, written by the host; 0: unknown.
    PathBps,
    /// The number of the client's requests for a key frame, written by the host.
    KeyFramesWanted,
    /// 1: the client is a WebRTC viewer, written by the host.
    IsWebRtc,
}

/// The number of buckets of [`SessionField::Lateness`]; the last one holds all larger values.
pub(crate) const LATENESS: usize = 24;
const _: () = assert!(SessionField::Lateness as usize + LATENESS <= SessionField::Id as usize);
const _: () = assert!(SessionField::Blocks as usize + 2 <= SessionField::Epoch as usize);
const _: () = assert!(SessionField::Filtered as usize + 3 <= SessionField::Unread as usize);
const _: () = assert!(SessionField::Unread as usize + 3 <= SessionField::LatenessSumNs as usize);
const _: () = assert!((SessionField::IsWebRtc as usize) < ROW);

/// The state that the host requests for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum RequestedState {
    Nothing,
    Play,
    Pause,
    Stop,
    /// Like `Stop`, but without a goodbye to the client: another server continues the session.
    Yield,
}

/// The state that a session has reached in the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// The row is free, or the session is set up but not started.
    Ready,
    Playing,
    Paused,
    /// The session is at the end of its file.
    Ended,
    /// The session is stopped as requested, and the row belongs to the host again.
    Stopped,
}

/// The mapped shared memory region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    words: &'static [AtomicU64],
    sessions: usize,
}

/// Returns the global fields that describe a link.
pub(crate) fn link_fields(link: Link) -> [(GlobalField, u64); 3] {
    [
        (GlobalField::LinkRate, link.rate_bps),
        (GlobalField::LinkOverhead, i64::from(link.overhead_bytes).cast_unsigned()),
        (
            GlobalField::LinkFraming,
            match link.framing {
                Framing::None => 0,
                Framing::Atm => 1,
                Framing::Ptm => 2,
            },
        ),
    ]
}

impl Region {
    /// Creates a region for `sessions` clients, without instructions, in a memory file.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub(crate) fn create(sessions: u32) -> io::Result<(Self, File)> {
        Self::create_with(sessions, false)
    }

    /// Creates a region for `sessions` clients, with an instruction table if `instruction_table`.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub(crate) fn create_with(sessions: u32, instruction_table: bool) -> io::Result<(Self, File)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("millstream-region", flags)?);
        let words = Self::words(sessions as usize, instruction_table);
        ftruncate(&file, (words * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let region = Self { words: map(&file)?, sessions: sessions as usize };
        region.set(GlobalField::Sessions, sessions.into());
        region.set(GlobalField::InstructionTable, instruction_table.into());
        region.set(GlobalField::Magic, MAGIC);
        Ok((region, file))
    }

    /// Maps a region that another process created.
    ///
    /// # Errors
    /// Fails if `file` holds no region.
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        Self::of(map(file)?)
    }

    /// Returns the region in `words`.
    ///
    /// # Errors
    /// Fails if `words` hold no region.
    pub(crate) fn of(words: &'static [AtomicU64]) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a shared region");
        let region = Self { words, sessions: 0 };
        if region.words.len() < SETTINGS || region.get(GlobalField::Magic) != MAGIC {
            return Err(damaged());
        }
        let sessions = usize::try_from(region.get(GlobalField::Sessions)).ok();
        let sessions = sessions.filter(|sessions| *sessions <= 1 << 17).ok_or_else(damaged)?;
        let expected = Self::words(sessions, region.get(GlobalField::InstructionTable) != 0);
        let right = expected == region.words.len();
        if right { Ok(Self { sessions, ..region }) } else { Err(damaged()) }
    }

    fn words(sessions: usize, instruction_table: bool) -> usize {
        let instruction_table = if instruction_table { InstructionTable::WORDS } else { 0 };
        FIRST_ROW + sessions * ROW + instruction_table
    }

    /// Returns the instruction table, if the region has one.
    pub(crate) fn instruction_table(&self) -> Option<InstructionTable> {
        let words = &self.words[Self::words(self.sessions, false)..];
        (!words.is_empty()).then(|| InstructionTable::new(words))
    }

    /// Returns the link that [`link_fields`] described.
    pub(crate) fn link(&self) -> Link {
        let overhead = self.get(GlobalField::LinkOverhead).cast_signed();
        let framing = match self.get(GlobalField::LinkFraming) {
            1 => Framing::Atm,
            2 => Framing::Ptm,
            _ => Framing::None,
        };
        let rate_bps = self.get(GlobalField::LinkRate).max(1);
        Link::new(rate_bps, i32::try_from(overhead).unwrap_or(0)).framed(framing)
    }

    pub(crate) fn get(&self, setting: GlobalField) -> u64 {
        self.words[setting as usize].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, setting: GlobalField, value: u64) {
        self.words[setting as usize].store(value, Ordering::Release);
    }

    /// Adds to a word that only the caller writes.
    pub(crate) fn add(&self, setting: GlobalField, more: u64) {
        let word = &self.words[setting as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets a word to 0. Returns its previous value.
    pub(crate) fn take(&self, setting: GlobalField) -> u64 {
        self.words[setting as usize].swap(0, Ordering::AcqRel)
    }

    /// Returns the ring of rows that the data plane must check: `[session, …]`.
    pub(crate) fn notices(&self) -> Ring {
        Ring::new(&self.words[SETTINGS..][..ring::words(NOTICES)])
    }

    /// Returns the ring of frames that the host must send on an RTSP connection.
    ///
    /// Messages are `[RTP source << 32 | session, frame, first sequence number, deadline]`.
    pub(crate) fn orders(&self) -> Ring {
        Ring::new(&self.words[SETTINGS + ring::words(NOTICES)..][..ring::words(ORDERS)])
    }

    /// Returns the ring of the outcomes of orders.
    ///
    /// Messages are `[RTP source << 32 | session, frame, time sent, 0]`. The time is 0 for a late
    /// frame. No outcome is left out: the host sends it later if the ring is full.
    pub(crate) fn outcomes(&self) -> Ring {
        let before = SETTINGS + ring::words(NOTICES) + ring::words(ORDERS);
        Ring::new(&self.words[before..][..ring::words(OUTCOMES)])
    }

    /// Returns the ring of frames that the media thread must send to WebRTC viewers.
    ///
    /// Messages are those of [`orders`](Self::orders).
    pub(crate) fn webrtc_orders(&self) -> Ring {
        let before = FIRST_ROW - ring::words(ORDERS) - ring::words(OUTCOMES);
        Ring::new(&self.words[before..][..ring::words(ORDERS)])
    }

    /// Returns the ring of the outcomes of [`webrtc_orders`](Self::webrtc_orders).
    ///
    /// Messages are those of [`outcomes`](Self::outcomes).
    pub(crate) fn webrtc_outcomes(&self) -> Ring {
        let before = FIRST_ROW - ring::words(OUTCOMES);
        Ring::new(&self.words[before..][..ring::words(OUTCOMES)])
    }

    /// Returns the number of rows.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Returns the row of the other track of a session's client, if it has one.
    pub(crate) fn other_track(&self, session: usize) -> Option<usize> {
        let row = self.session(session);
        let other = usize::try_from(row.get(SessionField::OtherTrack).checked_sub(1)?).ok()?;
        // The row belongs to another client if the other track has ended.
        let id = |row: Row| row.get(SessionField::Id);
        (other < self.sessions && id(self.session(other)) == id(row)).then_some(other)
    }

    /// Returns when the client of a session last sent something, on either of its tracks, ns.
    pub(crate) fn last_received_ns(&self, session: usize) -> u64 {
        let of = |session: usize| {
            let row = self.session(session);
            row.get(SessionField::RtcpReceivedNs).max(row.get(SessionField::RtspReceivedNs))
        };
        of(session).max(self.other_track(session).map_or(0, of))
    }

    /// Returns the row of a session.
    ///
    /// # Panics
    /// Panics if the region has no such row.
    pub(crate) fn session(&self, session: usize) -> Row {
        assert!(session < self.sessions, "row {session}");
        let first = FIRST_ROW + session * ROW;
        Row { words: &self.words[first..first + ROW] }
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<&'static [AtomicU64]> {
    if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the region is not sealed"));
    }
    // SAFETY: the file is a memory file sealed against shrinking, so the pages exist. They are
    // accessed only as atomic words, which other processes may change at any time.
    let map = unsafe { MmapMut::map_mut(file)? };
    // One mapping per server run, used until the process ends.
    let bytes: &'static mut MmapMut = Box::leak(Box::new(map));
    <[AtomicU64]>::mut_from_bytes(&mut bytes[..])
        .map(|words| &*words)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a shared region"))
}

/// The words of one session's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    words: &'static [AtomicU64],
}

impl Row {
    pub(crate) fn get(&self, word: SessionField) -> u64 {
        self.words[word as usize].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, word: SessionField, value: u64) {
        self.words[word as usize].store(value, Ordering::Release);
    }

    /// Adds to a word that only the caller writes.
    pub(crate) fn add(&self, word: SessionField, more: u64) {
        self.add_at(word, 0, more);
    }

    /// Adds to the `at`th word from `word` on; only the caller may write it.
    pub(crate) fn add_at(&self, word: SessionField, at: usize, more: u64) {
        let word = &self.words[word as usize + at];
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }

    /// Sets the `at`th word from `word` on.
    pub(crate) fn set_at(&self, word: SessionField, at: usize, value: u64) {
        self.words[word as usize + at].store(value, Ordering::Release);
    }

    pub(crate) fn get_at(&self, word: SessionField, at: usize) -> u64 {
        self.words[word as usize + at].load(Ordering::Acquire)
    }

    /// Frees the row: sets every word to 0.
    pub(crate) fn clear(&self) {
        for word in self.words {
            word.store(0, Ordering::Release);
        }
    }

    pub(crate) fn requested_state(&self) -> RequestedState {
        match self.get(SessionField::RequestedState) {
            1 => RequestedState::Play,
            2 => RequestedState::Pause,
            3 => RequestedState::Stop,
            4 => RequestedState::Yield,
            _ => RequestedState::Nothing,
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.get(SessionField::State) {
            1 => State::Playing,
            2 => State::Paused,
            3 => State::Ended,
            4 => State::Stopped,
            _ => State::Ready,
        }
    }

    pub(crate) fn set_address(&self, address: IpAddr, rtp: u16, rtcp: u16) {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.set(SessionField::AddressHigh, u64::try_from(bits >> 64).unwrap_or(0));
        self.set(SessionField::AddressLow, u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0));
        self.set(SessionField::Ports, u64::from(rtp) << 16 | u64::from(rtcp));
    }

    /// Returns the destinations of RTP and RTCP, or `None` for interleaved transport.
    pub(crate) fn destinations(&self) -> Option<(SocketAddr, SocketAddr)> {
        if self.is_interleaved() {
            return None;
        }
        let port = |shift: u32| u16::try_from(self.get(SessionField::Ports) >> shift & 0xffff).ok();
        let (rtp, rtcp) = (port(16)?, port(0)?);
        let bits = u128::from(self.get(SessionField::AddressHigh)) << 64
            | u128::from(self.get(SessionField::AddressLow));
        let address = Ipv6Addr::from_bits(bits).to_canonical();
        Some((SocketAddr::new(address, rtp), SocketAddr::new(address, rtcp)))
    }

    /// Returns whether the transport is interleaved, that is, without an RTP port.
    ///
    /// Cheaper than [`destinations`](Self::destinations), because it is called for every frame.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.get(SessionField::Ports) >> 16 & 0xffff == 0
    }

    /// Returns whether the media thread sends the client's frames, by WebRTC.
    pub(crate) fn is_webrtc(&self) -> bool {
        self.get(SessionField::IsWebRtc) != 0
    }

    /// Returns the number of frames that were sent, dropped, lost or filtered.
    ///
    /// Those are all released frames that do not wait.
    pub(crate) fn resolved(&self) -> u64 {
        (SessionField::Sent as usize..=SessionField::Lost as usize)
            .chain(SessionField::Filtered as usize..SessionField::Filtered as usize + 3)
            .chain(SessionField::Unread as usize..SessionField::Unread as usize + 3)
            .map(|word| self.words[word].load(Ordering::Acquire))
            .fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that shrinks after it is mapped raises SIGBUS.
    #[test]
    fn fields_of_a_link_give_it_back() {
        let (region, _file) = Region::create(1).unwrap();
        for framing in [Framing::None, Framing::Atm, Framing::Ptm] {
            let link = Link::new(20_000_000, -6).framed(framing);
            for (field, value) in link_fields(link) {
                region.set(field, value);
            }
            assert_eq!(region.link(), link);
        }
    }

    #[test]
    fn a_region_without_the_shrink_seal_is_refused() {
        let file = File::from(memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap());
        ftruncate(&file, 1 << 20).unwrap();
        let error = Region::open(&file).err().unwrap();
        assert_eq!(error.to_string(), "the region is not sealed");
    }

    #[test]
    fn two_mappings_are_one_region() {
        let (here, file) = Region::create(3).unwrap();
        let there = Region::open(&file).unwrap();
        assert_eq!(there.sessions(), 3);
        here.session(2).set_address("10.1.2.3".parse().unwrap(), 5000, 5001);
        let expected = ("10.1.2.3:5000".parse().unwrap(), "10.1.2.3:5001".parse().unwrap());
        assert_eq!(there.session(2).destinations(), Some(expected));
        assert_eq!(there.session(1).destinations(), None);
        assert_eq!([1, 2].map(|at| there.session(at).is_interleaved()), [true, false]);
        assert!(here.notices().push([7, 0, 0, 0]));
        assert_eq!(there.notices().pop(), Some([7, 0, 0, 0]));
        assert_eq!(there.orders().pop(), None);
        // No ring has words of another one, or of a row.
        here.session(0).set(SessionField::RequestedState, 1);
        let rings = |region: Region| {
            [region.orders(), region.outcomes(), region.webrtc_orders(), region.webrtc_outcomes()]
        };
        for (number, ring) in (1..).zip(rings(here)) {
            while ring.push([number; 4]) {}
        }
        for (number, ring) in (1..).zip(rings(there)) {
            let messages = std::iter::from_fn(|| ring.pop());
            assert_eq!(messages.filter(|message| *message == [number; 4]).count(), 1024);
        }
        assert_eq!(there.session(0).requested_state(), RequestedState::Play);
        here.session(0).set(SessionField::IsWebRtc, 1);
        assert_eq!([0, 1].map(|at| there.session(at).is_webrtc()), [true, false]);
        here.session(0).clear();
        there.session(0).add_at(SessionField::Sent, 2, 5);
        there.session(0).add(SessionField::Lost, 2);
        there.session(0).add(SessionField::Violations, 9);
        there.session(0).add_at(SessionField::Filtered, 2, 4);
        there.session(0).add_at(SessionField::Unread, 2, 3);
        assert_eq!(here.session(0).resolved(), 14);
        assert!(here.instruction_table().is_none());
    }

    #[test]
    fn a_file_that_is_no_region_is_refused() {
        let file = File::from(memfd_create("test", MemfdFlags::empty()).unwrap());
        ftruncate(&file, 4096).unwrap();
        assert!(Region::open(&file).is_err());
        let (region, file) = Region::create(3).unwrap();
        region.set(GlobalField::Sessions, 4);
        assert!(Region::open(&file).is_err());
        let (region, file) = Region::create_with(3, true).unwrap();
        assert!(
            region.instruction_table().is_some()
                && Region::open(&file).unwrap().instruction_table().is_some()
        );
        region.set(GlobalField::InstructionTable, 0);
        assert!(Region::open(&file).is_err());
    }
}
