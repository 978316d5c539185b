//! Segmentation offload in software: splits segments that exceed a frame (TSO, USO), and coalesces
//! them again (GRO).
//!
//! Linux leaves large segments to the sending interface, and a receiving interface may coalesce
//! segments. The router [segments](segmenter) them at reception, so that classifiers, schedulers
//! and functions see plain packets. Segments of one packet that leave together are
//! [coalesced](coalescer) where the kernel accepts that.
//!
//! The kernel describes such packets by the virtio network header. Source: virtio 1.2, section
//! 5.1.6.

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

/// Writes the packet's length, as given by `ip`, into the IP header of `frame`.
fn set_length(frame: &mut [u8], ip: &Transport) {
    let is_v6 = is_v6(frame);
    let length = ip.end - ip.header - if is_v6 { 40 } else { 0 };
    // The IP length field bounds the difference.
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
