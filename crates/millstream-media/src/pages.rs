//! The HTTP pages: the dashboard and its `/status`, `/admission` with the admission state,
//! `/metrics` for Prometheus, the last hour and week, and `/openapi.json`, which describes them.
//!
//! Session control has the data for the pages; another thread serves HTTP. That thread requests one
//! page at a time from session control. A thread requests totals once a second for the history.

mod history;
mod openapi;
pub(crate) mod recordings;
pub(crate) mod rejects;
pub(crate) mod status;

use millstream_report::http::history::Span;
use millstream_report::http::{self, Answer, WriteHandler};
use mio::Waker;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::files::library::Library;
use crate::hooks::{HookStatus, Hooks};
use crate::instruction::api::{BODY_BYTES, ExtensionApi, InstructionStatus};
use crate::live::ingest::Ingested;
use crate::live::publishing::Publishing;
use crate::pages::rejects::{REASONS, RejectCounters};
use crate::pages::status::{HlsStatus, RecordingStatus, StatusSource, WebRtcStatus};
use crate::recording::directory::Directory;
use crate::rtsp::session::{FrameCounts, FrameDelays, Sessions, StreamTotals};
use crate::shared_memory::region::{GlobalField, LATENESS, Region, SessionField, State};

/// How long session control may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A page that session control answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    Admission,
    Instructions,
    Metrics,
    Status,
}

/// A request to session control, with the sender of the answer.
pub(crate) enum PageRequest {
    /// A page, for the HTTP thread.
    Page(Page, SyncSender<Answer>),
    /// The totals of all streams, for the history.
    Totals(SyncSender<Totals>),
}

/// The requests of the HTTP thread and of the history's thread.
pub(crate) type PageRequests = Receiver<PageRequest>;

/// The totals of all streams by name.
pub(crate) struct Totals {
    /// The time since the server started, ns.
    pub(crate) elapsed_ns: u64,
    pub(crate) streams: Vec<(String, StreamTotals)>,
}

/// Serves the pages at `listener`; `waker` wakes session control. The flag after `region` states
/// whether programs may change the region's instruction table. `streams` are the scenario's,
/// `recordings` is the directory of recorded streams.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn serve(
    listener: TcpListener,
    waker: Arc<Waker>,
    (region, orders): (Region, bool),
    streams: Vec<String>,
    recordings: Option<Directory>,
) -> io::Result<PageRequests> {
    // One place for each of the two threads.
    let (ask, page_requests) = sync_channel(2);
    let wake = Arc::clone(&waker);
    let extension_api = ExtensionApi::new(region, orders, streams, move || {
        // If the wake-up fails, the data plane reads the table at its next one.
        let _ = wake.wake();
    });
    let execute = Box::new(move |order| extension_api.execute(&order));
    let orders = WriteHandler { max_bytes: BODY_BYTES, handle: execute };
    let history = history::start(ask.clone(), Arc::clone(&waker))?;
    let paths = "/, /status, /admission, /instructions, /recordings, /metrics, /history/hour, \
                 /history/week and /openapi.json";
    let description = openapi::document().to_string();
    let answer = move |path: &str| {
        let page = match path {
            "/history/hour" => return json(&history.page(Span::Hour)),
            "/history/week" => return json(&history.page(Span::Week)),
            "/openapi.json" => return Answer::Json(description.clone()),
            "/admission" => Page::Admission,
            "/instructions" => Page::Instructions,
            "/metrics" => Page::Metrics,
            "/status" => Page::Status,
            "/recordings" => return json(&recordings::list(recordings.as_ref(), None)),
            path => {
                let Some(stream) = path.strip_prefix("/recordings/") else {
                    return Answer::NotFound;
                };
                return json(&recordings::list(recordings.as_ref(), Some(stream)));
            }
        };
        let (reply, answer) = sync_channel(1);
        let request = PageRequest::Page(page, reply);
        let asked = ask.try_send(request).is_ok() && waker.wake().is_ok();
        let answer = asked.then(|| answer.recv_timeout(ANSWER_TIMEOUT).ok()).flatten();
        answer.unwrap_or_else(|| Answer::Unavailable("the server does not answer".to_owned()))
    };
    http::serve_with(listener, paths, answer, Some(orders))?;
    Ok(page_requests)
}

