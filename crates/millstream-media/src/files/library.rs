//! The library of streams: reads their files, cuts them into packets, and describes them in SDP.

use millstream::Late;
use millstream_scenario::{
    FramePath, Link, Live, LiveAudio, Scenario, Source, Stream, VideoInput, VideoPayloadFormat,
};
use millstream_traffic::mpeg::{AudioCodec, AudioTrack, Codec, CodedFrame, VideoPayload};
use std::borrow::Cow;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::PathBuf;

use crate::MediaError;
use crate::files::read_ahead::media_file;
use crate::live::policer::{AHEAD_NS, Allowance};
use crate::live::publishing::{AudioDescription, LiveSpec};
use crate::payload::parameter_sets::{ParameterSets, VideoParameters};
use crate::payload::{Format, mpeg_ts};
use crate::rtp::{CLOCK_RATE, RTP_HEADER};
use crate::rtsp::{RECORDINGS, REDIRECTED};
use crate::scheduler::Schedule;
use crate::scheduler::demand::{Demand, FrameDemand};
use crate::scheduler::optional_frames::Choice;
use crate::shared_memory::frame_cache::Shape as FrameCacheShape;
use crate::shared_memory::importance::Importance;
use crate::shared_memory::live_frames::Shape;
use crate::shared_memory::store::{
    MAX_QUEUE, MAX_WINDOW, MediaRecord, NewFrame, Store, StoreBuilder,
};

/// The default limit of a client's queue, frames.
const QUEUE: u32 = 64;

/// The time that a live frame stays in its ring after it can last be sent, ns.
///
/// It covers a data plane that is late, and a data plane that replaces another.
const LIVE_SLACK_NS: u64 = 2_000_000_000;

/// The time that sent frames stay in the frame cache, ns.
///
/// The host forwards them to interleaved clients during that time.
const BEHIND_NS: u64 = 250_000_000;

/// The least time between packets of live audio, ns. Opus frames can be this short.
const LIVE_AUDIO_SPACING_NS: u64 = 2_500_000;

/// The time at its rate for which live audio may send a burst, ms.
const LIVE_AUDIO_BURST_MS: u64 = 500;
/// The smallest burst of live audio, bytes on the link.
const MIN_LIVE_AUDIO_BURST: u32 = 6_000;

/// The number of looser windows besides a stream's own, at equal steps below total loss.
const LOOSER: u32 = 3;

/// A stream that clients may request, under one loss window, or a stream's audio.
#[derive(Clone, Debug)]
pub(crate) struct Title {
    /// The name in its URL: the stream's name, `clip/4/12` for a looser window than the stream's,
    /// or `clip/audio` for its audio.
    ///
    /// A path of a stream with several is `cam/*`: [`Publishing`](crate::live::publishing) has the
    /// name under which it is published.
    pub(crate) name: String,
    /// The name of its stream in the file.
    pub(crate) stream: String,
    /// The number of its path, from 0, if the stream has several.
    pub(crate) path: Option<u32>,
    /// Whether it is the audio of a stream.
    pub(crate) is_audio: bool,
    /// The title of its audio, if it is video with audio.
    pub(crate) audio: Option<usize>,
    /// The title with the stream's own window, if this one has a looser window.
    pub(crate) looser_than: Option<usize>,
    /// The loss window: x and y, of y frames at most x may be lost.
    pub(crate) window: (u32, u32),
    format: Format,
    /// The parameters of a file's video in SDP.
    parameters: Option<VideoParameters>,
    /// The rate of RTP timestamps in SDP, with the number of channels of audio.
    clock: String,
    /// The parameters of the payload format of audio in SDP.
    format_parameters: Option<String>,
    /// The mean rate of its mandatory frames on the link, bits/s.
    pub(crate) reserved_bps: u64,
    /// The mean rate of all its frames on the link, bits/s.
    pub(crate) mean_bps: u64,
    /// The demand bound of one client on the link.
    pub(crate) demand: Demand,
    /// The duration of one round, s, rounded down.
    seconds: u64,
    repeat: bool,
    /// The index among the live streams, if it is one.
    pub(crate) live: Option<usize>,
    /// Whether it is a place for a player of recordings.
    pub(crate) plays_recordings: bool,
}

/// All streams that the server offers, and their packets.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) titles: Vec<Title>,
    pub(crate) schedule: Schedule,
    pub(crate) file: File,
    pub(crate) store: Store,
    /// The live streams.
    pub(crate) live: Vec<LiveSpec>,
    /// For each place of a player of recordings: the recorded stream, and the index of its live
    /// stream.
    pub(crate) places: Vec<(String, usize)>,
    /// The media files with frames outside the store.
    pub(crate) media_files: MediaFiles,
}

/// The media files that are read ahead.
#[derive(Debug, Default)]
pub(crate) struct MediaFiles {
    /// The files, in the order of their numbers.
    pub(crate) files: Vec<File>,
    /// The largest number of frames that a session may have in the cache. `words` is their size.
    frames: u64,
    words: u64,
}

