//! Validation of a live source: the token bucket and the permitted publishers.

mod srt;
pub(in crate::validate) mod udp;

use toml::Spanned;

use crate::error::Problem;
use crate::file::media::{AudioCodecName, CodecName};
use crate::file::{File, SourceTable};
use crate::scenario::Stream;
use crate::source::{Live, LiveAudio, LiveAudioCodec, LivePath, OnDemand, Source};
use crate::units::Duration;
use crate::validate::media::check_command;
use millstream_traffic::mpeg::Codec;

/// The range of `burst`, bytes.
const BURSTS: std::ops::RangeInclusive<u64> = 2_000..=16 << 20;

/// The smallest default burst, bytes.
const BURST: u64 = 32_000;

/// The default rate of audio, bits/s.
const AUDIO_RATE_BPS: u64 = 192_000;

/// The default wait of clients for a disconnected publisher, ns.
const WAIT_NS: u64 = 10_000_000_000;

/// The longest wait of clients for a disconnected publisher, ns.
const MAX_WAIT_NS: u64 = 86_400_000_000_000;

/// The default wait for a publisher on demand, and its default time without players, ns.
const ON_DEMAND_NS: u64 = 10_000_000_000;

/// The range of both, ns. A player needs time between DESCRIBE and SETUP.
const ON_DEMAND_TIMES_NS: std::ops::RangeInclusive<u64> = 1_000_000_000..=3_600_000_000_000;

/// The range of `paths`.
const PATHS: std::ops::RangeInclusive<u32> = 1..=256;

/// Validates `paths` of a live source. Returns the first of its paths.
fn path(keys: &SourceTable, problems: &mut Vec<Problem>) -> Option<LivePath> {
    let paths = keys.paths.as_ref()?;
    let count = *paths.get_ref();
    if !PATHS.contains(&count) {
        let help = format!("from {} to {} paths at once", PATHS.start(), PATHS.end());
        problems.push(Problem::new(paths.span(), format!("`paths` of {count}")).help(help));
    }
    Some(LivePath { stream: String::new(), number: 0, count: count.clamp(1, *PATHS.end()) })
}

/// Returns the streams of the paths of `stream`, which has the first; only itself without `paths`.
pub(in crate::validate) fn with_paths(stream: Stream) -> Vec<Stream> {
    let Source::Live(live) = &stream.source else { return vec![stream] };
    let Some(LivePath { count, .. }) = live.path else { return vec![stream] };
    let of = |number: u32| {
        let path = LivePath { stream: stream.name.clone(), number, count };
        let live = Live { path: Some(path), ..(**live).clone() };
        let name = format!("{}/{}", stream.name, number + 1);
        Stream { name, source: Source::Live(Box::new(live)), ..stream.clone() }
    };
    (0..count).map(of).collect()
}

/// Checks that the file can have streams with `paths`.
pub(in crate::validate) fn check_paths(file: &File, problems: &mut Vec<Problem>) {
    let has_paths = |source: &Source| matches!(source, Source::Live(live) if live.path.is_some());
    for stream in file.stream.iter().map(Spanned::get_ref) {
        let source = &stream.source;
        if !source.source.as_ref().is_some_and(has_paths) {
            continue;
        }
        let prefix = format!("{}/", stream.name.get_ref());
        let names = file.stream.iter().map(|other| &other.get_ref().name);
        if let Some(name) = names.into_iter().find(|name| name.get_ref().starts_with(&prefix)) {
            let message = format!("`{}` is a path of another stream", name.get_ref());
            let help =
                format!("`paths` of `{}` have the names {prefix}NAME", stream.name.get_ref());
            problems.push(Problem::new(name.span(), message).help(help));
        }
        if file.media.is_none() {
            let problem = Problem::new(source.span.clone(), "`paths` without [media]");
            problems.push(problem.help("`millstream serve` publishes them; add [media]"));
        }
        if !file.hop.is_empty() {
            let problem = Problem::new(source.span.clone(), "`paths` in a network");
            problems.push(problem.help("take [[hop]] or `paths` out"));
        }
    }
}

