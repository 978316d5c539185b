//! The server's state in the form of `/status`: clients, their frames, data plane and CPU usage.

use millstream_scenario::FramePath;
use millstream_sync::clock::system::{now_ns, process_cpu_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;

use crate::files::library::Library;
use crate::files::read_ahead::media_file::ReadMode;
use crate::hooks::{HookStatus, Hooks};
use crate::instruction::api::{self, InstructionStatus};
use crate::live::ingest::Ingested;
use crate::live::publishing::{LiveStream, Publisher, Publishing};
use crate::recording::Recorder;
use crate::rtsp::session::{FrameCounts, Sessions};
use crate::shared_memory::frame_cache::{CacheField, FrameCache};
use crate::shared_memory::region::{GlobalField, LATENESS, Region, SessionField, State};

/// The state of a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The scenario's name.
    pub server: String,
    /// The time since the server started, ns.
    pub elapsed_ns: u64,
    /// Where frames are scheduled: `host` or `ni`.
    pub placement: String,
    /// The link's rate, bits/s.
    pub link_bps: u64,
    /// The rate reserved by clients, bits/s.
    pub reserved_bps: u64,
    /// Clients admitted.
    pub admitted: u64,
    /// Clients refused for lack of bandwidth.
    pub refused: u64,
    /// Clients refused while the server drained.
    pub turned_away: u64,
    /// Connections closed because the client read nothing for `stall-timeout`.
    #[serde(default)]
    pub stalled: u64,
    /// Requests and connections refused for reasons other than bandwidth.
    #[serde(default)]
    pub refusals: Vec<RejectStatus>,
    /// Whether the server is draining.
    pub draining: bool,
    /// Data planes started: 1 if none crashed.
    pub processors: u64,
    /// Scheduling decisions.
    pub decisions: u64,
    /// Time spent in scheduler and dispatch, ns, without the kernel's send time.
    pub scheduling_ns: u64,
    /// Time spent in the kernel's send calls, ns.
    pub sending_ns: u64,
    /// Datagrams that the kernel refused to send.
    pub send_errors: u64,
    /// CPU usage of the machine and the server's processes.
    pub cpu: Cpu,
    /// The current clients.
    pub clients: Vec<ClientStatus>,
    /// The frame counts of former clients.
    pub gone: FrameCounts,
    /// The live streams.
    #[serde(default)]
    pub live: Vec<LiveStatus>,
    /// The recorded streams.
    #[serde(default)]
    pub recordings: Vec<RecordingStatus>,
    /// The size of all recordings, bytes.
    #[serde(default)]
    pub recorded_bytes: u64,
    /// The streams that HLS plays.
    #[serde(default)]
    pub hls: Vec<HlsStatus>,
    /// The hooks.
    #[serde(default)]
    pub hooks: Vec<HookStatus>,
    /// The WebRTC clients; `None` without `webrtc`.
    #[serde(default)]
    pub webrtc: Option<WebRtcStatus>,
    /// How media files' frames reach the data plane.
    #[serde(default)]
    pub reading: Reading,
    /// The loaded instructions.
    pub instructions: Vec<InstructionStatus>,
}

/// The number of rejects for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectStatus {
    /// The reason's label in `/metrics`.
    pub reason: String,
    /// The number of rejects.
    pub count: u64,
}

/// The state of a live stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveStatus {
    /// The stream's name.
    pub stream: String,
    /// The publisher's address; empty without a publisher.
    pub publisher: String,
    /// The publisher's transport: `udp`, `interleaved`, `webrtc`, `rtmp` or `mpeg-ts`; empty
    /// without a publisher.
    pub transport: String,
    /// The sustained rate that a publisher may use, bits/s on the link.
    pub allowed_bps: u64,
    /// Packets and frames received, by outcome.
    pub ingested: Ingested,
}

