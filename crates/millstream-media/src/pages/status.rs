//! How a server stands, as `/status` says it: clients, their frames, and what the processors do.

use millstream_scenario::FramePath;
use serde::{Deserialize, Serialize};
use std::fs;

use crate::clock::{now_ns, worked_ns};
use crate::files::library::Library;
use crate::files::read_ahead::frame_cache::{CacheField, FrameCache};
use crate::files::read_ahead::media_file::Way;
use crate::instruction::api::{self, InstructionStatus};
use crate::live::ingest::Ingested;
use crate::live::publishing::{LiveSpec, Publisher, Publishing};
use crate::rtsp::session::{Account, Sessions};
use crate::shared_memory::region::{GlobalField, LATENESS, Region, SessionField, State};

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The scenario's name.
    pub server: String,
    /// How long it has run, ns.
    pub elapsed_ns: u64,
    /// Where frames are scheduled: `host` or `ni`.
    pub placement: String,
    /// The link's rate, bits/s.
    pub link_bps: u64,
    /// What clients have reserved of it, bits/s.
    pub reserved_bps: u64,
    /// Clients that were admitted.
    pub admitted: u64,
    /// Clients that were refused for lack of bandwidth.
    pub refused: u64,
    /// Clients that came while it drained.
    pub turned_away: u64,
    /// Connections that were closed because their clients took nothing for `stall-timeout`.
    #[serde(default)]
    pub stalled: u64,
    /// Who was refused for other reasons than bandwidth.
    #[serde(default)]
    pub refusals: Vec<RefusalStatus>,
    /// Whether it drains.
    pub draining: bool,
    /// Processors that were started: 1 if none crashed.
    pub processors: u64,
    /// Scheduling decisions.
    pub decisions: u64,
    /// Time of scheduler and dispatch, ns, without the kernel's sending.
    pub scheduling_ns: u64,
    /// Time that the kernel took to send, ns.
    pub sending_ns: u64,
    /// Datagrams that the kernel refused.
    pub send_errors: u64,
    /// What the machine's processors did.
    pub cpu: Cpu,
    /// Clients that there are.
    pub clients: Vec<ClientStatus>,
    /// The frames of clients that are gone.
    pub gone: Account,
    /// The live streams.
    #[serde(default)]
    pub live: Vec<LiveStatus>,
    /// How films' frames come to the processor.
    #[serde(default)]
    pub reading: Reading,
    /// Instructions that there are.
    pub instructions: Vec<InstructionStatus>,
}

/// A reason for which clients are refused, and how often they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalStatus {
    /// As `/metrics` calls it.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// A live stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveStatus {
    /// What it is called.
    pub stream: String,
    /// Where its publisher is; empty: nobody publishes it.
    pub publisher: String,
    /// How packets come: `udp` or `interleaved`; empty without a publisher.
    pub transport: String,
    /// What it may send for long, bits/s on the link.
    pub allowed_bps: u64,
    /// What came, and what became of it.
    pub ingested: Ingested,
}

/// How films' frames come to the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The frame path: `host`, `producer` or `ni`.
    pub path: String,
    /// How files are read ahead of need: `pread, O_DIRECT` past the file system's cache, or
    /// `pread`; empty: not.
    pub by: String,
    /// Frames that could not be read, or were not those that were loaded.
    pub failures: u64,
    /// The producer's process, if there is one.
    pub producer: Option<u64>,
    /// The core that it is pinned to, if it is to one.
    pub producer_core: Option<u64>,
    /// Producers that this server started: 1 if none died.
    pub producers: u64,
}

impl Reading {
    /// By this path, from this shelf if from one.
    pub(crate) fn of(path: FramePath, shelf: Option<FrameCache>, producers: u64) -> Self {
        let get = |of: CacheField| shelf.map(|shelf| shelf.get(of));
        Self {
            path: path.name().to_owned(),
            by: get(CacheField::Way).map_or("", Way::name).to_owned(),
            failures: get(CacheField::Failures).unwrap_or(0),
            producer: get(CacheField::Reader).filter(|process| *process != 0),
            producer_core: get(CacheField::ReaderCore).and_then(|core| core.checked_sub(1)),
            producers,
        }
    }
}

