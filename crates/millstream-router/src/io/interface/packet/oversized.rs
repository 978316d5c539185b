//! Second AF_PACKET socket for packets longer than the MTU: large segments of offloading senders
//! and of GRO.
//!
//! libpcap's ring holds only the head of such packets. A filter gives this socket exactly these
//! packets, each with its virtio header. The socket also sends coalesced packets.
//!
//! Source: packet(7); Documentation/networking/packet_mmap.rst of Linux (PACKET_VNET_HDR).

use rustix::io::{Errno, readv, writev};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::ids::PacketHandle;
use crate::net::header::ETHERNET_BYTES;
use crate::net::pool::Pool;
use crate::net::segmentation::{Coalescer, Segmenter, VIRTIO_BYTES, Virtio};
use crate::net::vlan_tag::{self, TAG_BYTES};

/// Receive buffer of the socket, bytes; less without CAP_NET_ADMIN.
const WAITING_BYTES: usize = 8 << 20;
/// Leading bytes that identify a packet: IP and TCP headers, or payload in their place.
const HEAD_BYTES: usize = 96;
/// Packets read per search, and packets kept for later searches, at most.
const MAX_BACKLOG: usize = 8;

/// The socket for oversized packets.
pub(super) struct OversizedSocket {
    socket: OwnedFd,
    /// Longest frame that the ring holds completely, without a tag, bytes.
    longest: usize,
    /// Packets read but not yet matched, oldest first.
    backlog: VecDeque<Read>,
}

/// A packet and its virtio header.
struct Read {
    bytes: Vec<u8>,
    header: Virtio,
}