/// The state of a stream's recording. Counts are those since the server started; of a path those
/// since it took its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingStatus {
    /// The stream's name.
    pub stream: String,
    /// Frames of video and audio recorded or waiting to be written.
    pub frames: u64,
    /// Frames lost because the disk is slow, full or fails.
    pub lost_frames: u64,
    /// Groups of pictures that lost frames.
    pub lost_groups: u64,
    /// Files completed.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failures to create or write a file.
    pub failures: u64,
    /// The size of the frames that wait to be written, bytes.
    pub queued_bytes: u64,
}

/// The state of a stream's presentation by HLS. Counts are those since the server started; of a
/// path those since it took its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HlsStatus {
    /// The stream's name.
    pub stream: String,
    /// Frames of video and audio packaged or waiting to be.
    pub frames: u64,
    /// Frames lost because the packager was slow.
    pub lost_frames: u64,
    /// Groups of pictures that lost frames.
    pub lost_groups: u64,
    /// Frames that could not be packaged.
    pub failures: u64,
    /// Segments begun.
    pub segments: u64,
    /// Parts completed.
    pub parts: u64,
    /// The size of the files that players can load now, bytes.
    pub held_bytes: u64,
    /// Playlists served.
    pub playlists: u64,
    /// The size of all playlists and files served, bytes.
    pub served_bytes: u64,
}

/// The number of WebRTC clients by state, and events of all of them so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebRtcStatus {
    /// Viewers that are connected.
    pub viewers: u64,
    /// Publishers that are connected.
    pub publishers: u64,
    /// Clients that have not completed ICE and DTLS.
    pub half_open: u64,
    /// Requests for a key frame (PLI and FIR).
    pub key_frame_requests: u64,
    /// Datagrams that belong to no client or are malformed.
    pub stray_datagrams: u64,
    /// Offers that were refused: malformed, without a format of the stream, or on a connection that
    /// the client had closed.
    pub refused_offers: u64,
}

/// How media files' frames reach the data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// The frame path: `host`, `producer` or `ni`.
    pub path: String,
    /// How files are read ahead: `pread, O_DIRECT` (bypasses the page cache) or `pread`; empty: not
    /// read ahead.
    pub by: String,
    /// Frames that could not be read, or that differ from those loaded at start.
    pub failures: u64,
    /// The process id of the producer, if one runs.
    pub producer: Option<u64>,
    /// The core to which the producer is pinned, if any.
    pub producer_core: Option<u64>,
    /// Producers that this server started: 1 if none died.
    pub producers: u64,
}

impl Reading {
    /// Returns the state of this frame path; `cache` is its frame cache, if it uses one.
    pub(crate) fn of(path: FramePath, cache: Option<FrameCache>, producers: u64) -> Self {
        let get = |of: CacheField| cache.map(|cache| cache.get(of));
        Self {
            path: path.name().to_owned(),
            by: get(CacheField::ReadMode).map_or("", ReadMode::name).to_owned(),
            failures: get(CacheField::Failures).unwrap_or(0),
            producer: get(CacheField::Reader).filter(|process| *process != 0),
            producer_core: get(CacheField::ReaderCore).and_then(|core| core.checked_sub(1)),
            producers,
        }
    }
}

/// CPU usage, cumulative since the start of the machine or the process: use differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Time of all cores, in kernel ticks; 0 if the kernel does not report it.
    pub machine_ticks: u64,
    /// Time of all cores that was neither idle nor iowait, in kernel ticks.
    pub machine_busy_ticks: u64,
    /// CPU time of the server's process, ns; includes the scheduler with `placement = "host"`.
    pub host_ns: u64,
    /// CPU time of the data-plane process, ns, if it is a separate process.
    pub ni_ns: Option<u64>,
}

