//! What host and network interface processor (NI) tell each other: words of shared memory.
//!
//! ```text
//! settings | notices, outcomes: host to NI | orders: NI to host | sessions: one row a client | …
//! ```
//! A session's row holds what the host *wants* of it and what the NI has made of it: its state,
//! where it is in its file, its counters. A notice only says which row to look at, so a lost one
//! costs time and nothing else, and an NI that takes the place of a dead one finds everything it
//! needs. Each word has one writer: the host the upper part of a row while the session is set up
//! and what it wants, the NI the rest.

use memmap2::MmapMut;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromBytes;

use crate::instruction::instruction_table::InstructionTable;
use crate::shared_memory::ring::{self, Ring};

const MAGIC: u64 = 0x4d53_5452_4541_4e08;
const NOTICES: usize = 1024;
const ORDERS: usize = 1024;
const OUTCOMES: usize = 1024;
/// Words of a session's row.
pub(crate) const ROW: usize = 96;
/// Where the first row begins.
pub(crate) const FIRST_ROW: usize =
    SETTINGS + ring::words(NOTICES) + ring::words(ORDERS) + ring::words(OUTCOMES);

/// What both sides must know from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum GlobalField {
    Magic,
    /// Rows of the session table.
    Sessions,
    /// Bits/s.
    LinkRate,
    /// Bytes a packet takes beyond its length.
    LinkOverhead,
    /// A [`Schedule`](crate::data_plane::Schedule) as a number.
    Schedule,
    /// How many NIs have run; the current one's number.
    Generation,
    /// 1: the NI is to look at every row.
    LookAtAll,
    /// 1: the NI is to end.
    End,
    /// Decisions that the NI made.
    Decisions,
    /// How long decisions and dispatch took in all, ns; without the kernel's sending.
    SchedulingNs,
    /// How long the kernel took to send, ns.
    SendingNs,
    /// Datagrams that the kernel refused.
    SendErrors,
    /// A client heard of nothing for so long ends, ns, if the host is gone.
    IdleTimeoutNs,
    /// The NI's process.
    Process,
    /// For how long it plays on without its host, ns, until it leaves its clients to other servers;
    /// 0: as long as they are heard of.
    HandOverNs,
    /// 1: there is a board of instructions.
    InstructionTable,
    /// 1: the NI is to look at it.
    LookAtBoard,
    /// The way of films' frames, a [`FramePath`](millstream_scenario::FramePath) as a number.
    FramePath,
}

/// Words of the settings.
pub(crate) const SETTINGS: usize = 32;

/// Words of a session's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum SessionField {
    // The host's.
    /// A [`Want`] as a number.
    Want,
    /// The file, by number.
    Media,
    /// The client's address as an IPv6 one, upper half.
    AddressHigh,
    /// Lower half.
    AddressLow,
    /// RTP port << 16 | RTCP port; 0 for interleaved transport.
    Ports,
    /// The RTP source.
    Ssrc,
    /// What RTP time stamps begin at.
    TimestampBase,
    /// The first RTP sequence number.
    SequenceBase,
    /// When the RTSP connection last said something, ns.
    HostHeardNs,
    // The NI's.
    /// Frames late or dropped because an interleaved client read too slowly.
    Slow,
    /// A [`State`] as a number.
    State,
    /// RTP packets numbered so far, from 0: the next one's number, sequence base not counted.
    Sequence,
    /// The frame that is released next, over all repeats.
    Next,
    /// When frame 0 was or would have been released, ns.
    PhaseNs,
    /// When the client last sent RTCP, ns.
    HeardNs,
    /// When the last sender report was sent, ns.
    ReportNs,
    Packets,
    Octets,
    /// Frames sent: I, P, B.
    Sent = 18,
    /// Dropped because their deadline passed: I, P, B.
    Late = 21,
    /// Dropped at a full queue: I, P, B.
    Full = 24,
    /// Discarded because the client went away.
    Discarded = 27,
    /// Lost while no NI ran, or queued in one that died.
    Lost,
    /// Frames lost beyond x in a block of y.
    Violations,
    /// The latest that a frame's last packet went out after its release, ns.
    WorstNs,
    /// Frames whose last packet went out less than 2^n µs after their release; see [`LATENESS`].
    Lateness,
    /// The host's: what the session is called; 0: nobody's row.
    Id = 55,
    /// Frames lost in the last block of y with an even number, and in that with an odd one:
    /// the block's number << 32 | how many.
    Blocks,
    /// The host's: how many servers have gone on with the session, or with one whose place it
    /// takes.
    Epoch = 58,
    // The NI's.
    /// Live: by how much the stream's number of a frame is above the client's.
    Offset,
    /// Live: from which of the stream's frames on one to begin with is looked for, + 1; 0: it has
    /// begun.
    From,
    /// Taken out by an instruction: I, P, B.
    Filtered,
    /// Dropped because their bytes were not read in time, or could not be: I, P, B.
    Unread = 64,
}