impl MediaFiles {
    /// Returns the shape of each session's place in the frame cache.
    pub(crate) fn shape(&self) -> FrameCacheShape {
        FrameCacheShape::new(self.frames, self.words)
    }

    /// Adds a media file of frames of `sizes` bytes; the cache holds `ahead` consecutive ones.
    fn add(&mut self, file: File, sizes: &[u32], ahead: u64) {
        let words: Vec<u64> = sizes.iter().map(|bytes| FrameCacheShape::words_of(*bytes)).collect();
        let frames = words.len() as u64;
        let rest = usize::try_from(ahead % frames.max(1)).unwrap_or(0);
        let all: u64 = words.iter().sum();
        let mut run: u64 = words[..rest].iter().sum();
        let mut most = run;
        for at in 0..words.len() {
            run = run + words[(at + rest) % words.len()] - words[at];
            most = most.max(run);
        }
        let largest = words.iter().copied().max().unwrap_or(0);
        let need = all.saturating_mul(ahead / frames.max(1)).saturating_add(most + largest);
        self.words = self.words.max(need);
        self.frames = self.frames.max(ahead + 1);
        self.files.push(file);
    }
}

impl Library {
    /// Reads every file of the scenario and builds the store.
    pub(crate) fn open(scenario: &Scenario) -> Result<Self, MediaError> {
        let schedule = schedule(scenario)?;
        let mut room = scenario.media.store_bytes;
        let mut builder = StoreBuilder::default();
        let mut titles = Vec::with_capacity(scenario.streams.len());
        let mut live = Vec::new();
        let mut media_files = MediaFiles::default();
        let mut places = Vec::new();
        for stream in &scenario.streams {
            let name = name_in_file(stream);
            check_name(name)?;
            check_paths(stream)?;
            let bytes = match &stream.source {
                Source::Live(source) => {
                    let mut add = |stream: &Stream, source: &Live, room| {
                        add_live(
                            scenario,
                            stream,
                            source,
                            room,
                            &mut builder,
                            &mut titles,
                            &mut live,
                        )
                    };
                    let mut bytes = add(stream, source, room)?;
                    let recording = scenario.media.recording.as_ref().filter(|_| source.record);
                    // The paths of a stream share its places.
                    let recording = recording.filter(|_| number_of_path(source) == 0);
                    for number in 0..recording.map_or(0, |recording| recording.players) {
                        let source = Live {
                            publishers: Some(Vec::new()),
                            udp: None,
                            srt: None,
                            on_demand: None,
                            path: None,
                            ..(**source).clone()
                        };
                        let place = place_of_recordings(stream, &source, number);
                        bytes += add(&place, &source, room.saturating_sub(bytes))?;
                        places.push(name.to_owned());
                    }
                    bytes
                }
                _ => add(scenario, stream, room, &mut builder, &mut titles, &mut media_files)?,
            };
            room = room.saturating_sub(bytes);
        }
        let sessions = scenario.media.sessions;
        let frame_cache = media_files.shape().bytes(sessions);
        if !media_files.files.is_empty() && frame_cache > room {
            let message = format!(
                "read-ahead for {sessions} sessions needs {frame_cache} bytes of memory; \
                 {room} are available"
            );
            return Err(MediaError::new(message)
                .help("increase `store` in [media], or reduce `sessions` or `read-ahead`"));
        }
        let failed = |error| MediaError::new(format!("memory for the media files: {error}"));
        let file = builder.seal().map_err(failed)?;
        let store = Store::open(&file).map_err(failed)?;
        let of_place = live.iter().enumerate();
        let of_place = of_place
            .filter(|(_, spec): &(_, &LiveSpec)| spec.plays_recordings && spec.audio.is_none());
        let places = places.into_iter().zip(of_place.map(|(at, _)| at)).collect();
        Ok(Self { titles, schedule, file, store, live, places, media_files })
    }
}

/// Returns the scheduling discipline, or an error if the scenario's cannot serve media.
fn schedule(scenario: &Scenario) -> Result<Schedule, MediaError> {
    if scenario.fabric.is_some() || !scenario.classes.is_empty() || scenario.hardware {
        return Err(MediaError::new(
            "the media server schedules one link, without fabric, classes or hardware",
        )
        .help("remove [fabric], [[class]] and structure = \"rtl\""));
    }
    let name = scenario.scheduler.discipline.name;
    let order = scenario.scheduler.options.order;
    match name {
        "dwcs" if order == millstream::catalogue::DwcsOrder::EdfFirst => Ok(Schedule::Dwcs),
        "edf" => Ok(Schedule::Edf),
        "fifo" => Ok(Schedule::Fifo),
        _ => Err(MediaError::new(format!(
            "the media server does not support discipline `{name}` as configured"
        ))
        .help("discipline = \"dwcs\" with order = \"edf-first\", \"edf\" or \"fifo\"")),
    }
}

