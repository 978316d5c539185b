//! An RTMP connection of a server without playback.

use rtmp_runtime::amf0::{Amf0Value, Command};
use rtmp_runtime::chunk::{ChunkWriter, Message};
use rtmp_runtime::message::msg_type;
use std::net::{IpAddr, Ipv4Addr};

use super::with_handler;
use crate::rtmp::{RtmpConnection, RtmpHandler};
use crate::rtsp::access::{Access, AuthState};

/// The sizes of a handshake's packets, bytes.
const HELLO: usize = 1_537;
const ECHO: usize = 1_536;

/// Sends bytes on an RTMP connection after its handshake, and checks that every frame is accounted
/// for. Returns whether the server answered a command.
///
/// # Panics
/// Panics if a frame is not accounted for, or the handshake fails.
#[must_use]
pub fn rtmp(bytes: &[u8]) -> bool {
    !talk(&Access::open(), bytes).0.is_empty()
}

/// Returns the replies to the bytes of a connection, and the frames of video and audio that were
/// released.
pub(crate) fn talk(access: &Access, bytes: &[u8]) -> (Vec<u8>, [u64; 2]) {
    with_handler(access, |serve| {
        let (mut replies, mut released) = (Vec::new(), [0; 2]);
        serve(IpAddr::V4(Ipv4Addr::LOCALHOST), &mut |handler, requester| {
            let mut connection = RtmpConnection::new(1 << 16);
            let mut pass = AuthState::default();
            let mut feed = |part: &[u8], output: &mut Vec<u8>| {
                let mut publisher =
                    RtmpHandler { shared: &mut *handler, connection: &mut connection };
                let input = &mut part.to_vec();
                publisher.process_input(input, output, &mut pass, 1 << 20, requester)
            };
            let mut hello = vec![0; HELLO];
            hello[0] = 3;
            assert!(feed(&hello, &mut Vec::new()) && feed(&[0; ECHO], &mut Vec::new()));
            let _ = bytes.chunks(16).all(|part| feed(part, &mut replies));
            let of = handler.live.total();
            let sum: u64 = of.released.iter().sum();
            assert_eq!(of.frames, sum + of.incomplete + of.before_entry + of.beyond);
            let counts = |at: usize| handler.live.streams[at].ingest.counts().released;
            released = [0, 1].map(|at| counts(at).iter().sum());
        });
        (replies, released)
    })
}

/// Returns the bytes of a client that publishes `app` and `key`, after the handshake: the
/// configurations of both tracks, two pictures and a frame of AAC.
#[must_use]
pub fn rtmp_publication(app: &str, key: &str) -> Vec<u8> {
    let text = |text: &str| Amf0Value::String(text.to_owned());
    let connect = Amf0Value::Object(vec![
        ("app".to_owned(), text(app)),
        ("tcUrl".to_owned(), text("rtmp://h/live")),
    ]);
    let commands = [
        ("connect", vec![connect]),
        ("createStream", vec![Amf0Value::Null]),
        ("publish", vec![Amf0Value::Null, text(key), text("live")]),
    ];
    let commands = (1u8..).zip(commands).map(|(number, (name, arguments))| {
        let (name, transaction_id) = (name.to_owned(), f64::from(number));
        let body = Command { name, transaction_id, arguments }.to_body();
        (3, msg_type::COMMAND_AMF0, 0, body.unwrap_or_default())
    });
    let config = [1, 66, 0, 30, 0xff, 0xe1, 0, 5, 0x67, 66, 0, 30, 9, 1, 0, 2, 0x68, 7];
    let media = [
        (6, msg_type::VIDEO, 0, [&[0x17, 0, 0, 0, 0][..], &config].concat()),
        (4, msg_type::AUDIO, 0, vec![0xaf, 0, 0x12, 0x10]),
        (6, msg_type::VIDEO, 0, vec![0x17, 1, 0, 0, 40, 0, 0, 0, 3, 0x65, 0x88, 5]),
        (4, msg_type::AUDIO, 20, vec![0xaf, 1, 1, 2, 3]),
        (6, msg_type::VIDEO, 40, vec![0x27, 1, 0, 0, 0, 0, 0, 0, 3, 0x41, 0x98, 6]),
    ];
    let mut writer = ChunkWriter::new();
    let message = |(chunk_stream_id, message_type_id, timestamp, payload)| {
        let message_stream_id = u32::from(message_type_id != msg_type::COMMAND_AMF0);
        Message { chunk_stream_id, timestamp, message_type_id, message_stream_id, payload }
    };
    let messages = commands.chain(media).map(message);
    messages.flat_map(|message| writer.write(&message).unwrap_or_default()).collect()
}