/// Buckets of [`SessionField::Lateness`]: the last holds all that is later.
pub(crate) const LATENESS: usize = 24;
const _: () = assert!(SessionField::Lateness as usize + LATENESS <= SessionField::Id as usize);
const _: () = assert!(SessionField::Blocks as usize + 2 <= SessionField::Epoch as usize);
const _: () = assert!(SessionField::Filtered as usize + 3 <= SessionField::Unread as usize);
const _: () = assert!(SessionField::Unread as usize + 3 <= ROW);

/// What the host wants of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Want {
    Nothing,
    Play,
    Pause,
    Stop,
    /// As `Stop`, and without a word to the client: another server goes on with it.
    Yield,
}

/// What the NI has made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// Nobody's row, or set up and not begun.
    Ready,
    Playing,
    Paused,
    /// Its file is at its end.
    Ended,
    /// Stopped as wanted: the row is the host's again.
    Stopped,
}

/// The shared words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    words: &'static [AtomicU64],
    sessions: usize,
}

impl Region {
    /// A new region for `sessions` clients, without instructions, and the memory file that holds
    /// it.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn create(sessions: u32) -> io::Result<(Self, File)> {
        Self::create_with(sessions, false)
    }

    /// The same, with a board of instructions if there is to be one.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn create_with(sessions: u32, board: bool) -> io::Result<(Self, File)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("millstream-region", flags)?);
        let words = Self::words(sessions as usize, board);
        ftruncate(&file, (words * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let region = Self { words: map(&file)?, sessions: sessions as usize };
        region.set(GlobalField::Sessions, sessions.into());
        region.set(GlobalField::InstructionTable, board.into());
        region.set(GlobalField::Magic, MAGIC);
        Ok((region, file))
    }

    /// Maps a region that another process made.
    ///
    /// # Errors
    /// If `file` is none.
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        Self::of(map(file)?)
    }

    /// The region in `words`.
    ///
    /// # Errors
    /// If there is none in them.
    pub(crate) fn of(words: &'static [AtomicU64]) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a shared region");
        let region = Self { words, sessions: 0 };
        if region.words.len() < SETTINGS || region.get(GlobalField::Magic) != MAGIC {
            return Err(damaged());
        }
        let sessions = usize::try_from(region.get(GlobalField::Sessions)).ok();
        let sessions = sessions.filter(|sessions| *sessions <= 1 << 16).ok_or_else(damaged)?;
        let expected = Self::words(sessions, region.get(GlobalField::InstructionTable) != 0);
        let right = expected == region.words.len();
        if right { Ok(Self { sessions, ..region }) } else { Err(damaged()) }
    }

    fn words(sessions: usize, board: bool) -> usize {
        let board = if board { InstructionTable::WORDS } else { 0 };
        FIRST_ROW + sessions * ROW + board
    }

    /// The board of instructions, if there is one.
    pub(crate) fn board(&self) -> Option<InstructionTable> {
        let words = &self.words[Self::words(self.sessions, false)..];
        (!words.is_empty()).then(|| InstructionTable::new(words))
    }

    pub(crate) fn get(&self, setting: GlobalField) -> u64 {
        self.words[setting as usize].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, setting: GlobalField, value: u64) {
        self.words[setting as usize].store(value, Ordering::Release);
    }

    /// Adds to a word that the caller alone writes.
    pub(crate) fn add(&self, setting: GlobalField, more: u64) {
        let word = &self.words[setting as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets to 0 and tells what it was.
    pub(crate) fn take(&self, setting: GlobalField) -> u64 {
        self.words[setting as usize].swap(0, Ordering::AcqRel)
    }

    /// Rows that the NI is to look at: `[session, …]`.
    pub(crate) fn notices(&self) -> Ring {
        Ring::new(&self.words[SETTINGS..][..ring::words(NOTICES)])
    }

    /// Frames that the host is to send on an RTSP connection:
    /// `[RTP source << 32 | session, frame, first sequence number, deadline]`.
    pub(crate) fn orders(&self) -> Ring {
        Ring::new(&self.words[SETTINGS + ring::words(NOTICES)..][..ring::words(ORDERS)])
    }

    /// What became of them: `[RTP source << 32 | session, frame, when it was on its way, 0]`, the
    /// time 0 of a frame that was late. Nothing is left out: what finds no room is told later.
    pub(crate) fn outcomes(&self) -> Ring {
        let before = SETTINGS + ring::words(NOTICES) + ring::words(ORDERS);
        Ring::new(&self.words[before..][..ring::words(OUTCOMES)])
    }

    /// How many rows there are.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    /// The row of a session.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn session(&self, session: usize) -> Row {
        assert!(session < self.sessions, "row {session}");
        let first = FIRST_ROW + session * ROW;
        Row { words: &self.words[first..first + ROW] }
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<&'static [AtomicU64]> {
    // SAFETY: the file is a memory file sealed against shrinking, so the pages exist; all that is
    // ever made of them is atomic words, which other processes may change at any time.
    let map = unsafe { MmapMut::map_mut(file)? };
    // One a server run, needed to its end.
    let bytes: &'static mut MmapMut = Box::leak(Box::new(map));
    <[AtomicU64]>::mut_from_bytes(&mut bytes[..])
        .map(|words| &*words)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a shared region"))
}

/// A session's row.
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

    /// Adds to a word that the caller alone writes.
    pub(crate) fn add(&self, word: SessionField, more: u64) {
        self.add_at(word, 0, more);
    }

    /// The same of the `at`th word from `word` on.
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

    /// Every word 0: a row that nobody has.
    pub(crate) fn clear(&self) {
        for word in self.words {
            word.store(0, Ordering::Release);
        }
    }

    pub(crate) fn want(&self) -> Want {
        match self.get(SessionField::Want) {
            1 => Want::Play,
            2 => Want::Pause,
            3 => Want::Stop,
            4 => Want::Yield,
            _ => Want::Nothing,
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

    /// Where RTP and RTCP go; `None` for interleaved transport.
    pub(crate) fn destinations(&self) -> Option<(SocketAddr, SocketAddr)> {
        let port = |shift: u32| u16::try_from(self.get(SessionField::Ports) >> shift & 0xffff).ok();
        let (rtp, rtcp) = (port(16)?, port(0)?);
        let bits = u128::from(self.get(SessionField::AddressHigh)) << 64
            | u128::from(self.get(SessionField::AddressLow));
        let address = Ipv6Addr::from_bits(bits).to_canonical();
        (rtp != 0).then(|| (SocketAddr::new(address, rtp), SocketAddr::new(address, rtcp)))
    }

    /// Whether the transport is interleaved: no RTP port. Cheaper than
    /// [`destinations`](Self::destinations), for what every frame asks.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.get(SessionField::Ports) >> 16 & 0xffff == 0
    }

    /// Frames that were sent, dropped, lost or taken out: all that were released and do not wait.
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
        there.session(0).add_at(SessionField::Sent, 2, 5);
        there.session(0).add(SessionField::Lost, 2);
        there.session(0).add(SessionField::Violations, 9);
        there.session(0).add_at(SessionField::Filtered, 2, 4);
        there.session(0).add_at(SessionField::Unread, 2, 3);
        assert_eq!(here.session(0).resolved(), 14);
        assert!(here.board().is_none());
    }

    #[test]
    fn what_is_no_region_is_refused() {
        let file = File::from(memfd_create("test", MemfdFlags::empty()).unwrap());
        ftruncate(&file, 4096).unwrap();
        assert!(Region::open(&file).is_err());
        let (region, file) = Region::create(3).unwrap();
        region.set(GlobalField::Sessions, 4);
        assert!(Region::open(&file).is_err());
        let (region, file) = Region::create_with(3, true).unwrap();
        assert!(region.board().is_some() && Region::open(&file).unwrap().board().is_some());
        region.set(GlobalField::InstructionTable, 0);
        assert!(Region::open(&file).is_err());
    }
}