/// Adds a stream's file under its own window and looser ones. Returns the file's bytes in memory.
fn add(
    scenario: &Scenario,
    stream: &Stream,
    room: usize,
    builder: &mut StoreBuilder,
    titles: &mut Vec<Title>,
    media_files: &mut MediaFiles,
) -> Result<usize, MediaError> {
    let name = &stream.name;
    let wrong = |message: &str| MediaError::new(format!("stream `{name}`: {message}"));
    let Source::Mpeg { input: VideoInput::File { file, repeat, payload }, frames, .. } =
        &stream.source
    else {
        return Err(wrong("only video files and live streams are served").help(
            "source = { kind = \"mpeg\", file = \"clip.mpg\", repeat = true }, or \
             { kind = \"live\", rate = \"2 Mbit/s\" }",
        ));
    };
    if !['I', 'P', 'B'].iter().all(|kind| frames.contains(*kind)) {
        return Err(wrong("all frame types must be served").help("remove `frames`"));
    }
    let (lost, of) = window(stream)?;
    let path = scenario.folder.join(file);
    let in_memory = scenario.media.frame_path == FramePath::Host;
    let video = if in_memory {
        VideoPayload::open(&path, room)
    } else {
        VideoPayload::unpack(&path, &frame_folder(scenario))
    };
    let video = video.map_err(|error| wrong(&error.to_string()))?;
    let frame_ns = u64::try_from(video.rate.time_ns(1)).unwrap_or(u64::MAX).max(1);
    let period_ns = stream.period_ns.unwrap_or(frame_ns);
    if period_ns.abs_diff(frame_ns) > frame_ns / 100 {
        return Err(wrong(&format!("a period of {period_ns} ns does not match the file"))
            .help(format!("the file has a frame every {frame_ns} ns")));
    }
    let deadline_ns = stream.contract.terms().first_deadline_ns.unwrap_or(frame_ns);
    let Packed { format, bytes, frames } =
        packed(&video, *payload, deadline_ns, scenario.media.packet_bytes, room)
            .map_err(|why| wrong(&why))?;
    let mut new = Vec::with_capacity(video.frames.len());
    for (frame, (range, display)) in video.frames.iter().zip(frames) {
        let pieces = format.cut(&bytes[range.clone()], scenario.media.packet_bytes);
        if pieces.is_empty() {
            return Err(wrong(&format!("frame {} is empty", new.len())).help("the file is damaged"));
        }
        let importance = Importance::of(frame.kind, frame.reference);
        new.push(NewFrame { importance, display, range, pieces });
    }
    let mut record = MediaRecord {
        rate_frames: video.rate.frames,
        rate_seconds: video.rate.seconds,
        repeat: u32::from(*repeat),
        ..record(stream, (frame_ns, deadline_ns), (lost, of), format, titles)
    };
    let mut memory = bytes.len();
    if !in_memory {
        let unpacked = video.bytes.file().filter(|_| matches!(bytes, Cow::Borrowed(_)));
        let found = media_file::open_video(&path, &bytes, unpacked, &frame_folder(scenario));
        found
            .map(|found| register_for_read_ahead(scenario, found, &new, &mut record, media_files))
            .map_err(|error| wrong(&error.to_string()))?;
        memory = 0;
    }
    builder.add(record, &new, &bytes);
    let duration_ns = u128::from(frame_ns) * new.len() as u128;
    let work = |frame: &NewFrame| FrameDemand {
        work_ns: packets(frame).map(|bytes| scenario.link.transmission_ns(bytes)).sum(),
        importance: frame.importance,
    };
    let media_file: Vec<FrameDemand> = new.iter().map(work).collect();
    let own = titles.len();
    let track = match payload {
        // A transport stream has video only.
        VideoPayloadFormat::MpegTs => None,
        VideoPayloadFormat::Elementary => AudioTrack::open(&path, room.saturating_sub(memory))
            .map_err(|error| wrong(&error.to_string()))?,
    };
    let audio = track.as_ref().map(|_| own + 1 + looser((lost, of)).count());
    for window in std::iter::once((lost, of)).chain(looser((lost, of))) {
        let [reserved_bps, mean_bps] = rates(&new, window, scenario.link, duration_ns);
        let looser_than = (titles.len() > own).then_some(own);
        if looser_than.is_some() {
            builder.add_window(own, window.0);
        }
        titles.push(Title {
            name: match looser_than {
                None => name.clone(),
                Some(_) => format!("{name}/{}/{}", window.0, window.1),
            },
            stream: name.clone(),
            path: None,
            is_audio: false,
            audio,
            looser_than,
            window,
            format,
            parameters: parameters(&video).filter(|_| format == Format::of(video.codec)),
            clock: CLOCK_RATE.to_string(),
            format_parameters: None,
            reserved_bps,
            mean_bps,
            demand: Demand::new(&media_file, window, *repeat, frame_ns, record.deadline_ns),
            seconds: u64::try_from(duration_ns / 1_000_000_000).unwrap_or(0),
            repeat: *repeat,
            live: None,
            plays_recordings: false,
        });
    }
    if let Some(track) = track {
        memory += track.bytes.len();
        let round_ns = u64::try_from(duration_ns).unwrap_or(u64::MAX);
        let record = MediaRecord { round_ns: if *repeat { round_ns } else { 0 }, ..record };
        add_audio(scenario, own, record, track, builder, titles).map_err(|why| wrong(&why))?;
    }
    Ok(memory)
}