/// Use of the machine's processors, since its start or a program's; differences count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Time of all cores together, in the kernel's ticks; 0 where the kernel does not say.
    pub machine_ticks: u64,
    /// Of it, what some program ran in.
    pub machine_busy_ticks: u64,
    /// Time that the server's process ran, ns; with `placement = "host"` the scheduler's is in it.
    pub host_ns: u64,
    /// Time that the network interface processor's process ran, ns, where it is one.
    pub ni_ns: Option<u64>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its number; a later client may have it when it is gone.
    pub client: usize,
    /// When it was admitted or taken over, ns since the server began: tells it from one that had
    /// its number before.
    pub since_ns: u64,
    /// What it plays.
    pub stream: String,
    /// Its address.
    pub peer: String,
    /// How packets go to it: `udp` or `interleaved`.
    pub transport: String,
    /// `ready`, `playing`, `paused` or `ended`.
    pub state: String,
    /// Payload sent, bytes.
    pub sent_bytes: u64,
    /// Its frames.
    pub frames: Account,
    /// Frames that wait to be sent; of a live stream also those that came too early.
    pub queued: u64,
    /// Its window in the block of frames that is being released.
    pub window: WindowStatus,
    /// The latest that a frame's last packet went out after its release, ns.
    pub worst_ns: u64,
    /// Frames by how long after their release they were out: less than 2ⁿ µs, not less than half of
    /// that.
    pub lateness: Vec<u64>,
}

/// Where a client is in its window-constraint: at most `may_lose` of each block of `of` frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowStatus {
    /// x.
    pub may_lose: u64,
    /// y.
    pub of: u64,
    /// Frames of the block that were released.
    pub released: u64,
    /// Frames of it that were dropped.
    pub lost: u64,
}

/// What a server is asked for.
#[derive(Clone, Debug)]
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) started_ns: u64,
    /// Whether frames are scheduled in a process of its own.
    pub(crate) apart: bool,
    pub(crate) library: &'a Library,
    pub(crate) sessions: &'a Sessions,
    pub(crate) live: &'a Publishing,
    pub(crate) reading: Reading,
}

