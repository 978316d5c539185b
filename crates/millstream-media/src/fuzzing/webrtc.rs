//! A server for browsers, without a network.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use super::with_handler;
use crate::rtsp::access::{Access, AuthState};
use crate::webrtc::handler::WebRtcHandler;
use crate::webrtc::peers::Peers;

thread_local! {
    /// The peers of this thread: targets run concurrently.
    static PEERS: RefCell<Peers> = {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        RefCell::new(Peers::open(address, 4).expect("a UDP port"))
    };
}

/// Returns the answers of a server to the bytes of a browser. Its streams are those of
/// [`requests`](super::requests); `live` is H.264.
///
/// # Panics
/// Panics if the repository's example clips are missing.
#[must_use]
pub fn browser_requests(bytes: &[u8]) -> Vec<u8> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut output = Vec::new();
    with_handler(&Access::open(), |serve| {
        serve(local, &mut |shared, requester| {
            PEERS.with_borrow_mut(|peers| {
                let mut handler = WebRtcHandler { shared, peers, local, open: true };
                let (input, mut pass) = (&mut bytes.to_vec(), AuthState::default());
                handler.process_input(input, &mut output, &mut pass, 1 << 20, requester);
                peers.end();
            });
        });
    });
    output
}