/// Adds the audio of a stream; `video` is the record of its video, with the duration of a round.
///
/// No frame of audio may be lost, and its deadline is that of the video.
fn add_audio(
    scenario: &Scenario,
    video_title: usize,
    video: MediaRecord,
    track: AudioTrack,
    builder: &mut StoreBuilder,
    titles: &mut Vec<Title>,
) -> Result<(), String> {
    let AudioTrack { codec, header, offset_ns, mut frames, bytes } = track;
    let format = Format::of_audio(codec);
    let (samples, rate) = (u64::from(header.samples), u64::from(header.sample_rate));
    let period_ns = (samples * 1_000_000_000 + rate / 2) / rate;
    if video.repeat != 0 {
        // The frames of the next round must not be due before the last ones of this round.
        frames.truncate(usize::try_from(video.round_ns / period_ns).unwrap_or(usize::MAX));
    }
    let mut new = Vec::with_capacity(frames.len());
    for (range, display) in frames.into_iter().zip(0..) {
        let pieces = format.cut(&bytes[range.clone()], scenario.media.packet_bytes);
        if pieces.is_empty() {
            return Err(format!("audio frame {display} has {} bytes, too many", range.len()));
        }
        new.push(NewFrame { importance: Importance::I, display, range, pieces });
    }
    if new.is_empty() {
        return Err("the video is shorter than one frame of its audio".to_owned());
    }
    let clock_rate = match codec {
        AudioCodec::Aac => header.sample_rate,
        AudioCodec::Mpeg => u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX),
    };
    let record = MediaRecord {
        period_ns,
        offset_ns,
        lost: 0,
        of: 1,
        payload_type: format.payload_type().into(),
        clock_rate,
        audio: 1,
        rate_frames: header.sample_rate,
        rate_seconds: header.samples,
        media_file: 0,
        first_byte: 0,
        ahead: 0,
        behind: 0,
        ..video
    };
    builder.add(record, &new, &bytes);
    let repeat = record.repeat != 0;
    let duration_ns = u128::from(period_ns) * new.len() as u128;
    let [reserved_bps, mean_bps] = rates(&new, (0, 1), scenario.link, duration_ns);
    let work = |frame: &NewFrame| FrameDemand {
        work_ns: packets(frame).map(|bytes| scenario.link.transmission_ns(bytes)).sum(),
        importance: frame.importance,
    };
    let works: Vec<FrameDemand> = new.iter().map(work).collect();
    let demand = Demand::new(&works, (0, 1), repeat, period_ns, record.deadline_ns).served_first();
    let (clock, format_parameters) = match codec {
        AudioCodec::Aac => {
            let parameters = format!(
                "streamtype=5;profile-level-id=1;mode=AAC-hbr;config={:04x};sizelength=13;\
                 indexlength=3;indexdeltalength=3",
                header.config
            );
            (format!("{clock_rate}/{}", header.channels), Some(parameters))
        }
        AudioCodec::Mpeg => (clock_rate.to_string(), None),
    };
    titles.push(Title {
        clock,
        format_parameters,
        reserved_bps,
        mean_bps,
        repeat,
        ..Title::of_audio(&titles[video_title], format, demand)
    });
    Ok(())
}

/// Returns the directory for unpacked copies of media files that cannot be read in place.
fn frame_folder(scenario: &Scenario) -> PathBuf {
    let folder = scenario.media.frame_folder.as_ref();
    folder.map_or_else(std::env::temp_dir, |folder| scenario.folder.join(folder))
}

/// Registers `file` for read-ahead; its video begins at byte `first_byte`.
///
/// Sets the fields of the media file's record that the frame cache needs.
fn register_for_read_ahead(
    scenario: &Scenario,
    (file, first_byte): (File, u64),
    frames: &[NewFrame],
    record: &mut MediaRecord,
    media_files: &mut MediaFiles,
) {
    let frames_in = |time_ns: u64| time_ns.div_ceil(record.period_ns.max(1));
    let behind = frames_in(BEHIND_NS) + 1;
    // A frame waits for up to its deadline; the configured read-ahead is added to that.
    let ahead = behind + frames_in(record.deadline_ns) + frames_in(scenario.media.read_ahead_ns);
    let sizes: Vec<u32> =
        frames.iter().map(|frame| u32::try_from(frame.range.len()).unwrap_or(u32::MAX)).collect();
    media_files.add(file, &sizes, ahead);
    record.first_byte = first_byte;
    record.media_file = u32::try_from(media_files.files.len()).unwrap_or(u32::MAX);
    record.behind = u32::try_from(behind).unwrap_or(u32::MAX);
    record.ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
}

/// Returns the name of a stream, or of the stream of a path, in the file.
fn name_in_file(stream: &Stream) -> &str {
    match &stream.source {
        Source::Live(live) => live.path.as_ref().map_or(&stream.name, |path| &path.stream),
        _ => &stream.name,
    }
}

