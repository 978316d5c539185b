//! The XDP program: redirects each packet to the AF_XDP socket of its queue, or passes it to the
//! kernel without one. Five instructions, loaded by bpf(2).

// Calling bpf(2) without a C library needs unsafe code; all of it is in `bpf` and `create_fd`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

// linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Generic mode: the kernel redirects socket buffers.
pub(super) const SKB_MODE: u32 = 1 << 1;
/// Native mode: the driver redirects packets.
pub(super) const DRIVER_MODE: u32 = 1 << 2;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instructions: u32,
    instructions_at: u64,
    license_at: u64,
    log: [u32; 4],
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key_at: u64,
    value_at: u64,
    flags: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Calls bpf(2); returns a new file descriptor, or 0.
fn bpf<T>(command: libc::c_long, attribute: &T) -> io::Result<RawFd> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attribute`, laid out as in linux/bpf.h.
    // Addresses in it refer to values that the callers keep until this returns.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attribute), size_of::<T>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(result).map_err(io::Error::other)
}

fn create_fd<T>(command: libc::c_long, attribute: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attribute)?;
    // SAFETY: these commands return a new file descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw_fd(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<()>().addr() as u64
}

/// The loaded program and its map of sockets. Loading needs CAP_BPF and CAP_NET_ADMIN, or
/// CAP_SYS_ADMIN; attaching does not.
pub(super) struct Redirect {
    sockets: OwnedFd,
    program: OwnedFd,
}

impl Redirect {
    /// Loads the program for an interface with up to `queues` receive queues.
    pub(super) fn load(queues: u32) -> io::Result<Self> {
        let map = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
        };
        let sockets = create_fd(MAP_CREATE, &map)?;
        let instruction = |code: u8, registers: u8, offset: u16, value: u32| {
            u64::from(code)
                | u64::from(registers) << 8
                | u64::from(offset) << 16
                | u64::from(value) << 32
        };
        let instructions: [u64; 6] = [
            instruction(0x61, 0x12, 16, 0), // r2 = xdp_md.rx_queue_index
            instruction(0x18, 0x11, 0, raw_fd(&sockets)), // r1 = the table, in two words
            0,
            instruction(0xb7, 0x03, 0, 2), // r3 = XDP_PASS, where there is no socket
            instruction(0x85, 0x00, 0, 51), // r0 = bpf_redirect_map(r1, r2, r3)
            instruction(0x95, 0x00, 0, 0), // return r0
        ];
        let license: &CStr = c"MIT";
        let load = ProgLoad {
            prog_type: PROG_TYPE_XDP,
            instructions: 6,
            instructions_at: address(&instructions),
            license_at: address(license),
            log: [0; 4],
            kernel_version: 0,
            flags: 0,
            name: *b"millstream\0\0\0\0\0\0",
            interface: 0,
            expected_attach_type: ATTACH_XDP,
        };
        let program = create_fd(PROG_LOAD, &load)?;
        Ok(Self { sockets, program })
    }

    /// Attaches the program to an interface; dropping the result detaches it.
    pub(super) fn attach(&self, interface: u32, mode: u32) -> io::Result<OwnedFd> {
        let program = raw_fd(&self.program);
        create_fd(
            LINK_CREATE,
            &LinkCreate { program, interface, attach_type: ATTACH_XDP, flags: mode },
        )
    }

    /// Redirects packets of `queue` to `socket` until the socket is closed.
    pub(super) fn send_to(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        let (key, value) = (queue, raw_fd(&socket.as_fd()));
        let update = MapUpdate {
            map: raw_fd(&self.sockets),
            padding: 0,
            key_at: address(&key),
            value_at: address(&value),
            flags: 0,
        };
        bpf(MAP_UPDATE_ELEM, &update).map(|_| ())
    }
}
