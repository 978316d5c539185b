//! Publishers by RTMP (Adobe RTMP 1.0), as OBS and ffmpeg send it: H.264 and AAC.
//!
//! ```text
//! connection ── bytes ──> rtmp_runtime: handshake, chunks, commands ── FLV tags ──> tags ── frames
//!                                                                                            │
//! players <── ring <── ingest: packetize, police, release <──────────────────────────────────┘
//! ```
//! `rtmp_runtime` does no input or output and bounds its buffers. A publisher is one of the live
//! stream that application and stream key name together: `rtmp://HOST/cam/front` publishes
//! `cam/front`. It publishes from its first picture on, since the configurations of both tracks
//! come before it.

mod tags;

use h264_reader::avcc::AvcDecoderConfigurationRecord;
use millstream_traffic::mpeg::{AudioFormat, Codec};
use rtmp_runtime::amf0::{Amf0Value, Command};
use rtmp_runtime::chunk::{ChunkWriter, Message};
use rtmp_runtime::message::msg_type;
use rtmp_runtime::server::{ServerConfig, ServerEvent, ServerSession};
use rtsp_types::{Method, Request, Url, Version};

use self::tags::{Tag, annex_b, tags};
use crate::live::publishing::{Track, described};
use crate::payload::Format;
use crate::rtp::{CLOCK_RATE, low_u32};
use crate::rtsp::access::AuthState;
use crate::rtsp::{Requester, RtspHandler};
use crate::wake_socket::AsWakeSocket;

/// The longest name of a stream with the query, bytes.
const MAX_NAME: usize = 1_024;

/// The memory of a connection besides its largest frame, bytes.
const BESIDES_FRAME: usize = 64 << 10;

/// The rates of AAC by index (ISO/IEC 14496-3, table 1.18), Hz.
const AAC_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// The samples of an AAC frame.
const AAC_SAMPLES: u32 = 1_024;

/// The most by which a time of audio, rounded to ms, differs from the end of the frame before, ms.
const ROUNDING_MS: u32 = 2;

/// An RTMP connection.
#[derive(Debug)]
pub(crate) struct RtmpConnection {
    session: ServerSession,
    published: Option<Published>,
}

/// What a connection publishes.
#[derive(Debug)]
struct Published {
    /// The index of the live stream, and that of its audio if it may have AAC.
    stream: usize,
    audio: Option<usize>,
    /// The size of the length of a NAL unit, bytes; 0 before the configuration.
    length_bytes: usize,
    /// Parameter sets that precede the next frame.
    sets: Vec<u8>,
    /// The rate of the audio, Hz, and the timestamp after its last frame.
    sound: Option<(u32, Option<u32>)>,
    has_begun: bool,
    frame: Vec<u8>,
}

impl RtmpConnection {
    /// Creates a connection for frames of at most `frame_bytes`.
    pub(crate) fn new(frame_bytes: usize) -> Self {
        let most = frame_bytes.saturating_add(BESIDES_FRAME);
        let config = ServerConfig::default().with_max_in_progress_bytes(most);
        Self { session: ServerSession::new(config), published: None }
    }

    /// Returns whether it publishes.
    pub(crate) fn is_publishing(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.has_begun)
    }
}

/// The state from which publishers are served.
pub(crate) struct RtmpHandler<'a, 'b, B> {
    /// The state that RTSP and RTMP share.
    pub(crate) shared: &'a mut RtspHandler<'b, B>,
    pub(crate) connection: &'a mut RtmpConnection,
}

impl<B: AsWakeSocket> RtmpHandler<'_, '_, B> {
    /// Consumes `input` and appends replies to `output`, at most `room` bytes. Returns whether the
    /// connection continues.
    pub(crate) fn process_input(
        &mut self,
        input: &mut Vec<u8>,
        output: &mut Vec<u8>,
        pass: &mut AuthState,
        room: usize,
        requester: Requester,
    ) -> bool {
        let received = self.connection.session.handle_data(input);
        input.clear();
        let Ok((reply, events)) = received else { return false };
        let mut open = reply.len() <= room;
        for event in events {
            match event {
                ServerEvent::Publish { app, stream_key, .. } => {
                    if let Err(why) = self.publish(&app, &stream_key, pass, requester) {
                        output.extend(refusal(&why));
                        return false;
                    }
                }
                ServerEvent::Media { flv } => {
                    for tag in tags(&flv) {
                        open &= self.media(tag, requester).is_some();
                    }
                }
                ServerEvent::Eof => open = false,
                _ => {}
            }
        }
        output.extend(reply);
        if self.shared.live.take_frames_released() {
            self.shared.waker.wake();
        }
        open
    }