/// Returns the name in the scenario file of the stream to which `stream` belongs. A path belongs to
/// its stream, and recordings belong to the stream that was recorded.
fn stream_of(stream: &Stream) -> &str {
    let name = name_in_file(stream);
    name.strip_prefix(RECORDINGS).and_then(|place| place.split('/').next()).unwrap_or(name)
}

/// Returns the number of a live stream's path, from 0.
fn number_of_path(live: &Live) -> u32 {
    live.path.as_ref().map_or(0, |path| path.number)
}

/// Returns the names of the scenario's streams in file order.
pub(crate) fn stream_names(scenario: &Scenario) -> Vec<&str> {
    let first = |stream: &&Stream| match &stream.source {
        Source::Live(live) => number_of_path(live) == 0,
        _ => true,
    };
    scenario.streams.iter().filter(first).map(name_in_file).collect()
}

/// Returns whether a name can be part of a URL and of a file's path.
pub(crate) fn is_name(name: &str) -> bool {
    let fit = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.chars().all(fit) && !name.starts_with('.')
}

/// Checks that a stream's name can be part of a URL.
fn check_name(name: &str) -> Result<(), MediaError> {
    if is_name(name) {
        return Ok(());
    }
    Err(MediaError::new(format!("stream `{name}`: its name must be valid in a URL"))
        .help("letters, digits, - _ and ."))
}

/// Checks that the names of a stream's paths are not those of other URLs.
fn check_paths(stream: &Stream) -> Result<(), MediaError> {
    let name = name_in_file(stream);
    let is_prefix =
        [RECORDINGS, REDIRECTED].iter().any(|prefix| prefix.trim_end_matches('/') == name);
    if stream.name == name || !is_prefix {
        return Ok(());
    }
    let message = format!("stream `{name}`: {name}/NAME is no path of a stream");
    Err(MediaError::new(message).help("another name for the stream, or take `paths` out"))
}

/// Returns x and y of a stream's loss window.
///
/// Fails if late frames are not dropped, or if the window is too long.
fn window(stream: &Stream) -> Result<(u32, u32), MediaError> {
    let wrong = |message: &str| MediaError::new(format!("stream `{}`: {message}", stream.name));
    if stream.contract.terms().late != Late::Drop {
        return Err(wrong("late frames must be dropped whole").help("late = \"drop\""));
    }
    let (lost, of) = stream.window;
    if of > MAX_WINDOW {
        return Err(wrong(&format!("a window of {of} frames is too long"))
            .help(format!("the limit is {MAX_WINDOW} frames")));
    }
    Ok((lost, of))
}

/// Returns the stream of a place for a player of recordings.
fn place_of_recordings(stream: &Stream, source: &Live, number: u32) -> Stream {
    Stream {
        name: format!("{RECORDINGS}{}/{}", name_in_file(stream), number + 1),
        source: Source::Live(Box::new(source.clone())),
        ..stream.clone()
    }
}

/// Returns a record for the stream after those of `titles`: repeated, and without frames of a file.
fn record(
    stream: &Stream,
    (period_ns, deadline_ns): (u64, u64),
    (lost, of): (u32, u32),
    format: Format,
    titles: &[Title],
) -> MediaRecord {
    // Instructions see the paths of a stream, and its recordings, as that stream.
    let of_stream = stream_of(stream);
    let before = titles.iter().filter(|title| title.is_stream());
    let before = before.take_while(|title| title.stream != of_stream).count();
    MediaRecord {
        period_ns,
        deadline_ns,
        first_frame: 0,
        frames: 0,
        offset_ns: 0,
        round_ns: 0,
        first_byte: 0,
        lost,
        of,
        queue: queue(stream),
        payload_type: format.payload_type().into(),
        clock_rate: u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX),
        audio: 0,
        rate_frames: 1,
        rate_seconds: 1,
        repeat: 1,
        stream: u32::try_from(before).unwrap_or(u32::MAX),
        media_file: 0,
        live: 0,
        ahead: 0,
        behind: 0,
    }
}

/// Returns the frames that wait for a client of a stream at most.
fn queue(stream: &Stream) -> u32 {
    stream.contract.queue_limit().unwrap_or(QUEUE).min(MAX_QUEUE)
}