impl OversizedSocket {
    /// Opens the socket for the interface with this index and MTU.
    pub(super) fn open(index: u32, mtu: u32) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0: no packet arrives before `bind`.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let longest = mtu.saturating_add(ETHERNET_BYTES);
        let load = |code: u32, k: u32| filter(code, k, 0);
        let mut program = [
            load(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
            // Accepts longer packets whole and drops others.
            filter(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, longest, 1),
            load(libc::BPF_RET | libc::BPF_K, u32::MAX),
            load(libc::BPF_RET | libc::BPF_K, 0),
        ];
        let program = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, WAITING_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, WAITING_BYTES)?;
        }
        bind(&socket, index)?;
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        Ok(Self { socket, longest, backlog: VecDeque::new() })
    }

    /// Returns whether the ring may hold only a part of the packet of `length` bytes that begins
    /// with `head`.
    #[inline]
    pub(super) fn covers(&self, head: &[u8], length: usize) -> bool {
        length > self.longest
            && (length > self.longest + TAG_BYTES || vlan_tag::split(head).is_none())
    }

    /// Loads the packet of `length` bytes that begins with `head` into `segmenter`; returns whether
    /// it was found and can be segmented.
    ///
    /// Ring and socket have nearly the same order: CPUs may overtake each other between the two,
    /// and either may have dropped packets.
    pub(super) fn begin(&mut self, head: &[u8], length: usize, segmenter: &mut Segmenter) -> bool {
        let found = self.backlog.iter().position(|of| matches(head, length, &of.bytes).is_some());
        if let Some(of) = found.and_then(|at| self.backlog.remove(at)) {
            let read = of.bytes.len();
            segmenter.room()[..read].copy_from_slice(&of.bytes);
            return begin_segmenting(head, length, read, of.header, segmenter);
        }
        for _ in 0..MAX_BACKLOG {
            let mut header = [0; VIRTIO_BYTES];
            let room = segmenter.room();
            let mut slices = [IoSliceMut::new(&mut header), IoSliceMut::new(room)];
            let read = match readv(&self.socket, &mut slices) {
                Ok(read) => read.saturating_sub(VIRTIO_BYTES),
                // The kernel cannot describe this packet and has discarded it.
                Err(Errno::INVAL) => continue,
                Err(_) => return false,
            };
            let header = Virtio::read(header);
            if matches(head, length, &room[..read]).is_some() {
                return begin_segmenting(head, length, read, header, segmenter);
            }
            if self.backlog.len() == MAX_BACKLOG {
                self.backlog.pop_front();
            }
            self.backlog.push_back(Read { bytes: room[..read].to_vec(), header });
        }
        false
    }

    /// Sends a coalesced packet.
    pub(super) fn send(
        &self,
        coalescer: &Coalescer,
        pool: &Pool,
        packets: &[PacketHandle],
    ) -> Result<(), Errno> {
        coalescer
            .slices(pool, packets, |slices: &[IoSlice<'_>]| writev(&self.socket, slices))
            .map(drop)
    }
}

/// Begins to segment the `read` bytes in `segmenter`, which match `head` and `length`.
fn begin_segmenting(
    head: &[u8],
    length: usize,
    read: usize,
    header: Virtio,
    segmenter: &mut Segmenter,
) -> bool {
    let whole = restore_tag(length - read, head, segmenter.room(), read);
    segmenter.begin(whole, header.size().unwrap_or(0))
}

/// Returns the bytes of the tag that `packet` lacks if it is the packet of `length` bytes that
/// begins with `head`.
fn matches(head: &[u8], length: usize, packet: &[u8]) -> Option<usize> {
    let tag = length.checked_sub(packet.len()).filter(|tag| [0, TAG_BYTES].contains(tag))?;
    let addresses = ETHERNET_BYTES as usize - 2;
    let (before, after) = (head.get(..addresses)?, head.get(addresses + tag..)?);
    let after = &after[..after.len().min(HEAD_BYTES)];
    let rest = packet.get(addresses..addresses + after.len())?;
    (packet.starts_with(before) && rest == after).then_some(tag)
}

/// Reinserts `tag` bytes of a VLAN tag, which the kernel removed and the ring has; returns the
/// packet's length.
fn restore_tag(tag: usize, head: &[u8], packet: &mut [u8], read: usize) -> usize {
    let at = ETHERNET_BYTES as usize - 2;
    if tag > 0 && read + tag <= packet.len() {
        packet.copy_within(at..read, at + tag);
        packet[at..at + tag].copy_from_slice(&head[at..at + tag]);
    }
    read + tag
}

/// Returns a BPF instruction that skips `skip` instructions if its condition is false.
fn filter(code: u32, k: u32, skip: u8) -> libc::sock_filter {
    // Codes have 16 bits.
    #[allow(clippy::cast_possible_truncation)]
    let code = code as u16;
    libc::sock_filter { code, jt: 0, jf: skip, k }
}

fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // Options are a few bytes long.
    #[allow(clippy::cast_possible_truncation)]
    let length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads `length` bytes of `value`, laid out as packet(7) and socket(7) say.
    // Addresses in it refer to values that outlive this call.
    #[allow(unsafe_code)]
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    // The constants have 16 bits, and the structure 20 bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let (family, every, length) = (
        libc::AF_PACKET as u16,
        (libc::ETH_P_ALL as u16).to_be(),
        size_of::<libc::sockaddr_ll>() as libc::socklen_t,
    );
    let address = libc::sockaddr_ll {
        sll_family: family,
        sll_protocol: every,
        sll_ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let address = std::ptr::from_ref(&address).cast();
    // SAFETY: the kernel reads `length` bytes of `address`, laid out as packet(7) says.
    #[allow(unsafe_code)]
    let result = unsafe { libc::bind(socket.as_raw_fd(), address, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use rustix::io::write;
    use rustix::net::socketpair;

    /// Builds a large TCP segment, unique by `number`.
    fn segment(number: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 1, 0, 2], [10, 2, 0, 2], 64);
        let tcp = ip.tcp(80, 4_000, u32::from(number) << 16, 100);
        tcp.write(&mut frame, &[number; 2_500]).expect("it fits");
        frame
    }

    /// Creates a socket that holds these packets in this order.
    fn holding(numbers: &[u8]) -> (OversizedSocket, OwnedFd) {
        let (kernel, socket) = socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let mut header = [0; VIRTIO_BYTES];
        // TCP over IPv4 with 1,000 bytes per segment.
        header[1] = 1;
        header[4..6].copy_from_slice(&1_000_u16.to_ne_bytes());
        for number in numbers {
            write(&kernel, &[&header[..], &segment(*number)].concat()).unwrap();
        }
        (OversizedSocket { socket, longest: 1_514, backlog: VecDeque::new() }, kernel)
    }

    /// Returns which of `numbers`, as read from the ring, were found and segmented.
    fn found(whole: &mut OversizedSocket, numbers: &[u8]) -> Vec<u8> {
        let (mut segmenter, mut pool) = (Segmenter::default(), Pool::new(3));
        let is_found = |number: &u8| {
            let frame = segment(*number);
            assert!(whole.covers(&frame[..200], frame.len()));
            let found = whole.begin(&frame[..200], frame.len(), &mut segmenter);
            let packets: Vec<PacketHandle> =
                std::iter::from_fn(|| segmenter.next(&mut pool)).collect();
            assert_eq!(packets.len(), if found { 3 } else { 0 });
            for packet in packets {
                assert!(pool.frame(packet)[54..].iter().all(|byte| byte == number));
                pool.release(packet);
            }
            found
        };
        numbers.iter().copied().filter(is_found).collect()
    }

    #[test]
    fn packets_are_matched_despite_losses_on_either_side() {
        let all: Vec<u8> = (0..8).collect();
        let find = |has: &[u8], wanted: &[u8]| {
            let (mut whole, _kernel) = holding(has);
            found(&mut whole, wanted)
        };
        assert_eq!(find(&all, &all), all);
        assert_eq!(find(&all, &[1, 0, 2, 5, 4, 3]), [1, 0, 2, 5, 4, 3], "reordered");
        assert_eq!(find(&all, &[3, 7]), [3, 7], "lost by the ring");
        assert_eq!(find(&[0, 4, 5, 6], &all), [0, 4, 5, 6], "lost by the socket");
        assert!(find(&[], &[1, 2]).is_empty());
        // The searched packet is beyond one search, and older packets are discarded.
        let many: Vec<u8> = (0..20).collect();
        assert_eq!(find(&many, &[18, 19, 12, 11, 0, 17]), [12, 11, 17]);
        let (mut whole, _kernel) = holding(&many);
        assert!(found(&mut whole, &[100, 101, 102]).is_empty());
        assert_eq!(whole.backlog.len(), MAX_BACKLOG);
    }

    /// Returns a tagged packet as the ring holds it, and as the socket does, without the tag.
    fn tagged() -> (Vec<u8>, Vec<u8>) {
        let whole: Vec<u8> = (0..3_000).map(|k: u32| (k * k).to_le_bytes()[0]).collect();
        let mut ring = whole.clone();
        ring.splice(12..12, [0x81, 0, 0x60, 7]);
        (ring, whole)
    }

    #[test]
    fn a_packet_is_matched_by_its_head_and_length() {
        let (ring, whole) = tagged();
        let head = &ring[..200];
        assert_eq!(matches(head, 3_004, &whole), Some(4));
        assert_eq!(matches(&whole[..200], 3_000, &whole), Some(0));
        assert_eq!(matches(&whole, 3_000, &whole), Some(0));
        for at in [0, 11, 12, 60, 100] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert_eq!(matches(head, 3_004, &other), None, "byte {at}");
        }
        for length in [0, 2_999, 3_000, 3_002, 3_005] {
            assert_eq!(matches(head, length, &whole), None, "{length} bytes");
        }
        assert_eq!(matches(&[], 3_000, &whole), None);
        assert_eq!(matches(head, 4, &[]), None);
    }

    #[test]
    fn a_stripped_tag_is_restored() {
        let (ring, whole) = tagged();
        let mut room = whole.clone();
        room.resize(4_000, 0);
        assert_eq!(restore_tag(4, &ring[..200], &mut room, 3_000), 3_004);
        assert_eq!(room[..3_004], ring);
        room[..3_000].copy_from_slice(&whole);
        assert_eq!(restore_tag(0, &whole[..200], &mut room, 3_000), 3_000);
        assert_eq!(room[..3_000], whole);
        // Longer than the buffer: not segmented.
        assert_eq!(restore_tag(4, &ring[..200], &mut room, 3_998), 4_002);
    }
}
