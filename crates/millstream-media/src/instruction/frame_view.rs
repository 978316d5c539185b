//! What an instruction is told of a frame, as it stands in the module's memory.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::FRAME_BYTES;
use crate::scheduler::client::{Client, Descriptor};

/// A frame that is released. Little-endian; later versions may know more, behind this.
#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct FrameView {
    /// The stream's place in the scenario, from 0.
    stream: U32,
    /// 0: I, 1: P, 2: B.
    kind: U32,
    /// Bytes of its RTP packets.
    bytes: U32,
    /// The client's number, as in `/status`.
    client: U32,
    /// Its number among the client's frames, from 0.
    number: U64,
    /// How long until its deadline, ns; less than 0 behind it.
    left_ns: I64,
    /// x: of each block of y frames so many may be lost.
    may_lose: U32,
    /// y.
    of: U32,
    /// Its place in its block, from 0.
    place: U32,
    /// Frames of the block that were lost.
    lost: U32,
    /// 1: it is optional.
    optional: U32,
    /// The client's frames that wait.
    waiting: U32,
    reserved: [U32; 2],
}

const _: () = assert!(size_of::<FrameView>() == FRAME_BYTES);

impl FrameView {
    /// Of a frame of `client`, of which `waiting` others wait.
    pub(crate) fn new(
        client: &Client,
        frame: &Descriptor,
        optional: bool,
        waiting: usize,
        now_ns: u64,
    ) -> Self {
        let small = |number: u64| U32::new(u32::try_from(number).unwrap_or(u32::MAX));
        let (place, lost) = client.in_block(frame.number);
        let left_ns = i128::from(frame.deadline_ns) - i128::from(now_ns);
        Self {
            stream: U32::new(client.media.stream),
            kind: small(frame.kind() as u64),
            bytes: U32::new(frame.bytes),
            client: small(client.session as u64),
            number: U64::new(frame.number),
            left_ns: I64::new(i64::try_from(left_ns).unwrap_or(i64::MAX)),
            may_lose: U32::new(client.media.lost),
            of: U32::new(client.media.of),
            place: small(place),
            lost: small(lost),
            optional: U32::new(u32::from(optional)),
            waiting: small(waiting as u64),
            reserved: [U32::ZERO; 2],
        }
    }
}