/// The state of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientStatus {
    /// The client's session number, which a later client may reuse.
    pub client: usize,
    /// The time at which the client was admitted or adopted, ns since the server started.
    /// Distinguishes successive clients with one number.
    pub since_ns: u64,
    /// The stream that it plays.
    pub stream: String,
    /// The client's address.
    pub peer: String,
    /// The transport of its packets: `udp`, `interleaved` or `webrtc`.
    pub transport: String,
    /// The estimated rate of its path, bits/s; 0: unknown. Only WebRTC viewers have an estimate.
    #[serde(default)]
    pub path_bps: u64,
    /// `ready`, `playing`, `paused` or `ended`.
    pub state: String,
    /// Payload sent, bytes.
    pub sent_bytes: u64,
    /// The client's frame counts.
    pub frames: FrameCounts,
    /// Frames that wait to be sent; for a live stream, includes frames that arrived early.
    pub queued: u64,
    /// The client's window in the current block of frames.
    pub window: WindowStatus,
    /// The longest time from a frame's release to the send of its last packet, ns.
    pub worst_ns: u64,
    /// Frames by the time from release to the send of the last packet. Bucket n counts less than 2ⁿ
    /// µs and at least half of that.
    pub lateness: Vec<u64>,
}

/// The state of a window constraint: at most `may_lose` frames may be lost in each block of `of`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowStatus {
    /// x: the frames that a block may lose.
    pub may_lose: u64,
    /// y: the frames of a block.
    pub of: u64,
    /// Frames of the current block that were released.
    pub released: u64,
    /// Frames of the current block that were dropped.
    pub lost: u64,
}

/// The state of the server from which pages are answered.
#[derive(Clone, Debug)]
pub(crate) struct StatusSource<'a> {
    pub(crate) name: &'a str,
    pub(crate) started_ns: u64,
    /// Whether the data plane is a separate process.
    pub(crate) separate_process: bool,
    pub(crate) library: &'a Library,
    pub(crate) sessions: &'a Sessions,
    pub(crate) live: &'a Publishing,
    pub(crate) reading: Reading,
    pub(crate) webrtc: Option<WebRtcStatus>,
    pub(crate) recorder: Option<&'a Recorder>,
    pub(crate) hooks: Option<&'a Hooks>,
}

impl StatusSource<'_> {
    /// Returns the time since the server started, ns.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        now_ns().saturating_sub(self.started_ns)
    }

    /// Returns the loaded instructions.
    pub(crate) fn instructions(&self) -> Vec<InstructionStatus> {
        let own = self.library.titles.iter().filter(|title| title.is_stream());
        let streams: Vec<&str> = own.map(|title| title.stream.as_str()).collect();
        let table = self.sessions.region.instruction_table();
        table.map(|table| api::list(table, &streams)).unwrap_or_default()
    }

    /// Returns the state of the server.
    pub(crate) fn status(&self) -> Status {
        let sessions = self.sessions;
        let region = sessions.region;
        let ni = self.separate_process.then(|| region.get(GlobalField::Process));
        Status {
            server: self.name.to_owned(),
            elapsed_ns: self.elapsed_ns(),
            placement: if self.separate_process { "ni" } else { "host" }.to_owned(),
            link_bps: sessions.admission.link_bps,
            reserved_bps: sessions.admission.reserved_bps,
            admitted: sessions.admitted,
            refused: sessions.refused,
            turned_away: sessions.turned_away,
            stalled: sessions.stalled,
            refusals: sessions.rejects.status(),
            draining: sessions.draining,
            processors: region.get(GlobalField::Generation),
            decisions: region.get(GlobalField::Decisions),
            scheduling_ns: region.get(GlobalField::SchedulingNs),
            sending_ns: region.get(GlobalField::SendingNs),
            send_errors: region.get(GlobalField::SendErrors),
            cpu: cpu(ni),
            clients: self.clients(region),
            gone: sessions.ended_counts,
            live: self.live(),
            recordings: self.recordings(),
            hls: self.live.hls.status(),
            hooks: self.hooks.map(Hooks::status).unwrap_or_default(),
            recorded_bytes: self.recorder.map_or(0, |recorder| recorder.directory().bytes()),
            webrtc: self.webrtc,
            reading: self.reading.clone(),
            instructions: self.instructions(),
        }
    }

    /// Returns the state of each recorded stream.
    pub(crate) fn recordings(&self) -> Vec<RecordingStatus> {
        self.recorder.map(|recorder| recorder.status(self.live)).unwrap_or_default()
    }

    fn live(&self) -> Vec<LiveStatus> {
        let status =
            |(stream, publisher, ingested): (&LiveStream, Option<&Publisher>, Ingested)| {
                LiveStatus {
                    stream: stream.name.clone(),
                    publisher: publisher.map(|who| who.peer.to_string()).unwrap_or_default(),
                    transport: match publisher.and_then(|who| who.transport) {
                        Some(transport) => transport.name(),
                        None => "",
                    }
                    .to_owned(),
                    allowed_bps: stream.spec.allowance.rate_bps,
                    ingested,
                }
            };
        self.live.statuses().map(status).collect()
    }

    fn clients(&self, region: Region) -> Vec<ClientStatus> {
        let current = self.sessions.iter().filter_map(|(number, session)| {
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
                stream: self.live.name_of(&self.library.titles[session.title]).to_owned(),
                peer: session.peer.to_string(),
                transport: session.transport.name().to_owned(),
                path_bps: row.get(SessionField::PathBps),
                state: state.to_owned(),
                sent_bytes: row.get(SessionField::Octets),
                frames,
                queued: frames.waiting() + self.live.unreleased(media.live, row),
                window: window(media.lost.into(), media.of.into(), frames.released, blocks),
                worst_ns: row.get(SessionField::WorstNs),
                lateness: (0..LATENESS).map(|at| row.get_at(SessionField::Lateness, at)).collect(),
            })
        });
        current.collect()
    }
}