impl About<'_> {
    /// The instructions.
    pub(crate) fn instructions(&self) -> Vec<InstructionStatus> {
        let own = self.library.titles.iter().filter(|title| title.looser_than.is_none());
        let streams: Vec<&str> = own.map(|title| title.name.as_str()).collect();
        let board = self.sessions.region.board();
        board.map(|board| api::list(board, &streams)).unwrap_or_default()
    }

    /// How the server stands.
    pub(crate) fn status(&self) -> Status {
        let sessions = self.sessions;
        let region = sessions.region;
        let ni = self.apart.then(|| region.get(GlobalField::Process));
        Status {
            server: self.name.to_owned(),
            elapsed_ns: now_ns().saturating_sub(self.started_ns),
            placement: if self.apart { "ni" } else { "host" }.to_owned(),
            link_bps: sessions.admission.link_bps,
            reserved_bps: sessions.admission.reserved_bps,
            admitted: sessions.admitted,
            refused: sessions.refused,
            turned_away: sessions.turned_away,
            stalled: sessions.stalled,
            refusals: sessions.refusals.status(),
            draining: sessions.draining,
            processors: region.get(GlobalField::Generation),
            decisions: region.get(GlobalField::Decisions),
            scheduling_ns: region.get(GlobalField::SchedulingNs),
            sending_ns: region.get(GlobalField::SendingNs),
            send_errors: region.get(GlobalField::SendErrors),
            cpu: cpu(ni),
            clients: self.clients(region),
            gone: sessions.past,
            live: self.live(),
            reading: self.reading.clone(),
            instructions: self.instructions(),
        }
    }

    fn live(&self) -> Vec<LiveStatus> {
        let status =
            |(spec, publisher, ingested): (&LiveSpec, Option<&Publisher>, Ingested)| LiveStatus {
                stream: spec.name.clone(),
                publisher: publisher.map(|who| who.peer.to_string()).unwrap_or_default(),
                transport: match publisher.and_then(|who| who.transport) {
                    Some(transport) => transport.name(),
                    None => "",
                }
                .to_owned(),
                allowed_bps: spec.allowance.rate_bps,
                ingested,
            };
        self.live.standing().map(status).collect()
    }

    fn clients(&self, region: Region) -> Vec<ClientStatus> {
        let there = self.sessions.iter().filter_map(|(number, session)| {
            let row = region.session(number);
            let state = match row.state() {
                State::Ready => "ready",
                State::Playing => "playing",
                State::Paused => "paused",
                State::Ended => "ended",
                State::Stopped => return None,
            };
            let frames = self.sessions.account(number);
            let media = self.library.store.media()[session.title];
            let blocks = [0, 1].map(|parity| row.get_at(SessionField::Blocks, parity));
            Some(ClientStatus {
                client: number,
                since_ns: session.since_ns.saturating_sub(self.started_ns),
                stream: self.library.titles[session.title].name.clone(),
                peer: session.peer.to_string(),
                transport: session.transport.name().to_owned(),
                state: state.to_owned(),
                sent_bytes: row.get(SessionField::Octets),
                frames,
                queued: frames.waiting() + self.live.unreleased(media.live, row),
                window: window(media.lost.into(), media.of.into(), frames.released, blocks),
                worst_ns: row.get(SessionField::WorstNs),
                lateness: (0..LATENESS).map(|at| row.get_at(SessionField::Lateness, at)).collect(),
            })
        });
        there.collect()
    }
}

/// The window of a client that `released` frames were released of; `blocks` as in
/// [`SessionField::Blocks`].
fn window(may_lose: u64, of: u64, released: u64, blocks: [u64; 2]) -> WindowStatus {
    let Some(block) = released.saturating_sub(1).checked_div(of) else {
        return WindowStatus::default();
    };
    let entry = blocks[usize::from(block % 2 == 1)];
    // A block's number counts modulo 2³² there.
    let lost = if entry >> 32 == block & 0xffff_ffff { entry & 0xffff_ffff } else { 0 };
    WindowStatus { may_lose, of, released: released - block * of, lost }
}

/// What the processors did, that of process `ni` apart.
fn cpu(ni: Option<u64>) -> Cpu {
    let (machine_ticks, machine_busy_ticks) =
        fs::read_to_string("/proc/stat").ok().and_then(|text| machine(&text)).unwrap_or_default();
    let ni = ni.and_then(|id| fs::read_to_string(format!("/proc/{id}/schedstat")).ok());
    let ni_ns = ni.and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    Cpu { machine_ticks, machine_busy_ticks, host_ns: worked_ns(), ni_ns }
}

/// All ticks and those in which programs ran, of `/proc/stat`.
fn machine(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guests' are in user's.
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all, all - idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_that_of_the_block_being_released() {
        let blocks = [(4 << 32) | 2, (3 << 32) | 1];
        let window = |released| window(2, 12, released, blocks);
        assert_eq!(window(0), WindowStatus { may_lose: 2, of: 12, released: 0, lost: 0 });
        assert_eq!(window(48), WindowStatus { may_lose: 2, of: 12, released: 12, lost: 1 });
        assert_eq!(window(49), WindowStatus { may_lose: 2, of: 12, released: 1, lost: 2 });
        assert_eq!(window(61), WindowStatus { may_lose: 2, of: 12, released: 1, lost: 0 });
        assert_eq!(super::window(0, 0, 5, [0; 2]), WindowStatus::default());
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting() {
        let text = "cpu  10 2 3 100 7 1 1 4 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine(text), Some((128, 21)));
        assert_eq!(machine("cpu  10 x"), None);
        assert_eq!(machine("cpu  10 2 3"), None);
        assert_eq!(machine(""), None);
    }
}
