//! The description of a released frame, as a filter gets it.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use crate::scheduler::client::{Client, Descriptor};

/// The size of a [`FrameView`], bytes.
pub(crate) const FRAME_BYTES: usize = 64;

/// The description of a released frame. Little-endian; later versions may append fields.
#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct FrameView {
    /// The index of the stream in the scenario, from 0.
    stream: U32,
    /// The frame type. 0: I, 1: P, 2: B.
    kind: U32,
    /// The size of the frame's RTP packets, bytes.
    bytes: U32,
    /// The number of the client, as in `/status`.
    client: U32,
    /// The frame's number among the client's frames, from 0.
    number: U64,
    /// The time to the deadline, ns; negative after the deadline.
    left_ns: I64,
    /// The loss window's x: at most x frames of each block of y may be lost.
    may_lose: U32,
    /// The loss window's y.
    of: U32,
    /// The position of the frame in its block, from 0.
    place: U32,
    /// The number of lost frames in the block.
    lost: U32,
    /// 1 if the frame is optional, else 0.
    optional: U32,
    /// The number of the client's waiting frames.
    waiting: U32,
    reserved: [U32; 2],
}

const _: () = assert!(size_of::<FrameView>() == FRAME_BYTES);

impl FrameView {
    /// Describes a frame of `client`, which has `waiting` other frames waiting.
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
