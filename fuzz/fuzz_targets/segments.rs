//! No frame that an interface hands over to be cut makes the router panic: each part fits a buffer, all are the whole, and
//! those that are joined again are what was cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_router::live::{BUFFER_BYTES, Cutter, Joined, Pool, VIRTIO_BYTES, Virtio};
use std::cell::RefCell;

const BUFFERS: u32 = 512;

thread_local! {
    static ROUTER: RefCell<(Cutter, Joined, Pool)> =
        RefCell::new((Cutter::default(), Joined::default(), Pool::new(BUFFERS)));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((said, frame)) = bytes.split_first_chunk::<VIRTIO_BYTES>() else { return };
    let virtio = Virtio::read(*said);
    assert_eq!(virtio.bytes(), *said);
    virtio.finish(&mut frame.to_vec());
    ROUTER.with_borrow_mut(|(cutter, joined, pool)| {
        let room = cutter.room();
        if frame.len() > room.len() {
            return;
        }
        room[..frame.len()].copy_from_slice(frame);
        // Small parts, too, as frames are short here.
        let size = virtio.size().unwrap_or(usize::from(said[2]));
        if !cutter.begin(frame.len(), size) {
            assert!(cutter.is_empty());
            return;
        }
        let mut packets = Vec::new();
        let mut parts = 0;
        while !cutter.is_empty() {
            let Some(packet) = cutter.next(pool) else {
                assert_eq!(pool.free(), 0);
                packets.drain(..).for_each(|packet| pool.release(packet));
                continue;
            };
            let length = pool.frame(packet).len();
            assert!(length > size.min(14) && length <= BUFFER_BYTES);
            packets.push(packet);
            parts += 1;
        }
        assert!(parts <= frame.len().div_ceil(size));
        let together = joined.begin(pool, &packets);
        if together > 1 {
            let sent: usize =
                joined.slices(pool, &packets, |slices| slices.iter().map(|of| of.len()).sum());
            assert!(sent <= VIRTIO_BYTES + frame.len());
            if together == parts {
                // But for what a lower layer has padded.
                let whole: Vec<u8> = joined.slices(pool, &packets, |slices| {
                    slices.iter().flat_map(|of| of.to_vec()).collect()
                });
                assert_eq!(
                    whole[whole.len() - size.min(8)..],
                    frame[whole.len() - VIRTIO_BYTES - size.min(8)..whole.len() - VIRTIO_BYTES]
                );
            }
        }
        packets.drain(..).for_each(|packet| pool.release(packet));
        assert_eq!(pool.free(), BUFFERS as usize);
    });
});
