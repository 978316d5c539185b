//! Segments that are larger than a frame (segmentation offload): Linux leaves them to the interface that sends, which
//! cuts them; and what an interface received it may have joined.
//!
//! They are [cut](cut) where they come in, so that a packet is a packet to classifiers, schedulers and functions, and
//! segments of one that leave together are [joined](join) again where the kernel can take them so. What the kernel
//! says of them, and is told, is the header of virtio's network device. Source: virtio 1.2, section 5.1.6.

mod cut;
mod join;
#[cfg(test)]
mod tests;
mod virtio;

pub use cut::Cutter;
pub use join::Joined;
pub use virtio::{VIRTIO_BYTES, Virtio};
