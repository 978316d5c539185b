//! The router on real ports and real time.
//!
//! [`LiveRouter::open`] makes a router of a validated file and opens its ports;
//! [`LiveRouter::run`] forwards until it is told to stop or every capture has ended, then drains.
//!
//! | port | receives and transmits |
//! |---|---|
//! | [`interface`](InterfacePort) | a Linux interface: AF_XDP, a call for a batch sent; or AF_PACKET, a call for each packet sent |
//! | [`tap`](TapPort) | a TAP device that it makes |
//! | [`tun`](TunPort) | a TUN device that it makes |
//! | [`capture`](CapturePort) | pcap files |
//! | [`memory`](MemoryPort) | frames in memory: benches and tests |
//!
//! A path may have an extension, a WebAssembly module that sees its packets before they are routed
//! ([`Extensions`]).
//!
//! It may have a proxy, which stands between both ends of its TCP connections ([`ProxyCounters`]).
//!
//! What packets a path takes its rules say ([`Classifier`]), and its filter ([`Filters`]).
//!
//! One thread does everything, or one a core that the file says (`cores`), each with processes, a scheduler and
//! buffers of its own. A queue holds numbers of buffers, so a packet is copied where it comes in and where it leaves,
//! and nowhere between but where it goes to another core (`crossing`).

mod address;
mod admission;
mod assemble;
mod bell;
mod calibrate;
mod capture;
mod checksum;
mod classifier;
mod clock;
mod control;
mod core;
mod cores;
mod crossing;
mod extension;
mod filter;
mod flows;
mod function;
mod header;
mod held;
mod host;
mod icmpv6;
mod interface;
mod kernel;
mod line;
mod machine;
mod memory;
mod metrics;
mod nap;
mod nat;
mod ndp;
mod neighbours;
mod offload;
mod pool;
mod port;
mod proxy;
mod quiet;
mod report;
mod routes;
mod standing;
mod status;
mod tag;
mod tap;
mod tun;
mod tunnel;
mod vlan;

pub use admission::{admitted, reading};
pub use assemble::LiveRouter;
pub use calibrate::{Calibration, FRAME_BYTES, FunctionCost, calibrate};
pub use capture::CapturePort;
pub use classifier::Classifier;
pub use clock::{Clock, Worked};
pub use control::Control;
pub use extension::{ExtensionCounters, Extensions};
pub use filter::Filters;
pub use function::Forwarder;
pub use header::Header;
pub use interface::InterfacePort;
#[doc(hidden)]
pub use kernel::fuzzing::{rtnetlink, rtnetlink_messages};
pub use machine::{LiveMachine, PortCounters};
pub use memory::MemoryPort;
pub use metrics::metrics;
pub use nat::NatCounters;
pub use offload::{Cutter, Joined, VIRTIO_BYTES, Virtio};
pub use pool::{BUFFER_BYTES, Pool};
pub use port::{Port, PortError};
pub use proxy::ProxyCounters;
pub use report::{Ended, PathReport, PortReport, ProcessReport, Report};
pub use routes::{Hop, Routes};
pub use status::serve;
pub use tag::Tag;
pub use tap::TapPort;
pub use tun::TunPort;
pub use vlan::VlanPort;