    /// Begins a publication, or returns why it is refused.
    fn publish(
        &mut self,
        app: &str,
        key: &str,
        pass: &mut AuthState,
        requester: Requester,
    ) -> Result<(), String> {
        if self.connection.published.is_some() {
            return Err("this connection already publishes a stream".to_owned());
        }
        let url = url_of(app, key).ok_or_else(|| format!("not a name of up to {MAX_NAME} B"))?;
        self.authenticate(&url, pass, requester)?;
        let name = url.path().trim_matches('/').to_owned();
        let stream = self.shared.publisher().may_publish(&name, pass.name(), requester);
        let stream = stream.map_err(|refused| refused.parts().1)?;
        let live = &mut *self.shared.live;
        if live.streams[stream].spec.codec != Codec::H264 {
            return Err(format!("RTMP carries H.264, and `{name}` has another `codec`"));
        }
        let is_aac = |audio: &usize| {
            live.streams[*audio].spec.audio.is_some_and(|(format, _)| format == Format::Aac)
        };
        let audio = live.audio_of(stream).filter(is_aac);
        live.announce_rtmp(stream, requester, video_track(), self.shared.now_ns);
        self.connection.published = Some(Published {
            stream,
            audio,
            length_bytes: 0,
            sets: Vec::new(),
            sound: None,
            has_begun: false,
            frame: Vec::new(),
        });
        Ok(())
    }

    /// Checks the credentials in the query of `url`: `user` and `pass`, or `token`.
    fn authenticate(
        &mut self,
        url: &Url,
        pass: &mut AuthState,
        requester: Requester,
    ) -> Result<(), String> {
        let value = |name: &str| {
            let mut pairs = url.query_pairs();
            pairs.find(|(of, _)| of == name).map(|(_, value)| value.into_owned())
        };
        let credentials = value("user").zip(value("pass"));
        let rejects = &mut self.shared.sessions.rejects;
        let request = Request::builder(Method::Announce, Version::V1_0).request_uri(url.clone());
        let refused = self.shared.authenticator.authenticate_url(
            &request.build(Vec::new()),
            credentials.as_ref().map(|(user, password)| (user.as_str(), password.as_str())),
            pass,
            requester,
            rejects,
            self.shared.now_ns,
        );
        match refused {
            None => Ok(()),
            Some(why) => Err(why),
        }
    }

    /// Processes media. Returns `None` if the connection must be closed.
    fn media(&mut self, tag: Tag<'_>, requester: Requester) -> Option<()> {
        let now_ns = self.shared.now_ns;
        let live = &mut *self.shared.live;
        let published = self.connection.published.as_mut()?;
        let stream = published.stream;
        // The server may have ended the publication of a silent publisher.
        live.of_connection(requester.connection).filter(|of| *of == stream)?;
        match tag {
            Tag::VideoConfig(config) => {
                let config = AvcDecoderConfigurationRecord::try_from(config).ok()?;
                published.length_bytes = usize::from(config.length_size_minus_one()) + 1;
                published.sets.clear();
                let sets = config.sequence_parameter_sets().chain(config.picture_parameter_sets());
                for set in sets {
                    published.sets.extend_from_slice(&[0, 0, 0, 1]);
                    published.sets.extend_from_slice(set.ok()?);
                }
            }
            Tag::AudioConfig(config) => {
                let (Some(audio), false) = (published.audio, published.has_begun) else {
                    return Some(());
                };
                let track = audio_track(config)?;
                published.sound = Some((track.clock_rate, None));
                live.announce_rtmp(audio, requester, track, now_ns);
            }
            Tag::Video { decode_ms, present_ms, units } => {
                if published.length_bytes == 0 {
                    return None;
                }
                published.frame.clear();
                published.frame.append(&mut published.sets);
                annex_b(units, published.length_bytes, &mut published.frame)?;
                if !published.has_begun {
                    published.has_begun = true;
                    live.record(stream, now_ns);
                    // Both tracks have one clock.
                    live.set_instant(stream, ticks(decode_ms, video_rate()), now_ns);
                    if let Some((audio, (rate, _))) = published.audio.zip(published.sound) {
                        live.set_instant(audio, ticks(decode_ms, rate), now_ns);
                    }
                }
                let timestamp = ticks(present_ms, video_rate());
                live.whole_frame(stream, &published.frame, timestamp, now_ns);
            }
            Tag::Audio { present_ms, frame } => {
                let Some((audio, (rate, next))) =
                    published.audio.zip(published.sound.as_mut()).filter(|_| published.has_begun)
                else {
                    return Some(());
                };
                // Times are rounded to ms; frames follow each other without gaps.
                let rounded = ticks(present_ms, *rate);
                let most = ROUNDING_MS * *rate / 1_000;
                let is_near =
                    |next: &u32| rounded.wrapping_sub(*next).cast_signed().unsigned_abs() <= most;
                let timestamp = next.filter(is_near).unwrap_or(rounded);
                *next = Some(timestamp.wrapping_add(AAC_SAMPLES));
                live.whole_frame(audio, frame, timestamp, now_ns);
            }
            Tag::Other("audio") => {}
            Tag::Other(_) => return None,
        }
        Some(())
    }
}

