//! Segments that are larger than a frame (segmentation offload): Linux leaves them to the interface that sends, which
//! cuts them; and what an interface received it may have joined.
//!
//! They are [cut](segmenter) where they come in, so that a packet is a packet to classifiers, schedulers and functions, and
//! segments of one that leave together are [joined](coalescer) again where the kernel can take them so. What the kernel
//! says of them, and is told, is the header of virtio's network device. Source: virtio 1.2, section 5.1.6.

mod coalescer;
mod segmenter;
#[cfg(test)]
mod tests;
mod virtio;

use etherparse::checksum::Sum16BitWords;

use crate::net::header::{Transport, is_v6};
pub use coalescer::Coalescer;
pub use segmenter::Segmenter;
pub use virtio::{VIRTIO_BYTES, Virtio};

/// Writes into the IP header of `frame` how long a packet with these parts is.
fn set_length(frame: &mut [u8], ip: &Transport) {
    let is_v6 = is_v6(frame);
    let length = ip.end - ip.header - if is_v6 { 40 } else { 0 };
    // IP can say of no longer ones.
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let header = &mut frame[ip.header..ip.start];
    if is_v6 {
        header[4..6].copy_from_slice(&length);
        return;
    }
    header[2..4].copy_from_slice(&length);
    header[10..12].copy_from_slice(&[0, 0]);
    let sum = Sum16BitWords::new().add_slice(header).ones_complement();
    header[10..12].copy_from_slice(&sum.to_ne_bytes());
}
