//! Publishes what another server plays: packet by packet as it comes, so relays get even frames.
//!
//! Usage: `publisher SOURCE RELAY`, addresses of RTSP servers. Plays the video of SOURCE's `/clip`
//! by UDP, and publishes it as RELAY's `/clip`, interleaved, until a server ends the connection.
//! `benches/peers/media_servers.py` calls it. ffmpeg delays some of the frames that it passes on by
//! a period.

#![allow(clippy::unwrap_used)]

use millstream_player::Player;
use rtsp_types::Method;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

/// Sends a request over the connection; returns the answer's header.
fn ask(relay: &mut TcpStream, request: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let text = format!("{request} RTSP/1.0\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    relay.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        relay.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("RTSP/1.0 200 "), "{request}: {answer}");
    answer
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, relay] = &arguments[..] else {
        println!("run by benches/peers/media_servers.py");
        return;
    };
    let [source, address]: [SocketAddr; 2] = [source, relay].map(|text| text.parse().unwrap());
    let mut player = Player::open(source, "clip");
    let description = player.ask(Method::Describe, &[("Accept", "application/sdp".to_owned())]);
    let sdp = String::from_utf8(description.into_body()).unwrap();
    let [rtp, rtcp] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [rtp_port, rtcp_port] = [&rtp, &rtcp].map(|of| of.local_addr().unwrap().port());
    player.set_url(source, "clip/video");
    let set_up = player.set_up_to(&format!("{rtp_port}-{rtcp_port}"));
    assert!(set_up.status().is_success(), "{set_up:?}");
    let (media, track) = ("a=control:rtsp://", "trackID=0");
    // The relay's own URL of the track, in place of the source's.
    let lines = sdp.lines().map(|line| match line.strip_prefix("a=control:") {
        Some("*") => "a=control:*".to_owned(),
        Some(_) => format!("{media}{address}/clip/{track}"),
        None => line.to_owned(),
    });
    let sdp: String = lines.map(|line| line + "\r\n").collect();
    let mut relay = TcpStream::connect(address).unwrap();
    relay.set_nodelay(true).unwrap();
    let url = format!("rtsp://{address}/clip");
    let kind = "Content-Type: application/sdp\r\n";
    ask(&mut relay, &format!("ANNOUNCE {url}"), &format!("CSeq: 1\r\n{kind}"), &sdp);
    let transport = "CSeq: 2\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n";
    let answer = ask(&mut relay, &format!("SETUP {url}/{track}"), transport, "");
    let session = answer.lines().find_map(|line| line.strip_prefix("Session: ")).unwrap();
    let session = session.split(';').next().unwrap();
    ask(&mut relay, &format!("RECORD {url}"), &format!("CSeq: 3\r\nSession: {session}\r\n"), "");
    player.set_url(source, "clip");
    player.play();
    let mut packet = [0; 65_536];
    loop {
        let bytes = rtp.recv(&mut packet[4..]).unwrap();
        packet[..2].copy_from_slice(&[b'$', 0]);
        packet[2..4].copy_from_slice(&u16::try_from(bytes).unwrap().to_be_bytes());
        // The relay has ended.
        if relay.write_all(&packet[..4 + bytes]).is_err() {
            return;
        }
    }
}