/// Answers the pending page requests.
pub(crate) fn answer(page_requests: &PageRequests, about: StatusSource<'_>) {
    let StatusSource { library, sessions, live, .. } = about;
    while let Ok(request) = page_requests.try_recv() {
        let (page, reply) = match request {
            PageRequest::Page(page, reply) => (page, reply),
            PageRequest::Totals(reply) => {
                let mut streams: Vec<(String, StreamTotals)> = Vec::new();
                for (title, of) in sessions.totals_of_places() {
                    // The paths of a stream have one name, and so a bounded number of series.
                    let name = &library.titles[title].name;
                    match streams.iter_mut().find(|(known, _)| known == name) {
                        Some((_, totals)) => *totals = totals.plus(of),
                        None => streams.push((name.clone(), of)),
                    }
                }
                // Fails only if the history's thread has stopped waiting.
                let _ = reply.try_send(Totals { elapsed_ns: about.elapsed_ns(), streams });
                continue;
            }
        };
        let answer = match page {
            Page::Admission => Answer::Text(admission(library, sessions)),
            Page::Instructions => json(&about.instructions()),
            Page::Metrics => {
                let webrtc = about.webrtc.unwrap_or_default();
                let recordings = about.recordings();
                let instructions = about.instructions();
                let hooks = about.hooks.map(Hooks::status).unwrap_or_default();
                let recorded = (recordings, hooks);
                let text = metrics(library, sessions, live, instructions, webrtc, recorded);
                Answer::Metrics(text)
            }
            Page::Status => json(&about.status()),
        };
        // Fails only if the HTTP thread has stopped waiting.
        let _ = reply.try_send(answer);
    }
}

fn json(what: &impl serde::Serialize) -> Answer {
    serde_json::to_string(what).map_or_else(|e| Answer::Unavailable(e.to_string()), Answer::Json)
}

/// Returns the admission state as text.
fn admission(library: &Library, sessions: &Sessions) -> String {
    let admission = &sessions.admission;
    let mut text = format!(
        "link: {} bits/s; reserved: {} bits/s; {} sessions, {} refused\n\n\
         A client is admitted if the mandatory frames due in any time interval fit the link. \
         NAME/x/y is NAME with a looser window: at most x of y frames lost. A refused client may \
         request it.\n\n",
        admission.link_bps,
        admission.reserved_bps,
        sessions.iter().count(),
        sessions.refused
    );
    let demands = library.demands();
    let titles = library.titles.iter().enumerate();
    for (number, title) in titles.filter(|(_, title)| title.is_shown()) {
        let _ = write!(
            text,
            "{}: mean rate {} bits/s, mandatory {} bits/s: ",
            title.name, title.mean_bps, title.reserved_bps
        );
        let _ = match admission.admits(&demands, number, 1) {
            Ok(()) => {
                let most = sessions.rows(title.is_audio).len() as u64;
                writeln!(
                    text,
                    "{} more clients would be admitted",
                    admission.room(&demands, number, most)
                )
            }
            Err(reason) => writeln!(text, "refused; {reason}"),
        };
    }
    text
}

/// The frame counts of one client, or of all former clients.
#[derive(Debug)]
struct ClientAccount {
    stream: String,
    client: String,
    account: FrameCounts,
}