/// Returns the URL of the stream that an application and a stream key name, with the queries of
/// both. `None` if it is too long or none.
fn url_of(app: &str, key: &str) -> Option<Url> {
    if app.len() + key.len() > MAX_NAME {
        return None;
    }
    let (app, first) = app.split_once('?').unwrap_or((app, ""));
    let (key, second) = key.split_once('?').unwrap_or((key, ""));
    let path = format!("{}/{}", app.trim_matches('/'), key.trim_matches('/'));
    Url::parse(&format!("rtsp://server/{}?{first}&{second}", path.trim_matches('/'))).ok()
}

/// Returns the message that refuses a publication.
fn refusal(why: &str) -> Vec<u8> {
    let text = |name: &str, value: &str| (name.to_owned(), Amf0Value::String(value.to_owned()));
    let status = Command {
        name: "onStatus".to_owned(),
        transaction_id: 0.0,
        arguments: vec![
            Amf0Value::Null,
            Amf0Value::Object(vec![
                text("level", "error"),
                text("code", "NetStream.Publish.Denied"),
                text("description", why),
            ]),
        ],
    };
    let message = |payload| Message {
        chunk_stream_id: 3,
        timestamp: 0,
        message_type_id: msg_type::COMMAND_AMF0,
        message_stream_id: 1,
        payload,
    };
    let mut writer = ChunkWriter::new();
    writer.set_chunk_size(rtmp_runtime::server::DEFAULT_CHUNK_SIZE);
    let written = status.to_body().and_then(|body| writer.write(&message(body)));
    written.unwrap_or_default()
}

/// Returns the rate of timestamps of video, Hz.
fn video_rate() -> u32 {
    u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX)
}

/// Returns a time as a timestamp of this rate.
fn ticks(time_ms: u32, rate: u32) -> u32 {
    low_u32(u64::from(time_ms) * u64::from(rate) / 1_000)
}

/// Returns the track of video; its parameter sets come with the frames.
fn video_track() -> Track {
    Track { payload_type: 96, clock_rate: video_rate(), ..Track::default() }
}

/// Returns the track of AAC with this AudioSpecificConfig; `None` if it is not supported.
fn audio_track(config: &[u8]) -> Option<Track> {
    let [first, second, ..] = *config else { return None };
    let rate = AAC_RATES.get(usize::from((first & 7) << 1 | second >> 7));
    let format = AudioFormat::Aac {
        config: config.get(..2)?.to_vec(),
        sample_rate: *rate?,
        channels: u16::from(second >> 3 & 15),
    };
    let (clock_rate, description) = described(&format, Some(Format::Aac))?;
    Some(Track { payload_type: 97, clock_rate, description, ..Track::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::rtmp::talk;
    use crate::fuzzing::rtmp_publication;
    use crate::rtsp::access::Access;

    /// Returns the frames of video and audio that a publisher releases, and whether the replies
    /// have this text.
    fn published(app: &str, key: &str, text: &str) -> ([u64; 2], bool) {
        let (replies, released) = talk(&Access::open(), &rtmp_publication(app, key));
        let has = replies.windows(text.len()).any(|part| part == text.as_bytes());
        (released, has)
    }

    #[test]
    fn publications_name_their_stream_by_application_and_key() {
        for (app, key, released) in [
            ("live", "", [2, 1]),
            ("live/", "", [2, 1]),
            ("", "live", [2, 1]),
            ("live?token=x", "", [2, 1]),
            ("cam", "a?token=x", [0, 0]),
        ] {
            let found = published(app, key, "NetStream.Publish.Start");
            assert_eq!(found, (released, true), "{app} {key}");
        }
    }

    #[test]
    fn refusals_have_their_reason() {
        let long = "x".repeat(MAX_NAME + 1);
        for (app, key, why) in [
            ("film", "", "unknown live stream `film`"),
            ("cam", "", "has paths cam/NAME"),
            ("live", "a", "unknown live stream `live/a`"),
            ("live", &long, "not a name of up to 1024 B"),
        ] {
            assert_eq!(published(app, key, why), ([0, 0], true), "{app} {key}");
        }
        let publication = rtmp_publication("live", "?user=ann&pass=guess");
        let (replies, released) = talk(&Access::deny_all(), &publication);
        let text = String::from_utf8_lossy(&replies);
        assert!(released == [0, 0] && text.contains("a wrong user or password"), "{text}");
        let (replies, _) = talk(&Access::deny_all(), &rtmp_publication("live", ""));
        let text = String::from_utf8_lossy(&replies);
        assert!(text.contains("?user=NAME&pass=PASSWORD"), "{text}");
    }

    #[test]
    fn aac_is_described_by_its_configuration() {
        let track = audio_track(&[0x12, 0x10]).unwrap();
        let description = track.description;
        assert_eq!((track.clock_rate, description.clock.as_str()), (44_100, "44100/2"));
        assert!(description.parameters.unwrap().contains(";config=1210;"));
        assert!(audio_track(&[0x12]).is_none() && audio_track(&[0x17, 0x90]).is_none());
    }
}