/// Adds a live stream. Returns the bytes of its ring.
///
/// Its optional frames are not known in advance. So the full rate that it may send is reserved, and
/// a looser window would reserve as much.
fn add_live(
    scenario: &Scenario,
    stream: &Stream,
    source: &Live,
    room: usize,
    builder: &mut StoreBuilder,
    titles: &mut Vec<Title>,
    live: &mut Vec<LiveSpec>,
) -> Result<usize, MediaError> {
    let wrong = |message: &str| MediaError::new(format!("stream `{}`: {message}", stream.name));
    let window = window(stream)?;
    let Some(period_ns) = stream.period_ns.filter(|period_ns| *period_ns > 0) else {
        return Err(wrong("a live stream needs a period").help("period = \"40 ms\""));
    };
    let deadline_ns = stream.contract.terms().first_deadline_ns.unwrap_or(period_ns);
    let Live { rate_bps, burst_bytes, codec, audio, ref publishers, wait_ns, .. } = *source;
    let allowance = Allowance::new(period_ns, rate_bps, burst_bytes, scenario.link);
    let allowance = allowance.queued(queue(stream));
    let ahead_ns = AHEAD_NS.saturating_add(allowance.early_ns);
    let kept_ns = deadline_ns.saturating_add(ahead_ns).saturating_add(LIVE_SLACK_NS);
    let shape = Shape::new(allowance.spacing_ns, rate_bps, burst_bytes, kept_ns);
    if shape.bytes() > room {
        let message =
            format!("its ring needs {} bytes of memory; {room} are available", shape.bytes());
        return Err(wrong(&message).help("increase `store` in [media] or reduce `rate`"));
    }
    let format = Format::of(codec);
    let plays_recordings = stream.name.starts_with(RECORDINGS);
    let of = stream_of(stream);
    let path = source.path.as_ref().map(|path| path.number);
    let name = if path.is_some() { format!("{of}/*") } else { stream.name.clone() };
    live.push(LiveSpec {
        name: name.clone(),
        stream: of.to_owned(),
        path,
        title: titles.len(),
        codec,
        audio: None,
        allowance,
        burst_bytes,
        link: scenario.link,
        packet_bytes: scenario.media.packet_bytes,
        publishers: publishers.clone(),
        record: source.record && !plays_recordings,
        plays_recordings,
        wait_ns,
        udp: source.udp.clone(),
        srt: source.srt.clone(),
        on_demand: source.on_demand.clone(),
        shape,
    });
    let record = MediaRecord {
        live: u32::try_from(live.len()).unwrap_or(u32::MAX),
        ..record(stream, (period_ns, deadline_ns), window, format, titles)
    };
    builder.add(record, &[], &[]);
    titles.push(Title {
        name,
        stream: of.to_owned(),
        path,
        is_audio: false,
        audio: None,
        looser_than: None,
        window,
        format,
        parameters: None,
        clock: CLOCK_RATE.to_string(),
        format_parameters: None,
        reserved_bps: rate_bps,
        mean_bps: rate_bps,
        demand: allowance.demand(deadline_ns),
        seconds: 0,
        repeat: true,
        live: Some(live.len() - 1),
        plays_recordings,
    });
    let Some(audio) = audio else { return Ok(shape.bytes()) };
    let room = room - shape.bytes();
    let bytes = add_live_audio(scenario, audio, record, room, builder, titles, live);
    bytes.map(|bytes| shape.bytes() + bytes).map_err(|message| {
        wrong(&message).help("increase `store` in [media] or reduce `audio-rate`")
    })
}

/// Adds the audio of the last live stream; `video` is the record of its video. Returns the size of
/// the audio's ring, bytes.
fn add_live_audio(
    scenario: &Scenario,
    LiveAudio { codec, rate_bps }: LiveAudio,
    video: MediaRecord,
    room: usize,
    builder: &mut StoreBuilder,
    titles: &mut Vec<Title>,
    live: &mut Vec<LiveSpec>,
) -> Result<usize, String> {
    let stream = live.len() - 1;
    let spec = live[stream].clone();
    let burst = rate_bps * LIVE_AUDIO_BURST_MS / 8_000;
    let burst_bytes = u32::try_from(burst).unwrap_or(u32::MAX).max(MIN_LIVE_AUDIO_BURST);
    let allowance = Allowance::new(LIVE_AUDIO_SPACING_NS, rate_bps, burst_bytes, scenario.link);
    let allowance = allowance.queued(video.queue);
    let ahead_ns = AHEAD_NS.saturating_add(allowance.early_ns);
    let kept_ns = video.deadline_ns.saturating_add(ahead_ns).saturating_add(LIVE_SLACK_NS);
    let shape = Shape::new(allowance.spacing_ns, rate_bps, burst_bytes, kept_ns);
    if shape.bytes() > room {
        let bytes = shape.bytes();
        return Err(format!("the ring of its audio needs {bytes} bytes; {room} are available"));
    }
    let format = Format::of_live_audio(codec);
    titles[spec.title].audio = Some(titles.len());
    let demand = allowance.demand(video.deadline_ns).served_first();
    let new = Title::of_audio(&titles[spec.title], format, demand);
    let (title, audio, name) = (titles.len(), Some((format, stream)), new.name.clone());
    let new_spec = LiveSpec { name, title, audio, allowance, burst_bytes, shape, ..spec };
    live.push(LiveSpec { on_demand: None, udp: None, srt: None, ..new_spec });
    let record = MediaRecord {
        period_ns: LIVE_AUDIO_SPACING_NS,
        lost: 0,
        of: 1,
        payload_type: format.payload_type().into(),
        audio: 1,
        live: u32::try_from(live.len()).unwrap_or(u32::MAX),
        ..video
    };
    builder.add(record, &[], &[]);
    titles.push(Title {
        reserved_bps: rate_bps,
        mean_bps: rate_bps,
        repeat: true,
        live: Some(live.len() - 1),
        ..new
    });
    Ok(shape.bytes())
}