#[derive(Debug)]
struct Snapshot {
    counted: Vec<ClientAccount>,
    reserved_bps: u64,
    sessions: usize,
    refused: u64,
    turned_away: u64,
    rejects: RejectCounters,
    draining: bool,
    webrtc: WebRtcStatus,
    members: u64,
    settings: Vec<(&'static str, &'static str, u64)>,
    instructions: Vec<InstructionStatus>,
    lateness: [u64; LATENESS],
    /// The frame delays of all clients, current and former, by stream.
    delays: Vec<(StreamLabels, FrameDelays)>,
    live: Vec<(StreamLabels, bool, Ingested)>,
    recordings: Vec<RecordingStatus>,
    hls: Vec<HlsStatus>,
    hooks: Vec<HookStatus>,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct StreamLabels {
    stream: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct LiveEventLabels {
    stream: String,
    event: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct FrameLabels {
    stream: String,
    client: String,
    frame: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct InstructionLabels {
    instruction: String,
    event: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct HookLabels {
    hook: String,
    event: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct RejectLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct LatenessLabels {
    microseconds: String,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(0u64).metric_type();
        let mut family = encoder.encode_descriptor(
            "millstream_media_frames",
            "Frames by stream, client, frame type and outcome",
            None,
            counter,
        )?;
        for ClientAccount { stream, client, account } in &self.counted {
            let mut one = |frame, event, value: u64| {
                let labels =
                    FrameLabels { stream: stream.clone(), client: client.clone(), frame, event };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)
            };
            for (kind, frame) in ["I", "P", "B"].into_iter().enumerate() {
                one(frame, "sent", account.sent[kind])?;
                one(frame, "dropped-late", account.late[kind])?;
                one(frame, "dropped-full", account.full[kind])?;
                one(frame, "filtered", account.filtered[kind])?;
                one(frame, "unread", account.unread[kind])?;
            }
            one("any", "discarded", account.discarded)?;
            one("any", "lost", account.lost)?;
            one("any", "violation", account.violations)?;
            one("any", "slow-client", account.slow)?;
        }
        let mut family = encoder.encode_descriptor(
            "millstream_media_lateness_frames",
            "Frames of current clients by the time from release to the send of the last packet; \
             each is counted under the next power of two, µs",
            None,
            ConstCounter::new(0u64).metric_type(),
        )?;
        for (bucket, count) in self.lateness.iter().enumerate() {
            let labels = LatenessLabels { microseconds: (1u64 << bucket).to_string() };
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "millstream_media_frame_delay",
            "Time from a frame's release to the send of its last packet",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (stream, delays) in &self.delays {
            let buckets: Vec<(f64, u64)> = delays
                .frames
                .iter()
                .enumerate()
                .map(|(power, frames)| match power + 1 {
                    LATENESS => (f64::INFINITY, *frames),
                    _ => ((1u64 << power) as f64 / 1e6, *frames),
                })
                .collect();
            let sum = delays.sum_ns as f64 / 1e9;
            let frames = delays.frames.iter().sum();
            let mut metric = family.encode_family(stream)?;
            metric.encode_histogram::<NoLabelSet>(sum, frames, &buckets, None)?;
        }
        let mut family = encoder.encode_descriptor(
            "millstream_media_instructions",
            "Frames and calls by instruction and outcome, and whether it is stopped",
            None,
            ConstCounter::new(0u64).metric_type(),
        )?;
        for one in &self.instructions {
            for (event, value) in [
                ("frame", one.frames),
                ("dropped", one.dropped),
                ("loosened", one.loosened),
                ("call", one.calls),
                ("out-of-fuel", one.out_of_fuel),
                ("over-memory", one.over_memory),
                ("trapped", one.trapped),
                ("bad-answer", one.bad_answer),
                ("stopped", u64::from(one.state == "stopped")),
            ] {
                let labels = InstructionLabels { instruction: one.name.clone(), event };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "millstream_media_refusals",
            "Clients refused for reasons other than bandwidth",
            None,
            ConstCounter::new(0u64).metric_type(),
        )?;
        for (which, reason, _) in REASONS {
            let count = self.rejects.count(which);
            ConstCounter::new(count).encode(family.encode_family(&RejectLabels { reason })?)?;
        }
        self.encode_live(&mut encoder)?;
        self.encode_recordings(&mut encoder)?;
        self.encode_hls(&mut encoder)?;
        self.encode_hooks(&mut encoder)?;
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for (name, help, value) in [
            ("millstream_media_reserved_bps", "Reserved link bandwidth, bits/s", self.reserved_bps),
            ("millstream_media_sessions", "Sessions", self.sessions as u64),
            ("millstream_media_draining", "1 while the server drains", self.draining.into()),
            ("millstream_media_webrtc_viewers", "WebRTC viewers", self.webrtc.viewers),
            ("millstream_media_webrtc_publishers", "WebRTC publishers", self.webrtc.publishers),
            (
                "millstream_media_webrtc_half_open",
                "WebRTC clients that have not completed ICE and DTLS",
                self.webrtc.half_open,
            ),
            (
                "millstream_media_cluster_members",
                "Other cluster members that are alive",
                self.members,
            ),
        ] {
            let gauge = ConstGauge::new(whole(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let refused =
            ("millstream_media_refused", "Clients refused for lack of bandwidth", self.refused);
        let turned_away = (
            "millstream_media_turned_away",
            "Clients refused while the server drained",
            self.turned_away,
        );
        for (name, help, value) in self.settings.iter().copied().chain([refused, turned_away]) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// Encodes the metrics of live streams.
    fn encode_live(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauge = ConstGauge::new(0i64).metric_type();
        let help = "1 while the stream has a publisher";
        let mut family =
            encoder.encode_descriptor("millstream_media_live_publishers", help, None, gauge)?;
        for (stream, published, _) in &self.live {
            let one = ConstGauge::new(i64::from(*published));
            one.encode(family.encode_family(stream)?)?;
        }
        type Events = fn(&Ingested) -> Vec<(&'static str, u64)>;
        let packets: Events = |of| {
            vec![
                ("received", of.packets),
                ("lost", of.lost_packets),
                ("reordered", of.reordered_packets),
                ("late", of.late_packets),
                ("strange", of.strange_packets),
            ]
        };
        let frames: Events = |of| {
            vec![
                ("released", of.released.iter().sum()),
                ("incomplete", of.incomplete),
                ("before-entry", of.before_entry),
                ("beyond", of.beyond),
            ]
        };
        for (name, help, events) in [
            ("millstream_media_live_packets", "RTP packets of publishers", packets),
            ("millstream_media_live_frames", "Frames of publishers by outcome", frames),
        ] {
            let counter = ConstCounter::new(0u64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, counter)?;
            for (of, _, ingested) in &self.live {
                for (event, value) in events(ingested) {
                    let labels = LiveEventLabels { stream: of.stream.clone(), event };
                    ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// Encodes the metrics of recordings.
    fn encode_recordings(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        type Events = fn(&RecordingStatus) -> Vec<(&'static str, u64)>;
        let frames: Events = |of| vec![("recorded", of.frames), ("lost", of.lost_frames)];
        let others: Events = |of| {
            vec![
                ("file", of.files),
                ("byte", of.bytes),
                ("lost-group", of.lost_groups),
                ("failure", of.failures),
            ]
        };
        for (name, help, events) in [
            ("millstream_media_recorded_frames", "Frames of recorded streams by outcome", frames),
            (
                "millstream_media_recordings",
                "Files completed, bytes written, groups of pictures lost and failures",
                others,
            ),
        ] {
            let counter = ConstCounter::new(0u64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, counter)?;
            for of in &self.recordings {
                for (event, value) in events(of) {
                    let labels = LiveEventLabels { stream: of.stream.clone(), event };
                    ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// Encodes the metrics of streams that HLS plays.
    fn encode_hls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(0u64).metric_type();
        let help = "Frames, parts, playlists and bytes of streams that HLS plays, by event";
        let mut family = encoder.encode_descriptor("millstream_media_hls", help, None, counter)?;
        for of in &self.hls {
            for (event, value) in [
                ("frame", of.frames),
                ("lost-frame", of.lost_frames),
                ("lost-group", of.lost_groups),
                ("failure", of.failures),
                ("segment", of.segments),
                ("part", of.parts),
                ("playlist", of.playlists),
                ("served-byte", of.served_bytes),
            ] {
                let labels = LiveEventLabels { stream: of.stream.clone(), event };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Encodes the metrics of hooks, by their number in the file.
    fn encode_hooks(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(0u64).metric_type();
        let help = "Commands of hooks by outcome";
        let mut family =
            encoder.encode_descriptor("millstream_media_hooks", help, None, counter)?;
        for (number, of) in self.hooks.iter().enumerate() {
            for (outcome, value) in [
                ("started", of.started),
                ("succeeded", of.succeeded),
                ("failed", of.failed),
                ("dropped", of.dropped),
            ] {
                let labels =
                    HookLabels { hook: number.to_string(), event: of.event.clone(), outcome };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn metrics(
    library: &Library,
    sessions: &Sessions,
    live: &Publishing,
    instructions: Vec<InstructionStatus>,
    webrtc: WebRtcStatus,
    (recordings, hooks): (Vec<RecordingStatus>, Vec<HookStatus>),
) -> String {
    let region = &sessions.region;
    let mut counted = vec![ClientAccount {
        stream: String::new(),
        client: "gone".to_owned(),
        account: sessions.ended_counts,
    }];
    let mut lateness = [0; LATENESS];
    for (number, session) in sessions.iter() {
        let row = region.session(number);
        if row.state() == State::Stopped {
            continue;
        }
        counted.push(ClientAccount {
            stream: live.name_of(&library.titles[session.title]).to_owned(),
            client: number.to_string(),
            account: sessions.account(number),
        });
        for (bucket, sum) in lateness.iter_mut().enumerate() {
            *sum += row.get_at(SessionField::Lateness, bucket);
        }
    }
    let settings = vec![
        ("millstream_media_decisions", "Scheduling decisions", region.get(GlobalField::Decisions)),
        (
            "millstream_media_scheduling_ns",
            "Time spent in scheduler and dispatch without send calls, ns",
            region.get(GlobalField::SchedulingNs),
        ),
        (
            "millstream_media_sending_ns",
            "Time spent in the kernel's send calls, ns",
            region.get(GlobalField::SendingNs),
        ),
        (
            "millstream_media_send_errors",
            "Datagrams that the kernel refused to send",
            region.get(GlobalField::SendErrors),
        ),
        (
            "millstream_media_stalled",
            "Connections closed because the client read nothing for stall-timeout",
            sessions.stalled,
        ),
        ("millstream_media_processors", "Data planes started", region.get(GlobalField::Generation)),
        (
            "millstream_media_cluster_redirected",
            "Requests redirected to another server",
            sessions.moves.redirected,
        ),
        (
            "millstream_media_cluster_taken_in",
            "Sessions of dead servers taken over",
            sessions.moves.taken_in,
        ),
        (
            "millstream_media_cluster_yielded",
            "Sessions yielded to their first server",
            sessions.moves.yielded,
        ),
        (
            "millstream_media_cluster_unplaced",
            "Sessions of dead servers that no server took over in time",
            sessions.moves.unplaced,
        ),
        (
            "millstream_media_webrtc_key_frame_requests",
            "Requests of WebRTC viewers for a key frame",
            webrtc.key_frame_requests,
        ),
        (
            "millstream_media_webrtc_stray_datagrams",
            "Datagrams that belong to no WebRTC client",
            webrtc.stray_datagrams,
        ),
        (
            "millstream_media_webrtc_refused_offers",
            "Malformed, unacceptable and aborted WebRTC offers",
            webrtc.refused_offers,
        ),
    ];
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot {
        counted,
        reserved_bps: sessions.admission.reserved_bps,
        sessions: sessions.iter().count(),
        refused: sessions.refused,
        turned_away: sessions.turned_away,
        rejects: sessions.rejects.clone(),
        draining: sessions.draining,
        webrtc,
        members: sessions.moves.members,
        settings,
        instructions,
        recordings,
        hls: live.hls.status(),
        hooks,
        lateness,
        delays: sessions
            .totals()
            .into_iter()
            .map(|(title, of)| {
                let stream = live.name_of(&library.titles[title]).to_owned();
                (StreamLabels { stream }, of.delays)
            })
            .collect(),
        live: live
            .statuses()
            .map(|(live, who, of)| (StreamLabels { stream: live.name.clone() }, who.is_some(), of))
            .collect(),
    }));
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = encode(&mut text, &registry);
    text
}