/// Returns the window of a client after `released` frames; `blocks` as in [`SessionField::Blocks`].
fn window(may_lose: u64, of: u64, released: u64, blocks: [u64; 2]) -> WindowStatus {
    let Some(block) = released.saturating_sub(1).checked_div(of) else {
        return WindowStatus::default();
    };
    let entry = blocks[usize::from(block % 2 == 1)];
    // The entry holds the block's number modulo 2³².
    let lost = if entry >> 32 == block & 0xffff_ffff { entry & 0xffff_ffff } else { 0 };
    WindowStatus { may_lose, of, released: released - block * of, lost }
}

/// Returns the CPU usage; `ni` is the process id of a separate data plane.
fn cpu(ni: Option<u64>) -> Cpu {
    let (machine_ticks, machine_busy_ticks) =
        fs::read_to_string("/proc/stat").ok().and_then(|text| machine(&text)).unwrap_or_default();
    let ni = ni.and_then(|id| fs::read_to_string(format!("/proc/{id}/schedstat")).ok());
    let ni_ns = ni.and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    Cpu { machine_ticks, machine_busy_ticks, host_ns: process_cpu_ns(), ni_ns }
}

/// Parses total and busy ticks from `/proc/stat`.
fn machine(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; user includes guest time.
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
    fn the_window_is_that_of_the_current_block() {
        let blocks = [(4 << 32) | 2, (3 << 32) | 1];
        let window = |released| window(2, 12, released, blocks);
        assert_eq!(window(0), WindowStatus { may_lose: 2, of: 12, released: 0, lost: 0 });
        assert_eq!(window(48), WindowStatus { may_lose: 2, of: 12, released: 12, lost: 1 });
        assert_eq!(window(49), WindowStatus { may_lose: 2, of: 12, released: 1, lost: 2 });
        assert_eq!(window(61), WindowStatus { may_lose: 2, of: 12, released: 1, lost: 0 });
        assert_eq!(super::window(0, 0, 5, [0; 2]), WindowStatus::default());
    }

    #[test]
    fn busy_ticks_exclude_idle_and_iowait() {
        let text = "cpu  10 2 3 100 7 1 1 4 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine(text), Some((128, 21)));
        assert_eq!(machine("cpu  10 x"), None);
        assert_eq!(machine("cpu  10 2 3"), None);
        assert_eq!(machine(""), None);
    }
}