/// Returns the looser windows of `of` frames, the strictest first; none allows to lose all frames.
fn looser((lost, of): (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    let more = u64::from(of.saturating_sub(lost));
    let steps = (1..=LOOSER).map(move |step| more * u64::from(step) / u64::from(LOOSER + 1));
    let mut last = 0;
    let steps = steps.filter(move |more| std::mem::replace(&mut last, *more) < *more);
    steps.map(move |more| (lost + u32::try_from(more).unwrap_or(0), of))
}

/// A media file in the form that its packets carry.
struct Packed<'a> {
    format: Format,
    bytes: Cow<'a, [u8]>,
    /// The range of bytes of each frame, and its position in display order.
    frames: Vec<(Range<usize>, u32)>,
}

/// Returns the media file's video as it is, or wrapped in an MPEG transport stream.
fn packed(
    video: &VideoPayload,
    carrier: VideoPayloadFormat,
    deadline_ns: u64,
    packet_bytes: usize,
    room: usize,
) -> Result<Packed<'_>, String> {
    match carrier {
        VideoPayloadFormat::Elementary if video.codec == Codec::Av1 => {
            let (mut bytes, mut frames) = (Vec::new(), Vec::with_capacity(video.frames.len()));
            for frame in &video.frames {
                let start = bytes.len();
                bytes.extend_from_slice(&Format::Av1.prepare(video.frame(frame), packet_bytes));
                if bytes.len() > room {
                    return Err(format!("more than {room} bytes of packets"));
                }
                frames.push((start..bytes.len(), frame.display));
            }
            Ok(Packed { format: Format::Av1, bytes: Cow::Owned(bytes), frames })
        }
        VideoPayloadFormat::Elementary => {
            let range = |frame: &CodedFrame| frame.start..frame.start + frame.bytes as usize;
            let frames = video.frames.iter().map(|frame| (range(frame), frame.display)).collect();
            let bytes = Cow::Borrowed(&video.bytes[..]);
            Ok(Packed { format: Format::of(video.codec), bytes, frames })
        }
        VideoPayloadFormat::MpegTs => {
            let least = RTP_HEADER + mpeg_ts::PACKET;
            if packet_bytes < least {
                return Err(format!(
                    "`packet-bytes` of {packet_bytes} B is too small for a transport packet; the \
                     minimum is {least} B"
                ));
            }
            let wrapped = mpeg_ts::wrap(video, deadline_ns, room)?;
            let frames = wrapped.frames.into_iter().zip(0..).collect();
            Ok(Packed { format: Format::MpegTs, bytes: Cow::Owned(wrapped.bytes), frames })
        }
    }
}

/// Returns the lengths of a frame's RTP packets, bytes.
fn packets(frame: &NewFrame) -> impl Iterator<Item = u32> {
    frame.pieces.iter().map(|piece| {
        let bytes = RTP_HEADER + usize::from(piece.header_bytes) + piece.range.len();
        u32::try_from(bytes).unwrap_or(u32::MAX)
    })
}

/// Returns the mean rates on the link of the mandatory frames and of all frames, bits/s.
fn rates(frames: &[NewFrame], window: (u32, u32), link: Link, duration_ns: u128) -> [u64; 2] {
    let mut choice = Choice::new(window.0, window.1);
    let importance = |number: u64| {
        usize::try_from(number % frames.len() as u64)
            .map_or(Importance::I, |n| frames[n].importance)
    };
    let (mut mandatory, mut all) = (0u128, 0u128);
    for (number, frame) in (0..).zip(frames) {
        let bytes = packets(frame).map(|bytes| link.wire().wire_bytes(bytes));
        let bits = u128::from(bytes.sum::<u64>()) * 8;
        all += bits;
        if !choice.is_optional(number, importance) {
            mandatory += bits;
        }
    }
    [mandatory, all].map(|bits| {
        u64::try_from((bits * 1_000_000_000).div_ceil(duration_ns.max(1))).unwrap_or(u64::MAX)
    })
}

/// Returns the parameters of a file's video for SDP, from its first frame.
fn parameters(video: &VideoPayload) -> Option<VideoParameters> {
    let mut sets = ParameterSets::new(video.codec);
    sets.store_from(video.frame(video.frames.first()?));
    sets.parameters()
}

impl Library {
    /// Returns the demand bound of every title.
    pub(crate) fn demands(&self) -> Vec<&Demand> {
        self.titles.iter().map(|title| &title.demand).collect()
    }

    /// Returns whether two titles are the video and the audio of one stream.
    pub(crate) fn is_pair(&self, one: usize, other: usize) -> bool {
        self.titles[one].audio == Some(other) || self.titles[other].audio == Some(one)
    }

    /// Returns the number of rows for `sessions` clients: audio has rows of its own.
    pub(crate) fn rows(&self, sessions: u32) -> u32 {
        let tracks = 1 + u32::from(self.titles.iter().any(|title| title.is_audio));
        sessions.saturating_mul(tracks)
    }
}