/// Validates the keys of a live source.
pub(super) fn live(keys: &SourceTable, stop_ns: u64, problems: &mut Vec<Problem>) -> Option<Live> {
    let rate_bps = keys.rate.as_ref()?.get_ref().0;
    let burst = match &keys.burst {
        None => (rate_bps / 16).clamp(BURST, *BURSTS.end()),
        Some(burst) => {
            let bytes = burst.get_ref().0;
            if !BURSTS.contains(&bytes) {
                let message = format!("a `burst` of {bytes} B");
                let help = format!(
                    "from {} to {} B; it must hold the largest frame",
                    BURSTS.start(),
                    BURSTS.end()
                );
                problems.push(Problem::new(burst.span(), message).help(help));
            }
            bytes
        }
    };
    let wait_ns = keys.wait.as_ref().map_or(WAIT_NS, |wait| wait.get_ref().0);
    if let Some(wait) = keys.wait.as_ref().filter(|_| wait_ns > MAX_WAIT_NS) {
        let message = format!("a `wait` of {wait_ns} ns");
        problems.push(Problem::new(wait.span(), message).help("at most a day, \"86400 s\""));
    }
    if let Some(names) = keys.publish.as_ref().filter(|names| names.get_ref().is_empty()) {
        problems.push(Problem::new(names.span(), "no user may publish").help(
            "names of `users` or `tokens`; without `publish`, any client on a loopback address",
        ));
    }
    if let Some(rate) = keys.audio_rate.as_ref().filter(|_| keys.audio.is_none()) {
        problems.push(
            Problem::new(rate.span(), "`audio-rate` without audio").help("add audio = \"aac\""),
        );
    }
    let audio = keys.audio.as_ref().map(|codec| LiveAudio {
        codec: match codec.get_ref() {
            AudioCodecName::Aac => LiveAudioCodec::Aac,
            AudioCodecName::Opus => LiveAudioCodec::Opus,
            AudioCodecName::Mpeg => LiveAudioCodec::Mpeg,
            AudioCodecName::Pcmu => LiveAudioCodec::Pcmu,
            AudioCodecName::Pcma => LiveAudioCodec::Pcma,
        },
        rate_bps: keys.audio_rate.as_ref().map_or(AUDIO_RATE_BPS, |rate| rate.get_ref().0),
    });
    Some(Live {
        rate_bps,
        burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX),
        codec: match keys.codec.as_ref().map(Spanned::get_ref) {
            Some(CodecName::Mpeg) => Codec::Mpeg,
            Some(CodecName::H265) => Codec::H265,
            Some(CodecName::Av1) => Codec::Av1,
            Some(CodecName::Vp8) => Codec::Vp8,
            Some(CodecName::Vp9) => Codec::Vp9,
            Some(CodecName::H264) | None => Codec::H264,
        },
        audio,
        record: record(keys, problems),
        publishers: keys.publish.as_ref().map(|names| names.get_ref().clone()),
        wait_ns,
        udp: udp::udp(keys, problems),
        srt: srt::srt(keys, problems),
        on_demand: on_demand(keys, problems),
        path: path(keys, problems),
        stop_ns,
    })
}

/// Validates the program that publishes the stream on demand, and its times.
fn on_demand(keys: &SourceTable, problems: &mut Vec<Problem>) -> Option<OnDemand> {
    let times =
        [("on-demand-start", &keys.on_demand_start), ("on-demand-close", &keys.on_demand_close)];
    let [start_ns, close_ns] = times.map(|(key, time)| {
        let Some(time) = time else { return ON_DEMAND_NS };
        let Duration(time_ns) = *time.get_ref();
        if keys.on_demand.is_none() {
            let message = format!("`{key}` without `on-demand`");
            let help = "on-demand = [\"ffmpeg\", …], a command that publishes the stream";
            problems.push(Problem::new(time.span(), message).help(help));
        } else if !ON_DEMAND_TIMES_NS.contains(&time_ns) {
            let message = format!("`{key}` of {time_ns} ns");
            problems.push(Problem::new(time.span(), message).help("from \"1 s\" to \"3600 s\""));
        }
        time_ns
    });
    let command = keys.on_demand.as_ref()?;
    check_command("on-demand", command, problems);
    Some(OnDemand { command: command.get_ref().clone(), start_ns, close_ns })
}

