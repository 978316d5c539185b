//! The router on real ports and real time.
//!
//! [`LiveRouter::open`] builds a router from a validated file and opens its ports.
//! [`LiveRouter::run`] forwards until it is stopped or every capture has ended, then drains.
//!
//! | port | receives and transmits |
//! |---|---|
//! | [`interface`](InterfacePort) | a Linux interface, through AF_XDP or AF_PACKET |
//! | [`tap`](TapPort) | a TAP device that the port creates |
//! | [`tun`](TunPort) | a TUN device that the port creates |
//! | [`capture`](CapturePort) | pcap files |
//! | [`memory`](MemoryPort) | frames in memory: benches and tests |
//!
//! A path may have an extension, a WebAssembly module that sees its packets before they are routed
//! ([`Extensions`]).
//!
//! A path may have a TCP proxy ([`ProxyCounters`]).
//!
//! Rules ([`Classifier`]) and filters ([`Filters`]) select the packets of a path.
//!
//! One thread runs per configured core (`cores`), each with its own processes, scheduler and
//! buffers. Queues hold buffer handles; a packet is copied on receive, on transmit, and between
//! cores.

mod admission;
mod assemble;
mod autorate;
mod calibrate;
mod control;
mod core;
mod cores;
mod delay;
mod extension;
mod idle_detector;
mod inter_core;
mod machine;
mod metrics;
mod netlink;
mod paced_link;
mod path_delay;
mod report;
mod sampler;
mod sleep_calibrator;
mod snapshot;
mod status;

pub use crate::error::PortError;
pub use crate::io::capture::CapturePort;
pub use crate::io::interface::InterfacePort;
pub use crate::io::memory::MemoryPort;
pub use crate::io::port::Port;
pub use crate::io::tap::TapPort;
pub use crate::io::tun::TunPort;
pub use crate::io::vlan::VlanPort;
pub use crate::net::classifier::Classifier;
pub use crate::net::fib::{NextHop, Routes};
pub use crate::net::filter::Filters;
pub use crate::net::forwarder::Forwarder;
pub use crate::net::header::Header;
pub use crate::net::nat::NatCounters;
pub use crate::net::pool::{BUFFER_BYTES, Pool};
pub use crate::net::segmentation::{Coalescer, Segmenter, VIRTIO_BYTES, Virtio};
pub use crate::net::vlan_tag::Tag;
pub use crate::proxy::ProxyCounters;
#[allow(deprecated)]
pub use admission::reading;
pub use admission::{admitted, read_mode};
pub use assemble::LiveRouter;
pub use calibrate::{Calibration, FRAME_BYTES, FunctionCost, calibrate};
pub use control::Control;
pub use delay::{DelayReport, RecentDelay};
pub use extension::{ExtensionCounters, Extensions};
pub use machine::{LiveMachine, PortCounters};
pub use metrics::metrics;
pub use millstream_sync::clock::tsc::{Clock, CpuTimeSample};
#[doc(hidden)]
pub use netlink::fuzzing::{rtnetlink, rtnetlink_messages};
pub use path_delay::path_delays_ns;
pub use report::{Ended, PathReport, PortReport, ProcessReport, Report};
pub use status::serve;

/// Deprecated alias of [`CpuTimeSample`].
#[deprecated(note = "renamed to `CpuTimeSample`")]
pub type Worked = CpuTimeSample;
/// Deprecated alias of [`NextHop`].
#[deprecated(note = "renamed to `NextHop`")]
pub type Hop = NextHop;
/// Deprecated alias of [`Segmenter`].
#[deprecated(note = "renamed to `Segmenter`")]
pub type Cutter = Segmenter;
/// Deprecated alias of [`Coalescer`].
#[deprecated(note = "renamed to `Coalescer`")]
pub type Joined = Coalescer;
