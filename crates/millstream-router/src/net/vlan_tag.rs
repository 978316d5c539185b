//! VLAN tags: four bytes between the hardware addresses and the EtherType of a frame.
//!
//! ```text
//! to (6)  from (6)  0x8100  PCP (3 bits) DEI (1) VLAN (12)  type …
//! ```
//!
//! A frame in a buffer has no tag. Reception moves the tag to the packet's handle, transmission
//! inserts it again, and only classification reads it. Source: IEEE 802.1Q-2022, section 9.

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 4;
/// Bytes of both hardware addresses, which precede the tag.
const ADDRESSES: usize = 12;
/// EtherType of a tag.
const TAGGED: [u8; 2] = [0x81, 0];
/// EtherType of an outer (provider) tag, IEEE 802.1ad.
const PROVIDER: [u8; 2] = [0x88, 0xa8];
/// Mask of the VLAN identifier; 0 means none.
const VLAN: u16 = 0xfff;
/// Shift of the priority code point.
const PCP_SHIFT: u32 = 13;

/// A VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(u16);

impl Tag {
    /// Creates a tag with this tag control information.
    #[must_use]
    pub const fn new(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the tag control information.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the priority code point, 0 to 7.
    #[must_use]
    pub const fn pcp(self) -> u8 {
        self.0.to_be_bytes()[0] >> 5
    }

    /// Returns the VLAN identifier; `None` for a priority tag.
    #[must_use]
    pub const fn vlan(self) -> Option<u16> {
        match self.0 & VLAN {
            0 => None,
            vlan => Some(vlan),
        }
    }

    /// Returns the tag with another VLAN identifier.
    #[must_use]
    pub const fn with_vlan(self, vlan: u16) -> Self {
        Self(self.0 & !VLAN | vlan & VLAN)
    }

    /// Returns the tag with another priority code point (the low three bits of `pcp`).
    #[must_use]
    pub fn with_pcp(self, pcp: u8) -> Self {
        Self(self.0 & (u16::MAX >> 3) | u16::from(pcp) << PCP_SHIFT)
    }
}

/// Splits a frame with exactly one tag into tag, hardware addresses and the rest.
#[inline]
pub(crate) fn split(frame: &[u8]) -> Option<(Tag, &[u8; ADDRESSES], &[u8])> {
    if frame.get(ADDRESSES..ADDRESSES + 2) != Some(&TAGGED) {
        return None;
    }
    let (addresses, rest) = frame.split_first_chunk::<ADDRESSES>()?;
    let (tag, rest) = rest.split_first_chunk::<TAG_BYTES>()?;
    let single = rest.len() >= 2 && !rest.starts_with(&TAGGED) && !rest.starts_with(&PROVIDER);
    single.then_some((Tag(u16::from_be_bytes([tag[2], tag[3]])), addresses, rest))
}

/// Returns whether a frame still has a tag after [`split`]: it has several, or is truncated within
/// one.
#[inline]
pub(crate) fn is_stacked(frame: &[u8]) -> bool {
    matches!(frame.get(ADDRESSES..ADDRESSES + 2), Some(kind) if kind == TAGGED || kind == PROVIDER)
}

/// Writes `frame` with `tag` inserted to `into`.
pub(crate) fn insert(frame: &[u8], tag: Tag, into: &mut Vec<u8>) {
    let (addresses, rest) = frame.split_at(frame.len().min(ADDRESSES));
    into.clear();
    into.extend_from_slice(addresses);
    into.extend_from_slice(&TAGGED);
    into.extend_from_slice(&tag.0.to_be_bytes());
    into.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{SingleVlanHeader, SlicedPacket};
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// etherparse reads the tag as written, and `split` restores the frame.
        #[test]
        fn split_restores_an_inserted_tag(
            bits: u16, pcp in 0..8u8, vlan in 1..4095u16, addresses: [u8; 12],
            rest in vec(any::<u8>(), 0..60),
        ) {
            let tag = Tag::new(bits);
            let frame = [&addresses[..], &[8, 0], &rest].concat();
            let mut tagged = vec![7; 3];
            insert(&frame, tag, &mut tagged);
            let (found, to, from) = split(&tagged).unwrap();
            prop_assert_eq!((found, [&to[..], from].concat()), (tag, frame));
            let theirs = SingleVlanHeader::from_slice(&tagged[14..]).unwrap().0;
            prop_assert_eq!(tag.pcp(), theirs.pcp.value());
            prop_assert_eq!(tag.vlan().unwrap_or(0), theirs.vlan_id.value());
            let changed = tag.with_vlan(vlan).with_pcp(pcp);
            prop_assert_eq!((changed.vlan(), changed.pcp()), (Some(vlan), pcp));
            prop_assert_eq!(changed.bits() & 0x1000, bits & 0x1000, "the drop-eligible bit stays");
        }

        #[test]
        fn no_frame_makes_it_panic(
            frame in vec(any::<u8>(), 0..40), kind in 0..3usize
        ) {
            let mut frame = frame;
            if let Some(at) = frame.get_mut(12..14) {
                at.copy_from_slice(&[TAGGED, PROVIDER, [8, 0]][kind]);
            }
            let tags = SlicedPacket::from_ethernet(&frame).map_or(0, |of| of.link_exts.len());
            if frame.len() >= 18 && tags == 1 && kind == 0 {
                prop_assert!(split(&frame).is_some());
            }
            prop_assert!(!(split(&frame).is_some() && kind != 0));
            if kind == 0 && frame.len() >= 14 {
                prop_assert!(split(&frame).is_some() || is_stacked(&frame));
            }
        }
    }

    #[test]
    fn stacked_tags_are_not_split() {
        for (outer, inner) in [(TAGGED, TAGGED), (PROVIDER, TAGGED), (TAGGED, PROVIDER)] {
            let frame =
                [&[2; 12][..], &outer, &[0, 10], &inner, &[0, 20], &[8, 0], &[0; 40]].concat();
            assert_eq!(split(&frame), None);
            assert!(is_stacked(&frame));
        }
    }
}