/// Returns whether the stream is recorded. Checks that MP4 has its codecs.
fn record(keys: &SourceTable, problems: &mut Vec<Problem>) -> bool {
    let Some(record) = keys.record.as_ref().filter(|record| *record.get_ref()) else {
        return false;
    };
    let codec = keys.codec.as_ref().map(Spanned::get_ref);
    if !matches!(codec, None | Some(CodecName::H264)) {
        let message = "`record` with video that recordings cannot hold";
        let help = "codec = \"h264\", or take `record` out";
        problems.push(Problem::new(record.span(), message).help(help));
    }
    let audio = keys.audio.as_ref().map(Spanned::get_ref);
    if !matches!(audio, None | Some(AudioCodecName::Aac | AudioCodecName::Opus)) {
        let message = "`record` with audio that recordings cannot hold";
        let help = "audio = \"aac\" or \"opus\", or take `record` or `audio` out";
        problems.push(Problem::new(record.span(), message).help(help));
    }
    true
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Scenario;
    use std::path::Path;

    pub(super) fn parse(source: &str) -> Result<Live, String> {
        let text = format!(
            "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"9 Mbit/s\"\n[scheduler]\ndiscipline \
             = \"fifo\"\n\
             [[stream]]\nname = \"a\"\nsource = {{ kind = \"live\", {source} }}\n"
        );
        match Scenario::parse("a.toml", &text, Path::new("")) {
            Ok(scenario) => match &scenario.streams[0].source {
                Source::Live(live) => Ok(live.as_ref().clone()),
                other => Err(format!("{other:?}")),
            },
            Err(error) => {
                let problems = error.problems.iter();
                let texts =
                    problems.map(|p| format!("{p}; {}", p.help.clone().unwrap_or_default()));
                Err(texts.collect())
            }
        }
    }

    #[test]
    fn rate_suffices_and_every_key_is_parsed() {
        let least = parse("rate = \"2 Mbit/s\"").unwrap();
        let expected = Live {
            rate_bps: 2_000_000,
            burst_bytes: 125_000,
            codec: Codec::H264,
            audio: None,
            publishers: None,
            record: false,
            wait_ns: WAIT_NS,
            udp: None,
            srt: None,
            on_demand: None,
            path: None,
            stop_ns: u64::MAX,
        };
        assert_eq!(least, expected);
        let most = parse(
            "rate = \"1 Mbit/s\", burst = \"60 KB\", codec = \"mpeg\", publish = [\"studio\"], \
             audio = \"opus\", audio-rate = \"64 kbit/s\", wait = \"2 s\", stop = \"1 s\", \
             on-demand = [\"a\", \"b\"], on-demand-start = \"3 s\", on-demand-close = \"4 s\"",
        );
        let expected = Live {
            rate_bps: 1_000_000,
            burst_bytes: 60_000,
            codec: Codec::Mpeg,
            audio: Some(LiveAudio { codec: LiveAudioCodec::Opus, rate_bps: 64_000 }),
            publishers: Some(vec!["studio".to_owned()]),
            record: false,
            wait_ns: 2_000_000_000,
            udp: None,
            srt: None,
            on_demand: Some(OnDemand {
                command: vec!["a".to_owned(), "b".to_owned()],
                start_ns: 3_000_000_000,
                close_ns: 4_000_000_000,
            }),
            path: None,
            stop_ns: 1_000_000_000,
        };
        assert_eq!(most, Ok(expected));
    }

    #[test]
    fn each_path_is_a_stream_of_its_own() {
        let text = "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"9 Mbit/s\"\n\
             [scheduler]\ndiscipline = \"fifo\"\n[media]\n\
             [[stream]]\nname = \"cam\"\n\
             source = { kind = \"live\", rate = \"1 Mbit/s\", paths = 2 }\n\
             [[stream]]\nname = \"b\"\nsource = { kind = \"live\", rate = \"1 Mbit/s\" }\n";
        let scenario = Scenario::parse("a.toml", text, Path::new("")).unwrap();
        let path = |stream: &Stream| match &stream.source {
            Source::Live(live) => live.path.clone(),
            other => panic!("{other:?}"),
        };
        let streams = scenario.streams.iter().map(|stream| (stream.name.as_str(), path(stream)));
        let of = |number| Some(LivePath { stream: "cam".to_owned(), number, count: 2 });
        let expected = [("cam/1", of(0)), ("cam/2", of(1)), ("b", None)];
        assert_eq!(streams.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        for (source, parts) in [
            ("codec = \"h264\"", ["lacks `rate`", "needs `rate`"]),
            ("rate = \"1 Mbit/s\", burst = \"100 B\"", ["`burst` of 100 B", "from 2000"]),
            ("rate = \"1 Mbit/s\", publish = []", ["no user", "users"]),
            ("rate = \"1 Mbit/s\", audio = \"ac3\"", ["ac3", "opus"]),
            ("rate = \"1 Mbit/s\", audio-rate = \"1 Mbit/s\"", ["without audio", "aac"]),
            ("rate = \"1 Mbit/s\", codec = \"mjpeg\"", ["mjpeg", "h264"]),
            ("rate = \"1 Mbit/s\", file = \"a\"", ["no `file`", "burst"]),
            ("rate = \"1 Mbit/s\", on-demand = []", ["no program", "on-demand = ["]),
            (
                "rate = \"1 Mbit/s\", on-demand-start = \"2 s\"",
                ["`on-demand-start` without", "on-demand = ["],
            ),
            (
                "rate = \"1 Mbit/s\", on-demand = [\"a\"], on-demand-close = \"0 s\"",
                ["`on-demand-close` of 0 ns", "from \"1 s\""],
            ),
            ("rate = \"1 Mbit/s\", paths = 0", ["`paths` of 0", "from 1 to 256"]),
            ("rate = \"1 Mbit/s\", paths = 257", ["`paths` of 257", "from 1 to 256"]),
            ("rate = \"1 Mbit/s\", paths = 2", ["`paths` without [media]", "add [media]"]),
            ("rate = \"1 Mbit/s\", record = true", ["`record` without", "size ="]),
            ("rate = \"1 Mbit/s\", record = true, codec = \"mpeg\"", ["video that", "h264"]),
            ("rate = \"1 Mbit/s\", record = true, audio = \"pcmu\"", ["audio that", "opus"]),
        ] {
            let error = parse(source).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