impl Title {
    /// Returns the audio of a stream with this video, without rates: no frame may be lost.
    fn of_audio(video: &Self, format: Format, demand: Demand) -> Self {
        Self {
            name: format!("{}/audio", video.name),
            stream: video.stream.clone(),
            path: video.path,
            is_audio: true,
            audio: None,
            looser_than: None,
            window: (0, 1),
            format,
            parameters: None,
            clock: String::new(),
            format_parameters: None,
            reserved_bps: 0,
            mean_bps: 0,
            demand,
            seconds: 0,
            repeat: false,
            live: None,
            plays_recordings: false,
        }
    }

    /// Returns the payload format.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns the parameters of a file's video in SDP.
    pub(crate) fn parameters(&self) -> Option<&VideoParameters> {
        self.parameters.as_ref()
    }

    /// Returns whether it is a stream of the file under the stream's own window, or the first path
    /// of one.
    pub(crate) fn is_stream(&self) -> bool {
        self.looser_than.is_none() && !self.is_audio && self.is_shown()
    }

    /// Returns whether admission is shown for it. A place for a player of recordings needs what
    /// its stream does, and a path what the first one does.
    pub(crate) fn is_shown(&self) -> bool {
        !self.plays_recordings && self.path.is_none_or(|number| number == 0)
    }

    /// Returns the SDP description (RFC 8866) for a client of the server at `address`.
    ///
    /// `name` is its name now. `published` holds the parameters of a live stream's video. `audio`
    /// is the title of its audio, with the publisher's description of live audio.
    pub(crate) fn sdp(
        &self,
        name: &str,
        address: IpAddr,
        published: Option<VideoParameters>,
        audio: Option<(&Self, Option<&AudioDescription>)>,
    ) -> Vec<u8> {
        let any = match address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let range = if self.live.is_some() {
            "npt=now-".to_owned()
        } else if self.repeat {
            "npt=0-".to_owned()
        } else {
            format!("npt=0-{}", self.seconds)
        };
        let session = sdp_types::Session {
            origin: sdp_types::Origin::with_ip_addr("0", 0, address),
            session_name: name.to_owned(),
            session_description: None,
            uri: None,
            emails: Vec::new(),
            phones: Vec::new(),
            connection: Some(sdp_types::Connection::from_ip_addr(any)),
            bandwidths: Vec::new(),
            times: vec![sdp_types::Time { start_time: 0, stop_time: 0, repeats: Vec::new() }],
            time_zones: Vec::new(),
            key: None,
            attributes: vec![attribute("control", "*".to_owned()), attribute("range", range)],
            medias: std::iter::once(self.sdp_media(published, None))
                .chain(audio.map(|(audio, described)| audio.sdp_media(None, described)))
                .collect(),
        };
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = session.write(&mut text);
        text
    }

    /// Returns its media description; `described` is that of live audio.
    fn sdp_media(
        &self,
        published: Option<VideoParameters>,
        described: Option<&AudioDescription>,
    ) -> sdp_types::Media {
        let (clock, parameters) = match described {
            Some(AudioDescription { clock, parameters }) => (clock, parameters),
            None => (&self.clock, &self.format_parameters),
        };
        let media = if self.is_audio { "audio" } else { "video" };
        let (payload, encoding) = (self.format.payload_type(), self.format.encoding());
        let mut attributes = vec![attribute("rtpmap", format!("{payload} {encoding}/{clock}"))];
        let video = published.as_ref().or(self.parameters.as_ref());
        let mode = (self.format == Format::H264).then_some("packetization-mode=1");
        let video = mode.into_iter().chain(video.map(|video| video.text.as_str()));
        let video: Vec<&str> = video.collect();
        if !video.is_empty() {
            attributes.push(attribute("fmtp", format!("{payload} {}", video.join(";"))));
        }
        if let Some(parameters) = parameters {
            attributes.push(attribute("fmtp", format!("{payload} {parameters}")));
        }
        attributes.push(attribute("control", media.to_owned()));
        sdp_types::Media {
            media: media.to_owned(),
            port: 0,
            num_ports: None,
            proto: "RTP/AVP".to_owned(),
            fmt: payload.to_string(),
            media_title: None,
            connections: Vec::new(),
            bandwidths: vec![sdp_types::Bandwidth {
                bwtype: "AS".to_owned(),
                bandwidth: self.mean_bps.div_ceil(1_000),
            }],
            key: None,
            attributes,
        }
    }
}

/// Returns an attribute of SDP.
fn attribute(name: &str, value: String) -> sdp_types::Attribute {
    sdp_types::Attribute { attribute: name.to_owned(), value: Some(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looser_windows_allow_more_losses_but_not_all_frames() {
        let windows = |window| looser(window).map(|(lost, _)| lost).collect::<Vec<_>>();
        assert_eq!(windows((2, 12)), [4, 7, 9]);
        assert_eq!(windows((0, 4)), [1, 2, 3]);
        assert_eq!(windows((1, 3)), [2]);
        for none in [(0, 0), (0, 1), (3, 3), (2, 3)] {
            assert!(windows(none).is_empty(), "{none:?}");
        }
    }
}
