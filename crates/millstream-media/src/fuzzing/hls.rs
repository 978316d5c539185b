//! A server for HLS players, without a network, and the packager of published frames.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::with_handler;
use crate::hls::handler::HlsHandler;
use crate::hls::packager::Packager;
use crate::hls::presentation::Presentation;
use crate::hls::{Hls, Product};
use crate::live::publishing::Track;
use crate::recording::segment::Fragment;
use crate::recording::tap::RecordedFrame;
use crate::rtsp::access::{Access, AuthState};
use crate::rtsp::session::Transport;

/// The beginning of the names of files in inputs: those of the server differ between runs.
const PREFIX: &str = "PREFIX";

/// Returns the answers of a server to the bytes of an HLS player. The stream `live` is published
/// and has two segments and a part. The path `cam/a` has a part, and more of them while a request
/// waits. The others are those of [`requests`](super::requests). `PREFIX` in the bytes is replaced
/// by the beginning of the names of files.
///
/// # Panics
/// Panics if the repository's example clips are missing.
#[must_use]
pub fn hls_requests(bytes: &[u8]) -> Vec<u8> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut output = Vec::new();
    with_handler(&Access::open(), |serve| {
        serve(local, &mut |shared, requester| {
            shared.live.hls = Hls::without_packager(&shared.live.streams);
            let path = shared.live.claim("cam/a", shared.sessions).ok();
            let mut of_path = 0;
            for (stream, name, parts) in [(Some(0), "live", 0..11), (path, "cam/a", 0..1)] {
                let Some(stream) = stream else { continue };
                let track = Track { payload_type: 96, clock_rate: 90_000, ..Track::default() };
                shared.live.announce(stream, (usize::MAX - stream, local), track, 1);
                if let Some(publisher) = &mut shared.live.streams[stream].publisher {
                    publisher.transport = Some(Transport::Interleaved(0, 1));
                }
                shared.live.record(stream, 1);
                let hls = &mut shared.live.hls;
                let Some(found) = hls.of_live(stream) else { continue };
                hls.add(found, Product::Begin(Arc::from(name), u64::MAX), 1);
                hls.add(found, Product::Tracks(vec![1; 9]), 1);
                parts.for_each(|number| hls.add(found, part(number % 5 == 0), 1));
                of_path = found;
            }
            let mut pass = AuthState::default();
            let names = shared.live.hls.prefix(0);
            let input = String::from_utf8_lossy(bytes).replace(PREFIX, &names);
            let input = &mut input.into_bytes();
            loop {
                let mut handler = HlsHandler { shared: &mut *shared, local };
                let (pieces, open) = handler.process_request(input, &mut pass, requester);
                pieces.iter().for_each(|piece| output.extend_from_slice(piece));
                shared.live.hls.add(of_path, part(true), 1);
                // A request that is held is answered at the end of its wait.
                let mut due = shared.live.hls.tick(u64::MAX);
                due.extend(shared.live.tick_on_demand(|_| false, false, u64::MAX));
                let is_due = due.contains(&requester.connection);
                if !open || pieces.is_empty() && !is_due {
                    break;
                }
            }
        });
    });
    output
}

fn part(begins_group: bool) -> Product {
    let key = begins_group;
    Product::Part(Fragment { bytes: vec![2; 7], ticks: 18_000, key, begins_group })
}

/// Packages the frames of a publication: video, or audio, with their times, ns.
///
/// # Panics
/// Panics if a part is no fragment, or the presentation exceeds its bounds.
pub(super) fn package(frames: impl Iterator<Item = RecordedFrame>) {
    let (mut packager, mut products) = (Packager::default(), Vec::new());
    let mut presentation = Presentation::new(0, 1_000_000);
    let mut add = |products: &mut Vec<Product>| {
        for product in products.drain(..) {
            if let Product::Part(part) = &product {
                assert_eq!(part.bytes.get(4..8), Some(&b"moof"[..]));
            }
            presentation.add(product, 1);
            presentation.assert_bounds();
            if let Some(text) = presentation.playlist("") {
                assert!(text.starts_with(b"#EXTM3U\n"));
            }
        }
    };
    for frame in frames {
        // Frames with damaged parameter sets are refused.
        let _ = packager.frame(&frame, &mut products);
        add(&mut products);
    }
    let _ = packager.end(&mut products);
    add(&mut products);
}
